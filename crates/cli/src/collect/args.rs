//! Arguments of `logdrive collect`.

use super::address;
use crate::config::units::{read_duration, read_size};
use clap::Args;
use logdrive_collector::StoreFormat;
use logdrive_collector::input::InputAddress;
use logdrive_drain::layout::LayoutOptions;
use logdrive_engines::EngineAddress;
use logdrive_ship::Address;
use std::path::PathBuf;
use std::time::Duration;

const COLLECT_EXAMPLES: &str = "\
Examples:
  logdrive collect --out logs --listen unix:///run/user/1000/collect.sock
                                              records of this machine, into logs/collected.log
  logdrive collect --make-certificates keys --name logs.example.org
                                              an authority, a server's and a client's certificate
  logdrive collect --out logs --listen tls://0.0.0.0:7140 --tls-ca keys/authority.pem \\
      --tls-cert keys/server.pem --tls-key keys/server.key
                                              those of other machines that have a certificate
  logdrive collect --out spool --listen unix:///run/c.sock --to kafka://127.0.0.1:9092/logs
                                              to a topic of Kafka; spool has what Kafka has not
  logdrive collect --out logs --input syslog+udp://127.0.0.1:5514 --input http://127.0.0.1:4318
                                              what rsyslog and OpenTelemetry's exporters send
  logdrive collect --out logs --input journald:// --input 'files:///var/log/pods/*/*/*.log'
                                              the journal, and the logs of a node of Kubernetes
  logdrive collect --config collect.toml      as a file says; --print-config shows all keys
  logdrive send app.log --to unix:///run/user/1000/collect.sock
                                              the other end

A record is acknowledged when it is with the kernel (C1), with --sync when it is on disk (C2).
Senders send again what was not acknowledged, and the ledger beside the log says what is in it
already, so that each record is there once.

Signals: HUP opens the logs anew, and reads the certificates and the tables [[sink]] and
[[route]] of --config again: where these have changed, senders are told to come again. Other keys
hold from the next start on. USR1 opens the logs anew. TERM and INT take what has come, and end.
Exit status: 0 all is well, 1 something failed, 2 the command line is wrong.";

/// Take records of other processes and hosts, and write each once
///
/// Listens where it is told, and only on this machine unless TLS or --insecure is given. Writes what `logdrive send` and
/// shipping sinks bring, with the sender's host, process and session as fields of each record. A field of these names that a
/// JSON record has itself gets a number: host becomes host_1.
#[derive(Debug, Args)]
#[command(after_long_help = COLLECT_EXAMPLES)]
pub(crate) struct CollectArgs {
    /// Address to listen at: unix:///PATH, shm:///PATH, tcp://, tls://, quic:// or udp://HOST:PORT; may be given several times
    #[arg(short, long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Vec<Address>,
    /// Source of records of other systems: syslog+udp://, syslog+tcp:// or syslog+tls://ADDRESS:PORT; http://ADDRESS:PORT for
    /// OpenTelemetry, Elasticsearch's bulk, Loki's push and lines; kafka://HOST:PORT/TOPIC?group=NAME; journald://;
    /// files:///PATTERN; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) input: Vec<InputAddress>,
    /// The directory for log and ledger
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// A configuration file in TOML; the command line comes before it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print a commented configuration with all defaults, and end
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Print the statement that makes a table for clickhouse+http://, and end
    #[arg(long)]
    pub(crate) print_schema: bool,
    /// Only check the configuration, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Make the log durable before records are acknowledged
    #[arg(long)]
    pub(crate) sync: bool,
    /// Print the numbers at the end as JSON, and no live line
    #[arg(long)]
    pub(crate) json: bool,

    /// Form of the log: text, or segments, which are compressed and which `logdrive cat` shows as text [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = format, help_heading = "Log")]
    pub(crate) format: Option<StoreFormat>,
    /// Engine that the records go to, such as kafka://HOST:9092/TOPIC or otlp://HOST:4317; --out has those that it does not
    /// have yet
    #[arg(long, value_name = "ENGINE", help_heading = "Log")]
    pub(crate) to: Option<EngineAddress>,
    /// Layout of records: json, text, logfmt, glog, or "pattern ..."; JSON objects stay as they were sent [default: json]
    #[arg(long, value_name = "LAYOUT", help_heading = "Log")]
    pub(crate) layout: Option<LayoutOptions>,
    /// Start a new file before the log would grow beyond this, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| read_size(text), help_heading = "Log")]
    pub(crate) rotate_size: Option<u64>,
    /// Keep at most N older files, compressed with zstd
    #[arg(long, value_name = "N", help_heading = "Log")]
    pub(crate) keep: Option<u32>,

    /// Certificates of the authority whose clients may come
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// This server's certificate
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Encryption")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Encryption")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let clients without a certificate come
    #[arg(long, help_heading = "Encryption")]
    pub(crate) tls_anyone: bool,
    /// Let plain TCP leave this machine
    #[arg(long, help_heading = "Encryption")]
    pub(crate) insecure: bool,
    /// Make certificates for tests and first steps in a directory, and end
    #[arg(long, value_name = "DIR", help_heading = "Encryption")]
    pub(crate) make_certificates: Option<PathBuf>,
    /// A name or address of this server for its certificate; may be given several times
    #[arg(
        long,
        value_name = "NAME",
        requires = "make_certificates",
        help_heading = "Encryption"
    )]
    pub(crate) name: Vec<String>,

    /// Connections at once [default: 16384]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) connections: Option<usize>,
    /// End a connection that is silent for so long [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| read_duration(text), help_heading = "Limits")]
    pub(crate) idle: Option<Duration>,
    /// Threads that wait for sockets [default: 1]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) pollers: Option<usize>,
}

fn format(text: &str) -> Result<StoreFormat, String> {
    match text {
        "text" => Ok(StoreFormat::Text),
        "segments" => Ok(StoreFormat::Segments),
        _ => Err("it is text or segments".to_owned()),
    }
}
