//! Standard output, in large pieces, and foreign text that goes there.

use crate::limits::OUTPUT_BYTES;
use logdrive_reader::put_safe;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

/// Collects output and writes it in large pieces, whether or not it ends at a line; `std::io::stdout` would look for
/// line ends in all of it.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// Output that is not written yet.
    pub(crate) bytes: Vec<u8>,
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> io::Result<Self> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self {
            file,
            bytes: Vec::with_capacity(2 * OUTPUT_BYTES),
        })
    }

    /// Writes if enough has been collected.
    #[inline]
    pub(crate) fn flush_if_full(&mut self) -> io::Result<()> {
        if self.bytes.len() >= OUTPUT_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        self.flush_if_full()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.bytes);
        self.bytes.clear();
        written
    }
}

/// Returns a foreign name on one line, without what a terminal would obey.
pub(crate) fn safe(text: &str) -> String {
    let mut bytes = Vec::new();
    put_safe(&mut bytes, text.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}
