//! A process that rewrites its session while the agent drains it: headers, lengths, positions, callsites, rules. The
//! agent neither crashes nor hangs, says which rings it does not read any more, and serves others meanwhile.
//!
//! Agent, hostile and honest process are processes of this program. `--mutations N` and `--seed S` say how long and
//! which; `cargo xtask hostile` runs it with an address sanitizer, so that a read or write beyond an allocation ends
//! the agent.
#![forbid(unsafe_code)]

mod hostile;
mod roles;

use hostile::Done;
use logdrive_agent::Client;
use logdrive_testkit::Process;
use roles::{log_of, socket};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const NAME: &str = "a_process_that_rewrites_its_session_harms_nobody";

/// Without `--mutations`: some seconds.
const MUTATIONS: u64 = 300_000;
/// The agent answers a question within this time, whatever the hostile process does.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Most memory of the agent's own after all mutations, in MiB; with the shadow memory of a sanitizer.
const AGENT_MIB_MAX: u64 = 2048;
/// Descriptors that the agent may have: sessions that it still waits for among them.
const AGENT_DESCRIPTORS_MAX: usize = 4096;

struct Options {
    mutations: u64,
    seed: u64,
}

enum Called {
    Run(Options),
    List,
    Nothing,
}

/// Reads what the test runner and people say; a filter that does not match leaves nothing to do.
fn called() -> Called {
    let (mut mutations, mut seed) = (MUTATIONS, 0x5eed);
    let mut filters = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|text| text.replace('_', "").parse().ok());
        match word.as_str() {
            "--mutations" => mutations = number().expect("--mutations wants a number"),
            "--seed" => seed = number().expect("--seed wants a number"),
            "--list" => return Called::List,
            "--ignored" => return Called::Nothing,
            "--skip" => {
                if words.next().is_some_and(|part| NAME.contains(&part)) {
                    return Called::Nothing;
                }
            }
            option if option.starts_with('-') => {}
            filter => filters.push(filter.to_owned()),
        }
    }
    if filters.is_empty() || filters.iter().any(|filter| NAME.contains(filter)) {
        Called::Run(Options { mutations, seed })
    } else {
        Called::Nothing
    }
}

fn main() -> ExitCode {
    if roles::plays() {
        return ExitCode::SUCCESS;
    }
    match called() {
        Called::Run(options) => run(&options),
        Called::List => println!("{NAME}: test"),
        Called::Nothing => {}
    }
    ExitCode::SUCCESS
}

/// Observations from outside of the agent.
#[derive(Default)]
struct Seen {
    done: Done,
    hostiles: u64,
    slowest_answer: Duration,
    most_mib: u64,
    most_descriptors: usize,
}

fn run(options: &Options) {
    println!("seed: --seed {}", options.seed);
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path();
    let begin = Instant::now();
    let mut agent = roles::start("agent", dir, 0, 0);
    agent.expect("ready");
    let mut honest = roles::start("honest", dir, 0, 0);
    honest.expect("ready");
    let seen = attack(options, dir, &mut agent);
    let told = roles::end(honest);
    roles::end(agent);
    let took = begin.elapsed();
    let words: Vec<u64> = told.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [logged, slowest_ms] = words.as_slice() else {
        panic!("the honest process says {told:?}")
    };
    let damaged = check_logs(dir, *logged);
    println!(
        "seed {:#x}: {} mutations, behind which the agent looked {} times ({} more that it did not look at), in {} sessions \
         of {} processes, in {took:.1?}: {damaged} rings damaged and reported in what is left of the log; the agent \
         answered within {:.0?}, had {} MiB and {} descriptors at most; an honest process logged {logged} records, all of \
         them written once, flushes within {slowest_ms} ms",
        options.seed,
        seen.done.seen,
        seen.done.looks,
        seen.done.unseen,
        seen.done.sessions,
        seen.hostiles,
        seen.slowest_answer,
        seen.most_mib,
        seen.most_descriptors,
    );
    assert!(damaged > 0, "nothing was found to be damaged");
}

/// Hostile processes, one after the other, until there were so many mutations.
fn attack(options: &Options, dir: &Path, agent: &mut Process) -> Seen {
    let mut seen = Seen::default();
    let mut client = Client::connect(&socket(dir), TIMEOUT).expect("the agent listens");
    while seen.done.seen < options.mutations {
        let left = (options.mutations - seen.done.seen).min(hostile::MUTATIONS_MAX);
        let mut hostile = roles::start("hostile", dir, options.seed ^ seen.hostiles, left);
        seen.hostiles += 1;
        while hostile.try_wait().is_none() {
            let asked = Instant::now();
            client
                .stats()
                .unwrap_or_else(|error| panic!("the agent does not answer: {error}"));
            seen.slowest_answer = seen.slowest_answer.max(asked.elapsed());
            assert!(agent.try_wait().is_none(), "the agent has ended");
            let (mib, descriptors) = roles::weight(agent);
            seen.most_mib = seen.most_mib.max(mib);
            seen.most_descriptors = seen.most_descriptors.max(descriptors);
            assert!(mib < AGENT_MIB_MAX, "the agent takes {mib} MiB");
            assert!(
                descriptors < AGENT_DESCRIPTORS_MAX,
                "the agent has {descriptors} descriptors"
            );
            roles::wait_a_little();
        }
        let told = roles::end(hostile);
        let done = Done::from_text(&told).unwrap_or_else(|| panic!("the hostile process says {told:?}"));
        seen.done.add(&done);
        println!("{} mutations, {} looks", seen.done.seen, seen.done.looks);
    }
    seen
}

/// All numbers of the honest process are in its log once; how many rings are said to be damaged in that of the hostile
/// one, which has been rotated away in part.
fn check_logs(dir: &Path, logged: u64) -> u64 {
    let text = std::fs::read_to_string(log_of(dir, "honest")).expect("a log");
    // Of a long run the first files were rotated away, and removed.
    let mut files = std::fs::read_dir(dir.join("logs")).expect("a directory");
    let is_rotated = files.any(|file| {
        let name = file.expect("an entry").file_name().to_string_lossy().into_owned();
        name.starts_with("honest.") && name != "honest.log"
    });
    let mut numbers = text.lines().filter_map(|line| line.split_once("counted number="));
    let first = numbers.next().and_then(|(_, number)| number.parse().ok());
    let mut expected: u64 = first.filter(|_| is_rotated).unwrap_or(0);
    for line in text.lines() {
        let Some((_, number)) = line.split_once("counted number=") else {
            continue;
        };
        assert_eq!(
            number,
            expected.to_string(),
            "a line is lost, torn or there twice"
        );
        expected += 1;
    }
    assert_eq!(expected, logged, "records of the honest process");
    let mut damaged = 0;
    for entry in std::fs::read_dir(dir.join("logs")).expect("a directory") {
        let path = entry.expect("an entry").path();
        let is_hostile = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"hostile"));
        if is_hostile {
            let bytes = std::fs::read(&path).expect("a log");
            let text = String::from_utf8(bytes).expect("a log is text, whatever was logged");
            damaged += text
                .lines()
                .filter(|line| line.contains("is damaged and not read any more"))
                .count() as u64;
        }
    }
    damaged
}
