//! The message template: literal text and placeholders in the style of `std::fmt`, read once per callsite.
//!
//! A placeholder is `{}`, `{2}` or `{name}`, each with an optional `:spec`; `{{` and `}}` are braces. The spec is
//! `[[fill]align][sign]['#']['0'][width]['.' precision][type]`, where width and precision may be `N$` or `name$`.
//! The types `f`, `d`, `s`, `g`, `c`, `a` of `fmt` are read too, so that C++ shares the grammar.

use crate::WireError;
use crate::limits::PAD_MAX;

/// A template, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    /// The pieces in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text that is copied; braces are already single.
    Literal(String),
    /// A placeholder for the field with this index.
    Field {
        /// Index into the callsite's fields.
        index: usize,
        /// Form in which it is shown.
        spec: Spec,
    },
}

/// Side on which padded text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Padding on the right.
    Left,
    /// Padding on both sides.
    Center,
    /// Padding on the left.
    Right,
}

/// A width or precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// A number in the template.
    Fixed(usize),
    /// The value of the field with this index.
    Field(usize),
}

/// Form in which a placeholder shows its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spec {
    /// Padding character; a space when absent.
    pub fill: Option<char>,
    /// Alignment; numbers right and text left when absent.
    pub align: Option<Align>,
    /// Set if a plus sign is shown.
    pub plus: bool,
    /// The `#` flag: prefixes for radixes, several lines for `Debug`.
    pub alternate: bool,
    /// Zeros between sign and digits.
    pub zero: bool,
    /// Least width in characters.
    pub width: Option<Count>,
    /// Digits behind the point, or most characters of text.
    pub precision: Option<Count>,
    /// Form that `?`, `x` and the like ask for.
    pub form: Form,
}

impl Spec {
    /// Returns whether this is `{}`: the value in its plain form.
    pub fn is_plain(&self) -> bool {
        *self == Spec::default()
    }
}

/// The type at the end of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// `{}`
    #[default]
    Display,
    /// `{:?}`
    Debug,
    /// `{:x}`
    LowerHex,
    /// `{:X}`
    UpperHex,
    /// `{:o}`
    Octal,
    /// `{:b}`
    Binary,
    /// `{:e}`
    LowerExp,
    /// `{:E}`
    UpperExp,
    /// `{:p}`
    Pointer,
    /// `{:f}` of `fmt`: six digits unless a precision is given.
    Fixed,
    /// `{:g}` of `fmt` and C: at most so many digits that count, six unless a precision is given.
    General,
    /// `{:x?}`
    DebugLowerHex,
    /// `{:X?}`
    DebugUpperHex,
}

impl Template {
    /// Takes a template apart. `index_of` finds the field of a name.
    ///
    /// # Errors
    /// When braces do not match, a name is unknown, or a spec cannot be read.
    pub fn parse(text: &str, index_of: impl Fn(&str) -> Option<usize>) -> Result<Self, WireError> {
        let mut parser = Parser {
            text,
            offset: 0,
            next_index: 0,
            index_of: &index_of,
        };
        let mut pieces = Vec::new();
        let mut literal = String::new();
        while let Some(found) = parser.peek() {
            parser.offset += found.len_utf8();
            match found {
                '{' if parser.peek() == Some('{') => {
                    parser.offset += 1;
                    literal.push('{');
                }
                '}' if parser.peek() == Some('}') => {
                    parser.offset += 1;
                    literal.push('}');
                }
                '}' => return Err(parser.error("a single } stands here, write }} for a brace")),
                '{' => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(core::mem::take(&mut literal)));
                    }
                    pieces.push(parser.placeholder()?);
                }
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self { pieces })
    }
}

struct Parser<'a, F> {
    text: &'a str,
    offset: usize,
    next_index: usize,
    index_of: &'a F,
}

impl<F: Fn(&str) -> Option<usize>> Parser<'_, F> {
    fn rest(&self) -> &str {
        self.text.get(self.offset..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.offset += expected.len_utf8();
        }
        found
    }

    fn error(&self, what: &'static str) -> WireError {
        WireError::Template {
            offset: self.offset,
            what,
        }
    }

    fn placeholder(&mut self) -> Result<Piece, WireError> {
        let index = match self.argument()? {
            Some(index) => index,
            None => {
                self.next_index += 1;
                self.next_index - 1
            }
        };
        let spec = if self.eat(':') {
            self.spec()?
        } else {
            Spec::default()
        };
        if !self.eat('}') {
            return Err(self.error("expected } at the end of a placeholder"));
        }
        Ok(Piece::Field { index, spec })
    }

    /// A number or a name; `None` when neither stands here.
    fn argument(&mut self) -> Result<Option<usize>, WireError> {
        if let Some(number) = self.number()? {
            return Ok(Some(number));
        }
        let length = self
            .rest()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .map(char::len_utf8)
            .sum();
        if length == 0 {
            return Ok(None);
        }
        let name = self.rest().get(..length).unwrap_or("");
        let index = (self.index_of)(name).ok_or_else(|| self.error("no field has this name"))?;
        self.offset += length;
        Ok(Some(index))
    }

    fn number(&mut self) -> Result<Option<usize>, WireError> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Ok(None);
        }
        let parsed = self
            .rest()
            .get(..digits)
            .and_then(|text| text.parse::<usize>().ok());
        match parsed {
            Some(number) if number <= PAD_MAX => {
                self.offset += digits;
                Ok(Some(number))
            }
            _ => Err(self.error("a number here is too large")),
        }
    }

    fn spec(&mut self) -> Result<Spec, WireError> {
        let mut spec = Spec::default();
        self.fill_and_align(&mut spec);
        if self.eat('+') {
            spec.plus = true;
        } else {
            self.eat('-');
        }
        spec.alternate = self.eat('#');
        if self.peek() == Some('0') && !self.rest().starts_with("0$") {
            self.offset += 1;
            spec.zero = true;
        }
        spec.width = self.count()?;
        if self.eat('.') {
            spec.precision = Some(match self.count()? {
                Some(count) => count,
                None if self.eat('*') => return Err(self.error("write the precision as a number or name$")),
                None => return Err(self.error("a precision is missing")),
            });
        }
        spec.form = self.form()?;
        Ok(spec)
    }

    fn fill_and_align(&mut self, spec: &mut Spec) {
        let mut chars = self.rest().chars();
        let (first, second) = (chars.next(), chars.next());
        if let (Some(fill), Some(align)) = (first, second.and_then(align_of)) {
            spec.fill = Some(fill);
            spec.align = Some(align);
            self.offset += fill.len_utf8() + 1;
        } else if let Some(align) = first.and_then(align_of) {
            spec.align = Some(align);
            self.offset += 1;
        }
    }

    /// `12`, `1$` or `name$`.
    fn count(&mut self) -> Result<Option<Count>, WireError> {
        if let Some(number) = self.number()? {
            return Ok(Some(if self.eat('$') {
                Count::Field(number)
            } else {
                Count::Fixed(number)
            }));
        }
        let rest = self.rest();
        let length: usize = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .map(char::len_utf8)
            .sum();
        if length == 0 || rest.as_bytes().get(length) != Some(&b'$') {
            return Ok(None);
        }
        let name = rest.get(..length).unwrap_or("");
        let index = (self.index_of)(name).ok_or_else(|| self.error("no field has this name"))?;
        self.offset += length + 1;
        Ok(Some(Count::Field(index)))
    }

    fn form(&mut self) -> Result<Form, WireError> {
        const FORMS: [(&str, Form); 17] = [
            ("x?", Form::DebugLowerHex),
            ("X?", Form::DebugUpperHex),
            ("?", Form::Debug),
            ("x", Form::LowerHex),
            ("X", Form::UpperHex),
            ("o", Form::Octal),
            ("b", Form::Binary),
            ("e", Form::LowerExp),
            ("E", Form::UpperExp),
            ("p", Form::Pointer),
            ("f", Form::Fixed),
            ("F", Form::Fixed),
            ("d", Form::Display),
            ("s", Form::Display),
            ("g", Form::General),
            ("c", Form::Display),
            ("a", Form::LowerHex),
        ];
        for (text, form) in FORMS {
            if self.rest().starts_with(text) {
                self.offset += text.len();
                return Ok(form);
            }
        }
        if self.peek() == Some('}') {
            Ok(Form::Display)
        } else {
            Err(self.error("unknown type in a placeholder"))
        }
    }
}

fn align_of(text: char) -> Option<Align> {
    match text {
        '<' => Some(Align::Left),
        '^' => Some(Align::Center),
        '>' => Some(Align::Right),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Piece>, WireError> {
        Template::parse(text, |name| (name == "id").then_some(3)).map(|template| template.pieces)
    }

    #[test]
    fn placeholders_take_the_next_index_a_number_or_a_name() {
        let pieces = parse("a {} b {1}{{}} {id:>8.2}").unwrap();
        assert_eq!(pieces[0], Piece::Literal("a ".into()));
        assert_eq!(
            pieces[1],
            Piece::Field {
                index: 0,
                spec: Spec::default()
            }
        );
        assert_eq!(
            pieces[3],
            Piece::Field {
                index: 1,
                spec: Spec::default()
            }
        );
        assert_eq!(pieces[4], Piece::Literal("{} ".into()));
        let Piece::Field { index: 3, spec } = &pieces[5] else {
            panic!("{pieces:?}")
        };
        assert_eq!(spec.width, Some(Count::Fixed(8)));
        assert_eq!(spec.precision, Some(Count::Fixed(2)));
        assert_eq!(spec.align, Some(Align::Right));
    }

    #[test]
    fn every_part_of_a_spec_is_read() {
        let pieces = parse("{0:*^+#010.3e}{0:1$x?}{:id$}").unwrap();
        let Piece::Field { spec, .. } = &pieces[0] else {
            panic!()
        };
        assert_eq!((spec.fill, spec.align), (Some('*'), Some(Align::Center)));
        assert!(spec.plus && spec.alternate && spec.zero);
        assert_eq!(spec.form, Form::LowerExp);
        let Piece::Field { spec, .. } = &pieces[1] else {
            panic!()
        };
        assert_eq!(
            (spec.width, spec.form),
            (Some(Count::Field(1)), Form::DebugLowerHex)
        );
        let Piece::Field { spec, .. } = &pieces[2] else {
            panic!()
        };
        assert_eq!(spec.width, Some(Count::Field(3)));
    }

    #[test]
    fn mistakes_are_errors_with_their_offset() {
        for text in ["{", "}", "{0", "{:y}", "{name}", "{:99999}", "{:.}", "{0:1", "é{"] {
            assert!(matches!(parse(text), Err(WireError::Template { .. })), "{text}");
        }
    }
}
