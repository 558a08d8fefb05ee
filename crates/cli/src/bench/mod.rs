//! `logdrive bench`: what this machine's transports can do.

mod args;
mod measure;

pub(crate) use args::BenchArgs;
use args::{BenchCommand, Scheme, TransportArgs};

use crate::error::CliError;
use crate::paint::{ColorChoice, Style};
use crate::signals::Signals;
use crate::table::{Side, Table, count_text};
use logdrive_ship::{Address, Options, Threads, TlsFiles, TransportError, make_certificates, serve};
use measure::{Figures, Listener};
use std::io::Write;
use std::path::{Path, PathBuf};
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
    while !matches!(signals.wait(Duration::from_secs(3600)), Some(signal) if measure::ends(signal)) {}
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

    fn address(&self, scheme: Scheme) -> Result<Address, TransportError> {
        match scheme {
            Scheme::Shm | Scheme::Unix => {
                let name = scheme.name();
                format!("{name}://{}", self.0.join(format!("{name}.sock")).display()).parse()
            }
            _ => format!("{}://127.0.0.1:0", scheme.name()).parse(),
        }
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
    let (server_tls, client_tls) = make_certificates(Path::new(&scratch.0.join("keys")), &names)?;
    let chosen = match args.transport.is_empty() {
        true => &Scheme::ALL[..],
        false => &args.transport[..],
    };
    let mut rows = Vec::new();
    let mut all_is_well = true;
    for scheme in chosen {
        let measured = scratch
            .address(*scheme)
            .map_err(CliError::from)
            .and_then(|address| {
                let listener = Arc::new(Listener::default());
                let options_there = options(args, Some(server_tls.clone()));
                let server = serve(&[address], &options_there, threads(args), listener.clone())?;
                let options = options(args, Some(client_tls.clone()));
                let address = server.addresses().first().cloned();
                address.map_or(Err(CliError::NothingToListen), |address| {
                    measure::over(args, &address, &options, Some(&listener))
                })
            });
        match measured {
            Ok(figures) => rows.push((format!("{}://", scheme.name()), figures)),
            Err(error) => {
                all_is_well = false;
                let title = color.for_stderr().the(Style::Bad, "error:");
                writeln!(std::io::stderr(), "{title} {}: {error}", scheme.name())?;
            }
        }
    }
    print(args, &rows, color)?;
    Ok(all_is_well)
}

fn print(args: &TransportArgs, rows: &[(String, Figures)], color: ColorChoice) -> Result<(), CliError> {
    let mut out = std::io::stdout();
    if args.json {
        for (name, figures) in rows {
            writeln!(out, "{}", figures.json(name, args.message))?;
        }
        return Ok(());
    }
    let mut table = Table::new([
        ("transport", Side::Left),
        ("one way/s", Side::Right),
        ("MB/s", Side::Right),
        ("lost", Side::Right),
        ("round trips/s", Side::Right),
        ("p50 us", Side::Right),
        ("p99 us", Side::Right),
        ("at once/s", Side::Right),
    ]);
    for (name, figures) in rows {
        let or_none = |value: Option<f64>, decimals: usize| {
            (
                Style::Plain,
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}")),
            )
        };
        let count = |value: Option<f64>| {
            (
                Style::Plain,
                value.map_or_else(|| "-".to_owned(), |value| count_text(value as u64)),
            )
        };
        let per_s = figures.one_way_per_s;
        table.push([
            (Style::Plain, name.clone()),
            count(Some(per_s)),
            or_none(Some(per_s * args.message as f64 / 1e6), 0),
            (
                if figures.lost == 0 {
                    Style::Plain
                } else {
                    Style::Bad
                },
                count_text(figures.lost),
            ),
            count(figures.echo_per_s),
            or_none(figures.p50_us, 1),
            or_none(figures.p99_us, 1),
            count(figures.at_once_per_s),
        ]);
    }
    write!(out, "{}", table.text(color.for_stdout()))?;
    Ok(())
}
