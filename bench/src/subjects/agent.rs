//! An agent in a process of its own, and the programs that it serves: all of them this program in another role.
//!
//! A role's first words are on its command line; it says `ready` when it is, and ends when its input does.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use logdrive_agent::Agent;
use logdrive_agent::config::{AgentConfig, Places, Route, SinkConfig};
use logdrive_drain::file::{Disk, FileOptions, Storage};
use logdrive_drain::{Overflow, SinkOptions, Stopped, Target};

use super::in_place::InPlace;
use crate::{BenchError, Result, warm};

/// The role of the agent: its directory, its log, and whether to write over that in place.
const AGENT: &str = "--role-agent";

/// A child in a role.
#[derive(Debug)]
pub struct Player {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Player {
    /// Starts this program in a role, and waits until it says that it is ready.
    pub fn start(words: &[&std::ffi::OsStr]) -> Result<Player> {
        let path = std::env::current_exe().map_err(BenchError::io("find", Path::new("this program")))?;
        let mut child = Command::new(&path)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::io("start", &path))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| BenchError::subject("role", "no pipe"))?;
        let mut player = Player {
            child,
            input,
            output: BufReader::new(output),
        };
        player.hear("ready")?;
        Ok(player)
    }

    /// Waits for a word.
    pub fn hear(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        // At the end of the pipe the line is empty, which is another word.
        let read = self.output.read_line(&mut line);
        if read.is_ok() && line.trim() == word {
            return Ok(());
        }
        Err(BenchError::subject(
            "role",
            format_args!("ended without saying {word}, but {line:?}"),
        ))
    }

    /// Says one byte.
    pub fn say(&mut self) -> Result<()> {
        let said = self.input.as_mut().map(|input| input.write_all(b"x"));
        said.unwrap_or(Ok(()))
            .map_err(BenchError::io("write to", Path::new("a role")))
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends its input, and waits for its end.
    pub fn end(mut self) -> Result<()> {
        drop(self.input.take());
        let status = self
            .child
            .wait()
            .map_err(BenchError::io("wait for", Path::new("a role")))?;
        if status.success() {
            return Ok(());
        }
        Err(BenchError::subject("role", status))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Whatever went wrong has been said; it may end by itself meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A running agent, in a directory that goes with it.
#[derive(Debug)]
pub struct AgentProcess {
    player: Option<Player>,
    dir: PathBuf,
}

impl AgentProcess {
    /// Starts an agent that writes all it gets to one file.
    pub fn start(log: &Path, in_place: bool) -> Result<AgentProcess> {
        let dir = std::env::temp_dir().join(format!("logdrive-bench-agent-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(BenchError::io("create", &dir))?;
        let how = if in_place { "in-place" } else { "anew" };
        let words = [AGENT.as_ref(), dir.as_os_str(), log.as_os_str(), how.as_ref()];
        let player = Some(Player::start(&words)?);
        Ok(AgentProcess { player, dir })
    }

    /// Address of the listener.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket(&self.dir)
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.player.as_ref().map_or(0, Player::pid)
    }

    /// Lets it write what it has, and end.
    pub fn end(mut self) -> Result<()> {
        self.player.take().map_or(Ok(()), Player::end)
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        drop(self.player.take());
        // Nothing in it is wanted.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("sock/agent.sock")
}

/// Says that a role is ready; what it is told comes next.
pub fn ready() -> std::io::Result<()> {
    println!("ready");
    std::io::stdout().flush()
}

/// Hears of the end of the input.
#[must_use]
pub fn end_of_input() -> Receiver<()> {
    let (send, over) = channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0; 1]);
        let _ = send.send(());
    });
    over
}

/// Takes the role of the agent, if the command line says so. Called first in `main`.
#[must_use]
pub fn serve_role() -> Option<ExitCode> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [role, dir, log, how] = words.as_slice() else {
        return None;
    };
    if role != AGENT {
        return None;
    }
    Some(match serve(dir.as_ref(), log.as_ref(), how == "in-place") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agent: {}", error.full_message());
            ExitCode::FAILURE
        }
    })
}

fn serve(dir: &Path, log: &Path, in_place: bool) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| BenchError::subject("agent", error);
    // As the sinks of a logger whose threads block, so that both do the same: nothing is lost, however slow the disk is.
    let mut options = SinkOptions::new(Target::File(FileOptions::new(log)));
    options.overflow = Overflow::Hold;
    let main = SinkConfig::new("main", options);
    let config = AgentConfig {
        routes: vec![Route::to_all(std::slice::from_ref(&main))],
        sinks: vec![main],
        ..AgentConfig::at(&Places {
            socket: socket(dir),
            run_dir: dir.join("run"),
            log_dir: dir.join("logs"),
        })
    };
    let storage: Arc<dyn Storage> = match in_place {
        true => {
            let open = warm::open_in_place(log)?;
            Arc::new(InPlace::new(&open).map_err(BenchError::io("examine", log))?)
        }
        false => Arc::new(Disk),
    };
    let mut agent = Agent::start_on(config, storage).map_err(|error| failed(&error))?;
    ready().map_err(BenchError::io("write to", Path::new("stdout")))?;
    let over = end_of_input();
    while over.try_recv().is_err() {
        agent.turn();
    }
    match agent.stop() {
        Stopped::Complete => Ok(()),
        Stopped::LeftForRecovery => Err(failed(&"could not write all")),
    }
}
