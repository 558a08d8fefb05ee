//! The interpreter of a plan's steps, which turns any payload into its line.
//!
//! The [fast path](super::fast) writes the same bytes for the records that most lines come from.

use logdrive_wire::kind::FieldKind;
use logdrive_wire::limits::PAD_MAX;
use logdrive_wire::template::Count;
use logdrive_wire::{Kind, Value};

use super::escape::{Bare, Escape, put_bare, put_escaped, put_message_text};
use super::number::{put_fixed, put_general, put_i64, put_u64, put_u64_right};
use super::pattern::Pad;
use super::payload::{
    Malformed, Progress, cursor_at, skip, take, take_blob, take_i32, take_presence, take_unsigned,
};
use super::plan::{Plan, Rare, SpecPlaceholder, Step, Steps, Var};
use super::spec::{Resolved, count_chars, front, general_text, padding_before, render};
use super::time::TimeForm;
use super::value::{Form, put_payload, put_plain_f64, put_text, put_value};
use super::write::{OVERFLOW, put};
use super::{Layout, Record};

/// Nanoseconds of a record within its second, and the offset at which its line goes on.
#[derive(Clone, Copy)]
struct Place {
    nanos: u32,
    at: usize,
}

impl Layout {
    /// Writes these steps at `at` and returns the offset behind them, which is past the buffer's end if they did not
    /// fit. The time formatter stands in the record's second, and where the values are not read in passing, they were
    /// [found](Self::find_values) before.
    #[expect(
        clippy::too_many_arguments,
        reason = "the loop's state, handed over in registers"
    )]
    #[inline(always)]
    pub(super) fn interpret(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        some_steps: &[Step],
        record: &Record<'_>,
        nanos: u32,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Malformed> {
        let place = Place { nanos, at };
        if steps.sequential {
            self.interpret_as::<true>(plan, steps, some_steps, record, bytes, place)
        } else {
            self.interpret_as::<false>(plan, steps, some_steps, record, bytes, place)
        }
    }

    /// Writes the first `count` steps of a line, all of it by the interpreter.
    pub(super) fn interpret_front(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        count: usize,
        record: &Record<'_>,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Malformed> {
        let front = steps.steps.get(..count).unwrap_or(&steps.steps);
        let nanos = self.time.enter(record.unix_ns);
        if !steps.sequential {
            self.find_values(&plan.kinds, record.payload)?;
        }
        self.interpret(plan, steps, front, record, nanos, bytes, at)
    }

    fn interpret_as<const SEQUENTIAL: bool>(
        &mut self,
        plan: &Plan,
        steps: &Steps,
        front: &[Step],
        record: &Record<'_>,
        bytes: &mut [u8],
        place: Place,
    ) -> Result<usize, Malformed> {
        let Place { nanos, mut at } = place;
        let payload = record.payload;
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
                Var::Iso => at = self.time.put(bytes, at, nanos, TimeForm::Iso),
                Var::Thread(escape) => at = self.thread.put(bytes, at, &record.thread, escape),
                Var::Str(Form::Argument(Escape::Text)) => {
                    at = put_message_text(bytes, at, take_blob(payload, &mut offset)?)
                }
                Var::Str(form) => at = put_text(bytes, at, take_blob(payload, &mut offset)?, form),
                Var::U64 => at = put_u64(bytes, at, take_unsigned::<8>(payload, &mut offset)?),
                Var::U32 => at = put_u64(bytes, at, take_unsigned::<4>(payload, &mut offset)?),
                Var::I64 => at = put_i64(bytes, at, i64::from_le_bytes(take(payload, &mut offset)?)),
                Var::I32 => at = put_i64(bytes, at, take_i32(payload, &mut offset)?),
                Var::F64Fixed(decimals) => {
                    at = put_f64_fixed(bytes, at, take_f64(payload, &mut offset)?, decimals);
                }
                Var::F64(form) => at = put_plain_f64(bytes, at, take_f64(payload, &mut offset)?, form),
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
                    let progress = Progress { at, offset };
                    Progress { at, offset } =
                        self.put_rare(plan, steps, index, record, nanos, bytes, progress)?;
                }
            }
        }
        Ok(at)
    }

    /// Writes a part with a time or thread.
    pub(super) fn put_prefix_var(
        &mut self,
        steps: &Steps,
        var: Var,
        record: &Record<'_>,
        nanos: u32,
        bytes: &mut [u8],
        at: usize,
    ) -> usize {
        match var {
            Var::Iso => self.time.put_iso(bytes, at, nanos),
            Var::Thread(escape) => self.thread.put(bytes, at, &record.thread, escape),
            Var::Rare(index) => match steps.rares.get(usize::from(index)) {
                Some(rare) => self.put_rare_prefix_var(*rare, record, nanos, bytes, at),
                None => at,
            },
            _ => at,
        }
    }

    fn put_rare_prefix_var(
        &self,
        rare: Rare,
        record: &Record<'_>,
        nanos: u32,
        bytes: &mut [u8],
        at: usize,
    ) -> usize {
        match rare {
            Rare::Time(form) => self.time.put(bytes, at, nanos, form),
            Rare::ThreadId => put_u64(bytes, at, record.thread.id),
            Rare::ThreadBare if record.thread.name.is_empty() => put_u64(bytes, at, record.thread.id),
            Rare::ThreadBare => put_bare(bytes, at, record.thread.name.as_bytes(), Bare::Logfmt),
            Rare::ThreadIdPadded => put_u64_right(bytes, at, record.thread.id, 5),
            _ => at,
        }
    }

    /// Finds where each value of a static payload begins.
    pub(super) fn find_values(&mut self, kinds: &[FieldKind], payload: &[u8]) -> Result<(), Malformed> {
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
        record: &Record<'_>,
        nanos: u32,
        bytes: &mut [u8],
        progress: Progress,
    ) -> Result<Progress, Malformed> {
        let Progress { at, mut offset } = progress;
        let payload = record.payload;
        let rare = *steps.rares.get(usize::from(index)).ok_or(Malformed)?;
        let at = match rare {
            Rare::Value(
                FieldKind {
                    kind,
                    optional: false,
                },
                form,
            ) => {
                return put_payload(bytes, progress, kind, payload, form);
            }
            Rare::Value(FieldKind { kind, .. }, form) => {
                if take_presence(payload, &mut offset)? {
                    return put_payload(bytes, Progress { at, offset }, kind, payload, form);
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
                    return Ok(Progress { at, offset });
                }
                let key = steps
                    .text
                    .get(key as usize..)
                    .and_then(|rest| rest.get(..usize::from(key_length)));
                let at = put(bytes, at, key.unwrap_or(b""));
                return put_payload(bytes, Progress { at, offset }, kind, payload, form);
            }
            Rare::Placeholder(index) => {
                let placeholder = steps.placeholders.get(usize::from(index)).ok_or(Malformed)?;
                return self.put_placeholder(plan, placeholder, payload, bytes, progress);
            }
            Rare::Time(_) | Rare::ThreadId | Rare::ThreadBare | Rare::ThreadIdPadded => {
                self.put_rare_prefix_var(rare, record, nanos, bytes, at)
            }
            Rare::AllFields => super::dynamic::put_all_fields(plan, payload, steps.lenient, bytes, at)?,
            Rare::SpansAndMessage | Rare::Spans | Rare::Message | Rare::SpansField | Rare::Fields => {
                super::dynamic::put_part(&mut self.spans, plan, rare, payload, steps.lenient, bytes, at)?
            }
        };
        Ok(Progress { at, offset })
    }

    /// Writes a value with a spec.
    fn put_placeholder(
        &mut self,
        plan: &Plan,
        placeholder: &SpecPlaceholder,
        payload: &[u8],
        bytes: &mut [u8],
        progress: Progress,
    ) -> Result<Progress, Malformed> {
        let mut cursor = cursor_at(payload, progress.offset)?;
        let (value, _) = Value::read(placeholder.kind, &mut cursor)?;
        let resolved = Resolved {
            spec: &placeholder.spec,
            width: self.count(plan, placeholder.spec.width, payload)?,
            precision: self.count(plan, placeholder.spec.precision, payload)?,
        };
        self.scratch.clear();
        render(&mut self.scratch, placeholder.kind, &value, resolved);
        Ok(Progress {
            at: put_escaped(bytes, progress.at, &self.scratch, placeholder.escape),
            offset: progress.offset + cursor.offset(),
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

/// Writes a float as `%g` of C does.
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
    let before = padding_before(pad.align, missing);
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
    use logdrive_wire::template::Align;

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
