//! What a file sink is told, and its text form, which a session keeps so that recovery after a kill
//! can find and continue the same file.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::FileError;
use super::limits::{HEADER_BYTES_MAX, OPTIONS_TEXT_BYTES_MAX, PATH_BYTES_MAX};

/// When time alone asks for a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At each full hour.
    Hourly,
    /// At each midnight.
    Daily,
    /// At each multiple of so many seconds since 1970 (UTC); at least 1.
    Seconds(u64),
}

/// How rotated files are compressed.
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

/// Where a log goes, when its file is rotated and which rotated files are kept.
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
    /// The active file. Rotated ones stand beside it as `NAME.2026-11-21T12-34-56Z.1.log`.
    pub path: PathBuf,
    /// Rotate before a file would grow beyond this. A chunk larger than this gets a file of its own.
    pub rotate_bytes: Option<u64>,
    /// Rotate when the first chunk of a new period comes. A file without records is not rotated.
    pub rotate_every: Option<Every>,
    /// Days, hours and the time in file names are local ones; else UTC.
    pub local_time: bool,
    /// Keep at most so many rotated files; the active one does not count.
    pub keep_files: Option<u32>,
    /// Remove rotated files once their last record is older than this.
    pub keep_age: Option<Duration>,
    /// Keep at most so many bytes in rotated files, as they are after compression; the active file
    /// does not count.
    pub keep_bytes: Option<u64>,
    /// How rotated files are compressed, on a thread of low priority.
    pub compress: Compress,
    /// A symbolic link that always names the file written last. An existing file that is no link is
    /// left alone.
    pub newest_link: Option<PathBuf>,
    /// Permissions of new files, less the process's umask.
    pub mode: u32,
    /// Permissions of directories that have to be made, less the process's umask.
    pub dir_mode: u32,
    /// Accept a directory that is a link, that others own or that all may write to.
    pub trust_directory: bool,
    /// Lines at the top of every new file.
    pub header: Option<String>,
    /// The file is opened, or made, with its first line instead of at the start; then what is wrong with it is told in
    /// the log, and tried again, instead of being an error of the start.
    pub open_late: bool,
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
        options.newest_link = self.newest_link.as_deref().map(absolute).transpose()?;
        Ok(options)
    }

    /// Whether any rule removes rotated files.
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
        for path in [Some(&self.path), self.newest_link.as_ref()]
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
        let mut text = String::new();
        let mut line = |key: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key} = {value}");
        };
        line("path", &escape(self.path.as_os_str().as_bytes()));
        if let Some(bytes) = self.rotate_bytes {
            line("rotate_bytes", &bytes.to_string());
        }
        match self.rotate_every {
            Some(Every::Hourly) => line("rotate_every", "hourly"),
            Some(Every::Daily) => line("rotate_every", "daily"),
            Some(Every::Seconds(seconds)) => line("rotate_every", &seconds.to_string()),
            None => {}
        }
        line("local_time", yes_or_no(self.local_time));
        if let Some(files) = self.keep_files {
            line("keep_files", &files.to_string());
        }
        if let Some(age) = self.keep_age {
            line(
                "keep_age",
                &format!("{}.{:09}", age.as_secs(), age.subsec_nanos()),
            );
        }
        if let Some(bytes) = self.keep_bytes {
            line("keep_bytes", &bytes.to_string());
        }
        line("compress", compress_name(self.compress));
        if let Some(link) = &self.newest_link {
            line("newest_link", &escape(link.as_os_str().as_bytes()));
        }
        line("mode", &format!("{:o}", self.mode));
        line("dir_mode", &format!("{:o}", self.dir_mode));
        line("trust_directory", yes_or_no(self.trust_directory));
        if let Some(header) = &self.header {
            line("header", &escape(header.as_bytes()));
        }
        if self.open_late {
            line("open_late", "yes");
        }
        text
    }

    /// Reads what [`to_text`](Self::to_text) wrote. The text may come from anywhere: it is bounded,
    /// and an unknown key, a key given twice or a value that is no such value is an error.
    pub fn from_text(text: &str) -> Result<Self, FileError> {
        if text.len() > OPTIONS_TEXT_BYTES_MAX {
            return Err(FileError::Options {
                what: format!("the text is longer than {OPTIONS_TEXT_BYTES_MAX} bytes"),
            });
        }
        let mut options = FileOptions::new("");
        let mut seen: Vec<&str> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let bad = |why: &str| FileError::Options {
                what: format!("line {}: {why}", index + 1),
            };
            let (key, value) = line
                .split_once(" = ")
                .ok_or_else(|| bad("expected `key = value`"))?;
            if seen.contains(&key) {
                return Err(bad("this key was given before"));
            }
            options.set(key, value).map_err(bad)?;
            seen.push(key);
        }
        if !seen.contains(&"path") {
            return Err(FileError::Options {
                what: "the key `path` is missing".into(),
            });
        }
        Ok(options)
    }

    /// Takes one line of the text form.
    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "path" => self.path = path(value)?,
            "rotate_bytes" => self.rotate_bytes = Some(number(value)?),
            "rotate_every" => {
                self.rotate_every = Some(match value {
                    "hourly" => Every::Hourly,
                    "daily" => Every::Daily,
                    _ => Every::Seconds(number(value)?),
                })
            }
            "local_time" => self.local_time = truth(value)?,
            "keep_files" => {
                let files = u32::try_from(number(value)?).map_err(|_| "the number is too large")?;
                self.keep_files = Some(files);
            }
            "keep_age" => self.keep_age = Some(duration(value)?),
            "keep_bytes" => self.keep_bytes = Some(number(value)?),
            "compress" => self.compress = compress(value)?,
            "newest_link" => self.newest_link = Some(path(value)?),
            "mode" => self.mode = octal(value)?,
            "dir_mode" => self.dir_mode = octal(value)?,
            "trust_directory" => self.trust_directory = truth(value)?,
            "header" => {
                let header = String::from_utf8(unescape(value)?);
                self.header = Some(header.map_err(|_| "the header is not UTF-8")?);
            }
            "open_late" => self.open_late = truth(value)?,
            _ => return Err("the key is unknown"),
        }
        Ok(())
    }
}

/// The path from the root, without resolving links.
fn absolute(path: &Path) -> Result<PathBuf, FileError> {
    std::path::absolute(path).map_err(|cause| FileError::Options {
        what: format!("the path {path:?} cannot be made absolute: {cause}"),
    })
}

fn yes_or_no(truth: bool) -> &'static str {
    if truth { "yes" } else { "no" }
}

fn truth(value: &str) -> Result<bool, &'static str> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected `yes` or `no`"),
    }
}

fn compress_name(compress: Compress) -> &'static str {
    match compress {
        Compress::None => "none",
        Compress::Gzip => "gzip",
        Compress::Zstd => "zstd",
    }
}

fn compress(value: &str) -> Result<Compress, &'static str> {
    [Compress::None, Compress::Gzip, Compress::Zstd]
        .into_iter()
        .find(|compress| compress_name(*compress) == value)
        .ok_or("expected `none`, `gzip` or `zstd`")
}

/// Digits only: `parse` alone would take a sign.
fn number(value: &str) -> Result<u64, &'static str> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| value.parse().ok())
        .flatten()
        .ok_or("expected a number")
}

fn octal(value: &str) -> Result<u32, &'static str> {
    let digits = !value.is_empty() && value.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    digits
        .then(|| u32::from_str_radix(value, 8).ok())
        .flatten()
        .ok_or("expected an octal number")
}

fn duration(value: &str) -> Result<Duration, &'static str> {
    let (seconds, nanos) = value.split_once('.').ok_or("expected SECONDS.NANOSECONDS")?;
    if nanos.len() != 9 {
        return Err("expected nine digits after the point");
    }
    let nanos = u32::try_from(number(nanos)?).map_err(|_| "the number is too large")?;
    Ok(Duration::new(number(seconds)?, nanos))
}

fn path(value: &str) -> Result<PathBuf, &'static str> {
    let bytes = unescape(value)?;
    if bytes.is_empty() || bytes.len() > PATH_BYTES_MAX || bytes.contains(&0) {
        return Err("the path is empty, too long or holds a zero byte");
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// Printable ASCII except the backslash stays; any other byte becomes `\xNN`.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if (b' '..=b'~').contains(&byte) && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The inverse of [`escape`].
fn unescape(text: &str) -> Result<Vec<u8>, &'static str> {
    const EXPECTED: &str = "expected printable ASCII, other bytes as \\xNN";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'\\' => {
                let [b'x', high, low, after @ ..] = rest else {
                    return Err(EXPECTED);
                };
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let value = digit(high).zip(digit(low)).map(|(high, low)| high * 16 + low);
                bytes.push(value.and_then(|value| u8::try_from(value).ok()).ok_or(EXPECTED)?);
                rest = after;
            }
            b' '..=b'~' => bytes.push(*byte),
            _ => return Err(EXPECTED),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn random_options(random: &mut Random) -> FileOptions {
        let bytes = |random: &mut Random| -> Vec<u8> {
            (0..1 + random.below(40))
                .map(|_| 1 + random.below(255) as u8)
                .collect()
        };
        let mut options = FileOptions::new(OsString::from_vec(bytes(random)));
        options.rotate_bytes = random.maybe(|random| random.next());
        options.rotate_every = random.maybe(|random| match random.below(3) {
            0 => Every::Hourly,
            1 => Every::Daily,
            _ => Every::Seconds(random.next()),
        });
        options.local_time = random.below(2) == 0;
        options.keep_files = random.maybe(|random| random.next() as u32);
        options.keep_age =
            random.maybe(|random| Duration::new(random.next(), random.below(1_000_000_000) as u32));
        options.keep_bytes = random.maybe(|random| random.next());
        options.compress = match random.below(3) {
            0 => Compress::None,
            1 => Compress::Gzip,
            _ => Compress::Zstd,
        };
        options.newest_link = random.maybe(|random| OsString::from_vec(bytes(random)).into());
        options.mode = random.next() as u32;
        options.dir_mode = random.next() as u32;
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
