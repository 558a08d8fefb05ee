//! Destructors of thread-locals that log at the end of their thread, before and behind the logger's own.

use logdrive::{File, Full, Layout};
use std::cell::RefCell;

/// A value that logs when it is dropped.
struct Logs(&'static str);

impl Drop for Logs {
    fn drop(&mut self) {
        for number in 0..3 {
            logdrive::info!("{} {}", self.0, number);
        }
        logdrive::warn!("the last of {}", self.0);
    }
}

thread_local! {
    static FIRST: RefCell<Option<Logs>> = const { RefCell::new(None) };
    static SECOND: RefCell<Option<Logs>> = const { RefCell::new(None) };
    static THIRD: RefCell<Option<Logs>> = const { RefCell::new(None) };
}

#[test]
fn what_destructors_log_is_kept_whichever_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let guard = logdrive::builder("ends")
        .use_env(false)
        .filter("trace")
        .run_dir(dir.path().join("run"))
        .file(File::new(dir.path().join("app.log")).layout(Layout::pattern("{message}")))
        .full(Full::Block)
        .init()
        .unwrap();
    const THREADS: usize = 50;
    for _ in 0..THREADS {
        std::thread::spawn(|| {
            // Made before the first call of the thread, and after it; and one whose thread has never logged.
            FIRST.set(Some(Logs("first")));
            logdrive::info!("of the thread");
            SECOND.set(Some(Logs("second")));
            THIRD.set(Some(Logs("third")));
        })
        .join()
        .unwrap();
        std::thread::spawn(|| FIRST.set(Some(Logs("only"))))
            .join()
            .unwrap();
    }
    let (_, stats) = guard.stop().unwrap();
    assert_eq!(stats.dropped_calls(), 0, "{stats:?}");
    assert_eq!(stats.committed as usize, THREADS * (1 + 4 * 4), "{stats:?}");
    let text = std::fs::read_to_string(dir.path().join("app.log")).unwrap();
    for who in ["first", "second", "third", "only"] {
        let lines = text
            .lines()
            .filter(|line| *line == format!("the last of {who}"))
            .count();
        assert_eq!(lines, THREADS, "{who}");
    }
}
