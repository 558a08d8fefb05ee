//! The processes of the test: an agent, an honest program, a hostile one.

use logdrive_agent::Agent;
use logdrive_agent::config::{AgentConfig, Places};
use logdrive_drain::Target;
use logdrive_drain::file::Compress;
use logdrive_testkit::{Process, end_of_input, report};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Names the part of a child, its directory, a seed and a number.
const CHILD: &str = "LOGDRIVE_TEST_CHILD";
/// Between two looks at the agent.
const LOOK: Duration = Duration::from_millis(50);

/// Starts a process of this program in a role.
pub(crate) fn start(role: &str, dir: &Path, seed: u64, number: u64) -> Process {
    Process::spawn(
        Command::new(std::env::current_exe().expect("a program has a path"))
            .env(CHILD, format!("{role} {seed} {number} {}", dir.display()))
            .env_remove("LOGDRIVE_AGENT"),
    )
}

/// Pauses between two looks.
pub(crate) fn wait_a_little() {
    // tidy: allow(sleep): the pause of a look that has a deadline
    std::thread::sleep(LOOK);
}

/// Returns the memory of a process in MiB that is its own, and the number of its descriptors.
pub(crate) fn weight(process: &Process) -> (u64, usize) {
    let proc = PathBuf::from(format!("/proc/{}", process.pid()));
    let text = std::fs::read_to_string(proc.join("status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok());
    let descriptors = std::fs::read_dir(proc.join("fd")).map_or(0, Iterator::count);
    (kib.unwrap_or(0) / 1024, descriptors)
}

/// Ends a process in order, and returns what it says at its end.
#[track_caller]
pub(crate) fn end(mut process: Process) -> String {
    process.close_input();
    let report = process.expect("done");
    process.end();
    report
}

/// Plays a part, if this process is a child.
pub(crate) fn plays() -> bool {
    let Ok(text) = std::env::var(CHILD) else {
        return false;
    };
    let words: Vec<&str> = text.splitn(4, ' ').collect();
    let [part, seed, number, dir] = words.as_slice() else {
        panic!("{text:?} is no part")
    };
    let dir = Path::new(dir);
    let told = match *part {
        "agent" => play_agent(dir),
        "honest" => play_honest(dir),
        _ => {
            let (seed, mutations) = (seed.parse().expect("a seed"), number.parse().expect("a number"));
            crate::hostile::play(&socket(dir), seed, mutations)
        }
    };
    report(&format!("done {told}"));
    true
}

pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join("sock/agent.sock")
}

pub(crate) fn log_of(dir: &Path, app: &str) -> PathBuf {
    dir.join("logs").join(app).with_extension("log")
}

fn play_agent(dir: &Path) -> String {
    let mut config = AgentConfig::at(&Places {
        socket: socket(dir),
        run_dir: dir.join("run"),
        log_dir: dir.join("logs"),
    });
    for sink in &mut config.sinks {
        if let Target::File(file) = &mut sink.options.target {
            // What a hostile process logs is of no use to anybody.
            file.keep_files = Some(2);
            file.compress = Compress::None;
        }
    }
    let mut agent = Agent::start(config).expect("an agent");
    report("ready");
    let over = end_of_input();
    while over.try_recv().is_err() {
        agent.turn();
    }
    format!("{:?}", agent.stop())
}

/// Logs and flushes until its input ends; how many records, and the longest flush in milliseconds.
fn play_honest(dir: &Path) -> String {
    let guard = logdrive::builder("honest")
        .use_env(false)
        .agent(socket(dir))
        .agent_timeout(std::time::Duration::from_secs(60))
        .full(logdrive::Full::Block)
        .run_dir(dir.join("own"))
        .file(logdrive::File::new(dir.join("own.log")))
        .init()
        .expect("it starts");
    assert!(logdrive::session_path().is_none(), "an agent has the session");
    report("ready");
    let over = end_of_input();
    let (mut number, mut slowest) = (0u64, Duration::ZERO);
    while over.try_recv().is_err() {
        for _ in 0..20 {
            logdrive::info!(number, "counted");
            number += 1;
        }
        let asked = Instant::now();
        assert!(logdrive::flush(), "a flush fails");
        slowest = slowest.max(asked.elapsed());
        // tidy: allow(sleep): the pace of the load, which no assertion hangs on
        std::thread::sleep(Duration::from_millis(2));
    }
    let stopped = guard.stop().expect("it ran").0;
    assert_eq!(stopped, logdrive::Stopped::Complete);
    format!("{number} {}", slowest.as_millis())
}
