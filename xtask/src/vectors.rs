//! `cargo xtask vectors`: runs the tests that read `vectors/` in every language, and checks by count
//! that each language ran every case of every file. A file of bytes that only some languages read or write names them
//! as `run_by`.
//!
//! The contract: such a test has `vectors` in its name and prints one line for each file it ran in
//! full, `vectors: record.json: 12 valid, 8 invalid`.

use crate::paint;
use crate::shell::{self, CMAKE, CXX, Call, Failure, GO, Outcome, first_missing};
use crate::suite;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Cases by file name.
type Counts = BTreeMap<String, u64>;

/// Contents of `vectors/`.
struct Present {
    counts: Counts,
    /// The languages of a file that is not for all.
    run_by: BTreeMap<String, Vec<String>>,
}

pub(crate) fn run(args: &[String]) -> Outcome {
    if let Some(arg) = args.first() {
        return Err(Failure::usage(format!(
            "`{arg}` is not an argument of this command"
        )));
    }
    let root = shell::root()?;
    let present = cases(&root)?;
    let mut complaints = Vec::new();
    let mut lines = Vec::new();
    for (language, output) in outputs(&root, &mut lines)? {
        let ran = reported(&output);
        complaints.extend(compare(language, &present, &ran));
        let total: u64 = ran.values().sum();
        lines.push(format!("{language}: {total} cases of {} files", ran.len()));
        lines.extend(ran.iter().map(|(file, count)| format!("  {file}: {count}")));
    }
    println!(
        "vectors/ holds {} cases in {} files",
        present.counts.values().sum::<u64>(),
        present.counts.len()
    );
    lines.iter().for_each(|line| println!("{line}"));
    if complaints.is_empty() {
        return Ok(());
    }
    complaints
        .iter()
        .for_each(|complaint| eprintln!("{}: {complaint}", paint::bad("incomplete")));
    Err(Failure::new(
        format!("{} of the shared vectors did not run in full", complaints.len()),
        "a test with `vectors` in its name prints `vectors: FILE: N valid, M invalid` for each file it runs",
    ))
}

/// Output of the vector tests of each language. Notes about languages left out go to `notes`.
fn outputs(root: &Path, notes: &mut Vec<String>) -> Result<Vec<(&'static str, String)>, Failure> {
    let tests = "test --quiet --workspace --all-features vectors -- --nocapture";
    let mut outputs = vec![("rust", shown(Call::cargo().words(tests).dir(root))?)];
    if root.join("clients/cpp").is_dir() {
        match first_missing(&[&CMAKE, &CXX]) {
            Some(tool) => notes.push(format!("cpp: left out: {}", tool.missing())),
            None => outputs.push(("cpp", cpp(root)?)),
        }
    }
    if root.join("clients/go").is_dir() {
        if GO.present() {
            let tests = Call::new("go").words("test -count=1 -v -run (?i)vectors ./...");
            outputs.push(("go", shown(tests.dir(&root.join("clients/go")))?));
        } else {
            notes.push(format!("go: left out: {}", GO.missing()));
        }
    }
    Ok(outputs)
}

fn cpp(root: &Path) -> Result<String, Failure> {
    suite::build_cpp(root)?;
    let tests = Call::new("ctest").words("--test-dir target/cpp --tests-regex vectors --verbose");
    shown(tests.dir(root))
}

/// Announces the call like any other, but keeps what it prints.
fn shown(call: Call) -> Result<String, Failure> {
    eprintln!("{}", paint::faint(&format!("$ {}", call.line())));
    call.stdout()
}

/// Counts the cases of every file in `vectors/`.
fn cases(root: &Path) -> Result<Present, Failure> {
    let dir = root.join("vectors");
    let broken =
        |what: &Path, cause: &dyn std::fmt::Display| Failure::new(format!("{}: {cause}", what.display()), "");
    let mut counts = Counts::new();
    let mut run_by = BTreeMap::new();
    for entry in std::fs::read_dir(&dir).map_err(|cause| broken(&dir, &cause))? {
        let path = entry.map_err(|cause| broken(&dir, &cause))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|cause| broken(&path, &cause))?;
        let value: Value = serde_json::from_str(&text).map_err(|cause| broken(&path, &cause))?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if let Some(languages) = value.get("run_by").and_then(Value::as_array) {
            let languages = languages
                .iter()
                .filter_map(|word| Some(word.as_str()?.to_owned()));
            run_by.insert(name.clone(), languages.collect());
        }
        counts.insert(name, count_cases(&value));
    }
    if counts.is_empty() {
        return Err(Failure::new(
            "vectors/ holds no *.json",
            "the spec's vectors belong there",
        ));
    }
    Ok(Present { counts, run_by })
}

/// A case is an object in one of the file's top-level lists, such as `valid` and `invalid`.
fn count_cases(value: &Value) -> u64 {
    let lists: Vec<&Value> = match value {
        Value::Object(map) => map.values().collect(),
        other => vec![other],
    };
    let objects = |list: &&Value| {
        list.as_array()
            .map_or(0, |cases| cases.iter().filter(|case| case.is_object()).count())
    };
    lists.iter().map(|list| objects(list) as u64).sum()
}

/// Reads the counts out of what tests printed. Several tests may share a file: their counts add up.
fn reported(output: &str) -> Counts {
    let mut counts = Counts::new();
    for line in output.lines() {
        let Some((_, report)) = line.split_once("vectors: ") else {
            continue;
        };
        let Some((file, rest)) = report.split_once(": ") else {
            continue;
        };
        let numbers = rest
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse::<u64>().ok());
        *counts.entry(file.trim().to_owned()).or_default() += numbers.sum::<u64>();
    }
    counts
}

fn compare(language: &str, present: &Present, ran: &Counts) -> Vec<String> {
    let mut complaints = Vec::new();
    for (file, &count) in &present.counts {
        let languages = present.run_by.get(file);
        let is_asked = languages.is_none_or(|languages| languages.iter().any(|name| name == language));
        match ran.get(file) {
            None if !is_asked => {}
            None => complaints.push(format!("{language}: no test reported vectors/{file}")),
            Some(&done) if done != count => {
                complaints.push(format!(
                    "{language}: vectors/{file} holds {count} cases, {done} ran"
                ));
            }
            Some(_) => {}
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_what_tests_print() {
        let output = "running 1 test\ntest vectors ... vectors: record.json: 12 valid, 8 invalid\nok\nvectors: ring.json: 3 valid\n";
        let counts = reported(output);
        assert_eq!((counts["record.json"], counts["ring.json"]), (20, 3));
    }

    #[test]
    fn a_file_that_nobody_ran_in_full_is_named() {
        let value = serde_json::json!({"format": "record", "valid": [{}, {}], "invalid": [{}]});
        assert_eq!(count_cases(&value), 3);
        let present = Present {
            counts: Counts::from([("a.json".to_owned(), 3), ("b.json".to_owned(), 1)]),
            run_by: BTreeMap::from([("b.json".to_owned(), vec!["rust".to_owned()])]),
        };
        let ran = Counts::from([("a.json".to_owned(), 2)]);
        assert_eq!(compare("go", &present, &ran).len(), 1);
        let complaints = compare("rust", &present, &ran);
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].contains("holds 3 cases, 2 ran"), "{complaints:?}");
    }
}
