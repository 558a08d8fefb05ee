//! Levels, mutes and samples that a tool changes in a running program, straight on its session.
#![forbid(unsafe_code)]

use logdrive::{Guard, Layout, MemorySink, SinkOptions, Stats, Target};
use logdrive_drain::control::{Action, Selector, change, put_rule, read_action_directive, read_selector};
use logdrive_ring::{CallsiteTotals, SessionReader};
use logdrive_testkit::wait_until;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A logger of the process, of which there is one at a time.
struct Logger {
    guard: Option<Guard>,
    memory: MemorySink,
    _alone: MutexGuard<'static, ()>,
}

impl Logger {
    fn start(filter: &str, layout: Layout) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = MemorySink::new(8 << 20);
        let mut sink = SinkOptions::new(Target::Memory(memory.clone()));
        sink.layout = layout.into();
        let guard = logdrive::builder("control-test")
            .use_env(false)
            .filter(filter)
            .full(logdrive::Full::Block)
            .count_disabled(true)
            .sink(sink)
            .init()
            .expect("starts");
        Self {
            guard: Some(guard),
            memory,
            _alone: alone,
        }
    }

    fn plain(filter: &str) -> Self {
        Self::start(filter, Layout::pattern("{level} {message}{fields}"))
    }

    /// The lines of the program since the last look; not those about the logger itself.
    fn lines(&self) -> Vec<String> {
        logdrive::flush();
        let mut lines = self.memory.take();
        lines.retain(|line| !line.contains("live control") && !line.contains("sampled out"));
        lines
    }

    fn stop(mut self) -> (Stats, Vec<String>) {
        let (_, stats) = self.guard.take().and_then(Guard::stop).expect("it runs");
        (stats, self.memory.take())
    }
}

/// The session as a tool sees it.
fn session() -> SessionReader {
    SessionReader::open(&logdrive::session_path().expect("a logger runs")).expect("a session")
}

fn set_for(action: Action, selector: &str, for_ns: u64) -> usize {
    let selector = read_selector(selector).expect("a selector");
    let put = |rules: &mut Vec<_>, now| put_rule(rules, action, selector, for_ns, now);
    change(&session(), put).expect("a change").callsites_changed
}

fn set(action: Action, selector: &str) -> usize {
    set_for(action, selector, 0)
}

fn level(directive: &str) -> usize {
    let (action, selector) = read_action_directive(directive).expect("a directive");
    let put = |rules: &mut Vec<_>, now| put_rule(rules, action, selector, 0, now);
    change(&session(), put).expect("a change").callsites_changed
}

fn reset() -> usize {
    change(&session(), |rules, _| rules.clear())
        .expect("a change")
        .callsites_changed
}

/// Notices of the logger about itself, as soon as one of them has the text.
fn until_told(logger: &Logger, text: &str) -> String {
    let mut all = Vec::new();
    wait_until(text, || {
        logdrive::flush();
        all.extend(logger.memory.take());
        all.iter().any(|line| line.contains(text))
    });
    all.join("\n")
}

fn totals_of(message: &str) -> Vec<CallsiteTotals> {
    let session = session();
    let table = session.callsites().expect("a table");
    table
        .iter()
        .filter(|(_, bytes)| logdrive_wire::Callsite::decode(bytes).is_ok_and(|site| site.message == message))
        .map(|(id, _)| {
            session
                .counts(*id)
                .map(|counts| counts.totals())
                .unwrap_or_default()
        })
        .collect()
}

#[test]
fn a_level_holds_at_once_and_for_callsites_that_come_later() {
    fn early() {
        logdrive::debug!("early");
    }
    let logger = Logger::plain("info");
    early();
    assert_eq!(logger.lines(), Vec::<String>::new());
    assert_eq!(level("live_control=debug"), 1);
    early();
    logdrive::debug!("later");
    logdrive::trace!("not that far");
    logdrive::debug!(target: "elsewhere::deep", "its module is ours");
    logdrive::debug!(target: "elsewhere::deep", "and still");
    assert_eq!(
        logger.lines(),
        [
            "DEBUG early",
            "DEBUG later",
            "DEBUG its module is ours",
            "DEBUG and still"
        ]
    );
    set(Action::Mute, "elsewhere");
    logdrive::error!(target: "elsewhere", "silent");
    assert!(reset() >= 2);
    early();
    logdrive::error!(target: "elsewhere", "speaks again");
    assert_eq!(logger.lines(), ["ERROR speaks again"]);
    let (stats, _) = logger.stop();
    assert_eq!((stats.committed, stats.disabled), (5, 4));
}

#[test]
fn a_file_a_line_and_a_number_mean_callsites() {
    let logger = Logger::plain("off");
    let both = || {
        logdrive::info!("one");
        logdrive::info!("two");
    };
    let line = line!() - 3;
    both();
    assert_eq!(level(&format!("live_control.rs:{line}=info")), 1);
    both();
    assert_eq!(logger.lines(), ["INFO one"]);
    reset();
    assert_eq!(level("tests/live_control.rs=info"), 2);
    both();
    assert_eq!(logger.lines(), ["INFO one", "INFO two"]);
    reset();
    assert_eq!(level("id:2=info"), 1);
    both();
    assert_eq!(logger.lines(), ["INFO two"]);
}

#[test]
fn the_programs_own_filter_changes_what_lies_below_the_rules() {
    let logger = Logger::plain("info");
    let both = || {
        logdrive::info!(target: "ruled", "ruled");
        logdrive::info!(target: "free", "free");
    };
    both();
    level("ruled=off");
    both();
    assert_eq!(logger.lines(), ["INFO ruled", "INFO free", "INFO free"]);
    assert!(logdrive::set_filter("off".parse().unwrap()));
    both();
    assert!(logdrive::set_filter("trace".parse().unwrap()));
    both();
    assert_eq!(logger.lines(), ["INFO free"]);
    reset();
    both();
    assert_eq!(logger.lines(), ["INFO ruled", "INFO free"]);
    level("all=off");
    reset();
    assert!(logdrive::set_filter("off".parse().unwrap()));
    both();
    assert_eq!(logger.lines(), Vec::<String>::new());
}

#[test]
fn a_rule_ends_by_itself_and_the_log_says_so() {
    fn call() {
        logdrive::debug!("detail");
    }
    let logger = Logger::plain("info");
    call();
    set_for(Action::Level(Some(0)), "live_control", 60_000_000);
    call();
    wait_until("the rule has ended", || {
        let session = session();
        session
            .control(1)
            .is_some_and(|entry| entry.control() == entry.base())
    });
    call();
    let told = until_told(&logger, "ended");
    assert!(
        told.contains("INFO live control: live_control=trace, for 0s"),
        "{told}"
    );
    assert!(
        told.contains("INFO live control: ended: live_control=trace, its time is over"),
        "{told}"
    );
    assert_eq!(told.matches("DEBUG detail").count(), 1, "{told}");
    assert_eq!(
        session().rules().and_then(|rules| rules.read()).expect("rules").1,
        []
    );
    // A callsite that comes later is not ruled by it either.
    logdrive::debug!("later");
    assert_eq!(logger.lines(), Vec::<String>::new());
}

#[test]
fn kept_lines_say_of_how_many_they_are_one_and_the_sums_hold() {
    let logger = Logger::plain("info");
    let call = |id: u64| logdrive::info!(id, price = 1.5, "order {id}");
    call(0);
    set(Action::Every(100), "live_control");
    (1..=1000).for_each(call);
    let kept = logger.lines();
    assert_eq!(kept.len(), 11);
    assert_eq!(kept[0], "INFO order 0 id=0 price=1.5");
    assert_eq!(kept[1], "INFO order 1 id=1 price=1.5 sample_every=100");
    assert_eq!(kept[10], "INFO order 901 id=901 price=1.5 sample_every=100");
    logdrive::debug!("off");
    let stats = logdrive::stats().expect("it runs");
    assert_eq!((stats.committed, stats.sampled_out, stats.disabled), (11, 990, 1));
    set(Action::Every(7), "live_control");
    (0..70).for_each(call);
    reset();
    call(5);
    let kept = logger.lines();
    assert!((10..=12).contains(&kept.len()), "{kept:?}");
    assert!(kept[0].ends_with(" sample_every=7"), "{kept:?}");
    assert_eq!(
        kept.last().map(String::as_str),
        Some("INFO order 5 id=5 price=1.5")
    );
    let (stats, _) = logger.stop();
    assert_eq!(
        stats.committed + stats.sampled_out + stats.disabled,
        1001 + 1 + 71
    );
    // A program that starts again knows nothing of the rules before.
    let logger = Logger::plain("info");
    call(1);
    assert_eq!(logger.lines(), ["INFO order 1 id=1 price=1.5"]);
    assert_eq!(logdrive::stats().expect("it runs").sampled_out, 0);
}

#[test]
fn every_layout_shows_of_how_many_a_line_is_one() {
    for (layout, expected) in [
        (Layout::text(), " order id=1 sample_every=3"),
        (
            Layout::json(),
            ",\"message\":\"order\",\"id\":1,\"sample_every\":3}",
        ),
        (Layout::logfmt(), " message=\"order\" id=1 sample_every=3"),
        (Layout::glog(), "] order id=1 sample_every=3"),
    ] {
        let logger = Logger::start("info", layout);
        set(Action::Every(3), "all");
        (1..=6).for_each(|id: u8| logdrive::info!(id, "order"));
        let lines = logger.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].ends_with(expected), "{lines:?}");
    }
}

#[test]
fn threads_share_what_passes_in_a_second_and_the_log_says_what_did_not() {
    let logger = Logger::plain("info");
    let call = || logdrive::info!("flood");
    call();
    set(Action::PerSecond(50), "live_control");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5_000).for_each(|_| call()));
        }
    });
    let seconds = begin.elapsed().as_secs_f64();
    let told = until_told(&logger, "records sampled out at live_control.rs:");
    let kept = told.matches("INFO flood").count() - 1;
    // Those that may pass at once, and what was refilled meanwhile.
    assert!(
        kept >= 50 && (kept as f64) < 52.0 + 51.0 * seconds,
        "{kept} in {seconds} s"
    );
    assert!(told.contains("(50 per second kept)"), "{told}");
    let (stats, _) = logger.stop();
    assert_eq!(stats.committed + stats.sampled_out, 20_001);
    assert_eq!(stats.committed, kept as u64 + 1);
}

#[test]
fn a_budget_is_filled_again() {
    let logger = Logger::plain("info");
    let call = || logdrive::info!("flood");
    call();
    set(Action::PerSecond(100), "live_control");
    let mut kept = 0;
    wait_until("300 records", || {
        // More than may pass, however slow the machine is.
        (0..50).for_each(|_| call());
        kept += logger.lines().len();
        kept >= 300
    });
    assert!(logdrive::stats().is_some_and(|stats| stats.sampled_out > 0));
}

#[test]
fn every_value_of_a_key_has_a_limit_of_its_own() {
    let logger = Logger::plain("info");
    let call = |peer: &str, number: u64| logdrive::info!(number, peer, "packet");
    call("a", 0);
    let keyed = Action::PerKey {
        field: "peer".to_owned(),
        per_second: 2,
    };
    set(keyed, "live_control");
    let begin = Instant::now();
    for number in 0..100 {
        ["a", "b", "c"].iter().for_each(|peer| call(peer, number));
    }
    let long = "x".repeat(20_000);
    (0..10).for_each(|number| call(&long, number));
    let seconds = begin.elapsed().as_secs() + 2;
    let lines = logger.lines();
    for peer in ["a", "b", "c", &long] {
        let end = format!(" peer={peer}");
        let kept = lines[1..].iter().filter(|line| line.ends_with(&end)).count() as u64;
        assert!(
            (2..=2 * seconds).contains(&kept),
            "{kept} in {seconds} s of {} bytes",
            peer.len()
        );
    }
    let told = until_told(&logger, "(2 per second and peer kept)");
    assert!(told.contains("records sampled out at live_control.rs:"), "{told}");
    let (stats, _) = logger.stop();
    assert_eq!(stats.committed + stats.sampled_out, 1 + 300 + 10);
}

#[test]
fn callsites_know_what_they_have_logged() {
    let logger = Logger::plain("info");
    (0..1000).for_each(|id: u32| logdrive::info!(id, "counted"));
    (0..10).for_each(|_| logdrive::info!("seldom"));
    logdrive::flush();
    let bytes: usize = logger.memory.take().iter().map(|line| line.len() + 1).sum();
    wait_until("counts are told", || {
        let (often, seldom) = (totals_of("counted"), totals_of("seldom"));
        often[0].records == 1000
            && seldom[0].records == 10
            && often[0].bytes + seldom[0].bytes == bytes as u64
    });
    set(Action::Every(10), "all");
    (0..1000).for_each(|id: u32| logdrive::info!(id, "sampled"));
    logdrive::flush();
    logdrive::stats();
    wait_until("sampled calls are told", || {
        // The callsite, and the one under which its kept records go.
        let totals = totals_of("sampled");
        totals.iter().map(|totals| totals.records).sum::<u64>() == 100
            && totals.iter().map(|totals| totals.sampled_out).sum::<u64>() == 900
    });
}

#[test]
fn damaged_rules_are_none_and_the_log_says_so() {
    let logger = Logger::plain("info");
    let call = || logdrive::debug!("detail");
    call();
    level("live_control=debug");
    call();
    until_told(&logger, "live control: live_control=debug");
    let path = logdrive::session_path().expect("it runs").join("rules");
    let file = std::fs::File::options()
        .write(true)
        .open(path)
        .expect("the rules");
    file.write_all_at(&9u64.to_le_bytes(), 8)
        .expect("a sequence of nothing");
    until_told(
        &logger,
        "WARN live control: no rule holds any more, table of rules is damaged",
    );
    call();
    logdrive::debug!("later");
    assert_eq!(logger.lines(), Vec::<String>::new());
    // They can be set anew.
    level("live_control=debug");
    call();
    assert_eq!(logger.lines(), ["DEBUG detail"]);
}

#[test]
fn tools_at_once_leave_all_their_rules() {
    let logger = Logger::plain("off");
    let calls = || {
        logdrive::info!(target: "one", "one");
        logdrive::info!(target: "two", "two");
    };
    calls();
    std::thread::scope(|scope| {
        for target in ["one", "two"] {
            scope.spawn(move || {
                for round in 0..50 {
                    let lowest = if round % 2 == 0 { "off" } else { "info" };
                    level(&format!("{target}={lowest}"));
                }
            });
        }
        // The program's filter and new callsites take part.
        scope.spawn(|| {
            for round in 0..50 {
                let filter = if round % 2 == 0 { "off" } else { "debug" };
                assert!(logdrive::set_filter(filter.parse().unwrap()));
            }
        });
    });
    assert!(logdrive::set_filter("off".parse().unwrap()));
    logger.lines();
    calls();
    logdrive::info!(target: "one", "later");
    logdrive::info!(target: "three", "three");
    assert_eq!(logger.lines(), ["INFO one", "INFO two", "INFO later"]);
}

/// Each callsite is registered while a tool changes the rules: none slips through.
#[test]
fn callsites_that_register_meanwhile_obey_the_last_rules() {
    macro_rules! sites {
        ($($number:literal)*) => {
            [$(|| logdrive::info!(target: "many", "{}", $number)),*]
        };
    }
    let sites: [fn(); 40] = sites!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
        20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
    for round in 0..10 {
        let last = if round % 2 == 0 { "many=off" } else { "many=info" };
        let logger = Logger::plain(if round % 3 == 0 { "off" } else { "info" });
        std::thread::scope(|scope| {
            scope.spawn(|| sites.iter().for_each(|site| site()));
            scope.spawn(|| {
                level("many=info");
                level("many=off");
                level(last);
            });
        });
        logger.lines();
        sites.iter().for_each(|site| site());
        let expected = if round % 2 == 0 { 0 } else { 40 };
        assert_eq!(logger.lines().len(), expected, "round {round}");
    }
}

#[test]
fn selectors_are_made_of_what_callsites_say() {
    assert_eq!(
        read_selector("live_control").ok(),
        Some(Selector::Module("live_control".into()))
    );
}
