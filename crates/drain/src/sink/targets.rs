//! Selection of callsites by their targets, so that loggers of one process have sinks of their own.

use crate::schema::{escape, unescape};
use logdrive_wire::Callsite;

/// Targets whose records a sink takes, such as `net`, which stands for `net::quic` as well. The target of a callsite without one
/// is its module.
///
/// ```
/// use logdrive_drain::Targets;
/// let targets = Targets { only: vec!["net".into()], except: vec!["net::http".into()] };
/// assert!(targets.takes("net::quic") && !targets.takes("net::http") && !targets.takes("network"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Targets whose records are taken; those of all where it is empty.
    pub only: Vec<String>,
    /// Targets whose records are left out.
    pub except: Vec<String>,
}

impl Targets {
    /// Returns whether there is any selection.
    pub fn is_any(&self) -> bool {
        self.only.is_empty() && self.except.is_empty()
    }

    /// Returns whether records of this target are taken.
    pub fn takes(&self, target: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|name| is_below(target, name));
        (self.only.is_empty() || is_in(&self.only)) && !is_in(&self.except)
    }

    pub(crate) fn takes_callsite(&self, callsite: &Callsite) -> bool {
        self.is_any() || self.takes(callsite.target_or_module())
    }

    /// Text for a recoverer: a line for each target.
    pub(crate) fn to_text(&self) -> String {
        let line = |key: &str, name: &String| format!("{key} = {}\n", escape(name.as_bytes()));
        let only = self.only.iter().map(|name| line("only", name));
        only.chain(self.except.iter().map(|name| line("except", name)))
            .collect()
    }

    /// Takes a line of [`Targets::to_text`]; `false` when it is none.
    pub(crate) fn read_line(&mut self, key: &str, value: &str) -> bool {
        let list = match key {
            "only" => &mut self.only,
            "except" => &mut self.except,
            _ => return false,
        };
        // What cannot be read is the name of no target: then only this one is missing.
        let name = unescape(value).unwrap_or_default();
        list.push(String::from_utf8(name).unwrap_or_default());
        true
    }
}

fn is_below(target: &str, name: &str) -> bool {
    target
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_stands_for_all_below_it_and_reads_back_from_its_text() {
        let mut targets = Targets::default();
        assert!(targets.is_any() && targets.takes("anything"));
        for (key, value) in [
            ("only", "net"),
            ("only", "db"),
            ("except", "net::http"),
            ("only", "\\xc3\\xa9\\x0a[sink]"),
        ] {
            assert!(targets.read_line(key, value));
        }
        assert!(!targets.read_line("layout", "json"));
        assert!(targets.takes("net") && targets.takes("db::pool") && targets.takes("net::quic"));
        assert!(!targets.takes("net::http::h2") && !targets.takes("network") && !targets.takes(""));
        assert!(targets.takes("é\n[sink]"));
        let mut again = Targets::default();
        for line in targets.to_text().lines() {
            let (key, value) = line.split_once(" = ").expect("a pair");
            assert!(again.read_line(key, value));
        }
        assert_eq!(again, targets);
    }
}
