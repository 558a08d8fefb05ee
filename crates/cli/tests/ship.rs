//! Programs that send their records to a collector with a sink of their own, and through an agent: each committed record
//! is in the collector's log once, whoever is killed. `LOGDRIVE_TEST_CYCLES` makes the kills more.

mod support;

use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use support::VICTIM_DIR;
use support::agent::{Agent, place, socket, until as wait};
use support::collector::{World, cycles};

const TO: &str = "LOGDRIVE_CLI_TEST_TO";
const SPOOL: &str = "LOGDRIVE_CLI_TEST_SPOOL";
const AGENT: &str = "LOGDRIVE_CLI_TEST_AGENT";

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
            .file(logdrive::File::new(dir.join("alone.log")));
    } else {
        let mut ship = logdrive::Ship::to(&std::env::var(TO).expect("given")).expect("an address");
        if let Some(spool) = std::env::var_os(SPOOL) {
            ship = ship.spool(spool);
        }
        builder = builder.sink(ship.flush_every(Duration::from_millis(5)));
    }
    let guard = builder.init().expect("logging starts");
    println!("\nready");
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
            "flush" => println!("done {}", logdrive::flush()),
            "deliver" => println!("done {}", logdrive::deliver(Duration::from_secs(60))),
            "state" => {
                let state = &logdrive::shipping()[0].1;
                println!("done {} {}", state.is_connected, state.failure);
            }
            other => panic!("{other}"),
        }
    }
    drop(guard);
    // Before the test harness says something to a parent that listens no more.
    std::process::exit(0);
}

struct Program {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(world: &World, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["--exact", "program", "--nocapture", "--test-threads=1"])
            .env(VICTIM_DIR, world.directory.path())
            .envs(variables.iter().copied())
            .current_dir(world.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut program = Self { child, lines };
        program.hear("ready");
        program
    }

    #[track_caller]
    fn hear(&mut self, word: &str) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        let found = lines.find(|line| line.starts_with(word));
        found.unwrap_or_else(|| panic!("the program ended before it said {word}"))
    }

    #[track_caller]
    fn does(&mut self, command: &str) -> String {
        writeln!(self.child.stdin.as_mut().expect("a pipe"), "{command}").expect("it reads");
        self.hear("done")
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }

    fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Gone already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
    for order in orders(world) {
        *times.entry(order["id"].as_u64().expect("a number")).or_default() += 1;
    }
    let missing = (0..count).filter(|id| !times.contains_key(id)).count();
    let twice = times.values().filter(|times| **times > 1).count();
    assert_eq!((missing, twice), (0, 0), "missing and twice of {count}");
    assert_eq!(times.len() as u64, count);
}

#[test]
fn a_program_ships_records_whose_fields_keep_their_types() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let mut program = Program::start(&world, &[(TO, &address)]);
    program.does("log 0 20000");
    assert_eq!(program.does("deliver"), "done true");
    assert_eq!(orders(&world).len(), 20_000, "what is delivered is there");
    assert_eq!(program.does("state"), "done true ");
    program.does("log 20000 30000");
    let pid = program.child.id();
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

#[test]
fn a_program_that_is_killed_loses_nothing_that_it_had_committed() {
    let world = World::new();
    let address = world.address();
    let mut collector = None;
    let mut next = 0;
    for cycle in 0..cycles(8) as u64 {
        if cycle % 3 != 1 {
            // One at a time has the directory.
            drop(collector.take());
            collector = Some(world.collect(&address, &[]).0);
        }
        let mut program = Program::start(&world, &[(TO, &address)]);
        let count = 500 + cycle * 997 % 5_000;
        program.does(&format!("log {next} {}", next + count));
        next += count;
        if cycle % 2 == 0 && collector.is_some() {
            program.does("flush");
        }
        program.kill();
        if cycle % 3 == 0
            && let Some(mut collector) = collector.take()
        {
            collector.kill();
        }
    }
    drop(collector.take());
    let (collector, _) = world.collect(&address, &[]);
    // The start recovers whatever is left.
    let mut program = Program::start(&world, &[(TO, &address)]);
    assert_eq!(program.does("deliver"), "done true");
    program.end();
    collector.end();
    check(&world, next);
}

#[test]
fn what_a_killed_program_had_in_its_spool_is_sent_by_the_next() {
    let world = World::new();
    let address = world.address();
    let spool = world.path("spool");
    let spool = spool.to_str().expect("text");
    let variables = [(TO, address.as_str()), (SPOOL, spool)];
    let mut next = 0;
    for cycle in 0..cycles(6) as u64 {
        let collector = (cycle % 2 == 1).then(|| world.collect(&address, &[]).0);
        let mut program = Program::start(&world, &variables);
        let count = 40_000 + cycle * 997;
        program.does(&format!("log {next} {}", next + count));
        next += count;
        if cycle % 3 != 2 {
            assert_eq!(
                program.does("flush"),
                "done true",
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
    let (collector, _) = world.collect(&address, &[]);
    let mut program = Program::start(&world, &variables);
    assert_eq!(program.does("deliver"), "done true");
    program.end();
    collector.end();
    check(&world, next);
    let left: Vec<_> = std::fs::read_dir(spool).expect("there").flatten().collect();
    assert_eq!(left.len(), 1, "the lock alone: {left:?}");
}

#[test]
fn what_nobody_takes_is_left_for_recovery() {
    let world = World::new();
    let address = world.address();
    let mut program = Program::start(&world, &[(TO, &address)]);
    program.does("log 0 1000");
    wait("it is told", || {
        program.does("state").contains("cannot").then_some(())
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
    let mut one = Program::start(&world, &variables);
    let mut two = Program::start(&world, &variables);
    one.does("log 0 5000");
    two.does("log 5000 10000");
    assert_eq!(one.does("flush"), "done true");
    agent.kill();
    one.does("log 10000 12000");
    let agent = Agent::start(dir.path());
    assert_eq!(one.does("flush"), "done true");
    let pids = [one.child.id(), two.child.id()];
    one.end();
    two.end();
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
