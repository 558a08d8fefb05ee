//! An agent in a process of its own: this program in another [role]. It ends when its input does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logdrive_agent::Agent;
use logdrive_agent::config::{AgentConfig, Places, Route, SinkConfig};
use logdrive_drain::file::{Disk, FileOptions, Storage};
use logdrive_drain::{Overflow, SinkOptions, Stopped, Target};
use logdrive_testkit::{Process, directory, end_of_input, report};

use super::in_place::InPlace;
use crate::{BenchError, Result, role, warm};

/// The role of the agent: its directory, its log, and `in-place` to write over that.
pub const AGENT: &str = "--role-agent";

/// A running agent, in a directory that goes with it.
#[derive(Debug)]
pub struct AgentProcess {
    process: Process,
    dir: tempfile::TempDir,
}

impl AgentProcess {
    /// Starts an agent that writes all it gets to one file.
    pub fn start(log: &Path, in_place: bool) -> Result<AgentProcess> {
        let dir = directory();
        let how = if in_place { "in-place" } else { "anew" };
        let words: [&str; 3] = [&dir.path().to_string_lossy(), &log.to_string_lossy(), how];
        let process = role::start(AGENT, &words)?;
        Ok(AgentProcess { process, dir })
    }

    /// Address of the listener.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket(self.dir.path())
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Lets it write what it has, and blocks until it ends. Panics where it could not.
    pub fn end(self) {
        self.process.end();
    }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("sock/agent.sock")
}

/// Plays the agent.
pub fn serve(words: &[String]) -> Result<()> {
    let [dir, log, how] = words else {
        return Err(BenchError::new(
            "a directory, a log and how to write it are wanted",
        ));
    };
    let (dir, log) = (Path::new(dir), Path::new(log));
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
    let storage: Arc<dyn Storage> = match how.as_str() {
        "in-place" => Arc::new(InPlace::new(&warm::open_in_place(log)?)?),
        _ => Arc::new(Disk),
    };
    let mut agent = Agent::start_on(config, storage).map_err(|error| BenchError::subject("agent", error))?;
    report("ready");
    let over = end_of_input();
    while over.try_recv().is_err() {
        agent.turn();
    }
    match agent.stop() {
        Stopped::Complete => Ok(()),
        Stopped::LeftForRecovery => Err(BenchError::subject("agent", "could not write all")),
    }
}
