//! A program with an agent that closes all descriptors after the start of its logger, and opens files and sockets of its own
//! under the same numbers: it goes on with the agent, and nothing of its own is touched.

mod processes;

use logdrive_ring::close_inherited;
use logdrive_testkit::{report, wait_until};
use processes::{config, init, part, play_agent, start};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const NAME: &str = "a_program_that_closed_all_descriptors_goes_on_with_its_agent";

/// Files and pairs of sockets of the program, more than the logger had descriptors.
const OWN: usize = 64;
/// Lines before the descriptors are closed, and behind it.
const LINES: usize = 500;

fn own_file(dir: &Path, number: usize) -> File {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(true);
    let mut file = options.open(dir.join(format!("own-{number}"))).expect("a file");
    writeln!(file, "file {number} of the program").expect("written");
    file
}

fn check_own(files: Vec<File>, sockets: Vec<(UnixStream, UnixStream)>) {
    for (number, mut file) in files.into_iter().enumerate() {
        let mut text = String::new();
        file.rewind().expect("it is open");
        file.read_to_string(&mut text).expect("it is open");
        assert_eq!(text, format!("file {number} of the program\n"));
    }
    for (one, other) in &sockets {
        for mut end in [one, other] {
            end.set_nonblocking(true).expect("it is open");
            let got = end.read(&mut [0; 64]).expect_err("nobody writes there");
            assert_eq!(got.kind(), ErrorKind::WouldBlock);
        }
    }
}

fn play_program(dir: &Path) {
    let guard = init("program", dir);
    assert!(logdrive::session_path().is_none(), "an agent has the session");
    (0..LINES).for_each(|number| logdrive::info!("line {}", number));
    assert!(logdrive::flush());
    close_inherited();
    // Sockets at the lower numbers, where those of the logger were, and files at the higher ones.
    let pair = || UnixStream::pair().expect("sockets");
    let sockets: Vec<_> = (0..OWN).map(|_| pair()).collect();
    let files: Vec<_> = (0..OWN).map(|number| own_file(dir, number)).collect();
    (LINES..2 * LINES).for_each(|number| logdrive::info!("line {}", number));
    wait_until("the agent answers again", logdrive::flush);
    let more = || logdrive::info!("of a new thread");
    (0..8).for_each(|_| std::thread::spawn(more).join().expect("no panic"));
    let (stopped, stats) = guard.stop().expect("it ran");
    assert_eq!(stopped, logdrive::Stopped::Complete);
    assert_eq!(
        (stats.committed, stats.dropped_calls()),
        (2 * LINES as u64 + 8, 0),
        "{stats:?}"
    );
    check_own(files, sockets);
    report("all is its own");
}

#[test]
fn a_program_that_closed_all_descriptors_goes_on_with_its_agent() {
    if let Some((part, dir)) = part() {
        return match part.as_str() {
            "agent" => play_agent(config(&dir)),
            _ => play_program(&dir),
        };
    }
    let keep = tempfile::tempdir().expect("a directory");
    let dir = keep.path();
    let mut agent = start(NAME, "agent", dir);
    agent.expect("ready");
    let mut program = start(NAME, "program", dir);
    program.expect("all is its own");
    program.end();
    agent.end();
    let text = std::fs::read_to_string(dir.join("logs/program.log")).expect("a log");
    let lines = text
        .lines()
        .filter_map(|line| line.split_once(" line ")?.1.parse::<usize>().ok());
    assert!(lines.eq(0..2 * LINES), "each line once, in order:\n{text}");
    assert_eq!(text.matches("of a new thread").count(), 8);
    assert!(!dir.join("own.log").exists(), "the agent had the session");
}
