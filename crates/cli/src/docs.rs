//! Completions and manual pages, made from the description of the command line.

use crate::args::Cli;
use crate::config::{MANUAL_NAME, manual_page};
use crate::docs_args::{CompletionsArgs, ManArgs};
use crate::error::CliError;
use crate::suggestion::most_similar;
use clap::CommandFactory;
use clap_mangen::Man;
use std::io::Write;
use std::path::Path;

/// Prints completions.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "logdrive", &mut script);
    print(&script)
}

/// Prints a manual page, or writes all of them.
pub(crate) fn man(args: &ManArgs) -> Result<(), CliError> {
    let pages = pages()?;
    let Some(dir) = &args.dir else {
        return print(find_page(&pages, &args.page)?.text.as_bytes());
    };
    for page in &pages {
        let dir = match page.section {
            "5" if dir.ends_with("man1") => &dir.with_file_name("man5"),
            _ => dir,
        };
        let cannot_write = |path: &Path, cause| CliError::Write {
            path: path.to_owned(),
            cause,
        };
        std::fs::create_dir_all(dir).map_err(|cause| cannot_write(dir, cause))?;
        let path = dir.join(format!("{}.{}", page.name, page.section));
        std::fs::write(&path, &page.text).map_err(|cause| cannot_write(&path, cause))?;
    }
    Ok(())
}

/// A manual page.
struct Page {
    name: String,
    section: &'static str,
    text: String,
}

/// All pages: of the command, of each command below it, and of the configuration.
fn pages() -> Result<Vec<Page>, CliError> {
    let mut command = Cli::command();
    command.build();
    let mut pages = Vec::new();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        left.extend(shown.cloned());
        let name = command
            .get_display_name()
            .unwrap_or(command.get_name())
            .to_owned();
        pages.push(Page {
            name,
            section: "1",
            text: page(Man::new(command))?,
        });
    }
    pages.push(Page {
        name: MANUAL_NAME.to_owned(),
        section: "5",
        text: manual_page(),
    });
    Ok(pages)
}

/// The page of a name; that of a command may leave out `logdrive-`.
fn find_page<'a>(pages: &'a [Page], name: &str) -> Result<&'a Page, CliError> {
    let full = format!("logdrive-{name}");
    let found = pages.iter().find(|page| page.name == name || page.name == full);
    found.ok_or_else(|| {
        let names = pages.iter().map(|page| page.name.trim_start_matches("logdrive-"));
        CliError::NoManual {
            name: name.to_owned(),
            hint: match most_similar(name, names.clone()) {
                Some(meant) => format!("; did you mean {meant}?"),
                None => format!(": there are {}", names.collect::<Vec<_>>().join(", ")),
            },
        }
    })
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

    /// Longer ones are broken in the middle of what they show.
    #[test]
    fn examples_fit_into_the_width_of_the_help() {
        fn check(command: &clap::Command) {
            let text = command.get_after_long_help().map(ToString::to_string);
            for line in text.iter().flat_map(|text| text.lines()) {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
