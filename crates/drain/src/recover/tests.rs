//! Recovery where a sink takes nothing: what the others got is written once all the same.

mod dead;
mod every_byte;

use super::*;
use crate::file::{Fault, Faulty, Operation};
use crate::sink::options::{SinkOptions, Target, sinks_to_text};
use crate::status::BackendStatus;
use dead::{dead_session, dead_session_of, new_session, record_of};
use held_sessions::HeldLimits;
use logdrive_ring::{
    BUFFER_BYTES_MIN, Consumer, FullPolicy, SessionAccount, SessionOptions, SessionWriter, control,
};
use logdrive_testkit::wait_until;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level, RecordHeader, record::HEADER_BYTES};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::os::unix::fs::MetadataExt;

/// Lines that are several times as many as the output buffers of a sink hold.
const RECORDS: u64 = 1_500;
const TEXT_BYTES: usize = 4_000;

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
    let given_up = recover_with(&session, None, None, &(storage as Arc<dyn Storage>), None);
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
        while !text.ends_with(b" written, 0 dropped\n") {
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

/// A recovery that was killed behind its last line left a session without records, and the next one wrote that line again.
#[test]
fn the_end_of_a_process_is_told_once_though_its_recovery_was_killed_at_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (dir.path().join("first.log"), dir.path().join("second.log"));
    let session = dead_session_of(20, dir.path(), &[&first, &second]);
    // All that comes after the lines of the end are laid out is missing, as after a kill.
    let storage = Arc::new(Faulty::new());
    let fault = Fault::Error(rustix::io::Errno::IO.raw_os_error());
    storage.fail(Operation::WriteAt, 1, u64::MAX, fault);
    let given_up = recover_with(&session, None, None, &(storage as Arc<dyn Storage>), None);
    assert!(
        matches!(given_up, Err(BackendError::NoProgress { .. })),
        "{given_up:?}"
    );
    wait_until("the files are let go", || {
        let is_free = |log| std::fs::File::open(log).is_ok_and(|file| file.try_lock().is_ok());
        is_free(&first) && is_free(&second)
    });
    recover(&session, None).expect("recovered");
    for log in [first, second] {
        let text = std::fs::read_to_string(log).expect("the log");
        assert_eq!(numbers(text.as_bytes()), (0..20).collect::<Vec<_>>());
        assert_eq!(text.matches("records were recovered").count(), 1, "{text}");
    }
}

/// At `exec` the kernel frees the lock of the session first; recovery found the log locked, and wrote beside it.
#[test]
fn a_lock_that_the_dead_process_has_for_a_moment_moves_no_line_to_another_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("shop.log");
    // Made by this process, which is there and has the session no more.
    let session = dead_session_of(20, dir.path(), &[&log]);
    std::fs::write(&log, "").expect("the log");
    let storage = Arc::new(Faulty::new());
    let taken = Fault::Error(rustix::io::Errno::AGAIN.raw_os_error());
    storage.fail(Operation::Lock, 0, 2, taken);
    recover_with(&session, None, None, &(storage as Arc<dyn Storage>), None).expect("recovered");
    let text = std::fs::read(&log).expect("the log");
    assert_eq!(numbers(&text), (0..20).collect::<Vec<_>>());
}

/// A producer that was killed between taking its counter and committing the gap record took those drops with it.
#[test]
fn drops_that_a_killed_producer_had_taken_are_told_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("shop.log");
    let session = {
        let sink = SinkOptions::new(Target::File(FileOptions::new(&log)));
        let session = new_session(dir.path().join("run"), 1 << 16, &[sink]);
        let mut producer = session.acquire("main").expect("a ring");
        // Records that no ring takes, of which one gap record tells forty.
        for _ in 0..100 {
            let _ = producer.push(&[0; 1 << 15], false, FullPolicy::Drop);
        }
        let ring = session.rings_from(0).remove(0);
        assert_eq!(
            ring.take_unreported()[1],
            100,
            "taken by the producer, which is killed before it has told all"
        );
        let told = crate::internal_notices::gap_payload(40, "record too large");
        let _ = producer.push(&record_of(0, 1_000, &told), true, FullPolicy::Drop);
        session.header().count_drop(logdrive_ring::DropReason::NoRing, 7);
        session.path().to_owned()
    };
    let recovered = recover(&session, None).expect("recovered");
    let log = std::fs::read_to_string(&log).expect("the log");
    for told in [
        "40 records dropped: record too large",
        "60 records dropped: record too large",
        "7 records dropped: no ring for the thread",
    ] {
        assert_eq!(log.matches(told).count(), 1, "{log}");
    }
    assert_eq!(log.matches(" records dropped: ").count(), 3, "{log}");
    let sums = " 107 dropped (record too large 100, no ring for the thread 7)";
    assert!(recovered.end.contains(sums), "{}", recovered.end);
}

/// A buffer that was counted as written, of a writer that was killed before it gave the buffer free, is not written again.
#[test]
fn a_buffer_that_is_counted_is_written_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("shop.log");
    let session = dead_session(dir.path(), &[&log]);
    {
        let view = SessionReader::open(&session).expect("the session");
        let buffers = view.buffers().expect("its buffers");
        let mut all = buffers.take_all(0).expect("room");
        let mut buffer = all.remove(0);
        buffer.start_filling(1);
        buffer.space()[..8].copy_from_slice(b"earlier\n");
        buffer.grow(8, 1);
        buffer.mark_ready();
        buffer.mark_written();
        // Its state is what the writer stored before.
        buffer.grow(8, 1);
        buffer.mark_ready();
    }
    let stats = Stats::of_view(&SessionReader::open(&session).expect("the session"));
    let sink = &stats.sinks[0];
    assert_eq!((sink.counts.written_records, sink.counts.pending_records), (1, 0));
    recover(&session, None).expect("recovered");
    let text = std::fs::read_to_string(&log).expect("the log");
    assert!(!text.contains("earlier"), "the writer had written it");
    assert_eq!(numbers(text.as_bytes()), (0..RECORDS).collect::<Vec<u64>>());
}

/// Harm to the session in a directory.
type Harm = fn(&Path);

/// Changes bytes of a file of a session.
fn damage(session: &Path, name: &str, at: usize, change: impl Fn(&mut [u8])) {
    let path = session.join(name);
    let mut bytes = std::fs::read(&path).expect("a file of the session");
    change(bytes.get_mut(at..).expect("bytes"));
    std::fs::write(&path, bytes).expect("a file of the session");
}

/// A header of which one byte is damaged, of which nothing is left, or that was cut off, made all records unreadable, and one
/// with a magic of 0 had the session removed with all of its records.
#[test]
fn records_of_a_session_with_a_damaged_header_are_recovered() {
    let harms: [(&str, Harm); 6] = [
        ("a flip of the name", |session| {
            damage(session, "session", 33, |bytes| bytes[0] ^= 16);
        }),
        ("a flip of the magic", |session| {
            damage(session, "session", 0, |bytes| bytes[0] ^= 16);
        }),
        ("a flip of the checksum", |session| {
            damage(session, "session", 120, |bytes| bytes[0] ^= 16);
        }),
        ("a wrong count of rings", |session| {
            damage(session, "session", 256, |bytes| bytes[2] ^= 16);
        }),
        ("a page of zeros", |session| {
            damage(session, "session", 0, |bytes| bytes.fill(0));
        }),
        ("a file without bytes", |session| {
            std::fs::write(session.join("session"), b"").expect("the file");
        }),
    ];
    for (what, harm) in harms {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("shop.log");
        let session = dead_session_of(20, dir.path(), &[&log]);
        harm(&session);
        let recovered = recover(&session, None).expect(what);
        assert!(!session.exists(), "{what}");
        assert_eq!(
            (recovered.app.as_str(), recovered.pid),
            ("shop", std::process::id()),
            "{what}"
        );
        let text = std::fs::read_to_string(&log).expect("the log");
        assert_eq!(
            numbers(text.as_bytes()),
            (0..20).collect::<Vec<_>>(),
            "{what}: {text}"
        );
        assert!(!recovered.damage.is_empty(), "{what}");
        for damage in &recovered.damage {
            assert!(text.contains(damage), "{what}: {text}");
        }
        assert!(!text.contains("records dropped"), "{what}: {text}");
    }
}

/// A session that was being made has nothing; with files of rings, a magic of 0 is damage.
#[test]
fn a_session_that_was_being_made_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let session = dead_session_of(0, dir.path(), &[&dir.path().join("shop.log")]);
    std::fs::remove_file(session.join("ring-00000")).expect("the only ring");
    damage(&session, "session", 0, |bytes| bytes.fill(0));
    let recovered = recover(&session, None);
    assert!(
        matches!(&recovered, Err(BackendError::Ring(error)) if error.is_incomplete()),
        "{recovered:?}"
    );
    assert!(!session.exists());
}

/// Damage after which something of a session cannot be read.
const UNREADABLE: [(&str, Harm); 5] = [
    ("the header of a ring", |session| {
        let bytes = std::fs::metadata(session.join("ring-00001"))
            .expect("a ring")
            .len();
        damage(session, "ring-00001", bytes as usize - 4096, |bytes| {
            bytes.fill(0)
        });
    }),
    ("a truncated ring", |session| {
        let ring = std::fs::File::options()
            .write(true)
            .open(session.join("ring-00001"));
        ring.expect("a ring").set_len(100_000).expect("truncated");
    }),
    ("all descriptors, with text in a buffer", |session| {
        {
            let view = SessionReader::open(session).expect("the session");
            let buffers = view.buffers().expect("its buffers");
            let mut buffer = buffers.take_all(0).expect("room").remove(0);
            buffer.start_filling(1);
            buffer.space()[..8].copy_from_slice(b"earlier\n");
            buffer.grow(8, 1);
            buffer.mark_ready();
        }
        damage(session, "drain", 12288, |bytes| bytes[..16384].fill(0));
    }),
    ("the callsites", |session| {
        damage(session, "callsites", 0, |bytes| bytes.fill(0));
    }),
    ("a table that is missing", |session| {
        std::fs::remove_file(session.join("callsites")).expect("the table");
    }),
];

/// A ring that cannot be read, buffers and descriptions that cannot: the rest is recovered, nothing that may hold records is
/// removed, nothing goes to a path that damaged words name, and another recovery writes nothing again.
#[test]
fn what_cannot_be_read_is_kept() {
    for (what, harm) in UNREADABLE {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("shop.log");
        let session = dead_session_of(20, dir.path(), &[&log]);
        std::fs::copy(session.join("ring-00000"), session.join("ring-00001")).expect("another ring");
        if !what.contains("ring") {
            std::fs::remove_file(session.join("ring-00001")).expect("the other ring");
        }
        harm(&session);
        let recovered = recover(&session, None).expect(what);
        let aside = recovered.set_aside.expect(what);
        assert!(
            aside.ends_with("run/".to_owned() + &session.file_name().unwrap().to_string_lossy() + ".damaged"),
            "{what}: {aside:?}"
        );
        assert!(aside.exists() && !session.exists(), "{what}");
        let text = std::fs::read_to_string(&log).expect("the log");
        if !what.contains("callsites") && !what.contains("table") {
            assert_eq!(
                numbers(text.as_bytes()),
                (0..20).collect::<Vec<_>>(),
                "{what}: {text}"
            );
        }
        assert!(text.contains(&*aside.to_string_lossy()), "{what}: {text}");
        assert!(
            !text.contains("earlier\n"),
            "{what}: nobody knows whether it was written"
        );
        if what.contains("text") {
            assert_eq!(
                std::fs::read(aside.join("text-0")).expect("the text"),
                b"earlier\n"
            );
        }
        assert!(std::fs::read_to_string(aside.join("damage")).is_ok_and(|text| !text.is_empty()));
        // Nothing new for the log, and no other name.
        let again = recover(&aside, None).expect(what);
        assert_eq!(again.set_aside.as_deref(), Some(aside.as_path()), "{what}");
        assert_eq!(std::fs::read_to_string(&log).expect("the log"), text, "{what}");
    }
}

/// A path with a flipped bit was written to.
#[test]
fn a_damaged_description_names_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, into) = (dir.path().join("shop.log"), dir.path().join("into.log"));
    let mended = dead_session_of(20, dir.path(), &[&log]);
    let place = 28672 + 40;
    damage(&mended, "drain", place, |bytes| bytes[0] ^= 1);
    recover(&mended, None).expect("one byte is mended");
    let all: Vec<u64> = (0..20).collect();
    assert_eq!(numbers(&std::fs::read(&log).expect("the log")), all);
    std::fs::remove_file(&log).expect("the log");

    let session = dead_session_of(20, dir.path(), &[&log]);
    damage(&session, "drain", place, |bytes| bytes[..4].fill(b'z'));
    assert!(matches!(recover(&session, None), Err(BackendError::NoFile)));
    assert!(session.exists());
    recover(&session, Some(&FileOptions::new(&into))).expect("recovered");
    assert_eq!(numbers(&std::fs::read(&into).expect("the file")), all);
    assert!(!session.exists());

    // A file without its header: the application's own log takes the rest.
    let session = dead_session_of(20, dir.path(), &[&log]);
    damage(&session, "drain", 0, |bytes| bytes[..65536].fill(0));
    assert!(recover(&session, None).is_err());
    let own = FileOptions::new(dir.path().join("own.log"));
    let storage = Arc::new(Disk) as Arc<dyn Storage>;
    let recovered = recover_with(&session, None, Some(&own), &storage, None).expect("recovered");
    assert!(
        recovered
            .set_aside
            .is_some_and(|aside| aside.join("drain.damaged").exists())
    );
    assert_eq!(numbers(&std::fs::read(&own.path).expect("the log")), all);
    assert!(!log.exists());
    let files = std::fs::read_dir(dir.path()).expect("a list").count();
    assert_eq!(files, 3, "into.log, own.log and the run directory");
}

/// Starts an application beside its dead sessions; returns the lines about them.
fn start_beside(dir: &Path, limits: HeldLimits) -> Vec<String> {
    let recovery = ApplicationRecovery::new(vec![dir.join("run")], "shop".to_owned(), None);
    lines_beside(ApplicationRecovery { limits, ..recovery })
}

/// Takes the lines of a recovery as a drain does, until it has ended.
fn lines_beside(recovery: ApplicationRecovery) -> Vec<String> {
    let status = Arc::new(BackendStatus::new(0));
    let state = recovery.start(&status);
    let mut lines = Vec::new();
    wait_until("the recovery has ended", || {
        lines.extend(status.take_notices());
        state.is_done()
    });
    lines.extend(status.take_notices());
    lines.into_iter().map(|(_, text)| text).collect()
}

/// One log that did not open kept the recovery from all other sessions, and what it could not recover grew without a bound.
#[test]
fn a_log_that_does_not_open_keeps_no_other_session_from_its_recovery_and_none_from_the_limits() {
    let dir = tempfile::tempdir().expect("a directory");
    let (stuck, log) = (dir.path().join("stuck.log"), dir.path().join("shop.log"));
    let sessions: Vec<PathBuf> = (0..5)
        .map(|_| dead_session_of(10, dir.path(), &[&stuck]))
        .collect();
    // In another run directory, whose sessions come later.
    let second = dir.path().join("second");
    std::fs::create_dir(&second).expect("a directory");
    let other = dead_session_of(20, &second, &[&log]);
    let storage = Arc::new(Faulty::new());
    storage.fail(Operation::Open, 0, 1, Fault::Hang);
    let run_dirs = vec![dir.path().join("run"), second.join("run")];
    let recovery = ApplicationRecovery::new(run_dirs, "shop".to_owned(), None);
    let told = lines_beside(ApplicationRecovery {
        limits: HeldLimits {
            sessions: 2,
            ..HeldLimits::default()
        },
        hangs: std::time::Duration::from_millis(500),
        storage: Arc::clone(&storage) as Arc<dyn Storage>,
        ..recovery
    });
    let has = |text: &str| told.iter().any(|line| line.contains(text));
    assert!(has("its log does not answer"), "{told:?}");
    assert!(
        has("20 records of 2 sessions of earlier processes dropped: "),
        "{told:?}"
    );
    assert_eq!(
        sessions.iter().filter(|session| session.exists()).count(),
        3,
        "{told:?}"
    );
    let text = std::fs::read(&log).expect("the log");
    assert_eq!(numbers(&text), (0..20).collect::<Vec<_>>());
    assert!(!other.exists());
    storage.clear();
    wait_until("the session whose log did not open is recovered", || {
        sessions.iter().filter(|session| session.exists()).count() == 2
    });
    assert_eq!(
        numbers(&std::fs::read(&stuck).expect("the log")),
        (0..10).collect::<Vec<_>>()
    );
}

/// A start that was killed in between left no word of the sessions that it had removed.
#[test]
fn sessions_beyond_the_limits_stay_until_the_log_has_the_line_about_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = dir.path().join("logs");
    std::fs::write(&logs, "").expect("a file");
    let sessions: Vec<PathBuf> = (0..3)
        .map(|_| dead_session_of(10, dir.path(), &[&logs.join("shop.log")]))
        .collect();
    let exist = || sessions.iter().filter(|session| session.exists()).count();
    let status = Arc::new(BackendStatus::new(0));
    let recovery = ApplicationRecovery::new(vec![dir.path().join("run")], "shop".to_owned(), None);
    let limits = HeldLimits {
        sessions: 2,
        ..HeldLimits::default()
    };
    let state = ApplicationRecovery { limits, ..recovery }.start(&status);
    let mut told = Vec::new();
    wait_until("the line is there", || {
        told.extend(status.take_notices());
        assert_eq!(exist(), 3, "{told:?}");
        told.iter().any(|(_, line)| line.contains(" dropped: "))
    });
    // Not before the drain comes again, which has committed the line then.
    assert_eq!(exist(), 3);
    wait_until("it is told", || {
        status.take_notices();
        state.is_done()
    });
    assert_eq!(exist(), 2);
}

/// Sessions beside a log that took nothing were kept without a bound, until they had filled the memory of the machine.
#[test]
fn the_oldest_sessions_that_cannot_be_recovered_are_dropped_beyond_the_limits_and_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = dir.path().join("logs");
    let log = logs.join("shop.log");
    // In the place of the directory, so that the log cannot be opened.
    std::fs::write(&logs, "").expect("a file");
    let records = [10, 20, 30, 40, 50];
    let sessions = records.map(|records| dead_session_of(records, dir.path(), &[&log]));
    let exist = || sessions.each_ref().map(|session| session.exists());
    let limits = HeldLimits::default();

    let told = start_beside(dir.path(), limits);
    assert_eq!(exist(), [true; 5], "{told:?}");
    assert!(told.iter().all(|line| !line.contains("dropped")), "{told:?}");

    let of_two = HeldLimits {
        sessions: 2,
        ..limits
    };
    let told = start_beside(dir.path(), of_two);
    assert_eq!(exist(), [false, false, false, true, true], "{told:?}");
    let dropped: Vec<&String> = told.iter().filter(|line| line.contains("dropped")).collect();
    assert_eq!(dropped.len(), 1, "{told:?}");
    let expected = "60 records of 3 sessions of earlier processes dropped: ";
    assert!(dropped[0].starts_with(expected), "{dropped:?}");

    let told = start_beside(dir.path(), HeldLimits { bytes: 1, ..limits });
    assert_eq!(exist(), [false, false, false, false, true], "the newest stays");
    let expected = "40 records of 1 sessions of earlier processes dropped: ";
    assert!(told.iter().any(|line| line.starts_with(expected)), "{told:?}");

    std::fs::remove_file(&logs).expect("the file");
    std::fs::create_dir(&logs).expect("a directory");
    assert!(start_beside(dir.path(), of_two).is_empty());
    assert_eq!(exist(), [false; 5]);
    let text = std::fs::read(&log).expect("the log");
    assert_eq!(numbers(&text), (0..50).collect::<Vec<_>>());
}

/// The oldest of too many damaged sessions went, and no log said so.
#[test]
fn a_damaged_session_that_makes_room_for_another_is_told_in_the_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("shop.log");
    let mut asides = Vec::new();
    // One more than are kept.
    for _ in 0..9 {
        let session = dead_session_of(1, dir.path(), &[&log]);
        std::fs::remove_file(session.join("callsites")).expect("the table");
        let told = start_beside(dir.path(), HeldLimits::default());
        assert!(told.is_empty() && !session.exists(), "{told:?}");
        let mut aside = session.into_os_string();
        aside.push(".damaged");
        asides.push(PathBuf::from(aside));
    }
    let text = std::fs::read_to_string(&log).expect("the log");
    let removed = format!("the damaged session {} was removed", asides[0].display());
    assert_eq!(text.matches(&removed).count(), 1, "{text}");
    assert_eq!(text.matches("was removed").count(), 1, "{text}");
    let exist: Vec<bool> = asides.iter().map(|aside| aside.exists()).collect();
    assert_eq!(exist, [[false].as_slice(), &[true; 8]].concat());
}

/// A recoverer that was killed once it had mended a session left no trace of the damage: the next one told nothing of it, and
/// removed what was set aside.
#[test]
fn damage_is_told_once_and_kept_though_its_recoverer_was_killed() {
    let harms: [(&str, bool, Harm); 4] = [
        ("a flip of the name", false, |session| {
            damage(session, "session", 33, |bytes| bytes[0] ^= 16);
        }),
        ("a page of zeros", false, |session| {
            damage(session, "session", 0, |bytes| bytes.fill(0));
        }),
        ("a flip of the description", false, |session| {
            damage(session, "drain", 28672 + 40, |bytes| bytes[0] ^= 1);
        }),
        (UNREADABLE[2].0, true, UNREADABLE[2].1),
    ];
    for (what, is_kept, harm) in harms {
        for has_told in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let log = dir.path().join("shop.log");
            let session = dead_session_of(20, dir.path(), &[&log]);
            harm(&session);
            {
                let reader = SessionReader::adopt(&session).expect(what);
                let mut killed = AdoptedSession::new(reader).expect(what);
                if has_told {
                    let lines = killed.notes.lines().to_vec();
                    let storage = Arc::new(Disk) as Arc<dyn Storage>;
                    let drain = killed.drain(&storage, Overflow::Hold, false, None);
                    let mut drain = drain.expect(what);
                    assert!(!lines.is_empty(), "{what}");
                    drain.tell_damage(&lines);
                    // What it has laid out stays in the buffers.
                    killed.status.abandon();
                }
            }
            wait_until("the log is let go", || {
                std::fs::File::open(&log).map_or(true, |file| file.try_lock().is_ok())
            });
            let recovered = recover(&session, None).expect(what);
            assert_eq!(recovered.set_aside.is_some(), is_kept, "{what}: {recovered:?}");
            assert!(!recovered.damage.is_empty(), "{what}");
            let text = std::fs::read_to_string(&log).expect("the log");
            assert_eq!(
                numbers(text.as_bytes()),
                (0..20).collect::<Vec<_>>(),
                "{what}: {text}"
            );
            for line in &recovered.damage {
                assert_eq!(text.matches(line).count(), 1, "{what}, {has_told}: {text}");
            }
            if let Some(aside) = recovered.set_aside {
                let saved = std::fs::read(aside.join("text-0"));
                assert_eq!(saved.expect("the text"), b"earlier\n");
            }
        }
    }
}

/// Session of a process that had begun to write lines at the end of a log, of which the first `written_bytes` are there, and
/// that had `done_bytes` of them in the log before.
fn writing_session(dir: &Path, log: &Path, lines: &str, done_bytes: usize, written_bytes: usize) -> PathBuf {
    let session = dead_session_of(0, dir, &[log]);
    let view = SessionReader::open(&session).expect("the session");
    let buffers = view.buffers().expect("its buffers");
    let mut buffer = buffers.take_all(0).expect("room").remove(0);
    buffer.start_filling(1);
    buffer.space()[..lines.len()].copy_from_slice(lines.as_bytes());
    buffer.grow(lines.len(), 1);
    buffer.mark_done(done_bytes);
    let mut file = std::fs::File::options();
    let mut file = file.append(true).create(true).open(log).expect("the log");
    let found = file.metadata().expect("the log");
    buffer.mark_writing(logdrive_ring::FileLocation {
        dev: found.dev(),
        ino: found.ino(),
        offset: found.len(),
    });
    let written = &lines.as_bytes()[done_bytes..done_bytes + written_bytes];
    std::io::Write::write_all(&mut file, written).expect("written");
    session
}

/// Lines of a log that are no records of a ring, and no ends of processes.
fn plain_lines(text: &str) -> Vec<&str> {
    let lines = text.lines();
    lines
        .filter(|line| !line.contains("number ") && !line.contains(" logdrive process "))
        .collect()
}

/// A session that was recovered first appended behind the torn line of another one, whose recovery then found its place
/// taken, and wrote the line again.
#[test]
fn a_line_that_is_torn_in_the_log_of_two_processes_stands_there_once_and_whole() {
    let lines = "first of the owner\nsecond of the owner\n";
    for written_bytes in [0, 1, 18, 19, 20, 38, lines.len()] {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("shop.log");
        std::fs::write(&log, "before\n").expect("the log");
        let owner = writing_session(dir.path(), &log, lines, 0, written_bytes);
        let other = dead_session_of(2, dir.path(), &[&log]);
        recover(&other, None).expect("recovered");
        recover(&owner, None).expect("recovered");
        let text = std::fs::read_to_string(log).expect("the log");
        let all = ["before", "first of the owner", "second of the owner"];
        assert_eq!(plain_lines(&text), all, "{written_bytes}");
        assert_eq!(numbers(text.as_bytes()), [0, 1], "{written_bytes}");
    }
}

/// Such a write was found in the run directory of the other session alone.
#[test]
fn a_torn_line_of_a_session_that_lies_beside_the_log_stands_there_once_and_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("shop.log");
    let lines = "first of the owner\nsecond of the owner\n";
    let owner = writing_session(dir.path(), &log, lines, 0, 20);
    let beside = dir.path().join(".logdrive");
    std::fs::rename(dir.path().join("run"), &beside).expect("moved");
    let owner = beside.join(owner.file_name().expect("a name"));
    let other = dead_session_of(2, dir.path(), &[&log]);
    recover(&other, None).expect("recovered");
    recover(&owner, None).expect("recovered");
    let text = std::fs::read_to_string(log).expect("the log");
    let all = ["first of the owner", "second of the owner"];
    assert_eq!(plain_lines(&text), all, "{text}");
}

/// A recovery that was killed while it appended what had no room in its place left a part of it, and the next one appended
/// all of it again.
#[test]
fn a_recovery_that_is_killed_while_it_appends_the_rest_of_a_write_is_repeated() {
    let lines = "first of the owner\nsecond of the owner\n";
    let first = lines.find('\n').expect("an end") + 1;
    for written_bytes in [0, 1, 2, 5, lines.len() - first] {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("shop.log");
        std::fs::write(&log, "first of the owner\nof another\n").expect("the log");
        let owner = writing_session(dir.path(), &log, lines, first, written_bytes);
        let other = dead_session_of(2, dir.path(), &[&log]);
        // Whichever comes first.
        if written_bytes % 2 == 0 {
            recover(&other, None).expect("recovered");
        }
        recover(&owner, None).expect("recovered");
        let text = std::fs::read_to_string(log).expect("the log");
        let all = ["first of the owner", "of another", "second of the owner"];
        assert_eq!(plain_lines(&text), all, "{written_bytes}");
    }
}

/// Nobody else has the rest of it.
#[test]
fn a_torn_line_of_a_write_that_is_gone_gets_an_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("shop.log");
    std::fs::write(&log, "before\ntor").expect("the log");
    let other = dead_session_of(2, dir.path(), &[&log]);
    recover(&other, None).expect("recovered");
    let text = std::fs::read_to_string(log).expect("the log");
    assert_eq!(plain_lines(&text), ["before", "tor"]);
}

/// Length of a record of the sessions here, and the place of a word of a ring's header.
const RECORD: usize = 4032;
const COMMITTED: usize = (16 << 20) + 64;
const CONSUMED: usize = (16 << 20) + 256;

/// Damage of a ring that costs no record.
const MENDED: [(&str, usize, Harm); 9] = [
    ("a committed position of the tenth record", 0, |session| {
        damage(session, "ring-00000", COMMITTED, |bytes| {
            bytes[..8].copy_from_slice(&(10 * RECORD as u64).to_le_bytes());
        });
    }),
    ("the magic", 0, |session| {
        damage(session, "ring-00000", 16 << 20, |bytes| bytes[2] ^= 4);
    }),
    ("the capacity", 0, |session| {
        damage(session, "ring-00000", (16 << 20) + 16, |bytes| bytes[2] ^= 4);
    }),
    ("a length that is shorter", 0, |session| {
        damage(session, "ring-00000", 5 * RECORD, |bytes| bytes[0] ^= 0x80);
    }),
    ("a length that is longer", 0, |session| {
        damage(session, "ring-00000", 5 * RECORD, |bytes| bytes[1] ^= 0x10);
    }),
    ("a length of no record", 0, |session| {
        damage(session, "ring-00000", 5 * RECORD, |bytes| bytes[2] ^= 2);
    }),
    ("a length of two records", 0, |session| {
        damage(session, "ring-00000", 5 * RECORD, |bytes| {
            bytes[..4].copy_from_slice(&(2 * RECORD as u32).to_le_bytes());
        });
    }),
    ("the committed position", 0, |session| {
        damage(session, "ring-00000", COMMITTED, |bytes| bytes[5] ^= 4);
    }),
    ("the consumed position", 0, |session| {
        damage(session, "ring-00000", CONSUMED, |bytes| bytes[6] ^= 4);
    }),
];

/// Everything behind a damaged header of a record was lost: a flip in one of its lengths cost up to a whole ring.
#[test]
fn records_behind_a_damaged_one_are_recovered() {
    let lost: [(&str, usize, Harm); 3] = [
        ("a header of zeros", 1, |session| {
            damage(session, "ring-00000", 5 * RECORD, |bytes| bytes[..16].fill(0));
        }),
        ("a page of zeros", 1, |session| {
            damage(session, "ring-00000", 4096 * 4, |bytes| bytes[..4096].fill(0));
        }),
        ("three headers of zeros", 3, |session| {
            for number in [4, 5, 17] {
                damage(session, "ring-00000", number * RECORD, |bytes| {
                    bytes[..16].fill(0)
                });
            }
        }),
    ];
    for (what, lost, harm) in lost.into_iter().chain(MENDED) {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("shop.log");
        let session = dead_session_of(20, dir.path(), &[&log]);
        harm(&session);
        let recovered = recover(&session, None).expect(what);
        let text = std::fs::read_to_string(&log).expect("the log");
        let found = numbers(text.as_bytes());
        assert_eq!(found.len(), 20 - lost, "{what}: {found:?}");
        assert!(
            found.windows(2).all(|pair| pair[0] < pair[1]),
            "{what}: {found:?}"
        );
        assert_eq!(recovered.set_aside.is_some(), lost > 0, "{what}");
        assert!(
            recovered.damage.iter().any(|line| line.starts_with("ring 0: ")),
            "{what}"
        );
        let told = format!("{lost} records in rings, with ");
        assert_eq!(text.matches(&told).count(), usize::from(lost > 0), "{what}");
        for line in recovered.damage.iter().filter(|line| line.starts_with("ring")) {
            assert_eq!(text.matches(line).count(), 1, "{what}: {line}");
        }
    }
}

/// Behind what is drained lie records of an earlier lap, which counts that say too much must not bring back.
#[test]
fn nothing_is_taken_from_a_ring_that_is_drained() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("shop.log");
    let session = dead_session_of(20, dir.path(), &[&log]);
    for word in [COMMITTED, CONSUMED] {
        damage(&session, "ring-00000", word, |bytes| {
            bytes[..8].copy_from_slice(&(10 * RECORD as u64).to_le_bytes());
        });
    }
    let recovered = recover(&session, None).expect("recovered");
    let text = std::fs::read_to_string(&log).expect("the log");
    assert!(numbers(text.as_bytes()).is_empty(), "{:?}", recovered.damage);
}

/// A consumed position that was flipped upwards skipped the records before it, and only the final sums showed it.
#[test]
fn a_consumed_position_ahead_of_the_drain_skips_no_record() {
    for (what, position) in [
        ("between two records", 10 * RECORD as u64),
        ("inside of a record", 10 * RECORD as u64 + 8),
        ("the end", 20 * RECORD as u64),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("shop.log");
        let session = dead_session_of(20, dir.path(), &[&log]);
        {
            // Its drain has taken three.
            let view = SessionReader::open(&session).expect("the session");
            let ring = view.rings().0.remove(0);
            Consumer::new(ring).note_drained(3 * RECORD, 1, 0);
            let account = SessionAccount {
                drained: 3,
                ..SessionAccount::default()
            };
            view.header().note_account(account, 1, 0);
            view.buffers().expect("its buffers").publish(1);
        }
        damage(&session, "ring-00000", CONSUMED, |bytes| {
            bytes[..8].copy_from_slice(&position.to_le_bytes());
        });
        let recovered = recover(&session, None).expect(what);
        let text = std::fs::read_to_string(&log).expect("the log");
        assert_eq!(numbers(text.as_bytes()), (3..20).collect::<Vec<_>>(), "{what}");
        let told = format!("ring 0: its consumed position {position} is damaged");
        assert_eq!(text.matches(&told).count(), 1, "{what}: {:?}", recovered.damage);
        assert!(recovered.set_aside.is_none(), "{what}");
    }
}
