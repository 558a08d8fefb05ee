//! Addresses: one form for all transports, `SCHEME://WHERE`.

use crate::TransportError;
use crate::limits::CONNECT_MS;
use crate::resolve::resolve;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Address of a listener.
///
/// ```
/// use logdrive_ship::Address;
/// let address: Address = "tls://logs.example.org:7140".parse().unwrap();
/// assert_eq!(address.to_string(), "tls://logs.example.org:7140");
/// assert!("ftp://x".parse::<Address>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// Rings in shared memory, agreed upon over a Unix socket at this path.
    Shm(PathBuf),
    /// A Unix stream socket at this path.
    Unix(PathBuf),
    /// TCP.
    Tcp(HostPort),
    /// TCP with TLS 1.3.
    Tls(HostPort),
    /// QUIC.
    Quic(HostPort),
    /// UDP, plain.
    Udp(HostPort),
}

/// A host, by name or number, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// The name or number; an IPv6 number without its brackets.
    pub host: String,
    /// The port; 0 listens at a free one.
    pub port: u16,
}

impl HostPort {
    /// All addresses of the host. May ask the network, and block for five seconds.
    ///
    /// # Errors
    /// Fails when the name is not known, or the system's resolver does not answer.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        self.resolve_until(Instant::now() + Duration::from_millis(CONNECT_MS))
    }

    /// As [`HostPort::resolve`], with another end.
    pub(crate) fn resolve_until(&self, end: Instant) -> std::io::Result<Vec<SocketAddr>> {
        resolve(&self.host, self.port, end)
    }

    /// Returns whether every address of the host is this machine's own loopback.
    pub fn is_loopback(&self) -> bool {
        self.resolve()
            .is_ok_and(|all| !all.is_empty() && all.iter().all(|one| one.ip().is_loopback()))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl Address {
    /// Names of all schemes.
    pub const SCHEMES: [&'static str; 6] = ["shm", "unix", "tcp", "tls", "quic", "udp"];

    /// Scheme of the address, such as `tcp`.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Shm(_) => "shm",
            Self::Unix(_) => "unix",
            Self::Tcp(_) => "tcp",
            Self::Tls(_) => "tls",
            Self::Quic(_) => "quic",
            Self::Udp(_) => "udp",
        }
    }

    /// The host and port, of those that have one.
    pub fn host_port(&self) -> Option<&HostPort> {
        match self {
            Self::Shm(_) | Self::Unix(_) => None,
            Self::Tcp(host_port) | Self::Tls(host_port) | Self::Quic(host_port) | Self::Udp(host_port) => {
                Some(host_port)
            }
        }
    }

    /// The same with the host and port that a listener has.
    pub(crate) fn bound_to(&self, bound: Option<HostPort>) -> Self {
        match (self, bound) {
            (Self::Tcp(_), Some(bound)) => Self::Tcp(bound),
            (Self::Tls(_), Some(bound)) => Self::Tls(bound),
            (Self::Quic(_), Some(bound)) => Self::Quic(bound),
            (Self::Udp(_), Some(bound)) => Self::Udp(bound),
            (other, _) => other.clone(),
        }
    }

    /// Returns whether what is sent there stays on this machine.
    pub fn is_local(&self) -> bool {
        self.host_port().is_none_or(HostPort::is_loopback)
    }

    /// Returns whether what is sent there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::Quic(_))
    }

    /// Refuses unencrypted connections to or from another machine, unless they are allowed explicitly.
    ///
    /// # Errors
    /// Fails when the address is off this machine, not encrypted, and `insecure` is not set.
    pub fn check(&self, insecure: bool) -> Result<(), TransportError> {
        if insecure || self.is_encrypted() || self.is_local() {
            return Ok(());
        }
        Err(TransportError::Insecure {
            address: self.to_string(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            Self::Shm(path) | Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(host_port) | Self::Tls(host_port) | Self::Quic(host_port) | Self::Udp(host_port) => {
                host_port.fmt(f)
            }
        }
    }
}

impl FromStr for Address {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why| TransportError::Address {
            text: text.to_owned(),
            why,
        };
        let unknown = || wrong("it begins with one of shm://, unix://, tcp://, tls://, quic://, udp://");
        let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
        let path = || match rest.starts_with('/') {
            true => Ok(PathBuf::from(rest)),
            false => Err(wrong(
                "an absolute path stands behind it, such as unix:///run/logdrive/collect.sock",
            )),
        };
        let host_port = || {
            let found = parse_host_port(rest);
            found.ok_or_else(|| wrong("HOST:PORT stands behind it, such as tcp://127.0.0.1:7140"))
        };
        Ok(match scheme {
            "shm" => Self::Shm(path()?),
            "unix" => Self::Unix(path()?),
            "tcp" => Self::Tcp(host_port()?),
            "tls" => Self::Tls(host_port()?),
            "quic" => Self::Quic(host_port()?),
            "udp" => Self::Udp(host_port()?),
            _ => return Err(unknown()),
        })
    }
}

fn parse_host_port(text: &str) -> Option<HostPort> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    if host.is_empty() || host.len() > crate::limits::NAME_BYTES_MAX || !host.chars().all(plain) {
        return None;
    }
    Some(HostPort {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_and_mistakes_are_told() {
        for text in [
            "shm:///run/a.sock",
            "unix:///run/a b.sock",
            "tcp://127.0.0.1:0",
            "udp://[::1]:99",
            "quic://a-b.c:1",
        ] {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
        for text in [
            "",
            "unix://",
            "unix://a",
            "tcp://",
            "tcp://a",
            "tcp://:1",
            "tcp://a:65536",
            "tcp://::1:1",
            "x://a:1",
            "tcp://a b:1",
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(
                error.contains("stands behind") || error.contains("begins with"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_unknown_scheme_is_told_with_those_that_there_are() {
        for text in [
            "ftp://logs",
            "ftp:///run/x",
            "TCP://127.0.0.1:1",
            "127.0.0.1:7140",
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            let all = Address::SCHEMES
                .iter()
                .all(|scheme| error.contains(&format!("{scheme}://")));
            assert!(all, "{error}");
        }
    }

    #[test]
    fn plain_bytes_leave_the_machine_only_when_told_so() {
        let off: Address = "tcp://192.0.2.1:7140".parse().expect("an address");
        assert!(off.check(false).is_err());
        assert!(off.check(true).is_ok());
        let on: Address = "udp://127.0.0.1:7140".parse().expect("an address");
        assert!(on.check(false).is_ok());
        let tls: Address = "tls://192.0.2.1:7140".parse().expect("an address");
        assert!(tls.check(false).is_ok());
    }
}
