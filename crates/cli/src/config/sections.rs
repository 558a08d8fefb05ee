//! The tables of the agent's configuration. Their options are rows of the structs that they are read into; here stands the
//! order of the tables, and the text that is about whole tables.

use logdrive_agent::config::limits::{ROUTES_MAX, RULES_MAX, SINKS_MAX};
use logdrive_agent::config::{
    AgentConfig, AppLimit, AppPattern, LevelRule, Limits, ProcessSelector, Quota, Recorder, Route,
    SinkConfig, UserLimit,
};
use logdrive_drain::schema::{FILE, Kind, Options, Row, Value, parts, set};
use logdrive_drain::ship::ShipOptions;

/// A table of a file, `[name]` or `[[name]]`.
pub(crate) struct Section {
    /// Name with dots: `limits.user`. Empty for a file without tables.
    pub(crate) name: &'static str,
    /// Most tables of this name, where there may be several.
    pub(crate) many: Option<usize>,
    /// Help: paragraphs.
    pub(crate) help: &'static [&'static str],
    /// The options that the table is read into, with their defaults.
    pub(crate) options: fn() -> Box<dyn Options>,
    /// Options of those structs that the table does not have.
    pub(crate) skip: &'static [&'static str],
    /// Values that the commented default shows where they are not the defaults.
    pub(crate) shown: &'static [(&'static str, &'static str)],
    /// The commented default has the table as a comment only.
    pub(crate) is_example: bool,
    /// Options that a summary shows although they have their defaults.
    pub(crate) summary: &'static [&'static str],
}

/// A table without a name or options.
pub(crate) const BARE: Section = Section {
    name: "",
    many: None,
    help: &[],
    options: || Box::new(Quota::default()),
    skip: &[],
    shown: &[],
    is_example: false,
    summary: &[],
};

/// An option that is not given.
pub(crate) enum Without {
    /// It has to be given; an example.
    Required(&'static str),
    /// This value holds, as TOML.
    Default(String),
    /// These words say what holds; an example.
    Unset(&'static str, &'static str),
}

impl Section {
    /// Rows of the options, in the order in which they are shown.
    pub(crate) fn rows(&self) -> Vec<&'static Row> {
        let options = (self.options)();
        let rows = parts(&*options).into_iter().flat_map(|part| part.rows());
        rows.filter(|row| self.has(row)).collect()
    }

    /// The table has an option of one of its structs.
    pub(crate) fn has(&self, row: &Row) -> bool {
        row.scope & FILE != 0 && !self.skip.contains(&row.name)
    }

    /// Row of a name.
    pub(crate) fn row(&self, name: &str) -> Option<&'static Row> {
        self.rows().into_iter().find(|row| row.name == name)
    }

    /// Consequence of leaving an option out.
    pub(crate) fn without(&self, row: &Row) -> Without {
        if row.is_required {
            return Without::Required(row.example);
        }
        match value_of(&*(self.options)(), row.name) {
            Some(Value::Path(path)) if path.as_os_str().is_empty() => {
                Without::Unset(row.without, row.example)
            }
            Some(value) => Without::Default(row.show(&value)),
            None if row.off => Without::Default("\"off\"".to_owned()),
            None => Without::Unset(row.without, row.example),
        }
    }

    /// Header as it stands in a file: `[agent]`, `[[sink]]`.
    pub(crate) fn header(&self) -> String {
        match self.many {
            Some(_) => format!("[[{}]]", self.name),
            None => format!("[{}]", self.name),
        }
    }

    /// Name of an option with its table, for errors.
    pub(crate) fn title(&self, key: &str) -> String {
        match self.name {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }
}

/// The value of an option of a struct, or of one below it.
pub(crate) fn value_of(options: &dyn Options, name: &str) -> Option<Value> {
    parts(options).into_iter().find_map(|part| part.value(name))
}

/// An argument of a command that is an option, if it is given.
pub(crate) type Argument = (&'static str, Option<Value>);

/// Sets the options that are given as arguments. Each is one of the struct, of its type.
pub(crate) fn put_arguments(options: &mut dyn Options, arguments: impl IntoIterator<Item = Argument>) {
    for (name, value) in arguments {
        let set = value.map_or(Ok(()), |value| set(options, name, &value));
        debug_assert_eq!(set, Ok(()), "{name}");
    }
}

/// An option that is read by hand, since it is a list of tables.
pub(crate) fn is_by_hand(row: &Row) -> bool {
    matches!(row.kind, Kind::Tables(_))
}

/// All tables, in the order in which they are shown.
pub(crate) static SECTIONS: [&Section; 10] = [
    &AGENT, &SINK, &SHIP, &ROUTE, &TOTAL, &PROCESS, &USER, &APP, &RECORDER, &LEVEL,
];

/// First words of the commented default.
pub(crate) const ABOUT_DEFAULT: &str = "The configuration of `logdrive agent`, in TOML. Each key stands here with what holds without it; a key that is \
     commented out has no value unless it is given. An empty file means the same as this one.";

/// First words of the manual page.
pub(crate) const ABOUT_PAGE: &str = "The configuration of `logdrive agent`, in TOML. Each key stands here with what holds without it. An empty file \
     is a sound configuration, and `logdrive config init` prints one with all keys and defaults.";

/// Paragraphs about the whole file.
pub(crate) const ABOUT: [&str; 2] = [
    "Sizes are \"64 MiB\" (1024 * 1024 bytes each), \"64 MB\" (1000 * 1000) or a number of bytes; times are \"200ms\", \
     \"10s\", \"10m\", \"1h 30m\" or \"7d\"; levels are trace, debug, info, warn, error and fatal; permissions are \
     octal, as \"0640\" or 0o640.",
    "`logdrive config check FILE` tells all that is wrong with a file. The agent reads the file again on SIGHUP and \
     goes on with what it had when the new one is wrong.",
];

pub(super) static AGENT: Section = Section {
    name: "agent",
    help: &[
        "Where the agent is found. What stands in this table holds from the next start on, but for `metrics`, \
         `connections` and `idle_timeout`, which a reload changes.",
    ],
    options: || Box::new(AgentConfig::default()),
    is_example: false,
    summary: &["socket", "mode", "run_dir", "metrics"],
    ..BARE
};

pub(super) static SINK: Section = Section {
    name: "sink",
    many: Some(SINKS_MAX),
    help: &[
        "Where lines go. Each sink has a thread and buffers of its own, so that one that hangs or is full holds up no \
         other. Without any, there is the one that follows.",
        "A directory of log files belongs to one agent; another one that is to write there is refused. A reload opens new \
         sinks, and changes `layout`, `min_level`, `overflow`, `flush_every` and `flush_level` of open ones; all else of \
         them holds from the next start on.",
    ],
    options: || Box::new(SinkConfig::file("", "")),
    shown: &[("name", "\"main\""), ("path", "\"/var/log/logdrive/{app}.log\"")],
    is_example: false,
    summary: &[
        "name",
        "layout",
        "min_level",
        "overflow",
        "path",
        "rotate_bytes",
        "keep_files",
        "compress",
    ],
    ..BARE
};

pub(super) static SHIP: Section = Section {
    name: "ship",
    many: Some(SINKS_MAX),
    help: &[
        "Collectors (`logdrive collect`) that records are sent to. Each is a sink that routes may name. A record is in the \
         collector's log once, whatever is restarted, cut or killed on the way: what the collector has not acknowledged \
         stays in the agent's buffers or in the spool, and is sent again.",
        "A reload opens new ones, and changes `to`, `backup`, `layout`, `min_level`, `overflow`, `flush_every` and \
         `flush_level` of open ones; all else of them holds from the next start on.",
    ],
    options: || Box::new(SinkConfig::ship("", ShipOptions::new(Vec::new()))),
    skip: &["type", "sync"],
    shown: &[("name", "\"central\"")],
    is_example: true,
    summary: &["name", "to", "layout", "min_level", "overflow"],
};

pub(super) static ROUTE: Section = Section {
    name: "route",
    many: Some(ROUTES_MAX),
    help: &[
        "Which records go to which sinks. Routes are tried in their order; the first that matches decides, unless it \
         has `continue`. All conditions of a route have to hold. A record goes to a sink once, however many routes \
         name it.",
        "Records that no route matches are dropped and counted: end with a route that has nothing but sinks. Without \
         any route, all records go to all sinks.",
    ],
    options: || Box::new(Route::to_all(&[])),
    is_example: false,
    summary: &["app", "user", "module", "level", "sinks", "continue"],
    ..BARE
};

pub(super) static TOTAL: Section = Section {
    name: "limits",
    help: &[
        "What processes may take. All limits that apply to a process hold at once: those for all together, for each \
         process, for its user and for its application.",
        "This table is for all processes together.",
    ],
    options: || Box::new(Limits::default().total),
    is_example: false,
    summary: &["processes", "rings", "memory_bytes"],
    ..BARE
};

pub(super) static PROCESS: Section = Section {
    name: "limits.process",
    help: &["For each process, which has at most 4096 rings."],
    options: || Box::new(Limits::default().process),
    skip: &["processes"],
    is_example: false,
    summary: &["rings", "memory_bytes"],
    ..BARE
};

pub(super) static USER: Section = Section {
    name: "limits.user",
    many: Some(RULES_MAX),
    help: &[
        "For all processes of a user together. The first that matches is the one, so \"*\" comes last. Without any, \
         there is the one that follows.",
    ],
    options: || {
        Box::new(UserLimit {
            user: None,
            quota: Quota::default(),
        })
    },
    shown: &[
        ("processes", "256"),
        ("rings", "4096"),
        ("memory_bytes", "\"4 GiB\""),
    ],
    is_example: false,
    summary: &["user", "processes", "rings", "memory_bytes"],
    ..BARE
};

pub(super) static APP: Section = Section {
    name: "limits.app",
    many: Some(RULES_MAX),
    help: &[
        "For all processes of one application together. The first that matches is the one; each name that a pattern \
         matches is an application of its own.",
    ],
    options: || {
        Box::new(AppLimit {
            app: AppPattern::any(),
            quota: Quota::default(),
        })
    },
    shown: &[("records_per_second", "100000")],
    is_example: true,
    summary: &["app"],
    ..BARE
};

pub(super) static RECORDER: Section = Section {
    name: "recorder",
    many: Some(RULES_MAX),
    help: &[
        "Flight recorders: what no sink takes because of its level, or no route because of its, is kept in memory, in \
         binary and without formatting. When something happens, what was kept of the last time is written. So debug \
         records cost the disk nothing until they are needed. The records have to be on: see [[level]], and the \
         program's own filter.",
        "The memory is the agent's, one for each process, as large as the largest of its recorders; it does not outlive the \
         agent. The first recorder that matches a process and a module is the one. `logdrive dump APP` has it written at any time.",
    ],
    options: || Box::new(Recorder::new()),
    shown: &[("app", "\"shop\"")],
    is_example: true,
    summary: &["app", "level", "keep_bytes", "before", "on_level", "on_crash"],
    ..BARE
};

pub(super) static LEVEL: Section = Section {
    name: "level",
    many: Some(RULES_MAX),
    help: &[
        "The levels that processes begin with, until somebody changes them with `logdrive level`. The first that \
         matches a process is the one; a process that none matches logs what it chose itself. A level here can also \
         raise what the program chose.",
    ],
    options: || {
        Box::new(LevelRule {
            processes: ProcessSelector::anyone(),
            rules: Vec::new(),
        })
    },
    shown: &[("app", "\"shop*\"")],
    is_example: true,
    summary: &["app", "rules"],
    ..BARE
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_there_once_and_every_help_is_a_sentence() {
        let names: BTreeSet<&str> = SECTIONS.iter().map(|section| section.name).collect();
        assert_eq!(names.len(), SECTIONS.len());
        for section in SECTIONS {
            let rows = section.rows();
            let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), rows.len(), "{}", section.name);
            for help in rows
                .iter()
                .map(|row| row.help())
                .chain(section.help.iter().copied())
            {
                let first = help.chars().next().is_some_and(|c| !c.is_lowercase());
                assert!(first && help.ends_with('.'), "{}: {help}", section.name);
            }
            for (name, _) in section.shown {
                assert!(section.row(name).is_some(), "{}: {name}", section.name);
            }
        }
    }
}
