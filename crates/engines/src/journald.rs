//! The journal of systemd, over the socket of its native protocol: a datagram of fields for each record. Datagrams have no
//! acknowledgements: the socket keeps them while the journal is restarted.

use crate::address::EngineAddress;
use crate::batch::{EngineBatch, EngineRecord};
use crate::engine::Engine;
use crate::error::Refusal;
use crate::json::value_text;
use crate::limits::RESPONSE_TIMEOUT;
use crate::syslog::severity;
use logdrive_reader::iso_text;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// Socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";
/// Bytes of the name of a field that the journal takes.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a datagram: a socket takes 208 KiB by default, with what the kernel keeps beside it. Records have 64 KiB.
const DATAGRAM_BYTES_MAX: usize = 160 << 10;
/// Names that have a meaning of their own: fields of the record get another one.
const OWN_NAMES: &[&str] = &["MESSAGE", "PRIORITY", "SYSLOG_", "CODE_", "LOGDRIVE_"];

/// Client of the journal.
#[derive(Debug)]
pub(crate) struct Journald {
    path: PathBuf,
    socket: Option<UnixDatagram>,
    /// Number behind the last record that was sent: a batch that comes again begins there.
    next: u64,
    datagram: Vec<u8>,
}

impl Journald {
    pub(crate) fn new(address: &EngineAddress) -> Self {
        Self {
            path: match address.place.is_empty() {
                true => SOCKET.into(),
                false => format!("/{}", address.place).into(),
            },
            socket: None,
            next: 0,
            datagram: Vec::new(),
        }
    }

    /// Sends the records of a batch that were not sent. Returns those that are too long, by their place.
    fn send(&mut self, batch: &mut EngineBatch<'_>) -> io::Result<Vec<(usize, String)>> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(&self.path)?;
                socket.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
                socket
            }
        };
        let delivery = batch.delivery();
        let Self { next, datagram, .. } = self;
        let (mut sent, mut refused) = (Ok(()), Vec::new());
        batch.each(&mut |record| {
            if sent.is_err() {
                return;
            }
            datagram.clear();
            put_record(record, delivery, datagram);
            if datagram.len() > DATAGRAM_BYTES_MAX {
                refused.push((record.place, "too long for a datagram".to_owned()));
            } else if record.number >= *next {
                sent = socket.send(datagram).map(|_| ());
                if sent.is_ok() {
                    *next = record.number + 1;
                }
            }
        });
        sent?;
        self.socket = Some(socket);
        Ok(refused)
    }
}

impl Engine for Journald {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        match self.send(batch) {
            Ok(refused) if refused.is_empty() => Ok(()),
            Ok(refused) => Err(Refusal::Records(refused)),
            Err(cause) => Err(Refusal::Retry {
                why: format!("{}: {cause}", self.path.display()),
                after: None,
            }),
        }
    }
}

/// Appends a field.
fn put_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Name of a field as the journal takes it: capital letters, digits and underscores behind a letter.
fn journal_name(key: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    };
    let mut name: String = key.chars().map(letter).collect();
    let is_own = OWN_NAMES.iter().any(|own| name.starts_with(own));
    if is_own || !name.starts_with(|c: char| c.is_ascii_uppercase()) {
        name.insert_str(0, "FIELD_");
    }
    name.truncate(NAME_BYTES_MAX);
    name
}

/// Appends the fields of a record.
fn put_record(record: &mut EngineRecord<'_>, delivery: &str, out: &mut Vec<u8>) {
    let message = record.message();
    put_field(out, "MESSAGE", message.as_bytes());
    put_field(out, "PRIORITY", severity(record.level()).to_string().as_bytes());
    let id = format!("{delivery}-{}", record.number);
    put_field(out, "LOGDRIVE_ID", id.as_bytes());
    // The journal has the time at which a datagram came.
    put_field(out, "SYSLOG_TIMESTAMP", iso_text(record.unix_ns()).as_bytes());
    if let Some(process) = record.process() {
        put_field(out, "SYSLOG_IDENTIFIER", process.app.as_bytes());
        put_field(out, "SYSLOG_PID", process.pid.to_string().as_bytes());
        put_field(out, "LOGDRIVE_HOST", process.host.as_bytes());
    }
    let (file, line) = record.place_in_code();
    if !file.is_empty() {
        put_field(out, "CODE_FILE", file.as_bytes());
        put_field(out, "CODE_LINE", line.to_string().as_bytes());
    }
    if !record.target().is_empty() {
        put_field(out, "LOGDRIVE_TARGET", record.target().as_bytes());
    }
    let thread = record.thread().name;
    if !thread.is_empty() {
        put_field(out, "LOGDRIVE_THREAD", thread.as_bytes());
    }
    record.each_field(&mut |key, value| {
        if !key.is_empty() {
            put_field(out, &journal_name(key), value_text(value).as_bytes());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_journal_takes() {
        for (key, name) in [
            ("user", "USER"),
            ("http.status-code", "HTTP_STATUS_CODE"),
            ("_PID", "FIELD__PID"),
            ("7z", "FIELD_7Z"),
            ("priority", "FIELD_PRIORITY"),
            ("ü", "FIELD__"),
        ] {
            assert_eq!(journal_name(key), name);
        }
        assert_eq!(journal_name(&"a".repeat(100)).len(), 64);
        let mut out = Vec::new();
        put_field(&mut out, "MESSAGE", b"a\nb");
        assert_eq!(out, b"MESSAGE\n\x03\0\0\0\0\0\0\0a\nb\n");
    }
}
