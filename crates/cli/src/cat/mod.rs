//! `logdrive cat`: log files merged by time, filtered and coloured.
//!
//! Bytes go from [`input`] through [`source`], which groups lines to records and asks the [`filter`], to [`merge`] and
//! on to [`mod@print`]. Until a record has to be taken apart ([`record`]), it is a place in a chunk of its file.

mod compose;
mod filter;
mod head;
mod input;
mod json;
mod last;
mod lines;
mod merge;
mod pairs;
mod print;
mod record;
mod siblings;
mod source;
mod text;

pub(crate) use filter::Condition;
pub(crate) use lines::{Format, Lines};

use crate::args::{CatArgs, FilterArgs};
use crate::error::CliError;
use crate::limits::{CHUNK_BYTES, CHUNK_BYTES_MIN, CHUNKS_BYTES_MAX, FILES_MAX};
use crate::output::Output;
use crate::paint::{ColorChoice, Style};
use filter::{Filter, Needle};
use input::Input;
use last::Last;
use print::{PrintOptions, Printer, Shape};
use siblings::LogPart;
use source::{Source, SourceOptions};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Runs the command. `false` when something could not be read, which has been said.
pub(crate) fn run(args: &CatArgs, color: ColorChoice) -> Result<bool, CliError> {
    let filter = filter_of(&args.filters, args.since, args.until);
    let mut printer = Printer::new(print_options(args, color), Output::stdout()?, color.for_stderr());
    let mut sources = open_sources(args, &mut printer)?;
    match args.lines {
        None if args.no_merge => merge::chain(&mut sources, &filter, &mut printer)?,
        None => merge::merge(&mut sources, &filter, &mut printer)?,
        Some(count) => {
            let mut last = Last::new(count as usize, &mut printer);
            match args.no_merge {
                true => merge::chain(&mut sources, &filter, &mut last)?,
                false => merge::merge(&mut sources, &filter, &mut last)?,
            }
            last.print()?;
        }
    }
    printer.finish()?;
    if filter.asks_for_records() {
        warn_of_foreign(&sources, &printer);
    }
    Ok(!printer.has_failed)
}

fn filter_of(args: &FilterArgs, since_ns: Option<u64>, until_ns: Option<u64>) -> Filter {
    let needles = |texts: &[String]| {
        texts
            .iter()
            .map(|text| Needle::new(text, args.ignore_case))
            .collect()
    };
    Filter {
        level: args.level,
        since_ns,
        until_ns,
        wanted: needles(&args.grep),
        unwanted: needles(&args.exclude),
        modules: args.module.clone(),
        threads: args.thread.clone(),
        conditions: args.field.clone(),
    }
}

fn print_options(args: &CatArgs, color: ColorChoice) -> PrintOptions {
    let paint = color.for_stdout();
    PrintOptions {
        shape: match (args.json, args.text) {
            (true, _) => Shape::Json,
            (_, true) => Shape::Text,
            _ => Shape::AsIs,
        },
        paint,
        safe: paint.on || std::io::stdout().is_terminal(),
        with_name: args.with_filename,
        marked: marked(&args.filters),
    }
}

/// What is marked where it is found.
fn marked(args: &FilterArgs) -> Vec<Needle> {
    let texts = args.grep.iter();
    texts.map(|text| Needle::new(text, args.ignore_case)).collect()
}

/// One source for each file, or with `--all` for each log. What cannot be found is told, and the rest goes on.
fn open_sources(args: &CatArgs, printer: &mut Printer) -> Result<Vec<Source>, CliError> {
    let mut files = args.files.clone();
    if files.is_empty() {
        if std::io::stdin().is_terminal() {
            return Err(CliError::NothingToRead);
        }
        files.push(PathBuf::from("-"));
    }
    let mut logs = Vec::new();
    for path in &files {
        match logs_of(path, args.all) {
            Ok(found) => logs.extend(found),
            Err(error) => merge::Sink::failed(printer, error)?,
        }
    }
    if logs.len() > FILES_MAX {
        return Err(CliError::TooManyFiles {
            count: logs.len(),
            limit: FILES_MAX,
        });
    }
    let options = SourceOptions {
        chunk_bytes: (CHUNKS_BYTES_MAX / logs.len().max(1)).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES),
        keep_order: args.no_merge,
    };
    let source = |(name, parts)| Source::new(name, Input::new(parts), options);
    Ok(logs.into_iter().map(source).collect())
}

/// The logs that a name on the command line means, each with its own name.
fn logs_of(path: &Path, all: bool) -> Result<Vec<(String, Vec<LogPart>)>, CliError> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    if !is_stdin && !all && !path.exists() && std::fs::symlink_metadata(path).is_err_and(is_not_found) {
        return Err(CliError::NoFile {
            path: path.to_owned(),
            hint: siblings::hint(path),
        });
    }
    if is_stdin || !all {
        return Ok(vec![(name, vec![LogPart::alone(path.to_owned())])]);
    }
    let name_of = |parts: &[LogPart]| {
        parts
            .last()
            .map_or(name.clone(), |part| part.path.display().to_string())
    };
    Ok(siblings::all_of(path)?
        .into_iter()
        .map(|parts| (name_of(&parts), parts))
        .collect())
}

fn is_not_found(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

fn warn_of_foreign(sources: &[Source], printer: &Printer) {
    for source in sources.iter().filter(|source| source.has_no_records()) {
        // Where a warning cannot be printed there is nobody to warn.
        let _ = writeln!(
            std::io::stderr(),
            "{} {}: no line of it begins with a time, so no filter but --grep and --exclude can pass any",
            printer.stderr.the(Style::Doubt, "warning:"),
            source.name
        );
    }
}
