//! The plan of a filter: what is left to do for each record once the query is read.
//!
//! Relative times become moments and levels a set of bits. Texts that have to stand in a record of text or JSON are found
//! in its bytes before it is taken apart.

use crate::ast::{Expr, LevelTest, Test, TimeTest};
use crate::columns::{Batch, Selection, ValueTest};
use crate::matcher::Matcher;
use crate::record::{GivenName, LEVEL, OWN_PARTS, Record, TIME, own_name};
use logdrive_wire::Level;
use memchr::memmem::Finder;

/// Bit of a record without a level.
const NO_LEVEL: u8 = 1 << 6;
const ALL_LEVELS: u8 = NO_LEVEL | (NO_LEVEL - 1);

/// Texts of which one has to stand in a record as it is written.
type Needles = Vec<String>;

/// A filter that is ready for records.
///
/// Threads may share it. A test of one record allocates nothing but what the record itself needs.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) root: Node,
    /// One text of each of these lists stands in every record that passes.
    pub(crate) needles: Vec<Vec<Finder<'static>>>,
    times: (u64, u64),
    levels: u8,
}

#[derive(Debug, Clone)]
pub(crate) enum Node {
    All,
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Levels(u8),
    Times(u64, u64),
    Field(String, Matcher),
    /// The message and the values of all fields.
    AnyText(Matcher),
}

impl Plan {
    pub(crate) fn new(filter: &Expr, now_unix_ns: u64) -> Self {
        let root = Node::new(filter, now_unix_ns);
        let mut lists = Vec::new();
        all_needles(filter, &mut lists);
        let finders = |list: Needles| {
            list.iter()
                .map(|text| Finder::new(text.as_bytes()).into_owned())
                .collect()
        };
        Self {
            times: root.times(),
            levels: root.levels(),
            needles: lists.into_iter().map(finders).collect(),
            root,
        }
    }

    /// Whether a record passes.
    pub fn matches(&self, record: &mut dyn Record) -> bool {
        self.root.matches(record)
    }

    /// Whether a record may pass that is written so, as text or JSON. `false` is certain.
    #[inline]
    pub fn may_match(&self, line: &[u8]) -> bool {
        let has_one = |list: &Vec<Finder<'_>>| list.iter().any(|finder| finder.find(line).is_some());
        // An escape may stand for any character.
        self.needles.iter().all(has_one) || memchr::memmem::find(line, b"\\u").is_some()
    }

    /// Texts of which each list has one in every record that passes, as it is written in text or JSON.
    pub fn needles(&self) -> impl Iterator<Item = &[Finder<'static>]> {
        self.needles.iter().map(Vec::as_slice)
    }

    /// First and last time of records that may pass, in nanoseconds since 1970.
    pub fn times(&self) -> (u64, u64) {
        self.times
    }

    /// Whether a record of this level may pass.
    #[inline]
    pub fn may_have_level(&self, level: Option<Level>) -> bool {
        self.levels & level_bit(level) != 0
    }

    /// Rows of a batch that pass.
    pub fn select(&self, batch: &mut dyn Batch, length: usize) -> Selection {
        self.root.select(batch, &Selection::all(length))
    }

    /// Whether a record may pass of which each test of a field may hold as `may_hold` says; without a name the test is of the
    /// message and all fields. `false` is certain. Time and level are not asked.
    pub fn may_hold(&self, may_hold: &mut dyn FnMut(Option<&str>, ValueTest<'_>) -> bool) -> bool {
        self.root.may_hold(may_hold)
    }

    /// Whether time and level alone decide.
    pub fn is_of_head(&self) -> bool {
        self.root.is_of_head()
    }
}

fn level_bit(level: Option<Level>) -> u8 {
    level.map_or(NO_LEVEL, |level| 1 << level.code())
}

fn level_bits(test: &LevelTest) -> u8 {
    let bits = |is_meant: &dyn Fn(Level) -> bool| {
        let meant = Level::ALL.into_iter().filter(|level| is_meant(*level));
        meant.fold(0, |bits, level| bits | level_bit(Some(level)))
    };
    match test {
        LevelTest::In(levels) => bits(&|level| levels.contains(&level)),
        LevelTest::Compare(operator, least) => bits(&|level| operator.holds(level.cmp(least))),
        LevelTest::Exists => bits(&|_| true),
    }
}

fn time_bounds(test: &TimeTest, now: u64) -> (u64, u64) {
    match test {
        TimeTest::Last { ns, offset, .. } => {
            let end = now.saturating_sub(offset.as_ref().map_or(0, |(_, ns)| *ns));
            // Of now there is no end: clocks of other machines, and what is logged meanwhile.
            let last = if offset.is_some() { end } else { u64::MAX };
            (end.saturating_sub(*ns), last)
        }
        TimeTest::Between {
            first_ns, last_ns, ..
        } => (*first_ns, *last_ns),
    }
}

impl Node {
    fn new(expr: &Expr, now: u64) -> Self {
        let nodes = |exprs: &[Expr]| exprs.iter().map(|expr| Self::new(expr, now)).collect();
        match expr {
            Expr::All => Self::All,
            Expr::And(all) => {
                let mut nodes: Vec<Self> = nodes(all);
                nodes.sort_by_key(Self::cost);
                Self::And(nodes)
            }
            Expr::Or(any) => {
                let mut nodes: Vec<Self> = nodes(any);
                nodes.sort_by_key(Self::cost);
                Self::Or(nodes)
            }
            Expr::Not(inner) => Self::Not(Box::new(Self::new(inner, now))),
            Expr::Level(test) => Self::Levels(level_bits(test)),
            Expr::Time(test) => {
                let (first, last) = time_bounds(test, now);
                Self::Times(first, last)
            }
            Expr::Test {
                field: Some(field),
                test,
            } => Self::Field(field.clone(), Matcher::new(test)),
            Expr::Test { field: None, test } => Self::AnyText(Matcher::new(test)),
        }
    }

    /// Order in which tests are made: those first that need no field.
    fn cost(&self) -> u8 {
        match self {
            Self::All | Self::Levels(_) | Self::Times(..) => 0,
            Self::Field(..) => 1,
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().map(Self::cost).max().unwrap_or(0),
            Self::Not(inner) => inner.cost(),
            Self::AnyText(_) => 2,
        }
    }

    fn matches(&self, record: &mut dyn Record) -> bool {
        match self {
            Self::All => true,
            Self::And(all) => all.iter().all(|node| node.matches(record)),
            Self::Or(any) => any.iter().any(|node| node.matches(record)),
            Self::Not(inner) => !inner.matches(record),
            Self::Levels(bits) => bits & level_bit(record.level()) != 0,
            // What has no time is of no time.
            Self::Times(first, last) => record
                .unix_ns()
                .is_some_and(|time| (*first..=*last).contains(&time)),
            Self::Field(field, matcher) => field_matches(record, field, matcher),
            Self::AnyText(matcher) => {
                let mut is_found = false;
                record.values("message", &mut |value| {
                    is_found = is_found || matcher.is_met_by(value)
                });
                if !is_found {
                    record.each_field(&mut |_, value| is_found = is_found || matcher.is_met_by(value));
                }
                is_found
            }
        }
    }

    fn select(&self, batch: &mut dyn Batch, within: &Selection) -> Selection {
        let none = || Selection::none(within.batch_length());
        if within.is_empty() {
            return none();
        }
        match self {
            Self::All => within.clone(),
            Self::And(nodes) => {
                let mut nodes: Vec<&Self> = nodes.iter().collect();
                nodes.sort_by_key(|node| node.batch_cost(batch));
                let narrowed = |rows: Selection, node: &&Self| node.select(batch, &rows);
                nodes.iter().fold(within.clone(), narrowed)
            }
            Self::Or(nodes) => {
                let mut nodes: Vec<&Self> = nodes.iter().collect();
                nodes.sort_by_key(|node| node.batch_cost(batch));
                nodes.iter().fold(none(), |rows, node| {
                    let left = within.clone().without(&rows);
                    rows.or(&node.select(batch, &left))
                })
            }
            Self::Not(inner) => within.clone().without(&inner.select(batch, within)),
            Self::Levels(bits) => match bits & level_bit(batch.level()) {
                0 => none(),
                _ => within.clone(),
            },
            Self::Times(first, last) => batch.between(*first, *last, within),
            Self::Field(field, matcher) => batch.test(Some(field), ValueTest::new(matcher), within),
            Self::AnyText(matcher) => batch.test(None, ValueTest::new(matcher), within),
        }
    }

    fn batch_cost(&self, batch: &dyn Batch) -> u32 {
        match self {
            Self::All | Self::Levels(_) => 0,
            Self::Times(..) => 1,
            Self::And(nodes) | Self::Or(nodes) => {
                let costs = nodes.iter().map(|node| node.batch_cost(batch));
                costs.fold(0, u32::saturating_add)
            }
            Self::Not(inner) => inner.batch_cost(batch),
            Self::Field(field, _) => batch.cost(Some(field)),
            Self::AnyText(_) => batch.cost(None),
        }
    }

    fn may_hold(&self, may_hold: &mut dyn FnMut(Option<&str>, ValueTest<'_>) -> bool) -> bool {
        match self {
            Self::And(nodes) => nodes.iter().all(|node| node.may_hold(may_hold)),
            Self::Or(nodes) => nodes.iter().any(|node| node.may_hold(may_hold)),
            Self::All | Self::Not(_) | Self::Levels(_) | Self::Times(..) => true,
            Self::Field(field, matcher) => may_hold(Some(field), ValueTest::new(matcher)),
            Self::AnyText(matcher) => may_hold(None, ValueTest::new(matcher)),
        }
    }

    fn is_of_head(&self) -> bool {
        match self {
            Self::All | Self::Levels(_) | Self::Times(..) => true,
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().all(Self::is_of_head),
            Self::Not(inner) => inner.is_of_head(),
            Self::Field(..) | Self::AnyText(_) => false,
        }
    }

    fn times(&self) -> (u64, u64) {
        let all = (0, u64::MAX);
        match self {
            Self::Times(first, last) => (*first, *last),
            Self::And(nodes) => {
                let times = nodes.iter().map(Self::times);
                times.fold(all, |sum, times| (sum.0.max(times.0), sum.1.min(times.1)))
            }
            Self::Or(nodes) => {
                let times = nodes.iter().map(Self::times);
                times.fold((u64::MAX, 0), |sum, times| {
                    (sum.0.min(times.0), sum.1.max(times.1))
                })
            }
            _ => all,
        }
    }

    fn levels(&self) -> u8 {
        match self {
            Self::Levels(bits) => *bits,
            Self::And(nodes) => nodes.iter().fold(ALL_LEVELS, |bits, node| bits & node.levels()),
            Self::Or(nodes) => nodes.iter().fold(0, |bits, node| bits | node.levels()),
            Self::Not(inner) => match **inner {
                Self::Levels(bits) => ALL_LEVELS & !bits,
                _ => ALL_LEVELS,
            },
            _ => ALL_LEVELS,
        }
    }
}

fn field_matches(record: &mut dyn Record, field: &str, matcher: &Matcher) -> bool {
    let mut is_met = false;
    let mut is_there = false;
    record.values(field, &mut |value| {
        is_there = is_there || !value.is_empty();
        is_met = is_met || matcher.is_met_by(value);
    });
    match matcher {
        Matcher::Empty => !is_there,
        _ => is_met,
    }
}

/// Collects the lists of needles of tests that all have to hold.
fn all_needles(expr: &Expr, lists: &mut Vec<Needles>) {
    match expr {
        Expr::And(all) => all.iter().for_each(|expr| all_needles(expr, lists)),
        other => lists.extend(needles(other)),
    }
}

/// Texts of which one stands in every record that passes; `None` where none is known.
fn needles(expr: &Expr) -> Option<Needles> {
    match expr {
        Expr::All | Expr::Not(_) | Expr::Level(_) | Expr::Time(_) => None,
        Expr::And(all) => {
            // The longest is the rarest.
            let known = all.iter().filter_map(needles);
            known.max_by_key(|list| list.iter().map(String::len).min().unwrap_or(0))
        }
        Expr::Or(any) => {
            let lists: Option<Vec<Needles>> = any.iter().map(needles).collect();
            lists.map(|lists| lists.concat())
        }
        Expr::Test { field, test } => needles_of_test(field.as_deref(), test),
    }
}

fn needles_of_test(field: Option<&str>, test: &Test) -> Option<Needles> {
    // The process may be known from elsewhere, and a time may be written in many ways.
    if field.is_some_and(|field| matches!(field, "app" | "pid" | LEVEL | TIME)) {
        return None;
    }
    let own = |text: &String| is_plain(text).then(|| vec![text.clone()]);
    let found = match test {
        Test::Phrase {
            ignore_case: true, ..
        }
        | Test::Empty => return None,
        Test::Phrase { text, .. } | Test::Substring(text) | Test::Exact { text, .. } => own(text),
        Test::In(values) => values
            .iter()
            .map(own)
            .collect::<Option<Vec<_>>>()
            .map(|lists| lists.concat()),
        Test::Exists | Test::Compare { .. } | Test::Range { .. } | Test::Regex(_) => None,
    };
    found.or_else(|| {
        let field = field.filter(|field| !OWN_PARTS.contains(&own_name(field)))?;
        // A field without a name has a number.
        // A field without a name has a number, or gets a name from the reader.
        let is_written = !field.starts_with("arg") && !GivenName::is_one(field);
        (is_plain(field) && is_written).then(|| vec![field.to_owned()])
    })
}

/// Whether a text is written the same in every layout.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-., @$%#+".contains(&byte))
}
