//! Values of options: as they are given, as they are read, and the types of fields that take them.

use super::Wrong;
use logdrive_ring::FullPolicy;
use logdrive_wire::Level;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// A value as a file or a program gives it, before it is read.
#[derive(Debug, Clone, PartialEq)]
pub enum Given<'a> {
    /// Text without a type, from a program: `5`, `yes`, `/var/log/a.log`.
    Bare(&'a str),
    /// Text, from a file.
    Text(&'a str),
    /// A number: its digits and their base, and the number as it was written.
    Integer {
        /// Digits, with a sign where it is negative.
        digits: &'a str,
        /// Base of the digits.
        radix: u32,
        /// The number with its prefix, for errors.
        shown: String,
    },
    /// A truth value.
    Flag(bool),
    /// A list, each element with its place in the file.
    List(Vec<(Given<'a>, Range<usize>)>),
    /// A table.
    Table,
    /// Any other value, as it was written.
    Other(String),
}

/// Characters of a wrong value that an error repeats.
const SHOWN_CHARACTERS_MAX: usize = 60;

impl<'a> Given<'a> {
    /// Text, if it is text.
    pub fn text(&self) -> Option<&'a str> {
        match self {
            Self::Bare(text) | Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as an error repeats it.
    pub fn describe(&self) -> String {
        match self {
            Self::Bare(text) | Self::Text(text) => quoted(text),
            Self::Integer { shown, .. } | Self::Other(shown) => shown.clone(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(_) => "a list".to_owned(),
            Self::Table => "a table".to_owned(),
        }
    }

    /// Number of digits alone, in any base.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Integer { digits, radix, .. } => u64::from_str_radix(digits, *radix).ok(),
            Self::Bare(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        }
    }
}

/// Text between quotes, cut to a readable length.
pub fn quoted(text: &str) -> String {
    let front: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    let dots = if front.len() < text.len() { "..." } else { "" };
    format!("\"{front}{dots}\"")
}

/// A value that was read and is within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `off`.
    Off,
    /// A number, a size in bytes, or permissions.
    Number(u64),
    /// A time.
    Time(Duration),
    /// Text that is not parsed here.
    Text(String),
    /// A path.
    Path(PathBuf),
    /// A truth value.
    Flag(bool),
    /// One of the words of the option.
    Word(&'static str),
    /// A level.
    Level(Level),
    /// A user or a group: its name, or its number in digits, and its number.
    Account(String, u32),
    /// Names, each with its place in the file.
    Names(Vec<(String, Range<usize>)>),
}

/// A type of a field that is an option.
pub trait Setting: Sized {
    /// The value; `None` when it is unset or off.
    fn to_value(&self) -> Option<Value>;

    /// The field with a value.
    ///
    /// # Errors
    /// When the value is none of this type.
    fn from_value(value: Value) -> Result<Self, Wrong>;
}

impl<T: Setting> Setting for Option<T> {
    fn to_value(&self) -> Option<Value> {
        self.as_ref().and_then(T::to_value)
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        match value {
            Value::Off => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn to_value(&self) -> Option<Value> {
                u64::try_from(*self).ok().map(Value::Number)
            }

            fn from_value(value: Value) -> Result<Self, Wrong> {
                match value {
                    Value::Number(number) => {
                        <$type>::try_from(number).map_err(|_| Wrong::new("the number is too large"))
                    }
                    _ => Err(Wrong::new("expected a number")),
                }
            }
        }
    )*};
}
numbers!(u64, u32, i32, usize);

macro_rules! plain {
    ($($type:ty => $variant:ident, $what:literal;)*) => {$(
        impl Setting for $type {
            fn to_value(&self) -> Option<Value> {
                Some(Value::$variant(self.clone()))
            }

            fn from_value(value: Value) -> Result<Self, Wrong> {
                match value {
                    Value::$variant(value) => Ok(value),
                    _ => Err(Wrong::new($what)),
                }
            }
        }
    )*};
}
plain! {
    Duration => Time, "expected a time";
    PathBuf => Path, "expected a path";
    bool => Flag, "expected yes or no";
    Level => Level, "expected a level";
}

impl Setting for String {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Text(self.clone()))
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        match value {
            Value::Text(text) => Ok(text),
            Value::Word(word) => Ok(word.to_owned()),
            _ => Err(Wrong::new("expected text")),
        }
    }
}

/// Names without their places.
impl Setting for Vec<String> {
    fn to_value(&self) -> Option<Value> {
        let names = self.iter().map(|name| (name.clone(), 0..0)).collect();
        (!self.is_empty()).then_some(Value::Names(names))
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        match value {
            Value::Names(names) => Ok(names.into_iter().map(|(name, _)| name).collect()),
            _ => Err(Wrong::new("expected names")),
        }
    }
}

/// A word that a value may be, and its meaning.
pub type Word = (&'static str, &'static str);

/// An enum that is an option of words.
pub trait Words {
    /// The words, each with its meaning, in the order in which they are shown.
    const WORDS: &'static [Word];
}

/// Makes an enum the type of an option with one word, and its meaning, for each variant.
#[macro_export]
macro_rules! words {
    ($type:ty { $($variant:ident = $word:literal: $meaning:literal),* $(,)? }) => {
        impl $crate::schema::Words for $type {
            const WORDS: &'static [$crate::schema::Word] = &[$(($word, $meaning)),*];
        }

        impl $crate::schema::Setting for $type {
            fn to_value(&self) -> Option<$crate::schema::Value> {
                Some($crate::schema::Value::Word(match self { $(Self::$variant => $word,)* }))
            }

            fn from_value(value: $crate::schema::Value) -> Result<Self, $crate::schema::Wrong> {
                match value {
                    $($crate::schema::Value::Word($word) => Ok(Self::$variant),)*
                    _ => Err($crate::schema::Wrong::new("there is no such word")),
                }
            }
        }
    };
}
words!(FullPolicy {
    Wait = "wait": "at most 10 ms, once in an overload; after that it is dropped and counted",
    Drop = "drop": "it is dropped and counted",
    Block = "block": "it waits for as long as it takes",
});
