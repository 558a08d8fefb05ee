//! Input of a call: level, target, fields, format string and arguments, read from the macro's tokens.

use proc_macro::{Delimiter, Ident, Spacing, Span, TokenStream, TokenTree};

use crate::literal::string_value;
use crate::split::expression_length;

/// A mistake of the caller and the tokens that it is about.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) start: Span,
    pub(crate) end: Span,
    pub(crate) text: String,
}

impl Mistake {
    pub(crate) fn at(span: Span, text: impl Into<String>) -> Self {
        Self {
            start: span,
            end: span,
            text: text.into(),
        }
    }
}

type Result<T> = core::result::Result<T, Mistake>;

/// An expression of the caller, and where an error about it should point.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) tokens: TokenStream,
    pub(crate) span: Span,
}

/// Level of a call, known or computed.
#[derive(Debug)]
pub(crate) enum Level {
    /// One of the six level names.
    Known(&'static str),
    /// A constant expression of type `Level`.
    Constant(TokenStream),
}

/// Limit on the calls of a statement that log.
#[derive(Debug)]
pub(crate) enum Limiter {
    /// Each call logs.
    None,
    /// One call in so many logs.
    EveryN(TokenStream),
    /// One call in so many milliseconds logs.
    EveryMs(TokenStream),
    /// Only the first call logs.
    Once,
}

/// Sigil of a `key = value` field, which says how the value is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sigil {
    /// The value as it is.
    None,
    /// `%`: by `Display` where it cannot be taken as it is.
    Display,
    /// `?`: by `Debug` where it cannot be taken as it is.
    Debug,
}

/// A field of the form `key = value`.
#[derive(Debug)]
pub(crate) struct KeyValue {
    pub(crate) name: String,
    pub(crate) sigil: Sigil,
    pub(crate) value: Expression,
}

/// An argument of the format string.
#[derive(Debug)]
pub(crate) struct Argument {
    /// Empty where it has only a position.
    pub(crate) name: String,
    pub(crate) value: Expression,
}

/// The format string and where it stands.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// Input of a whole call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) krate: Ident,
    pub(crate) level: Level,
    pub(crate) limiter: Limiter,
    /// True if `after_fatal` is called behind it.
    pub(crate) is_fatal: bool,
    pub(crate) target: Option<TokenStream>,
    pub(crate) fields: Vec<KeyValue>,
    pub(crate) message: Option<Message>,
    pub(crate) arguments: Vec<Argument>,
}

const FIELD_HELP: &str = "expected a field or the message: fields are `name`, `name = value`, `?name`, `%name`, \
    `name = ?value` or `name = %value`, and the message is a string literal";

const LEVELS: [&str; 6] = ["Trace", "Debug", "Info", "Warn", "Error", "Fatal"];

/// Reads `$crate MODE ; ...`, where the mode names the macro that the caller wrote.
pub(crate) fn read(input: TokenStream) -> Result<Call> {
    let mut tokens = input.into_iter();
    let (Some(TokenTree::Ident(krate)), Some(TokenTree::Ident(mode)), Some(_)) =
        (tokens.next(), tokens.next(), tokens.next())
    else {
        return Err(Mistake::at(
            Span::call_site(),
            "this macro is internal to logdrive; use `info!` and its kin",
        ));
    };
    let tokens: Vec<TokenTree> = tokens.collect();
    let mut reader = Reader {
        tokens: &tokens,
        index: 0,
    };
    let mode = mode.to_string();
    let limiter = match mode.as_str() {
        "every_n" => Limiter::EveryN(reader.expression("how many calls make one record")?.tokens),
        "every_ms" => Limiter::EveryMs(reader.expression("a number of milliseconds")?.tokens),
        "once" => Limiter::Once,
        _ => Limiter::None,
    };
    let level = match LEVELS.into_iter().find(|level| level.eq_ignore_ascii_case(&mode)) {
        Some(level) => Level::Known(level),
        None => reader.level()?,
    };
    let mut call = Call {
        krate,
        level,
        limiter,
        is_fatal: mode == "fatal",
        target: reader.target()?,
        fields: Vec::new(),
        message: None,
        arguments: Vec::new(),
    };
    if reader.left().is_empty() {
        return Err(Mistake::at(
            Span::call_site(),
            "nothing to log: give a message, fields, or both",
        ));
    }
    reader.fields_and_message(&mut call)?;
    Ok(call)
}

struct Reader<'a> {
    tokens: &'a [TokenTree],
    index: usize,
}

impl<'a> Reader<'a> {
    fn left(&self) -> &'a [TokenTree] {
        self.tokens.get(self.index..).unwrap_or(&[])
    }

    fn peek(&self, ahead: usize) -> Option<&'a TokenTree> {
        self.tokens.get(self.index + ahead)
    }

    /// Returns true if `found` stands `ahead` tokens from here and is not the start of a longer operator.
    fn is_punct(&self, ahead: usize, found: char) -> bool {
        let Some(TokenTree::Punct(punct)) = self.peek(ahead) else {
            return false;
        };
        let longer = match self.peek(ahead + 1) {
            Some(TokenTree::Punct(next)) if punct.spacing() == Spacing::Joint => {
                matches!((found, next.as_char()), ('=', '=' | '>') | (':', ':'))
            }
            _ => false,
        };
        punct.as_char() == found && !longer
    }

    /// The span of the next token, or of the one before at the end.
    fn span(&self) -> Span {
        self.peek(0)
            .or(self.tokens.last())
            .map_or_else(Span::call_site, TokenTree::span)
    }

    /// Takes an expression and the comma behind it.
    fn expression(&mut self, what: &str) -> Result<Expression> {
        let start = self.span();
        let length = expression_length(self.left());
        if length == 0 {
            return Err(Mistake::at(start, format!("expected {what}")));
        }
        let tokens: TokenStream = self.left().iter().take(length).cloned().collect();
        self.index += length + 1;
        Ok(Expression { tokens, span: start })
    }

    fn level(&mut self) -> Result<Level> {
        let what = "a level: `Trace`, `Debug`, `Info`, `Warn`, `Error`, `Fatal`, or a constant `Level`";
        if let Some(found) = self.peek(0).and_then(string_of) {
            return Err(Mistake::at(found.span, format!("expected {what}")));
        }
        let expression = self.expression(what)?;
        let word = expression.tokens.to_string();
        Ok(match LEVELS.into_iter().find(|level| *level == word) {
            Some(level) => Level::Known(level),
            None => Level::Constant(expression.tokens),
        })
    }

    /// Reads `target: expression,` where it stands.
    fn target(&mut self) -> Result<Option<TokenStream>> {
        let Some(TokenTree::Ident(ident)) = self.peek(0) else {
            return Ok(None);
        };
        if !self.is_punct(1, ':') {
            return Ok(None);
        }
        if ident.to_string() != "target" {
            return Err(Mistake::at(
                ident.span(),
                format!("unknown setting `{ident}:`; there is `target:`, and a field is `{ident} = value`"),
            ));
        }
        self.index += 2;
        Ok(Some(self.expression("the target, a constant `&str`")?.tokens))
    }

    fn fields_and_message(&mut self, call: &mut Call) -> Result<()> {
        while let Some(token) = self.peek(0) {
            if let Some(message) = string_of(token)
                && !self.is_punct(1, '=')
            {
                self.index += 1;
                if let Some(token) = self.peek(0)
                    && !self.is_punct(0, ',')
                {
                    let text = "expected a comma behind the format string";
                    return Err(Mistake::at(token.span(), text));
                }
                self.index += 1;
                call.message = Some(message);
                while !self.left().is_empty() {
                    call.arguments.push(self.argument()?);
                }
                return Ok(());
            }
            call.fields.push(self.field()?);
        }
        Ok(())
    }

    /// `value` or `name = value` behind the format string.
    fn argument(&mut self) -> Result<Argument> {
        let mut name = String::new();
        if let Some(TokenTree::Ident(ident)) = self.peek(0)
            && self.is_punct(1, '=')
        {
            name = plain_name(ident);
            self.index += 2;
        } else if self.is_punct(0, '?') || self.is_punct(0, '%') {
            return Err(Mistake::at(
                self.span(),
                "fields stand before the message; behind it are the arguments of its `{}`",
            ));
        }
        let value = self.expression("an argument of the format string")?;
        Ok(Argument { name, value })
    }

    fn field(&mut self) -> Result<KeyValue> {
        let sigil = self.sigil();
        let start = self.index;
        let name = self.field_name()?;
        if self.is_punct(0, '=') && sigil == Sigil::None {
            self.index += 1;
            let sigil = self.sigil();
            let value = self.expression("the value of the field")?;
            return Ok(KeyValue { name, sigil, value });
        }
        let words = self.tokens.get(start..self.index).unwrap_or(&[]);
        let span = words.first().map_or_else(Span::call_site, TokenTree::span);
        let is_word = matches!(words, [TokenTree::Ident(_), ..]);
        if !is_word || !(self.left().is_empty() || self.is_punct(0, ',')) {
            return Err(Mistake {
                start: span,
                end: self.span(),
                text: FIELD_HELP.to_owned(),
            });
        }
        let tokens = words.iter().cloned().collect();
        let value = Expression { tokens, span };
        self.index += 1;
        Ok(KeyValue { name, sigil, value })
    }

    fn sigil(&mut self) -> Sigil {
        let sigil = match self.peek(0) {
            Some(TokenTree::Punct(punct)) if punct.as_char() == '?' => Sigil::Debug,
            Some(TokenTree::Punct(punct)) if punct.as_char() == '%' => Sigil::Display,
            _ => return Sigil::None,
        };
        self.index += 1;
        sigil
    }

    /// Reads a key: `name`, `a.b.c` or `"quoted key"`.
    fn field_name(&mut self) -> Result<String> {
        if let Some(key) = self.peek(0).and_then(string_of) {
            self.index += 1;
            return Ok(key.text);
        }
        let Some(TokenTree::Ident(ident)) = self.peek(0) else {
            return Err(Mistake::at(self.span(), FIELD_HELP));
        };
        let mut name = plain_name(ident);
        self.index += 1;
        while self.is_punct(0, '.') {
            name.push('.');
            match self.peek(1) {
                Some(TokenTree::Ident(ident)) => name.push_str(&plain_name(ident)),
                Some(TokenTree::Literal(number)) => name.push_str(&number.to_string()),
                _ => return Err(Mistake::at(self.span(), FIELD_HELP)),
            }
            self.index += 2;
        }
        Ok(name)
    }
}

fn plain_name(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
}

/// The string literal that a token is, also where a `macro_rules` fragment wraps it.
fn string_of(token: &TokenTree) -> Option<Message> {
    match token {
        TokenTree::Literal(literal) => Some(Message {
            text: string_value(&literal.to_string())?,
            span: literal.span(),
        }),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let mut inner = group.stream().into_iter();
            let only = inner.next()?;
            string_of(&only).filter(|_| inner.next().is_none())
        }
        _ => None,
    }
}
