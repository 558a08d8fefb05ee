//! Programs that log through an agent: real processes with the front end, drained here straight from their rings.

mod support;

use logdrive_agent::server::{End, Event};
use logdrive_ring::{Consumer, Exit, HostedSession};
use logdrive_testkit::{Process, report, wait_for_input};
use logdrive_wire::{Callsite, RecordHeader};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use support::*;

/// Records that a child logs at a time.
const RECORDS: u64 = 1000;

/// Starts a test anew, with a part, the agent's socket and a directory.
fn start(test: &str, part: &str, socket: &Path, dir: &Path) -> Process {
    Process::in_role(test, &format!("{part} {} {}", socket.display(), dir.display()))
}

/// The part of a child, if this process is one: its name, the socket, its directory.
fn role() -> Option<(String, String, String)> {
    let text = logdrive_testkit::role()?;
    let mut words = text.split(' ').map(str::to_owned);
    Some((words.next()?, words.next()?, words.next()?))
}

fn builder(socket: &str, dir: &str) -> logdrive::Builder {
    logdrive::builder("child")
        .use_env(false)
        .agent(socket)
        .agent_timeout(Duration::from_secs(60))
        .ring_bytes(1 << 20)
        .run_dir(format!("{dir}/run"))
        .file(logdrive::File::new(format!("{dir}/own.log")))
}

fn log(from: u64) {
    for number in from..from + RECORDS {
        logdrive::info!(number, "counted");
    }
}

/// Drains a session as an agent would; the numbers that it finds, in the order of the rings.
#[derive(Default)]
struct Drained {
    rings: HashMap<u32, Consumer>,
    callsites: HashMap<u32, String>,
    place: usize,
    numbers: Vec<u64>,
}

impl Drained {
    fn take(&mut self, session: &HostedSession) {
        for ring in session.rings_from(0) {
            let consumer = self
                .rings
                .entry(ring.index())
                .or_insert_with(|| Consumer::new(Arc::clone(&ring)));
            let mut bytes = vec![0; consumer.pending_bytes().expect("a good ring")];
            consumer.copy_out(0, &mut bytes);
            let (found, place) = session.callsites_from(self.place);
            self.place = place;
            for (id, callsite) in found {
                let message = Callsite::decode(&callsite).expect("a good callsite").message;
                self.callsites.insert(id, message);
            }
            let mut left = bytes.as_slice();
            while !left.is_empty() {
                let header = RecordHeader::decode(left).expect("a good record");
                let (record, rest) = left.split_at(header.length_bytes as usize);
                if self.callsites[&header.callsite_id] == "counted" {
                    let number = record[16..24].try_into().expect("eight bytes");
                    self.numbers.push(u64::from_le_bytes(number));
                }
                left = rest;
            }
            consumer.release(bytes.len());
            if consumer.is_finished() {
                session.recycle(&ring);
            }
        }
    }

    #[track_caller]
    fn holds_all_below(&mut self, end: u64) {
        self.numbers.sort_unstable();
        assert_eq!(self.numbers.len() as u64, end, "each record is there once");
        assert!(self.numbers.iter().copied().eq(0..end));
    }
}

#[test]
fn what_a_killed_process_has_committed_arrives() {
    const NAME: &str = "what_a_killed_process_has_committed_arrives";
    if let Some((_, socket, dir)) = role() {
        let _guard = builder(&socket, &dir).init().expect("it starts");
        assert!(logdrive::session_path().is_none(), "an agent has the session");
        log(0);
        // Threads get rings of their own, some of them at once and some later.
        std::thread::scope(|scope| {
            for thread in 1..8 {
                scope.spawn(move || log(thread * RECORDS));
            }
        });
        report("logged");
        loop {
            std::thread::park();
        }
    }
    let mut agent = Agent::start();
    let dir = agent.dir.clone();
    let mut program = start(NAME, "log", &agent.socket(), &dir);
    let session = agent.joined();
    assert_eq!(session.app(), "child");
    assert_eq!(session.peer().pid, program.pid());
    let (word, heard) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            program.expect("logged");
            word.send(()).expect("the test listens");
        });
        agent.until("it has logged", |_| heard.try_recv().ok());
    });
    program.child().kill().expect("killed");
    let (left, end) = agent.left();
    assert_eq!(end, End::Exited(Exit::Signal(9)), "{}", end.describe(&left));
    let mut drained = Drained::default();
    drained.take(&left);
    drained.holds_all_below(8 * RECORDS);
    assert!(!dir.join("own.log").exists(), "the process has no sinks");
    program.wait();
}

#[test]
fn a_process_goes_on_with_the_next_agent_and_ends_with_it_in_order() {
    const NAME: &str = "a_process_goes_on_with_the_next_agent_and_ends_with_it_in_order";
    if let Some((_, socket, dir)) = role() {
        let guard = builder(&socket, &dir).init().expect("it starts");
        log(0);
        report("logged");
        wait_for_input();
        // The agent is dead. What is logged waits in the ring, also that of a new thread.
        log(RECORDS);
        std::thread::spawn(|| log(2 * RECORDS)).join().expect("no panic");
        report("logged");
        wait_for_input();
        assert!(logdrive::flush(), "the next agent answers");
        log(3 * RECORDS);
        let (stopped, stats) = guard.stop().expect("it ran");
        assert_eq!(stopped, logdrive::Stopped::Complete);
        assert_eq!(stats.committed, 4 * RECORDS);
        assert_eq!(stats.dropped_calls(), 0, "{stats:?}");
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut agent = Agent::in_dir(keep.path(), |_| {});
    let mut program = start(NAME, "log", &agent.socket(), keep.path());
    let session = agent.joined();
    program.expect("logged");
    let mut drained = Drained::default();
    drained.take(&session);
    assert_eq!(drained.numbers.len() as u64, RECORDS);
    let number = session.id();
    drop((agent, session));
    program.send("");
    program.expect("logged");
    let mut agent = Agent::in_dir(keep.path(), |options| options.journal = 78);
    program.send("");
    let session = agent.event("an adoption", |event| match event {
        Event::Adopted { session, journal: 77 } => Some(Arc::clone(session)),
        _ => None,
    });
    assert_eq!(session.id(), number);
    drained.rings.clear();
    agent.until("it has ended", |agent| {
        for event in std::mem::take(&mut agent.events) {
            drained.take(&session);
            match event {
                Event::Flush { session, ticket, .. } => {
                    agent.server.flushed(session, ticket, true, agent.now())
                }
                Event::Bye { session } => agent.server.done(session, true, agent.now()),
                Event::Bell => {}
                other => panic!("{other:?}"),
            }
        }
        drained.take(&session);
        program.try_wait()
    });
    drained.take(&session);
    drained.holds_all_below(4 * RECORDS);
    assert!(program.wait().success());
    assert_eq!(agent.counts().sessions, 0);
}

#[test]
fn without_an_agent_a_process_writes_its_log_itself_and_says_so_once() {
    const NAME: &str = "without_an_agent_a_process_writes_its_log_itself_and_says_so_once";
    if let Some((_, socket, dir)) = role() {
        let guard = builder(&socket, &dir).init().expect("it starts");
        assert!(logdrive::session_path().is_some());
        log(0);
        assert_eq!(guard.stop().expect("it ran").0, logdrive::Stopped::Complete);
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let socket = keep.path().join("agent.sock");
    let mut program = start(NAME, "log", &socket, keep.path());
    assert!(program.wait().success());
    let text = std::fs::read_to_string(keep.path().join("own.log")).expect("a log");
    assert_eq!(text.matches("counted").count() as u64, RECORDS);
    assert_eq!(
        text.matches("this process writes its log itself").count(),
        1,
        "{}",
        &text[..500]
    );
    assert!(text.contains("agent.sock"));
}

#[test]
fn a_refused_process_writes_its_log_itself_and_says_why() {
    const NAME: &str = "a_refused_process_writes_its_log_itself_and_says_why";
    if let Some((_, socket, dir)) = role() {
        let guard = builder(&socket, &dir).init().expect("it starts");
        log(0);
        assert_eq!(guard.stop().expect("it ran").0, logdrive::Stopped::Complete);
        return;
    }
    let mut agent = Agent::with(|options| options.limits.total.processes = Some(0));
    let dir = agent.dir.clone();
    let mut program = start(NAME, "log", &agent.socket(), &dir);
    let status = agent.until("it ends", |_| program.try_wait());
    assert!(status.success());
    let text = std::fs::read_to_string(dir.join("own.log")).expect("a log");
    assert_eq!(text.matches("counted").count() as u64, RECORDS);
    assert!(text.contains("may have 0 processes"), "{}", &text[..500]);
}

#[test]
fn an_agent_that_hangs_keeps_nobody_from_starting() {
    const NAME: &str = "an_agent_that_hangs_keeps_nobody_from_starting";
    if let Some((_, socket, dir)) = role() {
        let builder = builder(&socket, &dir).agent_timeout(Duration::from_millis(500));
        let guard = builder.init().expect("it starts");
        log(0);
        assert_eq!(guard.stop().expect("it ran").0, logdrive::Stopped::Complete);
        return;
    }
    // It has no turns.
    let agent = Agent::start();
    let mut program = start(NAME, "log", &agent.socket(), &agent.dir);
    assert!(program.wait().success());
    let text = std::fs::read_to_string(agent.dir.join("own.log")).expect("a log");
    assert!(text.contains("does not answer"), "{}", &text[..500]);
}

#[test]
fn what_a_process_logged_before_exec_is_drained() {
    const NAME: &str = "what_a_process_logged_before_exec_is_drained";
    if let Some((_, socket, dir)) = role() {
        use std::os::unix::process::CommandExt;
        let _guard = builder(&socket, &dir).init().expect("it starts");
        log(0);
        report("logged");
        wait_for_input();
        // The process goes on as another program: its descriptors are closed, and its memory is gone.
        let error = Command::new("sleep").arg("1000").exec();
        panic!("{error}");
    }
    let mut agent = Agent::start();
    let dir = agent.dir.clone();
    let mut program = start(NAME, "log", &agent.socket(), &dir);
    let session = agent.joined();
    program.expect("logged");
    program.send("");
    agent.until("it is away", |agent| {
        (agent.counts().connections == 0).then_some(())
    });
    agent.advance(Duration::from_secs(11));
    let (left, end) = agent.left();
    assert_eq!((left.id(), end), (session.id(), End::Vanished));
    let mut drained = Drained::default();
    drained.take(&left);
    drained.holds_all_below(RECORDS);
    program.child().kill().expect("killed");
    program.wait();
}
