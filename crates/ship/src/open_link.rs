//! Makes the link that an address asks for.

use crate::TransportError;
use crate::address::Address;
use crate::link::{Link, ShmLink, SocketLink};
use crate::options::Options;
use std::io;
use std::time::Instant;

/// Connects the link that an address asks for, until `end` at most.
///
/// # Errors
/// Fails when no server answers there in time, or the options do not allow the link.
pub(crate) fn open_link(
    address: &Address,
    options: &Options,
    end: Instant,
) -> Result<Box<dyn Link>, TransportError> {
    options.check()?;
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            TransportError::timeout(address, "accept a connection", options.timeouts.connect)
        }
        _ => TransportError::connect(address)(cause),
    };
    Ok(match address {
        Address::Unix(path) => Box::new(SocketLink::connect_unix(path, options, end).map_err(failed)?),
        Address::Tcp(host_port) => {
            let peers = host_port.resolve_until(end).map_err(failed)?;
            // Those that are connected to, not those of another lookup.
            if !options.insecure && !peers.iter().all(|peer| peer.ip().is_loopback()) {
                return Err(TransportError::Insecure {
                    address: address.to_string(),
                });
            }
            Box::new(SocketLink::connect_tcp(&peers, options, end).map_err(failed)?)
        }
        Address::Shm(path) => Box::new(ShmLink::connect(path, options, end).map_err(failed)?),
        #[cfg(feature = "tls")]
        Address::Tls(host_port) => Box::new(crate::link::tls::connect(address, host_port, options, end)?),
        #[cfg(feature = "quic")]
        Address::Quic(host_port) => Box::new(crate::quic::connect(address, host_port, options, end)?),
        Address::Udp(host_port) => {
            let peer = host_port.resolve_until(end).map_err(failed)?.first().copied();
            let peer = peer.ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
            if !options.insecure && !peer.ip().is_loopback() {
                return Err(TransportError::Insecure {
                    address: address.to_string(),
                });
            }
            Box::new(SocketLink::connect_udp(peer, options).map_err(failed)?)
        }
        #[allow(unreachable_patterns, reason = "some builds have all transports")]
        other => {
            return Err(TransportError::NotBuilt {
                scheme: other.scheme(),
            });
        }
    })
}
