//! `logdrive run`: a command whose output is kept as records.

use crate::output::titled_note;
use crate::paint::{ColorChoice, Style};
use crate::run_args::{Format, Full, RunArgs};
use crate::table::count_text;
use logdrive_agent::capture::stream::StreamEnd;
use logdrive_agent::supervisor::{
    CommandError, CommandOptions, CommandOutcome, DestinationOptions, name_of, run as run_command,
};
use logdrive_drain::file::{Compress, FileOptions};
use logdrive_drain::layout::{LayoutOptions, Style as Layout};
use logdrive_drain::{BackendOptions, Overflow, SinkOptions, Stopped, Target};
use logdrive_ring::{FullPolicy, file_part};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the command and ends as it has ended. Comes back where a status says it, and not a signal.
pub(crate) fn run(args: &RunArgs, color: ColorChoice) -> ExitCode {
    let options = options(args);
    match run_command(&options) {
        Ok(ended) => {
            report_losses(&ended, &options, color);
            ended.how.pass_on();
            ExitCode::from(ended.how.exit_code())
        }
        Err(error) => {
            report_error(&error.to_string(), color);
            ExitCode::from(CommandError::exit_code(&error))
        }
    }
}

fn report_error(text: &str, color: ColorChoice) {
    titled_note(color.for_stderr(), Style::Bad, "error", text);
}

fn options(args: &RunArgs) -> CommandOptions {
    let mut words = args.command.iter().cloned();
    let program = words.next().unwrap_or_default();
    let name = args.name.clone().unwrap_or_else(|| name_of(&program));
    let mut backend = BackendOptions::new(&name);
    backend.run_dir = args.run_dir.clone();
    backend.sinks = vec![sink(args, &name)];
    let destination = if args.no_agent {
        DestinationOptions::Embedded(backend)
    } else {
        DestinationOptions::PrivateAgent(backend)
    };
    let mut options = CommandOptions::new(program, words.collect(), destination);
    options.name = name;
    options.full = match args.full {
        Full::Block => FullPolicy::Block,
        Full::Wait => FullPolicy::Wait,
        Full::Drop => FullPolicy::Drop,
    };
    options.min_level = args.level;
    options.stderr_level = args.stderr_level;
    options.parse = !args.no_parse;
    options.fields = args.format != Format::Plain;
    options.keep_ansi = args.keep_ansi;
    options.tee = args.tee;
    options.stderr_only = args.stderr_only;
    options.pty = args.pty;
    options.wait_output = args.wait_output;
    // Among lines as they were printed, what we say would pass for the command's own words.
    options.events = args.format != Format::Plain;
    options
}

fn sink(args: &RunArgs, name: &str) -> SinkOptions {
    let path = args.log.clone();
    let ending = match args.format {
        Format::Segments => "segment",
        _ => "log",
    };
    let path = path.unwrap_or_else(|| PathBuf::from(format!("{}.{ending}", file_part(name))));
    let mut file = FileOptions::new(path);
    file.rotate_bytes = args.rotate_size;
    file.keep_files = args.keep;
    file.compress = match args.keep {
        Some(_) => Compress::Zstd,
        None => Compress::None,
    };
    let mut sink = SinkOptions::new(Target::File(file));
    sink.layout = match args.format {
        Format::Text => Layout::Text.into(),
        Format::Json => Layout::Json.into(),
        Format::Logfmt => Layout::Logfmt.into(),
        Format::Glog => LayoutOptions::glog(),
        Format::Segments => Layout::Segments.into(),
        Format::Plain => Layout::Pattern("{message}{fields}".to_owned()).into(),
    };
    sink.overflow = match args.full {
        Full::Block => Overflow::Hold,
        Full::Wait | Full::Drop => Overflow::Drop,
    };
    sink
}

/// Reports what did not get into the log. The log itself says it too, where it can.
fn report_losses(ended: &CommandOutcome, options: &CommandOptions, color: ColorChoice) {
    for (output, end) in &ended.outputs {
        if let StreamEnd::Failed(cause) = end {
            report_error(
                &format!("cannot go on with {output}: {cause}; its rest is lost"),
                color,
            );
        }
    }
    let by_sinks: u64 = ended.stats.sinks.iter().map(|sink| sink.dropped()).sum();
    let lost = ended.stats.dropped_calls().saturating_add(by_sinks);
    if lost > 0 {
        report_error(
            &format!(
                "{} lines were left out because the log was too slow; --full block holds the command up instead",
                count_text(lost)
            ),
            color,
        );
    }
    if ended.stopped == Stopped::LeftForRecovery {
        report_error(
            &format!(
                "the log takes no more bytes; {} records wait in shared memory: when it does again, \
                 `logdrive recover {}` writes them",
                count_text(ended.stats.pending()),
                options.name
            ),
            color,
        );
    }
}
