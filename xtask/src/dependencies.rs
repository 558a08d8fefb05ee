//! `cargo xtask dependencies`: licences, bans and sources of all packages, by cargo-deny, and known
//! vulnerabilities, by a folder of advisories where one is present.
//!
//! The advisories are read here: cargo-audit and the rustsec crate would build for minutes to do what
//! a reader of the front matter does in a page, and cargo-deny takes a git repository only.

use crate::args::{Args, Form};
use crate::paint;
use crate::shell::{Call, Failure, Outcome, root};
use crate::steps::{End, StepOutcome};
use semver::{Version, VersionReq};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use toml::{Table, Value};

/// Version that the checks are written for. Built without optimisation it takes 75 s on two cores, which is paid once
/// for a `target` folder; optimised it would take four times as long, to check in two seconds instead of three.
const CARGO_DENY: &str = "0.20.2";
/// Folders whose lock files are checked.
const WORKSPACES: [&str; 3] = [".", "fuzz", "bench/rivals"];
/// Variable that names the folder of advisories.
const DATABASE_VARIABLE: &str = "LOGDRIVE_ADVISORY_DB";
/// Folder of advisories when none is named, from the project's top.
const DATABASE: &str = "../shared/advisory-db";
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const SECONDS_A_DAY: u64 = 86_400;

/// Runs both checks; `--advisories DIR` names the folder of advisories.
pub(crate) fn run(args: &[String]) -> Outcome {
    let form = Form {
        options: &["advisories"],
        ..Form::default()
    };
    let database = Args::read(args, &form)?.value("advisories").map(PathBuf::from);
    if let End::LeftOut(what) = both(&root()?, database)? {
        eprintln!("{}", paint::note(&format!("left out: {what}")));
    }
    Ok(())
}

/// Both checks as one step of `ci`.
pub(crate) fn step(root: &Path) -> StepOutcome {
    both(root, None)
}

fn both(root: &Path, database: Option<PathBuf>) -> StepOutcome {
    Ok(match (deny(root)?, advisories(root, database)?) {
        (End::LeftOut(one), End::LeftOut(other)) => End::LeftOut(format!("{one}; {other}")),
        (End::Passed, end) | (end, End::Passed) => end,
    })
}

/// Licences, bans and sources, of each workspace.
fn deny(root: &Path) -> StepOutcome {
    let Some(program) = cargo_deny(root) else {
        let how = format!("cargo install cargo-deny --locked --version {CARGO_DENY}");
        return Ok(End::LeftOut(format!(
            "licences, bans, sources: cargo-deny is missing; to get it: {how}"
        )));
    };
    for folder in WORKSPACES {
        Call::new(&program)
            .words("--log-level error --config deny.toml --manifest-path")
            .arg(format!("{folder}/Cargo.toml"))
            .words("check --hide-inclusion-graph licenses bans sources")
            .dir(root)
            .run()?;
    }
    Ok(End::Passed)
}

/// The cargo-deny that is installed, or one built below `target`; none where it cannot be fetched.
fn cargo_deny(root: &Path) -> Option<PathBuf> {
    let installed = PathBuf::from("cargo-deny");
    if Call::new(&installed).arg("--version").succeeds() {
        return Some(installed);
    }
    let place = crate::shell::target_dir(root).ok()?.join("tools");
    let own = place.join("bin/cargo-deny");
    let install = Call::cargo()
        .words("install cargo-deny --locked --debug --quiet --version")
        .args([CARGO_DENY, "--root", &place.to_string_lossy()])
        .dir(root);
    (own.is_file() || install.run().is_ok()).then_some(own)
}

/// One package of a lock file.
#[derive(Debug)]
struct Locked {
    name: String,
    version: Version,
}

/// One advisory, as far as it is needed to say whom it touches.
#[derive(Debug)]
struct Advisory {
    id: String,
    title: String,
    /// It tells of a lack of care, not of a fault.
    is_notice: bool,
    /// Versions that are free of the fault.
    safe: Vec<VersionReq>,
}

/// Compares the packages of the lock files with the advisories in `database`, or in the usual folder.
fn advisories(root: &Path, database: Option<PathBuf>) -> StepOutcome {
    let named = database.or_else(|| std::env::var_os(DATABASE_VARIABLE).map(PathBuf::from));
    let is_named = named.is_some();
    let database = named.unwrap_or_else(|| root.join(DATABASE)).join("crates");
    if !database.is_dir() {
        let what = format!("advisories: {} is no folder", database.display());
        let how = format!("to name one: {DATABASE_VARIABLE}=DIR, a copy of github.com/RustSec/advisory-db");
        return if is_named {
            Err(Failure::new(what, how))
        } else {
            Ok(End::LeftOut(format!("advisories: no database; {how}")))
        };
    }
    let ignored = ignored(&read(&root.join("deny.toml"))?);
    let mut packages = Vec::new();
    for folder in WORKSPACES {
        packages.extend(locked(&read(&root.join(folder).join("Cargo.lock"))?));
    }
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    packages.dedup_by(|a, b| a.name == b.name && a.version == b.version);
    let mut faults = 0;
    for package in &packages {
        for advisory in of_package(&database.join(&package.name)) {
            if !advisory.touches(&package.version) || ignored.contains(&advisory.id) {
                continue;
            }
            let Advisory { id, title, .. } = &advisory;
            let line = format!("{} {}: {id}: {title}", package.name, package.version);
            if advisory.is_notice {
                eprintln!("{}", paint::note(&line));
            } else {
                faults += 1;
                println!("{line}");
            }
        }
    }
    let age = newest(&database).map_or("without a date".to_owned(), |day| {
        format!("newest {} days old", today().saturating_sub(day))
    });
    eprintln!(
        "advisories: {} packages against a database, {age}",
        packages.len()
    );
    if faults == 0 {
        return Ok(End::Passed);
    }
    Err(Failure::new(
        format!("{faults} packages have known faults"),
        "cargo update -p NAME, or, where the fault does not touch us, its number and why into deny.toml",
    ))
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|cause| Failure::new(format!("{} cannot be read: {cause}", path.display()), ""))
}

/// Packages of a lock file that come from crates.io.
fn locked(text: &str) -> Vec<Locked> {
    let table: Table = text.parse().unwrap_or_default();
    let packages = table.get("package").and_then(Value::as_array);
    let package = |value: &Value| {
        let word = |key: &str| value.get(key).and_then(Value::as_str);
        (word("source")? == CRATES_IO).then_some(())?;
        Some(Locked {
            name: word("name")?.to_owned(),
            version: word("version")?.parse().ok()?,
        })
    };
    packages.into_iter().flatten().filter_map(package).collect()
}

/// Numbers that `deny.toml` says do not touch the project.
fn ignored(text: &str) -> Vec<String> {
    let table: Table = text.parse().unwrap_or_default();
    let list = table
        .get("advisories")
        .and_then(|advisories| advisories.get("ignore"))
        .and_then(Value::as_array);
    let id = |value: &Value| Some(value.as_str().or_else(|| value.get("id")?.as_str())?.to_owned());
    list.into_iter().flatten().filter_map(id).collect()
}

/// Texts of the advisories in a folder of the database, which need not exist.
fn texts(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let pages = entries.map(|entry| entry.path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect()
}

fn of_package(folder: &Path) -> Vec<Advisory> {
    texts(folder).iter().filter_map(|text| parse(text)).collect()
}

/// The table between the first fences of an advisory, and the text below.
fn front_matter(text: &str) -> Option<(Table, &str)> {
    let (table, below) = text.strip_prefix("```toml")?.split_once("```")?;
    Some((table.parse().ok()?, below))
}

/// Reads an advisory; none for one that was withdrawn or that is for other systems.
fn parse(text: &str) -> Option<Advisory> {
    let (table, below) = front_matter(text)?;
    let advisory = table.get("advisory")?;
    if advisory.get("withdrawn").is_some() {
        return None;
    }
    let systems = table
        .get("affected")
        .and_then(|affected| affected.get("os")?.as_array());
    if systems.is_some_and(|systems| !systems.iter().any(|system| system.as_str() == Some("linux"))) {
        return None;
    }
    let versions = |key: &str| {
        let list = table
            .get("versions")
            .and_then(|versions| versions.get(key)?.as_array());
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts
            .filter_map(|text| VersionReq::parse(text).ok())
            .collect::<Vec<_>>()
    };
    let kind = advisory.get("informational").and_then(Value::as_str);
    let title = below.lines().find_map(|line| line.strip_prefix("# "));
    Some(Advisory {
        id: advisory.get("id")?.as_str()?.to_owned(),
        title: title.unwrap_or_default().to_owned(),
        is_notice: kind.is_some_and(|kind| kind != "unsound"),
        safe: [versions("patched"), versions("unaffected")].concat(),
    })
}

impl Advisory {
    fn touches(&self, version: &Version) -> bool {
        !self.safe.iter().any(|safe| safe.matches(version))
    }
}

/// Day of the newest advisory, counted from 1970.
fn newest(database: &Path) -> Option<u64> {
    let folders = std::fs::read_dir(database).ok()?.flatten();
    let texts = folders.flat_map(|folder| texts(&folder.path()));
    let day = |text: String| {
        let date = text.lines().find_map(|line| line.strip_prefix("date = \""))?;
        day_of(date.get(..10)?)
    };
    texts.filter_map(day).max()
}

fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / SECONDS_A_DAY)
}

/// Days from 1970-01-01 to a date such as `2026-02-28`. Years begin in March here, so that a leap day is their last.
fn day_of(date: &str) -> Option<u64> {
    let mut parts = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = if month > 2 { year } else { year.checked_sub(1)? };
    let leap_days = year / 4 - year / 100 + year / 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    (365 * year + leap_days + day_of_year).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2020-0001\"\npackage = \"x\"\ndate = \"2020-03-01\"\n\n[versions]\npatched = [\">= 1.2.3\"]\nunaffected = [\"< 0.5.0\"]\n```\n\n# It breaks\n";

    #[test]
    fn only_versions_that_are_neither_patched_nor_unaffected_are_touched() {
        let advisory = parse(TEXT).expect("an advisory");
        assert_eq!(
            (advisory.title.as_str(), advisory.is_notice),
            ("It breaks", false)
        );
        let touched = |version: &str| advisory.touches(&version.parse().expect("a version"));
        assert!(touched("0.5.0") && touched("1.2.2"));
        assert!(!touched("0.4.9") && !touched("1.2.3"));
    }

    #[test]
    fn withdrawn_ones_and_those_for_other_systems_are_left_out() {
        let with = |line: &str| TEXT.replace("package = \"x\"", line);
        assert!(parse(&with("withdrawn = \"2021-01-01\"")).is_none());
        assert!(parse(&TEXT.replace("[versions]", "[affected]\nos = [\"windows\"]\n[versions]")).is_none());
        let notice = parse(&with("informational = \"unmaintained\"")).expect("an advisory");
        assert!(notice.is_notice);
    }

    #[test]
    fn a_lock_file_and_the_exceptions_are_read() {
        let lock = format!(
            "[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n[[package]]\nname = \"x\"\nversion = \"1.0.0\"\nsource = \"{CRATES_IO}\"\n"
        );
        let packages = locked(&lock);
        assert_eq!(packages.len(), 1);
        assert_eq!(packages[0].name, "x");
        let text = "[advisories]\nignore = [\"A\", { id = \"B\", reason = \"why\" }]\n";
        assert_eq!(ignored(text), ["A", "B"]);
    }

    #[test]
    fn days_are_counted_over_leap_years() {
        assert_eq!(day_of("1970-01-01"), Some(0));
        assert_eq!(day_of("2000-03-01"), Some(11_017));
        assert_eq!(day_of("2024-02-29"), Some(19_782));
        assert_eq!(day_of("today"), None);
    }

    #[test]
    fn a_package_with_a_known_fault_is_found_in_a_database() {
        let dir = std::env::temp_dir().join(format!("logdrive-advisories-{}", std::process::id()));
        let folder = dir.join("crates/toml");
        std::fs::create_dir_all(&folder).expect("the temporary directory is writable");
        let text = TEXT.replace("1.2.3", "99.0.0").replace("0.5.0", "0.0.1");
        std::fs::write(folder.join("RUSTSEC-2020-0001.md"), text).expect("a file");
        let root = root().expect("tests run inside the workspace");
        let failure = advisories(&root, Some(dir.clone())).err().expect("a fault");
        assert!(
            failure.message.ends_with("packages have known faults"),
            "{failure}"
        );
        std::fs::remove_dir_all(&dir).expect("the directory is ours");
    }
}
