//! The exact lines of each style.

use logdrive_drain::layout::{Layout, LayoutError, LayoutOptions, Outcome, ProcessInfo, Style};
use logdrive_wire::{Callsite, Kind, Level};

use crate::records::{Payload, field, layout, line, optional, pattern, record, site, write};

fn order() -> (Callsite, Payload) {
    let fields = [
        field("id", Kind::U64, true),
        field("price", Kind::F64, true),
        field("side", Kind::Str, false),
        optional("note", Kind::Str, false),
        optional("left", Kind::I32, false),
    ];
    let payload = Payload::default()
        .raw(&7u64.to_le_bytes())
        .raw(&12.345f64.to_le_bytes())
        .blob(b"buy now")
        .raw(&[0])
        .raw(&[1])
        .raw(&(-3i32).to_le_bytes());
    (site("order {0} at {1:.2}", &fields), payload)
}

/// A `tracing` event in two spans, with a key of its own.
fn event() -> (Callsite, Payload) {
    let inner = Payload::default()
        .key(Kind::U64.code(), "id")
        .raw(&9u64.to_le_bytes());
    let inner = inner.key(Kind::Str.code(), "name").blob(b"a b");
    let spans = Payload::default().short("outer").short("");
    let spans = spans
        .short("inner")
        .raw(&(inner.0.len() as u16).to_le_bytes())
        .raw(&inner.0);
    let payload = Payload::default()
        .key(Kind::Scope.code(), "")
        .blob(&spans.0)
        .tag(Kind::Bool.code(), 0)
        .raw(&[1])
        .key(Kind::F64.code(), "took")
        .raw(&0.25f64.to_le_bytes())
        .tag(Kind::Str.code() | Kind::OPTIONAL, 1)
        .raw(&[0]);
    let site = Callsite {
        dynamic: true,
        ..site(
            "done",
            &[field("ok", Kind::Bool, false), field("level", Kind::Str, false)],
        )
    };
    (site, payload)
}

#[test]
fn text_shows_what_the_message_does_not() {
    let (site, payload) = order();
    assert_eq!(
        line(Style::Text, &site, &payload),
        r#"2026-11-21T12:34:56.123456789Z INFO  main app::net session.rs:42 order 7 at 12.35 side="buy now" left=-3"#
    );
    let site = Callsite {
        target: "net".into(),
        level: Level::Error,
        ..site
    };
    assert_eq!(
        line(Style::Text, &site, &payload),
        r#"2026-11-21T12:34:56.123456789Z ERROR main net session.rs:42 order 7 at 12.35 side="buy now" left=-3"#
    );
}

#[test]
fn every_part_of_a_text_line_may_be_missing() {
    let empty = Callsite {
        level: Level::Warn,
        ..Callsite::default()
    };
    assert_eq!(
        line(Style::Text, &empty, &Payload::default()),
        "2026-11-21T12:34:56.123456789Z WARN  main"
    );
    let fields = Callsite {
        fields: vec![field("", Kind::U8, false)],
        ..empty.clone()
    };
    let payload = Payload::default().raw(&[5]);
    assert_eq!(
        line(Style::Text, &fields, &payload),
        "2026-11-21T12:34:56.123456789Z WARN  main arg0=5"
    );
    let dynamic = Callsite {
        dynamic: true,
        ..empty
    };
    let payload = Payload::default().key(Kind::U8.code(), "").raw(&[5]);
    assert_eq!(
        line(Style::Text, &dynamic, &payload),
        "2026-11-21T12:34:56.123456789Z WARN  main arg=5"
    );
}

#[test]
fn glog_looks_as_its_readers_expect() {
    let (site, payload) = order();
    assert_eq!(
        line(Style::Glog, &site, &payload),
        r#"I20261121 12:34:56.123456    93 session.rs:42] order 7 at 12.35 side="buy now" left=-3"#
    );
}

#[test]
fn a_callsite_of_the_last_line_has_no_front_where_lines_are_those_of_glog_to_the_byte() {
    let (mut site, payload) = order();
    site.line = u32::MAX;
    assert_eq!(
        line(Style::GlogRaw, &site, &payload),
        r#"order 7 at 12.35 side="buy now" left=-3"#
    );
    assert_eq!(
        line(Style::Glog, &site, &payload),
        r#"I20261121 12:34:56.123456    93 session.rs:4294967295] order 7 at 12.35 side="buy now" left=-3"#
    );
}

#[test]
fn json_has_typed_fields() {
    let (site, payload) = order();
    assert_eq!(
        line(Style::Json, &site, &payload),
        concat!(
            r#"{"ts":"2026-11-21T12:34:56.123456789Z","level":"INFO","thread":"main","module":"app::net","#,
            r#""file":"src/net/session.rs","line":42,"message":"order 7 at 12.35","id":7,"price":12.345,"#,
            r#""side":"buy now","note":null,"left":-3}"#
        )
    );
}

#[test]
fn slog_nests_fields_and_keeps_json() {
    let fields = [
        field("id", Kind::U64, false),
        field("g.a", Kind::Bool, false),
        field("g.h.b", Kind::U64, false),
        field("g.h.list", Kind::Debug, false),
        field("g.c", Kind::Debug, false),
        field(r"http\.status", Kind::None, false),
        field(r"x.\", Kind::Str, false),
    ];
    let payload = Payload::default()
        .raw(&7u64.to_le_bytes())
        .raw(&[1])
        .raw(&8u64.to_le_bytes())
        .blob(b"[1,{\"a\":\"\\u00e9\xe2\x80\xae\"}]")
        .blob(b"[1, two]")
        .blob(b"end");
    assert_eq!(
        line(Style::Slog, &site("said {{}}", &fields), &payload),
        concat!(
            r#"{"time":"2026-11-21T12:34:56.123456789Z","level":"INFO","msg":"said {}","id":7,"g":{"a":true,"h":{"b":8,"#,
            r#""list":[1,{"a":"\u00e9\u202e"}]},"c":"[1, two]"},"http.status":null,"x":{"":"end"}}"#
        )
    );
    let whole = site("", &[field("", Kind::Debug, false)]);
    let payload = Payload::default().blob(br#"{"level":"INFO+1","a":1}"#);
    assert_eq!(line(Style::Slog, &whole, &payload), r#"{"level":"INFO+1","a":1}"#);
}

#[test]
fn logfmt_quotes_what_it_must() {
    let (site, payload) = order();
    assert_eq!(
        line(Style::Logfmt, &site, &payload),
        concat!(
            "ts=2026-11-21T12:34:56.123456789Z level=info thread=main module=app::net file=src/net/session.rs ",
            r#"line=42 message="order 7 at 12.35" id=7 price=12.345 side="buy now" left=-3"#
        )
    );
}

#[test]
fn spans_and_dynamic_fields_have_their_place_in_each_style() {
    let (site, payload) = event();
    assert_eq!(
        line(Style::Text, &site, &payload),
        "2026-11-21T12:34:56.123456789Z INFO  main app::net session.rs:42 \
         outer:inner{id=9 name=\"a b\"}: done ok=true took=0.25"
    );
    assert!(line(Style::Json, &site, &payload).ends_with(
        r#""message":"done","ok":true,"took":0.25,"level_1":null,"spans":[{"name":"outer"},{"name":"inner","id":9,"name_1":"a b"}]}"#
    ));
    assert!(
        line(Style::Logfmt, &site, &payload)
            .ends_with(r#" message="done" ok=true took=0.25 spans="outer:inner{id=9 name=\"a b\"}""#)
    );
    assert_eq!(
        line(pattern("{spans}|{message}|{fields}"), &site, &payload),
        r#"outer:inner{id=9 name="a b"}: |done| ok=true took=0.25"#
    );
}

#[test]
fn spans_that_come_again_look_the_same() {
    let (site, payload) = event();
    for style in [Style::Text, Style::Json, Style::Logfmt] {
        let mut layout = layout(style.into());
        let plan = layout.compile(&site);
        let first = write(&mut layout, &plan, &record(&payload.0));
        assert_eq!(write(&mut layout, &plan, &record(&payload.0)), first);
    }
}

#[test]
fn a_message_of_the_record_takes_the_templates_place_wherever_it_stands() {
    let dynamic = |message: &str| Callsite {
        dynamic: true,
        ..site(message, &[field("n", Kind::U8, false)])
    };
    let leading = Payload::default()
        .key(Kind::Message.code(), "")
        .blob(b"made {here}")
        .tag(Kind::U8.code(), 0)
        .raw(&[1]);
    assert_eq!(
        line(pattern("{message}{fields}"), &dynamic("constant"), &leading),
        "made {here} n=1"
    );
    let later = Payload::default()
        .tag(Kind::U8.code(), 0)
        .raw(&[1])
        .key(Kind::Message.code(), "")
        .blob(b"made");
    assert_eq!(
        line(pattern("{message}{fields}"), &dynamic(""), &later),
        "made n=1"
    );
    assert_eq!(
        line(pattern("{message}{fields}"), &dynamic("{kept}"), &later),
        "{kept} n=1 arg=made"
    );
}

#[test]
fn a_message_behind_other_values_of_a_callsite_without_fields_is_no_mistake() {
    let site = Callsite {
        dynamic: true,
        ..site("", &[])
    };
    let payload = Payload::default()
        .key(Kind::U8.code(), "n")
        .raw(&[1])
        .tag(Kind::Message.code(), 0)
        .blob(b"made");
    assert!(line(Style::Json, &site, &payload).ends_with(r#""message":"made","n":1}"#));
    assert_eq!(line(pattern("{message}{fields}"), &site, &payload), "made n=1");
}

#[test]
fn keys_stand_once_in_structured_lines() {
    let dynamic = Callsite {
        dynamic: true,
        ..site("m", &[field("a", Kind::U8, false)])
    };
    let mut payload = Payload::default()
        .tag(Kind::U8.code(), 0)
        .raw(&[1])
        .tag(Kind::U8.code(), 0)
        .raw(&[2]);
    for key in ["a", "message", "b", "b", "b", "ts"] {
        payload = payload.key(Kind::U8.code(), key).raw(&[3]);
    }
    assert!(
        line(Style::Json, &dynamic, &payload).ends_with(
            r#""message":"m","a":1,"a_1":2,"a_2":3,"message_1":3,"b":3,"b_1":3,"b_2":3,"ts_1":3}"#
        )
    );
    assert!(line(pattern("{fields}"), &dynamic, &payload).starts_with(" a=1 a=2 a=3 message=3 b=3 b=3"));
}

#[test]
fn patterns_show_what_they_name() {
    let (site, payload) = order();
    for (text, expected) in [
        (
            "{time:%d/%m/%Y %H:%M:%S.%3f %:z} {level:1}",
            "21/11/2026 12:34:56.123 Z I",
        ),
        (
            "{time:%a %b %d %T} {time:unix_ms}",
            "Sat Nov 21 12:34:56 1795264496123",
        ),
        ("{level:>7}|{level:<7}|{level:.3}|", "   INFO|INFO   |INF|"),
        ("{thread:*^8}|{thread_id:>5}|{thread:.2}|", "**main**|   93|ma|"),
        (
            "{module} {target} {file} {path} {line:04}",
            "app::net app::net session.rs src/net/session.rs 42  ",
        ),
        ("{message:.9}|{message:>22}|", "order 7 a|      order 7 at 12.35|"),
        ("{message} {fields}", r#"order 7 at 12.35 side="buy now" left=-3"#),
        ("[{fields}]", r#"[ side="buy now" left=-3]"#),
        (
            "{pid} {app} {host:6}|{{{message}}}",
            "417 shop web-1 |{order 7 at 12.35}",
        ),
        ("tab\there", "tab\there"),
        ("", ""),
    ] {
        assert_eq!(line(pattern(text), &site, &payload), expected, "{text}");
    }
}

#[test]
fn a_raw_message_is_shown_as_it_is() {
    let site = site("two\nlines {0} é", &[field("text", Kind::Str, true)]);
    let payload = Payload::default().blob(b"\x1b[1m\\\xff");
    let mut layout = layout(pattern("{level:1} {raw_message}|{message}").into());
    let plan = layout.compile(&site);
    let (_, bytes) = write(&mut layout, &plan, &record(&payload.0));
    let expected = b"I two\nlines \x1b[1m\\\xff \xc3\xa9|two\\nlines \\x1b[1m\\\\\\xff \xc3\xa9\n";
    assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(expected));
}

#[test]
fn colours_are_around_the_level_and_the_place_only() {
    let (site, payload) = order();
    let options = LayoutOptions {
        color: true,
        ..LayoutOptions::from(Style::Text)
    };
    let colored = line(options, &site, &payload);
    assert_eq!(
        colored,
        "\x1b[2m2026-11-21T12:34:56.123456789Z\x1b[0m \x1b[32mINFO\x1b[0m  main \x1b[2mapp::net session.rs:42\x1b[0m \
         order 7 at 12.35 side=\"buy now\" left=-3"
    );
    let options = LayoutOptions {
        color: true,
        ..LayoutOptions::from(Style::Json)
    };
    assert!(!line(options, &site, &payload).contains('\x1b'));
}

#[test]
fn names_and_templates_cannot_break_a_line() {
    let nasty = "a\nb\u{1b}[2J\u{202e}";
    let nasty_site = Callsite {
        file: nasty.into(),
        module: nasty.into(),
        target: nasty.into(),
        ..site(nasty, &[field("k =\"\n", Kind::Str, false)])
    };
    let payload = Payload::default().blob(nasty.as_bytes());
    let found = line(Style::Text, &nasty_site, &payload);
    assert!(
        found.ends_with(r#"a\nb\x1b[2J\u{202e} k\x20\x3d\x22\n=a\nb\x1b[2J\u{202e}"#),
        "{found}"
    );
    assert!(line(Style::Json, &nasty_site, &payload).contains(r#""message":"a\nb\u001b[2J\u202e""#));
}

#[test]
fn a_template_that_cannot_be_used_is_shown_with_all_fields() {
    let fields = [
        field("id", Kind::U8, true),
        field("", Kind::Str, true),
        field("n", Kind::I8, false),
    ];
    let payload = Payload::default().raw(&[7]).blob(b"x y").raw(&[0xff]);
    for template in ["bad {", "{9}", "{nope}", "{0:1$}", &"{0}".repeat(2000)] {
        let site = site(template, &fields);
        let expected = format!(r#"{template} id=7 arg1="x y" n=-1"#);
        assert_eq!(line(pattern("{message}{fields}"), &site, &payload), expected);
        let json = line(Style::Json, &site, &payload);
        assert!(json.ends_with(r#","id":7,"arg1":"x y","n":-1}"#), "{json}");
    }
}

#[test]
fn a_payload_that_ends_early_gives_what_could_be_read() {
    let (site, payload) = order();
    let cut = &payload.0[..20];
    let broken = |style: Style| {
        let mut layout = layout(style.into());
        let plan = layout.compile(&site);
        let (outcome, bytes) = write(&mut layout, &plan, &record(cut));
        assert_eq!(outcome, Outcome::Malformed);
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(
        broken(Style::Text),
        "2026-11-21T12:34:56.123456789Z INFO  main app::net session.rs:42 order {0} at {1:.2} id=7 price=12.345 \
         [malformed record]\n"
    );
    assert!(
        broken(Style::Json)
            .ends_with("\"message\":\"order {0} at {1:.2}\",\"id\":7,\"price\":12.345,\"malformed\":true}\n")
    );
    assert!(broken(Style::Logfmt).ends_with(" id=7 price=12.345 malformed=true\n"));
}

#[test]
fn wrong_options_are_refused() {
    let new = |style: Style| Layout::new(style.into(), ProcessInfo::default()).map(|_| ());
    assert!(matches!(
        new(pattern("{what}")),
        Err(LayoutError::Pattern { offset: 0, .. })
    ));
    assert!(matches!(
        new(pattern(&"x".repeat(2000))),
        Err(LayoutError::TooLong { .. })
    ));
    let process = ProcessInfo {
        host: "h".repeat(999),
        ..ProcessInfo::default()
    };
    assert!(matches!(
        Layout::new(Style::Text.into(), process),
        Err(LayoutError::TooLong { .. })
    ));
}

#[test]
fn a_thread_without_a_name_is_shown_by_its_id() {
    for (style, part) in [
        (Style::Text, " INFO  93 "),
        (Style::Json, "\"thread\":\"93\""),
        (Style::Logfmt, " thread=93 "),
        (pattern("{thread}."), "93."),
    ] {
        let mut layout = layout(style.into());
        let plan = layout.compile(&site("m", &[]));
        let mut unnamed = record(&[]);
        unnamed.thread.name = "";
        let (_, bytes) = write(&mut layout, &plan, &unnamed);
        assert!(String::from_utf8_lossy(&bytes).contains(part));
        unnamed.thread.name = "a thread \"with\" a long name\n";
        let (_, bytes) = write(&mut layout, &plan, &unnamed);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}

/// The keys that `spec/lines.md` names, as its table has them.
fn keys_of_the_page() -> Vec<&'static str> {
    let page = include_str!("../../../../spec/lines.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    cells
        .flat_map(|cell| cell.trim_end_matches('`').split("`, `"))
        .collect()
}

#[test]
fn json_and_logfmt_have_the_keys_of_the_page_and_no_others() {
    let keys = keys_of_the_page();
    assert_eq!(keys.len(), 13, "{keys:?}");
    let names = [&keys[..], &["caller", "msg"]].concat();
    let fields: Vec<_> = names.iter().map(|name| field(name, Kind::U64, false)).collect();
    let payload = (0..names.len()).fold(Payload::default(), |payload, at| {
        payload.raw(&(at as u64).to_le_bytes())
    });
    let site = Callsite {
        target: "net".into(),
        ..site("said", &fields)
    };
    let process = ProcessInfo {
        app: "shop".into(),
        pid: 7,
        host: String::new(),
    };
    for (style, begin, end) in [(Style::Json, "\"", "\":"), (Style::Logfmt, " ", "=")] {
        let mut layout = layout(style.into());
        let plan = layout.compile_for(&site, &process);
        let (outcome, bytes) = write(&mut layout, &plan, &record(&payload.0));
        assert_eq!(outcome, Outcome::Done);
        let text = format!(" {}", String::from_utf8_lossy(&bytes));
        let has = |key: &str| text.contains(&format!("{begin}{key}{end}"));
        for key in &keys {
            assert!(has(&format!("{key}_1")), "{key} in {text}");
            let is_part = !matches!(*key, "spans" | "malformed" | "cut");
            assert_eq!(has(key), is_part, "{key} in {text}");
        }
        assert!(has("caller") && has("msg"), "{text}");
    }
}
