//! Lines that differ in their time and one text only: those of one callsite and thread within a second. What stands in
//! front of the text is laid out once for all of them, and the digits of the time are written over it.

use super::escape::{Escape, put_message_text};
use super::head::{HEAD_BYTES, Head};
use super::pen::{OVERFLOW, WIDE, put, put_block};
use super::plan::{Plan, Steps, Var};
use super::value::{Form, put_text};
use super::{Layout, Line};

/// What lines have in common.
#[derive(Debug)]
pub(crate) struct Alike {
    head: Head,
    form: Form,
    tail: [u8; WIDE],
    tail_bytes: usize,
    /// The time that the front was made for.
    unix_ns: u64,
    /// Whether the digits of another time of its second can be written over it.
    is_of_second: bool,
    /// The time whose digits stand in the front, where that is known, and the time of the last line.
    shown_ns: Option<u64>,
    last_ns: u64,
}

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Whether lines have nothing of their record's payload but one text, as the last part.
pub(super) fn ends_with_text(steps: &Steps) -> bool {
    let [front @ .., text, end] = steps.steps.as_slice() else {
        return false;
    };
    steps.sequential
        && matches!(text.var, Var::Str(_))
        && end.var == Var::End
        && end.short_text().is_some()
        && front.iter().all(|step| steps.is_place(step.var))
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
        let nanos = self.clock.enter(line.unix_ns);
        let of_second = match count == steps.head {
            true => self.head_of(steps, line, nanos),
            false => None,
        };
        let is_of_second = of_second.is_some();
        let head = match of_second {
            Some(head) => head,
            None if plan.ends_with_text => self.front_of(steps, count, line)?,
            None => return None,
        };
        Some(Alike {
            head,
            form,
            tail: tail.0,
            tail_bytes: tail.1,
            unix_ns: line.unix_ns,
            is_of_second,
            shown_ns: None,
            last_ns: 0,
        })
    }

    /// What the first `count` steps write, and the constant text of the next.
    fn front_of(&mut self, steps: &Steps, count: usize, line: &Line<'_>) -> Option<Head> {
        // Writers want some more room than they fill.
        let mut front = [0; 2 * HEAD_BYTES];
        let at = self.run_places(steps, count, line, &mut front);
        let end = steps.steps.get(count)?.put_text(&mut front, at, &steps.text);
        Head::plain(front.get(..end)?)
    }

    /// Writes the first `count` steps, which tell of time and thread.
    fn run_places(&mut self, steps: &Steps, count: usize, line: &Line<'_>, bytes: &mut [u8]) -> usize {
        let nanos = self.clock.enter(line.unix_ns);
        let front = steps.steps.iter().take(count);
        front.fold(0, |at, step| {
            let at = step.put_text(bytes, at, &steps.text);
            self.put_place(steps, step.var, line, nanos, bytes, at)
        })
    }

    /// Writes the line that begins so, and returns the offset behind it: past the buffer's end when it does not fit, has
    /// another front or cannot be read, and then nothing is written that counts.
    #[inline(always)]
    pub(crate) fn put_behind(
        &mut self,
        alike: &mut Alike,
        plan: &Plan,
        line: &Line<'_>,
        bytes: &mut [u8],
        at: usize,
    ) -> usize {
        match alike.put_front(bytes, at, line.unix_ns) {
            Some((at, nanos)) => self.run_body(plan, line, nanos, bytes, at).unwrap_or(OVERFLOW),
            None => OVERFLOW,
        }
    }
}

impl Alike {
    /// Writes the line with this text and time, and returns the offset behind it: past the buffer's end when it does not
    /// fit, or the time needs another front, and then nothing is written that counts.
    #[inline(always)]
    pub(crate) fn put(&mut self, text: &[u8], unix_ns: u64, bytes: &mut [u8], at: usize) -> usize {
        let Some((at, _)) = self.put_front(bytes, at, unix_ns) else {
            return OVERFLOW;
        };
        let at = match self.form {
            Form::Argument(Escape::Text) => put_message_text(bytes, at, text),
            Form::Argument(Escape::Raw) => put(bytes, at, text),
            form => put_text(bytes, at, text, form),
        };
        put_block(bytes, at, &self.tail, self.tail_bytes)
    }

    /// Writes the front with the digits of a time of its second. Returns the offset behind it, and the nanoseconds.
    ///
    /// Lines that were read at once have one time: from the third on its digits stand in the front already.
    #[inline(always)]
    fn put_front(&mut self, bytes: &mut [u8], at: usize, unix_ns: u64) -> Option<(usize, u32)> {
        if !self.is_of_second {
            let (_, end) = self.head.copy(bytes, at)?;
            return (unix_ns == self.unix_ns).then_some((end, 0));
        }
        let nanos = unix_ns.wrapping_sub(self.head.second_ns());
        if nanos >= SECOND_NS {
            return None;
        }
        let nanos = nanos as u32;
        if self.shown_ns == Some(unix_ns) {
            let (_, end) = self.head.copy(bytes, at)?;
            return Some((end, nanos));
        }
        if std::mem::replace(&mut self.last_ns, unix_ns) == unix_ns {
            self.head.show(nanos);
            self.shown_ns = Some(unix_ns);
        }
        Some((self.head.put(bytes, at, nanos)?, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LayoutOptions, Out, Outcome, ProcessInfo, Style, Thread};
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
                let mut alike = layout.alike(&plan, &line).expect("a front");
                let mut out = Out::new(&mut bytes);
                assert_eq!(layout.line(&plan, &line, &mut out), Outcome::Done);
                let expected = out.as_bytes().to_vec();
                let end = alike.put(text, unix_ns, &mut bytes, 0);
                let end = alike.put(text, unix_ns, &mut bytes, end);
                let found = bytes.get(..end).expect("room for two");
                assert_eq!(found, [&expected[..], &expected].concat(), "{style:?}");
                let mut small = vec![0; expected.len() - 1];
                assert!(alike.put(text, unix_ns, &mut small, 0) > small.len());
                check_other_times(&mut layout, &plan, &line, &mut alike, text);
            }
        }
    }

    /// Lines of other times are as they would be without the front, or refused; those of the second are not.
    fn check_other_times(layout: &mut Layout, plan: &Plan, line: &Line<'_>, alike: &mut Alike, text: &[u8]) {
        let second = line.unix_ns / SECOND_NS * SECOND_NS;
        for unix_ns in [
            second - 1,
            second,
            second + 7,
            second + 7,
            second + 7,
            second + SECOND_NS - 1,
            second + 7,
            second + SECOND_NS,
            u64::MAX,
        ] {
            let line = Line { unix_ns, ..*line };
            let (mut bytes, mut expected) = ([0; 2048], [0; 2048]);
            let mut wanted = Out::new(&mut expected);
            assert_eq!(layout.line(plan, &line, &mut wanted), Outcome::Done);
            let end = alike.put(text, unix_ns, &mut bytes, 0);
            if let Some(found) = bytes.get(..end) {
                assert_eq!(found, wanted.as_bytes());
                assert_eq!(unix_ns / SECOND_NS * SECOND_NS, second);
            } else {
                let is_of_second = unix_ns / SECOND_NS * SECOND_NS == second;
                assert!(!is_of_second || !alike.is_of_second);
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
        for style in [Style::Text, Style::Json, Style::Logfmt, pattern] {
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
                let mut alike = layout
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
                        let end = layout.put_behind(&mut alike, &plan, &line, &mut bytes, 0);
                        let is_put = end <= bytes.len();
                        let mut fresh =
                            Layout::new(style.clone().into(), ProcessInfo::default()).expect("a layout");
                        let mut wanted = Out::new(&mut expected);
                        let outcome = fresh.line(&plan, &line, &mut wanted);
                        assert_eq!(
                            is_put,
                            outcome == Outcome::Done && nanos < SECOND_NS,
                            "{style:?} {round}"
                        );
                        assert!(!is_put || bytes.get(..end) == Some(wanted.as_bytes()));
                    }
                }
            }
        }
        assert!(checked > 6, "{checked} of 12");
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
        let target = "t".repeat(150);
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
