//! A file system that stops answering, mounted by FUSE: what the log does meanwhile, and what is in it afterwards.

use std::path::Path;
use std::time::{Duration, Instant};

use logdrive::{File, Full, Level, Stats, Stopped};
use logdrive_bench::usage::peak_rss_mib;
use logdrive_bench::workloads::hang::slow_disk::SlowDisk;
use logdrive_testkit::wait_until;

/// Writes hang for so long at least, and calls are made all the time.
const HANG: Duration = Duration::from_secs(1);

/// The buffers of both sinks, with room for what a test program needs itself.
const GROWTH_MIB_MAX: f64 = 32.0;

/// Both sums of the statistics, for `calls` calls.
fn assert_sums(stats: &Stats, calls: u64) {
    let accounted = stats.committed + stats.dropped_calls() + stats.disabled;
    assert_eq!(calls, accounted, "{stats:#?}");
    for sink in &stats.sinks {
        let accounted = sink.counts.written_records + sink.dropped() + sink.pending;
        assert_eq!(stats.committed, accounted, "{stats:#?}");
    }
}

/// The lines that calls have left, without the logger's own.
fn lines_of_calls(text: &str) -> u64 {
    text.lines().filter(|line| !line.contains(" logdrive ")).count() as u64
}

/// Returns whether the buffers of the slow file have filled up.
fn has_dropped() -> bool {
    logdrive::stats().is_some_and(|stats| stats.sinks[0].dropped() > 0)
}

/// Makes calls for as long as the hang lasts, which is until it has cost something; returns how many.
fn call_all_the_time() -> u64 {
    let end = Instant::now() + HANG;
    let deadline = end + Duration::from_secs(30);
    let filling = "x".repeat(80);
    let mut calls = 0;
    while Instant::now() < end || !has_dropped() {
        assert!(Instant::now() < deadline, "nothing was dropped");
        for _ in 0..100 {
            logdrive::info!("number {} {}", calls, filling);
            calls += 1;
        }
    }
    calls
}

#[test]
fn a_file_system_that_hangs_stalls_nobody_and_every_drop_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_logdrive-bench"));
    let mut disk = match SlowDisk::mount(program, dir.path()) {
        Ok(disk) => disk,
        Err(error) => return println!("left out: {}", error),
    };
    let other = dir.path().join("other.log");
    let guard = logdrive::builder("slow-disk")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.path().join("run"))
        .file(File::new(disk.dir().join("slow.log")))
        .file(File::new(&other))
        .full(Full::Drop)
        .ring_bytes(1 << 16)
        .init()
        .unwrap();
    let shows = |path: &Path, what: &str| std::fs::read_to_string(path).is_ok_and(|text| text.contains(what));

    disk.hang();
    logdrive::error!("the write of this one hangs");
    disk.wait_until_hanging();
    let before_mib = peak_rss_mib();
    let mut calls = 1 + call_all_the_time();
    logdrive::event!(Level::Error, "still here");
    calls += 1;
    // Before this test itself reads the other file, whose size is that of what was logged meanwhile.
    let growth_mib = peak_rss_mib() - before_mib;
    assert!(growth_mib < GROWTH_MIB_MAX, "{growth_mib} MiB more");
    wait_until("the other file goes on", || shows(&other, "still here"));
    let hanging = logdrive::stats().unwrap();
    assert_eq!(hanging.sinks[0].counts.written_records, 0, "{hanging:#?}");
    assert!(hanging.sinks[1].counts.written_records > 0, "{hanging:#?}");

    disk.go();
    assert!(logdrive::flush());
    logdrive::error!("after the hang");
    calls += 1;
    let (stopped, stats) = guard.stop().unwrap();
    assert_eq!(stopped, Stopped::Complete);
    assert_sums(&stats, calls);
    assert!(stats.sinks[0].dropped() > 0, "the hang cost nothing: {stats:#?}");
    for (path, sink) in [disk.store().join("slow.log"), other].iter().zip(&stats.sinks) {
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(lines_of_calls(&text), sink.counts.written_records);
        assert!(text.contains("after the hang"));
        assert!(
            text.contains("records dropped"),
            "the loss is told where it happened"
        );
    }
}
