//! Cost of an agent while the programs that it serves have nothing to say.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use logdrive_testkit::Process;

use super::{alone, many};
use crate::harness::{Samples, Scale, runs};
use crate::subjects::agent::AgentProcess;
use crate::{BenchError, Result};

/// Quiet programs.
pub(super) const PROGRAMS: usize = 100;
const FULL_TIME: Duration = Duration::from_secs(10);
const QUICK_TIME: Duration = Duration::from_secs(2);
/// Time after which all that the last joins and lines bring with them is over by then.
const SETTLE: Duration = Duration::from_secs(2);

/// Mappings of memory that belongs to a session, and is its program's as much as the agent's.
const SESSION_MEMORY: &str = "/memfd:";

/// Processor time of all threads of the agent, in percent of the time that passes.
pub(super) fn processor(scale: Scale) -> Result<Samples> {
    with_quiet_programs(|agent| {
        let (begin, before) = (Instant::now(), processor_ns(agent.pid())?);
        std::thread::sleep(scale.pick(FULL_TIME, QUICK_TIME));
        let took_ns = (processor_ns(agent.pid())? - before) as f64;
        Ok(alone(100.0 * took_ns / begin.elapsed().as_nanos() as f64))
    })
}

/// Resident memory of the agent without that of the sessions.
pub(super) fn memory() -> Result<Samples> {
    with_quiet_programs(|agent| {
        let path = PathBuf::from(format!("/proc/{}/smaps", agent.pid()));
        let text = std::fs::read_to_string(&path).map_err(BenchError::io("read", &path))?;
        Ok(alone(own_kib(&text) as f64 / 1024.0))
    })
}

fn with_quiet_programs(measure: impl Fn(&AgentProcess) -> Result<Samples>) -> Result<Samples> {
    let log = runs::scratch_file("idle")?;
    let agent = AgentProcess::start(&log, false)?;
    let socket = agent.socket();
    let programs = (0..PROGRAMS).map(|_| many::quiet(&socket));
    let programs: Vec<Process> = programs.collect::<Result<_>>()?;
    std::thread::sleep(SETTLE);
    let samples = measure(&agent)?;
    programs.into_iter().for_each(Process::end);
    agent.end();
    let lines = crate::lines::count_file(&log, b"is looked at")?.marked;
    std::fs::remove_file(&log).map_err(BenchError::io("remove", &log))?;
    Ok(samples.with("wrong", PROGRAMS.abs_diff(lines as usize) as f64))
}

/// Time that the threads of a process have run.
fn processor_ns(pid: u32) -> Result<u64> {
    let dir = PathBuf::from(format!("/proc/{pid}/task"));
    let threads = std::fs::read_dir(&dir).map_err(BenchError::io("read", &dir))?;
    let of_thread = |path: PathBuf| {
        // A thread that has just ended counts no more.
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        let first = text.split(' ').next().unwrap_or_default();
        first.parse::<u64>().unwrap_or(0)
    };
    Ok(threads.flatten().map(|entry| of_thread(entry.path())).sum())
}

/// Resident KiB of all mappings but those of sessions.
fn own_kib(smaps: &str) -> u64 {
    let (mut sum, mut is_own) = (0, true);
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if first.contains('-') {
            is_own = !line.contains(SESSION_MEMORY);
        } else if let (true, "Rss:") = (is_own, first) {
            let kib = line.split_whitespace().nth(1).unwrap_or_default();
            sum += kib.parse::<u64>().unwrap_or(0);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_sessions_is_left_out() {
        let smaps = "00400000-00500000 r-xp 00000000 08:01 7   /bin/x\nSize: 1024 kB\nRss:                 100 kB\n\
                     7f0000-7f1000 rw-s 00000000 00:01 9   /memfd:logdrive-ring (deleted)\nRss:   64 kB\n\
                     7f2000-7f3000 rw-p 00000000 00:00 0 \nRss:    4 kB\nPss:    4 kB\n";
        assert_eq!(own_kib(smaps), 104);
    }
}
