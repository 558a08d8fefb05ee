//! The format string, taken apart by the rules of `std::fmt`. Plain text in, pieces out; no tokens here.

use std::fmt::Write as _;

/// Width or precision of one placeholder; `logdrive_wire::limits::PAD_MAX`.
const PAD_MAX: usize = 1024;

/// A piece of a format string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Literal text, with single braces.
    Text(String),
    /// A placeholder `{...}` with its spec.
    Placeholder(Placeholder),
}

/// A placeholder `{...}` with its spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// Argument that it shows.
    pub(crate) value: Operand,
    /// Spec by which it is shown.
    pub(crate) spec: Spec<Operand>,
}

/// Argument that a placeholder refers to. The counter of `{}` and `.*` is resolved already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operand {
    /// An argument by its position.
    Index(usize),
    /// An argument by its name.
    Name(String),
}

/// The part behind the colon; `R` is how arguments are referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec<R> {
    /// Fill, alignment and flags as they were written.
    pub(crate) flags: String,
    /// Least width in characters.
    pub(crate) width: Option<Count<R>>,
    /// Precision or most characters.
    pub(crate) precision: Option<Count<R>>,
    /// Letters that pick the trait: empty, `?`, `x` and so on.
    pub(crate) form: &'static str,
}

/// A width or precision: a number, or an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Count<R> {
    /// A number in the format string.
    Fixed(usize),
    /// The value of this argument.
    Argument(R),
}

impl<R> Spec<R> {
    /// Returns the spec of `{}`.
    pub(crate) fn plain() -> Self {
        Self {
            flags: String::new(),
            width: None,
            precision: None,
            form: "",
        }
    }

    /// The same spec with its arguments referred to in another way.
    pub(crate) fn try_map<S, E>(&self, mut change: impl FnMut(&R) -> Result<S, E>) -> Result<Spec<S>, E> {
        let mut count = |count: &Option<Count<R>>| {
            Ok(match count {
                None => None,
                Some(Count::Fixed(number)) => Some(Count::Fixed(*number)),
                Some(Count::Argument(argument)) => Some(Count::Argument(change(argument)?)),
            })
        };
        Ok(Spec {
            width: count(&self.width)?,
            precision: count(&self.precision)?,
            flags: self.flags.clone(),
            form: self.form,
        })
    }
}

impl Spec<usize> {
    /// Writes the placeholder `{index:spec}`.
    pub(crate) fn print(&self, out: &mut String, index: usize) {
        let _ = write!(out, "{{{index}");
        if *self != Spec::plain() {
            out.push(':');
            out.push_str(&self.flags);
            if let Some(width) = &self.width {
                print_count(out, width);
            }
            if let Some(precision) = &self.precision {
                out.push('.');
                print_count(out, precision);
            }
            out.push_str(self.form);
        }
        out.push('}');
    }

    /// Returns true if the value's `Debug` is asked for.
    pub(crate) fn is_debug(&self) -> bool {
        self.form.ends_with('?')
    }
}

// Writing to a `String` cannot fail, so that both results above and below are dropped.
fn print_count(out: &mut String, count: &Count<usize>) {
    let _ = match count {
        Count::Fixed(number) => write!(out, "{number}"),
        Count::Argument(index) => write!(out, "{index}$"),
    };
}

/// Parses a format string into pieces.
pub(crate) fn parse(text: &str) -> Result<Vec<Piece>, String> {
    let mut parser = Parser { rest: text, next: 0 };
    let mut pieces = Vec::new();
    let mut literal = String::new();
    while let Some(found) = parser.bump() {
        match found {
            '{' if parser.eat('{') => literal.push('{'),
            '}' if parser.eat('}') => literal.push('}'),
            '}' => return Err("a `}` without its `{`; write `}}` for a brace".into()),
            '{' => {
                if !literal.is_empty() {
                    pieces.push(Piece::Text(core::mem::take(&mut literal)));
                }
                pieces.push(Piece::Placeholder(parser.placeholder()?));
            }
            other => literal.push(other),
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Ok(pieces)
}

struct Parser<'a> {
    rest: &'a str,
    /// The argument that the next `{}` or `.*` takes.
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let found = chars.next();
        self.rest = chars.as_str();
        found
    }

    fn eat(&mut self, expected: char) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn take_next(&mut self) -> Operand {
        self.next += 1;
        Operand::Index(self.next - 1)
    }

    fn placeholder(&mut self) -> Result<Placeholder, String> {
        let value = self.operand()?;
        self.rest = self.rest.trim_start();
        let mut spec = Spec::plain();
        if self.eat(':') {
            self.spec(&mut spec)?;
        }
        // `.*` takes its argument before the value does.
        let value = value.unwrap_or_else(|| self.take_next());
        self.rest = self.rest.trim_start();
        match self.bump() {
            Some('}') => Ok(Placeholder { value, spec }),
            Some(found) => Err(format!(
                "expected `}}` at the end of a placeholder, found `{found}`; only names and numbers can stand in \
                 braces, so bind an expression to a name first, or write `{{{{` for a brace"
            )),
            None => Err("a `{` without its `}`; write `{{` for a brace".into()),
        }
    }

    fn operand(&mut self) -> Result<Option<Operand>, String> {
        if let Some(number) = self.number()? {
            return Ok(Some(Operand::Index(number)));
        }
        Ok(match self.name_length() {
            0 => None,
            length => Some(Operand::Name(self.name(length)?)),
        })
    }

    fn name_length(&self) -> usize {
        self.rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len())
    }

    fn name(&mut self, length: usize) -> Result<String, String> {
        match self.take(length) {
            "_" => Err("`_` is not the name of an argument".into()),
            "r" if self.peek() == Some('#') => {
                Err("a raw identifier cannot stand in a format string; leave `r#` out".into())
            }
            name => Ok(name.into()),
        }
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Ok(None);
        }
        match self.take(digits).parse::<usize>() {
            Ok(number) if number <= PAD_MAX => Ok(Some(number)),
            _ => Err(format!(
                "widths, precisions and argument numbers are at most {PAD_MAX}"
            )),
        }
    }

    fn spec(&mut self, spec: &mut Spec<Operand>) -> Result<(), String> {
        let mut chars = self.rest.chars();
        let (first, second) = (chars.next(), chars.next());
        let is_align = |c: Option<char>| matches!(c, Some('<' | '^' | '>'));
        let align_length = match first {
            Some(fill) if is_align(second) => fill.len_utf8() + 1,
            _ if is_align(first) => 1,
            _ => 0,
        };
        spec.flags.push_str(self.take(align_length));
        for flag in ['+', '-', '#'] {
            if self.eat(flag) {
                spec.flags.push(flag);
            }
        }
        if self.rest.starts_with('0') && !self.rest.starts_with("0$") {
            self.take(1);
            spec.flags.push('0');
        }
        spec.width = self.count()?;
        if self.eat('.') {
            spec.precision = if self.eat('*') {
                Some(Count::Argument(self.take_next()))
            } else {
                self.count()?
            };
            if spec.precision.is_none() {
                return Err("a precision is missing behind `.`".into());
            }
        }
        spec.form = self.form()?;
        Ok(())
    }

    /// Reads a count: `12`, `1$` or `name$`.
    fn count(&mut self) -> Result<Option<Count<Operand>>, String> {
        if let Some(number) = self.number()? {
            return Ok(Some(if self.eat('$') {
                Count::Argument(Operand::Index(number))
            } else {
                Count::Fixed(number)
            }));
        }
        let length = self.name_length();
        if length == 0 || self.rest.as_bytes().get(length) != Some(&b'$') {
            return Ok(None);
        }
        let name = self.name(length)?;
        self.eat('$');
        Ok(Some(Count::Argument(Operand::Name(name))))
    }

    fn form(&mut self) -> Result<&'static str, String> {
        let length = self.rest.find(['}', ' ', '\n', '\t']).unwrap_or(self.rest.len());
        let found = self.take(length);
        ["", "?", "x?", "X?", "x", "X", "o", "b", "e", "E", "p"]
            .into_iter()
            .find(|form| *form == found)
            .ok_or_else(|| {
                format!(
                    "`{found}` is not a format type; there are `?` (Debug), `x`, `X` and `x?`, `X?` (hexadecimal), \
                     `o` (octal), `b` (binary), `e`, `E` (exponent) and `p` (pointer)"
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints the placeholders of a format string with the names of their operands.
    fn shown(text: &str) -> Vec<String> {
        let name = |operand: &Operand| match operand {
            Operand::Index(index) => index.to_string(),
            Operand::Name(name) => name.clone(),
        };
        let count = |count: &Option<Count<Operand>>| match count {
            None => "-".to_owned(),
            Some(Count::Fixed(number)) => format!("={number}"),
            Some(Count::Argument(operand)) => name(operand),
        };
        parse(text)
            .unwrap()
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Placeholder(Placeholder { value, spec }) => format!(
                    "<{}|{}|{}|{}|{}>",
                    name(value),
                    spec.flags,
                    count(&spec.width),
                    count(&spec.precision),
                    spec.form
                ),
            })
            .collect()
    }

    #[test]
    fn arguments_are_counted_as_std_counts_them() {
        assert_eq!(
            shown("a{{{} {1} {id} {}}}"),
            [
                "a{",
                "<0||-|-|>",
                " ",
                "<1||-|-|>",
                " ",
                "<id||-|-|>",
                " ",
                "<1||-|-|>",
                "}"
            ]
        );
        assert_eq!(shown("{:.*}{}"), ["<1||-|0|>", "<2||-|-|>"]);
        assert_eq!(shown("{x:.*}{}"), ["<x||-|0|>", "<1||-|-|>"]);
    }

    #[test]
    fn every_part_of_a_spec_is_read() {
        assert_eq!(shown("{:*^+#010.3e}"), ["<0|*^+#0|=10|=3|e>"]);
        assert_eq!(shown("{0:0$}{0:01$x?}"), ["<0||0|-|>", "<0|0|1|-|x?>"]);
        assert_eq!(shown("{:>width$.prec$}"), ["<0|>|width|prec|>"]);
        assert_eq!(
            shown("{v:}<5}{v:?<5}{:é>3? }"),
            ["<v|}<|=5|-|>", "<v|?<|=5|-|>", "<0|é>|=3|-|?>"]
        );
    }

    #[test]
    fn a_spec_prints_as_it_was_read() {
        for text in [
            "{0}",
            "{0:?}",
            "{0:*^+#010.3e}",
            "{0:>1$.2$X?}",
            "{0:00$}",
            "{0:x}",
        ] {
            let Piece::Placeholder(placeholder) = parse(text).unwrap().remove(0) else {
                panic!("{text}")
            };
            let spec = placeholder.spec.try_map(|operand| match operand {
                Operand::Index(index) => Ok(*index),
                Operand::Name(name) => Err(name.clone()),
            });
            let spec = spec.unwrap();
            let mut printed = String::new();
            spec.print(&mut printed, 0);
            assert_eq!(printed, text);
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, part) in [
            ("{", "`{{`"),
            ("}", "`}}`"),
            ("{0", "`{{`"),
            ("{:y}", "`y` is not a format type"),
            ("{:.}", "precision is missing"),
            ("{:2000}", "at most 1024"),
            ("{_}", "`_` is not"),
            ("{r#type}", "leave `r#` out"),
            ("{a.b}", "bind an expression"),
            ("{:99999999999999999999999}", "at most 1024"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
