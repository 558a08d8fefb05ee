//! The front of a line, up to its first value, kept for the next line with the same one.
//!
//! Records of one callsite and one thread within a second begin alike but for some digits: time, level, thread, module,
//! file. So the front is copied in wide blocks and the digits are written over it, which is a fifth of the work.

use super::Thread;
use super::pen::{put, room};
use super::plan::Steps;
use super::thread::{ThreadWords, thread_words};
use super::time::Digits;

/// Bytes of the longest front that is kept, and of the part that is always copied: most are no longer.
const HEAD_BYTES: usize = 160;
const USUAL_BYTES: usize = 96;

/// Fronts that are kept: some threads and callsites take turns.
const HEADS: usize = 32;

/// The fronts of lines that were written lately.
#[derive(Debug)]
pub(super) struct HeadsKept {
    heads: Box<[Head]>,
}

/// Whose front it is: the steps' number, never 0, when the second began, and the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadKey {
    steps: u64,
    second_ns: u64,
    thread: ThreadWords,
}

#[derive(Debug, Clone)]
struct Head {
    key: HeadKey,
    length: usize,
    /// Where the digits begin.
    digits_at: usize,
    digits: Digits,
    text: [u8; HEAD_BYTES],
}

const NONE: Head = Head {
    key: HeadKey {
        steps: 0,
        second_ns: 0,
        thread: ThreadWords::NONE,
    },
    length: 0,
    digits_at: 0,
    digits: Digits::Nine,
    text: [0; HEAD_BYTES],
};

impl Default for HeadsKept {
    fn default() -> Self {
        Self {
            heads: vec![NONE; HEADS].into_boxed_slice(),
        }
    }
}

impl HeadKey {
    /// `None` where the thread's name is too long to be compared at once.
    #[inline(always)]
    pub(super) fn of(steps: &Steps, second_ns: u64, thread: &Thread<'_>) -> Option<Self> {
        let thread = match steps.by_thread_id {
            true => ThreadWords::of_id(thread.id),
            false => thread_words(thread)?,
        };
        Some(Self {
            steps: steps.number,
            second_ns,
            thread,
        })
    }

    #[inline(always)]
    fn place(&self, thread_id: u64) -> usize {
        (self.steps.wrapping_add(thread_id)) as usize % HEADS
    }
}

impl HeadsKept {
    /// Writes the front with these nanoseconds, if it is kept and there is room for whole blocks. Returns the offset
    /// behind it.
    #[inline(always)]
    pub(super) fn put(
        &self,
        key: &HeadKey,
        thread_id: u64,
        bytes: &mut [u8],
        at: usize,
        nanos: u32,
    ) -> Option<usize> {
        let head = self.heads.get(key.place(thread_id))?;
        if head.key != *key {
            return None;
        }
        let place = room::<HEAD_BYTES>(bytes, at)?;
        if head.length > USUAL_BYTES {
            *place = head.text;
        } else {
            place[..USUAL_BYTES].copy_from_slice(&head.text[..USUAL_BYTES]);
        }
        head.digits.put(place, head.digits_at, nanos)?;
        Some(at + head.length)
    }

    /// Keeps a front that was written just now.
    #[inline(never)]
    pub(super) fn keep(
        &mut self,
        key: HeadKey,
        thread_id: u64,
        text: &[u8],
        (digits_at, digits): (usize, Digits),
    ) {
        let fits = text.len() <= HEAD_BYTES && digits_at + digits.bytes() <= text.len();
        if let Some(head) = self.heads.get_mut(key.place(thread_id)).filter(|_| fits) {
            put(&mut head.text, 0, text);
            head.key = key;
            head.length = text.len();
            head.digits_at = digits_at;
            head.digits = digits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, LayoutOptions, Line, Out, Outcome, ProcessInfo, Style};
    use super::*;
    use logdrive_wire::Callsite;

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    fn layout(style: &Style) -> Layout {
        Layout::new(LayoutOptions::from(style.clone()), ProcessInfo::default()).unwrap()
    }

    /// Long and short fronts, and one that is too long to be kept.
    fn sites() -> Vec<Callsite> {
        [1, 30, 60, 90, 300]
            .into_iter()
            .map(|length| Callsite {
                file: "src/net.rs".into(),
                line: length,
                module: "m".repeat(length as usize),
                message: "ready".into(),
                ..Callsite::default()
            })
            .collect()
    }

    fn check(style: &Style, names: &[&str], state: &mut u64) {
        let mut kept = layout(style);
        let plans: Vec<_> = sites().iter().map(|site| kept.compile(site)).collect();
        let mut now = 1_795_264_496_999_990_000;
        for _ in 0..3_000 {
            let plan = &plans[random(state, plans.len() as u64) as usize];
            let id = random(state, names.len() as u64);
            // Mostly some nanoseconds, sometimes a second, sometimes back.
            now = match random(state, 50) {
                0 => now + 1_000_000_000,
                1 => now - 1_000_000_000,
                _ => now + random(state, 2_000),
            };
            let line = Line {
                unix_ns: now,
                thread: Thread {
                    name: names[id as usize],
                    id: 400 + id % 3,
                },
                payload: &[],
            };
            let mut bytes = vec![b'#'; 120 + random(state, 400) as usize];
            let mut out = Out::new(&mut bytes);
            let outcome = kept.line(plan, &line, &mut out);
            let mut expected = vec![b'#'; 1_000];
            let steps = &plan.main;
            let end = layout(style)
                .run_front(plan, steps, steps.steps.len(), &line, &mut expected, 0)
                .unwrap();
            match outcome {
                Outcome::Done => assert_eq!(
                    String::from_utf8_lossy(out.as_bytes()),
                    String::from_utf8_lossy(&expected[..end])
                ),
                // Wide copies want some room behind the line.
                _ => assert!(end + 64 > out.capacity(), "{outcome:?} of {end} bytes"),
            }
        }
    }

    #[test]
    fn a_front_that_is_kept_is_the_front_of_no_other_line() {
        let mut state = 0x1eaf;
        let names = [
            "main",
            "w01",
            "w02",
            "",
            "",
            "tokio-worker-14",
            "a\nb",
            "a name of 21 letters.",
        ];
        let pattern = Style::Pattern("{thread} {time} {level} {time} {message}".into());
        let glogs = [Style::Glog, Style::GlogRaw];
        for style in [Style::Text, Style::Json, Style::Logfmt, pattern]
            .into_iter()
            .chain(glogs)
        {
            check(&style, &names, &mut state);
        }
    }
}
