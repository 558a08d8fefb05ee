//! Real engines from package registries, and a proof of each output and input against them: records with numbers go through
//! sender and collector to the engine, or from a program to an input, while these are killed and halted, and are counted.

mod clickhouse;
mod go_module;
mod http;
mod input_proof;
mod journald;
mod kafka;
mod load;
mod loki;
mod maven;
mod nginx;
mod opensearch;
mod otlp;
mod process;
mod proof;
mod s3;
mod server;
mod syslog;
mod victoria_logs;

use crate::args::{Args, Form};
use crate::paint;
use crate::programs;
use crate::shell::{self, Failure, GO, Outcome, Tool};
use proof::{Counts, ProofOptions};
use server::{Kind, Side};
use std::path::Path;
use std::time::Duration;

const JAVA: Tool = Tool {
    name: "Java",
    probe: &["java", "-version"],
    how: "apt-get install default-jre-headless (Debian, Ubuntu)",
};

/// Kinds from rows of a name, cycles, the function that starts it, tools, and what it is.
macro_rules! kinds {
    ($($name:literal $cycles:literal $side:ident $start:path, $tools:expr, $about:literal;)*) => {
        &[$(Kind { name: $name, about: $about, tools: $tools, cycles: $cycles, side: Side::$side($start) }),*]
    };
}

const KINDS: &[Kind] = kinds! {
    "kafka" 100 Output kafka::start, &[&JAVA, &maven::MAVEN], "three brokers of Kafka 4.3.1, from Maven";
    "otlp" 30 Output otlp::start_grpc, &[&GO], "the OpenTelemetry Collector 0.155 by gRPC, from Go modules";
    "otlp-http" 30 Output otlp::start_http, &[&GO], "the OpenTelemetry Collector 0.155 by HTTP, from Go modules";
    "opensearch" 30 Output opensearch::start, &[&JAVA, &maven::MAVEN], "a node of OpenSearch 2.19.1, from Maven";
    "clickhouse" 30 Output clickhouse::start, &[&clickhouse::PYTHON], "ClickHouse's engine (chdb 4.4.0 from PyPI) behind a shim of its HTTP interface";
    "s3" 100 Output s3::start, &[&GO], "versitygw 1.8.0 over a directory, from Go modules";
    "loki" 30 Output loki::start, &[&GO], "Loki 3.7.8, from Go modules";
    "victorialogs" 30 Output victoria_logs::start, &[&GO], "VictoriaLogs 1.52.1, from Go modules";
    "syslog" 30 Output syslog::start, &[&syslog::RSYSLOG], "rsyslog by TCP, from Debian";
    "kafka-input" 30 Input kafka::start_origin, &[&JAVA, &maven::MAVEN], "a topic of three brokers, written by Kafka's own producer";
    "journald-input" 30 Input journald::start, &[&journald::JOURNALD], "systemd-journald with a namespace of its own, from Debian";
    "files-input" 30 Input nginx::start, &[&nginx::NGINX], "the access log of nginx, from Debian, which is rotated";
    "syslog-input" 30 Input syslog::start_origin, &[&syslog::RSYSLOG, &syslog::GNUTLS], "rsyslog by TLS, from Debian";
};

/// Records when none are given, and with `--quick`.
const RECORDS: (u64, u64) = (2_000_000, 100_000);
/// Cycles with `--quick`.
const CYCLES_QUICK: u64 = 6;

/// Proves the outputs, or one of them.
pub(crate) fn run(args: &[String]) -> Outcome {
    let form = Form {
        switches: &["quick", "keep"],
        options: &["only", "records", "cycles", "seed", "program"],
        ..Form::default()
    };
    let own = Args::read(args, &form)?;
    let only = own.value("only");
    let kinds: Vec<&Kind> = KINDS
        .iter()
        .filter(|kind| only.is_none_or(|only| only == kind.name))
        .collect();
    if kinds.is_empty() {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        return Err(Failure::usage(format!(
            "`--only` wants one of {}",
            names.join(", ")
        )));
    }
    let seed = own.number("seed")?.unwrap_or_else(|| fastrand::u64(..1_000_000));
    eprintln!("seed {seed}");
    fastrand::seed(seed);
    let is_quick = own.switch("quick");
    let (records, cycles) = (own.number("records")?, own.number("cycles")?);
    let options = |kind: &Kind| ProofOptions {
        records: records.unwrap_or(if is_quick { RECORDS.1 } else { RECORDS.0 }),
        cycles: cycles.unwrap_or(if is_quick { CYCLES_QUICK } else { kind.cycles }),
        cut: Duration::from_secs(if is_quick { 5 } else { 60 }),
    };
    let target = shell::target_dir(&shell::root()?)?;
    let program = match own.value("program") {
        Some(given) => Path::new(given).to_owned(),
        None => {
            programs::build("--package logdrive-cli", &[])?;
            target.join("release/logdrive")
        }
    };
    let mut table = Vec::new();
    for kind in kinds {
        eprintln!("{}: {}", kind.name, kind.about);
        let proved = match shell::first_missing(kind.tools) {
            Some(tool) => Err(tool.missing()),
            None => prove(kind, &target, &program, options(kind), own.switch("keep"))
                .map_err(|failure| failure.message),
        };
        table.push((kind.name, proved));
    }
    show(&table)
}

fn prove(
    kind: &Kind,
    target: &Path,
    program: &Path,
    options: ProofOptions,
    keeps: bool,
) -> Result<Counts, Failure> {
    let top = target.join("engines").join(kind.name);
    let (tools, data) = (top.join("tools"), top.join("run"));
    let cannot = |cause| Failure::new(format!("{} cannot be used: {cause}", top.display()), "");
    match std::fs::remove_dir_all(&data) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(cannot(cause)),
        _ => {}
    }
    for directory in [&tools, &data] {
        std::fs::create_dir_all(directory).map_err(cannot)?;
    }
    let counts = match kind.side {
        Side::Output(start) => proof::run(start(&tools, &data, program)?.as_mut(), &data, program, options)?,
        Side::Input(start) => {
            input_proof::run(start(&tools, &data, program)?.as_mut(), &data, program, options)?
        }
    };
    if !keeps && is_good(&counts) {
        std::fs::remove_dir_all(&data).map_err(cannot)?;
    }
    Ok(counts)
}

fn is_good(counts: &Counts) -> bool {
    let has_no_twins = counts.twins_by_id == 0 || counts.may_repeat;
    (counts.lost == 0 || counts.may_lose) && has_no_twins && counts.dead_letters == counts.poison
}

/// Prints the table. Fails where something was lost, or is there twice.
fn show(table: &[(&str, Result<Counts, String>)]) -> Outcome {
    println!(
        "{:<14} {:>10} {:>6} {:>6} {:>7} {:>7} {:>12} {:>10} {:>14}",
        "engine", "records", "cycles", "lost", "twins", "by id", "dead letters", "records/s", "CPU s/million"
    );
    let mut is_all_good = true;
    for (name, proved) in table {
        match proved {
            Err(why) => println!("{name:<14} skipped: {why}"),
            Ok(counts) => {
                is_all_good &= is_good(counts);
                let mark = if is_good(counts) { "" } else { "  WRONG" };
                let dead = format!("{}/{}", counts.dead_letters, counts.poison);
                println!(
                    "{name:<14} {:>10} {:>6} {:>6} {:>7} {:>7} {dead:>12} {:>10} {:>14.2}{}",
                    counts.records,
                    counts.cycles,
                    counts.lost,
                    counts.twins,
                    counts.twins_by_id,
                    counts.rate,
                    counts.cpu_nanos as f64 / 1000.0,
                    paint::bad(mark)
                );
            }
        }
    }
    match is_all_good {
        true => Ok(()),
        false => Err(Failure::new(
            "records are missing, twice, or dead letters without a reason",
            "logs and data are in target/engines; `--seed` repeats the choice of faults",
        )),
    }
}
