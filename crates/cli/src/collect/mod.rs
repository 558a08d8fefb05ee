//! `logdrive collect`: takes records of other processes and hosts, and writes each once.

mod args;
mod config;
mod metrics;
mod notices;
mod outputs;
mod running;

pub(crate) use args::CollectArgs;

use crate::descriptors::raise_descriptor_limit;
use crate::error::CliError;
use crate::output::service_note;
use crate::paint::ColorChoice;
use crate::signals::Signals;
use logdrive_agent::MetricsServer;
use logdrive_collector::StoreCounts;
use logdrive_engines::CLICKHOUSE_TABLE;
use logdrive_ship::hello::Reason;
use logdrive_ship::{Address, Stats, make_certificates};
use notices::{Notices, is_refusal};
use running::{Counts, RunningCollector};
use signal_hook::consts::{SIGHUP, SIGUSR1};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Permissions of a socket for metrics: those of the collector's user and group may read them.
const METRICS_MODE: u32 = 0o660;

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
    let place = config.metrics.clone();
    let mut collector = RunningCollector::start(config)?;
    collector.tell(color);
    let counts = collector.counts_source();
    let metrics = MetricsServer::start(&place, METRICS_MODE, None, move || metrics::text(&counts()));
    let metrics = metrics.map_err(|cause| CliError::Agent { cause })?;
    watch(&signals, &mut collector, args, color)?;
    drop(metrics);
    let end = collector.stop(color);
    report(&end, args.json)?;
    Ok(!end.total.is_failing)
}

/// Opens the logs anew, and reads the configuration and the certificates again.
fn reload(collector: &mut RunningCollector, args: &CollectArgs, color: ColorChoice) -> Result<(), CliError> {
    collector.reopen();
    if args.config.is_some() {
        match config::configuration(args, color) {
            Ok(Some(config)) => collector.change(config, color)?,
            // Its mistakes have been reported.
            Ok(None) => service_note(color, "note", "the configuration stays as it was"),
            Err(error) => {
                let text = format!("{error}; the configuration stays as it was");
                service_note(color, "note", text);
            }
        }
    }
    match collector.reload_certificates() {
        Ok(true) => service_note(color, "note", "the certificates were read again"),
        Ok(false) => {}
        Err(error) => {
            let text = format!("{error}; the certificates of before are used on");
            service_note(color, "note", text);
        }
    }
    Ok(())
}

fn watch(
    signals: &Signals,
    collector: &mut RunningCollector,
    args: &CollectArgs,
    color: ColorChoice,
) -> Result<(), CliError> {
    let is_live = !args.json && io::stderr().is_terminal();
    let mut before = StoreCounts::default();
    let mut notices = Notices::default();
    loop {
        match signals.wait(TURN) {
            Some(SIGHUP) => reload(collector, args, color)?,
            Some(SIGUSR1) => collector.reopen(),
            Some(_) => break,
            None => {}
        }
        for notice in collector.notices() {
            service_note(color, "note", &notice);
        }
        let Counts {
            stats, total: counts, ..
        } = collector.counts();
        for warning in notices.due(&stats, &counts, Instant::now()) {
            service_note(color, "warning", warning);
        }
        if is_live && counts != before {
            let per_s = (counts.records - before.records) as f64 / TURN.as_secs_f64();
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
    Ok(())
}

/// Connections that ended because of an error.
fn refusals(stats: &Stats) -> u64 {
    let ended = stats.ended.iter().enumerate();
    ended
        .filter(|(reason, _)| is_refusal(*reason))
        .map(|(_, count)| count)
        .sum()
}

fn report(end: &Counts, json: bool) -> Result<(), CliError> {
    let Counts {
        stats,
        total: counts,
        deliveries,
        ..
    } = end;
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
