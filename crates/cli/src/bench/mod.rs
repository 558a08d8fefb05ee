//! `logdrive bench`: what this machine's transports can do.

mod args;
mod measure;

pub(crate) use args::BenchArgs;
use args::{BenchCommand, SCHEMES, TransportArgs};

use crate::error::CliError;
use crate::output::{Output, put_json, titled_note};
use crate::paint::{ColorChoice, Style};
use crate::signals::Signals;
use crate::table::{Side, Table, count_text};
use logdrive_ship::{Address, Options, Threads, TlsFiles, TransportError, make_certificates, serve};
use measure::{Figures, Listener};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Runs the command. `false`: a transport failed, which has been said.
pub(crate) fn run(args: &BenchArgs, color: ColorChoice) -> Result<bool, CliError> {
    let BenchCommand::Transport(args) = &args.what;
    match (&args.listen, &args.to) {
        (Some(address), _) => listen(args, address),
        (None, Some(address)) => {
            let figures = measure::over(args, address, &options(args, None), None)?;
            print(args, &[(address.to_string(), figures)], color).map(|()| true)
        }
        (None, None) => both_ends(args, color),
    }
}

fn options(args: &TransportArgs, tls: Option<TlsFiles>) -> Options {
    let defaults = Options::default();
    Options {
        batch_bytes: args.batch.map_or(defaults.batch_bytes, |bytes| bytes as usize),
        linger: args.linger.unwrap_or(defaults.linger),
        spin: args.spin.unwrap_or(defaults.spin),
        congestion: args.congestion.clone(),
        offload: !args.no_offload,
        insecure: args.insecure,
        tls: tls.unwrap_or_else(|| TlsFiles {
            authorities: args.tls_ca.clone(),
            certificate: args.tls_cert.clone(),
            key: args.tls_key.clone(),
            ..TlsFiles::default()
        }),
        ..defaults
    }
}

fn threads(args: &TransportArgs) -> Threads {
    Threads {
        pollers: args.pollers,
        pool: args.pool,
        dedicated: args.dedicated,
    }
}

fn listen(args: &TransportArgs, address: &Address) -> Result<bool, CliError> {
    let signals = Signals::of_service()?;
    let listener = Arc::new(Listener::default());
    let at = std::slice::from_ref(address);
    let server = serve(at, &options(args, None), threads(args), listener.clone())?;
    for address in server.addresses() {
        writeln!(
            std::io::stderr(),
            "listens at {address}; send with `logdrive bench transport --to {address}`"
        )?;
    }
    // HUP and USR1 have no meaning here.
    while !matches!(signals.wait(Duration::from_secs(3600)), Some(SIGINT | SIGTERM)) {}
    server.stop();
    let (came, lost) = listener.counts();
    writeln!(std::io::stdout(), "{came} messages came, {lost} were lost")?;
    Ok(true)
}

/// A directory for sockets and keys, which goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, CliError> {
        let path = std::env::temp_dir().join(format!("logdrive-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|cause| CliError::Write {
            path: path.clone(),
            cause,
        })?;
        Ok(Self(path))
    }

    fn address(&self, scheme: &str) -> Result<Address, TransportError> {
        let place = match scheme {
            "shm" | "unix" => self.0.join(format!("{scheme}.sock")).display().to_string(),
            _ => "127.0.0.1:0".to_owned(),
        };
        format!("{scheme}://{place}").parse()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies among other temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn both_ends(args: &TransportArgs, color: ColorChoice) -> Result<bool, CliError> {
    let scratch = Scratch::new()?;
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let (server_tls, client_tls) = make_certificates(&scratch.0.join("keys"), &names)?;
    let there = options(args, Some(server_tls));
    let here = options(args, Some(client_tls));
    let measure = |scheme: &str| -> Result<Figures, CliError> {
        let listener = Arc::new(Listener::default());
        let address = scratch.address(scheme)?;
        let server = serve(&[address], &there, threads(args), listener.clone())?;
        let address = server.addresses().first().ok_or(CliError::NothingToListen)?;
        measure::over(args, address, &here, Some(&listener))
    };
    let mut schemes: Vec<&str> = args.transport.iter().map(String::as_str).collect();
    if schemes.is_empty() {
        schemes.extend(SCHEMES);
    }
    let mut rows = Vec::new();
    let mut all_is_well = true;
    for scheme in schemes {
        match measure(scheme) {
            Ok(figures) => rows.push((format!("{scheme}://"), figures)),
            Err(error) => {
                all_is_well = false;
                let text = format_args!("{scheme}: {error}");
                titled_note(color.for_stderr(), Style::Bad, "error", text);
            }
        }
    }
    print(args, &rows, color)?;
    Ok(all_is_well)
}

/// A transport's figures as JSON.
#[derive(Serialize)]
struct Line<'a> {
    transport: &'a str,
    message_bytes: u64,
    #[serde(flatten)]
    figures: &'a Figures,
}

fn print(args: &TransportArgs, rows: &[(String, Figures)], color: ColorChoice) -> Result<(), CliError> {
    let mut output = Output::stdout()?;
    let headings = [
        "transport",
        "one way/s",
        "MB/s",
        "lost",
        "round trips/s",
        "p50 us",
        "p99 us",
        "at once/s",
    ];
    let mut table = Table::new(headings.map(|heading| match heading {
        "transport" => (heading, Side::Left),
        _ => (heading, Side::Right),
    }));
    let text = |value: Option<String>| (Style::Plain, value.unwrap_or_else(|| "-".to_owned()));
    let count = |value: Option<f64>| text(value.map(|value| count_text(value as u64)));
    let time = |value: Option<f64>| text(value.map(|value| format!("{value:.1}")));
    for (transport, figures) in rows {
        if args.json {
            let message_bytes = args.message;
            put_json(
                &mut output,
                &Line {
                    transport,
                    message_bytes,
                    figures,
                },
            )?;
        }
        let per_s = figures.one_way_per_s;
        let lost_style = if figures.lost == 0 {
            Style::Plain
        } else {
            Style::Bad
        };
        table.push([
            text(Some(transport.clone())),
            count(Some(per_s)),
            text(Some(format!("{:.0}", per_s * args.message as f64 / 1e6))),
            (lost_style, count_text(figures.lost)),
            count(figures.round_trips_per_s),
            time(figures.p50_us),
            time(figures.p99_us),
            count(figures.at_once_per_s),
        ]);
    }
    if !args.json {
        output.write_all(table.text(color.for_stdout()).as_bytes())?;
    }
    Ok(output.flush()?)
}
