//! The workshop's own arguments: `--name`, `--name value` and `--name=value`, then the rest in order.
//! Whatever stands after `--` belongs to the program that is started.

use crate::shell::{Failure, Outcome};

/// Arguments that have not been claimed yet.
pub(crate) struct Args {
    own: Vec<String>,
    passed_on: Vec<String>,
}

impl Args {
    pub(crate) fn new(all: &[String]) -> Args {
        let end = all.iter().position(|arg| arg == "--").unwrap_or(all.len());
        Args {
            own: all[..end].to_vec(),
            passed_on: all.get(end + 1..).unwrap_or_default().to_vec(),
        }
    }

    /// Claims a switch such as `--list`.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let found = self.own.iter().position(|arg| arg == name);
        found.map(|at| self.own.remove(at)).is_some()
    }

    /// Claims an option with a value.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, Failure> {
        for at in 0..self.own.len() {
            if self.own[at] == name {
                self.own.remove(at);
                if at == self.own.len() {
                    return Err(Failure::usage(format!("`{name}` wants a value")));
                }
                return Ok(Some(self.own.remove(at)));
            }
            let inline = self.own[at]
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('='));
            if let Some(value) = inline.map(str::to_owned) {
                self.own.remove(at);
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Claims an option whose value is a whole number.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        let Some(text) = self.value(name)? else {
            return Ok(None);
        };
        let digits = text.replace('_', "");
        digits
            .parse()
            .map(Some)
            .map_err(|_| Failure::usage(format!("`{name}` wants a whole number, not `{text}`")))
    }

    /// Claims the next argument that is no option.
    pub(crate) fn word(&mut self) -> Option<String> {
        let found = self.own.iter().position(|arg| !arg.starts_with('-'))?;
        Some(self.own.remove(found))
    }

    /// What stood after `--`, once.
    pub(crate) fn passed_on(&mut self) -> Vec<String> {
        std::mem::take(&mut self.passed_on)
    }

    /// Fails when something is left that nobody claimed.
    pub(crate) fn end(self) -> Outcome {
        match self.own.iter().chain(&self.passed_on).next() {
            None => Ok(()),
            Some(arg) => Err(Failure::usage(format!(
                "`{arg}` is not an argument of this command"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_words_and_the_rest_are_told_apart() {
        let mut args = args("--cycles 1_000 ring --seed=7 --list -- --exact x");
        assert_eq!(args.number("--cycles").expect("a number"), Some(1000));
        assert_eq!(args.number("--seed").expect("a number"), Some(7));
        assert!(args.switch("--list") && !args.switch("--list"));
        assert_eq!(args.word().as_deref(), Some("ring"));
        assert_eq!(args.passed_on(), ["--exact", "x"]);
        assert!(args.end().is_ok());
    }

    #[test]
    fn a_bad_value_and_a_stranger_are_refused() {
        assert!(args("--cycles many").number("--cycles").is_err());
        assert!(args("--cycles").value("--cycles").is_err());
        assert!(args("--cicles 7").end().is_err());
    }
}
