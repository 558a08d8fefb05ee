//! The file of rules as several tools use it at once, and as bytes that another program has written.
#![cfg(not(loom))]

use logdrive_ring::rules::{Action, Rule, Selector};
use logdrive_ring::{BUFFER_BYTES_MIN, RingError, SessionOptions, SessionReader, SessionWriter};
use logdrive_testkit::Random;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

fn session(name: &str) -> (SessionWriter, PathBuf) {
    let dir = std::env::temp_dir().join(format!("logdrive-rules-test-{}-{name}", std::process::id()));
    let options = SessionOptions {
        app: name.to_owned(),
        run_dirs: vec![dir.clone()],
        ring_bytes: 1 << 16,
        config: Vec::new(),
        sink_count: 1,
        buffers_per_sink: 1,
        buffer_bytes: BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 0,
    };
    (SessionWriter::create(&options).unwrap().0, dir)
}

fn end(session: &SessionWriter, dir: PathBuf) {
    session.remove().unwrap();
    std::fs::remove_dir(dir).unwrap();
}

fn rule(made_unix_ns: u64, name: &str) -> Rule {
    Rule {
        made_unix_ns,
        until_unix_ns: 0,
        action: Action::Level(Some(1)),
        selector: Selector::Module(name.to_owned()),
    }
}

#[test]
fn a_new_session_has_no_rules_and_others_see_those_that_are_made() {
    let (session, dir) = session("seen");
    assert_eq!(session.rules().read().unwrap(), (0, Vec::new()));
    let reader = SessionReader::open(session.path()).unwrap();
    let tool = reader.rules().unwrap();
    let rules = vec![rule(1, "net"), rule(2, "net::quic")];
    let sequence = tool.lock().unwrap().replace(&rules).unwrap();
    assert_eq!(session.rules().sequence(), sequence);
    assert_eq!(session.rules().read().unwrap(), (sequence, rules));
    tool.lock().unwrap().replace(&[]).unwrap();
    assert_eq!(session.rules().read().unwrap(), (sequence + 1, Vec::new()));
    end(&session, dir);
}

#[test]
fn one_tool_at_a_time_changes_rules() {
    let (session, dir) = session("locked");
    let tools = [(); 2].map(|()| SessionReader::open(session.path()).unwrap());
    let [one, other] = tools.each_ref().map(|tool| tool.rules().unwrap());
    let lock = one.lock().unwrap();
    assert!(other.try_lock().unwrap().is_none());
    assert!(session.rules().try_lock().unwrap().is_none());
    drop(lock);
    assert!(other.try_lock().unwrap().is_some());
    end(&session, dir);
}

/// Each of two tools adds rules of its own to those that are there; readers see whole tables only.
#[test]
fn tools_that_change_rules_at_once_lose_nothing_and_readers_see_whole_tables() {
    const EACH: usize = 60;
    let (session, dir) = session("at-once");
    let path = session.path();
    let open = || SessionReader::open(path).unwrap();
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            scope.spawn(move || {
                let opened = open();
                let tool = opened.rules().unwrap();
                for number in 0..EACH {
                    let lock = tool.lock().unwrap();
                    let (_, mut rules) = tool.read().unwrap();
                    rules.push(rule(number as u64, name));
                    lock.replace(&rules).unwrap();
                }
            });
        }
        scope.spawn(move || {
            let opened = open();
            let reader = opened.rules().unwrap();
            let mut seen = 0;
            while seen < 2 * EACH {
                let (sequence, rules) = reader.read().unwrap();
                assert_eq!(sequence, rules.len() as u64, "a table is that of its sequence");
                assert!(rules.len() >= seen);
                seen = rules.len();
            }
        });
    });
    let (_, rules) = session.rules().read().unwrap();
    for name in ["a", "b"] {
        let made: Vec<u64> = rules
            .iter()
            .filter(|rule| rule.selector == Selector::Module(name.to_owned()))
            .map(|rule| rule.made_unix_ns)
            .collect();
        assert_eq!(made, (0..EACH as u64).collect::<Vec<_>>());
    }
    end(&session, dir);
}

#[test]
fn a_file_that_is_none_of_rules_is_refused() {
    let (session, dir) = session("refused");
    let path = session.path().join("rules");
    let open = || SessionReader::open(session.path())?.rules().map(drop);
    assert!(open().is_ok());
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    assert!(matches!(open(), Err(RingError::Damaged { field: "magic", .. })));
    file.set_len(65_535).unwrap();
    assert!(matches!(
        open(),
        Err(RingError::Damaged {
            field: "file size",
            ..
        })
    ));
    end(&session, dir);
}

/// Whatever the bytes say: an answer, an error or other rules, and no panic. A table that another tool writes mends it.
#[test]
fn no_bytes_make_a_reader_fail_worse_than_with_an_error() {
    let mut random = Random::seeded(u64::from(std::process::id()));
    let (session, dir) = session("hostile");
    let file = File::options()
        .write(true)
        .open(session.path().join("rules"))
        .unwrap();
    let rules: Vec<Rule> = (0..40).map(|number| rule(number, "net::quic::streams")).collect();
    let mut refused = 0;
    for _ in 0..3_000 {
        // The magic, at the front, is checked when the file is opened.
        session.rules().lock().unwrap().replace(&rules).unwrap();
        let table = 4096 + (session.rules().sequence() % 2) as usize * 30_720;
        for _ in 0..=random.index(4) {
            let bytes: Vec<u8> = (0..=random.index(12)).map(|_| random.index(256) as u8).collect();
            let at = match random.index(4) {
                0 => 8 + random.index(24),
                1 => table + random.index(40),
                _ => table + random.index(3_000),
            };
            file.write_all_at(&bytes, at as u64).unwrap();
        }
        match session.rules().read() {
            Ok((_, read)) => assert!(read.len() <= 256),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1_000, "{refused}");
    session.rules().lock().unwrap().replace(&rules).unwrap();
    assert_eq!(session.rules().read().unwrap().1, rules);
    end(&session, dir);
}
