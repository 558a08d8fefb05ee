//! The server with peers that keep to the rules: joining, rings, tickets, goodbye, ends, adoption, tools.

mod support;

use logdrive_agent::server::{End, Event, Request};
use logdrive_agent::{AgentError, Client, Server};
use logdrive_ring::{
    Admission, AgentConnection, Consumer, FullPolicy, HostedSession, MemoryFiles, SessionWriter, control,
};
use logdrive_wire::agent::{Adopt, Message, RefusedCode, SessionState, Welcome};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::*;

/// A connection that counts how often it is to wake the drain.
#[derive(Debug, Default)]
struct Woken(AtomicU32);

impl AgentConnection for Woken {
    fn wake_drain(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn request_rings(&self, _count: u32) {}

    fn is_connected(&self) -> bool {
        true
    }
}

fn session_of(welcome: &Welcome, files: Vec<File>) -> SessionWriter {
    session_with(welcome, files, Arc::new(Silent))
}

fn session_with(welcome: &Welcome, files: Vec<File>, line: Arc<dyn AgentConnection>) -> SessionWriter {
    let mut files = files;
    let rings = files.split_off(MemoryFiles::PARTS);
    let memory = MemoryFiles::check(files).expect("an agent's memory is good");
    let path = std::path::Path::new("agent.sock");
    SessionWriter::join(path, memory, rings, welcome.ring_bytes as usize, line).expect("joined")
}

fn adopt_message(welcome: &Welcome, rings: usize) -> Message {
    Message::Adopt(Adopt {
        session: welcome.session,
        journal: welcome.journal,
        ring_bytes: welcome.ring_bytes,
        ring_total: rings as u32,
        ring_count: rings as u32,
        policy: 0,
        coarse: false,
    })
}

fn read(shared: &HostedSession, ring: usize) -> Vec<u8> {
    let mut consumer = Consumer::new(shared.rings_from(ring).remove(0));
    let mut bytes = vec![0; consumer.pending_bytes().expect("a good ring")];
    consumer.copy_out(0, &mut bytes);
    consumer.release(bytes.len());
    bytes
}

#[test]
fn a_process_joins_and_what_it_writes_can_be_drained() {
    let mut agent = Agent::start();
    let (_channel, welcome, files) = agent.hello("shop");
    assert_eq!(welcome.journal, 77);
    assert_eq!(welcome.rings_max, 256);
    assert_eq!(files.len(), MemoryFiles::PARTS + 1);
    let shared = agent.joined();
    assert_eq!(shared.app(), "shop");
    assert_eq!(shared.peer().pid, std::process::id());
    assert_eq!(shared.id(), welcome.session);
    let session = session_of(&welcome, files);
    assert_eq!(session.header().identity().pid, std::process::id());
    session.register(b"a callsite", control::ON).expect("room");
    assert_eq!(shared.callsites_from(0).0, [(0, b"a callsite".to_vec())]);
    let mut producer = session.acquire("worker").expect("a ring");
    assert_eq!(
        producer.push(&[3; 32], false, FullPolicy::Drop),
        Admission::Granted
    );
    assert_eq!(read(&shared, 0), [3; 32]);
    assert_eq!(agent.counts().joined, 1);
}

#[test]
fn rings_come_when_they_are_asked_for_until_the_limit_and_then_words() {
    let mut agent = Agent::with(|options| options.limits.process.rings = Some(6));
    let (channel, welcome, files) = agent.hello("shop");
    assert_eq!(welcome.rings_max, 6);
    let session = session_of(&welcome, files);
    channel
        .send(&Message::MoreRings { count: 16 }.encode().expect("short"), &[])
        .expect("sent");
    let mut rings = 1;
    let why = loop {
        match agent.next(&channel) {
            Answer::Message(Message::Rings { first, count, reason }, files) if count > 0 => {
                assert_eq!(first as usize, rings);
                assert_eq!(files.len(), count as usize);
                assert!(reason.is_empty());
                rings += files.len();
                session.take_rings(files).expect("good rings");
            }
            Answer::Message(Message::Rings { reason, .. }, _) => break reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(rings, 6);
    assert_eq!(session.header().totals().rings, 6);
    assert!(why.contains("may have 6 rings"), "{why}");
    let shared = agent.joined();
    assert_eq!(shared.ring_count(), 6);
    assert_eq!(agent.server.sessions().count(), 1);
}

#[test]
fn tickets_come_back_and_goodbye_ends_with_done() {
    let mut agent = Agent::start();
    let (channel, welcome, _files) = agent.hello("shop");
    let flush = Message::Flush {
        ticket: 9,
        durable: true,
    };
    channel.send(&flush.encode().expect("short"), &[]).expect("sent");
    let found = agent.event("a ticket", |event| match event {
        Event::Flush {
            session,
            ticket,
            durable,
        } => Some((*session, *ticket, *durable)),
        _ => None,
    });
    assert_eq!(found, (welcome.session, 9, true));
    agent.server.flushed(welcome.session, 9, true, Instant::now());
    assert_eq!(
        agent.next(&channel).message(),
        Message::Flushed {
            ticket: 9,
            reached: true
        }
    );
    channel
        .send(&Message::Bye.encode().expect("short"), &[])
        .expect("sent");
    let found = agent.event("goodbye", |event| match event {
        Event::Bye { session } => Some(*session),
        _ => None,
    });
    agent.server.done(found, true, Instant::now());
    assert_eq!(agent.next(&channel).message(), Message::Done { complete: true });
    assert!(matches!(agent.next(&channel), Answer::Closed));
    assert_eq!(agent.server.sessions().count(), 0);
    agent.server.done(found, true, Instant::now());
    agent.server.flushed(found, 1, true, Instant::now());
    assert!(
        !agent
            .events
            .iter()
            .any(|event| matches!(event, Event::Left { .. }))
    );
}

#[test]
fn a_bell_ends_the_wait_and_reaches_the_owner() {
    let mut agent = Agent::start();
    let (channel, welcome, files) = agent.hello("shop");
    let shared = agent.joined();
    let line = Arc::new(Woken::default());
    let session = session_with(&welcome, files, Arc::clone(&line) as Arc<dyn AgentConnection>);
    session.waker().wake();
    assert_eq!(line.0.load(Ordering::SeqCst), 0, "the drain is awake");
    shared.header().set_drain_asleep(true);
    session.waker().wake();
    session.waker().wake();
    assert_eq!(line.0.load(Ordering::SeqCst), 1, "one of the threads wakes it");
    let bell = Message::Bell.encode().expect("short");
    channel.send(&bell, &[]).expect("sent");
    let start = Instant::now();
    let events = agent.server.poll(start, Duration::from_secs(100));
    assert!(matches!(events[..], [Event::Bell]), "{events:?}");
    assert!(
        start.elapsed() < Duration::from_secs(90),
        "the bell was not heard"
    );
}

#[test]
fn a_connection_that_breaks_ends_nothing_if_the_process_comes_back() {
    let mut agent = Agent::start();
    let (channel, welcome, files) = agent.hello("shop");
    let shared = agent.joined();
    // Rings that are on their way when the connection breaks come again, and one that the process made goes along.
    channel
        .send(&Message::MoreRings { count: 2 }.encode().expect("short"), &[])
        .expect("sent");
    agent.until("two rings more", |_| (shared.ring_count() == 3).then_some(()));
    drop(channel);
    agent.until("it is away", |agent| {
        let list = agent.server.counts();
        (list.connections == 0).then_some(())
    });
    let (_, own) = logdrive_ring::Ring::unnamed(1 << 16).expect("memory");
    let mut shown = copies(&files);
    shown.push(own);
    let again = agent.connect();
    let back = agent
        .ask(&again, &adopt_message(&welcome, 2), &fds(&shown))
        .message();
    let Message::WelcomeBack {
        session,
        journal,
        ring_total,
        ..
    } = back
    else {
        panic!("{back:?}");
    };
    assert_eq!((session, journal, ring_total), (welcome.session, 77, 4));
    let mut sent = 0;
    while sent < 2 {
        match agent.next(&again) {
            Answer::Message(Message::Rings { count, .. }, _) => sent += count,
            other => panic!("{other:?}"),
        }
    }
    agent.advance(Duration::from_secs(60));
    assert_eq!(agent.server.sessions().count(), 1, "{:?}", agent.events);
}

#[test]
fn who_stays_away_has_left() {
    let mut agent = Agent::start();
    let (channel, welcome, _files) = agent.hello("shop");
    drop(channel);
    agent.until("it is away", |agent| {
        (agent.counts().connections == 0).then_some(())
    });
    agent.advance(Duration::from_secs(9));
    assert_eq!(agent.server.sessions().count(), 1);
    agent.advance(Duration::from_secs(2));
    let (session, end) = agent.left();
    assert_eq!((session.id(), end), (welcome.session, End::Vanished));
    assert!(end.describe(&session).contains("did not come back"));
    assert_eq!(agent.counts().sessions, 0);
}

#[test]
fn a_new_agent_adopts_what_the_old_one_drained() {
    let keep = tempfile::tempdir().expect("a directory");
    let mut agent = Agent::in_dir(keep.path(), |_| {});
    let (channel, welcome, files) = agent.hello("shop");
    let session = session_of(&welcome, copies(&files));
    let mut producer = session.acquire("worker").expect("a ring");
    producer.push(&[1; 32], false, FullPolicy::Drop);
    let shared = agent.joined();
    assert_eq!(read(&shared, 0), [1; 32]);
    drop((shared, agent));
    producer.push(&[2; 64], false, FullPolicy::Drop);
    let mut agent = Agent::in_dir(keep.path(), |options| options.journal = 78);
    assert!(matches!(agent.next(&channel), Answer::Closed));
    let channel = agent.connect();
    let back = agent
        .ask(&channel, &adopt_message(&welcome, 1), &fds(&files))
        .message();
    assert!(
        matches!(
            back,
            Message::WelcomeBack {
                journal: 78,
                ring_total: 1,
                ..
            }
        ),
        "{back:?}"
    );
    let (shared, journal) = agent.event("an adoption", |event| match event {
        Event::Adopted { session, journal } => Some((Arc::clone(session), *journal)),
        _ => None,
    });
    assert_eq!(
        (journal, shared.id(), shared.app()),
        (77, welcome.session, "shop")
    );
    assert_eq!(read(&shared, 0), [2; 64]);
    // It is drained on as any other.
    producer.push(&[3; 16], false, FullPolicy::Drop);
    assert_eq!(read(&shared, 0), [3; 16]);
}

#[test]
fn a_session_of_many_rings_is_shown_in_parts() {
    let keep = tempfile::tempdir().expect("a directory");
    let mut agent = Agent::in_dir(keep.path(), |_| {});
    let (_channel, welcome, mut files) = agent.hello("shop");
    drop(agent);
    let more = (1..200).map(|_| logdrive_ring::Ring::unnamed(1 << 16).expect("memory").1);
    files.extend(more);
    let mut agent = Agent::in_dir(keep.path(), |_| {});
    let channel = agent.connect();
    let mut message = adopt_message(&welcome, 100);
    if let Message::Adopt(adopt) = &mut message {
        adopt.ring_total = 200;
    }
    let first = MemoryFiles::PARTS + 100;
    channel
        .send(&message.encode().expect("short"), &fds(&files[..first]))
        .expect("sent");
    let rest = Message::Rings {
        first: 100,
        count: 100,
        reason: String::new(),
    };
    let back = agent.ask(&channel, &rest, &fds(&files[first..])).message();
    assert!(
        matches!(back, Message::WelcomeBack { ring_total: 200, .. }),
        "{back:?}"
    );
    let session = agent.server.sessions().next().map(Arc::clone).expect("a session");
    assert_eq!(session.ring_count(), 200);
    let shown = std::thread::scope(|scope| {
        let socket = agent.socket();
        let tool = scope.spawn(move || {
            let mut client = Client::connect(&socket, Duration::from_secs(20)).expect("a connection");
            client.open(welcome.session).expect("a view").rings().0.len()
        });
        agent.until("the tool has seen it", |_| tool.is_finished().then_some(()));
        tool.join().expect("no panic")
    });
    assert_eq!(shown, 200);
}

#[test]
fn two_agents_do_not_share_a_socket() {
    let agent = Agent::start();
    let error = Server::open(options(&agent.dir)).expect_err("taken");
    assert!(matches!(error, AgentError::InUse { pid: Some(pid), .. } if pid == std::process::id()));
}

/// Runs a tool in a thread while the agent has its turns; `owner` acts on what reaches the owner.
fn with_tool<T: Send>(
    agent: &mut Agent,
    tool: impl FnOnce(&mut Client) -> T + Send,
    owner: impl Fn(&mut Server, &Event),
) -> T {
    let socket = agent.socket();
    std::thread::scope(|scope| {
        let tool = scope.spawn(move || {
            let mut client = Client::connect(&socket, Duration::from_secs(20)).expect("a connection");
            tool(&mut client)
        });
        agent.until("the tool has ended", |agent| {
            for event in std::mem::take(&mut agent.events) {
                owner(&mut agent.server, &event);
            }
            tool.is_finished().then_some(())
        });
        tool.join().expect("no panic")
    })
}

#[test]
fn tools_see_sessions_and_their_memory() {
    let mut agent = Agent::start();
    let (_one, first, files) = agent.hello("shop");
    let (_two, second, _more) = agent.hello("mail");
    let session = session_of(&first, files);
    session.register(b"gap", control::ON).expect("room");
    let (list, callsites) = with_tool(
        &mut agent,
        |client| {
            let list = client.sessions().expect("a list");
            let view = client.open(list[0].session).expect("a view");
            let entry = view.control(0).expect("an entry");
            control::settle(entry, || 0, |_| control::Switch::plain(control::OFF));
            (list, view.callsites().expect("a table"))
        },
        |_, _| {},
    );
    assert_eq!(list.len(), 2);
    assert_eq!(
        (list[0].session, list[1].session),
        (first.session, second.session)
    );
    assert_eq!((list[0].app.as_str(), list[1].app.as_str()), ("shop", "mail"));
    assert_eq!(list[0].pid, std::process::id());
    assert_eq!(list[0].state, SessionState::Connected);
    assert_eq!(callsites, [(0, b"gap".to_vec())]);
    assert_eq!(session.control(0).expect("an entry").control(), control::OFF);
    let error = with_tool(&mut agent, |client| client.open(4).expect_err("none"), |_, _| {});
    assert!(
        matches!(
            error,
            AgentError::Refused {
                code: RefusedCode::UnknownSession,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn long_lists_come_in_parts() {
    let mut agent = Agent::with(|options| options.limits.users.clear());
    let long = "x".repeat(63);
    let all: Vec<_> = (0..400).map(|_| agent.hello(&long)).collect();
    let list = with_tool(&mut agent, |client| client.sessions().expect("a list"), |_, _| {});
    assert_eq!(list.len(), all.len());
    assert!(list.windows(2).all(|pair| pair[0].session < pair[1].session));
}

#[test]
fn questions_reach_the_owner_and_answers_of_any_length_the_tool() {
    let mut agent = Agent::start();
    let long = "ü 0123456789\n".repeat(20_000);
    let owner = |server: &mut Server, event: &Event| {
        let Event::Request {
            requester,
            request,
            peer,
        } = event
        else {
            return;
        };
        assert_eq!(peer.pid, std::process::id());
        match request {
            Request::Stats => server.answer(*requester, &long, Instant::now()),
            Request::Reload => server.answer(*requester, "", Instant::now()),
            Request::Dump { app, span_ns } => {
                assert_eq!((app.as_str(), *span_ns), ("shop", 5_000_000_000));
                let why = logdrive_wire::agent::Refused {
                    code: RefusedCode::UnknownSession,
                    reason: "nothing is kept of shop".to_owned(),
                    advice: "configure a recorder".to_owned(),
                };
                server.refuse(*requester, why, Instant::now());
            }
            other => panic!("not asked: {other:?}"),
        }
    };
    let stats = with_tool(&mut agent, |client| client.stats().expect("an answer"), owner);
    assert_eq!(stats, long);
    let error = with_tool(
        &mut agent,
        |client| {
            assert_eq!(client.reload().expect("an answer"), "");
            client
                .dump("shop", Some(Duration::from_secs(5)))
                .expect_err("refused")
        },
        owner,
    );
    assert_eq!(
        error.to_string(),
        "the agent refused: nothing is kept of shop; configure a recorder"
    );
}

#[test]
fn nobody_at_the_socket_is_an_error_that_says_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = Client::connect(&dir.path().join("agent.sock"), Duration::from_millis(100));
    let text = error.expect_err("nobody").to_string();
    assert!(text.contains("start one with `logdrive agent`"), "{text}");
}

#[test]
fn a_session_is_not_given_to_another_process_that_has_its_descriptors() {
    let mut agent = Agent::start();
    let (_channel, welcome, files) = agent.hello("shop");
    // A second connection of the same process takes the session over; its number does not matter.
    let mut other = welcome;
    other.session = 12345;
    let again = agent.connect();
    let back = agent
        .ask(&again, &adopt_message(&other, 1), &fds(&files))
        .message();
    assert!(matches!(back, Message::WelcomeBack { session, .. } if session == welcome.session));
    // Memory of two sessions in one is neither.
    let (_two, _second, more) = agent.hello("mail");
    let mut mixed = copies(&files);
    mixed[1] = more[1].try_clone().expect("a descriptor");
    let third = agent.connect();
    let why = agent
        .ask(&third, &adopt_message(&welcome, 1), &fds(&mixed))
        .refused();
    assert_eq!(why.code, RefusedCode::Descriptors);
    assert!(matches!(agent.next(&third), Answer::Closed));
    let ring = more.last().expect("a ring").as_fd();
    let mut with_ring = fds(&files);
    let last = with_ring.len() - 1;
    with_ring[last] = ring;
    let fourth = agent.connect();
    let why = agent
        .ask(&fourth, &adopt_message(&welcome, 1), &with_ring)
        .refused();
    assert!(
        why.reason.contains("belongs to another session"),
        "{}",
        why.reason
    );
}

#[test]
fn messages_beyond_a_turn_are_read_without_a_further_event_and_before_the_end_of_the_peer() {
    let mut agent = Agent::start();
    let (channel, _, _) = agent.hello("shop");
    agent.events.clear();
    let bell = Message::Bell.encode().expect("short");
    // More than one turn reads; the socket takes as many.
    (0..100).for_each(|_| channel.send(&bell, &[]).expect("room"));
    drop(channel);
    agent.until("the end of the connection", |agent| {
        (agent.counts().connections == 0).then_some(())
    });
    let bells = agent.events.iter().filter(|event| matches!(event, Event::Bell));
    assert_eq!(bells.count(), 100);
}
