//! Records of the command's own start and end, with the target `run`.

use super::ExitReason;
use crate::capture::line_writer::LineWriter;
use crate::capture::stream::StreamEnd;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level};

/// The target of these records.
pub(crate) const TARGET: &str = "run";

fn callsite(level: Level, message: &str, field: Option<(&str, Kind)>) -> Callsite {
    Callsite {
        level,
        target: TARGET.to_owned(),
        message: message.to_owned(),
        fields: field
            .into_iter()
            .map(|(name, kind)| Field {
                name: name.to_owned(),
                kind: FieldKind::plain(kind),
                argument: true,
            })
            .collect(),
        ..Callsite::default()
    }
}

fn record_text(writer: &mut LineWriter, level: Level, message: &str, name: &str, text: &str) {
    writer.once(
        &callsite(level, message, Some((name, Kind::Str))),
        4 + text.len(),
        |put| {
            put.u32(text.len() as u32);
            put.bytes(text.as_bytes());
        },
    );
}

/// The command runs. Its arguments are not logged: they may hold what only the command should know.
pub(crate) fn started(writer: &mut LineWriter, pid: u32) {
    let callsite = callsite(Level::Info, "started as process {0}", Some(("pid", Kind::U32)));
    writer.once(&callsite, 4, |put| put.u32(pid));
}

/// It could not be started.
pub(crate) fn not_started(writer: &mut LineWriter, why: &str) {
    record_text(writer, Level::Error, "not started: {0}", "error", why);
}

/// It has ended.
pub(crate) fn ended(writer: &mut LineWriter, how: ExitReason) {
    match how {
        ExitReason::Exited(status) => {
            let level = if status == 0 { Level::Info } else { Level::Warn };
            let callsite = callsite(level, "exited with {0}", Some(("status", Kind::I32)));
            writer.once(&callsite, 4, |put| put.u32(status.cast_unsigned()));
        }
        ExitReason::Killed(signal) => {
            let name = super::signals::name_of(signal);
            record_text(writer, Level::Error, "killed by {0}", "signal", &name);
        }
    }
}

/// One of its outputs ended in another way than by being closed.
pub(crate) fn output_ended(writer: &mut LineWriter, output: &str, end: &StreamEnd) {
    match end {
        StreamEnd::Closed => {}
        StreamEnd::LeftOpen => record_text(
            writer,
            Level::Warn,
            "{0} is held open by other processes; what they print from now on is not kept",
            "output",
            output,
        ),
        StreamEnd::NobodyReads => record_text(
            writer,
            Level::Info,
            "nobody reads the copy of {0} any more, so it was closed",
            "output",
            output,
        ),
        StreamEnd::Failed(cause) => {
            let text = format!("{output}: {cause}");
            record_text(writer, Level::Error, "an output was lost: {0}", "output", &text);
        }
    }
}
