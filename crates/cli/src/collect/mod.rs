//! `logdrive collect`: takes records of other processes and hosts, and writes each once.

mod args;
mod config;
mod metrics;
mod notices;
mod outputs;

pub(crate) use args::CollectArgs;

use crate::descriptors::raise_descriptor_limit;
use crate::error::CliError;
use crate::output::service_note;
use crate::paint::ColorChoice;
use crate::signals::Signals;
use logdrive_agent::MetricsServer;
use logdrive_collector::input::Inputs;
use logdrive_collector::{Outputs, StoreCounts};
use logdrive_engines::{CLICKHOUSE_TABLE, Delivery, DeliveryCounts};
use logdrive_ship::hello::Reason;
use logdrive_ship::{Address, ServerHandle, Stats, Threads, make_certificates, serve};
use notices::{Notices, is_refusal};
use signal_hook::consts::{SIGHUP, SIGUSR1};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Permissions of a socket for metrics: those of the collector's user and group may read them.
const METRICS_MODE: u32 = 0o660;

/// Time for deliveries to engines at the end; what is left is delivered after the next start.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which the live line is drawn, and signals are taken.
const TURN: Duration = Duration::from_millis(250);

/// Runs the collector until it is told to end. `false` when it could not start as configured, which has been reported.
pub(crate) fn run(args: &CollectArgs, color: ColorChoice) -> Result<bool, CliError> {
    if let Some(directory) = &args.make_certificates {
        let names: Vec<String> = match args.name.is_empty() {
            true => ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into(),
            false => args.name.clone(),
        };
        make_certificates(directory, &names)?;
        let place = directory.display();
        let text = format!("authority.pem, server.pem, client.pem and their keys in {place}");
        service_note(color, "made", text);
        return Ok(true);
    }
    if args.print_schema {
        write!(io::stdout(), "{}", CLICKHOUSE_TABLE.replace("{table}", "logs"))?;
        return Ok(true);
    }
    let signals = Signals::of_service()?;
    // Each connection takes a descriptor. Where there may be no more, there are fewer connections, which is counted.
    raise_descriptor_limit();
    let Some(config) = config::configuration(args, color)? else {
        return Ok(false);
    };
    if args.check {
        service_note(color, "sound", "the collector would start with this");
        return Ok(true);
    }
    let (outputs, deliveries) = outputs::open(&config.outputs, &config.routes)?;
    let (store, deliveries) = (Arc::new(outputs), Arc::new(deliveries));
    let threads = Threads {
        pollers: config.pollers,
        ..Threads::default()
    };
    let server = serve(&config.listen, &config.options, threads, store.clone())?;
    for address in server.addresses() {
        service_note(color, "listens", format_args!("on {address}"));
    }
    let inputs = match &config.inputs_to {
        Some(to) => Inputs::start(&config.inputs, to)?,
        None => None,
    };
    for input in &config.inputs {
        service_note(color, "takes", format_args!("records at {input}"));
    }
    let inputs = Arc::new(inputs);
    for output in store.stores() {
        service_note(color, "writes", output.path().display());
    }
    for delivery in deliveries.iter() {
        service_note(color, "delivers", format_args!("to {}", delivery.to()));
    }
    let (stats, shown, delivered) = (server.stats_source(), store.clone(), deliveries.clone());
    let taken = Arc::clone(&inputs);
    let metrics = MetricsServer::start(&config.metrics, METRICS_MODE, None, move || {
        let inputs = taken.as_ref().as_ref().map_or(Vec::new(), Inputs::counts);
        metrics::text(&stats(), &shown.total(), &delivered, &inputs)
    });
    let metrics = metrics.map_err(|cause| CliError::Agent { cause })?;
    watch(&signals, &server, &store, &deliveries, color, args.json);
    drop(metrics);
    // Before the server, to which they pass what they have.
    drop(inputs);
    let stats = server.stop();
    store.close();
    let ends = end_deliveries(&deliveries, color);
    let total = store.total();
    report(&stats, &total, &ends, args.json)?;
    Ok(!total.is_failing)
}

/// Delivers what has come, for [`DELIVERY_TIMEOUT`] at most.
fn end_deliveries(deliveries: &[Delivery], color: ColorChoice) -> Vec<(String, DeliveryCounts)> {
    deliveries
        .iter()
        .for_each(|delivery| delivery.begin_stop(DELIVERY_TIMEOUT));
    let end = |delivery: &Delivery| {
        delivery.wait();
        tell_deliveries(std::slice::from_ref(delivery), color);
        (delivery.to().to_string(), delivery.counts())
    };
    deliveries.iter().map(end).collect()
}

fn tell_deliveries(deliveries: &[Delivery], color: ColorChoice) {
    for delivery in deliveries {
        for notice in delivery.notices() {
            service_note(color, "note", notice);
        }
    }
}

fn watch(
    signals: &Signals,
    server: &ServerHandle,
    store: &Outputs,
    deliveries: &[Delivery],
    color: ColorChoice,
    json: bool,
) {
    let is_live = !json && io::stderr().is_terminal();
    let mut before = StoreCounts::default();
    let mut notices = Notices::default();
    loop {
        match signals.wait(TURN) {
            Some(SIGHUP) => {
                store.reopen();
                match server.reload_certificates() {
                    Ok(true) => service_note(color, "note", "the certificates were read again"),
                    Ok(false) => {}
                    Err(error) => {
                        let text = format!("{error}; the certificates of before are used on");
                        service_note(color, "note", text);
                    }
                }
            }
            Some(SIGUSR1) => store.reopen(),
            Some(_) => break,
            None => {}
        }
        for notice in store.notices() {
            service_note(color, "note", &notice);
        }
        tell_deliveries(deliveries, color);
        let counts = store.total();
        for warning in notices.due(&server.stats(), &counts, Instant::now()) {
            service_note(color, "warning", warning);
        }
        if is_live && counts != before {
            let per_s = (counts.records - before.records) as f64 / TURN.as_secs_f64();
            let stats = server.stats();
            // If it cannot be shown, the log still grows.
            let _ = write!(
                io::stderr(),
                "\r\x1b[K{} records, {per_s:.0}/s, {} connections, {} refused ",
                counts.records,
                stats.connections,
                refusals(&stats)
            );
        }
        before = counts;
    }
    if is_live {
        // As above.
        let _ = writeln!(io::stderr());
    }
}

/// Connections that ended because of an error.
fn refusals(stats: &Stats) -> u64 {
    let ended = stats.ended.iter().enumerate();
    ended
        .filter(|(reason, _)| is_refusal(*reason))
        .map(|(_, count)| count)
        .sum()
}

fn report(
    stats: &Stats,
    counts: &StoreCounts,
    deliveries: &[(String, DeliveryCounts)],
    json: bool,
) -> Result<(), CliError> {
    let ended: serde_json::Map<String, serde_json::Value> = Reason::NAMES
        .iter()
        .zip(stats.ended)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| ((*name).to_owned(), count.into()))
        .collect();
    let mut out = io::stdout();
    if json {
        let object = serde_json::json!({
            "records": counts.records,
            "duplicates": counts.duplicates,
            "refused_sessions": counts.refused,
            "lost": counts.lost,
            "bytes": counts.bytes,
            "sessions": counts.sessions,
            "connections": stats.accepted,
            "ended": ended,
            "deliveries": deliveries.iter().map(|(to, counts)| serde_json::json!({
                "to": to,
                "records": counts.records,
                "retries": counts.retries,
                "dead_letters": counts.dead_letters,
                "lost": counts.lost,
                "left": counts.lag_records,
                "error": counts.error,
            })).collect::<Vec<_>>(),
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} records of {} sessions written, {} came twice and were left out, {} lost by their senders",
        counts.records, counts.sessions, counts.duplicates, counts.lost
    )?;
    for (to, counts) in deliveries {
        writeln!(
            out,
            "  {} records delivered to {to}, {} are left, {} are dead letters",
            counts.records, counts.lag_records, counts.dead_letters
        )?;
    }
    for (name, count) in ended {
        writeln!(out, "  {count} connections ended: {name}")?;
    }
    Ok(())
}

/// Reads an address that records go to or come from.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    text.parse()
        .map_err(|error: logdrive_ship::TransportError| error.to_string())
}
