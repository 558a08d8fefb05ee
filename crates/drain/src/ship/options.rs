//! Options of a sink that sends to a collector, and their text form in a session.

use super::{
    Address, EPOCH, ForwardOptions, GroupOptions, HealthOptions, MemberOptions, Policy, SpoolOptions,
    TlsFiles, TransportOptions,
};
use crate::limits::SHIP_ADDRESSES_MAX;
use crate::schema::{self, FILE, Kind, Options, Row, SESSION, Setting, Value, Words, Wrong, limits};
use crate::{rows, words};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Collectors that records are sent to, and the way to reach them.
///
/// ```
/// use logdrive_drain::ship::ShipOptions;
/// let ship = ShipOptions::new(vec!["unix:///run/logdrive/collect.sock".parse()?]);
/// assert_eq!(ship.destination(), "unix:///run/logdrive/collect.sock");
/// # Ok::<(), logdrive_ship::TransportError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipOptions {
    /// Address where it listens; with several, whichever can be reached, by weight, and backups when no other can be.
    /// At most 16.
    pub to: Vec<MemberOptions>,
    /// Choice among several collectors, circuit breaker and health checks.
    /// Default: in turn, never and no.
    pub group: GroupOptions,
    /// Certificates, limits and times of the connection.
    pub transport: TransportOptions,
    /// The level of zstd, 1 to 19; `None` sends as it is. Default: none.
    pub zstd_level: Option<i32>,
    /// Directory for records while no collector takes them; one directory for each sink. Without it they wait in the
    /// sink's buffers. Default: none.
    pub spool: Option<SpoolOptions>,
    /// The program's name that the collector puts into each line; empty where lines name their process themselves, as an
    /// agent's do. Default: the application's.
    pub app: Option<String>,
}

/// Description of addresses of collectors.
const ADDRESSES: &str = "a list of addresses such as [\"tls://logs.example.org:7140\"]; also \"unix:///PATH\", \
     \"shm:///PATH\", \"tcp://HOST:PORT\", \"quic://HOST:PORT\", \"udp://HOST:PORT\", and tables such as { address = \"tls://logs.example.org:7140\", \
     weight = 3, backup = false }, with weights from 0, which is never used, to 1000; at most 16 of them";

words!(Policy {
    RoundRobin = "round_robin": "one after the other",
    WeightedRandom = "weighted_random": "by chance",
    ConsistentHash = "consistent_hash": "by the session, so that the same is found again",
    Manual = "manual": "the first, and no other but the backups; another one comes first, and a reload changes over to it",
});

/// A field of the health checks, while there are any.
fn health_field<T: Setting>(value: Value, field: Option<&mut T>) -> Result<(), Wrong> {
    if let Some(field) = field {
        *field = T::from_value(value)?;
    }
    Ok(())
}

/// Addresses of collectors, as the command line has them.
fn shown(ship: &ShipOptions, is_backup: bool) -> Option<Value> {
    let all = ship.to.iter().filter(|member| member.is_backup == is_backup);
    let all = all.map(|member| match member.weight {
        1 => member.address.to_string(),
        weight => format!("{},weight={weight}", member.address),
    });
    all.collect::<Vec<_>>().to_value()
}

/// Tables are parsed by the reader of their format.
fn by_hand(_: &mut ShipOptions, _: Value) -> Result<(), Wrong> {
    Err(Wrong::new("this cannot be given here"))
}

rows! { ShipOptions {
    /// Address where the collector listens; with several, whichever can be reached. One that is a table may have a
    /// weight and may be a backup, and tables [[ship.to]] say the same as a list.
    to: [|ship| shown(ship, false), by_hand] => Row::of(Kind::Tables(ADDRESSES))
        .required("[\"tls://logs.example.org:7140\"]")
        .live()
        .scope(FILE),
    /// Collectors that are used while none of the others can be. With `health_every`, records go back to the others
    /// once one of them is healthy again.
    backup: [|ship| shown(ship, true), by_hand] => Row::of(Kind::Tables(ADDRESSES))
        .unset("there are none", "[\"tls://spare.example.org:7140\"]")
        .live()
        .scope(FILE),
    /// Choice of one collector where there are several. It stays as long as it takes records.
    policy: (group.policy) => Row::of(Kind::Word).words(Policy::WORDS),
    /// After so many failures in a row a collector is not tried for the time of `breaker_open`. Off, it is tried again
    /// and again, with growing pauses.
    breaker_failures: [
        |ship| Some(ship.group.breaker.failures).filter(|failures| *failures != u32::MAX).to_value(),
        |ship, value| {
            ship.group.breaker.failures = Option::from_value(value)?.unwrap_or(u32::MAX);
            Ok(())
        }
    ] => Row::of(Kind::Count(limits::BREAKER_FAILURES)).off(),
    /// Time for which it is not tried then.
    breaker_open: (group.breaker.open) => Row::of(Kind::Time(limits::BREAKER_OPEN)),
    /// Connections that may try it at once when that time is over.
    breaker_probes: (group.breaker.probes) => Row::of(Kind::Count(limits::BREAKER_COUNT)),
    /// Number of those that have to succeed before all is as it was.
    breaker_successes: (group.breaker.successes) => Row::of(Kind::Count(limits::BREAKER_COUNT)),
    /// Pause between two health checks, for which a thread connects to each collector. One that fails them is not tried.
    health_every: [
        |ship| ship.group.health.map(|health| health.every).to_value(),
        |ship, value| {
            let every: Option<Duration> = Option::from_value(value)?;
            let health = ship.group.health.unwrap_or_default();
            ship.group.health = every.map(|every| HealthOptions { every, ..health });
            Ok(())
        }
    ] => Row::of(Kind::Time(limits::HEALTH_EVERY)).off(),
    /// Health checks that have to fail, in a row, before a collector counts as unhealthy.
    health_failures: [
        |ship| ship.group.health.map(|health| health.failures).to_value(),
        |ship, value| health_field(value, ship.group.health.as_mut().map(|health| &mut health.failures))
    ] => Row::of(Kind::Count(limits::BREAKER_COUNT)).unset("2", "2"),
    /// Health checks that have to succeed, in a row, before it counts as healthy again.
    health_successes: [
        |ship| ship.group.health.map(|health| health.successes).to_value(),
        |ship, value| health_field(value, ship.group.health.as_mut().map(|health| &mut health.successes))
    ] => Row::of(Kind::Count(limits::BREAKER_COUNT)).unset("2", "2"),
    /// Time that a connection may take to be made.
    connect_timeout: (transport.timeouts.connect) => Row::of(Kind::Time(limits::CONNECT_TIMEOUT)),
    /// Time that an acknowledgement may take before the collector is taken for dead, and another one is tried.
    response_timeout: (transport.timeouts.response) => Row::of(Kind::Time(limits::RESPONSE_TIMEOUT)),
    /// A collector that nothing was heard of for a third of this time is asked whether it lives.
    idle_timeout: (transport.timeouts.idle) => Row::of(Kind::Time(limits::IDLE_TIMEOUT)),
    /// Level of zstd for batches. On a fast network it costs more time than it saves.
    zstd: (zstd_level) => Row::of(Kind::Count(limits::ZSTD_LEVEL)).off(),
    /// A directory for what no collector takes, in order, which survives the process. It belongs to this sink alone.
    spool: [
        |ship| ship.spool.as_ref().map(|spool| spool.directory.clone()).to_value(),
        |ship, value| {
            let before = ship.spool.take();
            ship.spool = Option::<PathBuf>::from_value(value)?.map(|directory| SpoolOptions {
                bytes_max: before.map_or(SpoolOptions::new("").bytes_max, |spool| spool.bytes_max),
                directory,
            });
            Ok(())
        }
    ] => Row::of(Kind::Path(limits::PATH_BYTES_MAX))
        .unset("what no collector takes waits in the buffers", "\"/var/spool/logdrive/central\""),
    /// Bytes that the spool may have.
    spool_bytes: [
        |ship| ship.spool.as_ref().map(|spool| spool.bytes_max).to_value(),
        |ship, value| health_field(value, ship.spool.as_mut().map(|spool| &mut spool.bytes_max))
    ] => Row::of(Kind::Size(limits::SPOOL_BYTES)).unset("\"1 GiB\"", "\"1 GiB\""),
    /// Let plain TCP leave this machine: everybody on the way can read the records, and change them.
    insecure: (transport.insecure) => Row::of(Kind::Flag),
    /// The program's name that the collector puts into each line.
    app: (app) => Row::of(Kind::Text(limits::PATH_BYTES_MAX)).scope(SESSION),
} after { transport.tls } }

rows! { TlsFiles {
    /// Certificates, in PEM, of the authorities that the other end's certificate must come from.
    tls_authorities: (authorities) => Row::of(Kind::Path(limits::PATH_BYTES_MAX))
        .unset("no authority, which tls:// and quic:// need", "\"/etc/logdrive/authority.pem\""),
    /// Our own certificate, in PEM.
    tls_certificate: (certificate) => Row::of(Kind::Path(limits::PATH_BYTES_MAX))
        .unset("none is shown", "\"/etc/logdrive/client.pem\""),
    /// Its key, in PEM.
    tls_key: (key) => Row::of(Kind::Path(limits::PATH_BYTES_MAX))
        .unset("none is used", "\"/etc/logdrive/client.key\""),
    /// The name that the collector's certificate must bear.
    tls_name: (name) => Row::of(Kind::Text(limits::NAME_BYTES_MAX))
        .unset("the host of the address", "\"logs.example.org\"")
        .scope(FILE | SESSION),
} }

impl ShipOptions {
    /// A collector at these addresses, without a spool and without compression.
    pub fn new(to: Vec<Address>) -> Self {
        Self {
            to: to.into_iter().map(MemberOptions::new).collect(),
            // As a forwarder has it by itself.
            group: ForwardOptions::new(0, EPOCH).group,
            transport: TransportOptions::default(),
            zstd_level: None,
            spool: None,
            app: None,
        }
    }

    /// Lines for the session: addresses, each followed by its weight, then the options. Another process has another
    /// working directory, so paths are absolute.
    pub(crate) fn to_text(&self) -> String {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut options = self.clone();
        if let Some(spool) = &mut options.spool {
            spool.directory = absolute(&spool.directory);
        }
        let tls = &mut options.transport.tls;
        for path in [&mut tls.authorities, &mut tls.certificate, &mut tls.key] {
            *path = path.as_deref().map(absolute);
        }
        let mut text = String::new();
        for collector in &self.to {
            let key = if collector.is_backup { "backup" } else { "to" };
            let address = schema::escape(collector.address.to_string().as_bytes());
            text.push_str(&format!("{key} = {address}\n"));
            if collector.weight != 1 {
                text.push_str(&format!("weight = {}\n", collector.weight));
            }
        }
        text + &schema::to_text(&options) + &schema::to_text(&options.transport.tls)
    }

    /// Reads what [`ShipOptions::to_text`] wrote, and what earlier versions did: times in milliseconds, with `_ms` at
    /// the end of their keys.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut options = Self::new(Vec::new());
        for line in text.lines() {
            let (key, value) = line.split_once(" = ")?;
            match (key, key.strip_suffix("_ms")) {
                ("to" | "backup", _) => {
                    let address = String::from_utf8(schema::unescape(value).ok()?).ok()?;
                    let mut collector = MemberOptions::new(address.parse().ok()?);
                    collector.is_backup = key == "backup";
                    options.to.push(collector);
                }
                ("weight", _) => options.to.last_mut()?.weight = value.parse().ok()?,
                (_, Some(key)) => {
                    let time = Duration::from_millis(value.parse().ok()?);
                    options.set(key, Value::Time(time)).ok()?;
                }
                _ => {
                    schema::set_line(&mut options, key, value).ok()?;
                }
            }
        }
        (1..=SHIP_ADDRESSES_MAX)
            .contains(&options.to.len())
            .then_some(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_back_from_their_text() {
        let mut options = ShipOptions::new(vec![
            "unix:///run/a b.sock".parse().expect("an address"),
            "tls://logs.example.org:7140".parse().expect("an address"),
        ]);
        assert_eq!(ShipOptions::from_text(&options.to_text()), Some(options.clone()));
        options.transport.tls.authorities = Some("/keys/\n[ship]\n\"\\.pem".into());
        options.transport.tls.name = Some("logs".to_owned());
        let mut backup = MemberOptions::new("tcp://127.0.0.1:1".parse().expect("an address"));
        (backup.is_backup, backup.weight) = (true, 7);
        options.to.push(backup);
        options.group.policy = Policy::ConsistentHash;
        options.group.breaker.failures = 3;
        options.group.breaker.probes = 2;
        options.group.health = Some(HealthOptions {
            every: Duration::from_millis(1500),
            failures: 4,
            successes: 5,
        });
        options.transport.timeouts.connect = Duration::from_millis(250);
        options.transport.insecure = true;
        options.zstd_level = Some(3);
        options.spool = Some(SpoolOptions {
            directory: "/var/spool/x".into(),
            bytes_max: 7,
        });
        options.app = Some(String::new());
        assert_eq!(ShipOptions::from_text(&options.to_text()), Some(options));
        let old = "to = unix:///x\nbreaker_open_ms = 1500\nhealth_every_ms = 9\nhealth_failures = 4\ninsecure = true\nspool = /srv/o\\'neil\n";
        let old = ShipOptions::from_text(old).expect("a session of an earlier version");
        assert_eq!(old.group.breaker.open, Duration::from_millis(1500));
        assert_eq!(old.group.health.map(|health| health.failures), Some(4));
        assert!(old.transport.insecure);
        assert_eq!(old.spool.map(|spool| spool.directory), Some("/srv/o'neil".into()));
        assert_eq!(ShipOptions::from_text(""), None);
        assert_eq!(ShipOptions::from_text("weight = 2\nto = unix:///x\n"), None);
        assert_eq!(ShipOptions::from_text("to = unix:///x\nhealth = 2\n"), None);
        assert_eq!(ShipOptions::from_text("to = x\n"), None);
    }
}
