//! The front of a line, up to its first value, kept for the next line with the same one.
//!
//! Records of one callsite and one thread within a second begin alike but for a few digits: time, level, thread, module,
//! file. So the front is copied in wide blocks and the digits are written over it, which is a fifth of the work.

use super::Thread;
use super::pen::room;
use super::thread::{ThreadWords, thread_words};
use super::time::{DIGITS_BYTES, Digits, put_fraction};

/// Bytes of the longest front that is kept, and of the part that is always copied: most are no longer.
pub(super) const HEAD_BYTES: usize = 160;
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
    thread_id: u64,
}

/// A front.
#[derive(Debug, Clone)]
pub(super) struct Head {
    key: HeadKey,
    length: usize,
    /// The digits of the time in it.
    digits: Digits,
    text: [u8; HEAD_BYTES],
}

const NONE: Head = Head {
    key: HeadKey {
        steps: 0,
        second_ns: 0,
        thread: ThreadWords::NONE,
        thread_id: 0,
    },
    length: 0,
    digits: Digits { at: 0, count: 0 },
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
    pub(super) fn of(steps: u64, second_ns: u64, thread: &Thread<'_>) -> Option<Self> {
        Some(Self {
            steps,
            second_ns,
            thread: thread_words(thread)?,
            thread_id: thread.id,
        })
    }

    /// For a thread whose name is too long; to be compared with nothing.
    pub(super) fn unnamed(steps: u64, second_ns: u64) -> Self {
        Self {
            steps,
            second_ns,
            ..NONE.key
        }
    }

    #[inline(always)]
    fn place(&self) -> usize {
        (self.steps.wrapping_add(self.thread_id)) as usize % HEADS
    }
}

impl Head {
    /// A front that was just written; `None` where it is too long to be kept.
    pub(super) fn new(key: HeadKey, text: &[u8], digits: Digits) -> Option<Self> {
        if digits.at + DIGITS_BYTES > HEAD_BYTES {
            return None;
        }
        let mut head = Self {
            key,
            length: text.len(),
            digits,
            ..NONE
        };
        head.text.get_mut(..text.len())?.copy_from_slice(text);
        Some(head)
    }

    /// A front that is that of one time only.
    pub(super) fn plain(text: &[u8]) -> Option<Self> {
        Self::new(NONE.key, text, NONE.digits)
    }

    /// Writes it as it is, if there is room for whole blocks. Returns its place, and the offset behind it.
    #[inline(always)]
    pub(super) fn copy<'a>(
        &self,
        bytes: &'a mut [u8],
        at: usize,
    ) -> Option<(&'a mut [u8; HEAD_BYTES], usize)> {
        let place = room::<HEAD_BYTES>(bytes, at)?;
        if self.length > USUAL_BYTES {
            *place = self.text;
        } else {
            place[..USUAL_BYTES].copy_from_slice(&self.text[..USUAL_BYTES]);
        }
        Some((place, at + self.length))
    }

    /// Writes it with these nanoseconds, if there is room for whole blocks. Returns the offset behind it.
    #[inline(always)]
    pub(super) fn put(&self, bytes: &mut [u8], at: usize, nanos: u32) -> Option<usize> {
        let (place, end) = self.copy(bytes, at)?;
        put_fraction(
            room::<DIGITS_BYTES>(place, self.digits.at)?,
            nanos,
            self.digits.count,
        );
        Some(end)
    }

    /// Has the digits of these nanoseconds in it from now on.
    pub(super) fn show(&mut self, nanos: u32) {
        if let Some(place) = room::<DIGITS_BYTES>(&mut self.text, self.digits.at) {
            put_fraction(place, nanos, self.digits.count);
        }
    }

    /// When the second of this front began.
    pub(super) fn second_ns(&self) -> u64 {
        self.key.second_ns
    }
}

impl HeadsKept {
    /// The front, if it is kept.
    #[inline(always)]
    pub(super) fn find(&self, key: &HeadKey) -> Option<&Head> {
        self.heads.get(key.place()).filter(|head| head.key == *key)
    }

    /// Keeps a front that was written just now.
    #[inline(never)]
    pub(super) fn keep(&mut self, key: HeadKey, text: &[u8], digits: Digits) {
        if let Some(head) = Head::new(key, text, digits)
            && let Some(place) = self.heads.get_mut(key.place())
        {
            *place = head;
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
        let patterns = [
            "{thread} {time} {level} {time} {message}",
            "{time:%H:%M:%S.%3f} {level:1} {message}",
            "{thread_id} {time:%H.%6f} {message}",
            "{time:%9f}{message}",
        ];
        let patterns = patterns.map(|pattern| Style::Pattern(pattern.into()));
        let styles = [
            Style::Text,
            Style::Json,
            Style::Logfmt,
            Style::Glog,
            Style::GlogRaw,
        ];
        for style in styles.into_iter().chain(patterns) {
            check(&style, &names, &mut state);
        }
    }
}
