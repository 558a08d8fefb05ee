//! Addresses of inputs: places to listen at, and places to read from.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Protocol of an input that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RFC 3164 and 5424 over TCP, in lines or octet-counted.
    SyslogTcp,
    /// The same over TLS, RFC 5425.
    SyslogTls,
    /// The same in datagrams.
    SyslogUdp,
    /// OpenTelemetry by gRPC and HTTP, Loki's push, Elasticsearch's bulk, and lines.
    Http,
}

/// A topic of Kafka, and the consumers that share it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "only its form is checked"))]
pub(crate) struct KafkaTopic {
    /// Brokers to ask first: `HOST:PORT`, joined with commas.
    pub(crate) brokers: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    /// File with further properties of librdkafka.
    pub(crate) config_file: Option<PathBuf>,
}

/// Place of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Socket(Protocol, SocketAddr),
    Kafka(KafkaTopic),
    /// The journal of this machine, or that of a directory.
    Journald(Option<PathBuf>),
    /// Log files that a pattern names.
    Files(PathBuf),
}

/// Address of an input.
///
/// ```
/// use logdrive_collector::input::InputAddress;
/// for text in ["syslog+udp://127.0.0.1:514", "kafka://one:9092/logs?group=shop", "journald://", "files:///var/log/*.log"] {
///     assert_eq!(text.parse::<InputAddress>().unwrap().to_string(), text);
/// }
/// assert!("syslog://127.0.0.1".parse::<InputAddress>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputAddress {
    text: String,
    pub(crate) place: Place,
}

const PROTOCOLS: [(&str, Protocol); 4] = [
    ("syslog+tcp", Protocol::SyslogTcp),
    ("syslog+tls", Protocol::SyslogTls),
    ("syslog+udp", Protocol::SyslogUdp),
    ("http", Protocol::Http),
];

/// Group of consumers where an address names none.
const GROUP: &str = "logdrive";

const EXPECTED: &str = "expected syslog+udp://, syslog+tcp://, syslog+tls:// or http:// with an address and a port, \
                        kafka://HOST:PORT/TOPIC, journald:// or files:// with a path or pattern";

impl InputAddress {
    /// Whether other machines can reach it without encryption.
    pub fn is_open(&self) -> bool {
        match &self.place {
            Place::Socket(protocol, place) => *protocol != Protocol::SyslogTls && !place.ip().is_loopback(),
            _ => false,
        }
    }
}

impl FromStr for InputAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or(EXPECTED)?;
        let absolute = |path: &str| {
            let path = PathBuf::from(path);
            let is_absolute = path.is_absolute();
            is_absolute
                .then_some(path)
                .ok_or_else(|| format!("expected an absolute path: {scheme}:///PATH"))
        };
        let place = match scheme {
            "kafka" => Place::Kafka(kafka(rest)?),
            "journald" if rest.is_empty() => Place::Journald(None),
            "journald" => Place::Journald(Some(absolute(rest)?)),
            "files" => Place::Files(absolute(rest)?),
            _ => {
                let found = PROTOCOLS.iter().find(|(name, _)| *name == scheme);
                let (_, protocol) = *found.ok_or(EXPECTED)?;
                Place::Socket(
                    protocol,
                    rest.trim_end_matches('/').parse().map_err(|_| EXPECTED)?,
                )
            }
        };
        #[cfg(not(feature = "kafka"))]
        if let Place::Kafka(_) = place {
            return Err("this build has no Kafka".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            place,
        })
    }
}

fn kafka(rest: &str) -> Result<KafkaTopic, String> {
    let expected = "expected kafka://HOST:PORT,HOST:PORT/TOPIC?group=NAME";
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (brokers, topic) = rest.split_once('/').ok_or(expected)?;
    if brokers.contains('@') {
        return Err("a password has no place in an address: use ?config_file=FILE".to_owned());
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if brokers.is_empty() || topic.is_empty() || !topic.chars().all(is_name) {
        return Err(expected.to_owned());
    }
    let mut found = KafkaTopic {
        brokers: brokers.to_owned(),
        topic: topic.to_owned(),
        group: GROUP.to_owned(),
        config_file: None,
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("group", group)) if !group.is_empty() => group.clone_into(&mut found.group),
            Some(("config_file", path)) => found.config_file = Some(path.into()),
            _ => return Err(format!("no option {pair}; it has group and config_file")),
        }
    }
    Ok(found)
}

impl fmt::Display for InputAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_what_is_expected() {
        for (text, why) in [
            ("127.0.0.1:514", "expected syslog+udp://"),
            ("syslog+udp://localhost", "with an address and a port"),
            ("journald://here", "journald:///PATH"),
            ("files://*.log", "an absolute path"),
            #[cfg(feature = "kafka")]
            ("kafka://one:9092", "/TOPIC"),
            #[cfg(feature = "kafka")]
            ("kafka://me:secret@one:9092/x", "config_file"),
            #[cfg(feature = "kafka")]
            (
                "kafka://one:9092/x?colour=red",
                "no option colour=red; it has group",
            ),
        ] {
            let error = text.parse::<InputAddress>().expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn only_plain_sockets_of_other_machines_are_open() {
        for (text, is_open) in [
            ("syslog+tcp://127.0.0.1:601", false),
            ("syslog+tcp://0.0.0.0:601", true),
            ("syslog+tls://0.0.0.0:6514", false),
            ("journald://", false),
        ] {
            assert_eq!(
                text.parse::<InputAddress>().expect(text).is_open(),
                is_open,
                "{text}"
            );
        }
    }
}
