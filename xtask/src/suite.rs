//! `cargo xtask test`: the tests of every language that is present, then every example as a program.
//! A language whose tools are missing is left out, by name and with how to get them.

use crate::go;
use crate::metadata;
use crate::paint;
use crate::shell::{self, CMAKE, CXX, Call, Failure, Outcome, first_missing};
use crate::steps::{End, StepOutcome, Steps};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// An example that runs longer than this is taken for hung: each shows one thing in a moment.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// Runs everything, or, with arguments, only the Rust tests that `cargo test` picks by them.
pub(crate) fn run(args: &[String]) -> Outcome {
    let root = shell::root()?;
    if !args.is_empty() {
        return rust(&root).args(args).run();
    }
    let mut steps = Steps::independent("test");
    steps.step("rust", "cargo test --workspace --all-features", || {
        rust(&root).run()?;
        Ok(End::Passed)
    });
    steps.step("examples", "cargo run --package logdrive --example NAME", || {
        examples(&root)
    });
    if root.join("clients/cpp").is_dir() {
        steps.step(
            "cpp",
            "cmake --build target/cpp && ctest --test-dir target/cpp",
            || cpp(&root),
        );
    }
    if root.join("clients/go").is_dir() {
        steps.step("go", "cd clients/go && go test ./...", || go::test(&root));
    }
    steps.finish()
}

fn rust(root: &Path) -> Call {
    Call::cargo()
        .words("test --workspace --all-features --no-fail-fast")
        .dir(root)
}

/// Runs every example in an empty directory of its own, as a reader of the README would.
fn examples(root: &Path) -> StepOutcome {
    let packages = metadata::packages(root)?;
    // The front end's only: those of other crates are tools of their authors.
    let front_end = packages.iter().filter(|package| package.name == "logdrive");
    let mut names: Vec<&String> = front_end.flat_map(|package| &package.examples).collect();
    names.sort();
    if names.is_empty() {
        return Ok(End::LeftOut("the front end has none".to_owned()));
    }
    Call::cargo()
        .words("build --quiet --workspace --examples --all-features")
        .dir(root)
        .run()?;
    let target = shell::target_dir(root)?;
    let place = target.join("xtask/examples");
    for name in &names {
        let dir = place.join(name);
        let _ = std::fs::remove_dir_all(&dir); // It may not exist; creating it reports what matters.
        let unusable = |cause| Failure::new(format!("{} cannot be made: {cause}", dir.display()), "");
        std::fs::create_dir_all(&dir).map_err(unusable)?;
        run_example(&target.join("debug/examples").join(name), &dir)?;
        eprintln!("example {name}: {}", paint::good("ok"));
    }
    Ok(End::Passed)
}

fn run_example(program: &Path, dir: &Path) -> Outcome {
    let failed = |what: String, output: &Path| {
        let text = std::fs::read_to_string(output).unwrap_or_default();
        Failure::new(format!("example {} {what}\n{text}", program.display()), "")
    };
    let output = dir.join("output.txt");
    let file =
        std::fs::File::create(&output).map_err(|cause| failed(format!("has no output: {cause}"), &output))?;
    let copy = file
        .try_clone()
        .map_err(|cause| failed(format!("has no output: {cause}"), &output))?;
    let mut child = std::process::Command::new(program)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|cause| failed(format!("did not start: {cause}"), &output))?;
    let deadline = Instant::now() + EXAMPLE_LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(failed(format!("failed: {status}"), &output)),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill(); // It may have ended in between; either way it is reported.
                let _ = child.wait();
                return Err(failed(
                    format!("still ran after {} s", EXAMPLE_LIMIT.as_secs()),
                    &output,
                ));
            }
            Err(cause) => return Err(failed(format!("cannot be waited for: {cause}"), &output)),
        }
    }
}

/// Builds and runs the C++ tests.
fn cpp(root: &Path) -> StepOutcome {
    if let Some(tool) = first_missing(&[&CMAKE, &CXX]) {
        return Ok(End::LeftOut(format!("C++: {}", tool.missing())));
    }
    build_cpp(root)?;
    let tests = Call::new("ctest").words("--test-dir target/cpp --output-on-failure --no-tests=error");
    let command = shell::target_dir(root)?.join("debug/logdrive");
    let tests = match command.exists() {
        true => tests.env("LOGDRIVE_BIN", &command.to_string_lossy()),
        false => tests,
    };
    tests.dir(root).run()?;
    Ok(End::Passed)
}

/// Builds the C++ tests in `target/cpp`.
pub(crate) fn build_cpp(root: &Path) -> Outcome {
    let configure = "-S clients/cpp -B target/cpp -DCMAKE_BUILD_TYPE=RelWithDebInfo";
    Call::new("cmake").words(configure).dir(root).run()?;
    Call::new("cmake")
        .words("--build target/cpp --parallel")
        .dir(root)
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_fails_is_reported_with_what_it_printed() {
        let dir = std::env::temp_dir().join(format!("logdrive-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the temporary directory is writable");
        assert!(run_example(Path::new("true"), &dir).is_ok());
        let failure = run_example(Path::new("false"), &dir).expect_err("`false` fails");
        assert!(
            failure
                .message
                .starts_with("example false failed: exit status: 1"),
            "{failure}"
        );
        std::fs::remove_dir_all(&dir).expect("the directory is ours");
    }
}
