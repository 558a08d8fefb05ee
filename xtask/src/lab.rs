//! Checks with tools of their own: loom (interleavings), Miri (undefined behaviour), fuzzing (hostile
//! bytes) and the tests for 64-bit Arm under an emulator.

use crate::args::{Args, Form, TEST_FILTER};
use crate::paint;
use crate::shell::{self, CARGO_FUZZ, CROSS_CC, Call, Failure, MIRI, NIGHTLY, Outcome, QEMU, RUSTUP};
use std::path::Path;

/// The packages that Miri can interpret: no drain, no files, no network.
const MIRI_PACKAGES: [&str; 2] = ["crates/wire", "crates/ring"];
/// Unit tests of the ring whose system calls Miri lacks.
const MIRI_SKIPPED: [&str; 6] = ["channel", "keep_file", "memory_file", "observer", "peer", "rules"];
/// Texts by which a source line takes something away under Miri.
const MIRI_MARKS: [&str; 4] = ["not(miri)", "cfg(miri)", "cfg!(miri)", "cfg_attr(miri, ignore"];
/// Seconds for each fuzz target when none are given.
const FUZZ_SECONDS: u64 = 60;
/// Mutations of a hostile process when none are given: a minute or two on two free cores.
const HOSTILE_MUTATIONS: u64 = 10_000_000;
/// The Arm target that Logdrive supports.
pub(crate) const ARM: &str = "aarch64-unknown-linux-gnu";

/// Runs the ring's loom tests in a target directory of their own, since `--cfg loom` rebuilds all. One of the tests runs
/// the others with each labelled ordering weakened in turn, and prints that they failed.
pub(crate) fn loom(args: &[String]) -> Outcome {
    let root = shell::root()?;
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    flags.push_str(" --cfg loom");
    let own = Args::read(args, &TEST_FILTER)?;
    Call::cargo()
        .env("RUSTFLAGS", flags.trim())
        .words("test --package logdrive-ring --release --test loom")
        .words("--target-dir target/loom")
        .args(own.word)
        .words("-- --show-output")
        .args(own.passed_on)
        .dir(&root)
        .run()
}

/// Runs the unit tests of wire and ring, the shared vectors of wire and the ring's own tests for Miri, and lists what is
/// left out there.
pub(crate) fn miri(args: &[String]) -> Outcome {
    let root = shell::root()?;
    RUSTUP.require()?;
    NIGHTLY.require()?;
    MIRI.require()?;
    let excluded = excluded_under_miri(&root)?;
    let notes = [
        "ring: the tests `session`, `hostile` and `vectors`, for shared memory, signals and processes"
            .to_owned(),
        format!(
            "ring: the unit tests of {}, for sockets and memory files",
            MIRI_SKIPPED.join(", ")
        ),
        "wire: vectors that are long only to reach a limit, for time".to_owned(),
    ];
    eprintln!("{}", paint::note("left out under Miri:"));
    notes
        .iter()
        .chain(&excluded)
        .for_each(|line| eprintln!("  {line}"));
    let own = Args::read(args, &TEST_FILTER)?;
    let mut flags = std::env::var("MIRIFLAGS").unwrap_or_default();
    // Vectors are read from files.
    flags.push_str(" -Zmiri-disable-isolation");
    let skipped = MIRI_SKIPPED.iter().map(|module| format!("--skip={module}::"));
    let wire = ["--package", "logdrive-wire", "--test", "vectors"];
    let ring = ["--package", "logdrive-ring", "--test", "miri"];
    for package in [wire, ring] {
        Call::nightly_cargo()
            .words("miri test --lib --no-fail-fast --target-dir target/miri")
            .args(package)
            .args(&own.word)
            .arg("--")
            .args(skipped.clone())
            .args(&own.passed_on)
            .env("MIRIFLAGS", flags.trim())
            .dir(&root)
            .run()?;
    }
    Ok(())
}

/// Lines of the two crates that take something away under Miri, with the line that they stand on.
fn excluded_under_miri(root: &Path) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for file in crate::tidy::Tree::read(root)?.files() {
        let inside = MIRI_PACKAGES.iter().any(|dir| file.path.starts_with(dir));
        if !inside || !file.path.ends_with(".rs") {
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            if MIRI_MARKS.iter().any(|mark| line.contains(mark)) {
                found.push(format!("{}:{}: {}", file.path, at + 1, line.trim()));
            }
        }
    }
    Ok(found)
}

/// Fuzzes one target, or each in turn.
pub(crate) fn fuzz(args: &[String]) -> Outcome {
    let root = shell::root()?;
    let form = Form {
        options: &["seconds"],
        ..TEST_FILTER
    };
    let own = Args::read(args, &form)?;
    let seconds = own.number("seconds")?.unwrap_or(FUZZ_SECONDS).to_string();
    let targets = fuzz_targets(&root)?;
    let chosen: Vec<&String> = match &own.word {
        None => targets.iter().collect(),
        Some(name) => targets.iter().filter(|target| *target == name).collect(),
    };
    if chosen.is_empty() {
        let name = own.word.unwrap_or_default();
        return Err(Failure::usage(format!(
            "there is no fuzz target `{name}`; there are: {}",
            targets.join(", ")
        )));
    }
    RUSTUP.require()?;
    NIGHTLY.require()?;
    CARGO_FUZZ.require()?;
    for target in chosen {
        Call::nightly_cargo()
            .args(["fuzz", "run", target, "--", &format!("-max_total_time={seconds}")])
            .args(&own.passed_on)
            .dir(&root)
            .run()
            .map_err(|failure| with_crash_advice(failure, target))?;
    }
    Ok(())
}

/// Lets a process rewrite its session while an agent drains it, with an address sanitizer in all of them unless it is to
/// be done without.
pub(crate) fn hostile(args: &[String]) -> Outcome {
    let root = shell::root()?;
    let form = Form {
        switches: &["plain"],
        options: &["mutations", "seed"],
        ..Form::default()
    };
    let own = Args::read(args, &form)?;
    let mutations = own.number("mutations")?.unwrap_or(HOSTILE_MUTATIONS);
    let mut said = vec!["--mutations".to_owned(), mutations.to_string()];
    if let Some(seed) = own.number("seed")? {
        said.extend(["--seed".to_owned(), seed.to_string()]);
    }
    let words = "test --release --package logdrive-agent --test mutations";
    if own.switch("plain") {
        return Call::cargo().words(words).arg("--").args(said).dir(&root).run();
    }
    RUSTUP.require()?;
    NIGHTLY.require()?;
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    flags.push_str(" -Zsanitizer=address");
    // A target that is named, so that build scripts and macros are built without the sanitizer.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    Call::nightly_cargo()
        .env("RUSTFLAGS", flags.trim())
        // Sessions of a process live as long as it does.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .words(words)
        .args(["--target", &target, "--target-dir", "target/asan", "--"])
        .args(said)
        .dir(&root)
        .run()
}

fn with_crash_advice(mut failure: Failure, target: &str) -> Failure {
    failure.advice = format!(
        "the input lies under fuzz/artifacts/{target}/; to repeat it: \
         cargo +nightly fuzz run {target} FILE; a mended fault leaves a test with its bytes"
    );
    failure
}

fn fuzz_targets(root: &Path) -> Result<Vec<String>, Failure> {
    let dir = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&dir)
        .map_err(|cause| Failure::new(format!("fuzz/fuzz_targets cannot be read: {cause}"), ""))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

/// Tests that start their own program again, which the kernel cannot run, or make threads in the child of a fork, where
/// qemu-user stops.
const EMULATOR_CANNOT: [&str; 2] = [
    "a_file_is_written_on_when_no_descriptor_is_left",
    "a_forked_process_logs_for_itself",
];

/// Builds the tests for 64-bit Arm and runs them under qemu-user.
pub(crate) fn aarch64(args: &[String]) -> Outcome {
    let root = shell::root()?;
    CROSS_CC.require()?;
    QEMU.require()?;
    let own = Args::read(args, &TEST_FILTER)?;
    add_target(ARM).map_err(|why| Failure::new(why, ""))?;
    Call::cargo()
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        )
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        )
        .args(["test", "--target", ARM, "--no-fail-fast"])
        .words("--package logdrive-wire --package logdrive-ring")
        .words("--package logdrive-drain --package logdrive")
        .args(own.word)
        .words("--")
        .args(own.passed_on)
        .args(EMULATOR_CANNOT.iter().flat_map(|test| ["--skip", test]))
        .dir(&root)
        .run()
}

/// Makes sure that the standard library for `target` is there; says why when it cannot be had.
pub(crate) fn add_target(target: &str) -> Result<(), String> {
    let installed = Call::new("rustc").args(["--print", "target-libdir", "--target", target]);
    let there = installed
        .stdout()
        .is_ok_and(|dir| std::fs::read_dir(dir.trim()).is_ok_and(|mut entries| entries.next().is_some()));
    if there {
        return Ok(());
    }
    if !RUSTUP.present() {
        return Err(format!("no standard library for {target}: {}", RUSTUP.missing()));
    }
    if Call::new("rustup").args(["target", "add", target]).succeeds() {
        return Ok(());
    }
    Err(format!(
        "no standard library for {target}; to get it: rustup target add {target}"
    ))
}
