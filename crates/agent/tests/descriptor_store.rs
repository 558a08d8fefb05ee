//! A service manager with a descriptor store: agent and program are killed together, and the next agent gets the memory of
//! the program back.

use logdrive_agent::config::{AgentConfig, Places};
use logdrive_agent::{Agent, KeeperCommand, ServiceManager, StoreOptions};
use logdrive_ring::channel::{Channel, Received};
use logdrive_testkit::{Process, directory, end_of_input, report, role, this_test, wait_for, wait_for_input};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records that the program logs while the agent stands still.
const RECORDS: u64 = 3000;

/// The service manager's end: descriptors by their names.
struct Manager {
    socket: Channel,
    path: PathBuf,
    stored: BTreeMap<String, OwnedFd>,
}

impl Manager {
    fn start(dir: &Path) -> Self {
        let path = dir.join("notify");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).expect("a socket");
        bind(&socket, &SocketAddrUnix::new(&path).expect("a path")).expect("bound");
        Self {
            socket: Channel::new(socket),
            path,
            stored: BTreeMap::new(),
        }
    }

    /// Obeys the messages that have come.
    fn obey(&mut self) {
        let mut buffer = [0; 4096];
        let mut descriptors = Vec::new();
        while let Ok(Received::Packet(length)) = self.socket.receive(&mut buffer, &mut descriptors, true) {
            let text = std::str::from_utf8(&buffer[..length]).expect("text");
            let value = |key| text.lines().find_map(|line| line.strip_prefix(key));
            let name = value("FDNAME=").expect("a name");
            assert!(name.len() < 256 && !name.contains(':'), "{name}");
            match (value("FDSTORE="), value("FDSTOREREMOVE=")) {
                (Some("1"), None) => {
                    assert_eq!(
                        value("FDPOLL="),
                        Some("0"),
                        "the end of a process is not for the manager"
                    );
                    let new = descriptors.pop().expect("one descriptor");
                    assert!(self.stored.insert(name.to_owned(), new).is_none(), "stored twice");
                }
                (None, Some("1")) => drop(self.stored.remove(name).expect("it is stored")),
                _ => panic!("{text}"),
            }
            assert!(descriptors.is_empty(), "{text}");
        }
    }
}

fn config(dir: &Path) -> AgentConfig {
    AgentConfig::at(&Places {
        socket: dir.join("sock/agent.sock"),
        run_dir: dir.join("run"),
        log_dir: dir.join("logs"),
    })
}

/// Plays the agent or the program, if this process is one.
fn plays() -> bool {
    let Some(role) = role() else {
        return false;
    };
    let (role, dir) = role.split_once(' ').expect("a role and a directory");
    let dir = Path::new(dir);
    if role == "keeper" {
        logdrive_agent::keep(dir).expect("a place");
        return true;
    }
    if role == "agent" {
        let store = StoreOptions::from_environment(KeeperCommand::new("/there/is/none", ["keeper"]));
        assert!(matches!(store, StoreOptions::ServiceManager(_)), "{store:?}");
        let mut agent = Agent::start(config(dir)).expect("an agent");
        agent.store_descriptors(store);
        report("ready");
        let ended = end_of_input();
        while ended.try_recv().is_err() {
            agent.turn();
        }
        return true;
    }
    let _guard = logdrive::builder("program")
        .use_env(false)
        .agent(dir.join("sock/agent.sock"))
        .agent_timeout(std::time::Duration::from_secs(60))
        .full(logdrive::Full::Block)
        .run_dir(dir.join("own"))
        .init()
        .expect("it starts");
    report("joined");
    wait_for_input();
    (0..RECORDS).for_each(|number| logdrive::info!(number, "counted"));
    report("logged");
    wait_for_input();
    true
}

#[test]
fn what_is_in_rings_survives_the_kill_of_agent_and_program_in_the_descriptor_store() {
    const NAME: &str = "what_is_in_rings_survives_the_kill_of_agent_and_program_in_the_descriptor_store";
    if plays() {
        return;
    }
    let keep = directory();
    let dir = keep.path();
    let mut manager = Manager::start(dir);
    let mut command = this_test(NAME);
    command
        .env("LOGDRIVE_TEST_ROLE", format!("agent {}", dir.display()))
        .env("FDSTORE", "1024")
        .env("NOTIFY_SOCKET", &manager.path);
    let mut agent = Process::spawn(&mut command);
    agent.expect("ready");
    let mut program = Process::in_role(NAME, &format!("program {}", dir.display()));
    program.expect("joined");
    agent.signal(Signal::STOP);
    program.send("");
    program.expect("logged");
    agent.kill();
    program.kill();
    manager.obey();
    // The process, five files and a ring at least.
    assert!(manager.stored.len() >= 7, "{:?}", manager.stored);

    let mut next = Process::spawn(&mut passing(&command, &manager.stored));
    next.expect("ready");
    let ended = format!("process {} of program was", program.pid());
    let text = wait_for("the end of the program in the log", || {
        manager.obey();
        let text = std::fs::read_to_string(dir.join("logs/program.log")).unwrap_or_default();
        text.contains(&ended).then_some(text)
    });
    let numbers = text
        .lines()
        .filter_map(|line| line.split_once("counted number=")?.1.parse::<u64>().ok());
    assert!(numbers.eq(0..RECORDS), "each record once: {text}");
    // All of it is written: the store need not have it any more.
    wait_for("the store is empty", || {
        manager.obey();
        manager.stored.is_empty().then_some(())
    });
    next.kill();
}

/// The same command, started with these descriptors as a service manager passes them.
fn passing(command: &Command, stored: &BTreeMap<String, OwnedFd>) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "LISTEN_PID=$$ exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .env("LISTEN_FDS", stored.len().to_string())
        .env(
            "LISTEN_FDNAMES",
            stored.keys().cloned().collect::<Vec<_>>().join(":"),
        );
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    // Above all places to which they are moved.
    let high = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 500).expect("a descriptor");
    let descriptors: Vec<OwnedFd> = stored.values().map(high).collect();
    let place = move || {
        for (number, descriptor) in (3..).zip(&descriptors) {
            // SAFETY: takes two numbers; what was at the second one is of no use to the program that is started.
            if unsafe { libc::dup2(descriptor.as_raw_fd(), number) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: only calls `dup2`, which may be called between fork and exec.
    unsafe { shell.pre_exec(place) };
    shell
}

/// A manager that offers its store to an agent that had none, and so a keeper.
#[test]
fn the_sessions_of_a_running_keeper_are_taken_over_and_the_keeper_ends() {
    const NAME: &str = "the_sessions_of_a_running_keeper_are_taken_over_and_the_keeper_ends";
    if plays() {
        return;
    }
    let keep = directory();
    let dir = keep.path();
    let socket = dir.join("run/keeper.sock");
    let mut manager = Manager::start(dir);
    let mut agent = Agent::start(config(dir)).expect("an agent");
    agent.store_descriptors(StoreOptions::Keeper(this_test_as_keeper(NAME)));
    let mut program = Process::in_role(NAME, &format!("program {}", dir.display()));
    wait_for("the program has joined, and the keeper has its session", || {
        agent.turn();
        (agent.counts().stored_descriptors >= 6).then_some(())
    });
    drop(agent);
    program.kill();

    let mut next = Agent::start(config(dir)).expect("an agent");
    let store = ServiceManager::new(&manager.path, 100, Vec::new());
    next.store_descriptors(StoreOptions::ServiceManager(store));
    assert_eq!(next.sessions().len(), 1, "it was with the keeper");
    manager.obey();
    assert!(manager.stored.len() >= 7, "{:?}", manager.stored);
    wait_for("the end of the keeper", || {
        next.turn();
        manager.obey();
        (!socket.exists()).then_some(())
    });
    wait_for("the store is empty", || {
        next.turn();
        manager.obey();
        manager.stored.is_empty().then_some(())
    });
    next.stop();
}

/// Command that plays the keeper, with the socket as its last argument.
fn this_test_as_keeper(name: &str) -> KeeperCommand {
    let test = this_test(name);
    let mut words = vec![test.get_program().to_owned()];
    words.extend(test.get_args().map(ToOwned::to_owned));
    let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.display())).collect();
    let script = format!("LOGDRIVE_TEST_ROLE=\"keeper $0\" exec {}", words.join(" "));
    KeeperCommand::new("/bin/sh", ["-c", &script])
}
