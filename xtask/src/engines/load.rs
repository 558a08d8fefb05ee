//! The records of a proof: lines of JSON with a number that counts up.

use crate::shell::{Failure, Outcome};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The file that the sender follows.
#[derive(Debug)]
pub(super) struct Load {
    file: File,
    /// Number of the next record.
    pub(super) next: u64,
}

impl Load {
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let file = File::options().append(true).create_new(true).open(path);
        let file =
            file.map_err(|cause| Failure::new(format!("{} cannot be written: {cause}", path.display()), ""))?;
        Ok(Self { file, next: 0 })
    }

    /// Appends so many records.
    pub(super) fn append(&mut self, count: u64) -> Outcome {
        let end = self.next + count;
        let mut text = String::new();
        while self.next < end {
            put_line(self.next, "", &mut text);
            self.next += 1;
            if text.len() >= CHUNK_BYTES || self.next == end {
                self.write(&text)?;
                text.clear();
            }
        }
        Ok(())
    }

    /// Appends a record with further members.
    pub(super) fn append_poison(&mut self, members: &str) -> Outcome {
        let mut text = String::new();
        put_line(self.next, members, &mut text);
        self.next += 1;
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Outcome {
        self.file
            .write_all(text.as_bytes())
            .map_err(|cause| Failure::new(format!("the load cannot be written: {cause}"), ""))
    }
}

pub(super) fn put_line(number: u64, members: &str, out: &mut String) {
    let (seconds, micros) = (number / 100_000 % 3600, number % 100_000 * 10);
    let (minute, second) = (seconds / 60, seconds % 60);
    let hour = this_hour();
    let (user, total) = (number % 977, number % 10_000);
    // Writing to memory does not fail.
    let _ = writeln!(
        out,
        "{{\"time\":\"{hour}:{minute:02}:{second:02}.{micros:06}Z\",\"level\":\"INFO\",\
         \"message\":\"order taken\",\"n\":{number},\"user\":\"user-{user}\",\"total\":{total}.5{members}}}"
    );
}

/// First and last time of records, in nanoseconds since 1970.
pub(super) fn times() -> Result<(u64, u64), Failure> {
    let text = crate::shell::Call::new("date")
        .args(["-d", &format!("{}:00:00Z", this_hour()), "+%s"])
        .stdout()?;
    let seconds: u64 = text.trim().parse().unwrap_or(0);
    Ok((seconds * 1_000_000_000, (seconds + 3600) * 1_000_000_000))
}

/// Date and hour of the start: engines refuse records that are old, and Loki does not look for those of some hours ago in its
/// memory.
fn this_hour() -> &'static str {
    static HOUR: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    HOUR.get_or_init(|| {
        let hour = crate::shell::Call::new("date")
            .args(["-u", "+%Y-%m-%dT%H"])
            .stdout();
        hour.map_or_else(|_| "2026-01-01T00".to_owned(), |hour| hour.trim().to_owned())
    })
}

/// Number of the record that an object of JSON is.
pub(super) fn number(object: &str) -> Option<u64> {
    let rest = object.split("\"n\":").nth(1)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

/// Letters that no compression makes much fewer.
pub(super) fn noise(bytes: usize) -> String {
    (0..bytes).map(|_| fastrand::alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_and_its_number_is_read_back() {
        let mut text = String::new();
        put_line(1_234_567, ",\"more\":1", &mut text);
        let value: serde_json::Value = serde_json::from_str(&text).expect("json");
        assert_eq!((&value["n"], &value["more"]), (&1_234_567.into(), &1.into()));
        assert_eq!(number(&text), Some(1_234_567));
    }
}
