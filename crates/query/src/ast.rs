//! A query that was read: its filter and its pipes, and how they are written.

use crate::number::Number;
use std::fmt::{self, Display, Formatter};

/// Test of a record, or several of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    /// `*`: any record.
    All,
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// A test of a field; without one, of the message and the values of all fields.
    Test {
        field: Option<String>,
        test: Test,
    },
    Level(LevelTest),
    Time(TimeTest),
}

/// Test of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// A word or phrase between ends of words, or with `prefix` at the start of a word.
    Phrase {
        text: String,
        prefix: bool,
        ignore_case: bool,
    },
    /// `*text*`, anywhere.
    Substring(String),
    /// The whole value, or with `prefix` its start.
    Exact {
        text: String,
        prefix: bool,
    },
    /// No value, or an empty one.
    Empty,
    /// A value that is not empty.
    Exists,
    In(Vec<String>),
    Compare {
        operator: Operator,
        number: Literal,
    },
    Range {
        low: Bound,
        high: Bound,
    },
    Regex(Pattern),
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    pub(crate) const ALL: [(&str, Self); 4] = [
        (">=", Self::GreaterOrEqual),
        ("<=", Self::LessOrEqual),
        (">", Self::Greater),
        ("<", Self::Less),
    ];

    /// Whether a value passes that is ordered so to the operand.
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A number as it was written.
#[derive(Debug, Clone)]
pub(crate) struct Literal {
    pub(crate) text: String,
    pub(crate) number: Number,
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// End of a range; without a number there is none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) number: Option<Literal>,
    pub(crate) included: bool,
}

/// A regular expression that was compiled.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(pub(crate) regex::bytes::Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// Test of the level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LevelTest {
    /// One of these.
    In(Vec<logdrive_wire::Level>),
    Compare(Operator, logdrive_wire::Level),
    Exists,
}

/// Test of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TimeTest {
    /// The last so many nanoseconds, perhaps of an earlier moment.
    Last {
        text: String,
        ns: u64,
        offset: Option<(String, u64)>,
    },
    /// From the first moment up to the last one, both included; with the text behind `_time:`.
    Between {
        text: String,
        first_ns: u64,
        last_ns: u64,
    },
}

/// A pipe.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pipe {
    Filter(Expr),
    Stats {
        by: Vec<Key>,
        functions: Vec<Named>,
    },
    Top {
        count: u64,
        by: Vec<Key>,
    },
    Uniq {
        by: Vec<Key>,
        hits: bool,
        limit: Option<u64>,
    },
    Sort {
        by: Vec<SortKey>,
        limit: Option<u64>,
    },
    Limit(u64),
    Offset(u64),
    Fields(Vec<String>),
    Extract {
        pattern: Extraction,
        from: Option<String>,
    },
    ExtractRegexp {
        pattern: Pattern,
        from: Option<String>,
    },
}

/// Field by which records are grouped, perhaps in steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) field: String,
    /// Steps of a time or of a number.
    pub(crate) step: Option<Literal>,
}

/// Field by which records are sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SortKey {
    pub(crate) field: String,
    pub(crate) descending: bool,
}

/// Function of `stats` with the name of its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) function: Function,
    /// Field that it is of; `None` for `count()`.
    pub(crate) field: Option<String>,
    pub(crate) name: Option<String>,
}

impl Named {
    /// Name of the column.
    pub(crate) fn column(&self) -> String {
        match (&self.name, &self.field) {
            (Some(name), _) => name.clone(),
            (None, None) => format!("{}(*)", self.function.name()),
            (None, Some(field)) => match &self.function {
                Function::Quantile(share) => format!("quantile({share}, {field})"),
                function => format!("{}({field})", function.name()),
            },
        }
    }
}

/// Function of `stats`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Function {
    Count,
    CountUniq,
    Sum,
    Avg,
    Min,
    Max,
    Quantile(f64),
}

impl Function {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::CountUniq => "count_uniq",
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Min => "min",
            Self::Max => "max",
            Self::Quantile(_) => "quantile",
        }
    }
}

/// Pattern of `extract`: texts with fields between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extraction {
    pub(crate) text: String,
    /// Text before the first field.
    pub(crate) front: String,
    /// Each field, empty where it has no name, and the text behind it.
    pub(crate) parts: Vec<(String, String)>,
}

/// Words that mean something where a word may stand.
pub(crate) const KEYWORDS: [&str; 3] = ["and", "or", "not"];

pub(crate) fn is_keyword(text: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(text))
}

/// Whether a text needs no quotes: the parser reads it as one token.
pub(crate) fn is_bare(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(is_bare_first) && chars.all(is_bare_char) && !is_keyword(text)
}

/// Whether a bare text may begin so.
pub(crate) fn is_bare_first(c: char) -> bool {
    c.is_alphanumeric() || "_./@$%".contains(c)
}

/// Whether a bare text may go on so.
pub(crate) fn is_bare_char(c: char) -> bool {
    is_bare_first(c) || c == '-'
}

/// A text, between quotes where it needs them.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if is_bare(self.0) {
            return f.write_str(self.0);
        }
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// The name of a field, which begins with a letter where it has no quotes.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let begins = |c: char| c.is_alphabetic() || c == '_' || c == '@';
        match self.0.starts_with(begins) || !is_bare(self.0) {
            true => write!(f, "{}", Quoted(self.0)),
            false => write!(f, "\"{}\"", self.0),
        }
    }
}

struct Joined<'a, T>(&'a [T], &'static str);

impl<T: Display> Display for Joined<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, item) in self.0.iter().enumerate() {
            let between = if number == 0 { "" } else { self.1 };
            write!(f, "{between}{item}")?;
        }
        Ok(())
    }
}

fn quoted(texts: &[String]) -> Vec<Quoted<'_>> {
    texts.iter().map(|text| Quoted(text)).collect()
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::And(all) => write!(f, "({})", Joined(all, " and ")),
            Self::Or(any) => write!(f, "({})", Joined(any, " or ")),
            Self::Not(inner) => write!(f, "not {inner}"),
            Self::Test {
                field: Some(field),
                test,
            } => write!(f, "{}:{test}", Name(field)),
            Self::Test { field: None, test } => write!(f, "{test}"),
            Self::Level(test) => write!(f, "level:{test}"),
            Self::Time(test) => write!(f, "_time:{test}"),
        }
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let star = |prefix: &bool| if *prefix { "*" } else { "" };
        match self {
            Self::Phrase {
                text,
                prefix,
                ignore_case: false,
            } => write!(f, "{}{}", Quoted(text), star(prefix)),
            Self::Phrase { text, prefix, .. } => write!(f, "i({}{})", Quoted(text), star(prefix)),
            Self::Substring(text) => write!(f, "*{}*", Quoted(text)),
            Self::Exact { text, prefix } => write!(f, "={}{}", Quoted(text), star(prefix)),
            Self::Empty => f.write_str("\"\""),
            Self::Exists => f.write_str("*"),
            Self::In(values) => write!(f, "in({})", Joined(&quoted(values), ", ")),
            Self::Compare { operator, number } => write!(f, "{operator}{}", number.text),
            Self::Range { low, high } => {
                let end = |bound: &Bound| bound.number.as_ref().map(|number| number.text.clone());
                let open = if low.included { '[' } else { '(' };
                let close = if high.included { ']' } else { ')' };
                let low = end(low).unwrap_or_else(|| "-inf".to_owned());
                let high = end(high).unwrap_or_else(|| "inf".to_owned());
                write!(f, "range{open}{low}, {high}{close}")
            }
            Self::Regex(pattern) => write!(f, "~{pattern}"),
        }
    }
}

impl Display for Pattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted(self.0.as_str()))
    }
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(_, operator)| operator == self);
        f.write_str(found.map_or("", |(sign, _)| sign))
    }
}

impl Display for LevelTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |level: &logdrive_wire::Level| level.name().to_ascii_lowercase();
        match self {
            Self::In(levels) if let [level] = levels.as_slice() => f.write_str(&name(level)),
            Self::In(levels) => {
                let names: Vec<String> = levels.iter().map(name).collect();
                write!(f, "in({})", names.join(", "))
            }
            Self::Compare(operator, level) => write!(f, "{operator}{}", name(level)),
            Self::Exists => f.write_str("*"),
        }
    }
}

impl Display for TimeTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last { text, offset, .. } => {
                f.write_str(text)?;
                offset
                    .iter()
                    .try_for_each(|(text, _)| write!(f, " offset {text}"))
            }
            Self::Between { text, .. } => f.write_str(text),
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Name(&self.field))?;
        self.step.iter().try_for_each(|step| write!(f, ":{}", step.text))
    }
}

impl Display for SortKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}",
            Name(&self.field),
            if self.descending { " desc" } else { "" }
        )
    }
}

impl Display for Named {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.function.name();
        let field = self
            .field
            .as_deref()
            .map_or(String::new(), |field| Name(field).to_string());
        match self.function {
            Function::Quantile(share) => write!(f, "{name}({share}, {field})")?,
            _ => write!(f, "{name}({field})")?,
        }
        self.name
            .iter()
            .try_for_each(|name| write!(f, " as {}", Name(name)))
    }
}

impl Display for Pipe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let limited = |limit: &Option<u64>| limit.map_or(String::new(), |count| format!(" limit {count}"));
        match self {
            Self::Filter(expr) => write!(f, "filter {expr}"),
            Self::Stats { by, functions } => {
                f.write_str("stats ")?;
                if !by.is_empty() {
                    write!(f, "by ({}) ", Joined(by, ", "))?;
                }
                write!(f, "{}", Joined(functions, ", "))
            }
            Self::Top { count, by } => write!(f, "top {count} by ({})", Joined(by, ", ")),
            Self::Uniq { by, hits, limit } => {
                let hits = if *hits { " with hits" } else { "" };
                write!(f, "uniq by ({}){hits}{}", Joined(by, ", "), limited(limit))
            }
            Self::Sort { by, limit } => write!(f, "sort by ({}){}", Joined(by, ", "), limited(limit)),
            Self::Limit(count) => write!(f, "limit {count}"),
            Self::Offset(count) => write!(f, "offset {count}"),
            Self::Fields(fields) => {
                let names: Vec<Name<'_>> = fields.iter().map(|field| Name(field)).collect();
                write!(f, "fields {}", Joined(&names, ", "))
            }
            Self::Extract { pattern, from } => {
                write!(f, "extract {}", Quoted(&pattern.text))?;
                from.iter().try_for_each(|from| write!(f, " from {}", Name(from)))
            }
            Self::ExtractRegexp { pattern, from } => {
                write!(f, "extract_regexp {pattern}")?;
                from.iter().try_for_each(|from| write!(f, " from {}", Name(from)))
            }
        }
    }
}
