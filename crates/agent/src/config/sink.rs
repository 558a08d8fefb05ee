//! One sink, and the files that it becomes for each process.

use super::Process;
use logdrive_drain::file::{Compress, FileOptions};
use logdrive_drain::layout::Style;
use logdrive_drain::limits::BUFFERS_PER_SINK;
use logdrive_drain::schema::{FILE, Kind, Options, PLACEHOLDERS, Row, Schema, differences};
use logdrive_drain::ship::ShipOptions;
use logdrive_drain::{SinkOptions, Target, options};
use std::path::{Path, PathBuf};

options! {
/// A sink with a name. The path of a file may have [`PLACEHOLDERS`](logdrive_drain::schema::PLACEHOLDERS) in it: then it is a file for each text that they
/// stand for.
///
/// ```
/// use logdrive_agent::config::{Process, SinkConfig};
/// use logdrive_drain::Target;
///
/// let sink = SinkConfig::file("main", "/var/log/logdrive/{uid}/{app}.log");
/// let options = sink.options_for(&Process { app: "shop/../x", pid: 417, uid: 1000 });
/// let Target::File(file) = options.target else { panic!("a file") };
/// assert_eq!(file.path.to_str(), Some("/var/log/logdrive/1000/shop_.._x.log"));
/// ```
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// Its name, for routes.
    pub name: String => Row::of(Kind::Name).required("\"main\"").scope(FILE),
}
and {
    /// Its options, as in a program.
    pub options: SinkOptions,
}
after { options } }

impl SinkConfig {
    /// A sink of any kind, with the default number of buffers.
    pub fn new(name: impl Into<String>, options: SinkOptions) -> Self {
        let buffers = options.buffers.or(Some(BUFFERS_PER_SINK));
        Self {
            name: name.into(),
            options: SinkOptions { buffers, ..options },
        }
    }

    /// A file as the agent keeps it unless told otherwise: text, rotated at 64 MiB, ten compressed files kept.
    pub fn file(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let mut file = FileOptions::new(path);
        file.rotate_bytes = Some(64 << 20);
        file.keep_files = Some(10);
        file.compress = Compress::Zstd;
        Self::new(name, SinkOptions::new(Target::File(file)))
    }

    /// A collector that typed records are sent to. They name their process, because the agent has many.
    pub fn ship(name: impl Into<String>, mut ship: ShipOptions) -> Self {
        ship.app = Some(String::new());
        let mut options = SinkOptions::new(Target::Ship(Box::new(ship)));
        options.layout = Style::Segments.into();
        Self::new(name, options)
    }

    /// The options with the placeholders of its paths filled in for a process.
    pub fn options_for(&self, process: &Process<'_>) -> SinkOptions {
        let mut options = self.options.clone();
        if let Target::File(file) = &mut options.target {
            file.path = filled(&file.path, process);
            file.newest_link = file.newest_link.as_deref().map(|link| filled(link, process));
        }
        options
    }

    /// The same sink with the options of another configuration that a reload changes while it is open.
    #[must_use]
    pub fn tuned(&self, new: &Self) -> Self {
        let mut tuned = self.clone();
        for row in SinkOptions::ROWS.iter().filter(|row| row.is_live) {
            if let Some(value) = new.options.value(row.name) {
                // It comes from the field that it goes to.
                let _ = tuned.options.set(row.name, value);
            }
        }
        if let (Target::Ship(ship), Target::Ship(new)) = (&mut tuned.options.target, &new.options.target) {
            ship.to.clone_from(&new.to);
        }
        tuned
    }

    /// Returns whether there may be several files.
    pub fn has_placeholders(&self) -> bool {
        let path = match &self.options.target {
            Target::File(file) => file.path.to_string_lossy(),
            _ => return false,
        };
        PLACEHOLDERS.iter().any(|(name, _)| path.contains(name))
    }
}

/// A placeholder stands for no `/` and for no leading dot, so a name cannot lead out of a directory.
fn filled(path: &Path, process: &Process<'_>) -> PathBuf {
    let Some(text) = path.to_str() else {
        return path.to_owned();
    };
    // From left to right, so that a name that looks like a placeholder stays a name.
    let mut full = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        full.push_str(before);
        let (value, length) = if from.starts_with("{app}") {
            (logdrive_ring::file_part(process.app), 5)
        } else if from.starts_with("{pid}") {
            (process.pid.to_string(), 5)
        } else if from.starts_with("{uid}") {
            (process.uid.to_string(), 5)
        } else {
            ("{".to_owned(), 1)
        };
        full.push_str(&value);
        rest = from.get(length..).unwrap_or_default();
    }
    full.push_str(rest);
    full.into()
}

impl PartialEq for SinkConfig {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.changed_keys(other).is_empty()
    }
}

impl SinkConfig {
    /// Names of the options by which two sinks differ.
    pub fn changed_keys(&self, other: &Self) -> Vec<&'static str> {
        differences(&self.options, &other.options)
    }
}

/// A reload changes this option of an open sink; all others belong to what is open, and hold from the next start on.
pub(super) fn is_live(key: &str) -> bool {
    let rows = SinkOptions::ROWS.iter().chain(ShipOptions::ROWS);
    rows.filter(|row| row.name == key).any(|row| row.is_live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_out_of_no_directory_and_is_no_placeholder() {
        for (app, expected) in [
            ("shop", "/logs/shop/7-1000.log"),
            ("../../etc/passwd", "/logs/_.._etc_passwd/7-1000.log"),
            ("..", "/logs/app/7-1000.log"),
            ("{pid}", "/logs/_pid_/7-1000.log"),
            ("", "/logs/app/7-1000.log"),
        ] {
            let process = Process {
                app,
                pid: 7,
                uid: 1000,
            };
            let path = filled(Path::new("/logs/{app}/{pid}-{uid}.log"), &process);
            assert_eq!(path.to_str(), Some(expected), "{app}");
        }
        let process = Process {
            app: "a",
            pid: 7,
            uid: 0,
        };
        assert_eq!(
            filled(Path::new("/x{{pid}{host}{"), &process).to_str(),
            Some("/x{7{host}{")
        );
    }

    #[test]
    fn differences_are_named_as_the_file_names_them() {
        let old = SinkConfig::file("main", "/var/log/a.log");
        let mut new = old.clone();
        assert_eq!(old, new);
        new.options.buffers = Some(4);
        new.options.min_level = logdrive_wire::Level::Warn;
        if let Target::File(file) = &mut new.options.target {
            file.keep_files = None;
        }
        assert_eq!(old.changed_keys(&new), ["min_level", "buffers", "keep_files"]);
        new.options.target = Target::Stderr;
        assert_eq!(old.changed_keys(&new), ["min_level", "buffers", "type"]);
    }
}
