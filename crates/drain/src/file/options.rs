//! Options of a file sink, and their text form, which a session keeps so that recovery after a kill can find and continue
//! the same file.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::FileError;
use super::limits::{HEADER_BYTES_MAX, OPTIONS_TEXT_BYTES_MAX, PATH_BYTES_MAX};
use crate::schema::{self, FILE, Kind, PROGRAM, Row, SESSION, Setting, Value, Word, Words, Wrong, limits};

/// Period after which a file is rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At each full hour.
    Hourly,
    /// At each midnight.
    Daily,
    /// At each multiple of so many seconds since 1970 (UTC); at least 1.
    Seconds(u64),
}

/// Compression of rotated files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compress {
    /// Not at all.
    #[default]
    None,
    /// To `.gz`, with feature `gzip`.
    Gzip,
    /// To `.zst`, with feature `zstd`: about four times faster than gzip, and smaller.
    Zstd,
}

crate::words!(Compress {
    Zstd = "zstd": "four times as fast as gzip, and smaller",
    Gzip = "gzip": "what old tools read",
    None = "none": "not at all",
});

impl Setting for Every {
    fn to_value(&self) -> Option<Value> {
        Some(match self {
            Self::Hourly => Value::Word("hourly"),
            Self::Daily => Value::Word("daily"),
            Self::Seconds(seconds) => Value::Time(Duration::from_secs(*seconds)),
        })
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        match value {
            Value::Word("hourly") => Ok(Self::Hourly),
            Value::Word("daily") => Ok(Self::Daily),
            value => Duration::from_value(value).map(|time| Self::Seconds(time.as_secs())),
        }
    }
}

/// Periods after which a file is rotated.
const PERIODS: &[Word] = &[("hourly", "at each full hour"), ("daily", "at midnight")];

crate::options! {
    /// Path of a log, when its file is rotated and which rotated files are kept.
    ///
    /// ```
    /// use logdrive_drain::file::{Compress, Every, FileOptions};
    ///
    /// let mut options = FileOptions::new("/var/log/shop/shop.log");
    /// options.rotate_bytes = Some(64 << 20);
    /// options.rotate_every = Some(Every::Daily);
    /// options.keep_files = Some(10);
    /// options.compress = Compress::Gzip;
    /// assert_eq!(FileOptions::from_text(&options.to_text())?, options);
    /// # Ok::<(), logdrive_drain::file::FileError>(())
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FileOptions {
        /// The file. In an agent's configuration {app} stands for the application's name, {pid} for the process number and
        /// {uid} for the number of its user; then it is a file for each. Missing directories are made. Rotated files stand
        /// beside it, as NAME.2026-11-21T12-34-56Z.000001.log.
        pub path: PathBuf => Row::of(Kind::LogPath(limits::PATH_BYTES_MAX))
            .unset("no path, which type = \"file\" needs", "\"/var/log/logdrive/{app}.log\"")
            .scope(FILE | SESSION),
        /// A new file is begun before one would grow beyond this. A chunk of lines that is larger gets a file of its own.
        pub rotate_bytes: Option<u64> => Row::of(Kind::Size(limits::ROTATE_BYTES)).off(),
        /// A new file is begun when the first record of a new period comes; off is by size alone. A time is counted from
        /// 1970, in UTC.
        pub rotate_every: Option<Every> => Row::of(Kind::Time(limits::ROTATE_EVERY)).words(PERIODS).off(),
        /// Days, hours and the time in file names are local ones; else UTC.
        pub local_time: bool => Row::of(Kind::Flag).scope(SESSION | PROGRAM),
        /// Rotated files that are kept of each file; the active one does not count. With 64 MiB each, ten are about 60 MB
        /// after compression.
        pub keep_files: Option<u32> => Row::of(Kind::Count(limits::KEEP_FILES)).off(),
        /// Rotated files are removed when their last record is older than this.
        pub keep_age: Option<Duration> => Row::of(Kind::Time(limits::KEEP_AGE)).off(),
        /// Bytes that the rotated files of one file may take, as they are after compression.
        pub keep_bytes: Option<u64> => Row::of(Kind::Size(limits::KEEP_BYTES)).off(),
        /// Compression of rotated files, by a thread of low priority.
        pub compress: Compress => Row::of(Kind::Word).words(Compress::WORDS),
        /// A symbolic link that always names the file written last. An existing file that is no link is left alone.
        pub newest_link: Option<PathBuf> => Row::of(Kind::LogPath(limits::PATH_BYTES_MAX))
            .unset("no link", "\"/var/log/logdrive/{app}.newest\""),
        /// Lines at the top of every new file.
        pub header: Option<String> => Row::of(Kind::Text(HEADER_BYTES_MAX))
            .unset("none", "\"# shop, production\""),
        /// Permissions of new files, less the process's umask.
        pub mode: u32 => Row::of(Kind::Mode { most: 0o664, least: 0o600 }),
        /// Permissions of directories that have to be made, less the process's umask.
        pub dir_mode: u32 => Row::of(Kind::Mode { most: 0o2775, least: 0o700 }),
        /// Accept a directory that is a link, that others own or that everybody may write to: then another user can make the
        /// process write into files of his choice.
        pub trust_directory: bool => Row::of(Kind::Flag),
        /// The file is opened, or made, with its first line instead of at the start; then what is wrong with it is reported
        /// in the log, and tried again, instead of being an error of the start.
        pub open_late: bool => Row::of(Kind::Flag).scope(SESSION | PROGRAM),
    }
    and {
        /// Treatment of rotated files beside their compression and their removal.
        pub rotated: RotatedFiles,
    }
    with {
        /// Leave the newest rotated file as it is until the next one comes, for programs that still read it.
        delay_compress: (rotated.delay_compress) => Row::of(Kind::Flag),
        /// A directory for rotated files that are older than cold_after, on this disk or another. Segments are compressed again
        /// on their way there, with zstd-19. The rules of retention count files of both directories.
        cold_dir: (rotated.cold_dir) => Row::of(Kind::Path(limits::PATH_BYTES_MAX))
            .unset("all stay beside the file", "\"/mnt/archive/shop\""),
        /// Rotated files go to cold_dir when their last record is older than this. Without cold_dir segments are compressed again
        /// in their place, with zstd-19, by a thread of low priority, behind the next rotation.
        cold_after: (rotated.cold_after) => Row::of(Kind::Time(limits::KEEP_AGE))
            .unset("1 day with cold_dir, else never", "\"1d\""),
    }
}

/// Treatment of rotated files beside their compression and their removal.
///
/// ```
/// use logdrive_drain::file::FileOptions;
/// let mut options = FileOptions::new("shop.segment");
/// options.rotated.cold_dir = Some("/mnt/archive".into());
/// options.rotated.cold_after = Some(std::time::Duration::from_secs(86_400));
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotatedFiles {
    /// The newest one stays as it is until the next one comes.
    pub delay_compress: bool,
    /// Directory for those that are older than `cold_after`.
    pub cold_dir: Option<PathBuf>,
    /// Age at which they go there, or at which segments are compressed again in their place.
    pub cold_after: Option<Duration>,
    /// Segments are not compacted: somebody reads them from block to block.
    pub keeps_blocks: bool,
}

impl FileOptions {
    /// A file that grows for ever: nothing is rotated or removed unless told.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        FileOptions {
            path: path.into(),
            rotate_bytes: None,
            rotate_every: None,
            local_time: false,
            keep_files: None,
            keep_age: None,
            keep_bytes: None,
            compress: Compress::None,
            rotated: RotatedFiles::default(),
            newest_link: None,
            mode: 0o640,
            dir_mode: 0o750,
            trust_directory: false,
            header: None,
            open_late: false,
        }
    }

    /// The same with absolute paths, for a process with another working directory.
    pub fn absolute(&self) -> Result<Self, FileError> {
        let mut options = self.clone();
        options.path = absolute(&self.path)?;
        options.rotated.cold_dir = self.rotated.cold_dir.as_deref().map(absolute).transpose()?;
        options.newest_link = self.newest_link.as_deref().map(absolute).transpose()?;
        Ok(options)
    }

    /// Returns true if any rule removes rotated files.
    pub(crate) fn removes(&self) -> bool {
        self.keep_files.is_some() || self.keep_age.is_some() || self.keep_bytes.is_some()
    }

    /// The header with an end to its last line; empty without one.
    pub(crate) fn header_bytes(&self) -> Vec<u8> {
        let mut header = self.header.clone().unwrap_or_default().into_bytes();
        if !header.is_empty() && !header.ends_with(b"\n") {
            header.push(b'\n');
        }
        header
    }

    /// Refuses what could not work, before anything is touched.
    ///
    /// # Errors
    /// With the option, and what it may be.
    pub fn check(&self) -> Result<(), FileError> {
        let refuse = |what: String| Err(FileError::Options { what });
        if self.rotate_bytes == Some(0) {
            return refuse("rotate_bytes is 0: give at least 1, or leave it out".into());
        }
        if self.rotate_every == Some(Every::Seconds(0)) {
            return refuse("rotate_every is 0 seconds: give at least 1, or leave it out".into());
        }
        if self.mode & !0o777 != 0 || self.mode & 0o600 != 0o600 {
            return refuse(format!("mode {:o} is not between 600 and 777", self.mode));
        }
        if self.dir_mode & !0o7777 != 0 || self.dir_mode & 0o700 != 0o700 {
            return refuse(format!("dir_mode {:o} shuts out the owner", self.dir_mode));
        }
        if self
            .header
            .as_ref()
            .is_some_and(|header| header.len() > HEADER_BYTES_MAX)
        {
            return refuse(format!("the header is longer than {HEADER_BYTES_MAX} bytes"));
        }
        if self.rotated.cold_dir.is_some() && self.rotated.cold_dir.as_deref() == self.path.parent() {
            return refuse("cold_dir is the directory of the log: give another".into());
        }
        for path in [
            Some(&self.path),
            self.newest_link.as_ref(),
            self.rotated.cold_dir.as_ref(),
        ]
        .into_iter()
        .flatten()
        {
            let bytes = path.as_os_str().as_bytes();
            if bytes.is_empty() || bytes.len() > PATH_BYTES_MAX || bytes.contains(&0) {
                return refuse(format!("a path is empty or longer than {PATH_BYTES_MAX} bytes"));
            }
        }
        let missing = match self.compress {
            Compress::Gzip if !cfg!(feature = "gzip") => "gzip",
            Compress::Zstd if !cfg!(feature = "zstd") => "zstd",
            _ => return Ok(()),
        };
        refuse(format!("this program was built without the feature `{missing}`"))
    }

    /// The options as `key = value` lines: printable ASCII, all other bytes as `\xNN`.
    pub fn to_text(&self) -> String {
        schema::to_text(self)
    }

    /// Reads what [`to_text`](Self::to_text) wrote. The text may come from anywhere: it is bounded.
    ///
    /// # Errors
    /// When a key is unknown or given twice, `path` is missing, or a value is no such value; says in which line.
    pub fn from_text(text: &str) -> Result<Self, FileError> {
        let refuse = |what: String| FileError::Options { what };
        if text.len() > OPTIONS_TEXT_BYTES_MAX {
            return Err(refuse(format!(
                "the text is longer than {OPTIONS_TEXT_BYTES_MAX} bytes"
            )));
        }
        let mut options = FileOptions::new("");
        let mut seen: Vec<&str> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let bad = |why: String| refuse(format!("line {}: {why}", index + 1));
            let (key, value) = line
                .split_once(" = ")
                .ok_or_else(|| bad("expected `key = value`".into()))?;
            if seen.contains(&key) {
                return Err(bad("this key was given before".into()));
            }
            schema::set_line(&mut options, key, value).map_err(bad)?;
            seen.push(key);
        }
        if !seen.contains(&"path") {
            return Err(refuse("the key `path` is missing".into()));
        }
        if options.path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(refuse(format!("the path is longer than {PATH_BYTES_MAX} bytes")));
        }
        Ok(options)
    }
}

/// The path from the root, without resolving links.
fn absolute(path: &Path) -> Result<PathBuf, FileError> {
    std::path::absolute(path).map_err(|cause| FileError::Options {
        what: format!("the path {path:?} cannot be made absolute: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_testkit::Random;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn random_options(random: &mut Random) -> FileOptions {
        let bytes = |random: &mut Random| -> Vec<u8> {
            (0..1 + random.below(40))
                .map(|_| 1 + random.below(255) as u8)
                .collect()
        };
        let mut options = FileOptions::new(OsString::from_vec(bytes(random)));
        options.rotate_bytes = random.maybe(|random| random.bits());
        options.rotate_every = random.maybe(|random| match random.below(3) {
            0 => Every::Hourly,
            1 => Every::Daily,
            _ => Every::Seconds(random.bits()),
        });
        options.local_time = random.below(2) == 0;
        options.keep_files = random.maybe(|random| random.bits() as u32);
        options.keep_age =
            random.maybe(|random| Duration::new(random.bits(), random.below(1_000_000_000) as u32));
        options.keep_bytes = random.maybe(|random| random.bits());
        options.compress = match random.below(3) {
            0 => Compress::None,
            1 => Compress::Gzip,
            _ => Compress::Zstd,
        };
        options.rotated.delay_compress = random.below(2) == 0;
        options.rotated.cold_dir = random.maybe(|random| OsString::from_vec(bytes(random)).into());
        options.rotated.cold_after = random.maybe(|random| Duration::from_secs(random.bits()));
        options.newest_link = random.maybe(|random| OsString::from_vec(bytes(random)).into());
        options.mode = random.bits() as u32;
        options.dir_mode = random.bits() as u32;
        options.trust_directory = random.below(2) == 0;
        options.header = random.maybe(|random| String::from_utf8_lossy(&bytes(random)).into_owned());
        options
    }

    #[test]
    fn any_options_survive_the_way_through_text() {
        Random::rounds(2_000, |random| {
            let options = random_options(random);
            let text = options.to_text();
            assert!(
                text.bytes()
                    .all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte))
            );
            assert_eq!(
                FileOptions::from_text(&text).expect("own text"),
                options,
                "{text}"
            );
        });
    }

    #[test]
    fn damaged_text_is_an_error_or_other_options_but_never_a_panic() {
        Random::rounds(5_000, |random| {
            let mut bytes = random_options(random).to_text().into_bytes();
            for _ in 0..1 + random.below(6) {
                if bytes.is_empty() {
                    break;
                }
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at),
                }
            }
            if let Ok(options) = FileOptions::from_text(&String::from_utf8_lossy(&bytes)) {
                assert_eq!(FileOptions::from_text(&options.to_text()).expect("own"), options);
            }
        });
    }

    #[test]
    fn text_that_is_no_options_text_is_refused_with_the_line() {
        for (text, message) in [
            ("", "`path` is missing"),
            ("mode = 640\n", "`path` is missing"),
            ("path = a\npath = b\n", "line 2: this key was given before"),
            ("path = a\nnonsense\n", "line 2: expected `key = value`"),
            ("path = a\ncolour = red\n", "line 2: the key is unknown"),
            ("path = a\nkeep_files = +1\n", "line 2: expected a number"),
            ("path = a\nkeep_files = 4294967296\n", "too large"),
            (
                "path = a\nkeep_bytes = 99999999999999999999999\n",
                "expected a number",
            ),
            ("path = a\nmode = 9\n", "octal"),
            ("path = \\x00\n", "zero byte"),
            ("path = \\xg0\n", "printable"),
            ("path = a\nkeep_age = 1.5\n", "nine digits"),
        ] {
            let error = FileOptions::from_text(text).expect_err(text).to_string();
            assert!(error.contains(message), "{text:?} gave {error}");
        }
        let long = format!("path = {}\n", "a".repeat(OPTIONS_TEXT_BYTES_MAX));
        assert!(FileOptions::from_text(&long).is_err());
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let change = |change: fn(&mut FileOptions)| {
            let mut options = FileOptions::new("a.log");
            change(&mut options);
            options.check().is_ok()
        };
        assert!(change(|_| ()));
        assert!(!change(|options| options.rotate_bytes = Some(0)));
        assert!(!change(|options| options.rotate_every = Some(Every::Seconds(0))));
        assert!(!change(|options| options.mode = 0o440));
        assert!(!change(|options| options.dir_mode = 0o050));
        assert!(!change(
            |options| options.header = Some("x".repeat(HEADER_BYTES_MAX + 1))
        ));
        assert!(!change(|options| options.newest_link = Some(PathBuf::new())));
    }
}
