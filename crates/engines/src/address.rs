//! Addresses of engines: `ENGINE://HOST:PORT/WHERE?OPTION=VALUE`, one form for all.

use crate::error::EngineError;
use std::fmt;
use std::str::FromStr;

/// An engine that this build knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Kafka,
    Otlp,
    Clickhouse,
    Elastic,
    Loki,
    S3,
    VictoriaLogs,
    Syslog,
    Journald,
    Stdout,
}

/// A kind of address: its scheme, the engine, the scheme of its transport, and the options that it has.
struct Known {
    scheme: &'static str,
    kind: Kind,
    transport: &'static str,
    options: &'static [&'static str],
}

const HTTP_OPTIONS: &[&str] = &["user", "password_file", "token_file", "tls_ca"];
const KAFKA_OPTIONS: &[&str] = &["key", "acks", "compression", "config_file"];
const CLICKHOUSE_OPTIONS: &[&str] = &["user", "password_file", "tls_ca"];
const LOKI_OPTIONS: &[&str] = &["user", "password_file", "token_file", "tls_ca", "tenant"];

const TLS_OPTIONS: &[&str] = &["tls_ca", "tls_cert", "tls_key"];
const S3_OPTIONS: &[&str] = &["region", "form", "every", "config_file", "tls_ca"];

macro_rules! known {
    ($($scheme:literal $kind:ident $transport:literal $options:expr;)+) => {
        &[$(Known { scheme: $scheme, kind: Kind::$kind, transport: $transport, options: $options }),+]
    };
}

static KNOWN: &[Known] = known! {
    "kafka" Kafka "tcp" KAFKA_OPTIONS;
    "otlp+http" Otlp "http" HTTP_OPTIONS;
    "otlp+https" Otlp "https" HTTP_OPTIONS;
    "otlp" Otlp "grpc" HTTP_OPTIONS;
    "clickhouse+http" Clickhouse "http" CLICKHOUSE_OPTIONS;
    "clickhouse+https" Clickhouse "https" CLICKHOUSE_OPTIONS;
    "elastic+http" Elastic "http" HTTP_OPTIONS;
    "elastic+https" Elastic "https" HTTP_OPTIONS;
    "loki+http" Loki "http" LOKI_OPTIONS;
    "loki+https" Loki "https" LOKI_OPTIONS;
    "victorialogs+http" VictoriaLogs "http" HTTP_OPTIONS;
    "victorialogs+https" VictoriaLogs "https" HTTP_OPTIONS;
    "s3+http" S3 "http" S3_OPTIONS;
    "s3+https" S3 "https" S3_OPTIONS;
    "syslog+tcp" Syslog "tcp" &[];
    "syslog+tls" Syslog "tls" TLS_OPTIONS;
    "syslog+udp" Syslog "udp" &[];
    "journald" Journald "datagrams" &[];
    "stdout" Stdout "stdout" &[];
};

/// Address of an engine.
///
/// ```
/// use logdrive_engines::EngineAddress;
/// let address: EngineAddress = "kafka://one:9092,two:9092/logs?key=host".parse()?;
/// assert_eq!(address.to_string(), "kafka://one:9092,two:9092/logs?key=host");
/// assert!("kafka://one:9092".parse::<EngineAddress>().is_err());
/// # Ok::<(), logdrive_engines::EngineError>(())
/// ```
#[derive(Clone)]
pub struct EngineAddress {
    text: String,
    known: &'static Known,
    /// Hosts and ports, before the first slash.
    pub(crate) hosts: String,
    /// Topic, table, index, bucket or path, behind the slash.
    pub(crate) place: String,
    options: Vec<(String, String)>,
}

impl EngineAddress {
    /// Whether a text has the form of an engine's address, though perhaps of none that is known.
    pub fn is_one(text: &str) -> bool {
        let scheme = text.split("://").next().unwrap_or_default();
        KNOWN.iter().any(|known| known.scheme == scheme)
    }

    /// Schemes of all engines.
    ///
    /// ```
    /// assert!(logdrive_engines::EngineAddress::schemes().any(|scheme| scheme == "kafka"));
    /// ```
    pub fn schemes() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|known| known.scheme)
    }

    /// Whether it knows each record by its id, and batches need not come again as they were.
    pub(crate) fn is_by_record(&self) -> bool {
        !matches!(self.known.kind, Kind::Clickhouse | Kind::S3)
    }

    /// Scheme of the transport, such as `https`.
    pub(crate) fn transport(&self) -> &'static str {
        self.known.transport
    }

    /// Value of an option.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Content of the file that an option names, without its last line end.
    pub(crate) fn option_file(&self, name: &str) -> Result<Option<String>, EngineError> {
        let Some(path) = self.option(name) else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path).map_err(EngineError::file("read", path.as_ref()))?;
        Ok(Some(text.trim_end().to_owned()))
    }

    /// Lines `NAME=VALUE` of the file that an option names, but for comments.
    pub(crate) fn settings(&self, name: &str) -> Result<Vec<(String, String)>, EngineError> {
        let text = self.option_file(name)?.unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once('='));
        Ok(pairs
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect())
    }

    /// The engine that it is of.
    pub(crate) fn kind(&self) -> Kind {
        self.known.kind
    }

    pub(crate) fn wrong(&self, why: impl Into<String>) -> EngineError {
        EngineError::Address {
            address: self.text.clone(),
            why: why.into(),
        }
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EngineAddress").field(&self.text).finish()
    }
}

impl PartialEq for EngineAddress {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl FromStr for EngineAddress {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let wrong = |why: String| EngineError::Address {
            address: text.to_owned(),
            why,
        };
        let (scheme, rest) = text.split_once("://").unwrap_or((text, ""));
        let Some(known) = KNOWN.iter().find(|known| known.scheme == scheme) else {
            let schemes: Vec<&str> = Self::schemes().collect();
            return Err(wrong(format!(
                "no engine; an address begins with one of {}",
                schemes.join(", ")
            )));
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, place) = rest.split_once('/').unwrap_or((rest, ""));
        if hosts.contains('@') {
            return Err(wrong(
                "a password has no place in an address: use ?user=NAME&password_file=FILE".to_owned(),
            ));
        }
        if hosts.is_empty() && !matches!(known.kind, Kind::Stdout | Kind::Journald) {
            return Err(wrong(format!("no host: expected {scheme}://HOST:PORT")));
        }
        if known.kind == Kind::Journald && !hosts.is_empty() {
            return Err(wrong(
                "no host is expected: journald://, or journald:///PATH of its socket".to_owned(),
            ));
        }
        let needed = match known.kind {
            Kind::Kafka => Some("a topic, such as kafka://HOST:9092/logs"),
            Kind::Clickhouse => Some("a table, such as clickhouse+http://HOST:8123/logs"),
            Kind::S3 => Some("a bucket, such as s3+http://HOST:9000/logs/PREFIX"),
            Kind::Elastic => Some("an index, such as elastic+http://HOST:9200/logs"),
            _ => None,
        };
        if let Some(needed) = needed.filter(|_| place.is_empty()) {
            return Err(wrong(format!("it needs {needed}")));
        }
        let mut options = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.options.contains(&key) {
                let options = match known.options {
                    [] => "it has none".to_owned(),
                    all => format!("it has {}", all.join(", ")),
                };
                return Err(wrong(format!("no option {key}; {options}")));
            }
            options.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self {
            text: text.to_owned(),
            known,
            hosts: hosts.to_owned(),
            place: place.to_owned(),
            options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_what_is_expected() {
        for (text, why) in [
            ("ftp://x", "no engine"),
            ("kafka:///logs", "no host"),
            ("kafka://x:9092", "a topic"),
            ("elastic+http://x:9200/", "an index"),
            ("kafka://me:secret@x:9092/logs", "password_file"),
            ("kafka://x:9092/logs?colour=red", "no option colour; it has key"),
            ("syslog+tcp://x:601?a=b", "it has none"),
            ("journald://web-1", "no host"),
        ] {
            let error = text.parse::<EngineAddress>().expect_err(text);
            assert!(error.to_string().contains(why), "{error}");
        }
        assert!(EngineAddress::is_one("loki+http://x") && !EngineAddress::is_one("unix:///x"));
    }
}
