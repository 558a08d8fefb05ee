//! An agent in a thread of the test, and programs that log through it: child processes that do what they are told, word by
//! word, and answer when what they logged is with the kernel.
#![allow(dead_code, reason = "each test program uses a part of it")]

use logdrive_agent::Agent;
use logdrive_agent::config::{AgentConfig, Places};
use logdrive_drain::Stats;
use logdrive_ring::HostedSession;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Set in a child process: its directory.
const CHILD: &str = "LOGDRIVE_TEST_CHILD";

/// Set in a child process as well: the name of its application.
const APP: &str = "LOGDRIVE_TEST_APP";

/// Nothing here takes as long, on any machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

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

    /// What holds only from the next start on, or what is wrong.
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
    pub(crate) fn until(&self, what: &str, mut look: impl FnMut() -> bool) {
        let start = Instant::now();
        while !look() {
            assert!(start.elapsed() < DEADLINE, "in vain: {what}");
            std::thread::yield_now();
        }
    }

    pub(crate) fn stop(self) {
        drop(self.tasks);
        self.thread.join().expect("no panic").stop();
    }
}

/// A program that does what it is told.
pub(crate) struct Program {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    rounds: u32,
}

impl Program {
    /// Starts this test program once more, to play the part of the test of this name.
    pub(crate) fn start(test: &str, dir: &Path) -> Self {
        Self::start_as("program", test, dir)
    }

    /// The same, as another application.
    pub(crate) fn start_as(app: &str, test: &str, dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a program has a path"))
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CHILD, dir)
            .env(APP, app)
            .env_remove("LOGDRIVE_AGENT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut program = Self {
            child,
            lines,
            rounds: 0,
        };
        program.hear("READY");
        program
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    fn hear(&mut self, word: &str) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        let found = lines.find(|line| line.contains(word));
        found.unwrap_or_else(|| panic!("the child has ended without {word}"))
    }

    /// Tells it to do something; the number of the round.
    pub(crate) fn says(&mut self, word: &str) -> u32 {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{word}").expect("the child listens");
        self.rounds += 1;
        self.rounds - 1
    }

    /// The same, and waits until what it has logged is in the files.
    #[track_caller]
    pub(crate) fn does(&mut self, word: &str) -> u32 {
        let round = self.says(word);
        self.hear(&format!("DONE {round} "));
        round
    }

    /// The same, and whether it was told that all is written.
    #[track_caller]
    pub(crate) fn does_and_flushes(&mut self, word: &str) -> bool {
        let round = self.says(word);
        self.hear(&format!("DONE {round} ")).ends_with("true")
    }

    /// Lets it end in order.
    #[track_caller]
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("its status").success());
    }

    pub(crate) fn has_ended(&mut self) -> ExitStatus {
        self.child.wait().expect("its status")
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its status");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Gone already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
        .full(logdrive::Full::Block)
        .filter("debug")
        .run_dir(dir.join("own"))
        .file(logdrive::File::new(dir.join("own.log")))
        .note_signals(true)
        .init()
        .expect("it starts");
    assert!(logdrive::session_path().is_none(), "an agent has the session");
    tell("READY");
    for (number, word) in (0..).zip(std::io::stdin().lines()) {
        work(word.expect("a word").trim(), number);
        tell(&format!("DONE {number} {}", logdrive::flush()));
    }
    drop(guard);
    // Before the test harness says something to a parent that listens no more.
    std::process::exit(0);
}

fn tell(word: &str) {
    println!("\n{word}");
    std::io::stdout().flush().expect("the parent listens");
}
