//! The fast path of a layout: a prefix that is kept, and behind it a body that is written without the interpreter.
//!
//! The prefix of a line (time, level, thread, module, file) is the same for a callsite and a thread within a second, but
//! for the digits of the time. It is rendered once and then copied. [`Layout::line`] looks it up for each record; a
//! [`SharedPrefix`] holds it for many records of one callsite and thread, without a lookup.
//!
//! Most bodies are short constant texts with integers, texts, and floats of usual specs between them. Such a body is
//! written into a piece of the buffer whose size the compiler knows, so that a write is checked by one comparison, and
//! the loop has few cases, so that its state stays in registers. Whatever is not usual is left to the
//! [interpreter](super::interpret), which writes the same bytes.

use super::escape::{Escape, put_message_text};
use super::number::{put_fixed, put_fixed_here, put_general, put_i64_here, put_u64_here};
use super::payload::Malformed;
use super::plan::{FastStep, Plan, Steps, Var};
use super::prefix::{PREFIX_BYTES, Prefix, PrefixKey};
use super::time::{Digits, SECOND_NS};
use super::value::{Form, put_plain_f64, put_text};
use super::write::{WIDE, put, room};
use super::{Layout, LineBuffer, Record};

/// Room for a body of the fast path. Longer ones are rare, and so are buffers that have less left.
const BODY_BYTES: usize = 512;

/// The prefix of the lines of one callsite and thread within a second, for many lines behind each other.
///
/// ```
/// use logdrive_drain::layout::{Layout, LineBuffer, ProcessInfo, Record, Style, Thread};
/// let mut layout = Layout::new(Style::Text.into(), ProcessInfo::default())?;
/// let plan = layout.compile(&logdrive_wire::Callsite { message: "ready".into(), ..Default::default() });
/// let thread = Thread { name: "main", id: 1 };
/// let record = |unix_ns| Record { unix_ns, thread, payload: &[] };
/// let mut bytes = [0; 4_096];
/// let mut lines = LineBuffer::new(&mut bytes);
/// let mut prefix = layout.shared_prefix(&plan, &record(0)).expect("a prefix of usual length");
/// assert!(layout.line_after(&mut prefix, &plan, &record(7), &mut lines));
/// assert_eq!(lines.as_bytes(), b"1970-01-01T00:00:00.000000007Z INFO  main ready\n");
/// assert!(!layout.line_after(&mut prefix, &plan, &record(1_000_000_000), &mut lines));
/// # Ok::<(), logdrive_drain::layout::LayoutError>(())
/// ```
#[derive(Debug)]
pub struct SharedPrefix {
    prefix: Prefix,
    /// The time whose digits stand in the prefix, where that is known.
    shown_ns: Option<u64>,
    /// The time of the last line.
    last_ns: u64,
}

impl SharedPrefix {
    /// Writes the prefix with the digits of a time of its second and returns the offset behind it; `None` for another
    /// second, and where there is no room.
    ///
    /// Records that were read at once have one time: from the third on its digits stand in the prefix already.
    #[inline(always)]
    fn put(&mut self, bytes: &mut [u8], at: usize, unix_ns: u64) -> Option<usize> {
        let nanos = unix_ns.wrapping_sub(self.prefix.second_ns());
        if nanos >= SECOND_NS {
            return None;
        }
        if self.shown_ns == Some(unix_ns) {
            let (_, end) = self.prefix.copy(bytes, at)?;
            return Some(end);
        }
        if std::mem::replace(&mut self.last_ns, unix_ns) == unix_ns {
            self.prefix.show(nanos as u32);
            self.shown_ns = Some(unix_ns);
        }
        self.prefix.put(bytes, at, nanos as u32)
    }
}

impl Layout {
    /// Returns the prefix that all lines have with this plan and the thread and second of this record; `None` where it
    /// is too long to be kept, or the values are not read in their order.
    pub fn shared_prefix(&mut self, plan: &Plan, record: &Record<'_>) -> Option<SharedPrefix> {
        if !plan.has_shared_prefix() {
            return None;
        }
        let nanos = self.time.enter(record.unix_ns);
        Some(SharedPrefix {
            prefix: self.prefix_of(&plan.main, record, nanos)?,
            shown_ns: None,
            last_ns: 0,
        })
    }

    /// Writes a record's line behind a prefix of the same plan and thread. Returns `false`, and writes nothing that
    /// counts, when the record is of another second, its payload cannot be read, or the line does not fit:
    /// [`line`](Self::line) returns which.
    #[inline(always)]
    pub fn line_after(
        &mut self,
        prefix: &mut SharedPrefix,
        plan: &Plan,
        record: &Record<'_>,
        out: &mut LineBuffer<'_>,
    ) -> bool {
        let Some(at) = prefix.put(out.bytes, out.length, record.unix_ns) else {
            return false;
        };
        let fast_body = plan.main.fast_body.as_deref();
        let end = fast_body.and_then(|body| put_fast_body(body, record.payload, None, out.bytes, at));
        match end.map_or_else(|| self.put_body(plan, record, out.bytes, at), Ok) {
            Ok(end) if end <= out.bytes.len() => {
                out.length = end;
                true
            }
            _ => false,
        }
    }

    /// Writes what stands behind the prefix by the interpreter.
    fn put_body(
        &mut self,
        plan: &Plan,
        record: &Record<'_>,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Malformed> {
        let nanos = self.time.enter(record.unix_ns);
        self.interpret(plan, &plan.main, &plan.main.body, record, nanos, bytes, at)
    }

    /// Writes a line at `at` and returns the offset behind it, which is past the buffer's end if it did not fit.
    #[inline]
    pub(super) fn put_line(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        record: &Record<'_>,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Malformed> {
        if !steps.sequential {
            self.find_values(&plan.kinds, record.payload)?;
        }
        let nanos = self.time.enter(record.unix_ns);
        let at = self.put_prefix(steps, record, nanos, bytes, at);
        if let Some(body) = &steps.fast_body {
            let end = match steps.sequential {
                true => put_fast_body_call(body, record.payload, bytes, at),
                false => put_fast_body_by_field(body, record.payload, &self.offsets, bytes, at),
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
        self.interpret(plan, steps, &steps.body, record, nanos, bytes, at)
    }

    #[inline(always)]
    fn put_prefix(
        &mut self,
        steps: &Steps,
        record: &Record<'_>,
        nanos: u32,
        bytes: &mut [u8],
        at: usize,
    ) -> usize {
        let key = PrefixKey::of(steps.number, self.time.second_ns(), &record.thread);
        let kept = key.as_ref().and_then(|key| self.prefixes.find(key));
        match kept.and_then(|prefix| prefix.put(bytes, at, nanos)) {
            Some(end) => end,
            None => self.put_new_prefix(steps, key, record, nanos, bytes, at),
        }
    }

    #[inline(never)]
    fn put_new_prefix(
        &mut self,
        steps: &Steps,
        key: Option<PrefixKey>,
        record: &Record<'_>,
        nanos: u32,
        bytes: &mut [u8],
        start: usize,
    ) -> usize {
        let (at, digits) = self.render_prefix(steps, record, nanos, bytes, start);
        if let (Some(key), Some(text)) = (key, bytes.get(start..at)) {
            self.prefixes.keep(key, text, digits);
        }
        at
    }

    /// The prefix as it is kept. The time formatter stands in the record's second.
    fn prefix_of(&mut self, steps: &Steps, record: &Record<'_>, nanos: u32) -> Option<Prefix> {
        let second_ns = self.time.second_ns();
        let key = PrefixKey::of(steps.number, second_ns, &record.thread);
        if let Some(prefix) = key.as_ref().and_then(|key| self.prefixes.find(key)) {
            return Some(prefix.clone());
        }
        // Writers want some more room than they fill.
        let mut bytes = [0; 2 * PREFIX_BYTES];
        let (end, digits) = self.render_prefix(steps, record, nanos, &mut bytes, 0);
        let key = key.unwrap_or(PrefixKey::unnamed(steps.number, second_ns));
        Prefix::new(key, bytes.get(..end)?, digits)
    }

    /// Writes the steps of the prefix, and the constant text of the step behind them. Returns the offset behind it, and
    /// the place of the digits that change within a second; behind the text where there are none.
    fn render_prefix(
        &mut self,
        steps: &Steps,
        record: &Record<'_>,
        nanos: u32,
        bytes: &mut [u8],
        start: usize,
    ) -> (usize, Digits) {
        let mut at = start;
        let mut digits = None;
        for (number, step) in steps.steps.iter().take(steps.prefix_steps + 1).enumerate() {
            at = step.put_text(bytes, at, &steps.text);
            if number == steps.prefix_steps {
                break;
            }
            if let Some(found) = steps.digits_of(step.var) {
                digits = Some(Digits {
                    at: at.wrapping_sub(start) + found.at,
                    ..found
                });
            }
            at = self.put_prefix_var(steps, step.var, record, nanos, bytes, at);
        }
        let behind = Digits {
            at: at.wrapping_sub(start),
            count: 0,
        };
        (at, digits.unwrap_or(behind))
    }
}

/// [`put_fast_body`] as a call: in the place of the call it costs the line more registers than the call costs.
#[inline(never)]
fn put_fast_body_call(body: &[FastStep], payload: &[u8], bytes: &mut [u8], start: usize) -> Option<usize> {
    put_fast_body(body, payload, None, bytes, start)
}

/// The same for values that are shown in another order, or more than once: as JSON shows those of the message again.
#[inline(never)]
fn put_fast_body_by_field(
    body: &[FastStep],
    payload: &[u8],
    offsets: &[usize],
    bytes: &mut [u8],
    start: usize,
) -> Option<usize> {
    put_fast_body(body, payload, Some(offsets), bytes, start)
}

/// Writes the body and returns the offset behind it; `None` when it is not usual, and then nothing is written that
/// counts. Values are read in their order, or each at the offset of its field.
#[inline(always)]
fn put_fast_body(
    body: &[FastStep],
    payload: &[u8],
    offsets: Option<&[usize]>,
    bytes: &mut [u8],
    start: usize,
) -> Option<usize> {
    let place = room::<BODY_BYTES>(bytes, start)?;
    let mut rest = payload;
    let mut at = 0;
    for step in body {
        if let Some(offsets) = offsets
            && step.var != Var::End
        {
            rest = payload.get(*offsets.get(usize::from(step.field))?..)?;
        }
        at = match step.var {
            Var::End => at,
            Var::Str(form) => put_next_text(place, at, &mut rest, form)?,
            Var::U64 => put_u64_here(place, at, u64::from_le_bytes(next(&mut rest)?)),
            Var::U32 => put_u64_here(place, at, u32::from_le_bytes(next(&mut rest)?).into()),
            Var::I64 => put_i64_here(place, at, i64::from_le_bytes(next(&mut rest)?)),
            Var::I32 => put_i64_here(place, at, i32::from_le_bytes(next(&mut rest)?).into()),
            Var::F64Fixed(decimals) => {
                let value = f64::from_le_bytes(next(&mut rest)?);
                match put_fixed_here(place, at, value, usize::from(decimals)) {
                    Some(end) => end,
                    None => put_other_fixed(place, at, value, decimals)?,
                }
            }
            Var::F64(form) => put_usual_f64(place, at, f64::from_le_bytes(next(&mut rest)?), form)?,
            Var::F64General => put_usual_general(place, at, f64::from_le_bytes(next(&mut rest)?))?,
            _ => return None,
        };
        *room::<WIDE>(place, at)? = step.text;
        at += step.length;
    }
    Some(start + at)
}

/// A float whose text has an exponent, or is none of digits, is not usual.
#[inline(never)]
fn put_usual_general(place: &mut [u8; BODY_BYTES], at: usize, value: f64) -> Option<usize> {
    put_general(place, at, value).filter(|end| *end <= BODY_BYTES)
}

#[inline(always)]
fn put_usual_f64(place: &mut [u8; BODY_BYTES], at: usize, value: f64, form: Form) -> Option<usize> {
    Some(put_plain_f64(place, at, value, form)).filter(|end| *end <= BODY_BYTES)
}

#[inline(never)]
fn put_other_fixed(place: &mut [u8; BODY_BYTES], at: usize, value: f64, decimals: u8) -> Option<usize> {
    put_fixed(place, at, value, usize::from(decimals))
}

#[inline(always)]
fn next<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (value, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*value)
}

#[inline(always)]
fn put_next_text(place: &mut [u8; BODY_BYTES], at: usize, rest: &mut &[u8], form: Form) -> Option<usize> {
    let length = u32::from_le_bytes(next(rest)?) as usize;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    let end = match form {
        Form::Argument(Escape::Text) => put_message_text(place, at, text),
        Form::Argument(Escape::Raw) => put(place, at, text),
        form => put_text(place, at, text, form),
    };
    // Text that does not fit here may fit the buffer.
    (end <= BODY_BYTES).then_some(end)
}

#[cfg(test)]
mod tests;
