//! The command `logdrive`: reads, watches and recovers the logs of programs that log with Logdrive.
//!
//! [`args`] says what can be said on the command line; each command has a module of its own. Results go to standard
//! output, everything about them to standard error. A reader that goes away, as `head` does, ends a command well.
#![forbid(unsafe_code)]

mod args;
mod cat;
mod docs;
mod error;
mod escape;
mod instant;
mod limits;
mod output;
mod paint;
mod ps;
mod recover;
mod sessions;
mod similar;
mod stats;
mod table;

use args::{Cli, Command};
use clap::Parser;
use error::CliError;
use paint::Style;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error, &cli);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs a command. `false` when a part of it failed, which has been said.
fn run(cli: &Cli) -> Result<bool, CliError> {
    match &cli.command {
        Command::Cat(args) => cat::run(args, cli.color),
        Command::Ps(args) => ps::run(args, cli.color).map(|()| true),
        Command::Stats(args) => stats::run(args, cli.color).map(|()| true),
        Command::Recover(args) => recover::run(args, cli.color),
        Command::Completions(args) => docs::completions(args).map(|()| true),
        Command::Man(args) => docs::man(args).map(|()| true),
    }
}

fn tell(error: &CliError, cli: &Cli) {
    let title = cli.color.for_stderr().the(Style::Bad, "error:");
    // Where errors cannot be printed there is nobody to tell; the exit status says it.
    let _ = writeln!(std::io::stderr(), "{title} {error}");
}
