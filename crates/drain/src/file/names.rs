//! The names that the files of one log may have: `app.log` for the active one, `app.1234.log` for
//! the one of a second process, `app.2026-11-21T12-34-56Z.000001.log` for a rotated one, with `.zst` or
//! `.gz` behind it when compressed and `.tmp` behind that while it is being compressed.
//!
//! The number counts the rotations of the log, and goes on from the highest in the directory: it is the order of the
//! files, also where the clock was set back. Six digits at least, so that names sort in that order within a second.
//! Names of an earlier form, with a number that counts within one second, are read as older files.
//!
//! Nothing else is ever removed or renamed, and nothing in a record has a say in a name.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::calendar::parse_stamp;
use super::error::FileError;
use super::limits::{NAME_BYTES_MAX, NUMBER_MAX_EARLIER, SEQUENCE_DIGITS_MIN, SEQUENCE_MAX};

/// Ending of a file that is being made in the place of a segment.
pub(crate) const COMPACT_ENDING: &str = ".compact.tmp";
/// Ending of a file that is being made in the cold directory.
pub(crate) const COLD_ENDING: &str = ".cold.tmp";

/// The directory of a log and the two halves of its file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// Absolute path of the log's directory.
    pub(crate) dir: PathBuf,
    stem: String,
    /// Ending of the name with its dot, or empty.
    extension: String,
}

/// In which form a rotated file stands on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Gzip,
    Zstd,
    /// A compression, compaction or move that has not ended.
    Temporary,
}

/// Place of a rotated file among the others according to its name; ordered from the oldest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rotated {
    /// Number of the rotation; 0 in a name of the earlier form.
    pub(crate) sequence: u32,
    /// Time of the rotation.
    pub(crate) unix_s: i64,
    /// Number within the second, in a name of the earlier form; else 0.
    pub(crate) number: u32,
}

impl Names {
    /// Takes an absolute path apart and refuses names outside the allow-list.
    pub(crate) fn new(path: &Path) -> Result<Names, FileError> {
        let refuse = |why| FileError::Name {
            path: path.to_path_buf(),
            why,
        };
        let name = path
            .file_name()
            .ok_or_else(|| refuse("it ends in no file name"))?;
        let dir = path.parent().ok_or_else(|| refuse("it has no directory"))?;
        let name = name
            .to_str()
            .ok_or_else(|| refuse("the file name is not UTF-8"))?;
        if name.len() > NAME_BYTES_MAX {
            return Err(refuse(
                "the file name is longer than 200 bytes: choose a shorter one",
            ));
        }
        if !name.chars().all(allowed) {
            return Err(refuse(
                "the file name holds a character other than letters, digits, space and ._-+@=,~#%:",
            ));
        }
        let (stem, extension) = match name.rfind('.') {
            Some(dot) if dot > 0 => name.split_at(dot),
            _ => (name, ""),
        };
        if [".gz", ".zst", ".tmp"].contains(&extension) {
            return Err(refuse(
                "its ending is one of rotated files: choose another, such as .log",
            ));
        }
        Ok(Names {
            dir: dir.to_path_buf(),
            stem: stem.into(),
            extension: extension.into(),
        })
    }

    /// Returns the name that was configured.
    pub(crate) fn active(&self) -> String {
        format!("{}{}", self.stem, self.extension)
    }

    /// The name of a process that found the configured one taken; `attempt` counts from 1.
    pub(crate) fn beside(&self, pid: u32, attempt: u32) -> String {
        match attempt {
            0 | 1 => format!("{}.{pid}{}", self.stem, self.extension),
            _ => format!("{}.{pid}-{attempt}{}", self.stem, self.extension),
        }
    }

    /// The name of a rotated file.
    pub(crate) fn rotated(&self, stamp: &str, sequence: u32) -> String {
        format!(
            "{}.{stamp}.{sequence:0SEQUENCE_DIGITS_MIN$}{}",
            self.stem, self.extension
        )
    }

    /// Reads the name of a rotated file; `None` if it is not one of this log.
    pub(crate) fn parse_rotated(&self, name: &OsStr) -> Option<(Rotated, Form)> {
        let rest = name
            .to_str()?
            .strip_prefix(self.stem.as_str())?
            .strip_prefix('.')?;
        let (unix_s, rest) = parse_stamp(rest)?;
        let rest = rest.strip_prefix('.')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = rest.split_at_checked(digits)?;
        let (sequence, number) = parse_number(number)?;
        let form = match rest.strip_prefix(self.extension.as_str())? {
            "" => Form::Plain,
            ".gz" => Form::Gzip,
            ".zst" => Form::Zstd,
            ".gz.tmp" | ".zst.tmp" | COMPACT_ENDING | COLD_ENDING => Form::Temporary,
            _ => return None,
        };
        let rotated = Rotated {
            sequence,
            unix_s,
            number,
        };
        Some((rotated, form))
    }

    /// Returns true if a name may hold bytes that a process of this log has placed: the active file, one
    /// beside it, or a rotated one that is not compressed.
    pub(crate) fn may_hold_placements(&self, name: &OsStr) -> bool {
        let Some(text) = name.to_str() else { return false };
        text == self.active()
            || self.is_beside(text)
            || matches!(self.parse_rotated(name), Some((_, Form::Plain)))
    }

    /// Returns true if a name is that of a process that found the configured one taken.
    pub(crate) fn is_beside(&self, name: &str) -> bool {
        let middle = name
            .strip_prefix(self.stem.as_str())
            .and_then(|rest| rest.strip_prefix('.'))
            .and_then(|rest| rest.strip_suffix(self.extension.as_str()));
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        middle.is_some_and(|middle| match middle.split_once('-') {
            Some((pid, attempt)) => number(pid) && number(attempt),
            None => number(middle),
        })
    }
}

/// Reads the digits of a rotated name: the number of the rotation, or the one within a second of the earlier form.
fn parse_number(digits: &str) -> Option<(u32, u32)> {
    let number: u32 = digits.parse().ok().filter(|number| *number > 0)?;
    let is_padded = digits.starts_with('0');
    if digits.len() >= SEQUENCE_DIGITS_MIN {
        let is_ours = number <= SEQUENCE_MAX && (!is_padded || digits.len() == SEQUENCE_DIGITS_MIN);
        return is_ours.then_some((number, 0));
    }
    (!is_padded && number <= NUMBER_MAX_EARLIER).then_some((0, number))
}

/// Makes any text, such as a program's name, fit for a file name: what is not allowed becomes `_`.
///
/// ```
/// assert_eq!(logdrive_drain::file::safe_name("my/app\n1"), "my_app_1");
/// assert_eq!(logdrive_drain::file::safe_name(".."), "_.");
/// ```
pub fn safe_name(text: &str) -> String {
    let mut name = String::new();
    for (index, character) in text.chars().enumerate() {
        let hides = index == 0 && (character == '.' || character == '-' || character == '~');
        let character = if allowed(character) && !hides {
            character
        } else {
            '_'
        };
        // Room for an ending and for the number of the process.
        if name.len() + character.len_utf8() > NAME_BYTES_MAX / 2 {
            break;
        }
        name.push(character);
    }
    if name.is_empty() { "_".into() } else { name }
}

fn allowed(character: char) -> bool {
    character.is_alphanumeric() || " ._-+@=,~#%:".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::Zone;
    use logdrive_testkit::Random;

    fn names(path: &str) -> Names {
        Names::new(Path::new(path)).expect("a good path")
    }

    #[test]
    fn names_follow_the_documented_scheme() {
        let names = names("/logs/app.log");
        assert_eq!(names.active(), "app.log");
        assert_eq!(names.beside(77, 1), "app.77.log");
        assert_eq!(names.beside(77, 2), "app.77-2.log");
        assert_eq!(
            names.rotated("2026-11-21T12-34-56Z", 3),
            "app.2026-11-21T12-34-56Z.000003.log"
        );
    }

    /// Names with the plain number sorted 10 before 2, and after the clock was set back neither the names nor the
    /// rules of retention had the order of the files.
    #[test]
    fn rotated_names_sort_in_the_order_of_the_rotations() {
        let names = names("/logs/app.log");
        let (later, earlier) = (1_795_264_496, 1_795_264_400);
        let of = |unix_s, sequence| names.rotated(&Zone::Utc.stamp(unix_s), sequence);
        let within_a_second: Vec<String> = (1..2_000).map(|sequence| of(later, sequence)).collect();
        assert!(within_a_second.is_sorted());
        let set_back = [of(later, 9), of(later, 10), of(earlier, 11), of(earlier, 12)];
        let parsed = set_back.iter().map(|name| names.parse_rotated(OsStr::new(name)));
        assert!(parsed.map(|parsed| parsed.expect("ours").0).is_sorted());
        let earlier_form = "app.2026-11-21T12-34-56Z.12.log";
        let (rotated, _) = names.parse_rotated(OsStr::new(earlier_form)).expect("ours");
        assert_eq!((rotated.sequence, rotated.number), (0, 12));
        let new = names.parse_rotated(OsStr::new(&set_back[3])).expect("ours");
        assert!(rotated < new.0);
    }

    #[test]
    fn rotated_names_of_any_log_parse_back() {
        Random::rounds(2_000, |random| {
            let path = ["/a/app.log", "/a/app", "/a/.app", "/a/a.b.c", "/a/2026.1"][random.below(5) as usize];
            let names = names(path);
            let digits = random.below(30);
            let rotated = Rotated {
                unix_s: random.below(200_000_000_000) as i64,
                sequence: 1 + random.below(1 << digits).min(999_999_998) as u32,
                number: 0,
            };
            let name = names.rotated(&Zone::Utc.stamp(rotated.unix_s), rotated.sequence);
            for (ending, form) in [
                ("", Form::Plain),
                (".gz", Form::Gzip),
                (".zst", Form::Zstd),
                (".gz.tmp", Form::Temporary),
                (".zst.tmp", Form::Temporary),
                (".compact.tmp", Form::Temporary),
                (".cold.tmp", Form::Temporary),
            ] {
                let full = format!("{name}{ending}");
                assert_eq!(names.parse_rotated(OsStr::new(&full)), Some((rotated, form)));
            }
        });
    }

    #[test]
    fn foreign_names_are_not_ours() {
        let names = names("/logs/app.log");
        for name in [
            "",
            "app",
            "app.log",
            "app.log.1",
            "app.1.log",
            "app.2026-11-21.log",
            "app.2026-11-21T12-34-56Z.log",
            "app.2026-11-21T12-34-56Z.0.log",
            "app.2026-11-21T12-34-56Z.01.log",
            "app.2026-11-21T12-34-56Z.10000.log",
            "app.2026-11-21T12-34-56Z.000000.log",
            "app.2026-11-21T12-34-56Z.0000001.log",
            "app.2026-11-21T12-34-56Z.4294967295.log",
            "app.2026-11-21T12-34-56Z.1",
            "app.2026-11-21T12-34-56Z.1.log.bak",
            "app2.2026-11-21T12-34-56Z.1.log",
            "xapp.2026-11-21T12-34-56Z.1.log",
            "app.77.2026-11-21T12-34-56Z.1.log",
            "app.2026-11-21T12-34-56Z.1.log.zst.zst",
            "app.2026-11-21T12-34-56Z.1.log.tmp",
            "app.2026-11-21T12-34-56Z.1.txt",
        ] {
            assert_eq!(names.parse_rotated(OsStr::new(name)), None, "{name}");
        }
    }

    #[test]
    fn placements_are_sought_only_under_names_of_this_log() {
        let names = names("/logs/app.log");
        for name in [
            "app.log",
            "app.77.log",
            "app.77-2.log",
            "app.2026-11-21T12-34-56Z.1.log",
        ] {
            assert!(names.may_hold_placements(OsStr::new(name)), "{name}");
        }
        for name in [
            "app.x.log",
            "app..log",
            "app.log.gz",
            "other.log",
            "app.7-.log",
            "app",
        ] {
            assert!(!names.may_hold_placements(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn paths_outside_the_allow_list_are_refused() {
        let long = format!("/a/{}", "x".repeat(NAME_BYTES_MAX + 1));
        for path in [
            "/",
            "/a/..",
            "/a/b\nc",
            "/a/b\u{1b}[31m",
            "/a/app.zst",
            "/a/x.tmp",
            &long,
        ] {
            assert!(Names::new(Path::new(path)).is_err(), "{path:?}");
        }
        assert!(Names::new(Path::new("/a/журнал 1.log")).is_ok());
    }

    #[test]
    fn any_text_becomes_a_name_that_is_accepted() {
        Random::rounds(2_000, |random| {
            let text: String = (0..random.below(200))
                .filter_map(|_| char::from_u32(random.below(0x3000) as u32))
                .collect();
            let path = format!("/a/{}.log", safe_name(&text));
            assert!(Names::new(Path::new(&path)).is_ok(), "{text:?}");
        });
    }
}
