//! `logdrive collect` and `logdrive send` as processes that are killed again and again: each line is in the collector's
//! log once, in order. `LOGDRIVE_TEST_CYCLES` makes the kills more.

mod support;

use logdrive_testkit::{wait_until, wait_until_within};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use support::collector::{Running, World, cycles, json, limit, logdrive, write_lines};
use support::transports::{Transport, over_each_transport, strs};

fn expected(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("line {number} of this log"))
        .collect()
}

fn check(found: &[String], count: usize) {
    let unique: HashSet<&String> = found.iter().collect();
    assert_eq!((unique.len(), found.len()), (count, count), "missing or twice");
    assert_eq!(found, expected(count), "out of order");
}

#[test]
fn a_file_is_sent_once_however_often_it_is_sent() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let file = world.path("app.log");
    let file = file.to_str().expect("text");
    write_lines(Path::new(file), 0, 50_000);
    for more in [&[][..], &["--zstd", "3"][..]] {
        let output = world.send(file, &address, more).output().expect("it ran");
        assert!(output.status.success(), "{output:?}");
    }
    write_lines(Path::new(file), 50_000, 60_000);
    let output = world
        .send(file, &address, &["--zstd", "1"])
        .output()
        .expect("it ran");
    assert_eq!(json(&output)["acknowledged"], 10_000);
    let numbers = json(&collector.end());
    assert_eq!(numbers["records"], 60_000);
    check(&world.collected(), 60_000);
}

#[test]
fn records_come_over_tls_from_those_with_a_certificate_only() {
    let world = World::new();
    let keys = world.path("keys");
    let made = logdrive()
        .args(["collect", "--make-certificates"])
        .arg(&keys)
        .output()
        .expect("it ran");
    assert!(made.status.success(), "{made:?}");
    let key = |name: &str| keys.join(name).to_str().expect("text").to_owned();
    let (ca, cert, private) = (key("authority.pem"), key("server.pem"), key("server.key"));
    let server = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &private];
    let (collector, address) = world.collect("tls://127.0.0.1:0", &server);
    let file = world.path("app.log");
    let file = file.to_str().expect("text");
    write_lines(Path::new(file), 0, 1_000);
    let nobody = world
        .send(file, &address, &["--tls-ca", &ca, "--end-timeout", "1s"])
        .output()
        .expect("it ran");
    assert_eq!(json(&nobody)["acknowledged"], 0, "{nobody:?}");
    let other = world.path("other");
    logdrive()
        .args(["collect", "--make-certificates"])
        .arg(&other)
        .output()
        .expect("it ran");
    let stranger = |name: &str| other.join(name).to_str().expect("text").to_owned();
    let (c, k) = (stranger("client.pem"), stranger("client.key"));
    let forged = [
        "--tls-ca",
        &ca,
        "--tls-cert",
        &c,
        "--tls-key",
        &k,
        "--end-timeout",
        "1s",
    ];
    let forged = world.send(file, &address, &forged).output().expect("it ran");
    assert_eq!(json(&forged)["acknowledged"], 0, "{forged:?}");
    let (c, k) = (key("client.pem"), key("client.key"));
    let known = ["--tls-ca", &ca, "--tls-cert", &c, "--tls-key", &k];
    let output = world.send(file, &address, &known).output().expect("it ran");
    assert_eq!(json(&output)["acknowledged"], 1_000, "{output:?}");
    let numbers = json(&collector.end());
    assert!(numbers["ended"]["forbidden"].as_u64() >= Some(2), "{numbers}");
    check(&world.collected(), 1_000);
}

fn kill_plain_collectors(scheme: &str) {
    kill_collectors(scheme, &[]);
}

fn kill_syncing_collectors(scheme: &str) {
    kill_collectors(scheme, &["--sync"]);
}

over_each_transport!(
    collectors_that_are_killed_under_load_lose_and_double_nothing,
    kill_plain_collectors
);

over_each_transport!(
    collectors_that_are_killed_between_two_syncs_lose_and_double_nothing,
    kill_syncing_collectors
);

/// Starts collectors with these arguments and kills each under load.
fn kill_collectors(scheme: &str, more: &[&str]) {
    let world = World::new();
    let transport = Transport::new(&world, scheme);
    // Many cycles make many files, none of which may go before they are looked at.
    let keys = transport.of_collector();
    let keeps = [
        &strs(&keys)[..],
        &["--rotate-size", "1MiB", "--keep", "9999"],
        more,
    ]
    .concat();
    let file = world.path("app.log");
    write_lines(&file, 0, 2_000);
    let (collector, address) = world.collect(&transport.listen, &keeps);
    let path = file.to_str().expect("text").to_owned();
    let options = transport.of_sender();
    let mut sender = world.send(&path, &address, &[&strs(&options)[..], &["--follow"]].concat());
    let sender = Running(sender.spawn().expect("it starts"));
    let log = world.path("out/collected.log");
    let length = || log.metadata().map_or(0, |found| found.len());
    let (mut count, mut running) = (2_000, Some(collector));
    for cycle in 0..cycles(3) {
        let mut collector = running
            .take()
            .unwrap_or_else(|| world.collect(&address, &keeps).0);
        let before = length();
        // Batches of many sizes, while it is killed at whatever it does.
        for _ in 0..20 {
            write_lines(&file, count, count + 1 + cycle * 37 % 400);
            count += 1 + cycle * 37 % 400;
        }
        wait_until("the log grows", || length() != before);
        collector.kill();
    }
    let (collector, _) = world.collect(&address, &keeps);
    world.wait_for_records(count);
    let sent = json(&sender.end());
    assert_eq!(sent["missing"], 0, "{sent}");
    collector.end();
    check(&world.collected(), count);
    println!(
        "{scheme} {more:?}: {} kills, {count} records, 0 lost, 0 twice",
        cycles(3)
    );
}

#[test]
fn a_collector_reads_its_certificates_again_on_sighup() {
    let world = World::new();
    let make = |directory: &str| {
        let made = logdrive()
            .args(["collect", "--make-certificates"])
            .arg(world.path(directory))
            .output();
        assert!(made.expect("it ran").status.success());
    };
    make("keys");
    make("next");
    let path = |name: &str| world.path(name).to_str().expect("text").to_owned();
    let (ca, cert, private) = (
        path("keys/authority.pem"),
        path("keys/server.pem"),
        path("keys/server.key"),
    );
    let server = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &private];
    let (collector, address) = world.collect("tls://127.0.0.1:0", &server);
    for name in ["authority.pem", "server.pem", "server.key"] {
        std::fs::copy(world.path("next").join(name), world.path("keys").join(name)).expect("copied");
    }
    let pid = rustix::process::Pid::from_child(&collector.0);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
    let file = world.path("app.log");
    write_lines(&file, 0, 100);
    let (ca, cert, private) = (
        path("next/authority.pem"),
        path("next/client.pem"),
        path("next/client.key"),
    );
    // It tries again until the signal is taken.
    let known = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &private];
    let file = file.to_str().expect("text");
    wait_until("the new authority is known", || {
        let output = world.send(file, &address, &known).output().expect("it ran");
        json(&output)["missing"] == 0
    });
    collector.end();
    check(&world.collected(), 100);
}

#[test]
fn a_collector_has_metrics_and_warns_while_it_runs() {
    let world = World::new();
    let metrics = world.path("metrics.sock");
    let config = world.path("collect.toml");
    let text = format!(
        "listen = [\"{}\"]\nout = \"{}\"\nsync = true\nmetrics = \"unix:{}\"\n",
        world.address(),
        world.path("out").display(),
        metrics.display()
    );
    std::fs::write(&config, text).expect("written");
    let told = world.path("told");
    let mut command = logdrive();
    command.args(["collect", "--json", "--config"]).arg(&config);
    command
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&told).expect("made"));
    let collector = Running(command.spawn().expect("it starts"));
    let ask = || {
        let mut stream = std::os::unix::net::UnixStream::connect(&metrics)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
        std::io::read_to_string(stream)
    };
    wait_until("metrics are served", || ask().is_ok());
    let file = world.path("app.log");
    write_lines(&file, 0, 700);
    let output = world
        .send(file.to_str().expect("text"), &world.address(), &[])
        .output();
    assert_eq!(json(&output.expect("it ran"))["acknowledged"], 700);
    let mut stranger = std::os::unix::net::UnixStream::connect(world.path("c.sock")).expect("it listens");
    stranger.write_all(&[b'x'; 64]).expect("sent");
    for line in [
        "logdrive_collector_records_total 700\n",
        "logdrive_collector_sessions 1\n",
        "logdrive_collector_failing 0\n",
        "logdrive_collector_output_records_total{output=\"main\"} 700\n",
        "logdrive_collector_output_failing{output=\"main\"} 0\n",
        "logdrive_collector_ended_total{reason=\"too_large\"} 1\n",
    ] {
        wait_until(line, || ask().is_ok_and(|text| text.contains(line)));
    }
    let text = ask().expect("metrics");
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("logdrive_collector_commit_seconds_count "));
    assert!(count.and_then(|count| count.parse().ok()) > Some(0), "{text}");
    let warned = || {
        std::fs::read_to_string(&told)
            .expect("text")
            .contains("1 connection ended: too_large")
    };
    wait_until("the refusal is told", warned);
    collector.end();
}

/// Writes a configuration: errors to an output of their own, all to the usual one.
fn configure_outputs(world: &World) -> String {
    let config = world.path("collect.toml");
    let text = format!(
        "[[sink]]\nname = \"main\"\nout = \"{main}\"\n\
         [[sink]]\nname = \"errors\"\nout = \"{errors}\"\nsync = true\n\
         [[route]]\nlevel = \"error\"\nsinks = [\"errors\"]\ncontinue = true\n\
         [[route]]\napp = \"a*p\"\nhost = \"*\"\nsinks = [\"main\"]\n",
        main = world.path("out").display(),
        errors = world.path("errors").display(),
    );
    std::fs::write(&config, text).expect("written");
    config.to_str().expect("text").to_owned()
}

/// The messages of an output.
fn messages(world: &World, output: &str) -> Vec<String> {
    let text = std::fs::read_to_string(world.path(output).join("collected.log")).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'));
    let message = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        value["message"].as_str().expect("text").to_owned()
    };
    whole.map(message).collect()
}

over_each_transport!(
    collectors_with_several_outputs_that_are_killed_lose_and_double_nothing,
    kill_collectors_with_several_outputs
);

fn kill_collectors_with_several_outputs(scheme: &str) {
    let world = World::new();
    let transport = Transport::new(&world, scheme);
    let keys = transport.of_collector();
    let config = configure_outputs(&world);
    let options = [&strs(&keys)[..], &["--config", &config]].concat();
    let (collector, address) = World::collect_as(&transport.listen, &options);
    let line = |number: usize| {
        let level = if number.is_multiple_of(3) {
            "ERROR"
        } else {
            "INFO "
        };
        format!("2026-11-25T10:11:12.123456Z {level} [main] shop: line {number}")
    };
    let file = world.path("app.log");
    let mut out = std::fs::File::create(&file).expect("made");
    let path = file.to_str().expect("text").to_owned();
    let options_of_sender = transport.of_sender();
    let follow = [&strs(&options_of_sender)[..], &["--follow"]].concat();
    let mut sender = world.send(&path, &address, &follow);
    let sender = Running(sender.spawn().expect("it starts"));
    let length = |name: &str| {
        world
            .path(name)
            .join("collected.log")
            .metadata()
            .map_or(0, |found| found.len())
    };
    let start = || World::collect_as(&address, &options).0;
    let (mut count, mut running) = (0, Some(collector));
    for cycle in 0..cycles(3) {
        let mut collector = running.take().unwrap_or_else(start);
        let (main, errors) = (length("out"), length("errors"));
        for _ in 0..20 {
            let lines: String = (count..count + 1 + cycle * 37 % 400)
                .map(|number| line(number) + "\n")
                .collect();
            out.write_all(lines.as_bytes()).expect("written");
            count += 1 + cycle * 37 % 400;
        }
        match cycle % 2 {
            0 => wait_until("the log grows", || length("out") != main),
            _ => wait_until("the errors grow", || length("errors") != errors),
        }
        collector.kill();
    }
    let collector = start();
    wait_until_within(limit(), "all is sent", || {
        messages(&world, "out").len() >= count && messages(&world, "errors").len() >= count.div_ceil(3)
    });
    let sent = json(&sender.end());
    assert_eq!(sent["missing"], 0, "{sent}");
    collector.end();
    let message = |number: usize| format!("[main] shop: line {number}");
    assert_eq!(
        messages(&world, "out"),
        (0..count).map(message).collect::<Vec<_>>()
    );
    assert_eq!(
        messages(&world, "errors"),
        (0..count).step_by(3).map(message).collect::<Vec<_>>()
    );
    println!(
        "{scheme}, two outputs: {} kills, {count} records, 0 lost, 0 twice",
        cycles(3)
    );
}

/// Writes a configuration with outputs of these names, and a route of errors to each but the first, which has the rest.
fn configure_routes(world: &World, names: &[&str], more: &str) -> String {
    let mut text = more.to_owned();
    for name in names {
        let out = world.path(name);
        text += &format!("[[sink]]\nname = \"{name}\"\nout = \"{}\"\n", out.display());
    }
    for name in &names[1..] {
        text += &format!("[[route]]\nlevel = \"error\"\nsinks = [\"{name}\"]\n");
    }
    text += &format!("[[route]]\nsinks = [\"{}\"]\n", names[0]);
    let config = world.path("collect.toml");
    std::fs::write(&config, text).expect("written");
    config.to_str().expect("text").to_owned()
}

#[test]
fn a_collector_reads_its_outputs_and_routes_again_on_sighup() {
    let world = World::new();
    let config = configure_routes(&world, &["out"], "");
    let (collector, address) = World::collect_as(&world.address(), &["--config", &config]);
    let file = world.path("app.log");
    let path = file.to_str().expect("text").to_owned();
    let write = |from: usize, to: usize| {
        let line = |number: usize| {
            let level = if number.is_multiple_of(3) {
                "ERROR"
            } else {
                "INFO "
            };
            format!("2026-11-25T10:11:12.123456Z {level} [main] shop: line {number}\n")
        };
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            .expect("opened");
        let text: String = (from..to).map(line).collect();
        file.write_all(text.as_bytes()).expect("written");
    };
    let expected = |numbers: std::ops::Range<usize>, keeps: fn(usize) -> bool| -> Vec<String> {
        let all = numbers.filter(|number| keeps(*number));
        all.map(|number| format!("[main] shop: line {number}")).collect()
    };
    let hangup = || {
        let pid = rustix::process::Pid::from_child(&collector.0);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
    };
    write(0, 900);
    let sender = Running(
        world
            .send(&path, &address, &["--follow"])
            .spawn()
            .expect("it starts"),
    );
    wait_until("all is there", || messages(&world, "out").len() == 900);
    // One that is wrong changes nothing.
    configure_routes(&world, &["out", "errors"], "metrcs = 1\n");
    hangup();
    configure_routes(&world, &["out", "errors"], "");
    hangup();
    wait_until("it is read", || world.path("errors/collected.log").exists());
    write(900, 1_800);
    wait_until("errors are there", || messages(&world, "errors").len() == 300);
    // A directory that cannot be made: what was open is open again.
    std::fs::write(world.path("taken"), "").expect("written");
    configure_routes(&world, &["out", "taken"], "");
    hangup();
    write(1_800, 2_700);
    wait_until("errors are there", || messages(&world, "errors").len() == 600);
    let sent = json(&sender.end());
    assert_eq!(
        (&sent["missing"], &sent["records"]),
        (&0.into(), &2_700.into()),
        "{sent}"
    );
    let numbers = json(&collector.end());
    assert_eq!(
        (&numbers["records"], &numbers["lost"]),
        (&2_700.into(), &0.into()),
        "{numbers}"
    );
    let is_error = |number: usize| number.is_multiple_of(3);
    let mut out = expected(0..900, |_| true);
    out.extend(expected(900..2_700, |number| !number.is_multiple_of(3)));
    assert!(messages(&world, "out") == out, "the rest");
    assert!(
        messages(&world, "errors") == expected(900..2_700, is_error),
        "the errors"
    );
}

/// Without descriptors the accept loop refused 2.26 million times in six seconds.
#[test]
fn a_collector_without_descriptors_waits_and_goes_on() {
    let world = World::new();
    let socket = world.path("c.sock");
    let mut command = std::process::Command::new("sh");
    command
        .args([
            "-c",
            "ulimit -n 40; exec \"$0\" collect --json --listen \"$1\" --out \"$2\"",
        ])
        .arg(env!("CARGO_BIN_EXE_logdrive"))
        .args([
            world.address().as_str(),
            world.path("out").to_str().expect("text"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let collector = Running(command.spawn().expect("it starts"));
    let connect = || std::os::unix::net::UnixStream::connect(&socket);
    wait_until("it listens", || connect().is_ok());
    let held: Vec<_> = (0..100)
        .map(|_| connect().expect("there is room in the queue"))
        .collect();
    let file = world.path("app.log");
    write_lines(&file, 0, 100);
    let file = file.to_str().expect("text");
    let mut sent = world.send(file, &world.address(), &["--end-timeout", "60s"]);
    let sent = Running(sent.spawn().expect("it starts"));
    // Behind all others; each second in which it has to wait costs a few refusals.
    drop(held);
    let output = sent.end_by_itself();
    assert_eq!(json(&output)["acknowledged"], 100, "{output:?}");
    let numbers = json(&collector.end());
    let refused = numbers["ended"]["connections"].as_u64().expect("some");
    assert!((1..100).contains(&refused), "{numbers}");
    check(&world.collected(), 100);
}

over_each_transport!(senders_that_are_killed_go_on_where_they_stopped, kill_senders);

fn kill_senders(scheme: &str) {
    let world = World::new();
    let transport = Transport::new(&world, scheme);
    let (keys, options) = (transport.of_collector(), transport.of_sender());
    let follow = [&strs(&options)[..], &["--follow"]].concat();
    let file = world.path("app.log");
    write_lines(&file, 0, 100);
    let (collector, address) = world.collect(&transport.listen, &strs(&keys));
    let path = file.to_str().expect("text").to_owned();
    let log = world.path("out/collected.log");
    let length = || log.metadata().map_or(0, |found| found.len());
    let mut count = 100;
    for cycle in 0..cycles(3) {
        let before = length();
        let mut sender = Running(world.send(&path, &address, &follow).spawn().expect("it starts"));
        write_lines(&file, count, count + 3_000 + cycle);
        count += 3_000 + cycle;
        wait_until("the log grows", || length() > before);
        sender.kill();
        if cycle % 3 == 0 {
            std::fs::rename(&file, world.path(&format!("app.{cycle:04}.log"))).expect("renamed");
        }
    }
    write_lines(&file, count, count + 1);
    count += 1;
    let output = world
        .send(&path, &address, &strs(&options))
        .output()
        .expect("it ran");
    assert_eq!(json(&output)["missing"], 0, "{output:?}");
    collector.end();
    check(&world.collected(), count);
    println!(
        "{scheme}: {} senders killed, {count} records, 0 lost, 0 twice",
        cycles(3)
    );
}

#[test]
fn each_run_of_a_sender_with_a_spool_is_a_session_of_its_own() {
    let world = World::new();
    let (collector, address) = world.collect(&world.address(), &[]);
    let spool = world.path("spool");
    let spool = spool.to_str().expect("text").to_owned();
    for run in 0..3 {
        let mut sender = world.send("-", &address, &["--app", "app", "--spool", &spool]);
        let mut sender = sender.stdin(Stdio::piped()).spawn().expect("it starts");
        let text = format!("line {run} of this log\n");
        let mut stdin = sender.stdin.take().expect("piped");
        stdin.write_all(text.as_bytes()).expect("written");
        drop(stdin);
        assert!(sender.wait_with_output().expect("it ends").status.success());
    }
    collector.end();
    check(&world.collected(), 3);
}

#[test]
fn what_comes_while_the_collector_is_away_waits_in_the_spool() {
    let world = World::new();
    let address = world.address();
    let spool = world.path("spool");
    let spool = spool.to_str().expect("text").to_owned();
    let more = ["--app", "app", "--spool", &spool, "--end-timeout", "100ms"];
    let mut count = 0;
    for _ in 0..3 {
        // There is no listener: all of it goes to the disk, and the sender's exit status shows it.
        let mut sender = world.send("-", &address, &more);
        let mut sender = sender.stdin(Stdio::piped()).spawn().expect("it starts");
        let text: String = (count..count + 5_000)
            .map(|number| format!("line {number} of this log\n"))
            .collect();
        sender
            .stdin
            .take()
            .expect("piped")
            .write_all(text.as_bytes())
            .expect("written");
        assert_eq!(sender.wait_with_output().expect("it ends").status.code(), Some(1));
        count += 5_000;
    }
    let (collector, _) = world.collect(&address, &[]);
    let output = world
        .send("-", &address, &["--app", "app", "--spool", &spool])
        .output()
        .expect("it ran");
    assert!(output.status.success(), "{output:?}");
    collector.end();
    check(&world.collected(), count);
}
