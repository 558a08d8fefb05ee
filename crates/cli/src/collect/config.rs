//! The collector's configuration: a file in TOML, and the command line before it. All that is wrong with a file is told
//! at once, each with its line, its key and what is allowed.

use super::CollectArgs;
use super::values::{
    Wrong, addresses, bytes, bytes_within, flag, is_off, number, parsed, read_keys, size, text, time,
    time_within, word,
};
use crate::config::problem::Problem;
use crate::error::CliError;
use crate::paint::ColorChoice;
use logdrive_agent::config::limits::{KEEP_AGE, ROTATE_EVERY};
use logdrive_drain::file::{Compress, Every, FileOptions};
use logdrive_ship::limits::{DECOMPRESSED_BYTES_MAX, FRAME_BYTES_MAX, HELLO_BYTES_MAX};
use logdrive_ship::{Address, Options};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// What the collector does.
#[derive(Debug, Clone)]
pub(super) struct CollectConfig {
    pub(super) listen: Vec<Address>,
    pub(super) file: FileOptions,
    pub(super) sync: bool,
    pub(super) pollers: usize,
    pub(super) options: Options,
}

/// The commented default.
pub(super) const COMMENTED: &str = "\
# Configuration of `logdrive collect`. A key with # before it shows its default; the command line comes before the file.

# Where to listen. Only this machine's own addresses, unless it is tls:// or quic://, or insecure = true.
listen = [\"unix:///run/logdrive/collect.sock\"]

# The directory for collected.log and its ledger.
out = \"/var/log/logdrive\"

# Make the log durable before records are acknowledged: level C2 instead of C1.
#sync = false

# Start a new file before the log would grow beyond this; sizes have units: \"64 MiB\".
#rotate_bytes = \"1 GiB\"

# Start a new file after this time: \"hourly\", \"daily\", a time of at least \"1m\", or \"off\".
#rotate_every = \"off\"

# Keep at most so many older files, 1 to 9999; none whose last record is older than this; and at most so many bytes of them.
#keep_files = 16
#keep_age = \"off\"
#keep_bytes = \"off\"

# How older files are compressed: zstd, gzip or none.
#compress = \"zstd\"

# Files in PEM for tls:// and quic://: the authority whose clients may come, and this server's own certificate and key.
#tls_authorities = \"/etc/logdrive/authority.pem\"
#tls_certificate = \"/etc/logdrive/server.pem\"
#tls_key = \"/etc/logdrive/server.key\"

# Let clients without a certificate come.
#tls_anyone = false

# Let plain TCP leave this machine.
#insecure = false

# Connections at once; 1 to 1000000. Each costs some KiB.
#connections = 16384

# Bytes of partial frames and answers of all connections together. While more than half is taken, long frames wait, and who
# takes over a second for one is sent away.
#pending_bytes = \"128 MiB\"

# Bytes that one sender may have under way before any of them are acknowledged, and of a batch after decompression, 1 MiB to
# 8 MiB.
#peer_bytes = \"8 MiB\"
#decompressed_bytes = \"8 MiB\"

# Bytes of one frame, compressed; 1 KiB to 1 MiB.
#frame_bytes = \"1 MiB\"

# End a connection that is silent for so long, or that has not said hello after so long.
#idle = \"30s\"
#handshake = \"5s\"

# Threads that wait for sockets; 1 to 64.
#pollers = 1

# How long such a thread looks before it sleeps, at most \"1s\". Costs a processor while it does, and answers sooner.
#spin = \"0s\"
";

const KEYS: [&str; 23] = [
    "listen",
    "out",
    "sync",
    "rotate_bytes",
    "rotate_every",
    "keep_files",
    "keep_age",
    "keep_bytes",
    "compress",
    "tls_authorities",
    "tls_certificate",
    "tls_key",
    "tls_anyone",
    "insecure",
    "connections",
    "pending_bytes",
    "peer_bytes",
    "decompressed_bytes",
    "frame_bytes",
    "idle",
    "handshake",
    "pollers",
    "spin",
];

/// What is asked for. `None` when it is wrong, or was only to be printed, which has been done.
pub(super) fn configuration(
    args: &CollectArgs,
    color: ColorChoice,
) -> Result<Option<CollectConfig>, CliError> {
    if args.print_config {
        io::stdout().write_all(COMMENTED.as_bytes())?;
        std::process::exit(0);
    }
    let mut given = Given::default();
    if let Some(path) = &args.config {
        match parsed(path, color, parse)? {
            Some(found) => given = found,
            None => return Ok(None),
        }
    }
    given.put_before(args);
    given.finish().map(Some)
}

/// What was said, in the file or on the command line.
#[derive(Debug, Clone, Default)]
struct Given {
    listen: Vec<Address>,
    out: Option<PathBuf>,
    sync: bool,
    rotate_bytes: Option<u64>,
    rotate_every: Option<Every>,
    keep_files: Option<u32>,
    keep_age: Option<Duration>,
    keep_bytes: Option<u64>,
    compress: Option<Compress>,
    pollers: Option<usize>,
    options: Options,
}

impl Given {
    fn put_before(&mut self, args: &CollectArgs) {
        if !args.listen.is_empty() {
            self.listen.clone_from(&args.listen);
        }
        self.out = args.out.clone().or(self.out.take());
        self.sync |= args.sync;
        self.rotate_bytes = args.rotate_size.or(self.rotate_bytes);
        self.keep_files = args.keep.or(self.keep_files);
        self.pollers = args.pollers.or(self.pollers);
        let options = &mut self.options;
        options.insecure |= args.insecure;
        options.connections_max = args.connections.unwrap_or(options.connections_max);
        options.idle_timeout = args.idle.unwrap_or(options.idle_timeout);
        let tls = &mut options.tls;
        tls.anyone |= args.tls_anyone;
        for (place, given) in [
            (&mut tls.authorities, &args.tls_ca),
            (&mut tls.certificate, &args.tls_cert),
            (&mut tls.key, &args.tls_key),
        ] {
            if given.is_some() {
                place.clone_from(given);
            }
        }
    }

    fn finish(self) -> Result<CollectConfig, CliError> {
        if self.listen.is_empty() {
            return Err(CliError::NothingToListen);
        }
        let out = self.out.ok_or(CliError::NowhereToCollect)?;
        let mut file = FileOptions::new(out.join("collected.log"));
        file.rotate_bytes = Some(self.rotate_bytes.unwrap_or(1 << 30));
        file.rotate_every = self.rotate_every;
        file.keep_files = Some(self.keep_files.unwrap_or(16));
        file.keep_age = self.keep_age;
        file.keep_bytes = self.keep_bytes;
        file.compress = self.compress.unwrap_or(Compress::Zstd);
        Ok(CollectConfig {
            listen: self.listen,
            file,
            sync: self.sync,
            pollers: self.pollers.unwrap_or(1),
            options: self.options,
        })
    }
}

/// `None`: by size alone.
fn every(value: &Spanned<DeValue<'_>>) -> Result<Option<Every>, Wrong> {
    const ALLOWED: &str = "\"hourly\", \"daily\", a time from \"1m\", or \"off\"";
    match value.get_ref().as_str() {
        Some("off") => Ok(None),
        Some("hourly") => Ok(Some(Every::Hourly)),
        Some("daily") => Ok(Some(Every::Daily)),
        _ => {
            let found = time_within(value, &ROTATE_EVERY, ALLOWED)?;
            Ok(Some(Every::Seconds(found.as_secs())))
        }
    }
}

/// Reads a file's text.
fn parse(text: &str) -> Result<Given, Vec<Problem>> {
    let mut given = Given::default();
    read_keys(text, &KEYS, |key, value| given.set(key, value))?;
    Ok(given)
}

impl Given {
    fn set(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let options = &mut self.options;
        match key {
            "listen" => self.listen = addresses(value)?,
            "out" => self.out = Some(text(value)?.into()),
            "sync" => self.sync = flag(value)?,
            "rotate_bytes" => self.rotate_bytes = Some(size(value)?),
            "rotate_every" => self.rotate_every = every(value)?,
            "keep_files" => self.keep_files = Some(number(value, 1..=9_999, "1 to 9999")? as u32),
            "keep_age" if is_off(value) => self.keep_age = None,
            "keep_age" => {
                self.keep_age = Some(time_within(value, &KEEP_AGE, "a time from \"1m\", or \"off\"")?)
            }
            "keep_bytes" if is_off(value) => self.keep_bytes = None,
            "keep_bytes" => self.keep_bytes = Some(size(value)?),
            "compress" => {
                let words = [
                    ("zstd", Compress::Zstd),
                    ("gzip", Compress::Gzip),
                    ("none", Compress::None),
                ];
                self.compress = Some(word(value, &words, "\"zstd\", \"gzip\" or \"none\"")?);
            }
            "tls_authorities" => options.tls.authorities = Some(text(value)?.into()),
            "tls_certificate" => options.tls.certificate = Some(text(value)?.into()),
            "tls_key" => options.tls.key = Some(text(value)?.into()),
            "tls_anyone" => options.tls.anyone = flag(value)?,
            "insecure" => options.insecure = flag(value)?,
            "connections" => options.connections_max = number(value, 1..=1_000_000, "1 to 1000000")?,
            "pending_bytes" => options.pending_bytes_max = bytes(value)?,
            "peer_bytes" => options.credit_bytes = size(value)?,
            "decompressed_bytes" => {
                let range = FRAME_BYTES_MAX..=DECOMPRESSED_BYTES_MAX;
                options.decompressed_bytes_max = bytes_within(value, &range, "\"1 MiB\" to \"8 MiB\"")?;
            }
            "frame_bytes" => {
                let range = HELLO_BYTES_MAX..=FRAME_BYTES_MAX;
                options.frame_bytes_max = bytes_within(value, &range, "\"1 KiB\" to \"1 MiB\"")?;
            }
            "idle" => options.idle_timeout = time(value)?,
            "handshake" => options.handshake_timeout = time(value)?,
            "spin" => {
                let range = Duration::ZERO..=Duration::from_secs(1);
                options.spin = time_within(value, &range, "a time to \"1s\"")?;
            }
            _ => self.pollers = Some(number(value, 1..=64, "1 to 64")?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commented_default_means_the_default() {
        let plain = parse(COMMENTED).expect("sound");
        let full: String = COMMENTED
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(key) if !key.starts_with(' ') => format!("{key}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let full = parse(&full).expect("sound");
        let (plain, mut full) = (plain.finish().expect("whole"), full.finish().expect("whole"));
        full.options.tls = plain.options.tls.clone();
        assert_eq!(format!("{plain:?}"), format!("{full:?}"));
        assert!(
            KEYS.iter().all(|key| COMMENTED.contains(&format!("\n#{key} = "))
                || COMMENTED.contains(&format!("\n{key} = ")))
        );
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_is_allowed() {
        let text = "listen = [\"ftp://x\"]\nout = 7\nidel = \"1s\"\nsync = 1\nconnections = 0\nidle = \"soon\"\n\
                    rotate_every = \"1s\"\ncompress = \"rar\"\nspin = \"2s\"\ndecompressed_bytes = \"9 MiB\"\n";
        let problems = parse(text).expect_err("all wrong");
        assert_eq!(problems.len(), 10);
        let shown =
            crate::config::problem::report(&problems, "c.toml", text, crate::paint::Paint { on: false });
        for (line, key) in [
            (1, "listen"),
            (2, "out"),
            (3, "idel"),
            (4, "sync"),
            (5, "connections"),
            (6, "idle"),
            (7, "a time from \"1m\""),
            (8, "\"zstd\", \"gzip\" or \"none\""),
            (9, "2s is out of bounds"),
            (10, "\"1 MiB\" to \"8 MiB\""),
        ] {
            assert!(shown.contains(&format!("c.toml:{line}:")), "{shown}");
            assert!(shown.contains(key), "{shown}");
        }
        assert!(shown.contains("idle was probably meant"), "{shown}");
        assert!(shown.contains("it begins with one of shm://"), "{shown}");
        let udp = parse("listen = [\"udp://127.0.0.1:1\"]").expect_err("no records");
        assert!(udp[0].found.contains("carries messages only"), "{udp:?}");
        assert!(parse("listen = [").is_err());
    }
}
