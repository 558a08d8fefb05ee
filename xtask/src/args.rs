//! Arguments of the workshop's commands, read by lexopt: switches, options with a value, and words.
//! Whatever stands after `--` belongs to the program that is started.

use crate::shell::Failure;
use lexopt::{Arg, Parser, ValueExt};

/// Arguments of one command.
#[derive(Debug, Default)]
pub(crate) struct Args {
    switches: Vec<String>,
    values: Vec<(String, String)>,
    /// First argument that is no option.
    pub(crate) word: Option<String>,
    /// Arguments after `--`.
    pub(crate) passed_on: Vec<String>,
}

impl Args {
    /// Reads a command line of the given switches and options, named without dashes. An argument that is none of them,
    /// a second word, and arguments after `--` where the command starts no program with them (`passes_on`) are errors.
    pub(crate) fn read(all: &[String], form: &Form<'_>) -> Result<Args, Failure> {
        let end = all.iter().position(|arg| arg == "--").unwrap_or(all.len());
        let mut args = Args {
            passed_on: all.get(end + 1..).unwrap_or_default().to_vec(),
            ..Args::default()
        };
        if let Some(arg) = args.passed_on.first().filter(|_| !form.passes_on) {
            return Err(Failure::usage(format!(
                "`{arg}` is not an argument of this command"
            )));
        }
        let usage = |cause: lexopt::Error| Failure::usage(cause.to_string());
        let mut parser = Parser::from_args(&all[..end]);
        while let Some(arg) = parser.next().map_err(usage)? {
            match arg {
                Arg::Long(name) if form.switches.contains(&name) => args.switches.push(name.to_owned()),
                Arg::Long(name) if form.options.contains(&name) => {
                    let name = name.to_owned();
                    let value = parser.value().and_then(ValueExt::string).map_err(usage)?;
                    args.values.push((name, value));
                }
                Arg::Value(word) if form.takes_word && args.word.is_none() => {
                    args.word = Some(word.string().map_err(usage)?);
                }
                other => return Err(usage(other.unexpected())),
            }
        }
        Ok(args)
    }

    pub(crate) fn switch(&self, name: &str) -> bool {
        self.switches.iter().any(|given| given == name)
    }

    /// Value of an option; the last one where it was given twice.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let given = self.values.iter().rfind(|(given, _)| given == name);
        given.map(|(_, value)| value.as_str())
    }

    /// Value of an option that is a whole number, which may be written as `1_000`.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let number = |text: &str| {
            let digits = text.replace('_', "");
            digits
                .parse()
                .map_err(|_| Failure::usage(format!("`--{name}` wants a whole number, not `{text}`")))
        };
        self.value(name).map(number).transpose()
    }
}

/// Arguments that a command takes.
#[derive(Debug, Default)]
pub(crate) struct Form<'a> {
    pub(crate) switches: &'a [&'a str],
    pub(crate) options: &'a [&'a str],
    pub(crate) takes_word: bool,
    pub(crate) passes_on: bool,
}

/// A filter and arguments for the test program after `--`.
pub(crate) const TEST_FILTER: Form<'_> = Form {
    switches: &[],
    options: &[],
    takes_word: true,
    passes_on: true,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, passes_on: bool) -> Result<Args, Failure> {
        let form = Form {
            switches: &["list"],
            options: &["cycles", "seed"],
            takes_word: true,
            passes_on,
        };
        Args::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), &form)
    }

    #[test]
    fn options_words_and_the_rest_are_told_apart() {
        let args = read("--cycles 1_000 ring --seed=7 --list -- --exact x", true).expect("arguments");
        assert_eq!(args.number("cycles").expect("a number"), Some(1000));
        assert_eq!(args.number("seed").expect("a number"), Some(7));
        assert!(args.switch("list") && !args.switch("lists"));
        assert_eq!(args.word.as_deref(), Some("ring"));
        assert_eq!(args.passed_on, ["--exact", "x"]);
    }

    #[test]
    fn a_bad_value_and_an_unknown_argument_are_refused() {
        assert!(
            read("--cycles many", false)
                .expect("arguments")
                .number("cycles")
                .is_err()
        );
        for line in ["--cycles", "--cicles 7", "a b", "a -- b", "--list=x"] {
            assert!(read(line, false).is_err(), "{line}");
        }
    }
}
