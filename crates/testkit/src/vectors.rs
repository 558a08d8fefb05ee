//! The vectors of the format, `vectors/*.json`, which every language runs.

use serde_json::Value;
use std::path::Path;

/// Reads a file of vectors by its name, such as `agent`.
#[track_caller]
pub fn vectors(name: &str) -> Value {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let path = directory.join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs every case of a list, with a name for messages, and returns how many there are. Under Miri, which would take
/// minutes for them, leaves out cases that are long only to reach a limit.
#[track_caller]
pub fn each_case(file: &Value, list: &str, run: impl Fn(&Value, &str)) -> usize {
    let cases = file[list]
        .as_array()
        .unwrap_or_else(|| panic!("the list {list} is missing"));
    assert!(!cases.is_empty(), "{list} is empty");
    for case in cases {
        let text = case.to_string();
        if cfg!(miri) && (text.len() > 1000 || text.contains('*') || text.contains("times")) {
            continue;
        }
        run(case, &format!("{list}: {}", case["name"]));
    }
    cases.len()
}

/// Returns the bytes of a text `GROUP GROUP*N`: groups of hexadecimal digits, each as often as it says.
///
/// ```
/// assert_eq!(logdrive_testkit::hex(&"0a ff*2".into()), [10, 255, 255]);
/// ```
#[track_caller]
pub fn hex(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for group in value.as_str().expect("hex is a string").split_whitespace() {
        let (digits, times) = group.split_once('*').unwrap_or((group, "1"));
        assert!(digits.len().is_multiple_of(2), "pairs of digits: {digits}");
        let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("pairs of digits");
        let group: Vec<u8> = (0..digits.len()).step_by(2).map(pair).collect();
        bytes.extend(group.repeat(times.parse().expect("a number of times")));
    }
    bytes
}

/// Returns a number; large ones are strings.
#[track_caller]
pub fn number(value: &Value) -> u64 {
    let of_string = value.as_str().and_then(|text| text.parse().ok());
    of_string
        .or(value.as_u64())
        .unwrap_or_else(|| panic!("a number: {value}"))
}
