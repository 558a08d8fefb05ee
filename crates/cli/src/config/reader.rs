//! One table of a file, read row by row; what is wrong with it is noted, and the reading goes on.

use super::context::Context;
use super::problem::Problem;
use super::sections::{SECTIONS, Section, is_by_hand};
use crate::members;
use crate::suggestion::most_similar;
use logdrive_drain::schema::{Given, Kind, Options, Row, Value, Wrong, one_of, quoted};
use logdrive_ship::upstream::MemberOptions;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Problems that have been found so far.
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

/// Places of the keys of a table.
#[derive(Clone)]
pub(crate) struct Places {
    section: &'static Section,
    header: Range<usize>,
    keys: Vec<(String, Range<usize>)>,
}

impl Places {
    /// Place of a key's value; the table's header when it is not given.
    pub(crate) fn of(&self, key: &str) -> Range<usize> {
        let found = self.keys.iter().find(|(name, _)| name == key);
        found.map_or_else(|| self.header.clone(), |(_, span)| span.clone())
    }

    /// Returns true when a key is given.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(name, _)| name == key)
    }

    /// The table's header.
    pub(crate) fn header_text(&self) -> String {
        self.section.header()
    }

    /// A problem with a key.
    pub(crate) fn problem(&self, key: &str, found: impl Into<String>) -> Problem {
        Problem::at(self.of(key), self.section.title(key), found)
    }

    /// A problem with the whole table.
    pub(crate) fn problem_of_all(&self, found: impl Into<String>) -> Problem {
        Problem::at(self.header.clone(), self.section.name, found)
    }
}

/// An entry that was read, and its places.
#[derive(Clone)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) places: Places,
    /// Nothing was wrong with it.
    pub(crate) is_sound: bool,
}

/// Keys that earlier versions had, with advice.
const RENAMED: [(&str, &str, &str); 8] = [
    ("sink", "level", "write min_level"),
    ("ship", "level", "write min_level"),
    ("sink", "time", "write local_time = true for local times"),
    ("sink", "pattern", "write layout = \"pattern ...\""),
    ("recorder", "keep", "write keep_bytes"),
    ("", "idle", "write idle_timeout"),
    ("", "handshake", "write handshake_timeout"),
    ("", "patience", "write end_timeout"),
];

/// A value of TOML as the rows read it.
fn given_of<'a>(value: &'a DeValue<'_>) -> Given<'a> {
    match value {
        DeValue::String(text) => Given::Text(text),
        DeValue::Integer(number) => Given::Integer {
            digits: number.as_str(),
            radix: number.radix(),
            shown: number.to_string(),
        },
        DeValue::Boolean(flag) => Given::Flag(*flag),
        DeValue::Float(number) => Given::Other(number.to_string()),
        DeValue::Datetime(time) => Given::Other(time.to_string()),
        DeValue::Array(list) => {
            let elements = list.iter();
            Given::List(
                elements
                    .map(|element| (given_of(element.get_ref()), element.span()))
                    .collect(),
            )
        }
        DeValue::Table(_) => Given::Table,
    }
}

/// A value as an error repeats it.
pub(crate) fn describe(value: &DeValue<'_>) -> String {
    given_of(value).describe()
}

/// One table.
pub(crate) struct Reader<'a> {
    pub(crate) places: Places,
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

    /// Sets every option that is given of a struct and of those below it, and notes those that have to be given and are
    /// not.
    pub(crate) fn fill(&mut self, options: &mut dyn Options) {
        options.visit_mut(&mut |part| self.fill_part(part));
    }

    fn fill_part(&mut self, options: &mut dyn Options) {
        for row in options.rows().iter().filter(|row| self.places.section.has(row)) {
            let Some(value) = self.given(row.name) else {
                // Of a command's options, the command line may give what the file does not.
                if row.is_required && !self.places.section.name.is_empty() {
                    self.missing(row);
                }
                continue;
            };
            if is_by_hand(row) {
                continue;
            }
            let read = self.read(row, value);
            if let Err(wrong) = read.and_then(|value| options.set(row.name, value)) {
                self.note(row, value, wrong);
            }
        }
    }

    /// The value of an option that is given and sound.
    fn value(&self, name: &str) -> Option<Value> {
        let row = self.places.section.row(name)?;
        self.read(row, self.given(name)?).ok()
    }

    fn read(&self, row: &Row, value: &Spanned<DeValue<'_>>) -> Result<Value, Wrong> {
        let accounts = |name: &str, is_group: bool| match is_group {
            true => self.context.group(name),
            false => self.context.user(name),
        };
        let given = match (given_of(value.get_ref()), &row.kind) {
            // Files of commands are read where the command runs, so that their paths may be relative.
            (Given::Text(path), Kind::Path(_)) if self.places.section.name.is_empty() && !path.is_empty() => {
                Given::Bare(path)
            }
            (given, _) => given,
        };
        row.read(&given, &accounts)
    }

    fn missing(&mut self, row: &Row) {
        let found = format!("`{}` is missing", row.name);
        let problem = self.places.problem_of_all(found).allowed(row.allowed());
        let help = format!("add a line such as {} = {}", row.name, row.example);
        self.findings.add_if_whole(problem.help(help));
    }

    /// Notes what is wrong with a value, with the word that was probably meant.
    fn note(&mut self, row: &Row, value: &Spanned<DeValue<'_>>, wrong: Wrong) {
        let mut problem = self.places.problem(row.name, wrong.found).allowed(row.allowed());
        let written = value.get_ref().as_str();
        let meant = match (&wrong.meant, written) {
            (Some(meant), _) => {
                let is_known = wrong.candidates.iter().find(|word| *word == meant).copied();
                is_known.or_else(|| most_similar(meant, wrong.candidates))
            }
            (None, Some(text)) => most_similar(text, row.suggestions()),
            (None, None) => None,
        };
        let meant = meant.map(|word| format!("did you mean \"{word}\"?"));
        problem.help = wrong.help.or(meant);
        problem.span = wrong.span.or(problem.span);
        self.findings.add(problem);
    }

    fn given(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let mut entries = self.table.into_iter().flatten();
        entries.find_map(|(key, value)| (key.get_ref() == name).then_some(value))
    }

    fn find_unknown_keys(&mut self) {
        let prefix = format!("{}.", self.places.section.name);
        let below: Vec<(&str, &Section)> = SECTIONS
            .into_iter()
            .filter_map(|other| Some((other.name.strip_prefix(&prefix)?, other)))
            .collect();
        let rows = self.places.section.rows();
        let names = rows.iter().map(|row| row.name);
        let names: Vec<&str> = names.chain(below.iter().map(|(name, _)| *name)).collect();
        let keys = rows.iter().map(|row| row.name.to_owned());
        let tables = below.iter().map(|(_, section)| section.header());
        let listed: Vec<String> = keys.chain(tables).collect();
        let allowed = match self.places.section.name {
            "" => listed.join(", "),
            _ => format!("in {}: {}", self.places.section.header(), listed.join(", ")),
        };
        for key in self.table.into_iter().flat_map(|table| table.keys()) {
            let name = key.get_ref().as_ref();
            if names.contains(&name) {
                continue;
            }
            let title = self.places.section.title(name);
            let problem = Problem::at(key.span(), title, "there is no such key").allowed(allowed.clone());
            let home = SECTIONS.into_iter().find(|section| section.row(name).is_some());
            let home = home.filter(|_| !self.places.section.name.is_empty());
            let renamed = RENAMED
                .iter()
                .find(|(table, old, _)| (*table, *old) == (self.places.section.name, name));
            let similar = most_similar(name, names.iter().copied());
            self.findings.add(match (renamed, similar, home) {
                (Some((.., advice)), _, _) => problem.help(*advice),
                (None, Some(meant), _) => problem.help(format!("did you mean `{meant}`?")),
                (None, None, Some(section)) => {
                    problem.help(format!("`{name}` belongs into {}", section.header()))
                }
                (None, None, None) => problem,
            });
        }
    }

    /// Reads addresses of collectors. Empty when they are not given or wrong, which has been noted.
    pub(crate) fn addresses(&mut self, name: &str, is_backup: bool) -> Vec<MemberOptions> {
        let Some(value) = self.given(name) else {
            return Vec::new();
        };
        let wrong = match members::read(value, is_backup) {
            Ok(members) if !members.is_empty() => return members,
            Ok(_) => Wrong::new("these are 0 addresses"),
            Err((span, found)) => Wrong::new(found).at(&span),
        };
        if let Some(row) = self.places.section.row(name) {
            self.note(row, value, wrong);
        }
        Vec::new()
    }

    /// Notes names of sinks that are not there.
    pub(crate) fn check_sinks(&mut self, name: &str, known: &[&str]) {
        let Some(Value::Names(names)) = self.value(name) else {
            return;
        };
        for (sink, span) in names {
            if known.contains(&sink.as_str()) {
                continue;
            }
            let mut problem = self.places.problem(name, format!("there is no sink \"{sink}\""));
            if !span.is_empty() {
                problem.span = Some(span);
            }
            if let Some(meant) = most_similar(&sink, known.iter().copied()) {
                problem = problem.help(format!("did you mean \"{meant}\"?"));
            }
            let known: Vec<String> = known.iter().map(|name| quoted(name)).collect();
            self.wrong_if_whole(problem.allowed(one_of(&known)));
        }
    }

    /// Notes options that are given but mean nothing, with the reason.
    pub(crate) fn refuse(&mut self, rows: &[Row], why: &str) {
        for row in rows.iter().filter(|row| self.places.section.has(row)) {
            if self.places.has(row.name) {
                let found = format!("means nothing {why}");
                let problem = self.places.problem(row.name, found);
                self.findings.add(problem.help("take it out"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sections::Without;
    use super::*;
    use crate::config::testing::Island;
    use logdrive_drain::schema::set;

    #[test]
    fn every_default_and_example_of_the_tables_can_be_read() {
        for section in SECTIONS {
            let rows = section.rows().into_iter().filter(|row| !is_by_hand(row));
            let texts = rows.map(|row| match section.without(row) {
                Without::Required(text) | Without::Unset(_, text) => (row.name, text.to_owned()),
                Without::Default(text) => (row.name, text),
            });
            let shown = section
                .shown
                .iter()
                .map(|(name, text)| (*name, (*text).to_owned()));
            for (name, text) in shown.chain(texts) {
                let row = section.row(name).unwrap_or_else(|| panic!("{name}"));
                let given = DeValue::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                let accounts = |name: &str, is_group: bool| match is_group {
                    true => Island.group(name),
                    false => Island.user(name),
                };
                let read = row.read(&given_of(given.get_ref()), &accounts);
                let mut options = (section.options)();
                let set = read.and_then(|value| set(&mut *options, name, &value));
                assert!(set.is_ok(), "{}.{name} = {text}: {set:?}", section.name);
            }
        }
    }
}
