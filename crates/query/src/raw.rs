//! Search in the bytes of many lines at once for records that may pass, before any line is taken apart: a text that has to stand
//! in a record, or a value behind the name of its field.

use crate::matcher::Matcher;
use crate::plan::{Node, Plan, is_plain};
use crate::record::{GivenName, OWN_PARTS, own_name};
use memchr::memmem::Finder;

/// Texts that are searched together; more of them are not much rarer than lines.
const TEXTS_MAX: usize = 4;

/// Bytes of a value that is compared where it stands; longer ones are looked at with their record.
const VALUE_BYTES_MAX: usize = 256;

/// Search for records that may pass.
///
/// ```
/// use logdrive_query::Query;
/// let plan = Query::parse("took_ms:>250")?.plan(0);
/// let search = logdrive_query::RawSearch::of_plan(&plan).expect("a field is named");
/// let lines = b"a took_ms=7\nb took_ms=900\n";
/// assert_eq!(search.next(lines, 0), Some(14));
/// # Ok::<(), logdrive_query::QueryError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RawSearch {
    kind: Kind,
    /// Whether the text is searched as it stands, whatever escapes mean.
    is_verbatim: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    /// One of these stands in each record that passes.
    Texts(Vec<Finder<'static>>),
    /// A value behind this name passes one of the tests.
    Value(Box<Finder<'static>>, Vec<Matcher>),
}

impl RawSearch {
    /// The search for records of a plan; `None` where all have to be looked at.
    pub fn of_plan(plan: &Plan) -> Option<Self> {
        let (root, needles) = (&plan.root, &plan.needles);
        let is_short = |list: &&Vec<Finder<'static>>| (1..=TEXTS_MAX).contains(&list.len());
        let least = |list: &[Finder<'static>]| list.iter().map(|text| text.needle().len()).min();
        let texts = needles.iter().filter(is_short).max_by_key(|list| least(list));
        let value = match root {
            Node::And(nodes) => nodes.iter().find_map(value_of),
            node => value_of(node),
        };
        // A value is looked at where it stands, so that it tells more than the name of its field.
        let is_name = |texts: &[Finder<'static>], name: &Finder<'static>| {
            texts.iter().any(|text| text.needle() == name.needle())
        };
        let kind = match (texts, value) {
            (Some(texts), Some((name, tests))) if is_name(texts, &name) => Kind::Value(Box::new(name), tests),
            (Some(texts), _) => Kind::Texts(texts.clone()),
            (None, Some((name, tests))) => Kind::Value(Box::new(name), tests),
            (None, None) => return None,
        };
        Some(Self {
            kind,
            is_verbatim: false,
        })
    }

    /// A search for a text that has to stand in each record as it is written.
    pub fn of_text(text: &[u8]) -> Option<Self> {
        let finder = || Finder::new(text).into_owned();
        (!text.is_empty()).then(|| Self {
            kind: Kind::Texts(vec![finder()]),
            is_verbatim: true,
        })
    }

    /// Whether these bytes may be searched: an escape may stand for any character.
    pub fn can_search(&self, bytes: &[u8]) -> bool {
        self.is_verbatim || memchr::memmem::find(bytes, b"\\u").is_none()
    }

    /// Offset of the next place from `from` on of which a record may pass.
    pub fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let find = |finder: &Finder<'_>, from: usize| {
            let rest = bytes.get(from..)?;
            finder.find(rest).map(|at| from + at)
        };
        match &self.kind {
            Kind::Texts(finders) => finders.iter().filter_map(|finder| find(finder, from)).min(),
            Kind::Value(name, tests) => {
                let mut from = from;
                loop {
                    let at = find(name, from)?;
                    from = at + name.needle().len();
                    if may_pass(bytes.get(from..).unwrap_or(&[]), tests) {
                        return Some(at);
                    }
                }
            }
        }
    }
}

/// The field and the tests of a node of which one has to hold for one of its values.
fn value_of(node: &Node) -> Option<(Finder<'static>, Vec<Matcher>)> {
    let single = |node: &Node| match node {
        Node::Field(field, matcher) if !matches!(matcher, Matcher::Empty) => {
            let is_own =
                OWN_PARTS.contains(&own_name(field)) || field.starts_with("arg") || GivenName::is_one(field);
            (!is_own && is_plain(field)).then(|| (field.clone(), matcher.clone()))
        }
        _ => None,
    };
    let (names, tests): (Vec<String>, Vec<Matcher>) = match node {
        Node::Or(nodes) => nodes
            .iter()
            .map(single)
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .unzip(),
        node => single(node).into_iter().unzip(),
    };
    let name = names.first()?;
    let is_one = names.iter().all(|other| other == name);
    is_one.then(|| (Finder::new(name.as_bytes()).into_owned(), tests))
}

/// Whether what stands behind the name of a field may be a value that passes. What is no plain value may.
fn may_pass(rest: &[u8], tests: &[Matcher]) -> bool {
    let (value, is_json) = match rest {
        [b'=', rest @ ..] => (rest, false),
        [b'"', b':', rest @ ..] => (rest, true),
        // JSON may have blanks there.
        [b'"' | b' ' | b'\t' | b':', ..] | [] => return true,
        _ => return false,
    };
    let (value, is_quoted) = match value {
        [b'"', rest @ ..] => (rest, true),
        rest => (rest, false),
    };
    let is_end = |byte: &u8| match (is_quoted, is_json) {
        (true, _) => *byte == b'"',
        (false, true) => matches!(byte, b',' | b'}'),
        (false, false) => matches!(byte, b' ' | b'\n'),
    };
    let is_odd = |byte: &u8| match (is_quoted, is_json) {
        (true, _) => matches!(byte, b'\\' | b'\n'),
        _ => !(byte.is_ascii_alphanumeric() || b"_-.+:/".contains(byte)),
    };
    let near = value.get(..value.len().min(VALUE_BYTES_MAX)).unwrap_or(&[]);
    match near.iter().position(|byte| is_end(byte) || is_odd(byte)) {
        Some(end) if near.get(end).is_some_and(is_end) => {
            let value = near.get(..end).unwrap_or(&[]);
            tests.iter().any(|test| test.is_met_by(value))
        }
        _ => true,
    }
}
