//! Descriptions of damage in the file `damage` of a session. Each is stored before anything is mended or written again, so
//! that a recoverer that is killed leaves it to the next one.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of the file: some hundred lines, which say nothing new beyond that.
const NOTES_BYTES_MAX: u64 = 64 * 1024;

/// Descriptions of the damage of one session, in the order in which it was found.
///
/// ```
/// use logdrive_ring::DamageNotes;
/// let dir = std::env::temp_dir().join(format!("logdrive-notes-{}", std::process::id()));
/// std::fs::create_dir(&dir)?;
/// DamageNotes::open(&dir).note("a ring is damaged");
/// let mut notes = DamageNotes::open(&dir);
/// notes.note("a ring is damaged");
/// assert_eq!(notes.lines(), ["a ring is damaged"]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct DamageNotes {
    path: PathBuf,
    /// Bytes of whole lines in the file.
    written: u64,
    lines: Vec<String>,
}

impl DamageNotes {
    /// Notes of the session in a directory, with those of earlier recoverers. One that was cut off by a kill is noted anew.
    pub fn open(session: &Path) -> Self {
        let path = session.join("damage");
        let mut text = Vec::new();
        // What cannot be read is found again, as far as it was not mended.
        if let Ok(file) = crate::own_file::open_existing(&path) {
            let _ = file.take(NOTES_BYTES_MAX).read_to_end(&mut text);
        }
        text.truncate(
            text.iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1),
        );
        let lines = String::from_utf8_lossy(&text)
            .lines()
            .map(str::to_owned)
            .collect();
        Self {
            path,
            written: text.len() as u64,
            lines,
        }
    }

    /// Descriptions, those of earlier recoverers first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Adds a description, unless it is there.
    pub fn note(&mut self, text: &str) {
        let text = text.replace('\n', " ");
        if self.lines.contains(&text) {
            return;
        }
        let line = format!("{text}\n");
        self.lines.push(text);
        if self.written + line.len() as u64 <= NOTES_BYTES_MAX {
            // Where there is no room for it, it is known to this recoverer alone.
            let _ = self.append(&line);
        }
    }

    fn append(&mut self, line: &str) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        let mut file = options
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.path)?;
        // What a kill has cut off.
        file.set_len(self.written)?;
        file.write_all(line.as_bytes())?;
        self.written += line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_a_kill_has_cut_off_is_noted_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("damage"), "a ring is damaged\nthe descr").expect("written");
        let mut notes = DamageNotes::open(dir.path());
        assert_eq!(notes.lines(), ["a ring is damaged"]);
        notes.note("the description is damaged");
        let lines = ["a ring is damaged", "the description is damaged"];
        assert_eq!(notes.lines(), lines);
        assert_eq!(DamageNotes::open(dir.path()).lines(), lines);
    }
}
