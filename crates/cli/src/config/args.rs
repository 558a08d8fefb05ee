//! Arguments of `logdrive config`.

use super::load::DEFAULT_PATH;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Make and check the configuration of `logdrive agent`
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_long_help = CONFIG_EXAMPLES
)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  logdrive config init > logdrive.toml    every key, with its default and what it is for
  logdrive config check logdrive.toml     all that is wrong with a file, by line
  logdrive man logdrive.toml | man -l -   the same keys as a manual page";

/// Commands for a configuration. The help of each command is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Init(InitArgs),
    Check(CheckArgs),
}

/// Print a commented configuration with all defaults
///
/// Every key stands in it with its default, what is allowed and what it is for. An empty file means the same: keep
/// what you change, and leave the rest out.
#[derive(Debug, Args)]
#[command(after_long_help = INIT_EXAMPLES)]
pub(crate) struct InitArgs {
    /// For an agent of your own, with its socket in XDG_RUNTIME_DIR and its logs in XDG_STATE_HOME
    #[arg(long)]
    pub(crate) user: bool,
}

const INIT_EXAMPLES: &str = "\
Examples:
  logdrive config init | sudo tee /etc/logdrive/logdrive.toml
  logdrive config init --user > ~/.config/logdrive.toml";

/// Say whether a configuration is sound, or all that is wrong with it
///
/// Looks at the text, at the accounts and directories that it names, and at who may write to the file. Nothing is
/// changed, and no agent is asked.
#[derive(Debug, Args)]
#[command(after_long_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArgs {
    /// The file, or - for standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_PATH)]
    pub(crate) file: PathBuf,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  logdrive config check                     the machine's configuration
  logdrive config check new.toml && sudo cp new.toml /etc/logdrive/logdrive.toml
  logdrive config init | logdrive config check -

Exit status: 0 the agent would take it, 1 it would not, and each reason has been printed as
FILE:LINE:COLUMN; 2 the command line is wrong.";
