//! A test program that starts itself again, as a child with a part to play.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// Names the part that a child plays, with what it has to know.
const CHILD: &str = "LOGDRIVE_TEST_CHILD";

/// The part of this process, if it is a child.
pub(crate) fn part() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// Says a word to the parent.
pub(crate) fn tell(word: &str) {
    println!("\n{word}");
    std::io::stdout().flush().expect("the parent listens");
}

/// Waits until the parent says something.
pub(crate) fn wait_for_word() {
    std::io::stdin().read_exact(&mut [0; 1]).expect("a word");
}

/// Hears of the end of the input, which is the word to stop.
pub(crate) fn end_of_input() -> Receiver<()> {
    let (send, over) = channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0; 1]);
        let _ = send.send(());
    });
    over
}

/// One test of this program, started anew; it ends with whoever holds it.
pub(crate) struct Player {
    pub(crate) child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Player {
    /// Starts a test anew, as a child with a part.
    pub(crate) fn start(test: &str, part: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a program has a path"))
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CHILD, part)
            .env_remove("LOGDRIVE_AGENT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    pub(crate) fn say(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(b"x").expect("the child listens");
    }

    /// Waits until the child says a word, and returns what it says behind it.
    #[track_caller]
    pub(crate) fn hear(&mut self, word: &str) -> String {
        let line = self.lines.find_map(|line| {
            let line = line.expect("text");
            line.split_once(word).map(|(_, rest)| rest.trim().to_owned())
        });
        line.unwrap_or_else(|| panic!("the child has ended without {word}"))
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its status");
    }

    /// Lets it end, and says whether it ended well.
    pub(crate) fn end(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().expect("its status").success()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // After a failure; it may have ended by itself.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
