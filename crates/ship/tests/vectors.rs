//! The shared vectors of frames, hellos and goodbyes, each run in full and counted.

use logdrive_ship::frame::{FLAG_CHECKED, FrameError, Header, Kind, next_frame};
use logdrive_ship::hello::{Format, Hello, Reason, Role, decode_goodbye, encode_goodbye};
use logdrive_ship::limits::FRAME_BYTES_MAX;
use logdrive_testkit::{hex, number, vectors};
use serde_json::Value;

fn kind(name: &str) -> Kind {
    match name {
        "hello" => Kind::Hello,
        "batch" => Kind::Batch,
        "ack" => Kind::Ack,
        "credit" => Kind::Credit,
        "gap" => Kind::Gap,
        "request" => Kind::Request,
        "response" => Kind::Response,
        "goodbye" => Kind::Goodbye,
        "cancel" => Kind::Cancel,
        other => panic!("{other} is no kind"),
    }
}

/// The family of an error, as the vectors name it.
fn family(error: FrameError) -> &'static str {
    match error {
        FrameError::Truncated { .. } => "truncated",
        FrameError::Limit { .. } => "limit",
        FrameError::Unknown { .. } => "unknown",
        FrameError::Checksum { .. } => "checksum",
        FrameError::Refused { .. } => "refused",
        FrameError::NotUtf8 { .. } => "not_utf8",
        other => panic!("{other} has no family"),
    }
}

fn check_frame(case: &Value) {
    let name = &case["name"];
    let bytes = hex(&case["hex"]);
    let frame = next_frame(&bytes, FRAME_BYTES_MAX)
        .expect("sound")
        .expect("whole");
    assert_eq!(
        frame.header.kind,
        kind(case["kind"].as_str().expect("text")),
        "{name}"
    );
    assert_eq!(u64::from(frame.header.flags), case["flags"], "{name}");
    assert_eq!(u64::from(frame.header.stream), case["stream"], "{name}");
    assert_eq!(frame.header.sequence, number(&case["sequence"]), "{name}");
    assert_eq!(u64::from(frame.header.count), case["count"], "{name}");
    assert_eq!(frame.payload, hex(&case["payload"]), "{name}");
    let mut again = Vec::new();
    let checked = frame.header.flags & FLAG_CHECKED != 0;
    Header { ..frame.header }.put(&[frame.payload], checked, &mut again);
    assert_eq!(again, bytes, "{name}");
    for length in 0..bytes.len() {
        assert_eq!(
            next_frame(&bytes[..length], FRAME_BYTES_MAX),
            Ok(None),
            "{name} cut at {length}"
        );
    }
}

fn check_hello(case: &Value) {
    let name = &case["name"];
    let bytes = hex(&case["hex"]);
    let hello = Hello::decode(&bytes).expect("sound");
    let role =
        [Role::Client, Role::Shipper, Role::Server][case["role"].as_u64().expect("a number") as usize - 1];
    let format = [Format::Opaque, Format::Text, Format::Json, Format::Records]
        [case["format"].as_u64().expect("a number") as usize];
    assert_eq!((hello.role, hello.format), (role, format), "{name}");
    assert_eq!(u64::from(hello.version_min), case["version_min"], "{name}");
    assert_eq!(u64::from(hello.version_max), case["version_max"], "{name}");
    assert_eq!(u64::from(hello.flags), case["flags"], "{name}");
    assert_eq!(
        u64::from(hello.frame_bytes_max),
        case["frame_bytes_max"],
        "{name}"
    );
    assert_eq!(u64::from(hello.pid), case["pid"], "{name}");
    assert_eq!(hello.credit_bytes, number(&case["credit_bytes"]), "{name}");
    assert_eq!(format!("{:032x}", hello.session), case["session"], "{name}");
    assert_eq!(
        (hello.epoch, hello.next),
        (number(&case["epoch"]), number(&case["next"])),
        "{name}"
    );
    assert_eq!(
        (hello.host.as_str(), hello.app.as_str()),
        (
            case["host"].as_str().expect("text"),
            case["app"].as_str().expect("text")
        )
    );
    assert_eq!(hello.encode(), bytes, "{name}");
}

fn check_goodbye(case: &Value) {
    let bytes = hex(&case["hex"]);
    let (reason, words) = decode_goodbye(&bytes).expect("sound");
    assert_eq!(reason as u64, case["reason"], "{}", case["name"]);
    assert_eq!(words, case["words"], "{}", case["name"]);
    if u64::from(bytes[0]) < Reason::COUNT as u64 {
        assert_eq!(encode_goodbye(reason, words), bytes);
    }
}

#[test]
fn frame_vectors() {
    let file = vectors("frame");
    let all = |name: &str| file[name].as_array().expect("a list").clone();
    all("frames").iter().for_each(check_frame);
    all("hellos").iter().for_each(check_hello);
    all("goodbyes").iter().for_each(check_goodbye);
    let mut invalid = 0;
    for (list, family) in [
        (
            "invalid_frames",
            (|bytes| next_frame(bytes, FRAME_BYTES_MAX).map_err(family).err())
                as fn(&[u8]) -> Option<&'static str>,
        ),
        ("invalid_hellos", |bytes| {
            Hello::decode(bytes).map_err(family).err()
        }),
        ("invalid_goodbyes", |bytes| {
            decode_goodbye(bytes).map_err(family).err()
        }),
    ] {
        for case in all(list) {
            assert_eq!(
                family(&hex(&case["hex"])),
                case["error"].as_str(),
                "{}",
                case["name"]
            );
            invalid += 1;
        }
    }
    let valid: usize = ["frames", "hellos", "goodbyes"]
        .iter()
        .map(|name| all(name).len())
        .sum();
    println!("vectors: frame.json: {valid} valid, {invalid} invalid");
}
