//! Lines that differ in one text only: those of one callsite, thread and time, such as a command prints many of between
//! two reads of its output. What stands in front of the text is laid out once for all of them.

use super::pen::{OVERFLOW, WIDE, put_block};
use super::plan::{Plan, Steps, Var};
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
}

/// Whether lines have nothing of their record's payload but one text, as the last part.
pub(super) fn ends_with_text(steps: &Steps) -> bool {
    let [front @ .., text, end] = steps.steps.as_slice() else {
        return false;
    };
    let is_constant = |var| matches!(var, Var::Iso | Var::Thread(_)) || steps.is_place(var);
    steps.sequential
        && matches!(text.var, Var::Str(_))
        && end.var == Var::End
        && end.short_text().is_some()
        && front.iter().all(|step| is_constant(step.var))
}

impl Layout {
    /// What all lines begin with that have this plan and the time and thread of this line; `None` where they differ in
    /// more than a text. For plans with [`Plan::ends_with_text`].
    pub(crate) fn alike(&mut self, plan: &Plan, line: &Line<'_>) -> Option<Alike> {
        let steps = &plan.main;
        let [.., text, end] = steps.steps.as_slice() else {
            return None;
        };
        let Var::Str(form) = text.var else {
            return None;
        };
        // Writers want some more room than they fill.
        let mut front = [0; FRONT_BYTES_MAX + 2 * WIDE];
        let count = steps.steps.len() - 2;
        let at = self.run_front(plan, steps, count, line, &mut front, 0).ok()?;
        let front_bytes = text.put_text(&mut front, at, &steps.text);
        let (tail, tail_bytes) = end.short_text()?;
        (front_bytes <= FRONT_BYTES_MAX).then_some(Alike {
            front: *front.first_chunk()?,
            front_bytes,
            form,
            tail,
            tail_bytes,
        })
    }
}

impl Alike {
    /// Writes the line with this text; `false` when it does not fit, and then nothing is written.
    #[inline]
    pub(crate) fn put(&self, text: &[u8], out: &mut Out<'_>) -> bool {
        let at = self.put_front(out.bytes, out.length);
        let at = put_text(out.bytes, at, text, self.form);
        let at = put_block(out.bytes, at, &self.tail, self.tail_bytes);
        let fits = at < OVERFLOW && !out.overflow;
        if fits {
            out.length = at;
        }
        fits
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
                assert!(alike.put(text, &mut out) && alike.put(text, &mut out));
                assert_eq!(out.as_bytes(), [&expected[..], &expected].concat(), "{style:?}");
                let mut small = vec![0; expected.len() - 1];
                let mut out = Out::new(&mut small);
                assert!(!alike.put(text, &mut out) && out.is_empty());
            }
        }
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
