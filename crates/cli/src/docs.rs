//! Completions and manual pages, made from the description of the command line.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::error::CliError;
use clap::{Command, CommandFactory, ValueEnum};
use clap_mangen::Man;
use std::io::Write;
use std::path::Path;

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
    let mut command = Cli::command();
    command.build();
    let Some(dir) = &args.dir else {
        return print(page(Man::new(command))?.as_bytes());
    };
    let cannot_write = |path: &Path, cause| CliError::Write {
        path: path.to_owned(),
        cause,
    };
    std::fs::create_dir_all(dir).map_err(|cause| cannot_write(dir, cause))?;
    let commands: Vec<Command> = command.get_subcommands().cloned().collect();
    for command in std::iter::once(command).chain(commands) {
        let man = Man::new(command);
        let path = dir.join(man.get_filename());
        std::fs::write(&path, page(man)?).map_err(|cause| cannot_write(&path, cause))?;
    }
    Ok(())
}

/// A manual page. What stands below the options keeps its lines: examples are columns.
fn page(man: Man) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    man.render(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let Some((before, after)) = text.split_once(".SH EXTRA\n") else {
        return Ok(text.into_owned());
    };
    let (extra, rest) = after.split_at(after.find("\n.SH").map_or(after.len(), |end| end + 1));
    Ok(format!(
        "{before}.SH \"EXAMPLES AND NOTES\"\n.nf\n{extra}.fi\n{rest}"
    ))
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
