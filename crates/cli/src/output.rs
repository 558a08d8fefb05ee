//! Standard output, in large pieces, lines on standard error, and foreign text that goes there.

use crate::error::CliError;
use crate::limits::OUTPUT_BYTES;
use crate::paint::{ColorChoice, Paint, Style};
use logdrive_reader::put_safe;
use serde::Serialize;
use std::fmt::Display;
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

/// Writes an object as one line of JSON.
pub(crate) fn put_json(output: &mut Output, line: &impl Serialize) -> Result<(), CliError> {
    serde_json::to_writer(&mut *output, line).map_err(io::Error::from)?;
    Ok(output.write_all(b"\n")?)
}

/// Writes a line on standard error, beside the result. Where that is closed, the line is lost: the exit status, and
/// the log of a service, say what matters.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes a line with a title in its colour on standard error, as [`note`] does.
pub(crate) fn titled_note(paint: Paint, style: Style, title: &str, text: impl Display) {
    note(format_args!(
        "{} {text}",
        paint.the(style, format_args!("{title}:"))
    ));
}

/// Writes a service's report about itself, as [`titled_note`] does.
pub(crate) fn service_note(color: ColorChoice, title: &str, text: impl Display) {
    titled_note(color.for_stderr(), Style::Good, title, text);
}

/// `shop (process 4711)`
pub(crate) fn process_title(app: &str, pid: u32) -> String {
    format!("{app} (process {pid})")
}

/// Returns a foreign name on one line, without what a terminal would obey.
pub(crate) fn safe(text: &str) -> String {
    safe_bytes(text.as_bytes())
}

/// Returns foreign bytes as text without what a terminal would obey.
pub(crate) fn safe_bytes(text: &[u8]) -> String {
    let mut bytes = Vec::new();
    put_safe(&mut bytes, text);
    String::from_utf8_lossy(&bytes).into_owned()
}
