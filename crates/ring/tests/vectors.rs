//! The shared vectors of the ring, the session and the clock, each run in full and counted; and the drawings of
//! `spec/ring.md` and `spec/session.md`, whose offsets are tried out on real files.
#![cfg(not(any(loom, miri)))]

use logdrive_ring::control::Switch;
use logdrive_ring::local::{self, Clock, Wrote};
use logdrive_ring::rules::{Action, Rule, Selector};
use logdrive_ring::{
    BUFFER_BYTES_MIN, Calibration, CallsiteCounters, Consumer, DropReason, FileLocation, FullPolicy,
    Producer, Ring, RingError, SessionAccount, SessionOptions, SessionReader, SessionWriter, SinkDrops,
    control, thread_counts,
};
use logdrive_testkit::{each_case, hex, number, vectors};
use serde_json::Value as Json;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

#[path = "vectors/drawing.rs"]
mod drawing;
use drawing::Drawing;

fn put(file: &File, offset: u64, value: u64) {
    file.write_all_at(&value.to_le_bytes(), offset).unwrap();
}

/// Bytes of a ring's header, which ends its file.
const RING_HEADER: u64 = 4096;

/// Offset of the header in a ring's file.
fn header_at(file: &File) -> u64 {
    file.metadata().unwrap().len() - RING_HEADER
}

/// Stores a word of a ring's header.
fn put_header(file: &File, offset: u64, value: u64) {
    put(file, header_at(file) + offset, value);
}

/// A directory of this test's own.
fn directory(test: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("logdrive-vectors-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn clock_vectors() {
    let valid = each_case(&vectors("clock"), "valid", |case, name| {
        let calibration = Calibration {
            base_ticks: number(&case["base_ticks"]),
            base_unix_ns: number(&case["base_unix_ns"]),
            ns_per_tick_q32: number(&case["ns_per_tick_q32"]),
        };
        assert_eq!(
            calibration.unix_ns(number(&case["ticks"])),
            number(&case["unix_ns"]),
            "{name}"
        );
    });
    println!("vectors: clock.json: {valid} valid");
    assert!(valid >= 22, "cases have gone missing: {valid}");
}

/// One call of a thread, as `spec/ring.md` has it: gap records first where they are due.
fn call(length: usize, urgent: bool, gaps: &mut Vec<(u64, &'static str, u64, usize)>, ring: &Ring) -> Wrote {
    loop {
        match local::write(1, length, urgent, |_| {}) {
            Wrote::GapDue => tell_gaps(gaps, ring),
            wrote => return wrote,
        }
    }
}

fn tell_gaps(gaps: &mut Vec<(u64, &'static str, u64, usize)>, ring: &Ring) {
    let mut counts = local::take_gap();
    for reason in DropReason::ALL {
        let count = std::mem::take(&mut counts[reason as usize]);
        let text = reason.text();
        let length = (16 + 8 + 4 + text.len()).next_multiple_of(8);
        if count == 0 {
            continue;
        }
        let at = committed(ring);
        let wrote = local::write_uncounted(0, length, true, |put| {
            put.u64(count);
            put.u32(text.len() as u32);
            put.bytes(text.as_bytes());
        });
        match wrote {
            Wrote::Committed => gaps.push((count, text, at, length)),
            _ => counts[reason as usize] = count,
        }
    }
    local::return_gap(&counts);
}

/// Position at which a consumer that has read nothing would stop.
fn committed(ring: &Ring) -> u64 {
    // The ring is this test's own file, so its words can be read without its two ends.
    FILE.with(|file| {
        let mut word = [0; 8];
        let file = file.borrow();
        let file = file.as_ref().unwrap();
        file.read_exact_at(&mut word, header_at(file) + 64).unwrap();
        assert!(ring.capacity_bytes() > 0);
        u64::from_le_bytes(word)
    })
}

thread_local! {
    static FILE: std::cell::RefCell<Option<File>> = const { std::cell::RefCell::new(None) };
}

fn run_sequence(case: &Json, name: &str) {
    let capacity = number(&case["capacity"]);
    let (ring, file) = Ring::unnamed(capacity as usize).unwrap();
    assert_eq!(ring.capacity_bytes() as u64, capacity, "{name}");
    let ring = Arc::new(ring);
    put_header(&file, 64, number(&case["start"]));
    put_header(&file, 256, number(&case["start"]));
    FILE.with(|slot| *slot.borrow_mut() = Some(file));
    let mut consumer = Consumer::new(Arc::clone(&ring));
    let attach = || {
        let producer = Producer::attach(Arc::clone(&ring), "vectors");
        assert!(local::attach(
            producer,
            FullPolicy::Drop,
            Clock::Counter,
            local::generation()
        ));
    };
    attach();
    for (index, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let name = format!("{name}, step {index}");
        if step.get("push").is_some() {
            run_push(step, &name, &ring);
        } else if step.get("consume").is_some() {
            assert_eq!(
                consumer.pending_bytes().unwrap() as u64,
                number(&step["pending"]),
                "{name}"
            );
            consumer.release(number(&step["consume"]) as usize);
            assert_eq!(consumer.position(), number(&step["consumed"]), "{name}");
        } else {
            local::detach_thread();
            attach();
            assert_eq!(committed(&ring), number(&step["committed"]), "{name}");
        }
    }
    local::detach_thread();
    assert_eq!(ring.counts().records, number(&case["records"]), "{name}");
    let expected = |counts: &Json| DropReason::ALL.map(|reason| counts.get(reason.name()).map_or(0, number));
    assert_eq!(ring.counts().dropped, expected(&case["dropped"]), "{name}");
    assert_eq!(ring.take_unreported(), expected(&case["unreported"]), "{name}");
}

fn run_push(step: &Json, name: &str, ring: &Arc<Ring>) {
    let (length, urgent) = (number(&step["push"]) as usize, step["urgent"].as_bool().unwrap());
    let mut gaps = Vec::new();
    let mut wrote = Wrote::NoRing;
    for _ in 0..step.get("times").map_or(1, number) {
        gaps.clear();
        wrote = call(length, urgent, &mut gaps, ring);
    }
    let capacity = ring.capacity_bytes() as u64;
    let expected = if step["got"] == "committed" {
        Wrote::Committed
    } else {
        Wrote::Dropped
    };
    assert_eq!(wrote, expected, "{name}");
    assert_eq!(committed(ring), number(&step["committed"]), "{name}");
    if wrote == Wrote::Committed {
        let offset = (committed(ring) - length as u64) % capacity;
        assert_eq!(offset, number(&step["offset"]), "{name}");
    }
    let none = Vec::new();
    let told = step.get("gaps").and_then(Json::as_array).unwrap_or(&none);
    assert_eq!(gaps.len(), told.len(), "{name}");
    for ((count, reason, at, length), told) in gaps.iter().zip(told) {
        assert_eq!(told["reason"], *reason, "{name}");
        assert_eq!(*count, number(&told["count"]), "{name}");
        assert_eq!(at % capacity, number(&told["offset"]), "{name}");
        assert_eq!(*length as u64, number(&told["length_bytes"]), "{name}");
    }
}

#[test]
fn ring_vectors() {
    local::start_running();
    let file = vectors("ring");
    let sequences = each_case(&file, "sequences", |case, name| {
        // Each in a thread of its own, because a thread has one ring.
        std::thread::scope(|scope| scope.spawn(|| run_sequence(case, name)).join()).expect(name);
    });
    let position = |case: &Json| {
        let (ring, file) = Ring::unnamed(number(&case["capacity"]) as usize).unwrap();
        put_header(&file, 64, number(&case["committed"]));
        put_header(&file, 256, number(&case["consumed"]));
        Consumer::new(Arc::new(ring)).pending_bytes()
    };
    let positions = each_case(&file, "positions", |case, name| {
        assert_eq!(
            position(case).expect(name) as u64,
            number(&case["pending"]),
            "{name}"
        );
    });
    let headers = each_case(&file, "headers", |case, name| {
        drop(open_header(case).expect(name))
    });
    let resumes = each_case(&file, "resume", |case, name| {
        let (ring, file) = Ring::unnamed(1 << 16).unwrap();
        put_header(&file, 256, number(&case["consumed"]));
        for (cell, offset) in case["cells"].as_array().unwrap().iter().zip([272, 288]) {
            put_header(&file, offset, number(&cell["word"]));
            put_header(&file, offset + 8, number(&cell["position"]));
        }
        let consumer = Consumer::resume(Arc::new(ring), number(&case["epoch"]));
        assert_eq!(consumer.position(), number(&case["position"]), "{name}");
    });
    let bad_positions = each_case(&file, "invalid_positions", |case, name| {
        assert_eq!(
            case["error"],
            damaged_field(position(case).expect_err(name)),
            "{name}"
        );
    });
    let bad_headers = each_case(&file, "invalid_headers", |case, name| {
        assert_eq!(
            case["error"],
            damaged_field(open_header(case).expect_err(name)),
            "{name}"
        );
    });
    let (valid, invalid) = (
        sequences + positions + headers + resumes,
        bad_positions + bad_headers,
    );
    println!("vectors: ring.json: {valid} valid, {invalid} invalid");
    assert!(
        valid >= 42 && invalid >= 35,
        "cases have gone missing: {valid} {invalid}"
    );
}

fn damaged_field(error: RingError) -> &'static str {
    assert!(!error.to_string().is_empty());
    match error {
        RingError::Damaged { field, .. } => field,
        other => panic!("not damage: {other}"),
    }
}

/// Opens a ring whose header has patches, at the end of a file of the given length.
fn open_header(case: &Json) -> Result<Arc<Ring>, RingError> {
    let dir = directory("headers");
    let (session, _) = SessionWriter::create(&session_options(&dir)).unwrap();
    drop(session.acquire("main").unwrap());
    let path = session.path().join("ring-00000");
    let file = File::options().read(true).write(true).open(path).unwrap();
    let (_ring, whole) = Ring::unnamed(1 << 16).unwrap();
    let mut head = [0; RING_HEADER as usize];
    whole.read_exact_at(&mut head, header_at(&whole)).unwrap();
    let length = number(&case["file_bytes"]);
    file.set_len(0).unwrap();
    file.set_len(length).unwrap();
    let at = length.saturating_sub(RING_HEADER);
    file.write_all_at(&head, at).unwrap();
    for patch in case["patches"].as_array().unwrap() {
        file.write_all_at(&hex(&patch["hex"]), at + number(&patch["offset"]))
            .unwrap();
    }
    file.set_len(length).unwrap();
    let view = SessionReader::open(session.path()).unwrap();
    let (mut rings, broken) = view.rings();
    // An empty file is no ring, and no damage: it has the place of one that ended with its process.
    let is_private = view.private_rings() == 1;
    std::fs::remove_dir_all(dir).unwrap();
    let none = RingError::Damaged {
        what: "ring header",
        field: "file size",
        found: 0,
        expected: "more",
    };
    let mut broken = broken.into_iter().chain(is_private.then_some(none));
    rings.pop().ok_or_else(|| broken.next().unwrap())
}

fn session_options(dir: &Path) -> SessionOptions {
    SessionOptions {
        app: "vectors".into(),
        run_dirs: vec![dir.to_owned()],
        ring_bytes: 1 << 16,
        config: b"[sink]\n".to_vec(),
        sink_count: 2,
        buffers_per_sink: 1,
        buffer_bytes: BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 0,
    }
}

/// A copy of a session's files under a name of its own, so that the real one keeps its lock.
fn copy_of(session: &SessionWriter, name: &str) -> PathBuf {
    let copy = session.path().with_file_name(name);
    std::fs::create_dir_all(&copy).unwrap();
    for entry in std::fs::read_dir(session.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::write(
            copy.join(path.file_name().unwrap()),
            std::fs::read(&path).unwrap(),
        )
        .unwrap();
    }
    copy
}

#[test]
fn session_vectors() {
    use std::os::unix::fs::PermissionsExt;
    let dir = directory("session");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    let (session, _) = SessionWriter::create(&session_options(&dir)).unwrap();
    let header = std::fs::read(session.path().join("session")).unwrap();
    let path = copy_of(&session, "copy-1-0");
    let write = |patch: &dyn Fn(&File)| {
        std::fs::write(path.join("session"), &header).unwrap();
        patch(&File::options().write(true).open(path.join("session")).unwrap());
        SessionReader::open(&path)
    };
    let table = |case: &Json, name: &str| {
        std::fs::write(path.join("callsites"), hex(&case["hex"])).unwrap();
        let view = write(&|file| put(file, 264, number(&case["table_bytes"]))).expect(name);
        let entry = |entry: &Json| {
            (
                number(&entry["id"]) as u32,
                entry["text"].as_str().unwrap().as_bytes().to_vec(),
            )
        };
        let expected: Vec<_> = case["entries"].as_array().unwrap().iter().map(entry).collect();
        assert_eq!(view.callsites().expect(name), expected, "{name}");
    };
    let file = vectors("session");
    let valid = each_case(&file, "tables", table);
    let mut invalid = each_case(&file, "damaged_tables", table);
    invalid += each_case(&file, "invalid_headers", |case, name| {
        let opened = write(&|file| {
            for patch in case["patches"].as_array().unwrap() {
                file.write_all_at(&hex(&patch["hex"]), number(&patch["offset"]))
                    .unwrap();
            }
        });
        assert_eq!(case["error"], damaged_field(opened.expect_err(name)), "{name}");
    });
    session.remove().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    println!("vectors: session.json: {valid} valid, {invalid} invalid");
    assert!(
        valid >= 6 && invalid >= 15,
        "cases have gone missing: {valid} {invalid}"
    );
}

#[test]
fn the_ring_of_the_spec_is_the_ring_of_the_code() {
    let drawing = Drawing::of("ring.md", "## Header");
    drawing.assert_whole(RING_HEADER);
    let (ring, file) = Ring::unnamed(1 << 16).unwrap();
    let ring = Arc::new(ring);
    let at = |field: &str| header_at(&file) + drawing.offset(field);
    put(&file, at("thread_id"), 77);
    assert_eq!(ring.thread_id(), 77);
    file.write_all_at(b"spec\0", at("thread_name")).unwrap();
    assert_eq!(ring.thread_name(), "spec");
    file.write_all_at(&2u32.to_le_bytes(), at("state")).unwrap();
    assert_eq!(ring.counts().state, logdrive_ring::RingState::Ended);
    put(&file, at("records"), 5);
    assert_eq!(ring.counts().records, 5);
    put(&file, at("cut"), 6);
    assert_eq!(ring.counts().records_cut, 6);
    put(&file, at("dropped") + 8, 7);
    assert_eq!(ring.counts().dropped[1], 7);
    put(&file, at("unreported") + 16, 8);
    assert_eq!(ring.take_unreported()[2], 8);
    put(&file, at("consumed"), 64);
    put(&file, at("committed"), 96);
    let consumer = Consumer::new(Arc::clone(&ring));
    assert_eq!((consumer.position(), consumer.pending_bytes().unwrap()), (64, 32));
    consumer.note_drained(8, 3, 2);
    let word = |offset| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, offset).unwrap();
        u64::from_le_bytes(word)
    };
    assert_eq!(
        (word(at("drained[0].epoch")), word(at("drained[0].position"))),
        (guarded(3, &[72]), 72)
    );
    consumer.note_drained(16, 4, 3);
    assert_eq!(
        (word(at("drained[1].epoch")), word(at("drained[1].position"))),
        (guarded(4, &[80]), 80)
    );
    assert_eq!(
        (word(at("magic")), word(at("capacity_bytes"))),
        (u64::from_le_bytes(*b"LDRING\x01\0"), 1 << 16)
    );
    // A producer that waits shows in its words.
    assert_eq!(
        (at("waiting"), at("space_sequence")),
        (header_at(&file) + 320, header_at(&file) + 324)
    );
    put(&file, at("committed"), 128);
    file.write_all_at(&1u32.to_le_bytes(), at("waiting")).unwrap();
    let mut consumer = Consumer::new(ring);
    consumer.release(64);
    assert_eq!(
        word(at("waiting")),
        1 << 32,
        "cleared, and the sequence behind it is one more"
    );
}

#[test]
fn the_session_of_the_spec_is_the_session_of_the_code() {
    let dir = directory("drawing");
    std::fs::remove_dir(&dir).unwrap();
    let (session, _) = SessionWriter::create(&session_options(&dir)).unwrap();
    session.register(b"first", control::ON).unwrap();
    session.register(b"second!", control::OFF).unwrap();
    let file = File::options()
        .read(true)
        .write(true)
        .open(copy_of(&session, "copy-1-0").join("session"))
        .unwrap();
    let drawing = Drawing::of("session.md", "## File `session`");
    drawing.assert_whole(4096);
    for (field, value) in [
        ("start_unix_ns", 1),
        ("base_ticks", 2),
        ("base_unix_ns", 3),
        ("ns_per_tick_q32", 4),
        ("calibration_sequence", 2),
        ("calibration_checksum", checksum(&[2, 3, 4])),
    ] {
        put(&file, drawing.offset(field), value);
    }
    for (field, value) in [
        ("coarse_ticks", 5),
        ("disabled", 6),
        ("dropped", 7),
        ("end_thread", 8),
        ("end_unix_ns", 9),
    ] {
        put(&file, drawing.offset(field), value);
    }
    for (field, value) in [
        ("pid", 10u32),
        ("clock_source", 3),
        ("end_signal", 11),
        ("end_panics", 12),
    ] {
        file.write_all_at(&value.to_le_bytes(), drawing.offset(field))
            .unwrap();
    }
    file.write_all_at(b"spec\0", drawing.offset("app")).unwrap();
    let mut words = vec![0; 120 / 8];
    for (index, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 8 * index as u64).unwrap();
        *word = u64::from_le_bytes(bytes);
    }
    words.remove(drawing.offset("done") as usize / 8);
    put(&file, drawing.offset("checksum"), checksum(&words));
    patched_fields(&SessionReader::open(&session.path().with_file_name("copy-1-0")).unwrap());
    let word = |field| {
        let mut word = [0; 4];
        file.read_exact_at(&mut word, drawing.offset(field)).unwrap();
        u32::from_le_bytes(word)
    };
    assert_eq!(
        (word("ring_count"), word("callsite_count"), word("table_bytes")),
        (0, 2, 32)
    );
    account(&session, &drawing);
    control_entries(&session);
    live_control(&session);
    table_of_rules(&session);
    output_buffers(&session);
    session.remove().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

/// The checksum of words, as the spec says it.
fn checksum(words: &[u64]) -> u64 {
    words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
}

/// A number with the check of itself and of other words above it.
fn guarded(number: u64, words: &[u64]) -> u64 {
    let sum = checksum(&[&[number], words].concat());
    number | (sum ^ sum >> 16 ^ sum >> 32 ^ sum >> 48) << 48
}

/// The account of the session: in a cell, then in the words that need no epoch.
fn account(session: &SessionWriter, drawing: &Drawing) {
    let account = SessionAccount {
        drained: 70,
        left_out: 71,
        told_of_rings: core::array::from_fn(|reason| 72 + reason as u64),
        told_without_ring: core::array::from_fn(|reason| 80 + reason as u64),
    };
    session.header().note_account(account, 3, 2);
    let word = |at: u64| number_at(&std::fs::read(session.path().join("session")).unwrap(), at, 8);
    let at = |field| word(drawing.offset(field));
    let numbers: Vec<u64> = [70, 71].into_iter().chain(72..88).collect();
    assert_eq!(at("account[0].epoch"), guarded(3, &numbers));
    assert_eq!((at("account[0].drained"), at("account[0].left_out")), (70, 71));
    assert_eq!(at("account[0].told_of_rings"), 72);
    assert_eq!(at("account[0].told_without_ring"), 80);
    assert_eq!(session.header().account(2), SessionAccount::default());
    assert_eq!(session.header().settle_account(3), account);
    assert_eq!((at("account[0].epoch"), at("account_base")), (0, 70));
    assert_eq!(word(drawing.offset("account_base") + 17 * 8), 87);
    assert_eq!(session.header().account(0), account);
}

/// Checks that the code reads each number from the place where the test has put it.
fn patched_fields(view: &SessionReader) {
    let header = view.header();
    let found = header.identity();
    assert_eq!(
        (found.pid, found.start_unix_ns, found.app),
        (10, 1, "spec".to_owned())
    );
    assert_eq!(header.clock_source(), logdrive_ring::ClockSource::Monotonic);
    let calibration = Calibration {
        base_ticks: 2,
        base_unix_ns: 3,
        ns_per_tick_q32: 4,
    };
    assert_eq!(header.calibration(), Some(calibration));
    assert_eq!(
        header.coarse_clock().load(std::sync::atomic::Ordering::Relaxed),
        5
    );
    let totals = header.totals();
    assert_eq!((totals.disabled, totals.dropped[0], totals.panics), (6, 7, 12));
    assert_eq!(totals.signal, Some((11, 8, 9)));
    assert_eq!((totals.rings, totals.callsites, totals.table_bytes), (0, 2, 32));
}

/// The drawing of `control`, against what two registrations wrote.
fn control_entries(session: &SessionWriter) {
    let drawing = Drawing::of("session.md", "## File `control`");
    drawing.assert_whole(32);
    let bytes = std::fs::read(session.path().join("control")).unwrap();
    let word = |entry: usize, field| {
        let at = entry * 32 + drawing.offset(field) as usize;
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    };
    assert_eq!(
        (
            word(0, "control"),
            word(0, "id"),
            word(1, "control"),
            word(1, "id")
        ),
        (1, 0, 0, 1)
    );
}

/// The number of `length` bytes at a place.
fn number_at(bytes: &[u8], at: u64, length: usize) -> u64 {
    let mut word = [0; 8];
    word[..length].copy_from_slice(&bytes[at as usize..at as usize + length]);
    u64::from_le_bytes(word)
}

/// The drawing of `counts`, and what a rule makes of a control entry.
fn live_control(session: &SessionWriter) {
    let entry = session.control(1).unwrap();
    let switch = Switch {
        control: control::PER_SECOND,
        parameter: 41,
    };
    control::settle(entry, || 0, |_| switch);
    entry.set_sampled_variant(42);
    let drawing = Drawing::of("session.md", "## File `control`");
    let bytes = std::fs::read(session.path().join("control")).unwrap();
    let of_entry = |field| number_at(&bytes, 32 + drawing.offset(field), 4);
    assert_eq!(
        (of_entry("control"), of_entry("parameter"), of_entry("budget")),
        (4, 41, 41)
    );
    assert_eq!((of_entry("base"), of_entry("sampled_variant")), (0, 42));

    let drawing = Drawing::of("session.md", "## File `counts`");
    drawing.assert_whole(32);
    static COUNTERS: OnceLock<&CallsiteCounters> = OnceLock::new();
    COUNTERS.set(session.counters()).unwrap();
    let counts_of = |entry| COUNTERS.get()?.of_entry(entry);
    counts_of(entry).unwrap().store_drained(51, 52);
    (0..53).for_each(|_| thread_counts::count_dropped(entry, counts_of));
    (0..54).for_each(|_| thread_counts::count_sampled_out(entry, counts_of));
    thread_counts::report_all();
    let bytes = std::fs::read(session.path().join("counts")).unwrap();
    let of_counts = |field| number_at(&bytes, 32 + drawing.offset(field), 8);
    assert_eq!(
        ["records", "bytes", "dropped", "sampled_out"].map(of_counts),
        [51, 52, 53, 54]
    );
}

/// The drawings of `rules`.
fn table_of_rules(session: &SessionWriter) {
    session.rules().set_off_control(2);
    let rule = Rule {
        made_unix_ns: 61,
        until_unix_ns: 62,
        action: Action::PerKey {
            field: "peer".into(),
            per_second: 63,
        },
        selector: Selector::Line("net.rs".into(), 64),
    };
    assert_eq!(session.rules().lock().unwrap().replace(&[rule]).unwrap(), 1);
    let bytes = std::fs::read(session.path().join("rules")).unwrap();
    assert_eq!(bytes.len(), 65_536);
    let header = Drawing::of("session.md", "## File `rules`");
    header.assert_whole(4096);
    assert_eq!(
        number_at(&bytes, header.offset("magic"), 8),
        u64::from_le_bytes(*b"LDRULES\x01")
    );
    assert_eq!(number_at(&bytes, header.offset("sequence"), 8), 1);
    assert_eq!(number_at(&bytes, header.offset("off_control"), 4), 2);
    let table = Drawing::of("session.md", "A table:");
    let of_table = |field| 34_816 + table.offset(field);
    assert_eq!(number_at(&bytes, of_table("sequence"), 8), 1);
    assert_eq!(number_at(&bytes, of_table("count"), 4), 1);
    assert_eq!(number_at(&bytes, of_table("length"), 4), 56);
    assert_ne!(number_at(&bytes, of_table("checksum"), 8), 0);
    let drawing = Drawing::of("session.md", "A rule, its length");
    let of_rule = |field, length| number_at(&bytes, of_table("rules:") + drawing.offset(field), length);
    assert_eq!((of_rule("length", 4), of_rule("codes", 4)), (56, 0x0405));
    assert_eq!(
        (of_rule("made_unix_ns", 8), of_rule("until_unix_ns", 8)),
        (61, 62)
    );
    assert_eq!((of_rule("parameter", 4), of_rule("number", 4)), (63, 64));
    assert_eq!(of_rule("lengths", 4), 6 | 4 << 16);
    let names = (of_table("rules:") + drawing.offset("name,")) as usize;
    assert_eq!(&bytes[names..names + 16], b"net.rspeer\0\0\0\0\0\0");
}

/// The drawings of `drain`, against buffers in known states.
fn output_buffers(session: &SessionWriter) {
    let buffers = session.buffers();
    let mut buffer = buffers.take_all(1).expect("room").remove(0);
    buffer.start_filling(9);
    buffer.space()[..3].copy_from_slice(b"ab\n");
    buffer.grow(3, 2);
    let drops = SinkDrops {
        by_reason: [31, 0, 33, 0, 0, 0, 0, 34],
        unreported: 35,
        unreported_calls: 36,
        unreported_unix_ns: [37, 38],
        unreported_cause: 39,
    };
    buffers.note_fill(1, Some(&buffer), &drops, 4);
    buffers.publish(4);
    buffer.mark_ready();
    buffer.mark_writing(FileLocation {
        dev: 21,
        ino: 22,
        offset: 23,
    });
    buffers.note_error(1, 32);
    let bytes = std::fs::read(session.path().join("drain")).unwrap();
    let word = |at: u64| u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap());
    let half = |at: u64| u32::from_le_bytes(bytes[at as usize..at as usize + 4].try_into().unwrap());
    let header = Drawing::of("session.md", "Header:");
    assert_eq!(word(header.offset("magic")), u64::from_le_bytes(*b"LDDRAIN\x03"));
    assert_eq!(
        (
            half(header.offset("sink_count")),
            half(header.offset("buffer_count"))
        ),
        (2, 2)
    );
    assert_eq!(word(header.offset("buffer_bytes")), BUFFER_BYTES_MIN as u64);
    assert_eq!(
        (
            half(header.offset("config_bytes")),
            half(header.offset("config_start"))
        ),
        (7, 0)
    );
    assert_eq!(word(header.offset("epoch")), guarded(4, &[]));
    copied_header(&bytes, &header);
    let sink = Drawing::of("session.md", "Sink `s`");
    sink.assert_whole(512);
    let of_sink = |field: &str| word(4096 + 512 + sink.offset(field));
    sink_words(of_sink);
    let of_dropped = |reason: u64| word(4096 + 512 + sink.offset("fill[0].dropped") + 8 * reason);
    assert_eq!([0, 2, 7].map(of_dropped), [31, 33, 34]);
    let descriptor = Drawing::of("session.md", "Descriptor of buffer");
    descriptor.assert_whole(64);
    let of_buffer = |field| word(12_288 + 64 + descriptor.offset(field));
    assert_eq!((half(12_288 + 64), half(12_288 + 64 + 4)), (3, 1));
    assert_eq!((descriptor.offset("state"), descriptor.offset("sink")), (0, 4));
    assert_eq!(
        (of_buffer("sequence"), of_buffer("length"), of_buffer("records")),
        (9, 3, 2)
    );
    assert_eq!(
        (of_buffer("dev"), of_buffer("ino"), of_buffer("offset")),
        (21, 22, 23)
    );
    assert_eq!(of_buffer("checksum"), checksum(&[3, 9, 3, 2, 21, 22, 23]));
    assert_eq!(&bytes[28_672..28_679], b"[sink]\n");
    let at = 65_536 + BUFFER_BYTES_MIN;
    assert_eq!(&bytes[at..at + 3], b"ab\n");
    buffer.mark_written();
    written_buffer(session, &sink);
    replaced_config(session, &header);
}

/// The words of the sink in their places.
fn sink_words(of_sink: impl Fn(&str) -> u64) {
    assert_eq!(
        (of_sink("fill[0].epoch"), of_sink("fill[0].length")),
        (
            guarded(4, &[3, 2, 9, 31, 0, 33, 0, 0, 0, 0, 34, 35, 36, 37, 38, 39]),
            3
        )
    );
    assert_eq!(of_sink("mark"), checksum(&[1]));
    assert_eq!((of_sink("fill[0].records"), of_sink("fill[0].sequence")), (2, 9));
    assert_eq!(
        (of_sink("fill[0].unreported"), of_sink("fill[0].unreported_calls")),
        (35, 36)
    );
    assert_eq!((of_sink("fill[0].since"), of_sink("fill[0].until")), (37, 38));
    assert_eq!(of_sink("fill[0].cause"), 39);
    assert_eq!((of_sink("errors"), of_sink("last_error")), (1, 32));
}

/// The words of a sink whose buffer was written.
fn written_buffer(session: &SessionWriter, sink: &Drawing) {
    let bytes = std::fs::read(session.path().join("drain")).unwrap();
    let word = |at: u64| u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap());
    let of_sink = |field: &str| word(4096 + 512 + sink.offset(field));
    assert_eq!(
        (of_sink("settled[0].epoch"), of_sink("settled[0].sequence")),
        (guarded(1, &[9, 2, 3, 0]), 9)
    );
    assert_eq!(
        (
            of_sink("settled[0].written_records"),
            of_sink("settled[0].written_bytes")
        ),
        (2, 3)
    );
    assert_eq!(of_sink("settled[0].gone"), 0);
}

/// The copy of the header on a page of its own.
fn copied_header(bytes: &[u8], header: &Drawing) {
    let word = |at: u64| number_at(bytes, at, 8);
    let counts = 2 | 2 << 32;
    let sizes = checksum(&[word(0), counts, BUFFER_BYTES_MIN as u64]);
    assert_eq!(word(header.offset("checksum")), sizes);
    let copy = Drawing::of("session.md", "Copy of the header");
    copy.assert_whole(4096);
    let of_copy = |field| word(61_440 + copy.offset(field));
    assert_eq!((of_copy("magic"), of_copy("checksum")), (word(0), sizes));
    assert_eq!((of_copy("sink_count"), of_copy("config_bytes")), (counts, 7));
    assert_eq!(
        (of_copy("buffer_bytes"), of_copy("epoch")),
        (BUFFER_BYTES_MIN as u64, guarded(4, &[]))
    );
}

/// A text that is replaced lies behind the one before.
fn replaced_config(session: &SessionWriter, header: &Drawing) {
    session
        .buffers()
        .replace_config(b"[sink]\n[sink]\n")
        .expect("room");
    let bytes = std::fs::read(session.path().join("drain")).unwrap();
    let of_header = |field| number_at(&bytes, header.offset(field), 4);
    assert_eq!((of_header("config_bytes"), of_header("config_start")), (14, 15));
    assert_eq!(&bytes[28_672 + 15..28_672 + 29], b"[sink]\n[sink]\n");
}
