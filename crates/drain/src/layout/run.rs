//! The loop that turns a payload into a line by the steps of a plan.

use logdrive_wire::kind::FieldKind;
use logdrive_wire::limits::PAD_MAX;
use logdrive_wire::template::{Align, Count};
use logdrive_wire::{Kind, Value};

use super::escape::{Bare, Escape, put_bare, put_escaped, put_message_text};
use super::head::{HEAD_BYTES, Head, HeadKey};
use super::number::{put_fixed, put_general, put_i64, put_u64, put_u64_right};
use super::pattern::Pad;
use super::payload::{Malformed, Spot, cursor_at, skip, take, take_blob, take_presence};
use super::pen::{OVERFLOW, put};
use super::plan::{Plan, Rare, Show, Step, Steps, Var};
use super::quick::{put_quick, put_quick_here};
use super::spec::{Resolved, count_chars, front, general_text, render};
use super::time::{Digits, TimeForm};
use super::value::{Form, put_payload, put_text, put_value};
use super::{Layout, Line};

/// When a record was made within its second, and where its line goes on.
#[derive(Clone, Copy)]
struct Place {
    nanos: u32,
    at: usize,
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
        if !steps.sequential {
            self.find_values(&plan.kinds, line.payload)?;
        }
        let nanos = self.clock.enter(line.unix_ns);
        let (steps_left, at) = match steps.head {
            0 => (&steps.steps, at),
            _ => (&steps.body, self.put_head(steps, line, nanos, bytes, at)),
        };
        if steps.is_quick
            && let Some(end) = put_quick(steps_left, line.payload, bytes, at)
        {
            return Ok(end);
        }
        let place = Place { nanos, at };
        if steps.sequential {
            self.run_steps::<true>(plan, steps, steps_left, line, bytes, place)
        } else {
            self.run_steps::<false>(plan, steps, steps_left, line, bytes, place)
        }
    }

    /// Writes what stands behind the front, for plans that read their values in passing. The clock stands in the line's
    /// second.
    #[inline(always)]
    pub(super) fn run_body(
        &mut self,
        plan: &Plan,
        line: &Line<'_>,
        nanos: u32,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Malformed> {
        let steps = &plan.main;
        if steps.is_quick
            && let Some(end) = put_quick_here(&steps.body, line.payload, bytes, at)
        {
            return Ok(end);
        }
        self.run_steps::<true>(plan, steps, &steps.body, line, bytes, Place { nanos, at })
    }

    /// The same for the first `count` steps.
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
        let nanos = self.clock.enter(line.unix_ns);
        let place = Place { nanos, at };
        if steps.sequential {
            return self.run_steps::<true>(plan, steps, front, line, bytes, place);
        }
        self.find_values(&plan.kinds, line.payload)?;
        self.run_steps::<false>(plan, steps, front, line, bytes, place)
    }

    fn run_steps<const SEQUENTIAL: bool>(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        front: &[Step],
        line: &Line<'_>,
        bytes: &mut [u8],
        place: Place,
    ) -> Result<usize, Malformed> {
        let Place { nanos, mut at } = place;
        let payload = line.payload;
        let mut offset = 0;
        let mut padded = at;
        for step in front {
            at = step.put_text(bytes, at, &steps.text);
            if !SEQUENTIAL {
                offset = self
                    .offsets
                    .get(usize::from(step.field))
                    .copied()
                    .unwrap_or(offset);
            }
            match step.var {
                Var::End => {}
                Var::Iso => at = self.clock.put(bytes, at, nanos, TimeForm::Iso),
                Var::Thread(escape) => at = self.thread.put(bytes, at, &line.thread, escape),
                Var::Str(Form::Argument(Escape::Text)) => {
                    at = put_message_text(bytes, at, take_blob(payload, &mut offset)?)
                }
                Var::Str(form) => at = put_text(bytes, at, take_blob(payload, &mut offset)?, form),
                Var::U64 => at = put_u64(bytes, at, u64::from_le_bytes(take(payload, &mut offset)?)),
                Var::U32 => at = put_u64(bytes, at, take_u32(payload, &mut offset)?),
                Var::I64 => at = put_i64(bytes, at, i64::from_le_bytes(take(payload, &mut offset)?)),
                Var::I32 => {
                    at = put_i64(
                        bytes,
                        at,
                        i64::from(i32::from_le_bytes(take(payload, &mut offset)?)),
                    )
                }
                Var::F64Fixed(decimals) => {
                    at = put_f64_fixed(bytes, at, take_f64(payload, &mut offset)?, decimals);
                }
                Var::F64General => at = put_f64_general(bytes, at, take_f64(payload, &mut offset)?),
                Var::Event if at > bytes.len() => return Ok(OVERFLOW),
                Var::Event => at = super::dynamic::put_event(&mut self.spans, plan, payload, bytes, at)?,
                Var::PadBegin => padded = at,
                Var::PadEnd(index) => at = put_pad(bytes, padded, at, steps.pads.get(usize::from(index))),
                Var::Rare(index) => {
                    if at > bytes.len() {
                        // No work for a line that is lost already: some of these parts are large.
                        return Ok(OVERFLOW);
                    }
                    let spot = Spot { at, offset };
                    Spot { at, offset } = self.put_rare(plan, steps, index, line, nanos, bytes, spot)?;
                }
            }
        }
        Ok(at)
    }

    /// Writes the front of a line, up to its first value.
    #[inline(always)]
    fn put_head(&mut self, steps: &Steps, line: &Line<'_>, nanos: u32, bytes: &mut [u8], at: usize) -> usize {
        let key = HeadKey::of(steps.number, self.clock.second_ns(), &line.thread);
        let kept = key.as_ref().and_then(|key| self.heads.find(key));
        match kept.and_then(|head| head.put(bytes, at, nanos)) {
            Some(end) => end,
            None => self.put_new_head(steps, key, line, nanos, bytes, at),
        }
    }

    #[inline(never)]
    fn put_new_head(
        &mut self,
        steps: &Steps,
        key: Option<HeadKey>,
        line: &Line<'_>,
        nanos: u32,
        bytes: &mut [u8],
        start: usize,
    ) -> usize {
        let (at, digits) = self.write_head(steps, line, nanos, bytes, start);
        if let (Some(key), Some(text), Some(digits)) = (key, bytes.get(start..at), digits) {
            self.heads.keep(key, text, digits);
        }
        at
    }

    /// The front as it is kept, for whoever writes it many times. The clock stands in the line's second.
    pub(super) fn head_of(&mut self, steps: &Steps, line: &Line<'_>, nanos: u32) -> Option<Head> {
        let second_ns = self.clock.second_ns();
        let key = HeadKey::of(steps.number, second_ns, &line.thread);
        if let Some(head) = key.as_ref().and_then(|key| self.heads.find(key)) {
            return Some(head.clone());
        }
        // Writers want some more room than they fill.
        let mut bytes = [0; 2 * HEAD_BYTES];
        let (end, digits) = self.write_head(steps, line, nanos, &mut bytes, 0);
        let key = key.unwrap_or(HeadKey::unnamed(steps.number, second_ns));
        Head::new(key, bytes.get(..end)?, digits?)
    }

    fn write_head(
        &mut self,
        steps: &Steps,
        line: &Line<'_>,
        nanos: u32,
        bytes: &mut [u8],
        start: usize,
    ) -> (usize, Option<Digits>) {
        let mut at = start;
        let mut digits = None;
        for (number, step) in steps.steps.iter().take(steps.head + 1).enumerate() {
            at = step.put_text(bytes, at, &steps.text);
            if number == steps.head {
                break;
            }
            if let Some(found) = steps.digits_of(step.var) {
                digits = Some(Digits {
                    at: at.wrapping_sub(start) + found.at,
                    ..found
                });
            }
            at = self.put_place(steps, step.var, line, nanos, bytes, at);
        }
        (at, digits)
    }

    /// Writes a part that tells of time or thread.
    pub(super) fn put_place(
        &mut self,
        steps: &Steps,
        var: Var,
        line: &Line<'_>,
        nanos: u32,
        bytes: &mut [u8],
        at: usize,
    ) -> usize {
        match var {
            Var::Iso => self.clock.put_iso(bytes, at, nanos),
            Var::Thread(escape) => self.thread.put(bytes, at, &line.thread, escape),
            Var::Rare(index) => match steps.rares.get(usize::from(index)) {
                Some(rare) => self.put_rare_place(*rare, line, nanos, bytes, at),
                None => at,
            },
            _ => at,
        }
    }

    fn put_rare_place(&self, rare: Rare, line: &Line<'_>, nanos: u32, bytes: &mut [u8], at: usize) -> usize {
        match rare {
            Rare::Time(form) => self.clock.put(bytes, at, nanos, form),
            Rare::ThreadId => put_u64(bytes, at, line.thread.id),
            Rare::ThreadBare if line.thread.name.is_empty() => put_u64(bytes, at, line.thread.id),
            Rare::ThreadBare => put_bare(bytes, at, line.thread.name.as_bytes(), Bare::Logfmt),
            Rare::ThreadIdPadded => put_u64_right(bytes, at, line.thread.id, 5),
            _ => at,
        }
    }

    /// Finds where each value of a static payload begins.
    fn find_values(&mut self, kinds: &[FieldKind], payload: &[u8]) -> Result<(), Malformed> {
        self.offsets.clear();
        let mut offset = 0;
        for kind in kinds {
            self.offsets.push(offset);
            if kind.optional && !take_presence(payload, &mut offset)? {
                continue;
            }
            skip(payload, kind.kind, &mut offset)?;
        }
        Ok(())
    }

    #[inline(never)]
    #[expect(
        clippy::too_many_arguments,
        reason = "the loop's state, handed over in registers"
    )]
    fn put_rare(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        index: u16,
        line: &Line<'_>,
        nanos: u32,
        bytes: &mut [u8],
        spot: Spot,
    ) -> Result<Spot, Malformed> {
        let Spot { at, mut offset } = spot;
        let payload = line.payload;
        let rare = *steps.rares.get(usize::from(index)).ok_or(Malformed)?;
        let at = match rare {
            Rare::Value(
                FieldKind {
                    kind,
                    optional: false,
                },
                form,
            ) => {
                return put_payload(bytes, spot, kind, payload, form);
            }
            Rare::Value(FieldKind { kind, .. }, form) => {
                if take_presence(payload, &mut offset)? {
                    return put_payload(bytes, Spot { at, offset }, kind, payload, form);
                }
                put_value(bytes, at, &Value::None, form)
            }
            Rare::Optional {
                kind,
                form,
                key,
                key_length,
            } => {
                if !take_presence(payload, &mut offset)? || kind == Kind::None {
                    return Ok(Spot { at, offset });
                }
                let key = steps
                    .text
                    .get(key as usize..)
                    .and_then(|rest| rest.get(..usize::from(key_length)));
                let at = put(bytes, at, key.unwrap_or(b""));
                return put_payload(bytes, Spot { at, offset }, kind, payload, form);
            }
            Rare::Show(index) => {
                let show = steps.shows.get(usize::from(index)).ok_or(Malformed)?;
                return self.put_show(plan, show, payload, bytes, spot);
            }
            Rare::Time(_) | Rare::ThreadId | Rare::ThreadBare | Rare::ThreadIdPadded => {
                self.put_rare_place(rare, line, nanos, bytes, at)
            }
            Rare::AllFields => super::dynamic::put_all_fields(plan, payload, steps.lenient, bytes, at)?,
            Rare::SpansAndMessage | Rare::Spans | Rare::Message | Rare::SpansField | Rare::Fields => {
                super::dynamic::put_part(&mut self.spans, plan, rare, payload, steps.lenient, bytes, at)?
            }
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

#[inline(always)]
fn take_u32(payload: &[u8], offset: &mut usize) -> Result<u64, Malformed> {
    Ok(u64::from(u32::from_le_bytes(take(payload, offset)?)))
}

#[inline(always)]
fn take_f64(payload: &[u8], offset: &mut usize) -> Result<f64, Malformed> {
    Ok(f64::from_le_bytes(take(payload, offset)?))
}

#[inline(never)]
fn put_f64_fixed(bytes: &mut [u8], at: usize, value: f64, decimals: u8) -> usize {
    match put_fixed(bytes, at, value, usize::from(decimals)) {
        Some(end) => end,
        None => put_f64_fixed_std(bytes, at, value, decimals),
    }
}

/// `%g` of C.
#[inline(never)]
fn put_f64_general(bytes: &mut [u8], at: usize, value: f64) -> usize {
    match put_general(bytes, at, value) {
        Some(end) => end,
        None => put(bytes, at, &general_text(value)),
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
            let pad = Pad {
                fill: '·',
                align,
                width,
                most,
            };
            let end = put_pad(&mut bytes, 2, 7, Some(&pad));
            String::from_utf8(bytes.get(..end).unwrap_or(b"overflow").to_vec()).unwrap()
        };
        assert_eq!(pad(Align::Right, 6, 99), "xx··é234");
        assert_eq!(pad(Align::Center, 5, 2), "xx·é2··");
        assert_eq!(pad(Align::Left, 3, 9), "xxé234");
        assert_eq!(pad(Align::Left, 40, 9), "overflow");
    }
}
