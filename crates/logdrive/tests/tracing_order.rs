//! Every event of two busy threads arrives, in the order of each thread, with whole lines.
#![cfg(feature = "tracing")]
#![forbid(unsafe_code)]

use logdrive::{File, Full, Layout};

const EVENTS: u64 = 100_000;

#[test]
fn two_threads_of_100_000_events_keep_their_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("order.log");
    let layout = Layout::pattern("{spans}{message}{fields}");
    let guard = logdrive::builder("order-test")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.path().join("run"))
        .full(Full::Block)
        .file(File::new(&path).layout(layout))
        .init()
        .expect("starts");
    tracing::subscriber::set_global_default(logdrive::tracing::subscriber()).expect("the first");
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                let _thread = tracing::info_span!("thread", thread).entered();
                for number in 0..EVENTS {
                    let _step = tracing::trace_span!("step").entered();
                    tracing::trace!(number, "event");
                }
            });
        }
    });
    let (_, stats) = guard.stop().expect("the first");
    assert_eq!((stats.committed, stats.dropped_calls()), (2 * EVENTS, 0));

    let text = std::fs::read_to_string(&path).expect("a log");
    let mut next = [0; 2];
    // Where the directory is on a disk, the log says so.
    for line in text.lines().filter(|line| !line.starts_with("the session is in")) {
        let rest = line.strip_prefix("thread{thread=").expect(line);
        let (thread, number) = rest.split_once("}:step: event number=").expect(line);
        let thread: usize = thread.parse().expect(line);
        assert_eq!(number.parse(), Ok(next[thread]), "{line}");
        next[thread] += 1;
    }
    assert_eq!(next, [EVENTS; 2]);
}
