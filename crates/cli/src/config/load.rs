//! A configuration file: who may have written it, what stands in it, and what is wrong with either.

use super::checks::open_ancestor;
use super::context::Machine;
use super::parse::parse;
use super::problem::{self, Problem};
use crate::error::CliError;
use crate::limits::CONFIG_BYTES_MAX;
use crate::paint::{ColorChoice, Paint};
use logdrive_agent::config::AgentConfig;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Default place of the agent's configuration.
pub(crate) const DEFAULT_PATH: &str = "/etc/logdrive/logdrive.toml";

/// A configuration that is sound.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The configuration.
    pub(crate) config: AgentConfig,
    /// Notes on what works but may not be what was meant.
    pub(crate) notes: Vec<String>,
}

/// A configuration that is refused.
#[derive(Debug)]
pub(crate) struct Refused {
    name: String,
    text: String,
    /// Everything that is wrong with it.
    pub(crate) problems: Vec<Problem>,
}

impl Refused {
    /// All that is wrong, each with its line, for a terminal or a log.
    pub(crate) fn report(&self, paint: Paint) -> String {
        problem::report(&self.problems, &self.name, &self.text, paint)
    }
}

/// For whom a file is read, which decides about files that neither root nor we own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// For the agent, which is us: such a file is refused.
    ToObey,
    /// To check it, for an agent that may run as another user: that is noted.
    ToCheck,
}

/// Reads and checks a configuration; `-` is standard input.
///
/// # Errors
/// When there is no reading it. What is wrong with its text is in the answer.
pub(crate) fn load(path: &Path, reading: Reading) -> Result<Result<Loaded, Refused>, CliError> {
    let cannot_read = |cause: io::Error| match cause.kind() {
        io::ErrorKind::NotFound => CliError::NoFile {
            path: path.to_owned(),
            hint: format!("`logdrive config init > {}` makes one", path.display()),
        },
        _ => CliError::Read {
            path: path.to_owned(),
            cause,
        },
    };
    let is_stdin = path.as_os_str() == "-";
    let mut notes = Vec::new();
    let (bytes, mut problems) = if is_stdin {
        (bounded(io::stdin().lock()).map_err(cannot_read)?, Vec::new())
    } else {
        let file = File::open(path).map_err(cannot_read)?;
        let metadata = file.metadata().map_err(cannot_read)?;
        if metadata.is_dir() {
            return Err(CliError::Directory {
                path: path.to_owned(),
            });
        }
        let problems = writers(path, metadata.mode(), metadata.uid(), reading, &mut notes);
        (bounded(file).map_err(cannot_read)?, problems)
    };
    let name = if is_stdin {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    let text = read_text(bytes, &mut problems);
    Ok(match parse(&text, &Machine) {
        Ok(config) if problems.is_empty() => {
            notes.extend(config.notes());
            Ok(Loaded { config, notes })
        }
        found => {
            problems.extend(found.err().unwrap_or_default());
            Err(Refused { name, text, problems })
        }
    })
}

/// Reads the configuration of a command, which is its user's own. `None` when it is wrong, which has been said.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn load_flat<T>(
    path: &Path,
    color: ColorChoice,
    parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
) -> Result<Option<T>, CliError> {
    let file = File::open(path).map_err(|cause| CliError::Open {
        path: path.to_owned(),
        cause,
    })?;
    let bytes = bounded(file).map_err(|cause| CliError::Read {
        path: path.to_owned(),
        cause,
    })?;
    let mut problems = Vec::new();
    let text = read_text(bytes, &mut problems);
    match parse(&text) {
        Ok(found) if problems.is_empty() => Ok(Some(found)),
        found => {
            problems.extend(found.err().unwrap_or_default());
            let name = path.display().to_string();
            let shown = problem::report(&problems, &name, &text, color.for_stderr());
            // Without standard error the exit status reports it.
            let _ = io::stderr().write_all(shown.as_bytes());
            Ok(None)
        }
    }
}

/// As much as a configuration may have, and one byte more.
fn bounded(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text; empty, with a problem, where it is none.
fn read_text(bytes: Vec<u8>, problems: &mut Vec<Problem>) -> String {
    if u64::try_from(bytes.len()).is_ok_and(|bytes| bytes > CONFIG_BYTES_MAX) {
        let found = format!("the file is larger than {CONFIG_BYTES_MAX} bytes");
        problems.push(Problem::of_file(found).help("is it a configuration?"));
        return String::new();
    }
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let line = error.as_bytes().get(..at).unwrap_or_default();
            let line = line.iter().filter(|byte| **byte == b'\n').count() + 1;
            let found = format!("line {line} is not UTF-8");
            problems.push(Problem::of_file(found).help("save the file as UTF-8"));
            String::new()
        }
    }
}

/// Other users that could write the file: they could make the agent write anywhere.
fn writers(path: &Path, mode: u32, owner: u32, reading: Reading, notes: &mut Vec<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let shown = path.display();
    if mode & 0o002 != 0 {
        let found = format!("everybody may write to the file (mode {:04o})", mode & 0o7777);
        problems.push(Problem::of_file(found).help(format!("chmod o-w {shown}")));
    }
    if mode & 0o020 != 0 {
        notes.push(format!(
            "the file's group may write to it: chmod g-w {shown} unless that is meant"
        ));
    }
    let user = rustix::process::geteuid().as_raw();
    if owner != 0 && owner != user {
        let found = format!("the file belongs to user {owner}, and not to root or to user {user}");
        match reading {
            Reading::ToObey => problems.push(Problem::of_file(found).help(format!("chown root {shown}"))),
            Reading::ToCheck => notes.push(format!("{found}: an agent of another user refuses it")),
        }
    }
    let full = std::fs::canonicalize(path).ok();
    if let Some(found) = full
        .as_deref()
        .and_then(Path::parent)
        .and_then(|dir| open_ancestor(dir, &Machine))
    {
        problems
            .push(Problem::of_file(found).help("move the file, or take the right to write from the others"));
    }
    problems
}
