//! `cargo xtask ci`: everything that a change has to pass, in the order in which a fault shows soonest.
//!
//! It starts from nothing, goes on without what a machine cannot offer (and says so in the table),
//! and stops at the first failure with the command that repeats it. Miri and fuzzing are not part of
//! it: they need a nightly toolchain, and they find more the longer they run.

use crate::args::{Args, Form};
use crate::lab::{self, ARM, add_target};
use crate::paint;
use crate::shell::{self, CLIPPY, CMAKE, CROSS_CC, CXX, Call, Failure, Outcome, RUSTFMT, Tool};
use crate::steps::{End, StepOutcome, Steps};
use crate::{dependencies, faults, go, run, suite, tidy, vectors};
use std::path::Path;

/// Kill-and-recover cycles that every change has to pass.
const CRASH_CYCLES: &str = "1000";
/// Modes of cycles besides the plain one, with cycles that take some seconds. Left out is `oom`, which takes a group with a
/// limit that machines may lack.
const CRASH_MODES: [(&str, &str); 7] = [
    ("rotate", "40"),
    ("processes", "40"),
    ("shared", "40"),
    ("chain", "40"),
    ("drop", "40"),
    ("segments", "40"),
    ("shared-rotate", "8"),
];
/// The same of programs in C++.
const CPP_CRASH_CYCLES: &str = "1000";
/// The same of programs in Go, which panic and exit in between.
const GO_CRASH_CYCLES: &str = "1000";
/// Agents and programs that are killed in turn; about a minute.
const AGENT_CRASH_CYCLES: &str = "200";
/// Workloads that are tried in their short form; with the subjects, where all of them take minutes.
const SMOKE: [(&str, Option<&str>); 7] = [
    ("glog", None),
    ("callsite", Some("clock,logdrive,logdrive-tracing,logdrive-log")),
    ("compile", None),
    ("quic", None),
    ("fprintf", None),
    ("hang", Some("none,logdrive")),
    ("agent", None),
];
/// Targets on which the front end has to compile although it does its full work on Linux only.
const OTHER_UNIXES: [&str; 2] = ["x86_64-unknown-freebsd", "x86_64-apple-darwin"];

struct Step {
    name: &'static str,
    about: &'static str,
    repeat: &'static str,
    work: fn(&Path) -> StepOutcome,
}

/// Steps from rows of a name, the command that repeats it, the function, and what it checks.
macro_rules! steps {
    ($($name:literal $repeat:literal, $work:expr, $about:literal;)*) => {
        &[$(Step { name: $name, about: $about, repeat: $repeat, work: $work }),*]
    };
}

const STEPS: &[Step] = steps! {
    "tidy" "cargo xtask tidy", |_| passed(tidy::run(&[])), "the project's own rules";
    "fmt" "cargo fmt --all (mends it)", fmt, "the sources are formatted";
    "clippy" "cargo xtask ci --only clippy", clippy, "no warning from rustc or clippy, in any target";
    "dependencies" "cargo xtask dependencies", dependencies::step,
        "licences, bans and sources of all packages, and known vulnerabilities";
    "docs" "cargo xtask ci --only docs", docs, "the documentation builds without a warning";
    "features" "cargo xtask ci --only features", features,
        "the front end compiles with no feature and with each alone";
    "targets" "cargo xtask ci --only targets", targets,
        "it compiles for 64-bit Arm, the front end for other Unixes too";
    "test" "cargo xtask test", |_| passed(suite::run(&[])), "all tests of all languages, with the examples";
    "vectors" "cargo xtask vectors", |_| passed(vectors::run(&[])), "every language ran every shared vector";
    "loom" "cargo xtask loom", |_| passed(lab::loom(&[])), "the ring under every interleaving";
    "crash" "cargo xtask crash --cycles 1000", crash, "killed at random moments, nothing lost";
    "cpp-crash" "target/cpp/tests/crash 1000", cpp_crash,
        "programs in C++ killed at random moments, nothing lost";
    "go-crash" "cd clients/go && go test -run TestACrashLosesNothing . -crash-cycles 1000", go_crash,
        "programs in Go ended in every way, nothing lost, nothing twice";
    "agent-crash" "cargo xtask crash --agent --cycles 200", agent_crash,
        "agents and programs killed in turn, nothing lost, nothing twice";
    "faults" "cargo xtask faults --quick", faults::step,
        "disks, memory, limits and ends that fail: the log explains every call";
    "smoke" "cargo xtask bench NAME --quick", smoke, "each workload in its short form";
};

/// Runs all steps, or those that `--only` names.
pub(crate) fn run(args: &[String]) -> Outcome {
    let form = Form {
        switches: &["list"],
        options: &["only"],
        ..Form::default()
    };
    let own = Args::read(args, &form)?;
    let only = own.value("only");
    if own.switch("list") {
        STEPS
            .iter()
            .for_each(|step| println!("{:11} {}", step.name, step.about));
        return Ok(());
    }
    let chosen = choose(only)?;
    let root = shell::root()?;
    let mut steps = Steps::stopping("ci");
    for step in chosen {
        steps.step(step.name, step.repeat, || (step.work)(&root));
    }
    steps.finish()?;
    if only.is_none() {
        eprintln!(
            "{}",
            paint::faint("not part of ci: cargo xtask miri, cargo xtask fuzz, cargo xtask aarch64")
        );
    }
    Ok(())
}

fn choose(only: Option<&str>) -> Result<Vec<&'static Step>, Failure> {
    let Some(names) = only else {
        return Ok(STEPS.iter().collect());
    };
    let names: Vec<&str> = names.split(',').collect();
    if let Some(stranger) = names
        .iter()
        .find(|name| !STEPS.iter().any(|step| step.name == **name))
    {
        let all: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(Failure::usage(format!(
            "`{stranger}` is not a step of ci; there are: {}",
            all.join(", ")
        )));
    }
    Ok(STEPS.iter().filter(|step| names.contains(&step.name)).collect())
}

fn passed(outcome: Outcome) -> StepOutcome {
    outcome.map(|()| End::Passed)
}

/// Makes sure that a part of the toolchain is there: a minimal installation lacks both.
fn component(tool: &Tool, name: &str) -> Outcome {
    if !tool.present() {
        Call::new("rustup").args(["component", "add", name]).succeeds();
    }
    tool.require()
}

/// Names the files only: the whole difference would bury everything else.
fn fmt(root: &Path) -> StepOutcome {
    component(&RUSTFMT, "rustfmt")?;
    passed(
        Call::cargo()
            .words("fmt --all --check -- --files-with-diff")
            .dir(root)
            .run(),
    )
}

fn clippy(root: &Path) -> StepOutcome {
    component(&CLIPPY, "clippy")?;
    let args = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    passed(Call::cargo().args(args).dir(root).run())
}

/// Libraries only: the program `logdrive` and the library of the same name would overwrite each
/// other's pages.
fn docs(root: &Path) -> StepOutcome {
    let args = [
        "doc",
        "--workspace",
        "--lib",
        "--all-features",
        "--no-deps",
        "--locked",
    ];
    passed(
        Call::cargo()
            .env("RUSTDOCFLAGS", "-D warnings")
            .args(args)
            .dir(root)
            .run(),
    )
}

/// Features are additive, so the ends matter: none at all, and each without the others.
fn features(root: &Path) -> StepOutcome {
    let manifest = std::fs::read_to_string(root.join("crates/logdrive/Cargo.toml"))
        .map_err(|cause| Failure::new(format!("crates/logdrive/Cargo.toml cannot be read: {cause}"), ""))?;
    let check = [
        "check",
        "--package",
        "logdrive",
        "--locked",
        "--no-default-features",
    ];
    Call::cargo().args(check).dir(root).run()?;
    for feature in feature_names(&manifest) {
        Call::cargo()
            .args(check)
            .args(["--features", feature])
            .dir(root)
            .run()?;
    }
    Ok(End::Passed)
}

/// Names in the `[features]` table of a manifest, without `default`.
fn feature_names(manifest: &str) -> Vec<&str> {
    let table = manifest
        .lines()
        .skip_while(|line| line.trim() != "[features]")
        .skip(1);
    table
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim())
        .filter(|name| *name != "default" && !name.starts_with('#'))
        .collect()
}

fn targets(root: &Path) -> StepOutcome {
    let mut left_out = Vec::new();
    let front_end = ["--package", "logdrive", "--all-features"];
    // Without Kafka, whose library is configured by programs of the target.
    let command = [
        "--package",
        "logdrive-cli",
        "--no-default-features",
        "--features",
        "export",
    ];
    let plans = [
        (ARM, &front_end[..]),
        (ARM, &command[..]),
        (OTHER_UNIXES[0], &front_end[..]),
        (OTHER_UNIXES[1], &front_end[..]),
    ];
    for (target, packages) in plans {
        match add_target(target) {
            Err(why) => left_out.push(why),
            Ok(()) => check_target(root, target, packages)?,
        }
    }
    Ok(if left_out.is_empty() {
        End::Passed
    } else {
        End::LeftOut(left_out.join("; "))
    })
}

/// Checks `packages`, with their features, for `target`. A check never links, so where no C compiler for the target is
/// installed, build scripts that compile C are handed `true`, which makes nothing and succeeds.
fn check_target(root: &Path, target: &str, packages: &[&str]) -> Outcome {
    let mut call = Call::cargo();
    if target != ARM || !CROSS_CC.present() {
        let suffix = target.replace('-', "_");
        call = call
            .env(&format!("CC_{suffix}"), "true")
            .env(&format!("AR_{suffix}"), "true");
    }
    call.args(["check", "--locked", "--target", target])
        .args(packages)
        .dir(root)
        .run()
}

fn cpp_crash(root: &Path) -> StepOutcome {
    if let Some(tool) = shell::first_missing(&[&CMAKE, &CXX]) {
        return Ok(End::LeftOut(format!("C++: {}", tool.missing())));
    }
    suite::build_cpp(root)?;
    passed(
        Call::new(root.join("target/cpp/tests/crash"))
            .arg(CPP_CRASH_CYCLES)
            .dir(root)
            .run(),
    )
}

fn crash(_: &Path) -> StepOutcome {
    run::crash(&["--cycles", CRASH_CYCLES].map(str::to_owned))?;
    for (mode, cycles) in CRASH_MODES {
        run::crash(&["--mode", mode, "--cycles", cycles].map(str::to_owned))?;
    }
    Ok(End::Passed)
}

fn agent_crash(_: &Path) -> StepOutcome {
    passed(run::crash(
        &["--agent", "--cycles", AGENT_CRASH_CYCLES].map(str::to_owned),
    ))
}

fn go_crash(root: &Path) -> StepOutcome {
    go::crash(root, GO_CRASH_CYCLES)
}

/// Short runs of the workloads: they prove that each still works, not how fast it is.
fn smoke(_: &Path) -> StepOutcome {
    // All of this one is in Go.
    let left_out = |name: &str| name == "fprintf" && !shell::GO.present();
    for (name, only) in SMOKE.into_iter().filter(|(name, _)| !left_out(name)) {
        let mut args = [name, "--quick", "--rounds", "1"].map(str::to_owned).to_vec();
        args.extend(
            only.iter()
                .flat_map(|only| ["--only".to_owned(), (*only).to_owned()]),
        );
        run::bench(&args).map_err(|failure| Failure {
            advice: format!("cargo xtask bench {name} --quick"),
            ..failure
        })?;
    }
    Ok(End::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_takes_known_steps_in_their_order() {
        let names = |only| choose(only).map(|steps| steps.iter().map(|step| step.name).collect::<Vec<_>>());
        assert_eq!(names(Some("clippy,fmt")).expect("known steps"), ["fmt", "clippy"]);
        assert!(names(Some("clippie")).is_err());
        assert_eq!(names(None).expect("all").len(), STEPS.len());
    }

    #[test]
    fn features_are_read_from_a_manifest() {
        let manifest = "[package]\nname = \"x\"\n[features]\ndefault = []\n# why\ntracing = [\"dep:tracing\"]\nlog = []\n[lints]\na = 1\n";
        assert_eq!(feature_names(manifest), ["tracing", "log"]);
    }
}
