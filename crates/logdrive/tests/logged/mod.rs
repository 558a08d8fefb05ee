//! Runs code with a logger of its own that writes to memory, and takes its lines apart.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::{Mutex, PoisonError};

use logdrive::{Full, MemorySink, SinkOptions, Target};
use logdrive_drain::layout::{LayoutOptions, Style, unescape};

/// One record as a sink shows it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) level: String,
    pub(crate) target: String,
    pub(crate) line: u32,
    /// The message, without escapes.
    pub(crate) text: String,
    /// `key=value` for each field that the message does not show.
    pub(crate) fields: String,
}

/// A process has one logger, and tests run in threads.
static LOGGER: Mutex<()> = Mutex::new(());

const SEPARATOR: &str = "¦";

/// The lines of what `run` logs.
pub(crate) fn several(run: impl FnOnce()) -> Vec<Line> {
    with_filter("trace", run)
}

/// The one line of what `run` logs.
#[track_caller]
pub(crate) fn one(run: impl FnOnce()) -> Line {
    let mut lines = several(run);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// The lines of what `run` logs with all levels off.
pub(crate) fn disabled(run: impl FnOnce()) -> Vec<Line> {
    with_filter("off", run)
}

fn with_filter(filter: &str, run: impl FnOnce()) -> Vec<Line> {
    let _one = LOGGER.lock().unwrap_or_else(PoisonError::into_inner);
    let run_dir = tempfile::tempdir().unwrap();
    let memory = MemorySink::new(64 << 20);
    let pattern = ["{level}", "{target}", "{line}", "{message}", "{fields}"].join(SEPARATOR);
    let sink = SinkOptions {
        layout: LayoutOptions::from(Style::Pattern(pattern)),
        ..SinkOptions::new(Target::Memory(memory.clone()))
    };
    let guard = logdrive::builder("macros")
        .sink(sink)
        .use_env(false)
        .filter(filter)
        .full(Full::Block)
        .panic_hook(false)
        .run_dir(run_dir.path())
        .init()
        .unwrap();
    run();
    drop(guard);
    memory.lines().iter().map(|line| parse(line)).collect()
}

fn parse(line: &str) -> Line {
    let parts: Vec<&str> = line.split(SEPARATOR).collect();
    let &[level, target, number, text, fields] = &parts[..] else {
        panic!("{line}")
    };
    Line {
        level: level.to_owned(),
        target: target.to_owned(),
        line: number.parse().unwrap(),
        text: String::from_utf8(unescape(text.as_bytes())).unwrap(),
        fields: fields.trim_start().to_owned(),
    }
}
