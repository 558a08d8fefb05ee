//! What stands behind the front of a line, for the plans that most lines have: short constant texts, and integers, floats
//! with a fixed number of decimals or of digits that count, and texts between them.
//!
//! Such a body is laid out in a piece of the buffer whose size the compiler knows, so that a write is checked by one
//! comparison, and the loop has few cases, so that its state stays in registers. Whatever is not usual is left to the
//! loop that can do all.

use super::escape::{Escape, put_message_text};
use super::number::{put_fixed, put_fixed_here, put_general, put_i64_here, put_u64_here};
use super::pen::{WIDE, put, room};
use super::plan::{Step, Var};
use super::value::{Form, put_text};

/// Room for a body. Longer ones are rare, and so are buffers that have less left.
const BODY_BYTES: usize = 512;

/// Whether a body is one of these.
pub(super) fn is_quick(body: &[Step]) -> bool {
    let is_usual = |var| {
        matches!(
            var,
            Var::U64 | Var::U32 | Var::I64 | Var::I32 | Var::F64Fixed(_) | Var::F64General | Var::Str(_)
        )
    };
    match body {
        [front @ .., end] => {
            end.var == Var::End
                && front.iter().all(|step| is_usual(step.var))
                && body.iter().all(|step| step.short_text().is_some())
        }
        [] => false,
    }
}

/// Writes the body and returns the offset behind it; `None` when it is not usual, and then nothing is written that
/// counts.
#[inline(never)]
pub(super) fn put_quick(body: &[Step], payload: &[u8], bytes: &mut [u8], start: usize) -> Option<usize> {
    put_quick_here(body, payload, bytes, start)
}

/// The same in the place of the call, for loops over many records.
#[inline(always)]
pub(super) fn put_quick_here(body: &[Step], payload: &[u8], bytes: &mut [u8], start: usize) -> Option<usize> {
    let place = room::<BODY_BYTES>(bytes, start)?;
    let mut rest = payload;
    let mut at = 0;
    for step in body {
        at = step.put_short(place, at)?;
        match step.var {
            Var::End => return Some(start + at),
            Var::Str(form) => at = put_next_text(place, at, &mut rest, form)?,
            Var::U64 => at = put_u64_here(place, at, u64::from_le_bytes(next(&mut rest)?)),
            Var::U32 => at = put_u64_here(place, at, u32::from_le_bytes(next(&mut rest)?).into()),
            Var::I64 => at = put_i64_here(place, at, i64::from_le_bytes(next(&mut rest)?)),
            Var::I32 => at = put_i64_here(place, at, i32::from_le_bytes(next(&mut rest)?).into()),
            Var::F64Fixed(decimals) => {
                let value = f64::from_le_bytes(next(&mut rest)?);
                at = match put_fixed_here(place, at, value, usize::from(decimals)) {
                    Some(end) => end,
                    None => put_fixed_other(place, at, value, decimals)?,
                };
            }
            Var::F64General => at = put_general_here(place, at, f64::from_le_bytes(next(&mut rest)?))?,
            _ => return None,
        }
    }
    None
}

/// A float whose text has an exponent, or is none of digits, is not usual.
#[inline(never)]
fn put_general_here(place: &mut [u8; BODY_BYTES], at: usize, value: f64) -> Option<usize> {
    put_general(place, at, value).filter(|end| *end <= BODY_BYTES)
}

#[inline(never)]
fn put_fixed_other(place: &mut [u8; BODY_BYTES], at: usize, value: f64, decimals: u8) -> Option<usize> {
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
    // What does not fit here may fit the buffer.
    (end <= BODY_BYTES).then_some(end)
}

impl Step {
    /// Writes constant text that is no longer than a block.
    #[inline(always)]
    fn put_short(&self, place: &mut [u8; BODY_BYTES], at: usize) -> Option<usize> {
        let (text, length) = self.block();
        *room::<WIDE>(place, at)? = *text;
        Some(at + length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, Line, Out, Outcome, ProcessInfo, Style, Thread};
    use logdrive_wire::kind::FieldKind;
    use logdrive_wire::{Callsite, Field, Kind};

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    /// A callsite with some values in its message and some behind it, and whether all are of the usual kinds.
    fn site(state: &mut u64) -> (Callsite, bool) {
        let kinds = [
            Kind::U64,
            Kind::U32,
            Kind::I64,
            Kind::I32,
            Kind::F64,
            Kind::Str,
            Kind::Bool,
        ];
        let mut site = Callsite {
            file: "src/net.rs".into(),
            line: 7,
            module: "shop".into(),
            ..Callsite::default()
        };
        let mut is_usual = true;
        for index in 0..random(state, 7) {
            let kind = kinds[random(state, 7).min(random(state, 7)) as usize];
            let argument = random(state, 4) > 0;
            let is_fixed = kind == Kind::F64 && argument && random(state, 4) > 0;
            let is_general = kind == Kind::F64 && argument && !is_fixed && random(state, 2) > 0;
            is_usual &= kind != Kind::Bool && (kind != Kind::F64 || is_fixed || is_general);
            if argument {
                let text = "a constant text with \u{e9} and more than a block of it"
                    .chars()
                    .take(random(state, 40) as usize);
                site.message.extend(text);
                let decimals = random(state, 8);
                site.message += &match (is_fixed, is_general) {
                    (true, _) => format!("{{{index}:.{decimals}}}"),
                    (_, true) => format!("{{{index}:g}}"),
                    _ => format!("{{{index}}}"),
                };
            }
            site.fields.push(Field {
                name: format!("f{index}"),
                kind: FieldKind::plain(kind),
                argument,
            });
        }
        // Values that the message does not show stand behind it, which is another order.
        site.fields.sort_by_key(|field| !field.argument);
        let mut number = 0;
        let mut message = String::new();
        for part in site.message.split_inclusive('{') {
            message += part
                .split_once([':', '}'])
                .map_or(part, |(digits, _)| &part[digits.len()..]);
            if part.ends_with('{') {
                message += &number.to_string();
                number += 1;
            }
        }
        site.message = message;
        (site, is_usual)
    }

    fn payload(state: &mut u64, site: &Callsite) -> Vec<u8> {
        let texts: [&[u8]; 6] = [
            b"",
            b"cust-042",
            b"two words",
            b"a\n\\=",
            "\u{202e}\u{e9}".as_bytes(),
            &[b'x'; 300],
        ];
        let mut payload = Vec::new();
        for field in &site.fields {
            let number = (random(state, u64::MAX) << 33 | random(state, u64::MAX)) >> random(state, 64);
            let number = if random(state, 3) == 0 {
                number.wrapping_neg()
            } else {
                number
            };
            match field.kind.kind {
                Kind::U64 | Kind::I64 => payload.extend(number.to_le_bytes()),
                Kind::U32 | Kind::I32 => payload.extend((number as u32).to_le_bytes()),
                Kind::F64 => payload.extend((number.cast_signed() as f64 / 64.0).to_le_bytes()),
                Kind::Bool => payload.push(number as u8 & 1),
                _ => {
                    let text = texts[random(state, texts.len() as u64) as usize];
                    payload.extend((text.len() as u32).to_le_bytes());
                    payload.extend(text);
                }
            }
        }
        payload
    }

    #[test]
    fn bodies_that_are_laid_out_at_once_are_those_of_the_loop_that_can_do_all() {
        let mut state = 0x9001c;
        let (mut quick, mut refused) = (0, 0);
        for round in 0..4_000 {
            let styles = [
                Style::Text,
                Style::Glog,
                Style::GlogRaw,
                Style::Json,
                Style::Logfmt,
            ];
            let style = styles[round % styles.len()].clone();
            let mut layout = Layout::new(style.into(), ProcessInfo::default()).expect("a layout");
            let (site, is_usual) = site(&mut state);
            let plan = layout.compile(&site);
            let mut other = plan.clone();
            other.main.is_quick = false;
            assert!(is_usual || !plan.main.is_quick, "{site:?}");
            quick += usize::from(plan.main.is_quick);
            for _ in 0..4 {
                let mut payload = payload(&mut state, &site);
                if random(&mut state, 5) == 0 {
                    payload.truncate(random(&mut state, payload.len() as u64 + 1) as usize);
                }
                let line = Line {
                    unix_ns: 1_795_264_496_123_456_789,
                    thread: Thread { name: "main", id: 1 },
                    payload: &payload,
                };
                let (mut bytes, mut expected) = (vec![0; 8_000], vec![0; 8_000]);
                let (mut out, mut wanted) = (Out::new(&mut bytes), Out::new(&mut expected));
                let outcome = layout.line(&plan, &line, &mut out);
                assert_eq!(outcome, layout.line(&other, &line, &mut wanted), "{site:?}");
                refused += usize::from(outcome == Outcome::Malformed);
                assert_eq!(
                    String::from_utf8_lossy(out.as_bytes()),
                    String::from_utf8_lossy(wanted.as_bytes())
                );
            }
        }
        assert!(quick > 1_000, "{quick} of 4000");
        assert!(refused > 500, "{refused} payloads were cut");
    }
}
