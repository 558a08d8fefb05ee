//! Lines that differ in their time and one text only: those of one callsite and thread within a second. What stands in
//! front of the text is laid out once for all of them, and the digits of the time are written over it.

use super::escape::{Escape, put_message_text};
use super::pen::{OVERFLOW, WIDE, put, put_block};
use super::plan::{Plan, Steps, Var};
use super::time::Digits;
use super::value::{Form, put_text};
use super::{Layout, Line, Out};

/// Bytes that a front may have to be kept: time, level, names and keys in all styles, if the names are not long.
const FRONT_BYTES_MAX: usize = 128;

/// A front up to this length is copied in one piece.
const FRONT_BLOCK_BYTES: usize = 64;

/// What lines have in common.
#[derive(Debug)]
pub(crate) struct Alike {
    front: [u8; FRONT_BYTES_MAX],
    front_bytes: usize,
    form: Form,
    tail: [u8; WIDE],
    tail_bytes: usize,
    /// The time that the front shows.
    unix_ns: u64,
    /// When its second began, and where its digits stand; `None` where another time needs another front.
    second: Option<Second>,
}

/// A second, whose lines differ in some digits.
#[derive(Debug, Clone, Copy)]
struct Second {
    begin_ns: u64,
    digits_at: usize,
    digits: Digits,
}

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Whether lines have nothing of their record's payload but one text, as the last part.
pub(super) fn ends_with_text(steps: &Steps) -> bool {
    let [front @ .., text, end] = steps.steps.as_slice() else {
        return false;
    };
    let is_constant = |var: Var| var.is_of_head() || steps.is_place(var);
    steps.sequential
        && matches!(text.var, Var::Str(_))
        && end.var == Var::End
        && end.short_text().is_some()
        && front.iter().all(|step| is_constant(step.var))
}

impl Layout {
    /// What all lines begin with that have this plan and the second and thread of this line; `None` where that is too
    /// long to be kept. For plans with [`Plan::begins_alike`].
    pub(crate) fn alike(&mut self, plan: &Plan, line: &Line<'_>) -> Option<Alike> {
        let steps = &plan.main;
        // The constant text of the step behind the front belongs to it.
        let (count, form, tail) = match steps.steps.as_slice() {
            [front @ .., text, end] if plan.ends_with_text => {
                let Var::Str(form) = text.var else {
                    return None;
                };
                (front.len(), form, end.short_text()?)
            }
            _ => (steps.head, Form::Json, ([0; WIDE], 0)),
        };
        // Writers want some more room than they fill.
        let mut front = [0; FRONT_BYTES_MAX + 2 * WIDE];
        let at = self.run_front(plan, steps, count, line, &mut front, 0).ok()?;
        let front_bytes = steps.steps.get(count)?.put_text(&mut front, at, &steps.text);
        let second = self.second_in(plan, count, line, front_bytes);
        if front_bytes > FRONT_BYTES_MAX || !(plan.ends_with_text || second.is_some()) {
            return None;
        }
        Some(Alike {
            front: *front.first_chunk()?,
            front_bytes,
            form,
            tail: tail.0,
            tail_bytes: tail.1,
            unix_ns: line.unix_ns,
            second,
        })
    }

    /// When the second of this line began, and where in the front its digits are, if the front shows it once and so.
    fn second_in(
        &mut self,
        plan: &Plan,
        count: usize,
        line: &Line<'_>,
        front_bytes: usize,
    ) -> Option<Second> {
        let steps = &plan.main;
        if steps.head < count {
            return None;
        }
        let time = steps.steps.iter().position(|step| step.var.time().is_some())?;
        let (offset, digits) = Digits::of(steps.steps.get(time)?.var.time()?)?;
        let mut front = [0; FRONT_BYTES_MAX + 2 * WIDE];
        let at = self.run_front(plan, steps, time, line, &mut front, 0).ok()?;
        let digits_at = steps.steps.get(time)?.put_text(&mut front, at, &steps.text) + offset;
        (digits_at + digits.bytes() <= front_bytes).then(|| Second {
            begin_ns: self.clock.second_ns(),
            digits_at,
            digits,
        })
    }

    /// Writes the line that begins so; `false` when it does not fit, has another front or cannot be read, and then
    /// nothing is written.
    #[inline(always)]
    pub(crate) fn put_behind(
        &mut self,
        alike: &Alike,
        plan: &Plan,
        line: &Line<'_>,
        out: &mut Out<'_>,
    ) -> bool {
        let at = alike.put_front(out.bytes, out.length);
        let Some(nanos) = alike.put_time(line.unix_ns, out) else {
            return false;
        };
        match self.run_body(plan, line, nanos, out.bytes, at) {
            Ok(end) if end <= out.bytes.len() && !out.overflow => {
                out.length = end;
                true
            }
            _ => false,
        }
    }
}

impl Alike {
    /// Writes the line with this text and time; `false` when it does not fit, or the time needs another front, and then
    /// nothing is written.
    #[inline(always)]
    pub(crate) fn put(&self, text: &[u8], unix_ns: u64, out: &mut Out<'_>) -> bool {
        let at = self.put_front(out.bytes, out.length);
        if unix_ns != self.unix_ns && self.put_time(unix_ns, out).is_none() {
            return false;
        }
        let at = match self.form {
            Form::Argument(Escape::Text) => put_message_text(out.bytes, at, text),
            Form::Argument(Escape::Raw) => put(out.bytes, at, text),
            form => put_text(out.bytes, at, text, form),
        };
        let at = put_block(out.bytes, at, &self.tail, self.tail_bytes);
        let fits = at < OVERFLOW && !out.overflow;
        if fits {
            out.length = at;
        }
        fits
    }

    /// Writes the digits of another time of the same second over the front. Returns its nanoseconds.
    #[inline(always)]
    fn put_time(&self, unix_ns: u64, out: &mut Out<'_>) -> Option<u32> {
        let second = self.second?;
        let nanos = unix_ns.wrapping_sub(second.begin_ns);
        if nanos >= SECOND_NS {
            return None;
        }
        let at = out.length + second.digits_at;
        second.digits.put(out.bytes, at, nanos as u32)?;
        Some(nanos as u32)
    }

    #[inline(always)]
    fn put_front(&self, bytes: &mut [u8], at: usize) -> usize {
        match self.front.first_chunk::<FRONT_BLOCK_BYTES>() {
            Some(block) if self.front_bytes <= FRONT_BLOCK_BYTES => {
                put_block(bytes, at, block, self.front_bytes)
            }
            _ => put_block(bytes, at, &self.front, self.front_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LayoutOptions, Outcome, ProcessInfo, Style, Thread};
    use super::*;
    use logdrive_wire::kind::FieldKind;
    use logdrive_wire::{Callsite, Field, Kind};

    fn site(message: &str, kinds: &[Kind]) -> Callsite {
        let field = |kind: &Kind| Field {
            name: String::new(),
            kind: FieldKind::plain(*kind),
            argument: true,
        };
        Callsite {
            target: "std\u{e9}rr".to_owned(),
            message: message.to_owned(),
            fields: kinds.iter().map(field).collect(),
            ..Callsite::default()
        }
    }

    fn payload(text: &[u8]) -> Vec<u8> {
        let length = (text.len() as u32).to_le_bytes();
        [&length[..], text].concat()
    }

    #[test]
    fn lines_that_are_alike_are_those_that_are_laid_out_one_by_one() {
        let styles = [
            Style::Text,
            Style::Glog,
            Style::GlogRaw,
            Style::Json,
            Style::Logfmt,
            Style::Pattern("{message}{fields}".to_owned()),
            Style::Pattern("{time} [{thread}] {message} {level}".to_owned()),
        ];
        let long = vec![b'x'; 500];
        let texts: [&[u8]; 6] = [
            b"",
            b"plain",
            b"a \"b\"\\\x1b[1m\n=",
            "é\u{202e}".as_bytes(),
            b"\xff",
            &long,
        ];
        for (style, name) in styles
            .into_iter()
            .flat_map(|style| [(style.clone(), "a\tb"), (style, "")])
        {
            let mut options = LayoutOptions::from(style.clone());
            options.color = style == Style::Text && name.is_empty();
            let mut layout = Layout::new(options, ProcessInfo::default()).expect("a layout");
            let plan = layout.compile(&site("{0}", &[Kind::Str]));
            assert!(plan.ends_with_text(), "{style:?}");
            let thread = Thread { name, id: 417 };
            let unix_ns = 1_795_264_496_123_456_789;
            let mut bytes = [0; 2048];
            for text in texts {
                let payload = payload(text);
                let line = Line {
                    unix_ns,
                    thread,
                    payload: &payload,
                };
                let alike = layout.alike(&plan, &line).expect("a front");
                let mut out = Out::new(&mut bytes);
                assert_eq!(layout.line(&plan, &line, &mut out), Outcome::Done);
                let expected = out.as_bytes().to_vec();
                let mut out = Out::new(&mut bytes);
                assert!(alike.put(text, unix_ns, &mut out) && alike.put(text, unix_ns, &mut out));
                assert_eq!(out.as_bytes(), [&expected[..], &expected].concat(), "{style:?}");
                let mut small = vec![0; expected.len() - 1];
                let mut out = Out::new(&mut small);
                assert!(!alike.put(text, unix_ns, &mut out) && out.is_empty());
                check_other_times(&mut layout, &plan, &line, &alike, text);
            }
        }
    }

    /// Lines of other times are as they would be without the front, or refused; those of the second are not.
    fn check_other_times(layout: &mut Layout, plan: &Plan, line: &Line<'_>, alike: &Alike, text: &[u8]) {
        let second = line.unix_ns / SECOND_NS * SECOND_NS;
        for unix_ns in [
            second - 1,
            second,
            second + 7,
            second + SECOND_NS - 1,
            second + SECOND_NS,
            u64::MAX,
        ] {
            let line = Line { unix_ns, ..*line };
            let (mut bytes, mut expected) = ([0; 2048], [0; 2048]);
            let mut wanted = Out::new(&mut expected);
            assert_eq!(layout.line(plan, &line, &mut wanted), Outcome::Done);
            let mut out = Out::new(&mut bytes);
            if alike.put(text, unix_ns, &mut out) {
                assert_eq!(out.as_bytes(), wanted.as_bytes());
                assert_eq!(unix_ns / SECOND_NS * SECOND_NS, second);
            } else {
                assert!(out.is_empty());
                let is_of_second = unix_ns / SECOND_NS * SECOND_NS == second;
                assert!(!is_of_second || alike.second.is_none());
            }
        }
    }

    #[test]
    fn lines_that_begin_alike_are_those_that_are_laid_out_one_by_one() {
        let sites = [
            site("{0} at {1:.2} x {2}", &[Kind::Str, Kind::F64, Kind::I32]),
            site("ready", &[]),
            Callsite {
                dynamic: true,
                ..site("", &[])
            },
        ];
        let pattern = Style::Pattern("{time} {message} {thread} {time:%S.%9f}".to_owned());
        let mut checked = 0;
        for style in [
            Style::Text,
            Style::Glog,
            Style::GlogRaw,
            Style::Json,
            Style::Logfmt,
            pattern,
        ] {
            for site in &sites {
                let mut layout = Layout::new(style.clone().into(), ProcessInfo::default()).expect("a layout");
                let plan = layout.compile(site);
                if !plan.begins_alike() {
                    continue;
                }
                checked += 1;
                assert!(!plan.ends_with_text(), "{style:?}");
                let payload = [&payload(b"acme")[..], &2.5f64.to_le_bytes(), &7i32.to_le_bytes()].concat();
                let second = 1_795_264_496_000_000_000;
                let line = |unix_ns, payload| Line {
                    unix_ns,
                    thread: Thread { name: "w\t1", id: 4 },
                    payload,
                };
                let alike = layout
                    .alike(&plan, &line(second + 5, &payload[..]))
                    .expect("a front");
                for (round, nanos) in [5, 0, 999_999_999, 1_000_000_000, 123_456_789]
                    .into_iter()
                    .enumerate()
                {
                    // Whole payloads, and one that cannot be read.
                    for payload in [&payload[..], &payload[..3 + 4 * round]] {
                        let line = line(second + nanos, payload);
                        let (mut bytes, mut expected) = ([0; 1024], [0; 1024]);
                        let mut out = Out::new(&mut bytes);
                        let is_put = layout.put_behind(&alike, &plan, &line, &mut out);
                        let mut fresh =
                            Layout::new(style.clone().into(), ProcessInfo::default()).expect("a layout");
                        let mut wanted = Out::new(&mut expected);
                        let outcome = fresh.line(&plan, &line, &mut wanted);
                        assert_eq!(
                            is_put,
                            outcome == Outcome::Done && nanos < SECOND_NS,
                            "{style:?} {round}"
                        );
                        let wanted: &[u8] = if is_put { wanted.as_bytes() } else { b"" };
                        assert_eq!(out.as_bytes(), wanted);
                    }
                }
            }
        }
        assert!(checked > 10, "{checked} of 18");
    }

    #[test]
    fn lines_with_more_than_a_text_are_not_alike() {
        let layout = Layout::new(Style::Text.into(), ProcessInfo::default()).expect("a layout");
        for site in [
            site("{0} {1}", &[Kind::Str, Kind::U64]),
            site("{1} {0}", &[Kind::U64, Kind::Str]),
            site("{0}", &[Kind::U64]),
            site("{0:>9}", &[Kind::Str]),
            site("{0} {0}", &[Kind::Str]),
            site("ready", &[]),
        ] {
            assert!(!layout.compile(&site).ends_with_text(), "{site:?}");
        }
        let dynamic = Callsite {
            dynamic: true,
            ..site("", &[])
        };
        assert!(!layout.compile(&dynamic).ends_with_text());
    }

    #[test]
    fn a_front_that_is_too_long_is_not_kept() {
        let mut layout = Layout::new(Style::Text.into(), ProcessInfo::default()).expect("a layout");
        let target = "t".repeat(100);
        let plan = layout.compile(&Callsite {
            target,
            ..site("{0}", &[Kind::Str])
        });
        let thread = Thread { name: "main", id: 1 };
        let line = Line {
            unix_ns: 0,
            thread,
            payload: &[],
        };
        assert!(plan.ends_with_text() && layout.alike(&plan, &line).is_none());
    }
}
