//! The shared vectors of the file `keep`, each run in full and counted.

use super::*;
use logdrive_testkit::{hex, number, vectors};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

/// A session with a memory of four chunks, and its file.
fn session() -> (tempfile::TempDir, logdrive_ring::SessionWriter, std::fs::File) {
    let dir = tempfile::tempdir().expect("a directory");
    let (session, _) = logdrive_ring::SessionWriter::create(&logdrive_ring::SessionOptions {
        app: "keep".to_owned(),
        run_dirs: vec![dir.path().join("run")],
        ring_bytes: 0,
        config: Vec::new(),
        sink_count: 0,
        buffers_per_sink: 0,
        buffer_bytes: logdrive_ring::BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 1,
    })
    .expect("a session");
    let path = session.path().join("keep");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("its file");
    (dir, session, file)
}

/// The memory as a recoverer opens it.
fn open(session: &logdrive_ring::SessionWriter) -> Result<KeepFile, logdrive_ring::RingError> {
    let view = logdrive_ring::SessionReader::open(session.path()).expect("a session");
    Ok(view.keep()?.expect("there is a memory"))
}

#[test]
fn what_counts_at_an_epoch_is_found() {
    let vectors = vectors("keep");
    let cases = vectors["adopt"].as_array().expect("a list");
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let (_dir, session, file) = session();
        let put = |at: u64, value: u64| file.write_all_at(&value.to_le_bytes(), at).expect("written");
        put(16, number(&case["tail"]));
        for (index, cell) in (0..).zip(case["cells"].as_array().expect("two cells")) {
            for (word, field) in (0..).zip(["word", "head", "written"]) {
                put(32 + 32 * index + 8 * word, number(&cell[field]));
            }
        }
        for chunk in case["chunks"].as_array().expect("a list") {
            let at = number(&chunk["position"]) % (4 * CHUNK);
            file.write_all_at(&hex(&chunk["hex"]), 4096 + at)
                .expect("written");
        }
        let memory = open(&session).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (mut memory, damage) = RecorderMemory::adopt(memory, number(&case["epoch"]));
        assert_eq!(
            damage.is_some(),
            case["damage"].as_bool().expect("a flag"),
            "{name}: {damage:?}"
        );
        let expected = case["records"].as_array().expect("a list");
        let found = memory.take_from(0).map_or(0, |(records, _)| records);
        assert_eq!(found, expected.len() as u64, "{name}");
        for record in expected {
            let kept = memory.front().unwrap_or_else(|| panic!("{name}: {record}"));
            assert_eq!(
                u64::from(kept.callsite_id),
                record["callsite"].as_u64().expect("a number"),
                "{name}"
            );
            assert_eq!(kept.time_ticks, number(&record["time"]), "{name}");
            assert_eq!(
                kept.thread_name,
                record["thread"].as_str().expect("a name"),
                "{name}"
            );
            assert_eq!(kept.thread_id, number(&record["thread_id"]), "{name}");
            assert_eq!(kept.payload, hex(&record["values"]), "{name}");
            memory.advance(true);
        }
        assert!(memory.front().is_none(), "{name}");
    }
    assert_eq!(cases.len(), 24);
    println!("vectors: keep.json: {} valid", cases.len());
}

#[test]
fn a_header_that_is_none_is_refused_by_its_field() {
    let vectors = vectors("keep");
    let cases = vectors["headers"].as_array().expect("a list");
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let (_dir, session, file) = session();
        for patch in case["patches"].as_array().expect("a list") {
            let at = patch["offset"].as_u64().expect("a number");
            file.write_all_at(&hex(&patch["hex"]), at).expect("written");
        }
        if !case["file_bytes"].is_null() {
            // The session's own mapping of it is not touched any more.
            file.set_len(number(&case["file_bytes"])).expect("its size");
        }
        match (open(&session), case["error"].as_str()) {
            (Ok(_), None) => {}
            (Err(logdrive_ring::RingError::Damaged { field, .. }), Some(expected)) => {
                assert_eq!(field, expected, "{name}");
            }
            (found, expected) => panic!("{name}: {found:?} and not {expected:?}"),
        }
    }
    assert_eq!(cases.len(), 9);
    println!("vectors: keep.json: {} headers", cases.len());
}
