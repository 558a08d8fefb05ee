//! The server with peers that do not keep to the rules: silent, loud, slow, wrong, dead, or with descriptors that are
//! not what they claim to be. In every test a process that keeps to them is served meanwhile.

mod support;

use logdrive_agent::ServerOptions;
use logdrive_agent::server::{End, Event};
use logdrive_ring::channel::Channel;
use logdrive_ring::{Exit, MemoryFiles, Ring};
use logdrive_testkit::{Process, Random, report, role, wait_for_input};
use logdrive_wire::agent::{Adopt, Keep, Message, RefusedCode, Welcome};
use nix::sys::resource::{Resource, setrlimit};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::process::Uid;
use serde_json::Value as Json;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::*;

fn adopt(welcome: &Welcome, rings: u32) -> Adopt {
    Adopt {
        session: welcome.session,
        journal: 1,
        ring_bytes: welcome.ring_bytes,
        ring_total: rings,
        ring_count: rings,
        policy: 0,
        coarse: false,
    }
}

/// A process joins, asks for a ring and gets one.
#[track_caller]
fn is_served(agent: &mut Agent) {
    let (channel, _, _) = agent.hello("good");
    let answer = agent.ask(&channel, &Message::MoreRings { count: 1 }, &[]);
    assert!(
        matches!(answer, Answer::Message(Message::Rings { count: 1, .. }, _)),
        "{answer:?}"
    );
    agent.events.clear();
}

/// Connects as another user; `None` where this process may not be one.
fn connect_as(agent: &mut Agent, user: u32) -> Option<Channel> {
    let socket = agent.socket();
    // A thread of its own: the change is for good, and for the thread alone.
    let connected = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(Uid::from_raw(user)).ok()?;
        Some(Channel::connect(&socket, Duration::from_secs(20)).expect("a connection"))
    });
    agent.until("it is connected", |_| connected.is_finished().then_some(()));
    connected.join().expect("no panic")
}

/// A server that other users may reach.
fn shared_agent(change: impl FnOnce(&mut ServerOptions)) -> Agent {
    let agent = Agent::with(|options| {
        options.mode = 0o666;
        change(options);
    });
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&agent.dir, open).expect("its own directory");
    agent
}

#[test]
fn idle_connections_of_one_user_give_way_and_are_closed_in_time() {
    let mut agent = Agent::start();
    let silent: Vec<Channel> = (0..1100)
        .map(|_| {
            let channel = agent.connect();
            agent.turn();
            channel
        })
        .collect();
    assert_eq!(agent.counts().connections, 256, "a quarter");
    assert_eq!(agent.counts().closed, 1100 - 256);
    let why = agent.next(&silent[0]).refused();
    assert_eq!(why.code, RefusedCode::Limit);
    assert!(why.reason.contains("for a new one"), "{why:?}");
    is_served(&mut agent);
    agent.advance(Duration::from_secs(3));
    assert_eq!(agent.counts().connections, 0, "none has said anything");
    // Another test may be starting a child, which has copies of all descriptors for a moment.
    for channel in &silent[900..] {
        assert!(matches!(agent.next(channel), Answer::Closed));
    }
    is_served(&mut agent);
}

#[test]
fn messages_before_a_session_do_not_prolong_the_time_for_it() {
    let mut agent = Agent::start();
    let channel = agent.connect();
    let keep = Message::Keep(Keep {
        bytes: 1 << 20,
        before_ns: 0,
        pause_ns: 0,
        trigger_level: None,
        on_crash: false,
        trigger_callsites: Vec::new(),
    });
    for _ in 0..3 {
        // It may be closed by now.
        let _ = channel.send(&keep.encode().expect("short"), &[]);
        agent.turn();
        agent.advance(Duration::from_secs(1));
    }
    assert!(matches!(agent.next(&channel), Answer::Closed));
}

#[test]
fn idle_connections_of_some_users_keep_no_other_user_out() {
    let mut agent = shared_agent(|options| options.connections = 64);
    let mut held: Vec<Channel> = Vec::new();
    for user in [0, 1001, 1002, 1003, 1004] {
        for _ in 0..40 {
            match connect_as(&mut agent, user) {
                Some(channel) => held.push(channel),
                None => return println!("skipped: it takes root to be several users"),
            }
            agent.turn();
        }
    }
    assert_eq!(agent.counts().connections, 64);
    for user in 2001..2020 {
        let channel = connect_as(&mut agent, user).expect("root");
        let answer = agent.ask(&channel, &hello("late"), &[]);
        assert!(
            matches!(answer, Answer::Message(Message::Welcome(_), _)),
            "{user}: {answer:?}"
        );
        held.push(channel);
    }
    assert_eq!(agent.counts().sessions, 19);
}

#[test]
fn beyond_the_most_connections_peers_are_told_so() {
    let mut agent = Agent::with(|options| options.connections = 20);
    let held: Vec<_> = (0..20).map(|_| agent.hello("shop")).collect();
    let late = agent.connect();
    let why = agent.next(&late).refused();
    assert_eq!(why.code, RefusedCode::Limit);
    assert!(
        why.reason.contains("(20)") && why.advice.contains("connections"),
        "{why:?}"
    );
    assert!(matches!(agent.next(&late), Answer::Closed));
    drop(held);
    agent.until("they are away", |agent| {
        (agent.counts().connections == 0).then_some(())
    });
    is_served(&mut agent);
}

fn vectors() -> Vec<Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/agent.json");
    let text = std::fs::read_to_string(path).expect("the vectors");
    let file: Json = serde_json::from_str(&text).expect("JSON");
    let bytes = |case: &Json| -> Vec<u8> {
        let digits = case["hex"].as_str().expect("hex");
        let pairs = (0..digits.len()).step_by(2);
        pairs
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex"))
            .collect()
    };
    let of =
        |list: &str| -> Vec<Vec<u8>> { file[list].as_array().expect("a list").iter().map(bytes).collect() };
    let mut all = of("invalid_messages");
    all.extend(of("messages"));
    all
}

#[test]
fn messages_that_are_wrong_or_out_of_turn_end_their_connection_only() {
    let mut agent = Agent::start();
    let (process, _, _) = agent.hello("shop");
    let mut refused = 0;
    for bytes in vectors().iter().filter(|bytes| !bytes.is_empty()) {
        let channel = agent.connect();
        channel.send(bytes, &[]).expect("sent");
        let mut answered = false;
        for _ in 0..4 {
            agent.turn();
            answered |= matches!(receive(&channel), Some(Answer::Message(Message::Refused(_), _)));
        }
        refused += u32::from(answered);
    }
    assert!(refused > 90, "{refused}");
    // The same from a process that has a session.
    for bytes in [
        vec![0; 1],
        vec![7; 65_537],
        Message::Stats.encode().expect("short"),
        hello("x").encode().expect("short"),
    ] {
        let (channel, _, _) = agent.hello("wrong");
        let why = agent.ask_bytes(&channel, &bytes, &[]).refused();
        assert!(
            matches!(why.code, RefusedCode::Message | RefusedCode::Resources),
            "{why:?}"
        );
        assert!(matches!(agent.next(&channel), Answer::Closed));
    }
    let answer = agent.ask(&process, &Message::MoreRings { count: 1 }, &[]);
    assert!(matches!(
        answer,
        Answer::Message(Message::Rings { count: 1, .. }, _)
    ));
}

#[test]
fn random_packets_with_random_descriptors_do_no_harm() {
    let mut random = Random::seeded(0x000a_6e57);
    let mut agent = Agent::start();
    let (_process, _, files) = agent.hello("shop");
    let null = File::open("/dev/null").expect("a device");
    let vectors = vectors();
    let open = open_descriptors();
    for _ in 0..3000 {
        let channel = agent.connect();
        for _ in 0..=random.index(3) {
            let mut bytes = vectors[random.index(vectors.len())].clone();
            if random.index(2) == 0 && !bytes.is_empty() {
                let at = random.index(bytes.len());
                bytes[at] = random.index(256) as u8;
            }
            let mut sent = Vec::new();
            for _ in 0..random.index(9) {
                let file = if random.index(4) == 0 {
                    &null
                } else {
                    &files[random.index(files.len())]
                };
                sent.push(file.as_fd());
            }
            // The agent may have closed the connection by now.
            let _ = channel.send(&bytes, &sent);
            agent.turn();
        }
        agent.events.clear();
    }
    is_served(&mut agent);
    agent.advance(Duration::from_secs(30));
    agent.until("what came is closed again", |agent| {
        let sessions = agent.counts().sessions as usize;
        // Those that random messages have joined are away, and leave.
        (open_descriptors() <= open + 64 + sessions * 16).then_some(())
    });
    is_served(&mut agent);
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a list").count()
}

#[test]
fn descriptors_that_are_not_what_they_claim_to_be_are_refused() {
    let mut agent = Agent::start();
    let (channel, welcome, files) = agent.hello("shop");
    drop(channel);
    agent.until("it has gone", |agent| {
        (agent.counts().connections == 0).then_some(())
    });
    agent.advance(Duration::from_secs(11));
    assert_eq!(agent.left().1, End::Vanished);
    for (what, place, wrong) in wrong_files(&files) {
        let mut shown = copies(&files);
        shown[place] = wrong;
        let channel = agent.connect();
        let answer = agent.ask(&channel, &Message::Adopt(adopt(&welcome, 1)), &fds(&shown));
        let why = answer.refused();
        assert_eq!(why.code, RefusedCode::Descriptors, "{what}: {why:?}");
        assert!(matches!(agent.next(&channel), Answer::Closed), "{what}");
    }
    // The number of descriptors is not what the message says, or more than there are.
    let channel = agent.connect();
    let why = agent
        .ask(&channel, &Message::Adopt(adopt(&welcome, 1)), &fds(&files[1..]))
        .refused();
    assert_eq!(why.code, RefusedCode::Descriptors);
    let channel = agent.connect();
    let why = agent.ask(&channel, &hello("x"), &fds(&files[..1])).refused();
    assert_eq!(why.code, RefusedCode::Descriptors);
    // After all that the good ones are adopted.
    let channel = agent.connect();
    let answer = agent
        .ask(&channel, &Message::Adopt(adopt(&welcome, 1)), &fds(&files))
        .message();
    assert!(matches!(answer, Message::WelcomeBack { .. }), "{answer:?}");
    is_served(&mut agent);
}

fn memfd(flags: MemfdFlags, bytes: u64, seals: SealFlags) -> File {
    let file = file(rustix::fs::memfd_create("wrong", flags | MemfdFlags::CLOEXEC).expect("memory"));
    rustix::fs::ftruncate(&file, bytes).expect("a size");
    rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
    file
}

/// Files that are wrong, each with the place where it is shown.
fn wrong_files(good: &[File]) -> Vec<(String, usize, File)> {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let allow = MemfdFlags::ALLOW_SEALING;
    let mut wrong = Vec::new();
    for (place, right) in good.iter().enumerate() {
        let bytes = right.metadata().expect("a size").len();
        let mut add = |what: &str, file: File| wrong.push((format!("{what} at {place}"), place, file));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        add("a pipe's reader", file(reader));
        add("a pipe's writer", file(writer));
        add("a device", File::open("/dev/zero").expect("a device"));
        add("a directory", File::open("/").expect("a directory"));
        add(
            "a socket",
            file(OwnedFd::from(
                std::os::unix::net::UnixDatagram::unbound().expect("a socket"),
            )),
        );
        add("no seals", memfd(allow, bytes, SealFlags::empty()));
        add(
            "no seal against growing",
            memfd(allow, bytes, SealFlags::SHRINK | SealFlags::SEAL),
        );
        add(
            "no seal against shrinking",
            memfd(allow, bytes, SealFlags::GROW | SealFlags::SEAL),
        );
        add(
            "seals that can be added to",
            memfd(allow, bytes, SealFlags::SHRINK | SealFlags::GROW),
        );
        add("a page less", memfd(allow, bytes - 4096, all));
        add("a page more", memfd(allow, bytes + 4096, all));
        add("no bytes", memfd(allow, 0, all));
        let path = format!("/proc/self/fd/{}", right.as_raw_fd());
        add("read only", File::open(&path).expect("for reading"));
        let bare = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).expect("a path");
        add("a path only", file(bare));
        let other = &good[(place + 1) % good.len()];
        add("another one's place", other.try_clone().expect("a descriptor"));
    }
    let empty_ring = Ring::file_bytes(1 << 16);
    wrong.push((
        "a ring of zeroes".to_owned(),
        MemoryFiles::PARTS,
        memfd(allow, empty_ring, all),
    ));
    wrong.push(("a header of zeroes".to_owned(), 0, memfd(allow, 4096, all)));
    wrong.push(("rules of zeroes".to_owned(), 4, memfd(allow, 65536, all)));
    wrong
}

#[test]
fn what_is_shown_counts_against_the_limits_before_it_is_mapped() {
    let mut agent = Agent::with(|options| options.limits.process.memory_bytes = Some(1 << 20));
    let (channel, welcome, files) = agent.hello("shop");
    drop(channel);
    agent.until("it has gone", |agent| {
        (agent.counts().connections == 0).then_some(())
    });
    agent.advance(Duration::from_secs(11));
    let mut message = adopt(&welcome, 0);
    message.ring_total = 4096;
    message.ring_bytes = 1 << 30;
    let channel = agent.connect();
    let why = agent
        .ask(
            &channel,
            &Message::Adopt(message),
            &fds(&files[..MemoryFiles::PARTS]),
        )
        .refused();
    assert_eq!(why.code, RefusedCode::Limit, "{why:?}");
    message.ring_bytes = 12345;
    let channel = agent.connect();
    let why = agent
        .ask(
            &channel,
            &Message::Adopt(message),
            &fds(&files[..MemoryFiles::PARTS]),
        )
        .refused();
    assert_eq!(why.code, RefusedCode::Descriptors, "{why:?}");
}

#[test]
fn an_adoption_that_is_never_finished_is_closed() {
    let mut agent = Agent::start();
    let (_, welcome, files) = agent.hello("shop");
    agent.until("it has gone", |agent| {
        (agent.counts().connections == 0).then_some(())
    });
    agent.advance(Duration::from_secs(11));
    let mut message = adopt(&welcome, 1);
    message.ring_total = 3;
    let channel = agent.connect();
    let bytes = Message::Adopt(message).encode().expect("short");
    channel.send(&bytes, &fds(&files)).expect("sent");
    agent.until("it came", |agent| {
        agent.turn();
        (agent.counts().connections == 1).then_some(())
    });
    agent.advance(Duration::from_secs(6));
    agent.advance(Duration::from_secs(6));
    assert!(matches!(agent.next(&channel), Answer::Closed));
    assert_eq!(agent.counts().sessions, 0);
}

#[test]
fn limits_of_processes_users_and_applications_are_told_in_words() {
    let mut agent = Agent::with(|options| {
        options.limits.total.processes = Some(3);
        options.limits.users[0].quota.rings = Some(2);
    });
    let (one, _, _) = agent.hello("shop");
    let (_two, _, _) = agent.hello("shop");
    let refuse = |agent: &mut Agent| {
        let channel = agent.connect();
        agent.ask(&channel, &hello("shop"), &[]).refused()
    };
    let why = refuse(&mut agent);
    assert!(
        why.reason.contains("user") && why.reason.contains("2 rings"),
        "{why:?}"
    );
    let answer = agent.ask(&one, &Message::MoreRings { count: 1 }, &[]).message();
    assert!(
        matches!(&answer, Message::Rings { count: 0, reason, .. } if reason.contains("2 rings")),
        "{answer:?}"
    );
    let mut options = options(&agent.dir);
    options.limits.total.processes = Some(2);
    agent.server.adjust(options);
    let why = refuse(&mut agent);
    assert!(
        why.reason.contains("all processes together may have 2 processes"),
        "{why:?}"
    );
}

#[test]
fn a_peer_that_does_not_read_is_closed_and_costs_little() {
    let mut agent = Agent::start();
    let (_process, _, _) = agent.hello("shop");
    let slow = agent.connect();
    let list = Message::List { above: 0 }.encode().expect("short");
    let mut sent = 0;
    for _ in 0..100_000 {
        match slow.send(&list, &[]) {
            Ok(()) => sent += 1,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
        agent.turn();
    }
    assert!(sent < 50_000, "the agent stops to read");
    is_served(&mut agent);
    agent.advance(Duration::from_secs(6));
    agent.advance(Duration::from_secs(1));
    assert_eq!(
        agent.counts().connections,
        1,
        "the slow one is gone, the process is there"
    );
}

#[test]
fn a_peer_that_shouts_is_not_heard_for_a_while_and_others_are() {
    let mut agent = Agent::start();
    let (loud, _, _) = agent.hello("loud");
    let bell = Message::Bell.encode().expect("short");
    let mut blocked = 0;
    for _ in 0..60_000 {
        match loud.send(&bell, &[]) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => blocked += 1,
            Err(error) => panic!("{error}"),
        }
        agent.turn();
    }
    assert!(blocked > 0, "it was heard all the time");
    is_served(&mut agent);
    agent.advance(Duration::from_secs(2));
    agent.turn();
    let answer = agent.until("it is heard again", |agent| {
        // Its shouts are before the question.
        let asked = loud.send(&Message::MoreRings { count: 1 }.encode().expect("short"), &[]);
        agent.turn();
        asked.is_ok().then(|| agent.next(&loud))
    });
    assert!(
        matches!(answer, Answer::Message(Message::Rings { .. }, _)),
        "{answer:?}"
    );
}

/// In a child: joins the agent at `socket`, waits for a word; then returns the connection.
fn join_as_child(socket: &str) -> (Channel, Vec<File>) {
    let channel = Channel::connect(socket.as_ref(), Duration::from_secs(20)).expect("a connection");
    channel
        .send(&hello("child").encode().expect("short"), &[])
        .expect("sent");
    let files = loop {
        channel.wait(Duration::from_secs(1)).expect("no error");
        match receive(&channel) {
            Some(Answer::Message(Message::Welcome(_), files)) => break files,
            None => {}
            other => panic!("{other:?}"),
        }
    };
    wait_for_input();
    (channel, files)
}

#[test]
fn the_end_of_a_process_is_seen_and_told() {
    const NAME: &str = "the_end_of_a_process_is_seen_and_told";
    if let Some(role) = role() {
        let (how, socket) = role.split_once(' ').expect("a part and a socket");
        let joined = join_as_child(socket);
        match how {
            "abort" => std::process::abort(),
            "exit" => std::process::exit(3),
            // A child of the child keeps the connection open; the end is seen all the same.
            "orphan" => {
                let mut keeper = Command::new("sleep");
                let keeper = keeper
                    .arg("1000")
                    .stdin(Stdio::from(joined.0.as_fd().try_clone_to_owned().expect("fd")));
                report(&format!("orphan {}", keeper.spawn().expect("a child").id()));
                loop {
                    std::thread::park();
                }
            }
            _ => loop {
                std::thread::park();
            },
        }
    }
    let mut agent = Agent::start();
    for (how, expected) in [
        ("kill", Exit::Signal(9)),
        ("abort", Exit::Signal(6)),
        ("exit", Exit::Status(3)),
        ("orphan", Exit::Signal(9)),
    ] {
        let mut child = Process::in_role(NAME, &format!("{how} {}", agent.socket().display()));
        let session = agent.joined();
        assert_eq!(session.peer().pid, child.pid());
        child.send("");
        let orphan = (how == "orphan").then(|| child.expect("orphan").parse::<i32>().expect("a number"));
        if how == "kill" || how == "orphan" {
            child.child().kill().expect("killed");
        }
        let (left, end) = agent.left();
        assert_eq!(left.id(), session.id());
        assert_eq!(end, End::Exited(expected), "{how}: {}", end.describe(&left));
        child.wait();
        if let Some(pid) = orphan.and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        }
    }
    assert_eq!(agent.counts().connections, 0);
}

#[test]
fn a_process_cannot_adopt_the_session_of_another_one() {
    const NAME: &str = "a_process_cannot_adopt_the_session_of_another_one";
    if let Some(socket) = role() {
        let (channel, files) = join_as_child(&socket);
        // The parent has copies of these through `/proc`, as a debugger would.
        for file in &files {
            report(&format!("fd {}", file.as_raw_fd()));
        }
        wait_for_input();
        drop(channel);
        return;
    }
    let mut agent = Agent::start();
    let mut child = Process::in_role(NAME, &agent.socket().display().to_string());
    let session = agent.joined();
    child.send("");
    let stolen: Vec<File> = (0..MemoryFiles::PARTS + 1)
        .map(|_| {
            let path = format!("/proc/{}/fd/{}", child.pid(), child.expect("fd "));
            File::options()
                .read(true)
                .write(true)
                .open(path)
                .expect("a descriptor of the child")
        })
        .collect();
    let message = Message::Adopt(Adopt {
        session: session.id(),
        journal: 77,
        ring_bytes: 1 << 16,
        ring_total: 1,
        ring_count: 1,
        policy: 0,
        coarse: false,
    });
    let channel = agent.connect();
    let why = agent.ask(&channel, &message, &fds(&stolen)).refused();
    assert!(
        why.reason
            .contains(&format!("belongs to process {}", child.pid())),
        "{why:?}"
    );
    child.send("");
    child.wait();
    assert_eq!(agent.left().0.id(), session.id());
}

#[test]
fn a_goodbye_and_the_end_of_its_process_in_one_turn_leave_one_end() {
    const NAME: &str = "a_goodbye_and_the_end_of_its_process_in_one_turn_leave_one_end";
    if let Some(socket) = role() {
        let channel = Channel::connect(socket.as_ref(), Duration::from_secs(20)).expect("a connection");
        channel
            .send(&hello("shop").encode().expect("short"), &[])
            .expect("sent");
        wait_for_input();
        channel
            .send(&Message::Bye.encode().expect("short"), &[])
            .expect("sent");
        std::process::exit(3);
    }
    let mut agent = Agent::start();
    let mut child = Process::in_role(NAME, &agent.socket().display().to_string());
    let session = agent.joined();
    child.send("");
    child.wait();
    agent.turn();
    let events = std::mem::take(&mut agent.events);
    assert!(
        matches!(&events[..], [
            Event::Bye { session: said },
            Event::Left { session: left, end: End::Goodbye(Some(Exit::Status(3))) },
        ] if *said == session.id() && left.id() == session.id()),
        "{events:?}"
    );
    // The owner finds no session for the goodbye, whose answer would release its memory too soon.
    assert!(agent.server.session(session.id()).is_none());
    agent.server.done(session.id(), true, agent.now());
    agent.turn();
    assert!(agent.events.is_empty(), "{:?}", agent.events);
}

#[test]
fn an_agent_without_descriptors_says_so_and_goes_on() {
    const NAME: &str = "an_agent_without_descriptors_says_so_and_goes_on";
    if role().is_none() {
        let mut child = Process::in_role(NAME, "agent");
        child.expect("it went on");
        return child.end();
    }
    let mut agent = Agent::start();
    let (process, _, _) = agent.hello("shop");
    setrlimit(Resource::RLIMIT_NOFILE, 64, 64).expect("a lower limit");
    let mut held = Vec::new();
    let mut told = 0;
    // Peers and agent share the limit here, so that some connections already fail at their own end.
    for _ in 0..200 {
        if let Ok(channel) = Channel::connect(&agent.socket(), Duration::from_millis(1)) {
            held.push(channel);
        }
        agent.advance(Duration::from_millis(150));
        told += held
            .iter()
            .filter(|channel| matches!(receive(channel), Some(Answer::Message(..))))
            .count();
    }
    assert!(agent.counts().out_of_descriptors > 0);
    assert!(told > 0, "nobody was told");
    let notices = agent
        .events
        .iter()
        .filter(|event| matches!(event, Event::Notice(_)))
        .count();
    assert_eq!(notices, 1, "it is said once");
    // A ring needs a descriptor, too.
    let answer = agent
        .ask(&process, &Message::MoreRings { count: 1 }, &[])
        .message();
    assert!(
        matches!(&answer, Message::Rings { count: 0, reason, .. } if !reason.is_empty()),
        "{answer:?}"
    );
    held.clear();
    agent.advance(Duration::from_secs(6));
    is_served(&mut agent);
    println!("it went on");
}
