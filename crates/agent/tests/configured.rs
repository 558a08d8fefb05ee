//! Effects of a configuration, seen in the logs of an agent and of programs that log through it: levels, flight
//! recorders, limits of records and of disk, metrics, directories; and that a reload changes all of it, or nothing.

mod programs;

use logdrive_agent::config::{
    AgentConfig, AppPattern, LevelRule, Metrics, ProcessSelector, Quota, Recorder, Route, SinkConfig,
    UserLimit,
};
use logdrive_drain::Target;
use logdrive_wire::Level;
use programs::{Program, Service, config, log_of, plays};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// The part that a program of these tests plays: each word on its input is something to do, and is answered.
fn play(dir: &std::path::Path) {
    programs::serve(dir, |word, number| match word {
        "round" => {
            logdrive::trace!("trace of round {number}");
            logdrive::debug!("debug of round {number}");
            logdrive::info!("info of round {number}");
            logdrive::error!("error of round {number}");
        }
        "quiet" => {
            logdrive::debug!("debug of round {number}");
            logdrive::info!("info of round {number}");
        }
        "many" => (0..10_000).for_each(|count| logdrive::info!("one of many: {number}/{count}")),
        "warn" => logdrive::warn!("warning of round {number}"),
        "abort" => std::process::abort(),
        other => panic!("{other}"),
    });
}

fn level(directives: &str) -> LevelRule {
    LevelRule::new(ProcessSelector::anyone(), directives).expect("directives")
}

#[test]
fn processes_begin_with_the_levels_of_the_configuration_and_a_reload_changes_them() {
    const NAME: &str = "processes_begin_with_the_levels_of_the_configuration_and_a_reload_changes_them";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    config.levels = vec![level("info,configured=debug,configured=trace")];
    let service = Service::start(config.clone());
    let mut program = Program::start(NAME, keep.path());
    program.does("round");
    let text = log_of(keep.path());
    assert!(text.contains("trace of round 0"), "{text}");
    config.levels = vec![level("error")];
    service.reload(config.clone()).expect("a good configuration");
    service.until("the levels have changed", || {
        let round = program.does("quiet");
        !log_of(keep.path()).contains(&format!("info of round {round}"))
    });
    let round = program.does("round");
    let text = log_of(keep.path());
    assert!(text.contains(&format!("error of round {round}")), "{text}");
    // Without a rule the program's own filter holds again, which is debug.
    config.levels.clear();
    service.reload(config).expect("a good configuration");
    service.until("the levels are the program's", || {
        let round = program.does("quiet");
        log_of(keep.path()).contains(&format!("debug of round {round}"))
    });
    let round = program.does("round");
    assert!(!log_of(keep.path()).contains(&format!("trace of round {round}")));
    program.end();
    service.stop();
}

#[test]
fn what_somebody_has_said_about_levels_stays_through_a_reload() {
    const NAME: &str = "what_somebody_has_said_about_levels_stays_through_a_reload";
    if plays(play) {
        return;
    }
    use logdrive_drain::control::{self, Action, Selector};
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    config.levels = vec![level("error")];
    let service = Service::start(config.clone());
    let mut program = Program::start(NAME, keep.path());
    program.does("round");
    let session = service.session();
    control::change(&session, |rules, now| {
        control::put_rule(
            rules,
            Action::Level(Some(Level::Info.code())),
            Selector::All,
            0,
            now,
        );
    })
    .expect("changed");
    config.levels = vec![level("error,elsewhere=trace")];
    service.reload(config).expect("a good configuration");
    service.until("the other rule is there", || {
        let (_, rules) = session.rules().and_then(|rules| rules.read()).expect("rules");
        rules
            .iter()
            .any(|rule| rule.selector == Selector::Module("elsewhere".into()))
    });
    let round = program.does("quiet");
    let text = log_of(keep.path());
    assert!(text.contains(&format!("info of round {round}")), "{text}");
    program.end();
    service.stop();
}

/// Debug records are on, and the sink takes info and above.
fn with_recorder(config: &mut AgentConfig) -> &mut Recorder {
    config.sinks[0].options.min_level = Level::Info;
    config.levels = vec![level("debug")];
    config.recorders = vec![Recorder {
        level: Level::Debug,
        keep_bytes: 1 << 20,
        ..Recorder::new()
    }];
    &mut config.recorders[0]
}

#[test]
fn a_recorder_writes_what_it_kept_when_an_error_comes_and_not_before() {
    const NAME: &str = "a_recorder_writes_what_it_kept_when_an_error_comes_and_not_before";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    with_recorder(&mut config);
    let service = Service::start(config);
    let mut program = Program::start(NAME, keep.path());
    let quiet = program.does("quiet");
    let text = log_of(keep.path());
    assert!(text.contains(&format!("info of round {quiet}")), "{text}");
    assert!(!text.contains("debug of round"), "{text}");
    program.does("round");
    service.until("the dump is written", || {
        log_of(keep.path()).contains("flight recorder: end")
    });
    let text = log_of(keep.path());
    assert!(text.contains(&format!("debug of round {quiet}")), "{text}");
    assert!(!text.contains("trace of round"), "{text}");
    program.end();
    service.stop();
}

#[test]
fn a_recorder_writes_what_it_kept_of_a_process_that_crashes_if_it_is_to() {
    const NAME: &str = "a_recorder_writes_what_it_kept_of_a_process_that_crashes_if_it_is_to";
    if plays(play) {
        return;
    }
    for on_crash in [true, false] {
        let keep = tempfile::tempdir().expect("a directory");
        let mut config = config(keep.path());
        let recorder = with_recorder(&mut config);
        recorder.on_crash = on_crash;
        recorder.on_level = None;
        let service = Service::start(config);
        let mut program = Program::start(NAME, keep.path());
        let round = program.does("quiet");
        program.says("abort");
        program.has_ended();
        service.until("its end is told", || log_of(keep.path()).contains("(SIGABRT)"));
        let text = log_of(keep.path());
        assert_eq!(
            text.contains(&format!("debug of round {round}")),
            on_crash,
            "{text}"
        );
        service.stop();
    }
}

#[test]
fn a_reload_begins_to_keep_and_ends_it() {
    const NAME: &str = "a_reload_begins_to_keep_and_ends_it";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut without = config(keep.path());
    with_recorder(&mut without);
    without.recorders.clear();
    let service = Service::start(without.clone());
    let mut program = Program::start(NAME, keep.path());
    let lost = program.does("quiet");
    let mut with = without.clone();
    with_recorder(&mut with);
    service.reload(with).expect("a good configuration");
    let kept = program.does("quiet");
    program.does("round");
    service.until("the dump is written", || {
        log_of(keep.path()).contains("flight recorder: end")
    });
    let text = log_of(keep.path());
    assert!(text.contains(&format!("debug of round {kept}")), "{text}");
    assert!(!text.contains(&format!("debug of round {lost}")), "{text}");
    service.reload(without).expect("a good configuration");
    let round = program.does("round");
    program.end();
    service.stop();
    assert!(!log_of(keep.path()).contains(&format!("debug of round {round}")));
}

/// Records dropped by the agent's sinks because of a quota: by the second, and by the day.
fn rationed(service: &Service) -> (u64, u64) {
    let stats = service.stats();
    let dropped = stats.sinks.iter().map(|sink| sink.counts.dropped);
    dropped.fold((0, 0), |(fast, much), counts| {
        (fast + counts[6], much + counts[7])
    })
}

#[test]
fn a_process_gets_so_many_records_a_second_and_all_others_are_counted_and_told() {
    const NAME: &str = "a_process_gets_so_many_records_a_second_and_all_others_are_counted_and_told";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    config.limits.process.records_per_second = Some(80);
    let service = Service::start(config.clone());
    let mut program = Program::start(NAME, keep.path());
    program.does("many");
    let (dropped, _) = rationed(&service);
    let text = log_of(keep.path());
    let written = text.matches("one of many").count() as u64;
    assert!(written > 0 && dropped > 0);
    assert_eq!(written + dropped, 10_000, "each is written or counted");
    // The next agent's word: without the limit all are written again.
    config.limits.process = Quota {
        records_per_second: None,
        ..config.limits.process
    };
    service.reload(config).expect("a good configuration");
    let round = program.does("many");
    let text = log_of(keep.path());
    assert_eq!(text.matches(&format!("one of many: {round}/")).count(), 10_000);
    program.end();
    service.stop();
    let text = log_of(keep.path());
    let told = text
        .lines()
        .filter(|line| line.contains("more than 80 records in a second"))
        .filter_map(|line| {
            line.split_once(" records dropped")?
                .0
                .rsplit(' ')
                .next()?
                .parse::<u64>()
                .ok()
        });
    assert_eq!(told.sum::<u64>(), dropped, "the log tells all of them");
}

#[test]
fn a_user_gets_so_many_bytes_a_day_also_from_the_next_agent() {
    const NAME: &str = "a_user_gets_so_many_bytes_a_day_also_from_the_next_agent";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    config.limits.users = vec![UserLimit {
        user: None,
        quota: Quota {
            disk_bytes_per_day: Some(64 << 10),
            ..Quota::default()
        },
    }];
    let service = Service::start(config.clone());
    let mut program = Program::start(NAME, keep.path());
    program.does("many");
    let (_, dropped) = rationed(&service);
    let text = log_of(keep.path());
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("one of many")).collect();
    let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
    assert!(
        (50_000..=57_500).contains(&bytes),
        "seven eighths of 64 KiB, not {bytes}"
    );
    assert_eq!(lines.len() as u64 + dropped, 10_000);
    // The last eighth is for warnings.
    program.does("warn");
    assert!(log_of(keep.path()).contains("warning of round"));
    program.end();
    service.stop();
    let service = Service::start(config);
    let mut program = Program::start(NAME, keep.path());
    let before = log_of(keep.path()).matches("one of many").count();
    program.does("many");
    assert_eq!(log_of(keep.path()).matches("one of many").count(), before);
    program.end();
    service.stop();
}

fn get(mut stream: impl Read + Write, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn metrics_are_served_where_the_configuration_says_and_elsewhere_after_a_reload() {
    const NAME: &str = "metrics_are_served_where_the_configuration_says_and_elsewhere_after_a_reload";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    let socket = keep.path().join("sock/metrics.sock");
    config.metrics = Metrics::Unix(socket.clone());
    let service = Service::start(config.clone());
    let mut program = Program::start(NAME, keep.path());
    let connect = || UnixStream::connect(&socket).expect("it listens");
    // One who says nothing holds up the others for his time only.
    let silent = connect();
    let pid = program.pid();
    service.until("the session is there", || {
        get(connect(), "/metrics").contains(&format!("logdrive_up{{app=\"program\",pid=\"{pid}\"}} 1\n"))
    });
    drop(silent);
    program.does("quiet");
    let committed = format!("logdrive_records_committed_total{{app=\"program\",pid=\"{pid}\"}} 2\n");
    service.until("its records are counted", || {
        get(connect(), "/metrics").contains(&committed)
    });
    let text = get(connect(), "/metrics");
    for expected in [
        "HTTP/1.1 200 OK\r\n",
        "\nlogdrive_agent_sessions 1\n",
        "name=\"main\"",
        "/logs/program.log\"} 1\n",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(get(connect(), "/etc/passwd").starts_with("HTTP/1.1 404"));
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("its number");
    config.metrics = Metrics::Tcp(address);
    assert!(service.reload(config.clone()).is_err(), "the port is taken");
    assert!(
        get(connect(), "/metrics").contains("logdrive_up"),
        "nothing has changed"
    );
    drop(free);
    service.reload(config.clone()).expect("the port is free");
    assert!(!socket.exists());
    let stream = TcpStream::connect(address).expect("it listens");
    assert!(get(stream, "/metrics").contains("logdrive_agent_joined_total 1\n"));
    config.metrics = Metrics::Off;
    service.reload(config).expect("a good configuration");
    assert!(TcpStream::connect(address).is_err());
    program.end();
    service.stop();
}

#[test]
fn a_reload_that_cannot_be_changes_nothing() {
    const NAME: &str = "a_reload_that_cannot_be_changes_nothing";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let config = config(keep.path());
    let service = Service::start(config.clone());
    let mut program = Program::start(NAME, keep.path());
    program.does("quiet");
    let mut wrong = config.clone();
    wrong.levels = vec![level("off")];
    wrong.limits.process.records_per_second = Some(1);
    let blocked = keep.path().join("a file");
    std::fs::write(&blocked, "").expect("written");
    wrong
        .sinks
        .push(SinkConfig::file("good", keep.path().join("logs/good.log")));
    wrong.sinks.push(SinkConfig::file("bad", blocked.join("x.log")));
    wrong.routes = vec![Route::to_all(&wrong.sinks[1..])];
    let error = service.reload(wrong.clone()).expect_err("no directory");
    assert!(error.contains("a file"), "{error}");
    let round = program.does("many");
    assert_eq!(
        log_of(keep.path())
            .matches(&format!("one of many: {round}/"))
            .count(),
        10_000
    );
    // The sink that could be opened is no second writer when the rest has been mended.
    wrong.sinks.pop();
    wrong.levels.clear();
    wrong.limits = config.limits.clone();
    wrong.routes = vec![Route::to_all(&wrong.sinks[1..])];
    service.reload(wrong).expect("a good configuration");
    let round = program.does("many");
    let good = std::fs::read_to_string(keep.path().join("logs/good.log")).expect("a log");
    assert_eq!(good.matches(&format!("one of many: {round}/")).count(), 10_000);
    program.end();
    service.stop();
    let logs = std::fs::read_dir(keep.path().join("logs")).expect("a directory");
    let mut names: Vec<_> = logs.map(|file| file.expect("a name").file_name()).collect();
    names.sort();
    assert_eq!(names, [".logdrive-agent.lock", "good.log", "program.log"]);
}

#[test]
fn a_reload_changes_the_level_and_layout_of_an_open_sink() {
    const NAME: &str = "a_reload_changes_the_level_and_layout_of_an_open_sink";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    let service = Service::start(config.clone());
    let mut program = Program::start(NAME, keep.path());
    program.does("quiet");
    config.sinks[0].options.min_level = Level::Error;
    config.sinks[0].options.layout = logdrive_drain::layout::Style::Json.into();
    config.sinks[0].options.buffers = Some(2);
    let later = service.reload(config).expect("a good configuration");
    assert_eq!(later, ["sink \"main\" has another layout, min_level, buffers"]);
    let round = program.does("round");
    let text = log_of(keep.path());
    assert!(!text.contains(&format!("info of round {round}")), "{text}");
    let error = text
        .lines()
        .find(|line| line.contains(&format!("error of round {round}")));
    let error: serde_json::Value = serde_json::from_str(error.expect("a line")).expect("JSON");
    assert_eq!(error["level"], "ERROR");
    program.end();
    service.stop();
}

#[test]
fn two_agents_do_not_share_a_directory_of_log_files() {
    let keep = tempfile::tempdir().expect("a directory");
    let service = Service::start(config(keep.path()));
    let mut other = config(&keep.path().join("other"));
    let fixed = SinkConfig::file("fixed", keep.path().join("logs/fixed.log"));
    for sink in [config(keep.path()).sinks[0].clone(), fixed] {
        other.routes = vec![Route::to_all(std::slice::from_ref(&sink))];
        other.sinks = vec![sink];
        let error = logdrive_agent::Agent::start(other.clone())
            .expect_err("it is taken")
            .to_string();
        let expected = format!("belongs to another agent, process {}", std::process::id());
        assert!(error.contains("/logs") && error.contains(&expected), "{error}");
    }
    service.stop();
    logdrive_agent::Agent::start(other).expect("it is free").stop();
}

#[test]
fn a_full_disk_under_one_sink_is_no_matter_to_the_other() {
    const NAME: &str = "a_full_disk_under_one_sink_is_no_matter_to_the_other";
    if plays(play) {
        return;
    }
    // Three megabytes of lines wait for the disk, as far as there are buffers for them.
    for buffers in [2, 16] {
        beside_a_full_disk(NAME, buffers);
    }
}

fn beside_a_full_disk(test: &str, buffers: usize) {
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    let mut full = SinkConfig::file("full", "/dev/full");
    full.options.buffers = Some(buffers);
    if let Target::File(file) = &mut full.options.target {
        file.trust_directory = true;
        (file.rotate_bytes, file.keep_files) = (None, None);
        file.compress = logdrive_drain::file::Compress::None;
    }
    config.sinks.push(full);
    config.routes = vec![Route::to_all(&config.sinks)];
    let service = Service::start(config);
    let mut program = Program::start(test, keep.path());
    for _ in 0..3 {
        program.says("many");
    }
    service.until("all lines are in the good log", || {
        log_of(keep.path()).matches("one of many").count() == 30_000
    });
    let overflow: u64 = service
        .stats()
        .sinks
        .iter()
        .map(|sink| sink.counts.dropped[0])
        .sum();
    assert_eq!(overflow > 0, buffers == 2, "{overflow} with {buffers} buffers");
    service.until("the failure is counted", || {
        service.stats().sinks.iter().any(|sink| sink.counts.errors > 0)
    });
    service.until("the failure is told", || {
        log_of(keep.path()).contains("/dev/full")
    });
    program.kill();
    service.stop();
}

#[test]
fn levels_of_other_applications_are_left_alone() {
    const NAME: &str = "levels_of_other_applications_are_left_alone";
    if plays(play) {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let mut config = config(keep.path());
    let mut rule = level("off");
    rule.processes.app = AppPattern::new("other*");
    config.levels = vec![rule];
    let service = Service::start(config);
    let mut program = Program::start(NAME, keep.path());
    let round = program.does("quiet");
    assert!(log_of(keep.path()).contains(&format!("debug of round {round}")));
    program.end();
    service.stop();
}
