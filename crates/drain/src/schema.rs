//! Options as constant rows: each option is declared once, as a field with its doc comment, and everything else reads
//! the row.
//!
//! [`options!`](crate::options) declares a struct and, for each field, a [`Row`] with its type, bounds, words and
//! example; the doc comment is the help text. [`rows!`](crate::rows) does the same for a struct that is declared
//! elsewhere. From the rows come the keys of configuration files with their errors, the commented default and the
//! manual page (`logdrive config`), the text that a session keeps for a recoverer ([`to_text`]), and the keys of the C
//! interface ([`set_text`]).
//!
//! These are macros by example and no derive: the compiler itself reads fields, types and doc comments, so that no token
//! is parsed by hand, and no procedural macro is built before this crate.

pub mod limits;
mod row;
pub mod units;
mod value;

pub use row::{Accounts, FILE, Kind, PLACEHOLDERS, PROGRAM, Row, SESSION, one_of};
pub use value::{Given, Setting, Value, Word, Words, quoted};

use std::fmt::Write as _;
use std::ops::Range;

/// A reason why a value is none of its option.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wrong {
    /// The value, and what is the matter with it.
    pub found: String,
    /// Advice: what to do.
    pub help: Option<String>,
    /// The part of the value that is the wrong one.
    pub span: Option<Range<usize>>,
    /// The word that something similar should be found for among `candidates`.
    pub meant: Option<String>,
    /// Words that may have been meant.
    pub candidates: Vec<&'static str>,
}

impl Wrong {
    /// A reason.
    pub fn new(found: impl Into<String>) -> Self {
        Self {
            found: found.into(),
            ..Self::default()
        }
    }

    /// The same with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same for a part of the value.
    #[must_use]
    pub fn at(mut self, span: &Range<usize>) -> Self {
        self.span = Some(span.clone()).filter(|span| !span.is_empty());
        self
    }
}

/// A struct with options.
pub trait Schema {
    /// The rows, in the order in which they are shown and read.
    const ROWS: &'static [Row];
}

/// A struct whose options can be read and set by name.
pub trait Options {
    /// The rows, in the order in which they are shown and read.
    fn rows(&self) -> &'static [Row];

    /// The value of an option; `None` when it is unset or off, and when there is no such option.
    fn value(&self, name: &str) -> Option<Value>;

    /// Sets an option to a value that its row has read.
    ///
    /// # Errors
    /// When the value is none of the field's type, or there is no such option.
    fn set(&mut self, name: &str, value: Value) -> Result<(), Wrong>;

    /// Calls with this struct and those below it whose options stand beside its own, in the order in which they are
    /// shown and read.
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a dyn Options));

    /// The same, to change them. One that is chosen by an option before it is chosen anew.
    fn visit_mut(&mut self, each: &mut dyn FnMut(&mut dyn Options));

    /// The row of an option.
    fn row(&self, name: &str) -> Option<&'static Row> {
        self.rows().iter().find(|row| row.name == name)
    }
}

/// A struct with options, and those below it.
pub fn parts(options: &dyn Options) -> Vec<&dyn Options> {
    let mut parts = Vec::new();
    options.visit(&mut |part| parts.push(part));
    parts
}

/// Names of the options in which two structs of one type differ, with those below them.
pub fn differences(one: &dyn Options, other: &dyn Options) -> Vec<&'static str> {
    let others = parts(other);
    let mut names = Vec::new();
    for part in parts(one) {
        let Some(other) = others
            .iter()
            .find(|other| std::ptr::eq(other.rows(), part.rows()))
        else {
            continue;
        };
        for name in part.rows().iter().map(|row| row.name) {
            if part.value(name) != other.value(name) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Sets an option in every struct that has it, the given one and those below it.
///
/// # Errors
/// When there is no such option, or the value is none of the field's type.
pub fn set(options: &mut dyn Options, name: &str, value: &Value) -> Result<(), Wrong> {
    let mut done = None;
    options.visit_mut(&mut |part| {
        if part.row(name).is_some() && !matches!(done, Some(Err(_))) {
            done = Some(part.set(name, value.clone()));
        }
    });
    done.unwrap_or_else(|| Err(Wrong::new("there is no such option")))
}

/// Sets an option from text, as programs give it, in every struct that has it.
///
/// # Errors
/// When there is no such option, or the text is none of its values: says what is allowed.
pub fn set_text(options: &mut dyn Options, name: &str, text: &str) -> Result<(), String> {
    let rows = parts(options).into_iter().flat_map(|part| part.rows());
    let rows: Vec<&Row> = rows.filter(|row| row.scope & PROGRAM != 0).collect();
    let Some(row) = rows.iter().find(|row| row.name == name) else {
        let mut names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        names.dedup();
        return Err(format!("unknown option {name:?}: use {}", names.join(", ")));
    };
    let read = row.read(&Given::Bare(text), &|_, _| None);
    read.and_then(|value| set(options, name, &value))
        .map_err(|wrong| format!("{name}: {}; allowed: {}", wrong.found, row.allowed()))
}

/// The options that a session keeps, as `key = value` lines of printable ASCII.
pub fn to_text(options: &dyn Options) -> String {
    let mut text = String::new();
    for row in options.rows().iter().filter(|row| row.scope & SESSION != 0) {
        if let Some(value) = options.value(row.name) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} = {}", row.name, row.exact(&value));
        }
    }
    text
}

/// Sets the option of one line of [`to_text`].
///
/// # Errors
/// When there is no such option, or the text is none of its values.
pub fn set_line(options: &mut dyn Options, name: &str, text: &str) -> Result<(), String> {
    let rows = parts(options).into_iter().flat_map(|part| part.rows());
    let row = rows
        .into_iter()
        .find(|row| row.name == name && row.scope & SESSION != 0);
    let value = row.ok_or("the key is unknown")?.read_exact(text)?;
    set(options, name, &value).map_err(|wrong| wrong.found)
}

/// Escapes bytes: printable ASCII except the backslash stays, any other byte becomes `\xNN`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if (b' '..=b'~').contains(&byte) && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Reads what [`escape`] wrote. A backslash may stand for itself behind another one, and bytes beyond ASCII as they are.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, &'static str> {
    const EXPECTED: &str = "expected printable ASCII, other bytes as \\xNN";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, rest) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let value = digit(high).zip(digit(low)).map(|(high, low)| high * 16 + low);
                bytes.push(value.and_then(|value| u8::try_from(value).ok()).ok_or(EXPECTED)?);
                rest = after;
            }
            // Earlier builds escaped quotes of collectors, too.
            (b'\\', [byte @ (b'\\' | b'\'' | b'"'), after @ ..]) => {
                bytes.push(*byte);
                rest = after;
            }
            (b'\\', _) => return Err(EXPECTED),
            (b' '..=b'~' | 0x80.., _) => bytes.push(*byte),
            _ => return Err(EXPECTED),
        }
    }
    Ok(bytes)
}

/// Declares rows for a struct: `name: (place) => row`, where the place is a path of fields below the struct, or
/// `name: [get, set] => row` with two functions.
///
/// ```
/// use logdrive_drain::schema::{Kind, Options, Row, Schema, Value};
///
/// struct Server { limits: Limits }
/// struct Limits { connections: u32 }
/// logdrive_drain::rows! { Server {
///     /// Connections at once.
///     connections: (limits.connections) => Row::of(Kind::Count(1..=64)),
/// } }
/// let mut server = Server { limits: Limits { connections: 8 } };
/// assert_eq!(Server::ROWS[0].help(), "Connections at once.");
/// server.set("connections", Value::Number(9)).expect("a number");
/// assert_eq!(server.limits.connections, 9);
/// ```
#[macro_export]
macro_rules! rows {
    ($type:ty { $( $(#[doc = $doc:literal])* $name:ident : $place:tt => $row:expr, )* } $($below:tt)*) => {
        impl $crate::schema::Schema for $type {
            const ROWS: &'static [$crate::schema::Row] =
                &[$( $crate::schema::Row::at($row, stringify!($name), concat!($($doc),*)), )*];
        }

        impl $crate::schema::Options for $type {
            fn rows(&self) -> &'static [$crate::schema::Row] {
                <Self as $crate::schema::Schema>::ROWS
            }

            fn value(&self, name: &str) -> Option<$crate::schema::Value> {
                type Get = fn(&$type) -> Option<$crate::schema::Value>;
                const GET: &[Get] = &[$( $crate::place!(get $place), )*];
                let at = self.rows().iter().position(|row| row.name == name)?;
                GET.get(at)?(self)
            }

            fn set(&mut self, name: &str, value: $crate::schema::Value) -> Result<(), $crate::schema::Wrong> {
                type Set = fn(&mut $type, $crate::schema::Value) -> Result<(), $crate::schema::Wrong>;
                const SET: &[Set] = &[$( $crate::place!(set $place), )*];
                let at = self.rows().iter().position(|row| row.name == name);
                match at.and_then(|at| SET.get(at)) {
                    Some(set) => set(self, value),
                    None => Err($crate::schema::Wrong::new("there is no such option")),
                }
            }

            $crate::below! { $($below)* }
        }
    };
}

/// The structs below one with options, for [`rows!`](crate::rows): fields, or two functions.
#[doc(hidden)]
#[macro_export]
macro_rules! below {
    ($(before { $($before:ident)* })? $(after { $($($after:ident).+),* })?) => {
        fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a dyn $crate::schema::Options)) {
            $($(self.$before.visit(each);)*)?
            each(self);
            $($(self.$($after).+.visit(each);)*)?
        }

        fn visit_mut(&mut self, each: &mut dyn FnMut(&mut dyn $crate::schema::Options)) {
            $($(self.$before.visit_mut(each);)*)?
            each(self);
            $($(self.$($after).+.visit_mut(each);)*)?
        }
    };
    (by [$visit:expr, $visit_mut:expr]) => {
        fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a dyn $crate::schema::Options)) {
            $visit(self, each);
        }

        fn visit_mut(&mut self, each: &mut dyn FnMut(&mut dyn $crate::schema::Options)) {
            $visit_mut(self, each);
        }
    };
}

/// One way into a field, for [`rows!`](crate::rows).
#[doc(hidden)]
#[macro_export]
macro_rules! place {
    (get ($($place:ident).+)) => { |options| $crate::schema::Setting::to_value(&options.$($place).+) };
    (set ($($place:ident).+)) => {
        |options, value| {
            options.$($place).+ = $crate::schema::Setting::from_value(value)?;
            Ok(())
        }
    };
    (get { $field:ident }) => { $crate::place!(get ($field)) };
    (set { $field:ident }) => { $crate::place!(set ($field)) };
    (get { $field:ident $place:tt }) => { $crate::place!(get $place) };
    (set { $field:ident $place:tt }) => { $crate::place!(set $place) };
    (get [$get:expr, $set:expr]) => { $get };
    (set [$get:expr, $set:expr]) => { $set };
}

/// Declares a struct whose fields are options, each with its row, and where needed with its own two functions, as for
/// [`rows!`](crate::rows). Fields that are none stand behind `and`, options that are no fields behind `with`, and
/// fields that are structs with options of their own, shown and read together with these, behind `before` and `after`.
///
/// ```
/// use logdrive_drain::schema::{Kind, Row, Schema};
///
/// logdrive_drain::options! {
///     /// Limits of a server.
///     #[derive(Debug, Clone)]
///     pub struct Limits {
///         /// Connections at once.
///         pub connections: u32 => Row::of(Kind::Count(1..=64)),
///     }
/// }
/// assert_eq!((Limits::ROWS[0].name, Limits::ROWS[0].help()), ("connections", "Connections at once."));
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[$about:meta])*
        $visible:vis struct $type:ident {
            $( $(#[doc = $doc:literal])* $field_visible:vis $field:ident : $field_type:ty => $row:expr $( => $own:tt )?, )*
        }
        $( and { $( $(#[$other_about:meta])* $other_visible:vis $other:ident : $other_type:ty, )* } )?
        $( with { $( $(#[doc = $more_doc:literal])* $more:ident : $place:tt => $more_row:expr, )* } )?
        $( before $before:tt )? $( after $after:tt )? $( by $by:tt )?
    ) => {
        $(#[$about])*
        $visible struct $type {
            $( $(#[doc = $doc])* $field_visible $field: $field_type, )*
            $( $( $(#[$other_about])* $other_visible $other: $other_type, )* )?
        }

        $crate::rows! { $type {
            $( $(#[doc = $doc])* $field: { $field $($own)? } => $row, )*
            $( $( $(#[doc = $more_doc])* $more: $place => $more_row, )* )?
        } $( before $before )? $( after $after )? $( by $by )? }
    };
}
