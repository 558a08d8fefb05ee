//! Programs that send their records to a collector with a sink of their own, and through an agent: each committed record
//! is in the collector's log once, whichever process is killed. `LOGDRIVE_TEST_CYCLES` makes the kills more.

mod support;

use logdrive_testkit::{Process, report, this_test, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::VICTIM_DIR;
use support::agent::{Agent, ONE_FILE, configure, log_of, place, socket};
use support::collector::{World, cycles};
use support::datagrams::LossyProxy;
use support::transports::{KEYS, TO, Transport, over_each_transport, strs};

const SPOOL: &str = "LOGDRIVE_CLI_TEST_SPOOL";
/// Set where records are dropped that have no room in the sink's buffers.
const DROPS: &str = "LOGDRIVE_CLI_TEST_DROPS";
/// Set where the sink sends when its buffer is full, and no earlier.
const WAITS: &str = "LOGDRIVE_CLI_TEST_WAITS";
const AGENT: &str = "LOGDRIVE_CLI_TEST_AGENT";

/// The program's sink, as the variables say.
fn sink() -> logdrive::Ship {
    let mut ship = logdrive::Ship::to(&std::env::var(TO).expect("given")).expect("an address");
    if let Some(spool) = std::env::var_os(SPOOL) {
        ship = ship.spool(spool);
    }
    if let Some(keys) = std::env::var_os(KEYS).map(PathBuf::from) {
        let [ca, certificate, key] =
            ["authority.pem", "client.pem", "client.key"].map(|name| keys.join(name));
        ship = ship.tls(ca, certificate, key);
    }
    // A collector that was killed says nothing over datagrams.
    ship.with(|options| options.transport.timeouts.response = Duration::from_secs(1))
}

/// The program, when this process is one: obeys its standard input.
#[test]
fn program() {
    let Some(dir) = std::env::var_os(VICTIM_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let mut builder = logdrive::builder("shop")
        .run_dir(dir.join("run"))
        .full(logdrive::Full::Block)
        .use_env(false);
    if let Some(agent) = std::env::var_os(AGENT) {
        builder = builder
            .agent(agent)
            .agent_timeout(std::time::Duration::from_secs(60))
            .file(logdrive::File::new(dir.join("alone.log")));
    } else {
        if std::env::var_os(DROPS).is_some() {
            builder = builder.overflow(logdrive::Overflow::Drop);
        }
        let flush_ms = if std::env::var_os(WAITS).is_some() {
            600_000
        } else {
            5
        };
        builder = builder.sink(sink().flush_every(Duration::from_millis(flush_ms)));
    }
    let guard = builder.init().expect("logging starts");
    let mut own = Vec::new();
    report("ready");
    for command in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = command.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "log" => {
                for id in number(1)..number(2) {
                    logdrive::info!(id, price = 9.5, peer = "ann", "order filled");
                }
                println!("done");
            }
            "flood" => {
                for id in 0..number(1) {
                    logdrive::info!(id, filler = "x".repeat(300), "flood");
                    if id % 500 == 0 {
                        logdrive::error!(id, "order filled");
                    }
                }
                println!("done");
            }
            "long" => {
                logdrive::info!(filler = "x".repeat(number(1) as usize), "long");
                println!("done");
            }
            "flush" => println!("done {}", logdrive::flush()),
            "deliver" => println!("done {}", logdrive::deliver(Duration::from_secs(60))),
            "close" => {
                logdrive_ring::close_inherited();
                // More than the logger had descriptors, under the same numbers.
                own.extend((0..64).map(|_| UnixStream::pair().expect("sockets")));
                println!("done");
            }
            "own" => println!("done {}", own.iter().all(is_untouched)),
            "state" => {
                let state = &logdrive::shipping()[0].1;
                println!("done {} {}", state.is_connected, state.failure);
            }
            "pushed" => println!("done {}", logdrive::shipping()[0].1.pushed),
            other => panic!("{other}"),
        }
    }
    drop(guard);
    // Before the test harness says something to a parent that listens no more.
    std::process::exit(0);
}

/// Nothing has come into sockets of the program.
fn is_untouched((one, other): &(UnixStream, UnixStream)) -> bool {
    [one, other].into_iter().all(|mut end| {
        end.set_nonblocking(true).expect("it is open");
        end.read(&mut [0; 1])
            .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    })
}

fn start<V: AsRef<OsStr>>(world: &World, variables: &[(&str, V)]) -> Process {
    let mut command = this_test("program");
    command
        .env(VICTIM_DIR, world.directory.path())
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(world.directory.path());
    let mut process = Process::spawn(&mut command);
    process.expect("ready");
    process
}

/// The records of the collector's log, without what the logger says of itself.
fn orders(world: &World) -> Vec<Value> {
    let lines = world.raw().into_iter();
    let values = lines
        .map(|line| serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
    values
        .filter(|value| value["message"] == "order filled")
        .collect()
}

fn check(world: &World, count: u64) {
    let mut times: HashMap<u64, u32> = HashMap::new();
    for line in world.raw() {
        let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if value["message"] == "order filled" {
            *times.entry(value["id"].as_u64().expect("a number")).or_default() += 1;
        }
    }
    let missing = (0..count).filter(|id| !times.contains_key(id)).count();
    let twice = times.values().filter(|times| **times > 1).count();
    assert_eq!((missing, twice), (0, 0), "missing and twice of {count}");
    assert_eq!(times.len() as u64, count);
}

/// A collector that is away longer than the buffers last: warnings and above have room of their own, and lines say what is
/// missing.
#[test]
fn errors_of_a_flood_wait_for_a_collector_that_is_away() {
    const FLOOD: u64 = 50_000;
    let world = World::new();
    let address = world.address();
    let mut program = start(&world, &[(TO, address.as_str()), (DROPS, "1")]);
    program.ask(&format!("flood {FLOOD}"), "done");
    let collector = world.start();
    assert_eq!(program.ask("deliver", "done"), "true");
    program.end();
    drop(collector);
    let lines = world.raw();
    let count = |message: &str| {
        let value = format!("\"message\":\"{message}\"");
        lines.iter().filter(|line| line.contains(&value)).count() as u64
    };
    assert_eq!(count("order filled"), FLOOD / 500, "all errors");
    let told = lines.iter().filter_map(|line| {
        let value: Value = serde_json::from_str(line).ok()?;
        value["message"]
            .as_str()?
            .contains(" records dropped: ")
            .then_some(())?;
        value["count"].as_u64()
    });
    let (told, written) = (told.sum::<u64>(), count("flood"));
    assert!(told > 0, "the buffers took all of {FLOOD}");
    assert_eq!(told + written, FLOOD, "{:?}", lines.last());
}

#[test]
fn a_program_ships_records_whose_fields_keep_their_types() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let mut program = start(&world, &[(TO, &address)]);
    program.ask("log 0 20000", "done");
    assert_eq!(program.ask("deliver", "done"), "true");
    assert_eq!(orders(&world).len(), 20_000, "what is delivered is there");
    assert_eq!(program.ask("state", "done"), "true");
    program.ask("log 20000 30000", "done");
    let pid = program.pid();
    program.end();
    collector.end();
    check(&world, 30_000);
    let first = &orders(&world)[0];
    assert!(first["price"].is_f64() && first["id"].is_u64(), "{first}");
    assert_eq!(
        (&first["peer"], &first["process"]),
        (&"ann".into(), &"shop".into())
    );
    assert_eq!(first["pid"], pid);
    let session = first["session"].as_str().expect("text");
    assert!(session.len() == 32 && first["host"].is_string(), "{first}");
}

/// Datagrams may be lost, doubled and out of order, each of both ends may be killed.
#[test]
fn records_over_datagrams_that_are_lost_are_there_once() {
    let world = World::new();
    let (collector, address) = world.collect("udp://127.0.0.1:0", &[]);
    let proxy = LossyProxy::start(&address, 20, 7);
    let mut collector = Some(collector);
    let mut next = 0;
    for cycle in 0..cycles(3) as u64 {
        let mut program = start(&world, &[(TO, &proxy.address)]);
        let count = 3_000 + cycle * 997 % 5_000;
        program.ask(&format!("log {next} {}", next + count), "done");
        next += count;
        match cycle % 3 {
            0 => {
                assert_eq!(program.ask("deliver", "done"), "true");
                program.end();
            }
            1 => program.kill(),
            _ => {
                if let Some(mut collector) = collector.take() {
                    collector.kill();
                }
                program.kill();
                collector = Some(world.collect(&address, &[]).0);
            }
        }
    }
    let mut program = start(&world, &[(TO, &proxy.address)]);
    // A record that fits into no usual datagram.
    program.ask("long 5000", "done");
    assert_eq!(program.ask("deliver", "done"), "true");
    program.end();
    recover_all(&world);
    assert!(proxy.lost.load(Ordering::Relaxed) > 10);
    collector.expect("it runs").end();
    check(&world, next);
    let is_long = |line: &String| line.contains(&"x".repeat(5_000));
    assert_eq!(world.raw().iter().filter(|line| is_long(line)).count(), 1);
}

over_each_transport!(
    a_program_that_is_killed_loses_nothing_that_it_had_committed,
    kill_programs
);

fn kill_programs(scheme: &str) {
    let world = World::new();
    let transport = Transport::new(&world, scheme);
    let keys = transport.of_collector();
    let (collector, address) = world.collect(&transport.listen, &strs(&keys));
    let variables = transport.of_program(&address);
    let mut collector = Some(collector);
    let mut next = 0;
    for cycle in 0..cycles(3) as u64 {
        if cycle % 3 != 1 {
            // One at a time has the directory.
            drop(collector.take());
            collector = Some(world.collect(&address, &strs(&keys)).0);
        }
        let mut program = start(&world, &variables);
        let count = 500 + cycle * 997 % 5_000;
        program.ask(&format!("log {next} {}", next + count), "done");
        next += count;
        if cycle % 2 == 0 && collector.is_some() {
            program.ask("flush", "done");
        }
        program.kill();
        let left = std::fs::read_dir(world.path("run")).map_or(0, Iterator::count);
        if left > 32 && collector.is_some() {
            // Of sessions that no start has had time for, 64 are kept.
            recover_all(&world);
        }
        if cycle % 3 == 0
            && let Some(mut collector) = collector.take()
        {
            collector.kill();
        }
    }
    drop(collector.take());
    let (collector, _) = world.collect(&address, &strs(&keys));
    start_and_deliver(&world, &variables);
    recover_all(&world);
    collector.end();
    check(&world, next);
    println!(
        "{scheme}: {} programs killed, {next} records, 0 lost, 0 twice",
        cycles(3)
    );
}

/// A program that sends what is there. Its start recovers what is left beside it, as far as it lives long enough.
fn start_and_deliver(world: &World, variables: &[(&str, String)]) {
    let mut program = start(world, variables);
    assert_eq!(program.ask("deliver", "done"), "true");
    program.end();
}

/// Recovers the sessions that no start had time for.
fn recover_all(world: &World) {
    let run = world.path("run");
    let arguments = ["recover", "--all", "--run-dir", run.to_str().expect("text")];
    let recovered = support::run(world.directory.path(), &arguments);
    assert!(recovered.status.success(), "{recovered:?}");
}

over_each_transport!(
    what_a_killed_program_had_in_its_spool_is_sent_by_the_next,
    kill_programs_with_a_spool
);

fn kill_programs_with_a_spool(scheme: &str) {
    let world = World::new();
    let transport = Transport::new(&world, scheme);
    let keys = transport.of_collector();
    // Only its address is taken.
    let (collector, address) = world.collect(&transport.listen, &strs(&keys));
    drop(collector);
    let spool = world.path("spool");
    let mut variables = transport.of_program(&address);
    variables.push((SPOOL, spool.display().to_string()));
    let mut next = 0;
    for cycle in 0..cycles(3) as u64 {
        let collector = (cycle % 2 == 1).then(|| world.collect(&address, &strs(&keys)).0);
        let mut program = start(&world, &variables);
        // Many files at first; less where there are many cycles.
        let count = if cycle == 0 { 40_000 } else { 500 } + cycle * 997 % 2_000;
        program.ask(&format!("log {next} {}", next + count), "done");
        next += count;
        if cycle % 3 != 2 {
            assert_eq!(
                program.ask("flush", "done"),
                "true",
                "the spool takes what nobody else does"
            );
        }
        match cycle % 4 {
            3 => program.end(),
            _ => program.kill(),
        }
        if let Some(mut collector) = collector {
            collector.kill();
        }
    }
    let (collector, _) = world.collect(&address, &strs(&keys));
    start_and_deliver(&world, &variables);
    // Into the spool, for the next one.
    recover_all(&world);
    start_and_deliver(&world, &variables);
    collector.end();
    check(&world, next);
    println!(
        "{scheme}, spool: {} programs killed, {next} records, 0 lost, 0 twice",
        cycles(3)
    );
    let left: Vec<_> = std::fs::read_dir(spool).expect("there").flatten().collect();
    assert_eq!(left.len(), 1, "the lock alone: {left:?}");
}

/// The file of a program's output buffers, its bytes, and where rows of orders stand in it.
fn rows_of_orders(world: &World) -> Option<(PathBuf, Vec<u8>, Vec<usize>)> {
    let sessions = std::fs::read_dir(world.path("run")).ok()?.flatten();
    let files = sessions
        .filter_map(|entry| std::fs::read_dir(entry.path()).ok())
        .flat_map(|entries| entries.flatten());
    // The last values of a record, whose row begins 28 bytes before: 20 of head, and the id.
    let value = [&9.5f64.to_le_bytes()[..], &3u32.to_le_bytes(), b"ann"].concat();
    files.map(|entry| entry.path()).find_map(|path| {
        let bytes = std::fs::read(&path).ok()?;
        let places = memchr::memmem::find_iter(&bytes, &value).filter_map(|place| place.checked_sub(28));
        // Rings have the same values behind other heads.
        let rows: Vec<usize> = places
            .filter(|row| bytes[*row..].starts_with(&44u32.to_le_bytes()))
            .collect();
        (!rows.is_empty()).then_some((path, bytes, rows))
    })
}

/// Records behind a row that cannot be read were left out in silence.
#[test]
fn records_of_a_damaged_buffer_that_is_on_its_way_are_counted_in_the_log() {
    let world = World::new();
    let mut program = start(&world, &[(TO, &world.address())]);
    program.ask("log 0 1000", "done");
    wait_for("all are on their way", || {
        let pushed: u64 = program.ask("pushed", "done").parse().expect("a number");
        (pushed >= 1000).then_some(())
    });
    damage_a_row(&world, program, 1000);
}

/// Their number was told to whoever recovered the session, and not always in the log.
#[test]
fn records_of_a_damaged_buffer_that_is_not_on_its_way_are_counted_in_the_log() {
    let world = World::new();
    let address = world.address();
    let mut program = start(&world, &[(TO, address.as_str()), (WAITS, "1")]);
    program.ask("log 0 1000", "done");
    wait_for("all are in a buffer", || {
        rows_of_orders(&world).filter(|(.., rows)| rows.len() == 1000)
    });
    // Laid out by a later pass of the drain: those before it are committed then.
    program.ask("log 1000 1001", "done");
    damage_a_row(&world, program, 1001);
}

/// Damages a row of a program's output buffer when all of its records are in there, and kills the program. What is lost of
/// them has to be counted in the log.
fn damage_a_row(world: &World, mut program: Process, records: usize) {
    let found = wait_for("all are in the buffers", || {
        rows_of_orders(world).filter(|(.., rows)| rows.len() == records)
    });
    program.kill();
    let (path, mut bytes, rows) = found;
    // One has a length that is none.
    bytes[rows[400]..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    std::fs::write(path, bytes).expect("written");
    let (collector, address) = world.collect(&world.address(), &[]);
    let mut program = start(world, &[(TO, &address)]);
    assert_eq!(program.ask("deliver", "done"), "true");
    program.end();
    collector.end();
    let told = world.raw().into_iter().filter_map(|line| {
        let (text, _) = line.split_once(" of the dead process are lost: its memory is damaged there")?;
        let (count, _) = text.split_once(" records in output buffer ")?;
        count.rsplit('"').next()?.parse::<usize>().ok()
    });
    let (told, kept): (Vec<usize>, _) = (told.collect(), orders(world).len());
    assert!((400..records).contains(&kept), "{kept}");
    assert_eq!(told, [records - kept], "lines that tell it");
}

#[test]
fn what_was_to_be_shipped_becomes_a_segment_where_it_is_recovered_into_a_file() {
    let world = World::new();
    let mut program = start(&world, &[(TO, &world.address())]);
    program.ask("log 0 1000", "done");
    let pid = program.pid().to_string();
    program.kill();
    let (run, file) = (world.path("run"), world.path("lost.segment"));
    let [run, file] = [&run, &file].map(|path| path.to_str().expect("text"));
    let command = ["recover", &pid, "--into", file, "--run-dir", run];
    let recovered = support::run(world.directory.path(), &command);
    assert!(recovered.status.success(), "{recovered:?}");
    let text = support::stdout(world.directory.path(), &["cat", file]);
    assert_eq!(text.matches("order filled").count(), 1000);
    let help = support::stdout(world.directory.path(), &["recover", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("becomes a segment, which `logdrive cat` shows as text"),
        "{help}"
    );
}

#[test]
fn what_nobody_takes_is_left_for_recovery() {
    let world = World::new();
    let address = world.address();
    let mut program = start(&world, &[(TO, &address)]);
    program.ask("log 0 1000", "done");
    wait_for("it is told", || {
        program.ask("state", "done").contains("cannot").then_some(())
    });
    program.end();
    let run = world.path("run");
    let run = run.to_str().expect("text");
    let (collector, _) = world.collect(&address, &[]);
    let recovered = support::run(world.directory.path(), &["recover", "--all", "--run-dir", run]);
    assert!(recovered.status.success(), "{recovered:?}");
    collector.end();
    check(&world, 1000);
}

#[test]
fn an_agent_ships_the_records_of_its_processes() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let dir = place(&format!(
        "[[ship]]\nname = \"central\"\nto = [\"{address}\"]\nspool = \"DIR/spool\"\nflush_every = \"5ms\"\n"
    ));
    support::stdout(dir.path(), &["config", "check", "agent.toml"]);
    let agent = Agent::start(dir.path());
    let at = socket(dir.path());
    let variables = [(AGENT, at.to_str().expect("text"))];
    let mut one = start(&world, &variables);
    let mut two = start(&world, &variables);
    one.ask("log 0 5000", "done");
    two.ask("log 5000 10000", "done");
    assert_eq!(one.ask("flush", "done"), "true");
    agent.kill();
    one.ask("log 10000 12000", "done");
    let agent = Agent::start(dir.path());
    assert_eq!(one.ask("flush", "done"), "true");
    let pids = [one.pid(), two.pid()];
    one.end();
    two.end();
    // An agent leaves in the spool, for the next start, all that a slow collector has not taken by its end.
    let is_order = |line: &&String| line.contains("order filled");
    wait_for("all are with the collector", || {
        (world.raw().iter().filter(is_order).count() >= 12_000).then_some(())
    });
    agent.end();
    collector.end();
    check(&world, 12_000);
    for order in orders(&world) {
        let of = pids[usize::from((5_000..10_000).contains(&order["id"].as_u64().expect("a number")))];
        assert_eq!(
            (&order["app"], &order["pid"]),
            (&"shop".into(), &of.into()),
            "{order}"
        );
        assert!(
            order.get("process").is_none() && order["host"].is_string(),
            "{order}"
        );
    }
}

#[test]
fn a_reload_opens_a_new_collector_and_tells_what_waits_for_the_next_start() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let dir = place(ONE_FILE);
    let agent = Agent::start(dir.path());
    let at = socket(dir.path());
    let mut program = start(&world, &[(AGENT, at.to_str().expect("text"))]);
    program.ask("log 0 1000", "done");
    assert_eq!(program.ask("flush", "done"), "true");
    let ship = |more: &str| {
        let more = format!(
            "{ONE_FILE}[[ship]]\nname = \"central\"\nflush_every = \"5ms\"\n{more}[[ship.to]]\naddress = \"{address}\"\n"
        );
        configure(dir.path(), &more);
        agent.signal(Signal::HUP);
    };
    let told = |what: &str, words: &str| {
        wait_for(what, || log_of(dir.path(), "shop").contains(words).then_some(()));
    };
    let reread = || {
        let said = log_of(dir.path(), "shop");
        said.matches("the configuration was read again").count()
    };
    ship("");
    wait_for("it is read", || (reread() == 1).then_some(()));
    program.ask("log 1000 2000", "done");
    assert_eq!(program.ask("flush", "done"), "true");
    let ids = || -> Vec<u64> {
        let ids = orders(&world)
            .into_iter()
            .map(|order| order["id"].as_u64().expect("a number"));
        ids.collect()
    };
    assert_eq!(ids(), (1000..2000).collect::<Vec<u64>>(), "from the reload on");
    // The level holds at once, the circuit breaker and the weight from the next start on.
    ship("min_level = \"error\"\nbreaker_failures = 7\n");
    wait_for("it is read", || (reread() == 2).then_some(()));
    told("what waits", "breaker_failures");
    program.ask("log 2000 3000", "done");
    assert_eq!(program.ask("flush", "done"), "true");
    assert_eq!(ids().len(), 1000, "none of these is an error");
    // One that is wrong changes nothing.
    ship("brekaer_failures = 7\n");
    told("the refusal", "the configuration stays as it was");
    ship("");
    wait_for("it is read", || (reread() == 3).then_some(()));
    program.ask("log 3000 4000", "done");
    assert_eq!(program.ask("flush", "done"), "true");
    program.end();
    agent.end();
    collector.end();
    let mut found = ids();
    found.sort_unstable();
    assert_eq!(found, (1000..2000).chain(3000..4000).collect::<Vec<u64>>());
}

#[test]
fn a_reload_sends_to_another_collector_and_a_recovery_does_too() {
    let (first, second) = (World::new(), World::new());
    let (of_first, one) = first.collect(&first.address(), &[]);
    let (of_second, two) = second.collect(&second.address(), &[]);
    let ship = |to: &str| {
        let (name, every) = ("central", "5ms");
        format!("{ONE_FILE}[[ship]]\nname = \"{name}\"\nflush_every = \"{every}\"\nto = [\"{to}\"]\n")
    };
    let dir = place(&ship(&one));
    let agent = Agent::start(dir.path());
    let at = socket(dir.path());
    let mut program = start(&first, &[(AGENT, at.to_str().expect("text"))]);
    program.ask("log 0 3000", "done");
    assert_eq!(program.ask("flush", "done"), "true");
    configure(dir.path(), &ship(&two));
    agent.signal(Signal::HUP);
    wait_for("it is read", || {
        let said = log_of(dir.path(), "shop");
        said.contains("the configuration was read again").then_some(())
    });
    program.ask("log 3000 6000", "done");
    assert_eq!(program.ask("flush", "done"), "true");
    let ids = |world: &World| -> Vec<u64> {
        let id = |order: Value| order["id"].as_u64().expect("a number");
        orders(world).into_iter().map(id).collect()
    };
    wait_for("the other one has it", || {
        (ids(&second).last() == Some(&5999)).then_some(())
    });
    // The first one is not needed any more.
    of_first.end();
    assert_eq!(ids(&first), (0..3000).collect::<Vec<u64>>());
    of_second.end();
    program.ask("log 6000 7000", "done");
    agent.kill();
    program.ask("log 7000 8000", "done");
    let (of_second, _) = second.collect(&second.address(), &[]);
    let agent = Agent::start(dir.path());
    assert_eq!(program.ask("flush", "done"), "true");
    program.end();
    agent.end();
    of_second.end();
    let mut found = ids(&second);
    found.sort_unstable();
    assert_eq!(
        found,
        (3000..8000).collect::<Vec<u64>>(),
        "each once, by the recovery as well"
    );
}

/// Accepts all and says nothing; counts who has come.
fn silent(path: &Path) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(path).expect("a socket");
    let count = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            theirs.fetch_add(1, Ordering::SeqCst);
            held.push(stream);
        }
    });
    count
}

#[test]
fn a_start_asks_a_collector_that_does_not_answer_once_for_all_dead_sessions() {
    let world = World::new();
    let away = world.path("away.sock");
    let to = format!("unix://{}", away.display());
    let mut next = 0;
    // At once, so that none of them recovers another.
    let mut programs: Vec<Process> = (0..4).map(|_| start(&world, &[(TO, &to)])).collect();
    for program in &mut programs {
        program.ask(&format!("log {next} {}", next + 100), "done");
        next += 100;
    }
    programs.iter_mut().for_each(Process::kill);
    let asked = silent(&away);
    let (collector, address) = world.collect(&world.address(), &[]);
    let mut program = start(&world, &[(TO, &address)]);
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it has started, and has asked");
    program.ask("log 1000 1010", "done");
    assert_eq!(program.ask("deliver", "done"), "true");
    program.end();
    let notice = "4 sessions of earlier processes wait for a collector that does not answer";
    assert!(world.raw().iter().any(|line| line.contains(notice)), "it is told");
    let told: Vec<Value> = orders(&world);
    assert_eq!(told.len(), 10);
    // The next start finds a listener.
    std::fs::remove_file(&away).expect("a socket");
    collector.end();
    let (collector, _) = world.collect(&to, &[]);
    let mut program = start(&world, &[(TO, &to)]);
    assert_eq!(program.ask("deliver", "done"), "true");
    program.end();
    collector.end();
    let mut ids: Vec<u64> = orders(&world)
        .iter()
        .map(|order| order["id"].as_u64().expect("a number"))
        .collect();
    ids.sort_unstable();
    assert_eq!(
        ids,
        (0..next).chain(1000..1010).collect::<Vec<u64>>(),
        "each once"
    );
}

#[test]
fn a_program_that_closes_all_descriptors_sends_on_and_its_own_sockets_get_nothing() {
    let world = World::new();
    let (collector, _) = world.collect(&world.address(), &[]);
    let spool = world.path("spool").display().to_string();
    let mut process = start(&world, &[(TO, &world.address()), (SPOOL, &spool)]);
    process.ask("log 0 500", "done");
    assert_eq!(process.ask("deliver", "done"), "true");
    // The connection's descriptor is one of the program's now.
    process.ask("close", "done");
    process.ask("log 500 1000", "done");
    assert_eq!(process.ask("deliver", "done"), "true");
    // The same for those of the spool, which a collector that is away has filled.
    drop(collector);
    process.ask("log 1000 1500", "done");
    wait_for("the spool has records", || {
        std::fs::read_dir(&spool)
            .ok()?
            .flatten()
            .find(|entry| entry.path().is_dir())
    });
    process.ask("close", "done");
    process.ask("log 1500 2000", "done");
    let (_collector, _) = world.collect(&world.address(), &[]);
    assert_eq!(process.ask("deliver", "done"), "true");
    assert_eq!(process.ask("own", "done"), "true");
    check(&world, 2000);
    process.end();
}
