//! `logdrive config`, and reading the agent's configuration: TOML that is checked against the rows of its options.
//!
//! **Why a spanned tree, walked by hand.** Deserialising into structs ends at the first mistake. The crate `toml` gives
//! a tree in which every key and value knows its place, and all mistakes of syntax at once; reading it against the
//! tables in [`sections`] finds all other mistakes in the same run, each with its place, what is allowed and what was
//! probably meant. The same tables make the commented default and the manual page.

mod args;
mod checks;
mod context;
#[cfg(test)]
mod hostile;
pub(crate) mod init;
pub(crate) mod load;
mod manual;
pub(crate) mod parse;
pub(crate) mod problem;
pub(crate) mod reader;
pub(crate) mod sections;
mod summary;
#[cfg(test)]
mod testing;

pub(crate) use args::ConfigArgs;
pub(crate) use manual::{NAME as MANUAL_NAME, page as manual_page};

use crate::error::CliError;
use crate::paint::{ColorChoice, Style};
use args::{CheckArgs, ConfigCommand, InitArgs};
use load::{Reading, load};
use logdrive_agent::config::Places;
pub(crate) use logdrive_drain::schema::units;
use std::io::Write;
use std::path::PathBuf;

/// Runs the command. `false` when a configuration is refused, which has been said.
pub(crate) fn run(args: &ConfigArgs, color: ColorChoice) -> Result<bool, CliError> {
    match &args.command {
        ConfigCommand::Init(args) => init(args).map(|()| true),
        ConfigCommand::Check(args) => check(args, color),
    }
}

fn init(args: &InitArgs) -> Result<(), CliError> {
    let places = match args.user {
        true => user_places()?,
        false => Places::system(),
    };
    Ok(std::io::stdout().write_all(init::text(&places).as_bytes())?)
}

/// The places of an agent of one's own.
///
/// # Errors
/// When the environment does not say where they are.
pub(crate) fn user_places() -> Result<Places, CliError> {
    let directory = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let runtime = directory("XDG_RUNTIME_DIR").ok_or(CliError::NoDirectory {
        variable: "XDG_RUNTIME_DIR",
    })?;
    let state = directory("XDG_STATE_HOME")
        .or_else(|| directory("HOME").map(|home| home.join(".local/state")))
        .ok_or(CliError::NoDirectory {
            variable: "XDG_STATE_HOME",
        })?;
    Ok(Places::of_user(&runtime, &state))
}

fn check(args: &CheckArgs, color: ColorChoice) -> Result<bool, CliError> {
    match load(&args.file, Reading::ToCheck)? {
        Ok(loaded) => {
            let paint = color.for_stdout();
            let mut out = format!("{} {}\n\n", paint.the(Style::Good, "ok:"), args.file.display());
            out.push_str(&summary::text(&loaded.config, paint));
            for note in &loaded.notes {
                out.push_str(&format!("\n{} {note}\n", paint.the(Style::Warning, "note:")));
            }
            std::io::stdout().write_all(out.as_bytes())?;
            Ok(true)
        }
        Err(refused) => {
            let paint = color.for_stderr();
            let count = refused.problems.len();
            let plural = if count == 1 { "" } else { "s" };
            let mut out = refused.report(paint);
            out.push_str(&format!(
                "{count} problem{plural}: an agent would refuse this configuration\n"
            ));
            // If errors cannot be printed, the exit status reports the failure.
            let _ = std::io::stderr().write_all(out.as_bytes());
            Ok(false)
        }
    }
}
