//! Completions and manual pages, made from the description of the command line.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::error::CliError;
use clap::{CommandFactory, ValueEnum};
use std::io::Write;

/// Shells that completions can be made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// Bash
    Bash,
    /// Z shell
    Zsh,
    /// Fish
    Fish,
}

/// Prints completions.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "logdrive", &mut script);
    print(&script)
}

/// Prints the manual page, or writes all of them.
pub(crate) fn man(args: &ManArgs) -> Result<(), CliError> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return print(&page);
    };
    let cannot_write = |cause| CliError::Write {
        path: dir.clone(),
        cause,
    };
    std::fs::create_dir_all(dir).map_err(cannot_write)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(cannot_write)
}

fn print(text: &[u8]) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text)?;
    Ok(stdout.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
