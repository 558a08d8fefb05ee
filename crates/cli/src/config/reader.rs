//! One table of a file, read key by key; what is wrong with it is noted, and the reading goes on.

use super::context::Context;
use super::keys::{Key, Section, Without};
use super::problem::Problem;
use super::sections::SECTIONS;
use super::values::{self, Given, Value};
use crate::suggestion::most_similar;
use logdrive_agent::config::{Account, AppPattern, Who};
use logdrive_wire::Level;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// What has been found wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    /// A part of the text could not be read: what seems to be missing may stand there.
    pub(crate) is_torn: bool,
}

impl Findings {
    /// Notes what is wrong with a value, whatever else the file says.
    pub(crate) fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Notes that a whole table could not be read, so that what it has in it seems to be missing.
    pub(crate) fn add_torn(&mut self, problem: Problem) {
        self.problems.push(problem);
        self.is_torn = true;
    }

    /// Notes what is only wrong if nothing is missing.
    pub(crate) fn add_if_whole(&mut self, problem: Problem) {
        if !self.is_torn {
            self.problems.push(problem);
        }
    }
}

/// Where the keys of a table stand.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    section: &'static Section,
    header: Range<usize>,
    keys: Vec<(String, Range<usize>)>,
}

impl Places {
    /// Where a key's value stands; the table's header when it is not given.
    pub(crate) fn of(&self, key: &str) -> Range<usize> {
        let found = self.keys.iter().find(|(name, _)| name == key);
        found.map_or_else(|| self.header.clone(), |(_, span)| span.clone())
    }

    /// Whether a key is given.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(name, _)| name == key)
    }

    /// The table's header.
    pub(crate) fn header_text(&self) -> String {
        self.section.header()
    }

    /// A problem with a key.
    pub(crate) fn problem(&self, key: &str, found: impl Into<String>) -> Problem {
        Problem::at(self.of(key), format!("{}.{key}", self.section.name), found)
    }

    /// A problem with the whole table.
    pub(crate) fn problem_of_all(&self, found: impl Into<String>) -> Problem {
        Problem::at(self.header.clone(), self.section.name, found)
    }
}

/// One table.
pub(crate) struct Reader<'a> {
    pub(crate) places: Places,
    section: &'static Section,
    table: Option<&'a DeTable<'a>>,
    context: &'a dyn Context,
    findings: &'a mut Findings,
}

impl<'a> Reader<'a> {
    /// Reads a table, or the defaults where there is none. Tables below it that are sections of their own are left
    /// alone.
    pub(crate) fn new(
        section: &'static Section,
        table: Option<(&'a DeTable<'a>, Range<usize>)>,
        context: &'a dyn Context,
        findings: &'a mut Findings,
    ) -> Self {
        let (table, header) = match table {
            Some((table, header)) => (Some(table), header),
            None => (None, 0..0),
        };
        let entries = table.into_iter().flatten();
        let keys = entries.map(|(key, value)| (key.get_ref().to_string(), value.span()));
        let mut reader = Self {
            places: Places {
                section,
                header,
                keys: keys.collect(),
            },
            section,
            table,
            context,
            findings,
        };
        reader.find_unknown_keys();
        reader
    }

    /// Notes a problem with a key.
    pub(crate) fn wrong(&mut self, problem: Problem) {
        self.findings.add(problem);
    }

    /// Notes a problem that is none if something is missing.
    pub(crate) fn wrong_if_whole(&mut self, problem: Problem) {
        self.findings.add_if_whole(problem);
    }

    /// What is allowed for a key.
    pub(crate) fn allowed(&self, key: &str) -> String {
        self.section
            .key(key)
            .map_or_else(String::new, |key| key.kind.allowed())
    }

    /// The value of a key, or its default; `None` when it is unset.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        let key = self.section.key(name)?;
        if let Some(given) = self.given(name) {
            match values::read(&key.kind, given, self.context) {
                Ok(value) => return Some(value),
                Err(wrong) => {
                    let mut problem = self.places.problem(name, wrong.found).allowed(key.kind.allowed());
                    problem.help = wrong.help;
                    problem.span = wrong.span.or(problem.span);
                    self.findings.add(problem);
                }
            }
        } else if let Without::Required(example) = key.without {
            let found = format!("`{name}` is missing");
            let problem = self.places.problem_of_all(found).allowed(key.kind.allowed());
            self.findings
                .add_if_whole(problem.help(format!("add a line such as {name} = {example}")));
        }
        default_of(key, self.context)
    }

    fn given(&self, name: &str) -> Option<&'a Given<'a>> {
        let mut entries = self.table.into_iter().flatten();
        entries.find_map(|(key, value)| (key.get_ref() == name).then_some(value))
    }

    fn find_unknown_keys(&mut self) {
        let prefix = format!("{}.", self.section.name);
        let below: Vec<(&str, &Section)> = SECTIONS
            .into_iter()
            .filter_map(|other| Some((other.name.strip_prefix(&prefix)?, other)))
            .collect();
        let names = self.section.keys.iter().map(|key| key.name);
        let names: Vec<&str> = names.chain(below.iter().map(|(name, _)| *name)).collect();
        let keys = self.section.keys.iter().map(|key| key.name.to_owned());
        let tables = below.iter().map(|(_, section)| section.header());
        let listed: Vec<String> = keys.chain(tables).collect();
        let allowed = format!("in {}: {}", self.section.header(), listed.join(", "));
        for key in self.table.into_iter().flat_map(|table| table.keys()) {
            let name = key.get_ref().as_ref();
            if names.contains(&name) {
                continue;
            }
            let title = format!("{}.{name}", self.section.name);
            let problem = Problem::at(key.span(), title, "there is no such key").allowed(allowed.clone());
            self.findings
                .add(match (most_similar(name, names.iter().copied()), home_of(name)) {
                    (Some(meant), _) => problem.help(format!("did you mean `{meant}`?")),
                    (None, Some(section)) => {
                        problem.help(format!("`{name}` belongs into {}", section.header()))
                    }
                    (None, None) => problem,
                });
        }
    }
}

/// The table that a key belongs to, if it is a key of any.
fn home_of(name: &str) -> Option<&'static Section> {
    SECTIONS.into_iter().find(|section| section.key(name).is_some())
}

/// What holds without a key.
fn default_of(key: &Key, context: &dyn Context) -> Option<Value> {
    let Without::Default(text) = key.without else {
        return None;
    };
    // A test reads every default of the tables.
    let given = DeValue::parse(text).ok()?;
    values::read(&key.kind, &given, context).ok()
}

/// Typed reading. `None` is off, unset or wrong, and what is wrong has been noted.
impl Reader<'_> {
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn path(&mut self, name: &str) -> Option<PathBuf> {
        match self.value(name) {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn number(&mut self, name: &str) -> Option<u64> {
        match self.value(name) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// A number whose bounds are within 32 bits.
    pub(crate) fn small_number(&mut self, name: &str) -> Option<u32> {
        self.number(name).and_then(|number| u32::try_from(number).ok())
    }

    pub(crate) fn time(&mut self, name: &str) -> Option<Duration> {
        match self.value(name) {
            Some(Value::Time(time)) => Some(time),
            _ => None,
        }
    }

    pub(crate) fn level(&mut self, name: &str) -> Option<Level> {
        match self.value(name) {
            Some(Value::Level(level)) => Some(level),
            _ => None,
        }
    }

    pub(crate) fn word(&mut self, name: &str) -> &'static str {
        match self.value(name) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.value(name) == Some(Value::Flag(true))
    }

    pub(crate) fn mode(&mut self, name: &str) -> u32 {
        match self.value(name) {
            Some(Value::Mode(mode)) => mode,
            _ => 0o600,
        }
    }

    pub(crate) fn account(&mut self, name: &str) -> Option<Account> {
        match self.value(name) {
            Some(Value::Account(account)) => Some(account),
            _ => None,
        }
    }

    /// The keys `app` and `user`.
    pub(crate) fn who(&mut self) -> Who {
        let app = match self.value("app") {
            Some(Value::App(app)) => app,
            _ => AppPattern::any(),
        };
        Who {
            app,
            user: self.account("user"),
        }
    }

    /// Names of sinks, all of which have to be there.
    pub(crate) fn sinks(&mut self, name: &str, known: &[&str]) -> Vec<String> {
        let Some(Value::Names(names)) = self.value(name) else {
            return Vec::new();
        };
        for (sink, span) in &names {
            if known.contains(&sink.as_str()) {
                continue;
            }
            let mut problem = self.places.problem(name, format!("there is no sink \"{sink}\""));
            problem.span = Some(span.clone());
            if let Some(meant) = most_similar(sink, known.iter().copied()) {
                problem = problem.help(format!("did you mean \"{meant}\"?"));
            }
            self.wrong_if_whole(problem.allowed(values::listed(known)));
        }
        names.into_iter().map(|(name, _)| name).collect()
    }

    /// Notes keys that are given but mean nothing, with the reason.
    pub(crate) fn refuse(&mut self, means_nothing: impl Fn(&Key) -> bool, why: &str) {
        for key in self.section.keys.iter().filter(|key| means_nothing(key)) {
            if self.places.has(key.name) {
                let found = format!("means nothing {why}");
                let problem = self.places.problem(key.name, found);
                self.findings.add(problem.help("take it out"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::Island;

    #[test]
    fn every_default_and_example_of_the_tables_can_be_read() {
        for section in SECTIONS {
            let keys = section.keys.iter().map(|key| match key.without {
                Without::Required(text) | Without::Default(text) | Without::Unset(_, text) => {
                    (key.name, text)
                }
            });
            for (name, text) in section.shown.iter().copied().chain(keys) {
                let key = section.key(name).unwrap_or_else(|| panic!("{name}"));
                let given = DeValue::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
                let read = values::read(&key.kind, &given, &Island);
                assert!(read.is_ok(), "{}.{name} = {text}: {read:?}", section.name);
            }
        }
    }
}
