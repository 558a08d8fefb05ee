//! Makes the link that an address asks for.

use crate::TransportError;
use crate::address::Address;
use crate::link::{Link, ShmLink, SocketLink};
use crate::options::Options;
use std::io;

/// Connects the link that an address asks for.
///
/// # Errors
/// Fails when no server answers there within the options' time, or the options do not allow the link.
pub(crate) fn open_link(address: &Address, options: &Options) -> Result<Box<dyn Link>, TransportError> {
    address.check(options.insecure)?;
    options.check()?;
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            TransportError::timeout(address, "accept a connection", options.timeouts.connect)
        }
        _ => TransportError::connect(address)(cause),
    };
    Ok(match address {
        Address::Unix(path) => Box::new(SocketLink::connect_unix(path, options).map_err(failed)?),
        Address::Tcp(host_port) => Box::new(SocketLink::connect_tcp(host_port, options).map_err(failed)?),
        Address::Shm(path) => Box::new(ShmLink::connect(path, options).map_err(failed)?),
        #[cfg(feature = "tls")]
        Address::Tls(host_port) => Box::new(crate::link::tls::connect(address, host_port, options)?),
        #[cfg(feature = "quic")]
        Address::Quic(host_port) => Box::new(crate::quic::connect(address, host_port, options)?),
        Address::Udp(_) => {
            return Err(TransportError::OneWay {
                address: address.to_string(),
            });
        }
        #[allow(unreachable_patterns, reason = "some builds have all transports")]
        other => {
            return Err(TransportError::NotBuilt {
                scheme: other.scheme(),
            });
        }
    })
}
