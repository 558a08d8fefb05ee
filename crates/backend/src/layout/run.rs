//! The loop that turns a payload into a line by the steps of a plan.

use logdrive_wire::kind::FieldKind;
use logdrive_wire::limits::PAD_MAX;
use logdrive_wire::template::{Align, Count};
use logdrive_wire::{Cursor, Kind, Value};

use super::escape::{Bare, Escape, put_bare, put_escaped};
use super::number::{put_fixed, put_i64, put_u64};
use super::pattern::Pad;
use super::pen::{OVERFLOW, put};
use super::plan::{Plan, Rare, Show, Step, Steps, Var};
use super::spec::{Resolved, count_chars, front, render};
use super::value::put_value;
use super::{Layout, Line, Thread};

/// The payload does not fit its callsite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl From<logdrive_wire::WireError> for Malformed {
    fn from(_: logdrive_wire::WireError) -> Self {
        // The line says that it is malformed; where exactly does not help its reader.
        Malformed
    }
}

/// Where a line stands: offsets in the buffer and in the payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) at: usize,
    pub(super) offset: usize,
}

/// Reads the next `N` bytes of a payload.
#[inline(always)]
fn take<const N: usize>(payload: &[u8], offset: &mut usize) -> Result<[u8; N], Malformed> {
    let bytes = payload.get(*offset..).and_then(|rest| rest.first_chunk::<N>());
    *offset += N;
    bytes.copied().ok_or(Malformed)
}

/// Reads a `u32` length and as many bytes.
#[inline(always)]
fn take_blob<'a>(payload: &'a [u8], offset: &mut usize) -> Result<&'a [u8], Malformed> {
    let length = u32::from_le_bytes(take(payload, offset)?) as usize;
    let blob = payload.get(*offset..).and_then(|rest| rest.get(..length)).ok_or(Malformed)?;
    *offset += length;
    Ok(blob)
}

#[inline(always)]
fn put_thread(bytes: &mut [u8], at: usize, thread: &Thread<'_>, escape: Escape) -> usize {
    if thread.name.is_empty() {
        return put_thread_id(bytes, at, thread.id);
    }
    put_escaped(bytes, at, thread.name.as_bytes(), escape)
}

/// Apart, because its digits would be made for every line, ahead of the loop.
#[inline(never)]
fn put_thread_id(bytes: &mut [u8], at: usize, id: u64) -> usize {
    put_u64(bytes, at, id)
}

impl Layout {
    /// Writes a line at `at` and returns the offset behind it, which is past the buffer's end if it did not fit.
    #[inline]
    pub(super) fn run(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        line: &Line<'_>,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Malformed> {
        self.run_front(plan, steps, steps.steps.len(), line, bytes, at)
    }

    /// The same for the first `count` steps.
    #[inline]
    pub(super) fn run_front(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        count: usize,
        line: &Line<'_>,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Malformed> {
        let front = steps.steps.get(..count).unwrap_or(&steps.steps);
        if steps.sequential {
            self.run_steps::<true>(plan, steps, front, line, bytes, at)
        } else {
            self.find_values(&plan.kinds, line.payload)?;
            self.run_steps::<false>(plan, steps, front, line, bytes, at)
        }
    }

    fn run_steps<const SEQUENTIAL: bool>(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        front: &[Step],
        line: &Line<'_>,
        bytes: &mut [u8],
        mut at: usize,
    ) -> Result<usize, Malformed> {
        let nanos = self.clock.enter(line.unix_ns);
        let payload = line.payload;
        let mut offset = 0;
        let mut padded = at;
        for step in front {
            at = step.put_text(bytes, at, &steps.text);
            if !SEQUENTIAL {
                offset = self.offsets.get(usize::from(step.field)).copied().unwrap_or(offset);
            }
            match step.var {
                Var::End => {}
                Var::Iso => at = self.clock.put_iso(bytes, at, nanos),
                Var::Thread(escape) => at = put_thread(bytes, at, &line.thread, escape),
                Var::Str(escape) => at = put_escaped(bytes, at, take_blob(payload, &mut offset)?, escape),
                Var::U64 => at = put_u64(bytes, at, u64::from_le_bytes(take(payload, &mut offset)?)),
                Var::U32 => at = put_u64(bytes, at, u64::from(u32::from_le_bytes(take(payload, &mut offset)?))),
                Var::I64 => at = put_i64(bytes, at, i64::from_le_bytes(take(payload, &mut offset)?)),
                Var::I32 => at = put_i64(bytes, at, i64::from(i32::from_le_bytes(take(payload, &mut offset)?))),
                Var::F64Fixed(decimals) => {
                    let value = f64::from_le_bytes(take(payload, &mut offset)?);
                    at = put_f64_fixed(bytes, at, value, decimals);
                }
                Var::Rare(Rare::PadBegin) => padded = at,
                Var::Rare(Rare::PadEnd(index)) => at = put_pad(bytes, padded, at, steps.pads.get(usize::from(index))),
                Var::Rare(rare) => {
                    if at > bytes.len() {
                        // No work for a line that is lost already: some of these parts are large.
                        return Ok(OVERFLOW);
                    }
                    let spot = Spot { at, offset };
                    Spot { at, offset } = self.put_rare(plan, steps, rare, line, nanos, bytes, spot)?;
                }
            }
        }
        Ok(at)
    }

    /// Finds where each value of a static payload begins.
    fn find_values(&mut self, kinds: &[FieldKind], payload: &[u8]) -> Result<(), Malformed> {
        self.offsets.clear();
        let mut offset = 0;
        for kind in kinds {
            self.offsets.push(offset);
            let present = !kind.optional || take::<1>(payload, &mut offset)? == [1];
            if !present {
                continue;
            }
            match kind.kind {
                Kind::None => {}
                Kind::Bool | Kind::I8 | Kind::U8 => offset += 1,
                Kind::I16 | Kind::U16 => offset += 2,
                Kind::I32 | Kind::U32 | Kind::F32 | Kind::Char => offset += 4,
                Kind::I64 | Kind::U64 | Kind::F64 | Kind::Pointer => offset += 8,
                Kind::I128 | Kind::U128 => offset += 16,
                Kind::Str | Kind::Bytes | Kind::Display | Kind::Debug | Kind::Scope | Kind::Message => {
                    take_blob(payload, &mut offset)?;
                }
            }
        }
        if offset > payload.len() { Err(Malformed) } else { Ok(()) }
    }

    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the loop's state, handed over in registers")]
    fn put_rare(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        rare: Rare,
        line: &Line<'_>,
        nanos: u32,
        bytes: &mut [u8],
        spot: Spot,
    ) -> Result<Spot, Malformed> {
        let Spot { at, offset } = spot;
        let payload = line.payload;
        let at = match rare {
            Rare::Value(kind, form) => {
                let mut cursor = cursor_at(payload, offset)?;
                let (value, _) = Value::read(kind, &mut cursor)?;
                let at = put_value(bytes, at, &value, form);
                return Ok(Spot { at, offset: offset + cursor.offset() });
            }
            Rare::Optional { kind, form, key, key_length } => {
                let kind = FieldKind { kind, optional: true };
                let mut cursor = cursor_at(payload, offset)?;
                let (value, _) = Value::read(kind, &mut cursor)?;
                let mut at = at;
                if value != Value::None {
                    let key = steps.text.get(key as usize..).and_then(|rest| rest.get(..usize::from(key_length)));
                    at = put(bytes, at, key.unwrap_or(b""));
                    at = put_value(bytes, at, &value, form);
                }
                return Ok(Spot { at, offset: offset + cursor.offset() });
            }
            Rare::Show(index) => {
                let show = steps.shows.get(usize::from(index)).ok_or(Malformed)?;
                return self.put_show(plan, show, payload, bytes, spot);
            }
            Rare::Time(form) => self.clock.put(bytes, at, nanos, form),
            Rare::ThreadId => put_u64(bytes, at, line.thread.id),
            Rare::ThreadBare if line.thread.name.is_empty() => put_u64(bytes, at, line.thread.id),
            Rare::ThreadBare => put_bare(bytes, at, line.thread.name.as_bytes(), Bare::Logfmt),
            Rare::ThreadIdPadded => put(bytes, at, format!("{:>5}", line.thread.id).as_bytes()),
            Rare::AllFields => super::dynamic::put_all_fields(plan, payload, steps.lenient, bytes, at)?,
            Rare::SpansAndMessage | Rare::Spans | Rare::Message | Rare::SpansField | Rare::Fields => {
                super::dynamic::put_part(&mut self.spans, plan, rare, payload, steps.lenient, bytes, at)?
            }
            // Done by the loop, which knows where they began.
            Rare::PadBegin | Rare::PadEnd(_) => at,
        };
        Ok(Spot { at, offset })
    }

    /// A value with a spec.
    fn put_show(
        &mut self,
        plan: &Plan,
        show: &Show,
        payload: &[u8],
        bytes: &mut [u8],
        spot: Spot,
    ) -> Result<Spot, Malformed> {
        let mut cursor = cursor_at(payload, spot.offset)?;
        let (value, _) = Value::read(show.kind, &mut cursor)?;
        let resolved = Resolved {
            spec: &show.spec,
            width: self.count(plan, show.spec.width, payload)?,
            precision: self.count(plan, show.spec.precision, payload)?,
        };
        self.scratch.clear();
        render(&mut self.scratch, show.kind, &value, resolved);
        Ok(Spot {
            at: put_escaped(bytes, spot.at, &self.scratch, show.escape),
            offset: spot.offset + cursor.offset(),
        })
    }

    /// A width or precision; one that comes from a field is bounded here.
    fn count(&self, plan: &Plan, count: Option<Count>, payload: &[u8]) -> Result<Option<usize>, Malformed> {
        let index = match count {
            None => return Ok(None),
            Some(Count::Fixed(number)) => return Ok(Some(number)),
            Some(Count::Field(index)) => index,
        };
        let (Some(kind), Some(offset)) = (plan.kinds.get(index), self.offsets.get(index)) else {
            return Err(Malformed);
        };
        let number = match Value::read(*kind, &mut cursor_at(payload, *offset)?)?.0 {
            Value::U64(number) => number,
            Value::I64(number) => number.max(0).cast_unsigned(),
            _ => 0,
        };
        Ok(Some(number.min(PAD_MAX as u64) as usize))
    }
}

fn cursor_at(payload: &[u8], offset: usize) -> Result<Cursor<'_>, Malformed> {
    payload.get(offset..).map(Cursor::new).ok_or(Malformed)
}

#[inline(always)]
fn put_f64_fixed(bytes: &mut [u8], at: usize, value: f64, decimals: u8) -> usize {
    match put_fixed(bytes, at, value, usize::from(decimals)) {
        Some(end) => end,
        None => put_f64_fixed_std(bytes, at, value, decimals),
    }
}

#[inline(never)]
fn put_f64_fixed_std(bytes: &mut [u8], at: usize, value: f64, decimals: u8) -> usize {
    put(bytes, at, format!("{value:.*}", usize::from(decimals)).as_bytes())
}

/// Pads what was written since `start`.
fn put_pad(bytes: &mut [u8], start: usize, end: usize, pad: Option<&Pad>) -> usize {
    let (Some(pad), Some(text)) = (pad, bytes.get(start..end)) else {
        return OVERFLOW;
    };
    let kept = front(text, pad.most);
    let end = start + kept.len();
    let missing = pad.width.saturating_sub(count_chars(kept));
    let before = match pad.align {
        Align::Left => 0,
        Align::Center => missing / 2,
        Align::Right => missing,
    };
    let fill = pad.fill.encode_utf8(&mut [0; 4]).as_bytes().to_vec();
    let moved = start + before * fill.len();
    let last = end + missing * fill.len();
    if last > bytes.len() {
        return OVERFLOW;
    }
    bytes.copy_within(start..end, moved);
    let mut at = start;
    for _ in 0..before {
        at = put(bytes, at, &fill);
    }
    let mut at = moved + (end - start);
    for _ in before..missing {
        at = put(bytes, at, &fill);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_moves_what_was_written() {
        let pad = |align, width, most| {
            let mut bytes = [b'#'; 17];
            bytes[..7].copy_from_slice("xxé234".as_bytes());
            let pad = Pad { fill: '·', align, width, most };
            let end = put_pad(&mut bytes, 2, 7, Some(&pad));
            String::from_utf8(bytes.get(..end).unwrap_or(b"overflow").to_vec()).unwrap()
        };
        assert_eq!(pad(Align::Right, 6, 99), "xx··é234");
        assert_eq!(pad(Align::Center, 5, 2), "xx·é2··");
        assert_eq!(pad(Align::Left, 3, 9), "xxé234");
        assert_eq!(pad(Align::Left, 40, 9), "overflow");
    }

    #[test]
    fn a_block_that_ends_early_is_malformed() {
        assert_eq!(take_blob(&[2, 0, 0, 0, b'a'], &mut 0), Err(Malformed));
        assert_eq!(take_blob(&[0xff; 8], &mut 0), Err(Malformed));
        assert_eq!(take_blob(&[1, 0, 0, 0, b'a'], &mut 0), Ok(&b"a"[..]));
        assert_eq!(take::<4>(&[0; 3], &mut 0), Err(Malformed));
        assert_eq!(take::<1>(&[0; 3], &mut 9), Err(Malformed));
    }
}
