//! The options of a file sink as every language has them: `vectors/options.json` is written from the rows, and the clients'
//! tests read it. `LOGDRIVE_BLESS=1` writes it anew; look at the difference then.

use logdrive_drain::file::FileOptions;
use logdrive_drain::schema::{Kind, Options, PROGRAM, Row, SESSION, parts, set_text, to_text, units};
use logdrive_drain::{SinkOptions, Target};
use serde_json::{Value, json};
use std::path::Path;

fn sink() -> SinkOptions {
    SinkOptions::new(Target::File(FileOptions::new("/var/log/shop.log")))
}

/// A value that is not the default.
fn sample(row: &Row) -> String {
    match &row.kind {
        Kind::Word | Kind::Parsed(_) => row.words[1].0.to_owned(),
        Kind::Size(range) => units::size_text(*range.start()),
        Kind::Count(range) => range.start().to_string(),
        Kind::Time(range) => units::duration_text(*range.start()),
        Kind::Level => "warn".to_owned(),
        Kind::Flag => "yes".to_owned(),
        Kind::Mode { most, .. } => format!("{most:04o}"),
        Kind::Path(_) | Kind::LogPath(_) => "/var/log/other\\ log".to_owned(),
        Kind::Text(_) => "# shop".to_owned(),
        kind => panic!("{}: no sample of {kind:?}", row.name),
    }
}

/// The line of a session for a value of an option.
fn session_line(part: &dyn Options, name: &str) -> Option<String> {
    let text = to_text(part);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
    line.map(str::to_owned)
}

fn case(row: &Row) -> Value {
    let text = sample(row);
    let mut changed = sink();
    if row.scope & PROGRAM != 0 {
        set_text(&mut changed, row.name, &text).unwrap_or_else(|error| panic!("{error}"));
    } else if let Target::File(file) = &mut changed.target {
        file.path = text.clone().into();
    }
    let lines = parts(&changed)
        .into_iter()
        .map(|part| session_line(part, row.name));
    let default = parts(&sink()).into_iter().find_map(|part| part.value(row.name));
    let default = match default {
        Some(value) => row.show(&value).replace('"', ""),
        None if row.off => "off".to_owned(),
        None => row.without.to_owned(),
    };
    json!({
        "name": row.name,
        "value": text,
        "session": lines.flatten().next(),
        "program": row.scope & PROGRAM != 0,
        "default": if row.name == "path" { Value::Null } else { default.into() },
        "allowed": row.allowed(),
        "help": row.help().split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

#[test]
fn vectors_of_options_are_the_rows() {
    let sink = sink();
    let mut rows: Vec<&Row> = Vec::new();
    for part in parts(&sink) {
        rows.extend(
            part.rows()
                .iter()
                .filter(|row| row.scope & (PROGRAM | SESSION) != 0),
        );
    }
    // In a session, local times of names are an option of the file.
    rows.sort_by_key(|row| row.scope & SESSION == 0);
    let mut names: Vec<&str> = Vec::new();
    rows.retain(|row| {
        !names.contains(&row.name) && {
            names.push(row.name);
            true
        }
    });
    let valid: Vec<Value> = rows.iter().map(|row| case(row)).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/options.json");
    if std::env::var_os("LOGDRIVE_BLESS").is_some() {
        let lines: Vec<String> = valid.iter().map(|case| format!("    {case}")).collect();
        let about = "Options of a file sink, written from the rows in crates/drain (LOGDRIVE_BLESS=1 cargo test -p logdrive-drain \
                     --test options). name; value: one that is not the default, as programs give it; session: the same as \
                     spec/session.md has it, null where a session does not keep it; program: whether C and C++ set it.";
        let text = format!(
            "{{\n  \"format\": \"options\",\n  \"about\": {},\n  \"valid\": [\n{}\n  ]\n}}\n",
            json!(about),
            lines.join(",\n")
        );
        std::fs::write(&path, text).expect("written");
    }
    let file = logdrive_testkit::vectors("options");
    assert_eq!(
        file["valid"],
        Value::from(valid.clone()),
        "LOGDRIVE_BLESS=1 writes the file anew"
    );
    println!("vectors: options.json: {} valid", valid.len());
}
