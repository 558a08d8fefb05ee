//! The journal of systemd, by its cursor. A child process `journalctl` reads it: it is of the version that wrote the journal,
//! knows its compression and its files that rotate, and its library has a licence that not everybody may link to.

use super::export::{ExportDecoder, JournaldEntry};
use super::feed::{Group, Source};
use super::intake::Shared;
use crate::limits::GROUP_MAX;
use logdrive_reader::foreign::{ForeignParser, ForeignRecord};
use logdrive_ring::clock::unix_ns;
use logdrive_wire::Level;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Time for which entries are gathered once one has come.
const GATHER_TIME: Duration = Duration::from_millis(50);

/// Fields of the journal that have names of ours.
const NAMES: [(&str, &str); 6] = [
    ("_HOSTNAME", "host"),
    ("SYSLOG_IDENTIFIER", "app"),
    ("_PID", "pid"),
    ("_UID", "uid"),
    ("_SYSTEMD_UNIT", "unit"),
    ("_SYSTEMD_USER_UNIT", "user_unit"),
];
/// Fields that say what the record has elsewhere, or that only the journal means.
const LEFT_OUT: [&str; 6] = [
    "MESSAGE",
    "PRIORITY",
    "SYSLOG_FACILITY",
    "SYSLOG_PID",
    "SYSLOG_TIMESTAMP",
    "SYSLOG_RAW",
];

/// A journal that is read.
pub(crate) struct Journald {
    directory: Option<PathBuf>,
    cursor: Option<String>,
    /// Set until the entry of the cursor was looked for.
    is_at_cursor: bool,
    child: Option<(Child, ChildStdout)>,
    decoder: ExportDecoder,
    parser: ForeignParser,
    shared: Arc<Shared>,
}

impl Journald {
    pub(crate) fn new(directory: Option<PathBuf>, position: &Value, shared: Arc<Shared>) -> Self {
        Self {
            directory,
            cursor: position.get("cursor").and_then(Value::as_str).map(str::to_owned),
            is_at_cursor: false,
            child: None,
            decoder: ExportDecoder::default(),
            parser: ForeignParser::default(),
            shared,
        }
    }

    fn start(&mut self) -> Result<(), String> {
        let mut command = Command::new("journalctl");
        command.args(["-o", "export", "--follow", "--no-tail", "--quiet"]);
        if let Some(directory) = &self.directory {
            command.arg("--directory").arg(directory);
        }
        if let Some(cursor) = &self.cursor {
            command.arg(format!("--cursor={cursor}"));
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|cause| format!("journalctl cannot be started: {cause}"))?;
        let out = child.stdout.take().ok_or("journalctl has no output")?;
        (self.is_at_cursor, self.decoder) = (self.cursor.is_some(), ExportDecoder::default());
        self.child = Some((child, out));
        Ok(())
    }

    fn end(&mut self) {
        if let Some((mut child, _)) = self.child.take() {
            // One that has ended by itself cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Reads what is there into the decoder. `false` when nothing came within the time.
    fn receive(&mut self, timeout: Duration) -> Result<bool, String> {
        let Some((_, out)) = &mut self.child else {
            return Ok(false);
        };
        let time = rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let failed = |cause| format!("the output of journalctl cannot be read: {cause}");
        let mut ready = [PollFd::new(out, PollFlags::IN)];
        if poll(&mut ready, Some(&time)).map_err(|error| failed(error.into()))? == 0 {
            return Ok(false);
        }
        let mut bytes = vec![0; READ_BYTES];
        let count = out.read(&mut bytes).map_err(failed)?;
        if count == 0 {
            return Err("journalctl has ended: it cannot read the journal".to_owned());
        }
        self.decoder.push(bytes.get(..count).unwrap_or_default());
        Ok(true)
    }

    /// Takes an entry into a group.
    fn take(&mut self, entry: &JournaldEntry, group: &mut Group) {
        let cursor = entry.value("__CURSOR").map(String::from_utf8_lossy);
        if std::mem::take(&mut self.is_at_cursor) {
            if cursor.as_deref() == self.cursor.as_deref() {
                return;
            }
            // The entry of the cursor was removed: those behind it may have been, too.
            let lost = removed(
                self.cursor.as_deref().unwrap_or(""),
                cursor.as_deref().unwrap_or(""),
            );
            self.shared.add_lost(lost.unwrap_or(1));
            group.records.push(gap(lost));
        }
        group.records.push(record(&mut self.parser, entry));
        if let Some(cursor) = cursor {
            self.cursor = Some(cursor.into_owned());
        }
    }

    fn gather(&mut self, timeout: Duration) -> Result<Option<Group>, String> {
        if self.child.is_none() {
            self.start()?;
        }
        let mut group = Group {
            records: Vec::new(),
            position: Value::Null,
        };
        let mut bytes = 0;
        let mut until = Instant::now() + timeout;
        loop {
            while let Some(entry) = self.decoder.next_entry()? {
                if group.records.is_empty() {
                    until = Instant::now() + GATHER_TIME;
                }
                bytes += entry.fields.iter().map(|(_, value)| value.len()).sum::<usize>();
                self.take(&entry, &mut group);
                if group.records.len() >= GROUP_MAX.0 || bytes >= GROUP_MAX.1 {
                    until = Instant::now();
                    break;
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.receive(left) {
                Ok(_) => {}
                Err(why) if group.records.is_empty() => return Err(why),
                // It is told when nothing else has come.
                Err(_) => break,
            }
        }
        group.position = json!({"cursor": self.cursor});
        Ok((!group.records.is_empty()).then_some(group))
    }
}

impl Source for Journald {
    fn read(&mut self, timeout: Duration) -> Result<Option<Group>, String> {
        let gathered = self.gather(timeout);
        if gathered.is_err() {
            // It goes on at the cursor.
            self.end();
        }
        gathered
    }

    fn kept(&mut self, _: &Value) {}
}

impl Drop for Journald {
    fn drop(&mut self) {
        self.end();
    }
}

/// Number of entries between two cursors, as their sequence numbers say; `None` where these are of other journals.
fn removed(from: &str, to: &str) -> Option<u64> {
    let of = |cursor: &str, key: &str| {
        let mut parts = cursor.split(';').filter_map(|part| part.split_once('='));
        parts
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.to_owned())
    };
    let number = |cursor: &str| u64::from_str_radix(&of(cursor, "i")?, 16).ok();
    if of(from, "s")? != of(to, "s")? {
        return None;
    }
    number(to)?.checked_sub(number(from)? + 1)
}

/// A record in the place of entries that are gone.
fn gap(lost: Option<u64>) -> ForeignRecord {
    let mut record = ForeignRecord {
        unix_ns: Some(unix_ns()),
        level: Some(Level::Warn),
        target: "logdrive".to_owned(),
        message: b"entries were removed from the journal before they were read".to_vec(),
        ..ForeignRecord::default()
    };
    if let Some(lost) = lost {
        record.push_text("lost", &lost.to_string());
    }
    record
}

fn record(parser: &mut ForeignParser, entry: &JournaldEntry) -> ForeignRecord {
    let mut record = parser.read(entry.value("MESSAGE").unwrap_or_default());
    let text = |name: &str| {
        entry
            .value(name)
            .and_then(|value| std::str::from_utf8(value).ok())
    };
    let micros = |name: &str| text(name)?.parse::<u64>().ok()?.checked_mul(1_000);
    let time = micros("_SOURCE_REALTIME_TIMESTAMP").or_else(|| micros("__REALTIME_TIMESTAMP"));
    record.unix_ns = record.unix_ns.or(time).or_else(|| Some(unix_ns()));
    let priority = || {
        Some(match text("PRIORITY")? {
            "0" | "1" | "2" => Level::Fatal,
            "3" => Level::Error,
            "4" => Level::Warn,
            "5" | "6" => Level::Info,
            "7" => Level::Debug,
            _ => return None,
        })
    };
    record.level = record.level.or_else(priority);
    for (name, own) in NAMES {
        if let Some(value) = text(name) {
            record.push_text(own, value);
        }
    }
    if entry.value("SYSLOG_IDENTIFIER").is_none()
        && let Some(program) = text("_COMM")
    {
        record.push_text("app", program);
    }
    // Those with an underscore are journald's own, of which the ones with a name of ours are enough.
    for (name, value) in &entry.fields {
        let name = String::from_utf8_lossy(name);
        let is_own = NAMES.iter().any(|(known, _)| *known == name) || LEFT_OUT.contains(&&*name);
        if !name.starts_with('_') && !is_own {
            record.push_text(&name.to_ascii_lowercase(), &String::from_utf8_lossy(value));
        }
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_reader::foreign::ForeignValue;

    #[test]
    fn entries_are_records_with_their_process_and_unit() {
        let mut decoder = ExportDecoder::default();
        decoder.push(
            b"__CURSOR=s=a;i=1\n__REALTIME_TIMESTAMP=1795654800000001\nPRIORITY=4\n_HOSTNAME=web-1\n_PID=417\n\
              _COMM=shop\n_SYSTEMD_UNIT=shop.service\n_BOOT_ID=x\nORDER_ID=7\nMESSAGE=slow order\n\n",
        );
        let entry = decoder.next_entry().expect("the format").expect("an entry");
        let record = record(&mut ForeignParser::default(), &entry);
        assert_eq!(record.unix_ns, Some(1_795_654_800_000_001_000));
        assert_eq!(
            (record.level, record.message.as_slice()),
            (Some(Level::Warn), &b"slow order"[..])
        );
        let fields: Vec<(&str, &[u8])> = record
            .fields
            .iter()
            .filter_map(|(key, value)| match value {
                ForeignValue::Text(text) => Some((key.as_str(), text.as_slice())),
                _ => None,
            })
            .collect();
        let expected: [(&str, &[u8]); 5] = [
            ("host", b"web-1"),
            ("pid", b"417"),
            ("unit", b"shop.service"),
            ("app", b"shop"),
            ("order_id", b"7"),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn an_entry_that_is_gone_is_a_gap_with_its_count() {
        assert_eq!(removed("s=a;i=f;b=1", "s=a;i=12;b=1"), Some(2));
        assert_eq!(removed("s=a;i=f", "s=b;i=12"), None);
        assert_eq!(removed("s=a;i=12", "s=a;i=f"), None);
        let shared = Arc::new(Shared::default());
        let position = json!({"cursor": "s=a;i=1"});
        for (first, lost) in [("s=a;i=1", 0), ("s=a;i=5", 3)] {
            let mut journal = Journald::new(None, &position, Arc::clone(&shared));
            journal.is_at_cursor = true;
            let mut decoder = ExportDecoder::default();
            decoder.push(format!("__CURSOR={first}\nMESSAGE=x\n\n").as_bytes());
            let entry = decoder.next_entry().expect("the format").expect("an entry");
            let mut group = Group {
                records: Vec::new(),
                position: Value::Null,
            };
            journal.take(&entry, &mut group);
            assert_eq!(shared.counts().lost, lost);
            // The entry of the cursor is known; one behind a gap comes after a record that says so.
            assert_eq!(group.records.len(), if lost == 0 { 0 } else { 2 });
            assert_eq!(journal.cursor.as_deref(), Some(first));
        }
    }
}
