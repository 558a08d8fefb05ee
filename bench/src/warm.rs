//! Log files whose pages stay in memory: overwritten in place, never emptied.
//!
//! Emptying a file gives its pages back, and the next pass has to get others.
//! In a virtual machine that hands free memory to its host, such pages are
//! taken from the host again one by one, and a pass over them takes from 1.2
//! to 10 times as long, at random. That is the machine and not the logger. So
//! every subject writes over the same pages, which hold zeros before it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::{BenchError, Result};

const CHUNK_BYTES: usize = 1 << 20;

/// Makes the file hold zeros only, `least_bytes` or as many as it is long
/// already, without giving back a page.
pub fn blank(path: &Path, least_bytes: u64) -> Result<()> {
    let mut file = open_in_place(path)?;
    let length = file.metadata().map_err(BenchError::io("examine", path))?.len();
    let zeros = vec![0; CHUNK_BYTES];
    let mut left = length.max(least_bytes);
    while left > 0 {
        let bytes = CHUNK_BYTES.min(usize::try_from(left).unwrap_or(CHUNK_BYTES));
        file.write_all(&zeros[..bytes])
            .map_err(BenchError::io("write", path))?;
        left -= bytes as u64;
    }
    Ok(())
}

/// Opens a file for writing at its start, and creates it where it is missing.
pub fn open_in_place(path: &Path) -> Result<File> {
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(BenchError::io("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_file_keeps_its_length_and_is_written_from_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("warm.log");
        std::fs::write(&path, "old text").unwrap();
        blank(&path, 4).unwrap();
        open_in_place(&path).unwrap().write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new\0\0\0\0\0");
    }
}
