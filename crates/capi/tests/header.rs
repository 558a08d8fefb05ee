//! The header that C includes says what the library has: the same functions, the same structs, the same numbers.

use logdrive_c::{Code, LogdriveSinkStats, LogdriveStats};
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::process::Command;

const HEADER: &str = include_str!("../../../clients/cpp/include/logdrive/logdrive.h");
const ABI: &str = include_str!("../src/abi.rs");

/// A header without comments and lines of the preprocessor, in one line.
fn plain(header: &str) -> String {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        text.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The functions of the header: name, then types of result and arguments.
fn of_header() -> BTreeMap<String, Vec<String>> {
    let text = plain(HEADER);
    let statements = text
        .split(';')
        .filter(|statement| statement.contains('(') && !statement.trim().starts_with("typedef"));
    statements
        .filter_map(|statement| {
            let (front, arguments) = statement.trim().trim_end_matches(')').split_once('(')?;
            let at = front.rfind([' ', '*'])? + 1;
            let (result, name) = front.split_at(at);
            let result = result
                .rsplit('}')
                .next()
                .unwrap_or(result)
                .trim_start_matches(" extern \"C\" {");
            let mut types = vec![tidy(result)];
            for argument in arguments.split(',').filter(|argument| argument.trim() != "void") {
                let end = argument.rfind([' ', '*']).map_or(0, |at| at + 1);
                types.push(tidy(argument.get(..end).unwrap_or(argument)));
            }
            Some((name.to_owned(), types))
        })
        .collect()
}

fn tidy(text: &str) -> String {
    text.replace("extern \"C\" {", "").replace(' ', "")
}

/// The C type of a Rust type.
fn c_type(rust: &str) -> String {
    let pointee = |name: &str| match name {
        "c_char" => "char",
        "c_void" => "void",
        "u8" => "uint8_t",
        "u64" => "uint64_t",
        "Options" => "logdrive_options",
        "ForeignSite" => "logdrive_site",
        "LogdriveStats" => "logdrive_stats_t",
        "LogdriveSinkStats" => "logdrive_sink_stats_t",
        other => panic!("a type that C does not know: {other}"),
    };
    let rust = rust.trim();
    if let Some(name) = rust.strip_prefix("*const ") {
        return format!("const{}*", pointee(name));
    }
    if let Some(name) = rust.strip_prefix("*mut ") {
        return format!("{}*", pointee(name));
    }
    match rust {
        "c_int" => "int",
        "usize" => "size_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "Option<LogdriveWriteLines>" => "logdrive_write_lines",
        "Option<LogdriveRescueWork>" => "logdrive_rescue_work_fn",
        "Option<LogdriveTakeCall>" => "logdrive_take_call",
        "" => "void",
        other => panic!("a type that C does not know: {other}"),
    }
    .to_owned()
}

/// The functions that the library exports.
fn of_library() -> BTreeMap<String, Vec<String>> {
    ABI.split("#[unsafe(no_mangle)]")
        .skip(1)
        .map(|item| {
            let signature = item
                .split_once("extern \"C\" fn ")
                .unwrap()
                .1
                .split_once(" {")
                .unwrap()
                .0;
            let (name, rest) = signature.split_once('(').unwrap();
            let (arguments, result) = rest.rsplit_once(')').unwrap();
            let mut types = vec![c_type(result.trim().trim_start_matches("->"))];
            for argument in arguments
                .split(',')
                .filter(|argument| !argument.trim().is_empty())
            {
                types.push(c_type(argument.split_once(':').unwrap().1));
            }
            (name.to_owned(), types)
        })
        .collect()
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let (header, library) = (of_header(), of_library());
    assert!(library.len() >= 20, "{library:?}");
    assert_eq!(header, library);
}

#[test]
fn the_compiler_lays_structs_out_as_the_library_does() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("layout.c");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/cpp/include");
    let mut program = String::from("#include <logdrive/logdrive.h>\n");
    let mut holds = |what: String| program.push_str(&format!("_Static_assert({what}, \"layout\");\n"));
    macro_rules! same {
        ($rust:ty, $c:literal: $($field:ident),*) => {
            holds(format!("sizeof({}) == {}", $c, size_of::<$rust>()));
            $(holds(format!("offsetof({}, {}) == {}", $c, stringify!($field), offset_of!($rust, $field)));)*
        };
    }
    same!(LogdriveStats, "logdrive_stats_t": committed, dropped, disabled, sampled_out, cut, in_rings, malformed, rings,
        rings_attached, callsites, sinks);
    same!(LogdriveSinkStats, "logdrive_sink_stats_t": written_records, written_bytes, dropped, pending, errors, last_error);
    for (name, code) in [
        ("OK", Code::Ok),
        ("ERROR_ARGUMENT", Code::Argument),
        ("ERROR_RUNNING", Code::Running),
        ("ERROR_NOT_RUNNING", Code::NotRunning),
        ("ERROR_START", Code::Start),
        ("ERROR_INCOMPLETE", Code::Incomplete),
        ("ERROR_RECOVER", Code::Recover),
        ("ERROR_INTERNAL", Code::Internal),
    ] {
        holds(format!("LOGDRIVE_{name} == {}", code as i32));
    }
    for reason in logdrive::DropReason::ALL {
        holds(format!(
            "LOGDRIVE_DROP_{} == {}",
            reason.name().to_uppercase(),
            reason as usize
        ));
    }
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-fsyntax-only", "-I", include])
        .arg(&source)
        .output();
    match compiled {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => eprintln!("not tried by a C compiler: install gcc ({error})"),
    }
}
