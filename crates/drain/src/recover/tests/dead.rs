//! Sessions of processes that died with records in their rings.

use super::*;

/// Creates a session of an application `shop` with these sinks and a callsite of a number and a text, and no ring yet.
pub(super) fn new_session(run_dir: PathBuf, ring_bytes: usize, sinks: &[SinkOptions]) -> SessionWriter {
    let (session, _) = SessionWriter::create(&SessionOptions {
        app: "shop".to_owned(),
        run_dirs: vec![run_dir],
        ring_bytes,
        config: sinks_to_text(sinks).into_bytes(),
        sink_count: sinks.len(),
        buffers_per_sink: 2,
        buffer_bytes: BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 0,
    })
    .expect("a session");
    let field = |kind| Field {
        name: String::new(),
        kind: FieldKind::plain(kind),
        argument: true,
    };
    let callsite = Callsite {
        level: Level::Info,
        message: "number {0} {1}".to_owned(),
        fields: vec![field(Kind::U64), field(Kind::Str)],
        ..Callsite::default()
    };
    for callsite in [crate::internal_notices::gap_callsite(), callsite] {
        let bytes = callsite.encode().expect("a callsite");
        session.register(&bytes, control::ON).expect("registered");
    }
    session
}

/// Encodes a record of that callsite, with a text of this length.
pub(super) fn record(number: u64, text_bytes: usize) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    payload.extend((text_bytes as u32).to_le_bytes());
    payload.resize(8 + 4 + text_bytes, b'x');
    record_of(1, 1_000 + number, &payload)
}

/// Encodes a record with this payload.
pub(super) fn record_of(callsite_id: u32, time_ticks: u64, payload: &[u8]) -> Vec<u8> {
    let length_bytes = (HEADER_BYTES + payload.len()).next_multiple_of(8);
    let header = RecordHeader {
        length_bytes: length_bytes as u32,
        callsite_id,
        time_ticks,
    };
    let mut record = header.encode().to_vec();
    record.extend(payload);
    record.resize(length_bytes, 0);
    record
}

/// Leaves a session of a process that died with records in its ring, of which nothing was drained.
pub(super) fn dead_session(dir: &Path, logs: &[&Path]) -> PathBuf {
    dead_session_of(RECORDS, dir, logs)
}

/// Leaves the same with this number of records.
pub(super) fn dead_session_of(records: u64, dir: &Path, logs: &[&Path]) -> PathBuf {
    let sinks = logs
        .iter()
        .map(|log| SinkOptions::new(Target::File(FileOptions::new(*log))));
    let sinks: Vec<SinkOptions> = sinks.collect();
    let session = new_session(dir.join("run"), 16 << 20, &sinks);
    let mut producer = session.acquire("main").expect("a ring");
    for number in 0..records {
        let _ = producer.push(&record(number, TEXT_BYTES), false, FullPolicy::Drop);
    }
    session.path().to_owned()
}
