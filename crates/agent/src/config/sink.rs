//! One sink, and the files that it becomes for each process.

use super::Process;
use logdrive_drain::file::{Compress, FileOptions};
use logdrive_drain::layout::Style;
use logdrive_drain::limits::BUFFERS_PER_SINK;
use logdrive_drain::ship::{MemberOptions, ShipOptions};
use logdrive_drain::{SinkOptions, Target};
use std::path::{Path, PathBuf};

/// What a path of a sink may have in it, and what it stands for.
pub const PLACEHOLDERS: [(&str, &str); 3] = [
    (
        "{app}",
        "the application's name, with `_` for all but letters, digits, dot, dash and underscore",
    ),
    ("{pid}", "the process number"),
    ("{uid}", "the number of the process's user"),
];

/// The keys of a sink that a reload changes at once. All others belong to what is open, and hold from the next start on.
pub const TUNED_KEYS: [&str; 7] = [
    "layout",
    "level",
    "overflow",
    "flush_every",
    "flush_level",
    "to",
    "backup",
];

/// A sink with a name. The path of a file may have [`PLACEHOLDERS`] in it: then it is a file for each text that they
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
    /// Its name, which routes use.
    pub name: String,
    /// What it is.
    pub options: SinkOptions,
    /// Output buffers of 1 MiB, for each file.
    pub buffers: u32,
}

impl SinkConfig {
    /// A sink of any kind, with the default number of buffers.
    pub fn new(name: impl Into<String>, options: SinkOptions) -> Self {
        Self {
            name: name.into(),
            options,
            buffers: u32::try_from(BUFFERS_PER_SINK).unwrap_or(8),
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

    /// A collector that records are sent to, as JSON, so that fields keep their types. Lines name their process, because the
    /// agent has many.
    pub fn ship(name: impl Into<String>, mut ship: ShipOptions) -> Self {
        ship.app = Some(String::new());
        let mut options = SinkOptions::new(Target::Ship(Box::new(ship)));
        options.layout = Style::Json.into();
        Self::new(name, options)
    }

    /// The options with the placeholders of its paths filled in for a process.
    pub fn options_for(&self, process: &Process<'_>) -> SinkOptions {
        let mut options = self.options.clone();
        options.buffers = usize::try_from(self.buffers).ok();
        if let Target::File(file) = &mut options.target {
            file.path = filled(&file.path, process);
            file.newest_link = file.newest_link.as_deref().map(|link| filled(link, process));
        }
        options
    }

    /// The same sink with what another configuration says and can change while it is open: see [`TUNED_KEYS`].
    #[must_use]
    pub fn tuned(&self, new: &Self) -> Self {
        let mut tuned = self.clone();
        tuned.options.layout.clone_from(&new.options.layout);
        tuned.options.min_level = new.options.min_level;
        tuned.options.overflow = new.options.overflow;
        tuned.options.flush_every = new.options.flush_every;
        tuned.options.flush_level = new.options.flush_level;
        if let (Target::Ship(ship), Target::Ship(new)) = (&mut tuned.options.target, &new.options.target) {
            ship.to.clone_from(&new.to);
        }
        tuned
    }

    /// Whether there may be several files.
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
    /// The keys by which two sinks differ, as a configuration file names them.
    pub fn changed_keys(&self, other: &Self) -> Vec<&'static str> {
        let (own, new) = (&self.options, &other.options);
        let mut keys = Vec::new();
        let mut note = |key, differs: bool| {
            if differs {
                keys.push(key);
            }
        };
        note(
            "layout",
            own.layout.style != new.layout.style || own.layout.local_time != new.layout.local_time,
        );
        note("level", own.min_level != new.min_level);
        note("overflow", own.overflow != new.overflow);
        note("flush_every", own.flush_every != new.flush_every);
        note("flush_level", own.flush_level != new.flush_level);
        note("sync", own.sync != new.sync);
        note("buffers", self.buffers != other.buffers);
        match (&own.target, &new.target) {
            (Target::File(own), Target::File(new)) => keys.extend(changed_file_keys(own, new)),
            (Target::Ship(own), Target::Ship(new)) => keys.extend(changed_ship_keys(own, new)),
            (Target::Stdout, Target::Stdout)
            | (Target::Stderr, Target::Stderr)
            | (Target::Discard, Target::Discard) => {}
            // Memory is not named in a file, and two of them are never the same.
            _ => keys.insert(0, "type"),
        }
        keys
    }
}

fn changed_file_keys(own: &FileOptions, new: &FileOptions) -> Vec<&'static str> {
    let differences = [
        ("path", own.path != new.path),
        ("rotate_bytes", own.rotate_bytes != new.rotate_bytes),
        ("rotate_every", own.rotate_every != new.rotate_every),
        ("time", own.local_time != new.local_time),
        ("keep_files", own.keep_files != new.keep_files),
        ("keep_age", own.keep_age != new.keep_age),
        ("keep_bytes", own.keep_bytes != new.keep_bytes),
        ("compress", own.compress != new.compress),
        ("newest_link", own.newest_link != new.newest_link),
        ("mode", own.mode != new.mode),
        ("dir_mode", own.dir_mode != new.dir_mode),
        ("trust_directory", own.trust_directory != new.trust_directory),
        ("header", own.header != new.header),
    ];
    let differences = differences.into_iter();
    differences
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
}

/// The main members, or the backups.
fn members(ship: &ShipOptions, is_backup: bool) -> Vec<&MemberOptions> {
    let all = ship.to.iter();
    all.filter(|member| member.is_backup == is_backup).collect()
}

fn changed_ship_keys(own: &ShipOptions, new: &ShipOptions) -> Vec<&'static str> {
    let (own_tls, new_tls) = (&own.transport.tls, &new.transport.tls);
    let (own_breaker, new_breaker) = (&own.group.breaker, &new.group.breaker);
    let looks = |ship: &ShipOptions| ship.group.health;
    let judged = |ship: &ShipOptions| {
        let health = ship.group.health.unwrap_or_default();
        (health.failures, health.successes)
    };
    let (own_judged, new_judged) = (judged(own), judged(new));
    let differences = [
        ("to", members(own, false) != members(new, false)),
        ("backup", members(own, true) != members(new, true)),
        ("policy", own.group.policy != new.group.policy),
        ("breaker_failures", own_breaker.failures != new_breaker.failures),
        ("breaker_open", own_breaker.open != new_breaker.open),
        ("breaker_probes", own_breaker.probes != new_breaker.probes),
        (
            "breaker_successes",
            own_breaker.successes != new_breaker.successes,
        ),
        (
            "health_every",
            looks(own).map(|health| health.every) != looks(new).map(|health| health.every),
        ),
        ("health_failures", own_judged.0 != new_judged.0),
        ("health_successes", own_judged.1 != new_judged.1),
        (
            "connect_timeout",
            own.transport.connect_timeout != new.transport.connect_timeout,
        ),
        (
            "response_timeout",
            own.transport.response_timeout != new.transport.response_timeout,
        ),
        (
            "idle_timeout",
            own.transport.idle_timeout != new.transport.idle_timeout,
        ),
        ("zstd", own.zstd_level != new.zstd_level),
        ("spool", own.spool != new.spool),
        ("tls_authorities", own_tls.authorities != new_tls.authorities),
        ("tls_certificate", own_tls.certificate != new_tls.certificate),
        ("tls_key", own_tls.key != new_tls.key),
        ("tls_name", own_tls.name != new_tls.name),
        ("insecure", own.transport.insecure != new.transport.insecure),
    ];
    let differences = differences.into_iter();
    differences
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
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
        new.buffers = 4;
        new.options.min_level = logdrive_wire::Level::Warn;
        if let Target::File(file) = &mut new.options.target {
            file.keep_files = None;
        }
        assert_eq!(old.changed_keys(&new), ["level", "buffers", "keep_files"]);
        new.options.target = Target::Stderr;
        assert_eq!(old.changed_keys(&new), ["type", "level", "buffers"]);
    }
}
