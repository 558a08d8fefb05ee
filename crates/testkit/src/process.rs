//! Child processes of a test. Most are the test program itself, started again with one test and a role; parent and child
//! talk in lines.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// Variable that gives a child its role.
const ROLE: &str = "LOGDRIVE_TEST_ROLE";

/// Returns the role of this process, if it is a child that a test has started.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Sends a line to the parent. It begins on a line of its own, whatever the test harness has printed.
#[allow(clippy::print_stdout, reason = "a test talks to whoever runs it")]
pub fn report(line: &str) {
    println!("\n{line}");
    std::io::stdout().flush().expect("the parent listens");
}

/// Blocks until the parent sends a line.
pub fn wait_for_input() {
    let read = std::io::stdin().read_line(&mut String::new());
    assert!(
        read.expect("the parent sends") > 0,
        "the parent has closed the input"
    );
}

/// Returns a channel that gets a value when the parent sends something or closes the input.
pub fn end_of_input() -> Receiver<()> {
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0; 1]);
        let _ = sender.send(());
    });
    ended
}

/// Returns a command that starts this test program again with one of its tests, without the variables that steer logging.
pub fn this_test(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env_remove("LOGDRIVE")
        .env_remove("LOGDRIVE_AGENT");
    command
}

/// Returns a command that starts this test program again with one of its tests, in a [`role`].
pub fn this_test_as(test: &str, role: &str) -> Command {
    let mut command = this_test(test);
    command.env(ROLE, role);
    command
}

/// A child process, as a rule with pipes to its standard input and output. It is killed when it is dropped.
///
/// ```
/// use logdrive_testkit::Process;
/// let mut cat = Process::spawn(&mut std::process::Command::new("cat"));
/// assert_eq!(cat.ask("ready 7", "ready"), "7");
/// cat.end();
/// ```
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Lines of its output, if that is a pipe.
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl From<Child> for Process {
    fn from(mut child: Child) -> Self {
        let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        Self { child, lines }
    }
}

impl Process {
    /// Starts a command.
    #[track_caller]
    pub fn spawn(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().expect("the child starts").into()
    }

    /// Starts a test of this program again, in a [`role`].
    #[track_caller]
    pub fn in_role(test: &str, role: &str) -> Self {
        Self::spawn(&mut this_test_as(test, role))
    }

    /// Returns the number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Reads lines until one has `word`, and returns what stands behind the word, without spaces around it.
    #[track_caller]
    pub fn expect(&mut self, word: &str) -> String {
        let lines = self.lines.as_mut().expect("its output is a pipe");
        let mut lines = lines.map_while(Result::ok);
        let found = lines.find_map(|line| line.split_once(word).map(|(_, rest)| rest.trim().to_owned()));
        found.unwrap_or_else(|| panic!("the child has ended without saying {word:?}"))
    }

    /// Returns the next line that it prints; `None` when there are no more.
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.as_mut()?.next()?.ok()
    }

    /// Sends a line.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("its input is open");
        writeln!(stdin, "{line}").expect("the child reads");
    }

    /// Sends a line, and returns what [`Process::expect`] gives for the answer.
    #[track_caller]
    pub fn ask(&mut self, line: &str, word: &str) -> String {
        self.send(line);
        self.expect(word)
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Sends a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the child runs");
    }

    /// Blocks until it has ended.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("its status")
    }

    /// Returns its status if it has ended.
    #[track_caller]
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("its status")
    }

    /// Closes its input, and blocks until it has ended, which has to be with success.
    #[track_caller]
    pub fn end(mut self) {
        self.close_input();
        let status = self.wait();
        assert!(status.success(), "the child ended with {status}");
    }

    /// Ends it with SIGKILL, and blocks until it is gone.
    #[track_caller]
    pub fn kill(&mut self) {
        self.child.kill().expect("the child can be killed");
        self.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
