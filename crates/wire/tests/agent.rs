//! Messages between processes and agents: the shared vectors, run in full and counted, and mutations of good ones.

use logdrive_testkit::{Random, hex, number, vectors};
use logdrive_wire::WireError;
use logdrive_wire::agent::{
    Adopt, HEADER_BYTES, Hello, Keep, Message, Refused, RefusedCode, SessionEntry, SessionState, Welcome,
    is_other_version,
};
use serde_json::Value as Json;

fn bytes(case: &Json) -> Vec<u8> {
    hex(&case["hex"])
}

fn short(json: &Json) -> u32 {
    json.as_u64()
        .and_then(|number| number.try_into().ok())
        .expect("a number")
}

fn text(json: &Json) -> String {
    json.as_str().expect("a text").to_owned()
}

fn yes(json: &Json) -> bool {
    json.as_bool().expect("true or false")
}

fn entry(json: &Json) -> SessionEntry {
    SessionEntry {
        session: number(&json["session"]),
        start_unix_ns: number(&json["start_unix_ns"]),
        pid: short(&json["pid"]),
        uid: short(&json["uid"]),
        ring_count: short(&json["ring_count"]),
        state: match short(&json["state"]) {
            1 => SessionState::Connected,
            2 => SessionState::Away,
            3 => SessionState::Ending,
            other => panic!("state {other}"),
        },
        app: text(&json["app"]),
    }
}

fn keep(fields: &Json) -> Keep {
    let callsites = fields["trigger_callsites"].as_array().expect("a list");
    let level = fields["trigger_level"].as_str();
    Keep {
        bytes: number(&fields["bytes"]),
        before_ns: number(&fields["before_ns"]),
        pause_ns: number(&fields["pause_ns"]),
        trigger_level: level.map(|level| level.parse().expect("a level")),
        on_crash: yes(&fields["on_crash"]),
        trigger_callsites: callsites.iter().map(text).collect(),
    }
}

/// The message that a case describes.
fn described(kind: &str, fields: &Json) -> Message {
    let f = |name: &str| &fields[name];
    match kind {
        "hello" => Message::Hello(Hello {
            app: text(f("app")),
            ring_bytes: number(f("ring_bytes")),
            ring_count: short(f("ring_count")),
            policy: short(f("policy")),
            coarse: yes(f("coarse")),
        }),
        "welcome" => Message::Welcome(Welcome {
            session: number(f("session")),
            journal: number(f("journal")),
            ring_bytes: number(f("ring_bytes")),
            clock_source: short(f("clock_source")),
            ring_count: short(f("ring_count")),
            rings_max: short(f("rings_max")),
        }),
        "refused" => Message::Refused(Refused {
            code: RefusedCode::from_code(short(f("code"))),
            reason: text(f("reason")),
            advice: text(f("advice")),
        }),
        "more_rings" => Message::MoreRings {
            count: short(f("count")),
        },
        "small_rings" => Message::SmallRings {
            count: short(f("count")),
        },
        "rings" => Message::Rings {
            first: short(f("first")),
            count: short(f("count")),
            reason: text(f("reason")),
        },
        "adopt" => Message::Adopt(Adopt {
            session: number(f("session")),
            journal: number(f("journal")),
            ring_bytes: number(f("ring_bytes")),
            ring_total: short(f("ring_total")),
            ring_count: short(f("ring_count")),
            policy: short(f("policy")),
            coarse: yes(f("coarse")),
        }),
        "welcome_back" => Message::WelcomeBack {
            session: number(f("session")),
            journal: number(f("journal")),
            ring_total: short(f("ring_total")),
            rings_max: short(f("rings_max")),
        },
        "bye" => Message::Bye,
        "done" => Message::Done {
            complete: yes(f("complete")),
        },
        "flush" => Message::Flush {
            ticket: number(f("ticket")),
            durable: yes(f("durable")),
        },
        "flushed" => Message::Flushed {
            ticket: number(f("ticket")),
            reached: yes(f("reached")),
        },
        "bell" => Message::Bell,
        "keep" => Message::Keep(keep(fields)),
        "write_kept" => Message::WriteKept {
            ticket: number(f("ticket")),
            span_ns: number(f("span_ns")),
        },
        other => described_of_tools(other, fields),
    }
}

fn described_of_tools(kind: &str, fields: &Json) -> Message {
    let f = |name: &str| &fields[name];
    match kind {
        "list" => Message::List {
            above: number(f("above")),
        },
        "sessions" => Message::Sessions {
            more: yes(f("more")),
            entries: f("entries")
                .as_array()
                .expect("a list")
                .iter()
                .map(entry)
                .collect(),
        },
        "open" => Message::Open {
            session: number(f("session")),
        },
        "session" => Message::Session {
            session: number(f("session")),
            ring_total: short(f("ring_total")),
            ring_count: short(f("ring_count")),
        },
        "stats" => Message::Stats,
        "reload" => Message::Reload,
        "dump" => Message::Dump {
            span_ns: number(f("span_ns")),
            app: text(f("app")),
        },
        "dump_session" => Message::DumpSession {
            session: number(f("session")),
            span_ns: number(f("span_ns")),
        },
        "files" => Message::Files {
            session: number(f("session")),
            written: yes(f("written")),
        },
        "answer" => Message::Answer {
            more: yes(f("more")),
            text: text(f("text")),
        },
        other => panic!("kind {other}"),
    }
}

fn family(error: WireError) -> &'static str {
    match error {
        WireError::Truncated { .. } => "truncated",
        WireError::Limit { .. } => "limit",
        WireError::Unknown { .. } => "unknown",
        WireError::NotUtf8 { .. } => "not_utf8",
        other => panic!("an error of no family: {other}"),
    }
}

#[test]
fn agent_vectors() {
    let file = vectors("agent");
    let valid = file["messages"].as_array().expect("messages");
    for case in valid {
        let name = &case["name"];
        let kind = case["kind"].as_str().expect("a kind");
        let bytes = bytes(case);
        let message = Message::decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message, described(kind, &case["fields"]), "{name}");
        assert_eq!(message.name(), kind, "{name}");
        assert_eq!(message.descriptors(), short(&case["descriptors"]), "{name}");
        assert_eq!(message.encode().expect("it was read"), bytes, "{name}");
    }
    let invalid = file["invalid_messages"].as_array().expect("invalid_messages");
    for case in invalid {
        let name = &case["name"];
        let error = Message::decode(&bytes(case)).expect_err(&name.to_string());
        assert!(!error.to_string().is_empty());
        assert_eq!(case["error"], family(error), "{name}: {error}");
    }
    println!(
        "vectors: agent.json: {} valid, {} invalid",
        valid.len(),
        invalid.len()
    );
    assert!(
        valid.len() >= 48 && invalid.len() >= 86,
        "cases have gone missing"
    );
}

#[test]
fn another_version_is_told_from_other_damage() {
    let mut bytes = Message::Bye.encode().expect("short");
    bytes[4] = 2;
    assert!(is_other_version(&Message::decode(&bytes).expect_err("version 2")));
    bytes[0] = 0;
    assert!(!is_other_version(&Message::decode(&bytes).expect_err("no magic")));
}

#[test]
fn what_is_beyond_a_limit_is_not_written() {
    let refused = |reason: String| {
        Message::Refused(Refused {
            code: RefusedCode::Limit,
            reason,
            advice: String::new(),
        })
    };
    assert!(refused("x".repeat(1024)).encode().is_ok());
    assert!(refused("x".repeat(1025)).encode().is_err());
    assert!(
        Message::Answer {
            more: false,
            text: "x".repeat(65_512)
        }
        .encode()
        .is_ok()
    );
    assert!(
        Message::Answer {
            more: false,
            text: "x".repeat(65_513)
        }
        .encode()
        .is_err()
    );
    assert!(
        Message::Dump {
            span_ns: 0,
            app: "a\tb".to_owned()
        }
        .encode()
        .is_err()
    );
    let rings = |count| Message::Rings {
        first: 0,
        count,
        reason: String::new(),
    };
    assert!(rings(128).encode().is_ok());
    assert!(rings(129).encode().is_err());
    assert!(rings(u32::MAX).encode().is_err());
}

#[test]
fn mutated_messages_are_read_or_refused_and_what_is_read_is_written_the_same() {
    let mut random = Random::seeded(0x5eed_a9e7);
    let start = random.clone();
    let file = vectors("agent");
    let all: Vec<Vec<u8>> = ["messages", "invalid_messages"]
        .iter()
        .flat_map(|list| file[list].as_array().expect("a list").iter().map(bytes))
        .collect();
    let mut read = 0;
    for _ in 0..200_000 {
        let mut message = all[random.index(all.len())].clone();
        for _ in 0..=random.index(4) {
            mutate(&mut message, &mut random);
        }
        if random.index(2) == 0 && message.len() >= HEADER_BYTES {
            let length = message.len() as u32;
            message[8..12].copy_from_slice(&length.to_le_bytes());
        }
        if let Ok(found) = Message::decode(&message) {
            read += 1;
            assert_eq!(found.encode().as_deref(), Ok(message.as_slice()), "{start:?}");
        }
    }
    assert!(read > 1000, "only {read} were read: the mutations are too wild");
}

fn mutate(message: &mut Vec<u8>, random: &mut Random) {
    let at = random.index(message.len());
    match random.index(5) {
        0 if at < message.len() => message[at] ^= 1 << random.index(8),
        1 if at < message.len() => message[at] = [0, 1, 0x7f, 0x80, 0xff][random.index(5)],
        2 => message.truncate(at),
        3 => message.insert(at, random.index(256) as u8),
        _ => message.extend((0..random.index(40)).map(|_| 0u8)),
    }
}
