//! Standard output, in large pieces.

use crate::limits::OUTPUT_BYTES;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

/// Collects output and writes it in large pieces, whether or not it ends at a line; `std::io::stdout` would look for
/// line ends in all of it.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// What is not written yet.
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
