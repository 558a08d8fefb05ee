//! Lines that the runtime of a container wrapped: `2026-11-21T12:34:56Z stdout F text`, and `{"log":"text\n",...}`.
//!
//! A long line comes in pieces, and a stack trace has a wrapping around each of its lines; both belong to one record.

use crate::escape::{Writing, unescape};
use crate::foreign::trace::{JoinRule, OpenTrace};
use crate::json::{is_json, members_at, string_end};
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

/// Front of a line in a file of Docker.
const DOCKER_FRONT: &[u8] = b"{\"log\":\"";

/// Returns a record as its program wrote it, where a container's runtime took it apart or escaped it: the first line with time and
/// stream in front, as `2026-11-21T12:34:56Z stdout F text`, and the further ones without a wrapping. Any other record stays
/// as it is.
pub(crate) fn unwrapped(record: &[u8]) -> Cow<'_, [u8]> {
    let lines = record.strip_suffix(b"\n").unwrap_or(record);
    let (first, further) = lines.split_at(memchr::memchr(b'\n', lines).unwrap_or(lines.len()));
    let is_docker = first.starts_with(DOCKER_FRONT);
    if !is_docker && (further.is_empty() || !first.first().is_some_and(u8::is_ascii_digit)) {
        return Cow::Borrowed(record);
    }
    let Some(mut plain) = rewritten(first, further.strip_prefix(b"\n"), is_docker) else {
        return Cow::Borrowed(record);
    };
    plain.extend_from_slice(record.get(lines.len()..).unwrap_or(b""));
    Cow::Owned(plain)
}

/// `None` for lines that are not a container's, and for text of Docker that says more than time and stream.
fn rewritten(first: &[u8], further: Option<&[u8]>, is_docker: bool) -> Option<Vec<u8>> {
    let first = first.strip_suffix(b"\r").unwrap_or(first);
    let line = ContainerLine::read(first)?;
    let mut plain = Vec::with_capacity(first.len() + further.map_or(0, <[u8]>::len));
    let mut attributes = Vec::new();
    match is_docker {
        true => put_docker_head(first, &mut plain, &mut attributes)?,
        false => {
            let text = first.len().checked_sub(line.text.len())?;
            plain.extend_from_slice(first.get(..text)?);
            // What was in pieces is whole now.
            *plain.get_mut(memchr::memchr(b' ', first)? + 8)? = b'F';
        }
    }
    let at = plain.len();
    plain.extend_from_slice(line.text.strip_suffix(b"\n").unwrap_or(&line.text));
    if let Some(further) = further {
        if !line.is_partial {
            plain.push(b'\n');
        }
        plain.extend_from_slice(&plain_lines(further, line.is_partial));
    }
    if !attributes.is_empty() {
        let object = plain.get(at..)?.split(|byte| *byte == b'\n').next()?;
        (object.first() == Some(&b'{') && object.len() > 2 && is_json(object)).then_some(())?;
        plain.splice(at + 1..at + 1, attributes);
    }
    Some(plain)
}

/// `TIME stdout F `, and the other members of a line of Docker, each with a comma behind it.
fn put_docker_head(line: &[u8], out: &mut Vec<u8>, attributes: &mut Vec<u8>) -> Option<()> {
    let (mut time, mut stream) = (None, None);
    for pair in members_at(line, 0)?.skip(1) {
        let value = pair.value.part.of(line);
        match pair.key.of(line) {
            b"time" => time = Some(value),
            b"stream" => stream = Some(value),
            _ => {
                let end = pair.value.part.end() + usize::from(pair.value.writing == Writing::Json);
                attributes.extend_from_slice(line.get(pair.key.start() - 1..end)?);
                attributes.push(b',');
            }
        }
    }
    let stream = stream.filter(|stream| matches!(*stream, b"stdout" | b"stderr"))?;
    let time = time.filter(|time| time.first().is_some_and(u8::is_ascii_digit))?;
    for part in [time, b" ", stream, b" F "] {
        out.extend_from_slice(part);
    }
    Some(())
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
