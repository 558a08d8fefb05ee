//! `cargo xtask faults`: builds the programs that log under faults, in every language that is present, and runs the rows.

use crate::args::{Args, Form};
use crate::shell::{self, CMAKE, CXX, Call, GO, Outcome, first_missing};
use crate::steps::{End, StepOutcome};
use crate::{paint, programs};
use std::path::Path;

/// Runs the rows that the arguments choose.
pub(crate) fn run(args: &[String]) -> Outcome {
    let form = Form {
        switches: &["quick", "json", "list", "require-all", "keep"],
        options: &["only", "language"],
        ..Form::default()
    };
    Args::read(args, &form)?;
    let root = shell::root()?;
    for missing in build(&root)? {
        eprintln!("{}: {missing}", paint::faint("left out"));
    }
    start(&root, args)
}

/// The quick rows, as a step of ci. A program that should be there and is not is a failure.
pub(crate) fn step(root: &Path) -> StepOutcome {
    let missing = build(root)?;
    let mut args = vec!["--quick".to_owned()];
    if missing.is_empty() {
        args.push("--require-all".to_owned());
    }
    start(root, &args)?;
    Ok(match missing.is_empty() {
        true => End::Passed,
        false => End::LeftOut(missing.join("; ")),
    })
}

fn start(root: &Path, args: &[String]) -> Outcome {
    let target = shell::target_dir(root)?;
    Call::new(target.join("release/faults"))
        .args(args)
        .arg(format!(
            "--cpp={}",
            root.join("target/cpp-bench/faults").display()
        ))
        .arg(format!("--go={}", root.join("target/go-bench/faults").display()))
        .run()
}

/// Builds the programs; returns the languages that this machine has no tools for.
fn build(root: &Path) -> Result<Vec<String>, shell::Failure> {
    programs::build_all(&[])?;
    let mut missing = Vec::new();
    match first_missing(&[&CMAKE, &CXX]) {
        Some(tool) => missing.push(format!("C++: {}", tool.missing())),
        None => crate::cpp::build(root, &["--target", "faults"])?,
    }
    match GO.present() {
        false => missing.push(format!("Go: {}", GO.missing())),
        true => {
            let program = root.join("target/go-bench/faults");
            let built = Call::new("go")
                .words("build -o")
                .arg(program.to_string_lossy())
                .arg("./faults")
                .dir(&root.join("clients/go/bench"))
                .stdout()?;
            eprint!("{built}");
        }
    }
    Ok(missing)
}
