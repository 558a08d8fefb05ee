//! Processes beside the programs: an agent that drains their sessions, and a slow reader of what they write. Each ends when
//! its standard input does.

use crate::halt::{Halt, fail};
use logdrive::{File, IntoSink, Stopped};
use logdrive_agent::config::{AgentConfig, Places, Route, SinkConfig};
use logdrive_agent::{Agent, KeeperCommand, StoreOptions};
use logdrive_testkit::{end_of_input, report};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Socket of the agent of a directory.
pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join("sock/agent.sock")
}

/// Drains sessions to the log of the row, until the input ends.
pub(crate) fn serve_agent(dir: &Path) -> Result<(), Halt> {
    let places = Places {
        socket: socket(dir),
        run_dir: dir.join("run"),
        log_dir: dir.join("logs"),
    };
    let mut sink = SinkConfig::file("main", dir.join("logs/faults.log"));
    sink.options.target = File::new(dir.join("logs/faults.log")).into_sink().target;
    let config = AgentConfig {
        routes: vec![Route::to_all(std::slice::from_ref(&sink))],
        sinks: vec![sink],
        ..AgentConfig::at(&places)
    };
    let mut agent = Agent::start(config)?;
    let keeper = KeeperCommand::new(std::env::current_exe()?, ["--play", "keeper"]);
    agent.store_descriptors(StoreOptions::Keeper(keeper));
    report("ready");
    let over = end_of_input();
    while over.try_recv().is_err() {
        agent.turn();
    }
    match agent.stop() {
        Stopped::Complete => Ok(()),
        Stopped::LeftForRecovery => Err(fail("the agent could not write all")),
    }
}

/// Between two reads.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of one read.
const READ_BYTES: usize = 32 << 10;

/// Copies the input to a file, slower than it comes.
pub(crate) fn read_slowly(into: &Path) -> Result<(), Halt> {
    let mut file = std::fs::File::create(into)?;
    let mut bytes = vec![0; READ_BYTES];
    loop {
        std::thread::sleep(PAUSE);
        let length = std::io::stdin().read(&mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        file.write_all(bytes.get(..length).unwrap_or_default())?;
    }
}
