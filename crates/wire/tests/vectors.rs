//! The shared vectors of records, callsites and templates, each run in full and counted.
//!
//! Every case is read, and what a case says can be written is written and compared byte for byte.

use logdrive_testkit::{each_case, hex, vectors};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::template::{Align, Count, Form};
use logdrive_wire::value::DynamicFields;
use logdrive_wire::{
    Callsite, Cursor, Field, Kind, Level, Piece, RecordHeader, Scope, Spec, Template, Value, WireError,
};
use serde_json::Value as Json;

fn text(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        _ => json["text"]
            .as_str()
            .expect("a text")
            .repeat(json["times"].as_u64().expect("a number") as usize),
    }
}

fn family(error: WireError) -> &'static str {
    match error {
        WireError::Truncated { .. } => "truncated",
        WireError::Limit { .. } => "limit",
        WireError::Unknown { .. } => "unknown",
        WireError::NotUtf8 { .. } => "not_utf8",
        WireError::Template { .. } => "template",
        other => panic!("an error of no family: {other}"),
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, WireError>, case: &Json, name: &str) {
    let error = result.expect_err(name);
    assert_eq!(case["error"], family(error), "{name}: {error}");
    assert!(!error.to_string().is_empty());
}

const KINDS: [(&str, Kind); 22] = [
    ("bool", Kind::Bool),
    ("i8", Kind::I8),
    ("i16", Kind::I16),
    ("i32", Kind::I32),
    ("i64", Kind::I64),
    ("i128", Kind::I128),
    ("u8", Kind::U8),
    ("u16", Kind::U16),
    ("u32", Kind::U32),
    ("u64", Kind::U64),
    ("u128", Kind::U128),
    ("f32", Kind::F32),
    ("f64", Kind::F64),
    ("char", Kind::Char),
    ("str", Kind::Str),
    ("bytes", Kind::Bytes),
    ("display", Kind::Display),
    ("debug", Kind::Debug),
    ("pointer", Kind::Pointer),
    ("none", Kind::None),
    ("scope", Kind::Scope),
    ("message", Kind::Message),
];

fn kind(json: &Json) -> FieldKind {
    let name = json.as_str().expect("a kind is a string");
    let (plain, optional) = match name.strip_suffix('?') {
        Some(plain) => (plain, true),
        None => (name, false),
    };
    let (_, kind) = KINDS
        .into_iter()
        .find(|(name, _)| *name == plain)
        .unwrap_or_else(|| panic!("kind {name}"));
    FieldKind { kind, optional }
}

fn kinds(case: &Json) -> Vec<FieldKind> {
    case["kinds"]
        .as_array()
        .expect("kinds")
        .iter()
        .map(kind)
        .collect()
}

fn integer<T: std::str::FromStr>(json: &Json) -> T {
    json.as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("an integer as a string: {json}"))
}

fn blob(json: &Json) -> Vec<u8> {
    match json["utf8"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => hex(&json["hex"]),
    }
}

#[track_caller]
fn same(found: &Value<'_>, expected: &Json, name: &str) {
    match *found {
        Value::Bool(found) => assert_eq!(expected, found, "{name}"),
        Value::I64(found) => assert_eq!(found, integer::<i64>(expected), "{name}"),
        Value::U64(found) | Value::Pointer(found) => assert_eq!(found, integer::<u64>(expected), "{name}"),
        Value::I128(found) => assert_eq!(found, integer::<i128>(expected), "{name}"),
        Value::U128(found) => assert_eq!(found, integer::<u128>(expected), "{name}"),
        Value::F32(found) => {
            assert_eq!(format!("{:08x}", found.to_bits()), expected["bits"], "{name}");
            if let Some(decimal) = expected["decimal"].as_str() {
                assert_eq!(
                    found.to_bits(),
                    decimal.parse::<f32>().expect(name).to_bits(),
                    "{name}"
                );
            }
        }
        Value::F64(found) => {
            assert_eq!(format!("{:016x}", found.to_bits()), expected["bits"], "{name}");
            if let Some(decimal) = expected["decimal"].as_str() {
                assert_eq!(
                    found.to_bits(),
                    decimal.parse::<f64>().expect(name).to_bits(),
                    "{name}"
                );
            }
        }
        Value::Char(found) => assert_eq!(expected, &found.to_string(), "{name}"),
        Value::Str(found)
        | Value::Bytes(found)
        | Value::Display(found)
        | Value::Debug(found)
        | Value::Message(found) => assert_eq!(found, blob(expected), "{name}"),
        Value::Scope(scope) => assert_eq!(scope.bytes(), blob(expected), "{name}"),
        Value::None => assert!(expected.is_null(), "{name}"),
    }
}

/// The value has the variant that its kind asks for.
fn fits_kind(value: &Value<'_>, kind: FieldKind) -> bool {
    use Kind::{I8, I16, I32, I64, U8, U16, U32, U64};
    match value {
        Value::None => kind.optional || kind.kind == Kind::None,
        Value::I64(_) => matches!(kind.kind, I8 | I16 | I32 | I64),
        Value::U64(_) => matches!(kind.kind, U8 | U16 | U32 | U64),
        Value::Bool(_) => kind.kind == Kind::Bool,
        Value::I128(_) => kind.kind == Kind::I128,
        Value::U128(_) => kind.kind == Kind::U128,
        Value::F32(_) => kind.kind == Kind::F32,
        Value::F64(_) => kind.kind == Kind::F64,
        Value::Char(_) => kind.kind == Kind::Char,
        Value::Str(_) => kind.kind == Kind::Str,
        Value::Bytes(_) => kind.kind == Kind::Bytes,
        Value::Display(_) => kind.kind == Kind::Display,
        Value::Debug(_) => kind.kind == Kind::Debug,
        Value::Pointer(_) => kind.kind == Kind::Pointer,
        Value::Scope(_) => kind.kind == Kind::Scope,
        Value::Message(_) => kind.kind == Kind::Message,
    }
}

fn read_values(case: &Json, bytes: &[u8], name: &str) -> Result<usize, WireError> {
    let mut cursor = Cursor::new(bytes);
    for (index, kind) in kinds(case).into_iter().enumerate() {
        let (value, optional) = Value::read(kind, &mut cursor)?;
        assert_eq!(optional, kind.optional, "{name}");
        assert!(fits_kind(&value, kind), "{name}: {value:?}");
        same(&value, &case["values"][index], name);
    }
    Ok(cursor.offset())
}

/// Reads a sequence of dynamic fields and compares; the error that ended it, if any.
fn read_fields(mut fields: DynamicFields<'_>, expected: &Json, name: &str) -> Result<(), WireError> {
    let mut expected = expected.as_array().expect("fields").iter();
    while let Some(named) = fields.next_value()? {
        let expected = expected
            .next()
            .unwrap_or_else(|| panic!("{name}: one field too many"));
        match named.index {
            Some(index) => assert_eq!(expected["index"], index, "{name}"),
            None => assert_eq!(expected["key"], named.key, "{name}"),
        }
        let kind = kind(&expected["kind"]);
        assert_eq!(named.optional, kind.optional, "{name}");
        assert!(fits_kind(&named.value, kind), "{name}: {:?}", named.value);
        same(&named.value, &expected["value"], name);
    }
    assert_eq!(expected.len(), 0, "{name}: fields are missing");
    Ok(())
}

#[test]
fn record_vectors() {
    let file = vectors("record");
    let mut valid = each_case(&file, "headers", |case, name| {
        let bytes = hex(&case["hex"]);
        let header = RecordHeader::decode(&bytes).expect(name);
        assert_eq!(case["length_bytes"], header.length_bytes, "{name}");
        assert_eq!(case["callsite_id"], header.callsite_id, "{name}");
        assert_eq!(header.time_ticks, integer::<u64>(&case["time_ticks"]), "{name}");
        assert_eq!(header.encode(), bytes[..16], "{name}");
    });
    valid += each_case(&file, "values", |case, name| {
        let used = read_values(case, &hex(&case["hex"]), name).expect(name);
        assert_eq!(
            case["values"].as_array().map(Vec::len),
            Some(kinds(case).len()),
            "{name}"
        );
        assert!(used <= hex(&case["hex"]).len(), "{name}");
    });
    valid += each_case(&file, "dynamic", |case, name| {
        read_fields(DynamicFields::new(&hex(&case["hex"])), &case["fields"], name).expect(name);
    });
    valid += each_case(&file, "scopes", |case, name| {
        let bytes = hex(&case["hex"]);
        let spans: Vec<_> = Scope::new(&bytes).spans().map(|span| span.expect(name)).collect();
        let expected = case["spans"].as_array().expect("spans");
        assert_eq!(spans.len(), expected.len(), "{name}");
        for (span, expected) in spans.iter().zip(expected) {
            assert_eq!(expected["name"], span.name, "{name}");
            read_fields(span.fields, &expected["fields"], name).expect(name);
        }
    });
    let invalid = invalid_records(&file);
    println!("vectors: record.json: {valid} valid, {invalid} invalid");
    assert!(
        valid >= 60 && invalid >= 65,
        "cases have gone missing: {valid} {invalid}"
    );
}

fn invalid_records(file: &Json) -> usize {
    let mut invalid = each_case(file, "invalid_headers", |case, name| {
        refused(RecordHeader::decode(&hex(&case["hex"])), case, name);
    });
    invalid += each_case(file, "invalid_kinds", |case, name| {
        let code = case["code"]
            .as_u64()
            .and_then(|code| u8::try_from(code).ok())
            .expect(name);
        refused(FieldKind::from_code(code), case, name);
    });
    invalid += each_case(file, "invalid_values", |case, name| {
        let bytes = hex(&case["hex"]);
        let mut cursor = Cursor::new(&bytes);
        let read = kinds(case)
            .into_iter()
            .try_for_each(|kind| Value::read(kind, &mut cursor).map(drop));
        refused(read, case, name);
    });
    invalid += each_case(file, "invalid_dynamic", |case, name| {
        refused(
            read_to_error(DynamicFields::new(&hex(&case["hex"])), &case["fields"], name),
            case,
            name,
        );
    });
    invalid += each_case(file, "invalid_scopes", |case, name| {
        let bytes = hex(&case["hex"]);
        let mut spans = Scope::new(&bytes).spans();
        for _ in 0..case["good_spans"].as_u64().expect(name) {
            spans.next().expect(name).expect(name);
        }
        refused(spans.next().expect(name), case, name);
        assert!(spans.next().is_none(), "{name}: nothing follows an error");
    });
    invalid
}

/// As [`read_fields`], where the fields before the error are right.
fn read_to_error(mut fields: DynamicFields<'_>, expected: &Json, name: &str) -> Result<(), WireError> {
    for expected in expected.as_array().expect("fields") {
        let named = fields.next_value().expect(name).expect(name);
        same(&named.value, &expected["value"], name);
    }
    fields.next_value().map(drop)
}

fn level(json: &Json) -> Level {
    json.as_str().and_then(|name| name.parse().ok()).expect("a level")
}

fn callsite(json: &Json) -> Callsite {
    let field = |json: &Json| Field {
        name: text(&json["name"]),
        kind: kind(&json["kind"]),
        argument: json["argument"].as_bool().expect("a bool"),
    };
    Callsite {
        level: level(&json["level"]),
        dynamic: json["dynamic"].as_bool().expect("a bool"),
        line: json["line"]
            .as_u64()
            .and_then(|line| line.try_into().ok())
            .expect("a line"),
        file: text(&json["file"]),
        module: text(&json["module"]),
        target: text(&json["target"]),
        message: text(&json["message"]),
        fields: json["fields"]
            .as_array()
            .expect("fields")
            .iter()
            .map(field)
            .collect(),
    }
}

#[test]
fn callsite_vectors() {
    let file = vectors("callsite");
    let valid = each_case(&file, "valid", |case, name| {
        let bytes = hex(&case["hex"]);
        let expected = callsite(&case["callsite"]);
        assert_eq!(Callsite::decode(&bytes).expect(name), expected, "{name}");
        assert_eq!(expected.encode().expect(name), bytes, "{name}");
        // Some cuts of every length; all of them where the callsite is short.
        for length in (0..bytes.len()).step_by(1 + bytes.len() / 200) {
            let error = Callsite::decode(&bytes[..length]).expect_err(name);
            assert_eq!(family(error), "truncated", "{name}, cut to {length} bytes");
        }
    });
    let invalid = each_case(&file, "invalid", |case, name| {
        refused(Callsite::decode(&hex(&case["hex"])), case, name)
    });
    println!("vectors: callsite.json: {valid} valid, {invalid} invalid");
    assert!(
        valid >= 18 && invalid >= 57,
        "cases have gone missing: {valid} {invalid}"
    );
}

fn count(json: &Json) -> Option<Count> {
    let number = |json: &Json| json.as_u64().map(|number| number as usize);
    number(&json["fixed"])
        .map(Count::Fixed)
        .or(number(&json["field"]).map(Count::Field))
}

fn spec(json: &Json) -> Spec {
    let character = |json: &Json| json.as_str().and_then(|text| text.chars().next());
    Spec {
        fill: character(&json["fill"]),
        align: json["align"].as_str().map(|name| match name {
            "left" => Align::Left,
            "center" => Align::Center,
            "right" => Align::Right,
            _ => panic!("align {name}"),
        }),
        plus: json["plus"].as_bool().unwrap_or(false),
        alternate: json["alternate"].as_bool().unwrap_or(false),
        zero: json["zero"].as_bool().unwrap_or(false),
        width: count(&json["width"]),
        precision: count(&json["precision"]),
        form: form(json["form"].as_str().unwrap_or("display")),
    }
}

fn form(name: &str) -> Form {
    match name {
        "display" => Form::Display,
        "debug" => Form::Debug,
        "lower_hex" => Form::LowerHex,
        "upper_hex" => Form::UpperHex,
        "octal" => Form::Octal,
        "binary" => Form::Binary,
        "lower_exp" => Form::LowerExp,
        "upper_exp" => Form::UpperExp,
        "pointer" => Form::Pointer,
        "fixed" => Form::Fixed,
        "general" => Form::General,
        "debug_lower_hex" => Form::DebugLowerHex,
        "debug_upper_hex" => Form::DebugUpperHex,
        _ => panic!("form {name}"),
    }
}

fn parse(case: &Json) -> Result<Template, WireError> {
    let fields = case["fields"].as_array().expect("fields");
    let index_of = |name: &str| fields.iter().position(|field| field == name);
    Template::parse(case["text"].as_str().expect("text"), index_of)
}

#[test]
fn template_vectors() {
    let file = vectors("template");
    let valid = each_case(&file, "valid", |case, name| {
        let piece = |json: &Json| match json["literal"].as_str() {
            Some(text) => Piece::Literal(text.to_owned()),
            None => Piece::Field {
                index: json["field"].as_u64().expect("an index") as usize,
                spec: spec(&json["spec"]),
            },
        };
        let expected: Vec<Piece> = case["pieces"]
            .as_array()
            .expect("pieces")
            .iter()
            .map(piece)
            .collect();
        assert_eq!(parse(case).expect(name).pieces, expected, "{name}");
    });
    let invalid = each_case(&file, "invalid", |case, name| refused(parse(case), case, name));
    println!("vectors: template.json: {valid} valid, {invalid} invalid");
    assert!(
        valid >= 62 && invalid >= 35,
        "cases have gone missing: {valid} {invalid}"
    );
}
