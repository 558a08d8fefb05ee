//! Arguments of `logdrive bench`.

use crate::collect::address;
use crate::config::units::{read_duration, read_size};
use clap::{Args, Subcommand};
use logdrive_ship::Address;
use std::path::PathBuf;
use std::time::Duration;

const TRANSPORT_EXAMPLES: &str = "\
Examples:
  logdrive bench transport                    every transport of this machine, both ends here
  logdrive bench transport --transport shm,unix --message 10KiB --spin 50us
                                              two of them, with ends that look before they sleep
  logdrive bench transport --listen tcp://127.0.0.1:7150
                                              the receiving end, until TERM or INT
  logdrive bench transport --to tcp://127.0.0.1:7150
                                              the sending end, against one that listens
  logdrive bench transport --json | jq .one_way_per_s

One way, messages are numbered and collected into batches; the rate is that of those that came,
and what was lost is counted. Round trips are one by one, then --concurrency at once.
Exit status: 0 all is well, 1 a transport failed, 2 the command line is wrong.";

const BENCH_EXAMPLES: &str = "\
Examples:
  logdrive bench transport                    every transport of this machine
  logdrive bench transport --help             what can be chosen";

/// Measure what this machine can do
#[derive(Debug, Args)]
#[command(after_long_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: BenchCommand,
}

/// Measurement to make.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Transport(Box<TransportArgs>),
}

/// Heading of the options that a receiving and a sending end have.
const BOTH_ENDS: &str = "Options of both ends";

/// Transports by their schemes.
pub(crate) const SCHEMES: [&str; 6] = ["shm", "unix", "tcp", "tls", "quic", "udp"];

/// Messages one way and round trips over the transports
///
/// Both ends are in this process, on threads of their own, unless --listen or --to says otherwise; certificates for tls
/// and quic are made for it then. Nothing is kept.
#[derive(Debug, Args)]
#[command(after_long_help = TRANSPORT_EXAMPLES)]
pub(crate) struct TransportArgs {
    /// Which transports [default: all]
    #[arg(
        short, long, value_name = "NAME", value_parser = SCHEMES, value_delimiter = ',',
        conflicts_with_all = ["to", "listen"]
    )]
    pub(crate) transport: Vec<String>,
    /// Send to one that listens there
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "listen")]
    pub(crate) to: Option<Address>,
    /// Be the receiving end only
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<Address>,
    /// Bytes of a message
    #[arg(short, long, value_name = "SIZE", default_value = "85B", value_parser = |text: &str| read_size(text))]
    pub(crate) message: u64,
    /// How long each measurement takes
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = |text: &str| read_duration(text))]
    pub(crate) time: Duration,
    /// Requests under way at once
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    pub(crate) concurrency: usize,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    /// Bytes that are sent at once [default: 64KiB]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| read_size(text), help_heading = BOTH_ENDS)]
    pub(crate) batch: Option<u64>,
    /// How long a message may wait for others; 0 sends each at once [default: 200us]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| read_duration(text), help_heading = BOTH_ENDS)]
    pub(crate) linger: Option<Duration>,
    /// How long an end that waits looks before it sleeps [default: 0]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| read_duration(text), help_heading = BOTH_ENDS)]
    pub(crate) spin: Option<Duration>,
    /// TCP congestion control by its kernel name, such as cubic
    #[arg(long, value_name = "NAME", help_heading = BOTH_ENDS)]
    pub(crate) congestion: Option<String>,
    /// Without the kernel's help for datagrams (GSO, GRO)
    #[arg(long, help_heading = BOTH_ENDS)]
    pub(crate) no_offload: bool,
    /// Answer requests on so many threads of a pool, 0 for the poller's own
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = BOTH_ENDS)]
    pub(crate) pool: usize,
    /// Threads that wait for sockets
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = BOTH_ENDS)]
    pub(crate) pollers: usize,
    /// Threads that each serve one busy unix or tcp connection
    #[arg(
        long = "dedicated-threads",
        value_name = "N",
        default_value_t = 2,
        help_heading = BOTH_ENDS
    )]
    pub(crate) dedicated: usize,
    /// Let plain TCP and UDP leave this machine
    #[arg(long, help_heading = BOTH_ENDS)]
    pub(crate) insecure: bool,

    /// Certificates of the authority of the other end
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// This end's certificate
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Encryption")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Encryption")]
    pub(crate) tls_key: Option<PathBuf>,
}
