//! The files of an agent's sinks: one for each application or process, as long as it writes to it; shared when there
//! are no more places; and the answer to a process whose file cannot be opened.

mod programs;

use logdrive_agent::Client;
use logdrive_agent::config::limits::SINKS_MAX;
use logdrive_agent::config::{Route, SinkConfig};
use logdrive_testkit::DEADLINE;
use programs::{Program, Service, config, plays};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const MANY: u64 = 60_000;

/// The part that a program of these tests plays.
fn play(dir: &Path) {
    let padding = "x".repeat(100);
    programs::serve(dir, |word, number| match word {
        "quiet" => logdrive::info!("info of round {number}"),
        "many" => (0..MANY).for_each(|count| logdrive::info!("one of many: {count} {padding}")),
        other => panic!("{other}"),
    });
}

/// Agents whose only sink is a file with this path below the directory.
fn config_of(dir: &Path, path: &str) -> logdrive_agent::config::AgentConfig {
    let mut config = config(dir);
    let sink = SinkConfig::file("main", dir.join(path));
    config.routes = vec![Route::to_all(std::slice::from_ref(&sink))];
    config.sinks = vec![sink];
    config
}

fn lines_of(text: &str) -> usize {
    text.matches("info of round").count()
}

/// The logs in a directory by their names, as far as programs wrote something there.
fn logs_in(dir: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.file_name()?.to_str()?.to_owned();
        (lines_of(&text) > 0).then_some((name, text))
    };
    entries
        .filter_map(|entry| read(entry.expect("an entry").path()))
        .collect()
}

/// Files below a directory that this process, which is the agent as well, has open.
fn open_below(dir: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").expect("descriptors");
    let paths = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    let is_log = |path: &PathBuf| path.starts_with(dir) && path.extension().is_some_and(|end| end == "log");
    paths.filter(is_log).count()
}

#[test]
fn processes_for_which_there_is_no_file_any_more_share_one() {
    const NAME: &str = "processes_for_which_there_is_no_file_any_more_share_one";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    let logs = keep.path().join("logs");
    let beside = SinkConfig::file("beside", logs.join("beside-{app}.log"));
    let each = SinkConfig::file("main", logs.join("each-{pid}.log"));
    config.sinks = vec![beside, each];
    // The other sink is for no process here, so that it takes no places.
    config.routes = vec![Route::to_all(&config.sinks[1..])];
    let service = Service::start(config);
    let count = SINKS_MAX + 3;
    // All of them at once.
    let mut programs: Vec<Program> = (0..count).map(|_| Program::start(NAME, keep.path())).collect();
    programs.iter_mut().for_each(|program| {
        program.does("quiet");
    });
    let found = logs_in(&logs);
    let lines: usize = found.values().map(|text| lines_of(text)).sum();
    assert_eq!((found.len(), lines), (SINKS_MAX, count), "{:?}", found.keys());
    let shared = found.get("each-0.log").expect("a file that is shared");
    assert_eq!(lines_of(shared), count - (SINKS_MAX - 1));
    assert_eq!(shared.matches("there are places for 16 sinks").count(), 1);
    programs.into_iter().for_each(Program::end);
    service.stop();
}

#[test]
fn applications_that_come_and_go_in_turn_have_files_of_their_own_however_many() {
    const NAME: &str = "applications_that_come_and_go_in_turn_have_files_of_their_own_however_many";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let logs = keep
        .path()
        .join("logs")
        .canonicalize()
        .unwrap_or(keep.path().join("logs"));
    let service = Service::start(config_of(keep.path(), "logs/{app}.log"));
    let apps = SINKS_MAX + 9;
    // Each comes back when its file was closed for others.
    for round in 1..=2 {
        for number in 0..apps {
            let app = format!("app{number}");
            let mut program = Program::start_as(&app, NAME, keep.path());
            assert!(program.does_and_flushes("quiet"), "{app} in round {round}");
            program.end();
            assert!(open_below(&logs) <= SINKS_MAX, "files are closed");
        }
        let found = logs_in(&logs);
        let counts: Vec<usize> = found.values().map(|text| lines_of(text)).collect();
        assert_eq!(counts, vec![round; apps], "{:?}", found.keys());
    }
    // What sinks have written is counted, also of those that are closed.
    let stats = service.stats();
    let written: u64 = stats.sinks.iter().map(|sink| sink.counts.written_records).sum();
    assert_eq!(written, 2 * apps as u64);
    let names: Vec<String> = logs_in(&logs).into_keys().collect();
    let mut expected: Vec<String> = (0..apps).map(|number| format!("app{number}.log")).collect();
    expected.sort();
    assert_eq!(names, expected, "no file is shared, none lies beside another");
    service.stop();
}

#[test]
fn what_a_killed_agent_leaves_of_closed_and_open_files_is_recovered_into_them() {
    const NAME: &str = "what_a_killed_agent_leaves_of_closed_and_open_files_is_recovered_into_them";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let service = Service::start(config_of(keep.path(), "logs/{app}.log"));
    for number in 0..=SINKS_MAX {
        let mut program = Program::start_as(&format!("app{number}"), NAME, keep.path());
        program.does("quiet");
        program.end();
    }
    let drain = |name: &str| {
        let runs = std::fs::read_dir(keep.path().join("run")).expect("a directory");
        let mut dirs = runs.filter_map(|entry| Some(entry.ok()?.path().join(name)));
        dirs.find(|path| path.exists()).expect("the agent's own session")
    };
    let session = drain("drain");
    let view =
        logdrive_ring::SessionReader::open(session.parent().expect("its directory")).expect("a session");
    let text = String::from_utf8(view.buffers().expect("buffers").config()).expect("text");
    let sinks = logdrive_drain::sinks_from_text(&text);
    let files: Vec<PathBuf> = sinks
        .into_iter()
        .filter_map(|sink| Some(sink.file?.path))
        .collect();
    // The last one has the place of the one that was closed for it, and the text says so.
    assert!(files.len() < SINKS_MAX, "{files:?}");
    let last = format!("app{SINKS_MAX}.log");
    assert!(files.iter().any(|path| path.ends_with(&last)), "{files:?}");
    assert!(!files.iter().any(|path| path.ends_with("app0.log")), "{files:?}");
    // Each place has 8 MiB at most; those that are not open have none.
    let bytes = std::fs::metadata(&session).expect("it is there").blocks() * 512;
    assert!(bytes < (SINKS_MAX as u64) * (8 << 20), "{bytes}");
    service.stop();
}

#[test]
fn a_process_whose_file_cannot_be_opened_is_told_so_and_loses_what_is_counted() {
    const NAME: &str = "a_process_whose_file_cannot_be_opened_is_told_so_and_loses_what_is_counted";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config_of(keep.path(), "logs/{app}/x.log");
    // Half of what comes fits into the buffers.
    config.sinks[0].options.buffers = Some(4);
    let service = Service::start(config);
    // Where the directory should be is something else.
    let blocked = keep.path().join("logs/program");
    std::fs::create_dir_all(keep.path().join("logs")).expect("a directory");
    std::fs::write(&blocked, "in the way").expect("a file");
    let mut program = Program::start(NAME, keep.path());
    assert!(!program.does_and_flushes("many"), "nothing is written");
    let trouble = service.with(|agent| agent.take_problem()).expect("it is told");
    assert!(
        trouble.contains("logs/program") && trouble.contains("cannot be written so far"),
        "{trouble}"
    );
    let mut client = Client::connect(&keep.path().join("sock/agent.sock"), DEADLINE).expect("it listens");
    let stats = client.stats().expect("an answer");
    assert!(
        stats.contains("it cannot be written now, since this: ") && stats.contains("logs/program"),
        "{stats}"
    );
    // Another one has nothing to do with it.
    let mut other = Program::start_as("other", NAME, keep.path());
    assert!(other.does_and_flushes("quiet"));
    other.end();
    // As soon as it can be opened, it has all that was not dropped, and says how much was.
    std::fs::remove_file(&blocked).expect("removed");
    assert!(program.does_and_flushes("quiet"), "now it can be written");
    // What came while the buffers were full may be dropped, what comes now is not.
    assert!(program.does_and_flushes("quiet"), "it can be written");
    program.end();
    let stats = service.stats();
    let dropped: u64 = stats.sinks.iter().map(|sink| sink.counts.dropped[0]).sum();
    service.stop();
    let text = std::fs::read_to_string(blocked.join("x.log")).expect("a log");
    let written = text.matches("one of many: ").count() as u64;
    assert!(written > 0 && dropped > 0, "{written} written, {dropped} dropped");
    assert!(text.contains("info of round 2"), "the last one is written");
    let all = written + lines_of(&text) as u64 + dropped;
    assert_eq!(all, MANY + 2, "each is written or counted");
    let told = text.lines().filter_map(|line| {
        let (before, _) = line.split_once(" records dropped: the sink ")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    assert_eq!(told.sum::<u64>(), dropped, "the log tells all of them");
}
