//! What a user chooses about sinks, and the text form that lies in the session for whoever recovers it.

use crate::file::FileOptions;
use crate::layout::{LayoutOptions, Style};
use crate::memory::Memory;
use crate::ship::ShipOptions;
use logdrive_wire::Level;
use std::time::Duration;

/// Where a sink's lines go.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Target {
    /// A file, rotated and removed by its own rules.
    File(FileOptions),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Memory of this process, for tests.
    Memory(Memory),
    /// A collector, with the feature `ship`.
    Ship(Box<ShipOptions>),
    /// Nowhere: lines are formatted and thrown away.
    Discard,
}

/// What the drain does with records for a sink whose buffers are all full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Drop them, count them, and tell their number in the log when there is room again. Other sinks go on.
    #[default]
    Drop,
    /// Hold everything back, all sinks and in the end the rings, until there is room.
    Hold,
}

/// When bytes are made durable with `fdatasync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// When the kernel likes.
    #[default]
    Never,
    /// After each flush that a record's level caused, and when the sink is closed.
    AtLevel,
    /// At most once in this time.
    Every(Duration),
}

/// One sink.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// Where the lines go.
    pub target: Target,
    /// How they look.
    pub layout: LayoutOptions,
    /// Records below this level are left out. Default: trace.
    pub min_level: Level,
    /// What happens when the target is too slow. Default: drop.
    pub overflow: Overflow,
    /// Lines wait in a buffer at most this long. Default: 200 ms.
    pub flush_every: Duration,
    /// A record of this level or above is flushed at once. Default: error.
    pub flush_level: Level,
    /// When bytes are made durable. Default: never.
    pub sync: Sync,
    /// Output buffers of 1 MiB, at most as many as the backend has for each sink, which is the default; 2 at least.
    pub buffers: Option<usize>,
}

impl Default for RecoverableSink {
    /// A target that ended with its process.
    fn default() -> Self {
        Self {
            file: None,
            ship: None,
            layout: LayoutOptions::from(Style::Text),
            min_level: Level::Trace,
        }
    }
}

impl SinkOptions {
    /// A sink with the defaults: text in UTC, flushed every 200 ms and at errors.
    ///
    /// ```
    /// use logdrive_drain::{SinkOptions, Target};
    /// let sink = SinkOptions::new(Target::Discard);
    /// assert_eq!(sink.flush_every.as_millis(), 200);
    /// ```
    pub fn new(target: Target) -> Self {
        Self {
            target,
            layout: LayoutOptions::from(Style::Text),
            min_level: Level::Trace,
            overflow: Overflow::default(),
            flush_every: Duration::from_millis(200),
            flush_level: Level::Error,
            sync: Sync::default(),
            buffers: None,
        }
    }
}

/// A sink as the session describes it: only files and collectors can be reached by another process.
#[derive(Debug, Clone)]
pub struct RecoverableSink {
    /// The file; `None` for another target.
    pub file: Option<FileOptions>,
    /// The collector; `None` for another target.
    pub ship: Option<Box<ShipOptions>>,
    /// How lines look.
    pub layout: LayoutOptions,
    /// The sink's lowest level.
    pub min_level: Level,
}

/// The sinks as text, for the session.
pub fn sinks_to_text(sinks: &[SinkOptions]) -> String {
    let mut text = String::new();
    for sink in sinks {
        text.push_str("[sink]\n");
        text.push_str(&format!("layout = {}\n", sink.layout.to_text()));
        text.push_str(&format!("min_level = {}\n", sink.min_level));
        if let Target::File(file) = &sink.target {
            // Another process has another working directory.
            let file = file.absolute().unwrap_or_else(|_| file.clone());
            text.push_str("[file]\n");
            text.push_str(&file.to_text());
        }
        if let Target::Ship(ship) = &sink.target {
            text.push_str("[ship]\n");
            text.push_str(&ship.to_text());
        }
    }
    text
}

/// Reads what [`sinks_to_text`] wrote. A sink that cannot be read is taken for one that ended with its process.
pub fn sinks_from_text(text: &str) -> Vec<RecoverableSink> {
    text.split("[sink]\n").skip(1).map(sink_from_text).collect()
}

/// The text with another sink in one place, or with none there: one that is closed. Where there are fewer, closed ones
/// fill up.
pub(crate) fn with_sink(text: &str, place: usize, sink: Option<&SinkOptions>) -> String {
    const BEGIN: &str = "[sink]\n";
    let mut parts = text.split(BEGIN);
    let mut all = parts.next().unwrap_or_default().to_owned();
    let mut parts: Vec<String> = parts.map(|part| format!("{BEGIN}{part}")).collect();
    if parts.len() <= place {
        parts.resize(place + 1, BEGIN.to_owned());
    }
    if let Some(part) = parts.get_mut(place) {
        *part = sink.map_or_else(
            || BEGIN.to_owned(),
            |sink| sinks_to_text(std::slice::from_ref(sink)),
        );
    }
    parts.iter().for_each(|part| all.push_str(part));
    all
}

fn sink_from_text(text: &str) -> RecoverableSink {
    let (head, file) = match text.split_once("[file]\n") {
        Some((head, file)) => (head, FileOptions::from_text(file).ok()),
        None => (text, None),
    };
    let (head, ship) = match head.split_once("[ship]\n") {
        Some((head, ship)) => (head, ShipOptions::from_text(ship).map(Box::new)),
        None => (head, None),
    };
    let value = |key: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
    };
    RecoverableSink {
        file,
        ship,
        layout: value("layout")
            .and_then(|text| LayoutOptions::from_text(text).ok())
            .unwrap_or_else(|| LayoutOptions::from(Style::Text)),
        min_level: value("min_level")
            .and_then(|text| text.parse().ok())
            .unwrap_or(Level::Trace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_read_back_from_their_text() {
        let mut file = SinkOptions::new(Target::File(FileOptions::new("/tmp/a b\n[sink]\n.log")));
        file.layout = LayoutOptions::from(Style::Json);
        file.min_level = Level::Warn;
        let text = sinks_to_text(&[SinkOptions::new(Target::Stderr), file]);
        let sinks = sinks_from_text(&text);
        assert_eq!(sinks.len(), 2);
        let other = SinkOptions::new(Target::File(FileOptions::new("/tmp/other.log")));
        for text in [
            with_sink(&text, 0, Some(&other)),
            with_sink(&text, 3, Some(&other)),
        ] {
            let paths = sinks_from_text(&text).into_iter();
            let paths: Vec<_> = paths
                .filter_map(|sink| Some(sink.file?.path.to_str()?.to_owned()))
                .collect();
            assert_eq!(paths.len(), 2);
            assert!(paths.contains(&"/tmp/other.log".to_owned()), "{paths:?}");
        }
        let closed = sinks_from_text(&with_sink(&format!("[keep]\n{text}"), 1, None));
        assert!(closed.len() == 2 && closed[1].file.is_none());
        assert!(sinks[0].file.is_none());
        assert_eq!(sinks[1].layout.style, Style::Json);
        assert_eq!(sinks[1].min_level, Level::Warn);
        assert_eq!(
            sinks[1].file.as_ref().unwrap().path.to_str(),
            Some("/tmp/a b\n[sink]\n.log")
        );
    }

    #[cfg(all(feature = "ship", target_os = "linux"))]
    #[test]
    fn a_sink_that_sends_elsewhere_reads_back_with_its_last_collectors() {
        let ship = |to: &str| ShipOptions::new(vec![to.parse().expect("an address")]);
        let sink = |to: &str| SinkOptions::new(Target::Ship(Box::new(ship(to))));
        let mut text = sinks_to_text(&[sink("unix:///a"), sink("unix:///b"), sink("unix:///f")]);
        for to in ["unix:///c", "unix:///d"] {
            text = with_sink(&text, 1, Some(&sink(to)));
        }
        let to: Vec<String> = sinks_from_text(&text)
            .into_iter()
            .map(|sink| sink.ship.expect("one").destination())
            .collect();
        assert_eq!(to, ["unix:///a", "unix:///d", "unix:///f"]);
    }
}
