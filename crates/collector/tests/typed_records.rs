//! Typed records of a sender in the collector's log: as lines and as segments, each once, and hostile batches are refused.

use logdrive_collector::{Store, StoreFormat};
use logdrive_drain::file::FileOptions;
use logdrive_drain::layout::{
    Layout, LayoutOptions, LineBuffer, Outcome, ProcessInfo, Record, Style, Thread,
};
use logdrive_ship::Identity;
use logdrive_ship::hello::{Format, Hello, Reason, Role};
use logdrive_ship::session::{Acks, Outbox, Peer, RecordPayload, Service};
use logdrive_store::{BatchEncoder, RowCallsite, RowProcess, RowThread, RowWriter, Rows, SegmentReader};
use logdrive_testkit::Random;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::value::INLINE_KEY;
use logdrive_wire::{Callsite, Field, Kind, Level};
use std::path::{Path, PathBuf};

fn open(directory: &Path, format: StoreFormat) -> Store {
    let name = match format {
        StoreFormat::Text => "collected.log",
        StoreFormat::Segments => "collected.segment",
    };
    Store::open(&FileOptions::new(directory.join(name)), format, false).expect("opened")
}

fn peer(app: &str) -> Peer {
    let mut hello = Hello::new(Role::Shipper);
    (hello.session, hello.epoch, hello.format) = (9, 1, Format::Records);
    (hello.app, hello.pid, hello.host) = (app.to_owned(), 417, "web-1".to_owned());
    Peer {
        id: 1,
        address: "unix".to_owned(),
        uid: Some(1000),
        identity: Some(Identity::of_user(1000)),
        hello: Some(hello),
        outbox: Outbox::default(),
        acks: Acks::default(),
    }
}

fn field(name: &str, kind: Kind, argument: bool) -> Field {
    Field {
        name: name.to_owned(),
        kind: FieldKind::plain(kind),
        argument,
    }
}

fn order() -> Callsite {
    Callsite {
        level: Level::Info,
        file: "src/shop.rs".into(),
        line: 7,
        module: "shop".into(),
        message: "order filled".into(),
        fields: vec![field("id", Kind::U64, false), field("host", Kind::Str, false)],
        ..Callsite::default()
    }
}

/// A record whose fields it names itself, also one that the collector has.
fn slow() -> Callsite {
    Callsite {
        dynamic: true,
        level: Level::Warn,
        message: "slow".into(),
        ..Callsite::default()
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Rows of so many orders, each followed by a slow one; those of another process where one is given.
fn rows(count: u64, process: Option<&RowProcess>) -> Vec<u8> {
    let order = RowCallsite::new(&order(), process).expect("a callsite");
    let slow = RowCallsite::new(&slow(), process).expect("a callsite");
    let (mut writer, mut out, mut at) = (RowWriter::default(), vec![0; 1 << 20], 0);
    let main = RowThread { id: 5, name: "main" };
    for id in 0..count {
        let unix_ns = 1_700_000_000_000_000_000 + id;
        let mut payload = id.to_le_bytes().to_vec();
        text(&mut payload, "own");
        at = writer
            .record(&mut out, at, &order, main, unix_ns, &payload)
            .expect("room");
        let mut payload = vec![FieldKind::plain(Kind::Str).code(), INLINE_KEY, 8, 0];
        payload.extend_from_slice(b"identity");
        text(&mut payload, "uid:0");
        at = writer
            .record(&mut out, at, &slow, main, unix_ns, &payload)
            .expect("room");
    }
    out.truncate(at);
    out
}

/// Payloads of batches with the number of their records, each with all definitions.
fn payloads(rows: &[u8], bytes_max: usize) -> Vec<(u32, Vec<u8>)> {
    let batches = BatchEncoder::default().encode(rows, bytes_max).expect("batches");
    let payload = |batch: &logdrive_store::EncodedBatch| {
        let definitions = batch.definitions.iter().map(|one| (one.number, &*one.bytes));
        (batch.records, RecordPayload::encode(definitions, &batch.block))
    };
    batches.iter().map(payload).collect()
}

fn values(path: PathBuf) -> Vec<serde_json::Value> {
    let log = std::fs::read_to_string(path).expect("a log");
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn records_become_objects_with_the_verified_fields_of_their_sender() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), StoreFormat::Text);
    let sender = peer("shop");
    assert_eq!(store.hello(&sender), Ok(0));
    let [(count, payload)] = &payloads(&rows(3, None), 1 << 18)[..] else {
        panic!("one batch");
    };
    assert_eq!(store.records(&sender, 0, *count, payload), Ok(6));
    let found = values(directory.path().join("collected.log"));
    assert_eq!(found.len(), 6);
    let (order, slow) = (&found[4], &found[5]);
    assert_eq!((&order["id"], &order["level"]), (&2.into(), &"INFO".into()));
    assert_eq!(order["ts"], "2023-11-14T22:13:20.000000002Z");
    for value in [order, slow] {
        assert_eq!(
            (&value["host"], &value["process"]),
            (&"web-1".into(), &"shop".into())
        );
        assert_eq!(
            (&value["pid"], &value["identity"]),
            (&417.into(), &"uid:1000".into())
        );
    }
    assert_eq!(
        (&order["host_1"], &slow["identity_1"]),
        (&"own".into(), &"uid:0".into())
    );
}

#[test]
fn an_agents_records_name_their_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), StoreFormat::Text);
    let sender = peer("");
    assert_eq!(store.hello(&sender), Ok(0));
    let process = RowProcess {
        app: "cart".into(),
        pid: 8,
        host: "web-1".into(),
    };
    let (count, payload) = payloads(&rows(1, Some(&process)), 1 << 18).remove(0);
    assert_eq!(store.records(&sender, 0, count, &payload), Ok(2));
    let found = values(directory.path().join("collected.log"));
    assert_eq!((&found[0]["app"], &found[0]["pid"]), (&"cart".into(), &8.into()));
    assert!(found[0].get("process").is_none());
}

#[test]
fn other_layouts_have_the_fields_behind_the_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), StoreFormat::Text)
        .with_layout(LayoutOptions::from(Style::Text))
        .expect("a layout");
    let sender = peer("shop");
    assert_eq!(store.hello(&sender), Ok(0));
    let (count, payload) = payloads(&rows(1, None), 1 << 18).remove(0);
    assert_eq!(store.records(&sender, 0, count, &payload), Ok(2));
    let log = std::fs::read_to_string(directory.path().join("collected.log")).expect("a log");
    let line = log.lines().next().expect("a line");
    assert_eq!(
        line,
        "2023-11-14T22:13:20.000000000Z INFO  main shop shop.rs:7 order filled id=0 host=own host=web-1 process=shop pid=417 \
         session=00000000000000000000000000000009 identity=uid:1000"
    );
    let segments = LayoutOptions::from(Style::Segments);
    assert!(
        open(directory.path(), StoreFormat::Text)
            .with_layout(segments)
            .is_err()
    );
}

/// Lines of a segment, as text.
fn lines_of(path: PathBuf) -> Vec<String> {
    let mut reader = SegmentReader::new(std::fs::File::open(path).expect("a segment"));
    let mut layout = Layout::new(Style::Text.into(), ProcessInfo::default()).expect("a layout");
    let mut lines = Vec::new();
    while let Some(block) = reader.next_block(|_| true).expect("readable") {
        let (bytes, head) = (block.rows().expect("rows"), block.head());
        let mut rows = Rows::new(&bytes);
        while let Some(row) = rows.next_row().expect("rows") {
            let known = &head.callsites[row.callsite.expect("a record") as usize];
            let process = known.process.as_ref().expect("a process");
            let process = ProcessInfo {
                app: process.app.clone(),
                pid: process.pid,
                host: process.host.clone(),
            };
            let plan = layout.compile_for(&known.callsite, &process);
            let mut space = [0; 4_096];
            let mut out = LineBuffer::new(&mut space);
            let thread = &head.threads[row.thread.expect("a thread") as usize];
            let record = Record {
                unix_ns: row.unix_ns,
                thread: Thread {
                    name: &thread.name,
                    id: thread.id,
                },
                payload: row.payload,
            };
            assert_eq!(layout.line(&plan, &record, &mut out), Outcome::Done);
            lines.push(String::from_utf8(out.as_bytes().to_vec()).expect("text"));
        }
    }
    assert!(reader.take_damages().is_empty());
    lines
}

#[test]
fn segments_keep_records_typed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), StoreFormat::Segments);
    let sender = peer("shop");
    assert_eq!(store.hello(&sender), Ok(0));
    let mut first = 0;
    for (count, payload) in payloads(&rows(500, None), 4_000) {
        first = store.records(&sender, first, count, &payload).expect("kept");
    }
    assert_eq!(first, 1_000);
    let lines = lines_of(directory.path().join("collected.segment"));
    assert_eq!(lines.len(), 1_000);
    assert_eq!(
        lines[998],
        "2023-11-14T22:13:20.000000499Z INFO  shop[417]/main shop shop.rs:7 order filled id=499 host=own \
         session=00000000000000000000000000000009 identity=uid:1000\n"
    );
    assert!(
        lines[999].contains(" slow session=00000000000000000000000000000009 identity=uid:1000 identity=")
    );
}

/// A batch that comes again may be the one whose definitions later batches need.
#[test]
fn what_came_again_is_left_out_and_its_definitions_hold() {
    let directory = tempfile::tempdir().expect("a directory");
    let all = payloads(&rows(200, None), 4_000);
    assert!(all.len() > 3);
    let store = open(directory.path(), StoreFormat::Text);
    let sender = peer("shop");
    assert_eq!(store.hello(&sender), Ok(0));
    let first = u64::from(all[0].0);
    assert_eq!(store.records(&sender, 0, all[0].0, &all[0].1), Ok(first));
    // The next collector has the ledger, and a connection without definitions.
    drop(store);
    let store = open(directory.path(), StoreFormat::Text);
    assert_eq!(store.hello(&sender), Ok(first));
    let block = |payload: &[u8]| {
        let block = RecordPayload::decode(payload).expect("sound").block.to_vec();
        RecordPayload::encode([], &block)
    };
    assert_eq!(
        store.records(&sender, first, all[1].0, &block(&all[1].1)),
        Err(Reason::Malformed)
    );
    assert_eq!(store.records(&sender, 0, all[0].0, &all[0].1), Ok(first));
    let mut next = first;
    for (count, payload) in &all[1..] {
        let payload = block(payload);
        // Each batch comes with records that were in the one before, as after a resend that cuts them otherwise.
        next = store.records(&sender, next, *count, &payload).expect("kept");
        assert_eq!(
            store.records(&sender, next - 3, 3, &payload),
            Err(Reason::Malformed).or(Ok(next))
        );
    }
    assert_eq!(next, 400);
    let ids: Vec<u64> = values(directory.path().join("collected.log"))
        .iter()
        .filter_map(|value| value["id"].as_u64())
        .collect();
    assert_eq!(ids, (0..200).collect::<Vec<u64>>());
    assert_eq!(store.counts().records, 400 - first);
}

#[test]
fn a_batch_that_begins_earlier_than_wanted_loses_its_front_only() {
    for format in [StoreFormat::Text, StoreFormat::Segments] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path(), format);
        let sender = peer("shop");
        assert_eq!(store.hello(&sender), Ok(0));
        let (count, payload) = payloads(&rows(10, None), 1 << 18).remove(0);
        assert_eq!(store.records(&sender, 0, count, &payload), Ok(20));
        assert_eq!(store.records(&sender, 15, count, &payload), Ok(35));
        let counts = store.counts();
        assert_eq!((counts.records, counts.duplicates), (35, 5));
        if format == StoreFormat::Segments {
            assert_eq!(lines_of(directory.path().join("collected.segment")).len(), 35);
        }
    }
}

#[test]
fn hostile_batches_end_the_connection_and_leave_the_log_valid() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), StoreFormat::Text);
    let sender = peer("shop");
    assert_eq!(store.hello(&sender), Ok(0));
    let (count, payload) = payloads(&rows(10, None), 1 << 18).remove(0);
    for wrong in [1, count - 1, count + 1, 1 << 20] {
        assert_eq!(store.records(&sender, 0, wrong, &payload), Err(Reason::Malformed));
    }
    let mut random = Random::new(3);
    let mut next = 0;
    for _ in 0..3_000 {
        let mut bytes = payload.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        bytes.truncate(bytes.len() - random.below(3) as usize);
        // A flipped bit of a definition is a definition.
        if let Ok(now) = store.records(&sender, next, count, &bytes) {
            next = now;
        }
    }
    assert_eq!(values(directory.path().join("collected.log")).len() as u64, next);
}
