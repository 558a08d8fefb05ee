//! The end of a session while threads are inside of their calls. Alone in its program, because it is the end for all threads.
#![cfg(not(any(loom, miri)))]

use logdrive_ring::local::{self, Clock, Wrote};
use logdrive_ring::{BUFFER_BYTES_MIN, FullPolicy, SessionOptions, SessionWriter, control};
use std::sync::Arc;
use std::sync::mpsc::channel;

fn options(dir: &std::path::Path) -> SessionOptions {
    SessionOptions {
        app: "end".to_owned(),
        run_dirs: vec![dir.join("run")],
        ring_bytes: 64 << 10,
        config: Vec::new(),
        sink_count: 1,
        buffers_per_sink: 2,
        buffer_bytes: BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 0,
    }
}

/// A record was lost that its thread committed behind the drain's last look, because it had no core in between.
#[test]
fn what_is_committed_by_calls_under_way_is_there_when_the_session_has_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let (session, _) = SessionWriter::create(&options(dir.path())).expect("a session");
    session.register(b"callsite", control::ON).expect("a callsite");
    local::start_running();
    let generation = local::generation();
    let (tell, told) = channel();
    let session = Arc::new(session);
    let of_thread = Arc::clone(&session);
    let thread = std::thread::spawn(move || {
        let producer = of_thread.acquire_as("t", FullPolicy::Drop).expect("a ring");
        assert!(local::attach(
            producer,
            FullPolicy::Drop,
            Clock::Monotonic,
            generation
        ));
        let wrote = local::write(0, 24, false, |put| {
            tell.send(()).expect("the test waits");
            while local::generation() == generation {
                std::hint::spin_loop();
            }
            // The end goes on meanwhile, if it does not wait.
            (0..100_000).for_each(|_| std::hint::spin_loop());
            put.u64(1);
        });
        assert_eq!(wrote, Wrote::Committed);
        assert_eq!(local::write(0, 24, false, |put| put.u64(2)), Wrote::NoRing);
    });
    told.recv().expect("the call begins");
    local::end_generation();
    assert_eq!(session.rings_from(0)[0].counts().records, 1);
    thread.join().expect("the thread sees the end");
    session.remove().expect("it goes");
}
