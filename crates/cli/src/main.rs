//! The command `logdrive`: reads, watches and recovers the logs of programs that log with Logdrive.
//!
//! [`args`] says what can be said on the command line; each command has a module of its own. Results go to standard
//! output, everything about them to standard error. A reader that goes away, as `head` does, ends a command well.
#![forbid(unsafe_code)]

mod agent;
mod args;
mod bench;
mod callsites;
mod cat;
mod collect;
mod compact;
mod config;
mod control_args;
mod descriptors;
mod docs;
mod docs_args;
mod drain;
mod dump;
mod dump_args;
mod edit;
mod error;
#[cfg(feature = "export")]
mod export;
mod filter_args;
mod format_args;
mod import;
mod instant;
mod level;
mod limits;
mod live;
mod members;
mod mute;
mod output;
mod pager;
mod paint;
mod ps;
mod query;
mod rates;
mod recover;
mod run;
mod run_args;
mod sample;
mod screen;
mod screen_paint;
mod send;
mod session_args;
mod session_finder;
mod sessions;
mod signals;
mod stats;
mod suggestion;
mod table;
mod tail;
mod tail_args;
mod time_args;
mod top;
mod view;
mod watched_session;

use args::{Cli, Command};
use clap::Parser;
use error::CliError;
use output::titled_note;
use paint::Style;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(status) => status,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            titled_note(cli.color.for_stderr(), Style::Bad, "error", &error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs a command. Status 1 when a part of it failed, which has been said.
fn run(cli: &Cli) -> Result<ExitCode, CliError> {
    let all_is_well = match &cli.command {
        Command::Run(args) => return Ok(run::run(args, cli.color)),
        Command::Agent(args) => agent::run(args, cli.color),
        Command::Keeper(args) => agent::keep(args),
        Command::Collect(args) => collect::run(args, cli.color),
        Command::Send(args) => send::run(args, cli.color),
        Command::Bench(args) => bench::run(args, cli.color),
        Command::Query(args) => return query::run(args, cli.color),
        #[cfg(feature = "export")]
        Command::Export(args) => return export::run(args, cli.color),
        Command::Cat(args) => cat::run(args, cli.color),
        Command::Import(args) => import::run(args),
        Command::Compact(args) => compact::run(args, cli.color),
        Command::Tail(args) => tail::run(args, cli.color).map(|()| true),
        Command::View(args) => view::run(args, cli.color),
        Command::Top(args) => top::run(args, cli.color).map(|()| true),
        Command::Ps(args) => ps::run(args, cli.color).map(|()| true),
        Command::Stats(args) => stats::run(args, cli.color).map(|()| true),
        Command::Recover(args) => recover::run(args, cli.color),
        Command::Level(args) => level::run(args, cli.color),
        Command::Sample(args) => sample::run(args),
        Command::Mute(args) => mute::run(args),
        Command::Drain(args) => drain::run(args),
        Command::Dump(args) => dump::run(args),
        Command::Callsites(args) => callsites::run(args, cli.color).map(|()| true),
        Command::Config(args) => config::run(args, cli.color),
        Command::Completions(args) => docs::completions(args).map(|()| true),
        Command::Man(args) => docs::man(args).map(|()| true),
    };
    Ok(ExitCode::from(u8::from(!all_is_well?)))
}
