//! Line templates: a line of text without its variables, which are digits and words with digits in them.
//!
//! One pass over the line decides, without thresholds and without memory of other lines: lines of one statement mostly
//! get one template, and a template with its variables is always the same line again.

use crate::limits::{TEMPLATE_LINE_BYTES_MAX, TEMPLATE_VARIABLES_MAX};

/// Stands for digits in a template.
pub(crate) const DIGITS: u8 = 0x11;
/// Stands for a word in a template.
pub(crate) const WORD: u8 = 0x12;
/// Most digits that are a number.
const DIGITS_MAX: usize = 19;

/// A variable: its place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) is_digits: bool,
}

fn digits_at(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Class of a byte: letters and digits make words, and marks mean something in templates.
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const MARK: u8 = 4;
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if (byte as u8).is_ascii_digit() {
            classes[byte] = DIGIT;
        } else if (byte as u8).is_ascii_alphabetic() {
            classes[byte] = LETTER;
        }
        byte += 1;
    }
    classes[DIGITS as usize] = MARK;
    classes[WORD as usize] = MARK;
    classes
};

/// Splits a line. `None` where it has no template: it is long, or has bytes that mean something in templates.
pub(crate) fn split(line: &[u8], template: &mut Vec<u8>, variables: &mut Vec<Variable>) -> Option<()> {
    template.clear();
    if line.len() > TEMPLATE_LINE_BYTES_MAX {
        return None;
    }
    let first = variables.len();
    let mut parts = Parts {
        line,
        template,
        variables,
        copied: 0,
    };
    let (mut start, mut digits, mut seen) = (0, 0, 0);
    for (at, byte) in line.iter().enumerate() {
        let class = CLASSES[usize::from(*byte)];
        if class & (LETTER | DIGIT) != 0 {
            digits += usize::from(class >> 1);
            continue;
        }
        seen |= class;
        if digits > 0 {
            parts.split_word(start, at, digits);
            if parts.variables.len() - first > TEMPLATE_VARIABLES_MAX {
                return None;
            }
            digits = 0;
        }
        start = at + 1;
    }
    if digits > 0 {
        parts.split_word(start, line.len(), digits);
    }
    if seen & MARK != 0 || parts.variables.len() - first > TEMPLATE_VARIABLES_MAX {
        return None;
    }
    let rest = line.get(parts.copied..).unwrap_or(&[]);
    parts.template.extend_from_slice(rest);
    Some(())
}

/// A template in the making.
struct Parts<'a> {
    line: &'a [u8],
    template: &'a mut Vec<u8>,
    variables: &'a mut Vec<Variable>,
    /// Bytes of the line that are in the template.
    copied: usize,
}

impl Parts<'_> {
    fn push(&mut self, start: usize, end: usize, is_digits: bool) {
        self.template
            .extend_from_slice(self.line.get(self.copied..start).unwrap_or(&[]));
        self.template.push(if is_digits { DIGITS } else { WORD });
        self.copied = end;
        self.variables.push(Variable {
            start: start as u32,
            end: end as u32,
            is_digits,
        });
    }

    /// Takes the variables of a word with so many digits; what is none stays text.
    fn split_word(&mut self, start: usize, end: usize, digits: usize) {
        let word = self.line.get(start..end).unwrap_or(&[]);
        if digits == word.len() && digits <= DIGITS_MAX {
            return self.push(start, end, true);
        }
        // Numbers with a unit, names with a number, and dates with their T; hexadecimal digits stay one word.
        let front = digits_at(word);
        let rest = word.get(front..).unwrap_or(&[]);
        let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let back = front + letters;
        let tail = word.get(back..).unwrap_or(&[]);
        let middle = word.get(front..back).unwrap_or(&[]);
        let is_plain = digits_at(tail) == tail.len() && middle.iter().any(|byte| !byte.is_ascii_hexdigit());
        let is_short = front <= DIGITS_MAX && tail.len() <= DIGITS_MAX;
        let is_date = front > 0 && !tail.is_empty() && middle != b"T";
        if !is_plain || !is_short || is_date {
            return self.push(start, end, false);
        }
        if front > 0 {
            self.push(start, start + front, true);
        }
        if !tail.is_empty() {
            self.push(start + back, end, true);
        }
    }
}

/// The number that digits are, and how many digits.
pub(crate) fn number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .fold(0, |value, digit| value * 10 + u64::from(digit & 15))
}

/// Digits that a number has without zeros in front.
pub(crate) fn digit_count(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

/// Writes a number with so many digits.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u64, digits: u64) {
    let start = out.len();
    let length = digits.max(digit_count(number)).min(DIGITS_MAX as u64 + 1) as usize;
    out.resize(start + length, b'0');
    let mut rest = number;
    for place in out[start..].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(line: &str) -> String {
        let (mut template, mut variables) = (Vec::new(), Vec::new());
        split(line.as_bytes(), &mut template, &mut variables).expect("a template");
        String::from_utf8(template)
            .expect("text")
            .replace('\x11', "<d>")
            .replace('\x12', "<w>")
    }

    #[test]
    fn lines_of_one_statement_get_one_template() {
        assert_eq!(
            template(
                "081109 203615 148 INFO dfs.DataNode$PacketResponder: block blk_38865049064139660 at 10.0.0.7"
            ),
            "<d> <d> <d> INFO dfs.DataNode$PacketResponder: block blk_<d> at <d>.<d>.<d>.<d>"
        );
        assert_eq!(
            template("2026-11-24T04:15:58.123Z id=3fa94 thread-12 worker12 took 20ms v1x2"),
            "<d>-<d>-<d>T<d>:<d>:<d>.<d>Z id=<w> thread-<d> worker<d> took <d>ms <w>"
        );
    }

    #[test]
    fn numbers_keep_their_zeros() {
        for digits in ["0", "007", "9223372036854775807", "10", "0000000000000000000"] {
            let mut out = Vec::new();
            put_number(&mut out, number(digits.as_bytes()), digits.len() as u64);
            assert_eq!(out, digits.as_bytes());
        }
    }
}
