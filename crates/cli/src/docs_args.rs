//! Arguments of the commands that print completions and manual pages.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_long_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  logdrive completions bash > ~/.local/share/bash-completion/completions/logdrive
  logdrive completions zsh  > ~/.zfunc/_logdrive     (with ~/.zfunc in fpath)
  logdrive completions fish > ~/.config/fish/completions/logdrive.fish";

/// Print a manual page, or write all of them to a directory
#[derive(Debug, Args)]
#[command(after_long_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// The page: logdrive, a command such as cat or config-check, or logdrive.toml
    #[arg(value_name = "PAGE", default_value = "logdrive", conflicts_with = "dir")]
    pub(crate) page: String,
    /// Write logdrive.1, logdrive-cat.1 and so on into this directory, which is made if it is missing
    ///
    /// logdrive.toml.5 goes there too, or into man5 beside a directory that is called man1.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const MAN_EXAMPLES: &str = "\
Examples:
  logdrive man | man -l -                      read it
  logdrive man logdrive.toml | man -l -        the configuration of the agent
  logdrive man --dir ~/.local/share/man/man1   install all pages";
