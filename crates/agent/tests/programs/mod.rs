//! An agent in a thread of the test, and programs that log through it: child processes that execute commands, word by
//! word, and answer when what they logged is with the kernel.
#![allow(dead_code, reason = "each test program uses a part of it")]

use logdrive_agent::Agent;
use logdrive_agent::config::{AgentConfig, Places};
use logdrive_drain::Stats;
use logdrive_ring::HostedSession;
use logdrive_testkit::{Process, report, this_test, wait_until};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Set in a child process: its directory.
const CHILD: &str = "LOGDRIVE_TEST_CHILD";

/// Set in a child process as well: the name of its application.
const APP: &str = "LOGDRIVE_TEST_APP";

pub(crate) fn config(dir: &Path) -> AgentConfig {
    AgentConfig::at(&Places {
        socket: dir.join("sock/agent.sock"),
        run_dir: dir.join("run"),
        log_dir: dir.join("logs"),
    })
}

/// The log of the programs.
pub(crate) fn log_of(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("logs/program.log")).unwrap_or_default()
}

type Task = Box<dyn FnOnce(&mut Agent) + Send>;

/// An agent that has its turns in a thread of its own.
pub(crate) struct Service {
    tasks: Sender<Task>,
    thread: JoinHandle<Agent>,
}

impl Service {
    pub(crate) fn start(config: AgentConfig) -> Self {
        let mut agent = Agent::start(config).expect("an agent");
        let (tasks, inbox) = channel::<Task>();
        let thread = std::thread::spawn(move || {
            loop {
                agent.turn();
                match inbox.try_recv() {
                    Ok(task) => task(&mut agent),
                    Err(std::sync::mpsc::TryRecvError::Empty) => {}
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return agent,
                }
            }
        });
        Self { tasks, thread }
    }

    /// Does something with the agent between two turns.
    pub(crate) fn with<T: Send + 'static>(&self, work: impl FnOnce(&mut Agent) -> T + Send + 'static) -> T {
        let (send, answer) = channel();
        let task = move |agent: &mut Agent| send.send(work(agent)).expect("the test listens");
        self.tasks.send(Box::new(task)).expect("the agent runs");
        answer.recv().expect("the agent runs")
    }

    /// Reloads the configuration; returns what holds only from the next start on, or what is wrong.
    pub(crate) fn reload(&self, config: AgentConfig) -> Result<Vec<String>, String> {
        self.with(move |agent| match agent.reload(config) {
            Ok(later) => Ok(later.iter().map(ToString::to_string).collect()),
            Err(error) => Err(error.to_string()),
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        self.with(|agent| agent.stats())
    }

    /// The only session that there is.
    pub(crate) fn session(&self) -> Arc<HostedSession> {
        self.with(|agent| agent.sessions().first().cloned().expect("a session"))
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, look: impl FnMut() -> bool) {
        wait_until(what, look);
    }

    pub(crate) fn stop(self) {
        drop(self.tasks);
        self.thread.join().expect("no panic").stop();
    }
}

/// A program that executes commands of the test.
pub(crate) struct Program {
    process: Process,
    rounds: u32,
}

impl Program {
    /// Starts this test program once more, to play the part of the test of this name.
    pub(crate) fn start(test: &str, dir: &Path) -> Self {
        Self::start_as("program", test, dir)
    }

    /// The same, as another application.
    pub(crate) fn start_as(app: &str, test: &str, dir: &Path) -> Self {
        let mut command = this_test(test);
        command.env(CHILD, dir).env(APP, app).stderr(Stdio::null());
        let mut process = Process::spawn(&mut command);
        process.expect("READY");
        Self { process, rounds: 0 }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends it a command; returns the number of the round.
    pub(crate) fn says(&mut self, word: &str) -> u32 {
        self.process.send(word);
        self.rounds += 1;
        self.rounds - 1
    }

    /// The same, and waits until what it has logged is in the files.
    #[track_caller]
    pub(crate) fn does(&mut self, word: &str) -> u32 {
        let round = self.says(word);
        self.process.expect(&format!("DONE {round} "));
        round
    }

    /// The same, and whether its answer was that all is written.
    #[track_caller]
    pub(crate) fn does_and_flushes(&mut self, word: &str) -> bool {
        let round = self.says(word);
        self.process.expect(&format!("DONE {round} ")) == "true"
    }

    /// Lets it end in order.
    #[track_caller]
    pub(crate) fn end(self) {
        self.process.end();
    }

    pub(crate) fn has_ended(&mut self) -> ExitStatus {
        self.process.wait()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }
}

/// Plays the part of a program, if this process is one.
pub(crate) fn plays(part: impl FnOnce(&Path)) -> bool {
    let Some(dir) = std::env::var_os(CHILD) else {
        return false;
    };
    part(Path::new(&dir));
    true
}

/// Does what comes on the standard input, each with its number, and flushes behind it.
pub(crate) fn serve(dir: &Path, mut work: impl FnMut(&str, u32)) {
    let app = std::env::var(APP).expect("a program has a name");
    let guard = logdrive::builder(&app)
        .use_env(false)
        .agent(dir.join("sock/agent.sock"))
        .agent_timeout(std::time::Duration::from_secs(60))
        .full(logdrive::Full::Block)
        .filter("debug")
        .run_dir(dir.join("own"))
        .file(logdrive::File::new(dir.join("own.log")))
        .note_signals(true)
        .init()
        .expect("it starts");
    assert!(logdrive::session_path().is_none(), "an agent has the session");
    report("READY");
    for (number, word) in (0..).zip(std::io::stdin().lines()) {
        work(word.expect("a word").trim(), number);
        report(&format!("DONE {number} {}", logdrive::flush()));
    }
    drop(guard);
    // Before the test harness says something to a parent that listens no more.
    std::process::exit(0);
}
