//! `cargo xtask wild`: programs that were written for glog, unchanged, built and tested with glog and with the facade. It is no part of
//! `ci`: it fetches their sources, and builds each of them twice.

use crate::args::{Args, Form};
use crate::shell::{self, CMAKE, CXX, Call, Failure, Outcome};
use std::path::Path;

/// The programs, with the source packages of Debian that have them.
const PROGRAMS: [(&str, &str); 3] = [
    ("glog", "google-glog"),
    ("librime", "librime"),
    ("ceres", "ceres-solver"),
];
/// Status of a script that has left something out, with its reason.
const LEFT_OUT: u8 = 77;

/// Builds and tests one program, or all, from Debian's sources or from a directory.
pub(crate) fn run(args: &[String]) -> Outcome {
    let form = Form {
        options: &["source"],
        takes_word: true,
        ..Form::default()
    };
    let own = Args::read(args, &form)?;
    let chosen = choose(own.word.as_deref())?;
    if own.value("source").is_some() && own.word.is_none() {
        return Err(Failure::usage(
            "`--source` wants the name of one program before it",
        ));
    }
    CMAKE.require()?;
    CXX.require()?;
    let root = shell::root()?;
    Call::cargo()
        .words("build --release --package logdrive-capi")
        .dir(&root)
        .run()?;
    let target = shell::target_dir(&root)?;
    let library = target.join("release");
    let mut failed = Ok(());
    for (program, package) in chosen {
        let work = target.join("wild").join(program);
        let source = own.value("source").unwrap_or("");
        let outcome = script(&root, &[program, package, source, "clients/cpp"], &library, &work).run();
        match outcome {
            Err(failure) if failure.code == LEFT_OUT && own.word.is_none() => {}
            Err(failure) => failed = Err(failure),
            Ok(()) => {}
        }
    }
    failed
}

fn script(root: &Path, words: &[&str], library: &Path, work: &Path) -> Call {
    Call::new("sh")
        .arg("clients/cpp/tests/wild.sh")
        .args(words)
        .args([library.to_string_lossy(), work.to_string_lossy()])
        .dir(root)
}

fn choose(name: Option<&str>) -> Result<Vec<(&'static str, &'static str)>, Failure> {
    let chosen: Vec<_> = PROGRAMS
        .into_iter()
        .filter(|(program, _)| name.is_none_or(|name| name == *program))
        .collect();
    if chosen.is_empty() {
        let all: Vec<&str> = PROGRAMS.iter().map(|(program, _)| *program).collect();
        return Err(Failure::usage(format!(
            "there are the programs {}",
            all.join(", ")
        )));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_known_is_an_error_that_names_those_that_are() {
        assert_eq!(choose(None).expect("all").len(), PROGRAMS.len());
        assert_eq!(choose(Some("ceres")).expect("one"), [("ceres", "ceres-solver")]);
        let failure = choose(Some("chrome")).expect_err("there is none");
        assert!(failure.message.contains("glog, librime, ceres"), "{failure}");
    }
}
