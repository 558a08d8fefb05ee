//! Sinks that are functions of the program, and sinks that take the records of some targets only.

use logdrive::{CallbackSink, File, Full, Layout};
use std::sync::{Arc, Mutex};

#[test]
fn functions_get_whole_lines_and_sinks_take_the_targets_that_they_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let file = |name: &str| File::new(path(name)).layout(Layout::pattern("{target} {message}"));
    let taken = Arc::new(Mutex::new(String::new()));
    let taker = Arc::clone(&taken);
    let callback = CallbackSink::new(move |lines| {
        assert!(lines.ends_with(b"\n"), "a part of a line");
        assert!(
            !lines.windows(5).any(|part| part == b"panic"),
            "a function that panics"
        );
        taker
            .lock()
            .expect("the lines")
            .push_str(&String::from_utf8_lossy(lines));
        true
    });
    let guard = logdrive::builder("callback-sinks")
        .file(file("net.log").only("net"))
        .file(file("rest.log").except("net"))
        .callback(callback)
        .full(Full::Block)
        .run_dir(path("run"))
        .use_env(false)
        .init()
        .expect("a logger");
    for number in 0..1000 {
        logdrive::info!(target: "net::quic", "sent {}", number);
        logdrive::info!(target: "network", "planned {}", number);
    }
    assert!(logdrive::flush());
    // Without lines of the logger's own, such as one about the session's place.
    let own = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("net"));
        lines.map(str::to_owned).collect()
    };
    let lines = |name: &str| own(&std::fs::read_to_string(path(name)).expect("a log"));
    assert_eq!(lines("net.log").len(), 1000);
    assert_eq!(lines("net.log")[0], "net::quic sent 0");
    assert_eq!(lines("rest.log").len(), 1000);
    assert_eq!(lines("rest.log")[999], "network planned 999");
    assert_eq!(
        own(&taken.lock().expect("the lines")).len(),
        0,
        "this sink has another layout"
    );
    assert_eq!(
        taken
            .lock()
            .expect("the lines")
            .lines()
            .filter(|line| line.contains(" sent ") || line.contains(" planned "))
            .count(),
        2000
    );
    logdrive::info!("panic");
    assert!(logdrive::flush());
    let stats = logdrive::stats().expect("a logger");
    assert!(stats.sinks[2].counts.errors >= 1 && stats.sinks[2].dropped() >= 1);
    drop(guard);
}
