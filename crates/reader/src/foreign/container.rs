//! Lines that the runtime of a container wrapped: `2026-11-21T12:34:56Z stdout F text`, and `{"log":"text\n",...}`.
//!
//! A long line comes in pieces, and a stack trace has a wrapping around each of its lines; both belong to one record.

use crate::escape::{Writing, unescape};
use crate::foreign::trace::{JoinRule, OpenTrace};
use crate::json::{members_at, string_end};
use std::borrow::Cow;

/// A program's line within its wrapping.
#[derive(Debug)]
pub(crate) struct ContainerLine<'a> {
    pub(crate) text: Cow<'a, [u8]>,
    /// Whether it is not the end of a line.
    pub(crate) is_partial: bool,
    is_stderr: bool,
}

/// State of the two streams of a container.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ContainerStreams {
    streams: [OpenTrace; 2],
    is_partial: [bool; 2],
}

impl ContainerStreams {
    /// Returns whether a line belongs to the one before it of its stream. `has_head`: a record begins in it otherwise.
    pub(crate) fn continues(&mut self, line: &ContainerLine<'_>, has_head: bool) -> bool {
        let number = usize::from(line.is_stderr);
        let text = line.text.strip_suffix(b"\n").unwrap_or(&line.text);
        let (Some(trace), Some(is_partial)) = (self.streams.get_mut(number), self.is_partial.get_mut(number))
        else {
            return false;
        };
        let was_partial = std::mem::replace(is_partial, line.is_partial);
        was_partial || trace.continues(text, has_head, JoinRule::Output)
    }
}

/// Whether a line is one that a container's runtime wrapped.
pub(crate) fn is_wrapped(line: &[u8]) -> bool {
    ContainerLine::read(line).is_some()
}

/// Offset of a program's line behind ` stdout F `, from the end of the time on; `None` for what is no line of a container's
/// runtime.
pub(crate) fn text_behind_time(rest: &[u8]) -> Option<usize> {
    if !(rest.starts_with(b" stdout ") || rest.starts_with(b" stderr ")) {
        return None;
    }
    let tag = rest.get(8..)?;
    let length = memchr::memchr(b' ', tag.get(..16.min(tag.len()))?).unwrap_or(tag.len());
    let is_tag = matches!(tag.first(), Some(b'F' | b'P')) && matches!(tag.get(1), None | Some(b' ' | b':'));
    is_tag.then(|| (8 + length + 1).min(rest.len()))
}

impl<'a> ContainerLine<'a> {
    /// Reads what stands behind the time of a line.
    pub(crate) fn behind_time(rest: &'a [u8]) -> Option<Self> {
        let at = text_behind_time(rest)?;
        Some(Self {
            text: Cow::Borrowed(rest.get(at..)?),
            is_partial: rest.get(8) == Some(&b'P'),
            is_stderr: rest.get(4) == Some(&b'e'),
        })
    }

    /// Reads a line of a file of Docker.
    pub(crate) fn of_docker(line: &'a [u8]) -> Option<Self> {
        let end = string_end(line, line.strip_prefix(b"{\"log\":").map(|_| 7)?)?;
        let text = unescape(line.get(8..end - 1)?, Writing::Json);
        let mut members = members_at(line, 0)?;
        let stream = members.find(|pair| pair.key.of(line) == b"stream")?;
        let is_partial = !text.ends_with(b"\n");
        Some(Self {
            text,
            is_partial,
            is_stderr: stream.value.part.of(line) == b"stderr",
        })
    }

    /// Reads a line of either kind.
    pub(crate) fn read(line: &'a [u8]) -> Option<Self> {
        if line.first() == Some(&b'{') {
            return Self::of_docker(line);
        }
        let time = memchr::memchr(b' ', line.get(..40.min(line.len()))?)?;
        Self::behind_time(line.get(time..)?)
    }
}

/// The text of lines behind the first one, without what the runtime put around them. `goes_on`: the first one was a piece.
pub(crate) fn plain_lines(lines: &[u8], goes_on: bool) -> Vec<u8> {
    let mut plain = Vec::with_capacity(lines.len());
    let mut goes_on = goes_on;
    for (number, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        if !goes_on && number > 0 {
            plain.push(b'\n');
        }
        match ContainerLine::read(line) {
            Some(found) => {
                plain.extend_from_slice(found.text.strip_suffix(b"\n").unwrap_or(&found.text));
                goes_on = found.is_partial;
            }
            None => {
                plain.extend_from_slice(line);
                goes_on = false;
            }
        }
    }
    plain
}
