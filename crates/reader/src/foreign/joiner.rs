//! Lines that belong together: a stack trace belongs to the record before it, whole.
//!
//! A joiner looks at the lines of one stream, one after the other, and says of each whether a record begins with it. It
//! keeps no bytes. Records are bounded in lines and bytes, so that a stream without any structure is no record.

use crate::foreign::container::ContainerLine;
use crate::foreign::parser::plain_text;
use crate::foreign::trace::{JoinRule, OpenTrace};
use crate::head::{head_within, read_head};
use crate::limits::{JOINED_BYTES_MAX, JOINED_LINES_MAX, OPEN_LINES_MAX};
use crate::times::Times;
use jiff::tz::TimeZone;
use logdrive_wire::Level;

/// Joins the lines of one stream to records.
///
/// ```
/// use logdrive_reader::foreign::{JoinRule, LineJoiner};
/// let mut joiner = LineJoiner::new(JoinRule::Output);
/// let lines = ["java.io.IOException: disk is full", "\tat com.example.Disk.write(Disk.java:7)", "next"];
/// let continues = lines.map(|line| joiner.continues(line.as_bytes()));
/// assert_eq!(continues, [false, true, false]);
/// ```
#[derive(Debug)]
pub struct LineJoiner {
    rule: JoinRule,
    times: Times,
    open: OpenTrace,
    lines: usize,
    bytes: usize,
    was_cut: bool,
}

impl LineJoiner {
    /// A joiner at the begin of a stream. Times without a zone are those of the system's zone.
    pub fn new(rule: JoinRule) -> Self {
        Self {
            rule,
            times: Times::new(TimeZone::system()),
            open: OpenTrace::default(),
            lines: 0,
            bytes: 0,
            was_cut: false,
        }
    }

    /// Ends the open record: what follows begins another one, as after a pause.
    pub fn end_record(&mut self) {
        self.open = OpenTrace::default();
        self.times.begin_record();
    }

    /// Returns whether the open record goes on with one that was too long.
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Returns whether a trace is open, so that lines of it are likely to follow.
    pub fn is_in_trace(&self) -> bool {
        self.open.is_in_trace()
    }

    /// Returns whether the next line belongs to the record before. `line` has no line break. Control sequences of terminals say
    /// nothing.
    pub fn continues(&mut self, line: &[u8]) -> bool {
        let line = &*plain_text(line);
        // A line that a container wrapped says so itself.
        let was_container = std::mem::take(&mut self.times.state.is_container);
        let has_head = may_be_head(line) && read_head(line, &mut self.times).is_some();
        // The wrapping of a container's line says that it goes on.
        let is_container = &mut self.times.state.is_container;
        let is_wrapped = was_container && *is_container && !has_head;
        *is_container |= was_container;
        self.continues_with(line, has_head, is_wrapped)
    }

    fn continues_with(&mut self, line: &[u8], has_head: bool, is_wrapped: bool) -> bool {
        let before = self.open;
        let continues = self.open.continues(line, has_head, self.rule) || (is_wrapped && before.is_open());
        if continues && self.lines < JOINED_LINES_MAX && self.bytes + line.len() < JOINED_BYTES_MAX {
            self.lines += 1;
            self.bytes += line.len() + 1;
            return true;
        }
        // The rest of a trace that is too long goes on in another record.
        self.was_cut = continues;
        (self.lines, self.bytes) = (1, line.len());
        false
    }
}

/// Returns where the last record of whole lines begins, if more lines may belong to it: it is an error, or has several lines
/// already. Whoever cuts a log into pieces cuts there. `None` also where no record begins in the last lines.
///
/// ```
/// use logdrive_reader::foreign::open_record;
/// let lines = b"2026-11-21 12:34:56 INFO one\n2026-11-21 12:34:57 ERROR two\n\tat a.B.c(B.java:7)\n";
/// assert_eq!(open_record(lines), Some(29));
/// assert_eq!(open_record(b"2026-11-21 12:34:56 INFO one\n"), None);
/// ```
pub fn open_record(lines: &[u8]) -> Option<usize> {
    let mut times = Times::new(TimeZone::system());
    let mut end = lines.len();
    for number in 0..OPEN_LINES_MAX {
        let before = lines.get(..end.checked_sub(1)?)?;
        let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let line = &*plain_text(before.get(start..).filter(|_| end > 0)?);
        times.begin_record();
        let head = match ContainerLine::read(line) {
            Some(inner) => head_within(&inner.text, &mut times),
            None => read_head(line, &mut times),
        };
        if let Some(head) = head {
            let is_error = head.is_level_behind() || head.level.is_some_and(Level::is_urgent);
            return (number > 0 || is_error).then_some(start);
        }
        end = start;
    }
    None
}

/// Returns whether a record begins with a line whose level stands in the next one, as in the default form of `java.util.logging`.
///
/// ```
/// use logdrive_reader::foreign::is_level_behind;
/// assert!(is_level_behind(b"Nov 25, 2026 10:41:46 PM com.example.shop.App main"));
/// assert!(!is_level_behind(b"ERROR: failed"));
/// ```
pub fn is_level_behind(line: &[u8]) -> bool {
    // The name of a month, which few other lines begin with.
    let is_month = line.first().is_some_and(u8::is_ascii_uppercase) && line.get(3) == Some(&b' ');
    is_month
        && read_head(line, &mut Times::new(TimeZone::system())).is_some_and(|head| head.is_level_behind())
}

/// Returns whether a record may begin with a line, by its first byte.
pub fn may_be_head(line: &[u8]) -> bool {
    line.first()
        .is_some_and(|first| first.is_ascii_alphanumeric() || b"{[<:@_/".contains(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::trace::crash_level;

    /// The records of a text, each with its lines.
    fn records(rule: JoinRule, text: &str) -> Vec<usize> {
        let mut joiner = LineJoiner::new(rule);
        let mut records = Vec::new();
        for line in text.lines() {
            match joiner.continues(line.as_bytes()) {
                true => *records.last_mut().expect("a record before") += 1,
                false => records.push(1),
            }
        }
        records
    }

    #[test]
    fn traces_of_usual_languages_are_whole() {
        for text in [
            "java.lang.RuntimeException: a\n\tat x.Y.z(Y.java:1)\n\tSuppressed: b\n\t\tat c\nCaused by: d\n\t... 2 more",
            "Exception in thread \"main\" java.lang.IllegalStateException: a\n\tat x.Y.z(Y.java:1)",
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in b\n    c\nValueError: d\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 2\nKeyError: 'x'",
            "panic: assignment to entry in nil map\n\ngoroutine 1 [running]:\nmain.main.func1()\n\t/app/main.go:7 +0x34\nmain.main()\n\t/app/main.go:9 +0xf\nexit status 2",
            "thread 'main' panicked at src/main.rs:7:5:\nindex out of bounds\nstack backtrace:\n   0: rust_begin_unwind\n             at /rustc/x\nnote: run with `RUST_BACKTRACE=1`",
            "TypeError: price is undefined\n    at a (/app/shop.js:1:2)\n    at node:internal/main:28:49",
            "/app/shop.js:12\n  throw new Error('a')\n  ^\n\nError: a\n    at b (/app/shop.js:12:1) {\n  [cause]: 7\n}\n\nNode.js v20.20.2",
            "Unhandled exception. System.InvalidOperationException: a\n ---> System.Exception: b\n   at Shop.Main() in /app/Shop.cs:line 7\n   --- End of inner exception stack trace ---\n   at Shop.Run()",
            "shop.rb:3:in `a': no such order (ArgumentError)\n\tfrom shop.rb:6:in `b'",
        ] {
            let lines = text.lines().count();
            assert_eq!(records(JoinRule::Output, text), [lines], "{text}");
            let framed = format!("start\n{text}\n2026-11-21T12:34:56Z INFO  a b c.rs:1 next");
            assert_eq!(records(JoinRule::Output, &framed), [1, lines, 1], "{framed}");
            let told = format!("2026-11-21 12:34:56 ERROR failed\n{text}\n2026-11-21 12:34:57 INFO next");
            assert_eq!(records(JoinRule::LogFile, &told), [1 + lines, 1], "{told}");
            // What a program says when it crashes is no part of a record that tells of no error.
            let told = told.replace("ERROR failed", "INFO ready");
            let is_crash = crash_level(text.lines().next().unwrap_or("").as_bytes()).is_some();
            let expected = if is_crash {
                vec![1, lines, 1]
            } else {
                vec![1 + lines, 1]
            };
            assert_eq!(records(JoinRule::LogFile, &told), expected, "{told}");
        }
    }

    #[test]
    fn what_a_program_prints_stays_apart() {
        assert_eq!(
            records(JoinRule::Output, "one\ntwo\n   Compiling a\n   Compiling b\n"),
            [1, 1, 1, 1]
        );
        let text = "2026-11-21 12:34:56 INFO one\nprinted\n2026-11-21 12:34:57 INFO two\n  of two lines";
        assert_eq!(records(JoinRule::Output, text), [1, 1, 2]);
        assert_eq!(records(JoinRule::LogFile, text), [2, 2]);
    }

    /// A line behind those of a container belonged to the last of them.
    #[test]
    fn a_line_without_the_wrapping_of_a_container_is_another_record() {
        let text = "2026-11-21T12:34:56.1Z stdout F INFO: one\nprinted";
        assert_eq!(records(JoinRule::Output, text), [1, 1]);
    }

    /// A sender took the lines of a trace behind a coloured head for records of their own, and `cat` did not.
    #[test]
    fn colours_hide_no_head() {
        let text = "\x1b[31m2026-11-21 12:34:56 ERROR\x1b[0m failed\n  at x\nplain\n\x1b[32m2026-11-21 12:34:57 INFO\x1b[0m next";
        assert_eq!(records(JoinRule::LogFile, text), [3, 1]);
        let lines = format!("{text}\n");
        assert_eq!(
            open_record(&lines.as_bytes()[..lines.rfind("\x1b[32m").expect("one")]),
            Some(0)
        );
    }

    #[test]
    fn records_are_bounded() {
        let text = format!("panic: x\n{}", "\t/app/main.go:7\n".repeat(2 * JOINED_LINES_MAX));
        let found = records(JoinRule::Output, &text);
        assert!(
            found.len() == 3 && found.iter().all(|lines| *lines <= JOINED_LINES_MAX),
            "{found:?}"
        );
    }
}
