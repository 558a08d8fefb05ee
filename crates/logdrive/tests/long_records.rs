//! Records that are longer than their ring takes: their long values are cut, for any size of the ring and any
//! caller, and nothing of them is dropped.
#![forbid(unsafe_code)]

use logdrive::{Full, Guard, MemorySink, Stats};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process has one logger.
static LOGGER: Mutex<()> = Mutex::new(());

/// Around the longest records of the sizes of rings below, and far behind.
const LENGTHS: [usize; 10] = [
    8_000, 8_176, 9_000, 16_368, 20_000, 32_752, 40_000, 65_500, 65_536, 200_000,
];

const RINGS: [usize; 5] = [1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20];

struct Log {
    guard: Guard,
    memory: MemorySink,
    longest: usize,
    _turn: MutexGuard<'static, ()>,
    _dir: tempfile::TempDir,
}

impl Log {
    fn with_rings_of(ring_bytes: usize) -> Self {
        let turn = LOGGER.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let memory = MemorySink::new(64 << 20);
        let guard = logdrive::builder("long")
            .use_env(false)
            .filter("trace")
            .run_dir(dir.path().join("run"))
            .memory(&memory)
            .ring_bytes(ring_bytes)
            .full(Full::Block)
            .init()
            .unwrap();
        Self {
            guard,
            memory,
            longest: (ring_bytes / 8).min(64 * 1024),
            _turn: turn,
            _dir: dir,
        }
    }

    /// Lines and statistics of a logger that has lost nothing.
    fn end(self, calls: usize) -> (Vec<String>, Stats) {
        let (_, stats) = self.guard.stop().unwrap();
        assert_eq!(
            (stats.dropped_calls(), stats.committed),
            (0, calls as u64),
            "{stats:#?}"
        );
        let lines = self.memory.lines();
        assert_eq!(lines.len(), calls);
        (lines, stats)
    }
}

/// The text `xxx`, whole or cut, that a line ends with.
fn text_of(line: &str) -> (usize, bool) {
    let is_cut = line.ends_with('…');
    let text = line.trim_end_matches('…');
    (text.len() - text.trim_end_matches('x').len(), is_cut)
}

/// Checks lines of which each is one text of [`LENGTHS`], in a record of so many other bytes; returns how many were
/// cut.
fn assert_cut(lines: &[String], longest: usize, others: usize) -> u64 {
    let mut cut = 0;
    for (line, length) in lines.iter().zip(LENGTHS.iter().cycle()) {
        let (kept, is_cut) = text_of(line);
        if (others + length).next_multiple_of(8) <= longest {
            assert_eq!((kept, is_cut), (*length, false), "in a record of {longest}");
        } else {
            assert!(is_cut, "{length} in a record of {longest}");
            let bytes = others + kept + '…'.len_utf8();
            assert!(bytes <= longest && bytes + 8 > longest, "{bytes} of {longest}");
            cut += 1;
        }
    }
    cut
}

#[test]
fn a_macro_s_record_is_cut_to_what_its_ring_takes() {
    for ring_bytes in RINGS {
        let log = Log::with_rings_of(ring_bytes);
        let longest = log.longest;
        for length in LENGTHS {
            logdrive::info!("{}", "x".repeat(length));
        }
        // Urgent records, and the first of a thread.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for length in LENGTHS {
                    logdrive::error!("{}", "x".repeat(length));
                }
            });
        });
        let (lines, stats) = log.end(2 * LENGTHS.len());
        assert_eq!(assert_cut(&lines, longest, 16 + 4), stats.cut);
        assert!(stats.cut >= 4, "{}", stats.cut);
    }
}

#[test]
fn short_values_of_a_long_record_stay_whole() {
    let log = Log::with_rings_of(1 << 16);
    let long = "é".repeat(50_000);
    logdrive::info!(
        short = "whole",
        bytes = &[7u8; 50_000][..],
        number = 9,
        long,
        "of all kinds"
    );
    let (lines, stats) = log.end(1);
    assert_eq!(stats.cut, 1);
    assert!(
        lines[0].contains("of all kinds short=whole bytes="),
        "{}",
        lines[0]
    );
    assert!(lines[0].contains(" number=9 long=éé") && lines[0].ends_with("é…"));
}

#[cfg(feature = "tracing")]
#[test]
fn an_event_is_cut_to_what_its_ring_takes() {
    for ring_bytes in RINGS {
        let log = Log::with_rings_of(ring_bytes);
        let longest = log.longest;
        tracing::subscriber::with_default(logdrive::tracing::subscriber(), || {
            for length in LENGTHS {
                tracing::info!("{}", "x".repeat(length));
            }
        });
        let (lines, stats) = log.end(LENGTHS.len());
        // Kind, index and length of the message.
        assert_eq!(assert_cut(&lines, longest, 16 + 6), stats.cut);
    }
}

#[cfg(feature = "tracing")]
#[test]
fn spans_that_do_not_fit_beside_the_values_are_left_out_and_counted() {
    let log = Log::with_rings_of(1 << 16);
    tracing::subscriber::with_default(logdrive::tracing::subscriber(), || {
        let _span = tracing::info_span!("around", text = "y".repeat(3_000)).entered();
        tracing::info!("{}", "x".repeat(100));
        tracing::info!("{}", "x".repeat(6_000));
    });
    let (lines, stats) = log.end(2);
    assert_eq!(stats.cut, 1);
    assert!(lines[0].contains("around{text=yyy") && text_of(&lines[0]) == (100, false));
    assert!(!lines[1].contains("around") && text_of(&lines[1]) == (6_000, false));
}

#[cfg(feature = "log")]
#[test]
fn a_record_of_the_facade_is_cut_to_what_its_ring_takes() {
    // Another test of this program may have come first.
    let _ = logdrive::log::install();
    for ring_bytes in RINGS {
        let log = Log::with_rings_of(ring_bytes);
        let longest = log.longest;
        for length in LENGTHS {
            log::info!("{}", "x".repeat(length));
        }
        let (lines, stats) = log.end(LENGTHS.len());
        assert_eq!(assert_cut(&lines, longest, 16 + 6), stats.cut);
    }
}
