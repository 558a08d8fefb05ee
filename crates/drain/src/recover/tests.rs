//! Recovery where a sink takes nothing: what the others got is written once all the same.

use super::*;
use crate::file::{Fault, Faulty, Operation};
use crate::sink::options::{SinkOptions, Target, sinks_to_text};
use logdrive_ring::{BUFFER_BYTES_MIN, FullPolicy, SessionOptions, SessionWriter, control};
use logdrive_testkit::wait_until;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level, RecordHeader, record::HEADER_BYTES};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Lines that are several times as many as the output buffers of a sink hold.
const RECORDS: u64 = 1_500;
const TEXT_BYTES: usize = 4_000;

/// Session of a process that died with records in its ring, of which nothing was drained.
fn dead_session(dir: &Path, logs: &[&Path]) -> PathBuf {
    let sinks = logs
        .iter()
        .map(|log| SinkOptions::new(Target::File(FileOptions::new(*log))));
    let sinks: Vec<SinkOptions> = sinks.collect();
    let (session, _) = SessionWriter::create(&SessionOptions {
        app: "shop".to_owned(),
        run_dirs: vec![dir.join("run")],
        ring_bytes: 16 << 20,
        config: sinks_to_text(&sinks).into_bytes(),
        sink_count: sinks.len(),
        buffers_per_sink: 2,
        buffer_bytes: BUFFER_BYTES_MIN,
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
    let gap = crate::internal_notices::gap_callsite();
    for callsite in [gap, callsite] {
        let bytes = callsite.encode().expect("a callsite");
        session.register(&bytes, control::ON).expect("registered");
    }
    let mut producer = session.acquire("main").expect("a ring");
    for number in 0..RECORDS {
        let mut record = RecordHeader {
            length_bytes: 0,
            callsite_id: 1,
            time_ticks: 1_000 + number,
        }
        .encode()
        .to_vec();
        record.extend(number.to_le_bytes());
        record.extend((TEXT_BYTES as u32).to_le_bytes());
        record.resize(HEADER_BYTES + 8 + 4 + TEXT_BYTES, b'x');
        record.resize(record.len().next_multiple_of(8), 0);
        let length_bytes = record.len() as u32;
        record[..4].copy_from_slice(&length_bytes.to_le_bytes());
        let _ = producer.push(&record, false, FullPolicy::Drop);
    }
    session.path().to_owned()
}

/// Checks that all records of a session are accounted for by every sink, and returns those that are on their way.
fn pending(session: &Path) -> u64 {
    let stats = Stats::of_view(&SessionReader::open(session).expect("the session"));
    assert_eq!(stats.committed, RECORDS);
    for sink in &stats.sinks {
        let sum = sink.counts.written_records + sink.dropped() + sink.pending;
        assert_eq!((sum, sink.dropped()), (RECORDS, 0), "{stats:#?}");
    }
    stats.pending()
}

/// Numbers of the records in a log, in its order.
fn numbers(text: &[u8]) -> Vec<u64> {
    let lines = std::str::from_utf8(text).expect("text").lines();
    let numbers = lines.filter_map(|line| line.split_once("number ")?.1.split(' ').next()?.parse().ok());
    numbers.collect()
}

/// Recovery that had given up on one sink laid further records out for the others without a commit, so that the next
/// recovery wrote those again.
#[test]
fn records_stand_once_in_each_sink_after_a_recovery_that_one_of_them_did_not_take() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, fifo) = (dir.path().join("shop.log"), dir.path().join("fifo"));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let session = dead_session(dir.path(), &[&file, &fifo]);
    assert_eq!(pending(&session), RECORDS);

    // Of the two, only a stream is written to without an offset.
    let storage = Arc::new(Faulty::new());
    storage.fail(
        Operation::Write,
        0,
        u64::MAX,
        Fault::Error(rustix::io::Errno::AGAIN.raw_os_error()),
    );
    let given_up = recover_with(&session, None, &(storage as Arc<dyn Storage>));
    assert!(
        matches!(given_up, Err(BackendError::NoProgress { .. })),
        "{given_up:?}"
    );
    wait_until("the file is let go", || {
        std::fs::File::open(&file).is_ok_and(|file| file.try_lock().is_ok())
    });
    assert_eq!(pending(&session), RECORDS);

    // Opened for both, so that this does not wait for a writer.
    let mut reader = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&fifo)
        .expect("the pipe");
    let read = std::thread::spawn(move || {
        let (mut text, mut part) = (Vec::new(), vec![0; 1 << 16]);
        while !text.ends_with(b" calls had been dropped\n") {
            let count = std::io::Read::read(&mut reader, &mut part).expect("bytes");
            text.extend_from_slice(&part[..count]);
        }
        text
    });
    let recovered = recover(&session, None).expect("recovered");
    assert_eq!(recovered.records, RECORDS);
    assert!(!session.exists());
    let all: Vec<u64> = (0..RECORDS).collect();
    assert_eq!(numbers(&std::fs::read(&file).expect("the log")), all);
    assert_eq!(numbers(&read.join().expect("the reader")), all);
}
