//! `logdrive cat`: log files merged by time, filtered and coloured.
//!
//! The reader (`logdrive_reader`) parses, filters and merges; [`mod@print`] puts its records on standard output.

mod around;
pub(crate) mod lines;
mod print;
mod qlog;

use crate::args::{CatArgs, CatFormat};
use crate::error::CliError;
use crate::limits::THREADED_LOGS_MAX;
use crate::output::{Output, titled_note};
use crate::pager::Pager;
use crate::paint::{ColorChoice, Style};
use crate::suggestion::most_similar;
use crate::tail::files::{self, FileArgs};
use around::Around;
use logdrive_drain::layout::Style as SegmentStyle;
use logdrive_reader::{
    DIRECTORY_ENTRIES_MAX, FILES_MAX, Filter, Input, Last, LineFilter, LogFile, Shape, Sink, Source,
    SourceOptions, chain, chunk_bytes, log_files, merge,
};
pub(crate) use print::Shaper;
use print::{PrintOptions, Printer};
use qlog::QlogPrinter;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Runs the command. `false` when something could not be read, which has been said.
pub(crate) fn run(args: &CatArgs, color: ColorChoice) -> Result<bool, CliError> {
    if args.follow {
        return files::follow(&FileArgs::of_cat(args)?, color).map(|()| true);
    }
    // Before standard output is the pager's: colours and escapes are those of the terminal.
    let options = print_options(args, color);
    let pager = match args.no_pager {
        true => None,
        false => Pager::start(),
    };
    let printed = print_all(args, options, color);
    if let Some(pager) = pager {
        pager.finish();
    }
    printed
}

fn print_all(args: &CatArgs, options: PrintOptions, color: ColorChoice) -> Result<bool, CliError> {
    let filter = args.filters.filter(args.times.since_ns(), args.times.until_ns());
    let mut printer = Printer::new(options, Output::stdout()?, color.for_stderr());
    let mut sources = open_sources(args, &mut printer)?;
    let (before, behind) = args.around.records();
    if args.format() == Some(CatFormat::Qlog) {
        let mut trace = QlogPrinter::new(&mut printer);
        read(args, &mut sources, &filter, &mut trace)?;
        trace.finish();
    } else if before + behind > 0 {
        let mut around = Around::new(LineFilter::new(filter.clone()), before, behind, &mut printer);
        match args.no_merge {
            true => chain(&mut sources, &Filter::default(), &mut around)?,
            false => merge(&mut sources, &Filter::default(), &mut around)?,
        }
    } else {
        start_threads(args, &mut sources, &filter, &printer);
        read(args, &mut sources, &filter, &mut printer)?;
    }
    printer.finish()?;
    if filter.asks_for_records() {
        warn_of_foreign(&sources, &printer);
    }
    Ok(!printer.has_failed)
}

/// Gives the records that pass the filter to a sink.
fn read<S: Sink<Error = CliError>>(
    args: &CatArgs,
    sources: &mut [Source],
    filter: &Filter,
    sink: &mut S,
) -> Result<(), CliError> {
    match args.lines {
        None if args.no_merge => chain(sources, filter, sink),
        None => merge(sources, filter, sink),
        Some(count) => {
            let mut last = Last::new(count as usize, sink);
            match args.no_merge {
                true => chain(sources, filter, &mut last)?,
                false => merge(sources, filter, &mut last)?,
            }
            last.finish()
        }
    }
}

/// Lets threads read the logs, where these are few: each has memory of its own.
fn start_threads(args: &CatArgs, sources: &mut [Source], filter: &Filter, printer: &Printer) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match sources.len() {
        1 => cores,
        count @ 2..=THREADED_LOGS_MAX => (cores / count).max(1),
        _ => return,
    };
    let last = args.lines.map(|count| count as usize);
    for source in sources {
        let shapes = printer.shapes(&source.name);
        source.start_threads(filter, threads, shapes.as_ref(), last);
    }
}

fn print_options(args: &CatArgs, color: ColorChoice) -> PrintOptions {
    let paint = color.for_stdout();
    PrintOptions {
        shape: shape(args),
        paint,
        safe: paint.on || std::io::stdout().is_terminal(),
        with_name: args.with_filename,
        marked: args.filters.marked(),
        zone: args.times.zone.asked(),
    }
}

/// Form in which records are printed: without a wish, as they stand.
fn shape(args: &CatArgs) -> Shape {
    match args.format() {
        Some(CatFormat::Text) => Shape::Text,
        Some(CatFormat::Json) => Shape::Json,
        Some(CatFormat::Logfmt) => Shape::Logfmt,
        Some(CatFormat::Qlog) | None => Shape::AsIs,
    }
}

/// One source for each file, or with `--all` for each log. Files that cannot be found are reported, and the rest is
/// read.
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
            Err(error) => printer.fail(&error)?,
        }
    }
    if logs.len() > FILES_MAX {
        return Err(CliError::TooManyFiles {
            count: logs.len(),
            limit: FILES_MAX,
        });
    }
    let options = SourceOptions {
        chunk_bytes: chunk_bytes(logs.len()),
        keep_order: args.no_merge,
    };
    let style = match shape(args) {
        Shape::Json => SegmentStyle::Json,
        Shape::Logfmt => SegmentStyle::Logfmt,
        Shape::AsIs | Shape::Text => SegmentStyle::Text,
    };
    let source = |(name, parts)| Source::new(name, Input::new(parts).style(style.clone()), options);
    Ok(logs.into_iter().map(source).collect())
}

/// The logs that a name on the command line means, each with its own name.
fn logs_of(path: &Path, all: bool) -> Result<Vec<(String, Vec<LogFile>)>, CliError> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    if !is_stdin && !all && !path.exists() && std::fs::symlink_metadata(path).is_err_and(is_not_found) {
        return Err(CliError::NoFile {
            path: path.to_owned(),
            hint: hint(path),
        });
    }
    if is_stdin || !all {
        return Ok(vec![(name, vec![LogFile::alone(path.to_owned())])]);
    }
    let name_of = |parts: &[LogFile]| {
        parts
            .last()
            .map_or(name.clone(), |part| part.path.display().to_string())
    };
    Ok(log_files(path)?
        .into_iter()
        .map(|parts| (name_of(&parts), parts))
        .collect())
}

/// Returns advice about a file that is not there: a name like it, or where to look.
fn hint(path: &Path) -> String {
    let dir = path
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let wanted = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let Ok(entries) = fs::read_dir(dir) else {
        return format!("there is no directory {} either", dir.display());
    };
    let names = entries
        .take(DIRECTORY_ENTRIES_MAX)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names: Vec<String> = names.collect();
    match most_similar(wanted, names.iter().map(String::as_str)) {
        Some(similar) => format!("did you mean {}?", path.with_file_name(similar).display()),
        None => format!("no file in {} has a name like it", dir.display()),
    }
}

fn is_not_found(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

fn warn_of_foreign(sources: &[Source], printer: &Printer) {
    for source in sources.iter().filter(|source| source.has_no_records()) {
        let text = format_args!(
            "{}: no line of it begins with a time, so no filter but --query, --field, --grep and --exclude can pass any",
            source.name
        );
        titled_note(printer.stderr, Style::Warning, "warning", text);
    }
}
