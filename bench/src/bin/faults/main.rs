//! Faults: programs in Rust, C++ and Go log while a disk fills, hangs or forgets, memory is short, limits are low, or the
//! program ends in any way; then the log alone has to explain every call.
//!
//! Each row of the table is a program with a fault (`rows.rs`). The program notes its calls in a file that outlives it;
//! after the recovery of what it left, `calls = records in the log + drops that the log tells` has to hold. A row that
//! takes what the machine lacks is skipped, with the reason. `faults [--only NAME] [--quick] [--json] [--list]`.
#![forbid(unsafe_code)]

mod account;
mod damage;
mod enclosure;
mod exchange;
mod halt;
mod language;
mod notes;
mod plan;
mod program;
mod program_end;
mod report;
mod rigs;
mod roles;
mod row;
mod rows;
mod run;
mod stage;
mod watch;

use clap::Parser;
use halt::{Halt, fail};
use language::Language;
use logdrive_bench::workloads::hang::slow_fs;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use plan::Plan;
use row::Row;
use run::{Outcome, RowResult};
use stage::Programs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Lets programs log under every fault, and compares their calls with what their logs explain.
#[derive(clap::Parser)]
#[command(
    about,
    after_help = "examples: faults --quick\n          faults --only 'disk full' --language c++"
)]
struct Arguments {
    /// Rows whose names hold this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Programs of this language: rust, c++ or go
    #[arg(long, value_name = "NAME")]
    language: Option<String>,
    /// Leave out rows that take long
    #[arg(long)]
    quick: bool,
    /// Print a row a line as JSON
    #[arg(long)]
    json: bool,
    /// Show the names of the rows
    #[arg(long)]
    list: bool,
    /// Fail, and do not skip, where a program of a language was not built
    #[arg(long)]
    require_all: bool,
    /// Leave the files of each row where they are
    #[arg(long)]
    keep: bool,
    /// Program in C++
    #[arg(long, value_name = "PATH")]
    cpp: Option<PathBuf>,
    /// Program in Go
    #[arg(long, value_name = "PATH")]
    go: Option<PathBuf>,
}

/// The word before the name of a role on the command line.
const PLAY: &str = "--play";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.split_first() {
        Some((word, words)) if word == PLAY => take_role(words).map(|()| true),
        Some((word, words)) if word == slow_fs::SERVE => {
            slow_fs::serve(words).map(|()| true).map_err(Halt::from)
        }
        _ => run_rows(&Arguments::parse()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Halt::Fail(why) | Halt::Skip(why)) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Plays a role: what a child process of this program is started for.
fn take_role(words: &[String]) -> Result<(), Halt> {
    let Some((role, words)) = words.split_first() else {
        return Err(fail("a role is missing"));
    };
    match (role.as_str(), words) {
        ("program", words) => match Plan::of(words) {
            plan if plan.text("messages").is_some() => exchange::play(&plan),
            _ => program::play(words),
        },
        ("enclose", words) => enclosure::play(words),
        ("agent", [dir]) => roles::serve_agent(Path::new(dir)),
        ("keeper", [socket]) => Ok(logdrive_agent::keep(Path::new(socket))?),
        ("serve", [address, dir, words @ ..]) => exchange::serve_requests(address, Path::new(dir), words),
        ("read-slowly", [into]) => roles::read_slowly(Path::new(into)),
        ("recover", [session]) => Ok(logdrive::recover(Path::new(session), None).map(drop)?),
        _ => Err(fail(format!("{role} is no role"))),
    }
}

/// Runs the rows that are wanted; `false` where one fails.
fn run_rows(arguments: &Arguments) -> Result<bool, Halt> {
    let programs = programs(arguments)?;
    let rows = rows::all();
    let wanted = |row: &&Row| {
        let is_named = arguments
            .only
            .as_ref()
            .is_none_or(|name| row.name.contains(name.as_str()));
        is_named && !(arguments.quick && row.slow)
    };
    if arguments.list {
        rows.iter()
            .filter(wanted)
            .for_each(|row| println!("{}", row.name));
        return Ok(true);
    }
    own_mounts();
    let base = std::env::temp_dir().join(format!("logdrive-faults-{}", std::process::id()));
    let mut outcomes = Vec::new();
    if !arguments.json {
        println!("{}", report::titles());
    }
    for row in rows.iter().filter(wanted) {
        for language in row.languages.iter().filter(|language| arguments.has(**language)) {
            let dir = base.join(format!("{}-{}", outcomes.len(), language.name()));
            let outcome = run::run(row, *language, &programs, &dir);
            match arguments.json {
                true => println!("{}", serde_json::to_string(&outcome)?),
                false => println!("{}", report::line(&outcome)),
            }
            if !arguments.keep {
                let _ = std::fs::remove_dir_all(&dir); // Empty directories of mounts may stay.
            }
            outcomes.push(outcome);
        }
    }
    if !arguments.keep {
        let _ = std::fs::remove_dir_all(&base);
    }
    Ok(conclude(&outcomes))
}

/// Counts the results; `false` where one is a failure.
fn conclude(outcomes: &[Outcome]) -> bool {
    let count = |is: fn(&RowResult) -> bool| outcomes.iter().filter(|outcome| is(&outcome.verdict)).count();
    let passed = count(|verdict| matches!(verdict, RowResult::Passed));
    let failed = count(|verdict| matches!(verdict, RowResult::Failed(_)));
    let skipped = count(|verdict| matches!(verdict, RowResult::Skipped(_)));
    let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
    eprintln!("faults: {passed} passed, {failed} failed, {skipped} skipped in {seconds:.0} s");
    failed == 0 && !outcomes.is_empty()
}

impl Arguments {
    fn has(&self, language: Language) -> bool {
        let name = self.language.as_ref();
        name.is_none_or(|name| name.eq_ignore_ascii_case(language.name()))
    }
}

/// The programs, beside this one where they are not named.
fn programs(arguments: &Arguments) -> Result<Programs, Halt> {
    let own = std::env::current_exe()?;
    let beside = own.parent().unwrap_or(Path::new("."));
    let target = beside.parent().unwrap_or(Path::new("."));
    let or = |given: &Option<PathBuf>, otherwise: PathBuf| given.clone().unwrap_or(otherwise);
    Ok(Programs {
        cpp: or(&arguments.cpp, target.join("cpp-bench/faults")),
        go: or(&arguments.go, target.join("go-bench/faults")),
        logdrive: beside.join("logdrive"),
        required: arguments.require_all,
        own,
    })
}

/// Takes mounts of its own, which end with this process. Without the right, rows that mount are skipped.
fn own_mounts() {
    if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        // If it fails, so does the first mount, with the reason.
        let _ = mount(None::<&str>, "/", None::<&str>, private, None::<&str>);
    }
}
