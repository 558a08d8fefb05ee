//! The owner of records: what a hello has to say of them, also when another process sends them.

use super::files::{at, read_text, replace};
use crate::TransportError;
use crate::hello::{Format, Hello};
use crate::limits::{NAME_BYTES_MAX, OWNER_BYTES_MAX};
use std::io;
use std::path::Path;

/// A session, its numbering, how its records look, and the process that they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Session that the records belong to.
    pub session: u128,
    /// The epoch of its numbers.
    pub epoch: u64,
    /// Format of the records.
    pub format: Format,
    /// Process that the records come from.
    pub pid: u32,
    /// Name of its program.
    pub app: String,
}

impl Owner {
    /// Lines of text of this process, without a name.
    pub fn new(session: u128, epoch: u64) -> Self {
        Self {
            session,
            epoch,
            format: Format::Text,
            pid: std::process::id(),
            app: String::new(),
        }
    }

    /// Says so in a hello.
    pub(super) fn fill_hello(&self, hello: &mut Hello) {
        (hello.session, hello.epoch) = (self.session, self.epoch);
        (hello.format, hello.pid) = (self.format, self.pid);
        hello.app.clone_from(&self.app);
    }

    fn to_text(&self) -> String {
        format!(
            "{:032x} {} {} {}\n{}\n",
            self.session, self.epoch, self.format as u8, self.pid, self.app
        )
    }

    fn from_text(text: &str) -> Option<Self> {
        let (numbers, app) = text.split_once('\n')?;
        let mut parts = numbers.split_whitespace();
        let session = u128::from_str_radix(parts.next()?, 16).ok()?;
        let epoch = parts.next()?.parse().ok()?;
        let format = Format::from_code(parts.next()?.parse().ok()?)?;
        let pid = parts.next()?.parse().ok()?;
        let app = app.strip_suffix('\n')?;
        (app.len() <= NAME_BYTES_MAX).then(|| Self {
            session,
            epoch,
            format,
            pid,
            app: app.to_owned(),
        })
    }

    /// Reads the file of a spool; `None` where there is none.
    pub(super) fn load(path: &Path) -> Result<Option<Self>, TransportError> {
        let Some(text) = read_text(path, OWNER_BYTES_MAX).map_err(at("read", path))? else {
            return Ok(None);
        };
        match Self::from_text(&text) {
            Some(owner) => Ok(Some(owner)),
            None => {
                let broken = io::Error::new(io::ErrorKind::InvalidData, "it names no session");
                Err(at("use", path)(broken))
            }
        }
    }

    /// Writes the file as a whole.
    pub(super) fn save(&self, path: &Path) -> Result<(), TransportError> {
        replace(path, &self.to_text()).map_err(at("write", path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_reads_back_and_no_part_of_it_does() {
        let mut owner = Owner::new(u128::MAX, 7);
        owner.format = Format::Json;
        owner.app = "a b\tc".to_owned();
        let text = owner.to_text();
        assert_eq!(Owner::from_text(&text), Some(owner));
        for length in 0..text.len() {
            assert_eq!(Owner::from_text(&text[..length]), None, "{length}");
        }
    }
}
