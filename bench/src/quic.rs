//! A transfer over QUIC on the loopback interface: one stream, 8 KB writes,
//! 1,452-byte packets; the server counts the bytes.
//!
//! Both ends run in this process on two worker threads. `quinn` emits its own
//! `tracing` events, about two and a half million a gigabyte at TRACE; they go
//! to whatever subscriber the process has installed before.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::{Deserialize, Serialize};

use crate::{BenchError, Result};

/// Bytes handed to the stream at a time.
pub const WRITE_BYTES: usize = 8 * 1024;

/// UDP payload of a full packet: Ethernet's 1,500 less the headers of IPv6.
const PACKET_BYTES: u16 = 1_452;

/// Bytes that the server takes from the stream at a time.
const READ_BYTES: usize = 64 * 1024;

const WORKERS: usize = 2;
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a transfer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Transfer {
    /// Bytes that the server counted.
    pub bytes: u64,
    /// From the first write until the server had the last byte.
    pub elapsed: Duration,
}

impl Transfer {
    /// The rate, with a megabyte of 1,000,000 bytes.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }
}

/// Sends `total_bytes` over one stream; `progress` is called by the server
/// with the bytes received so far, about a hundred times.
pub fn transfer(total_bytes: u64, progress: impl FnMut(u64) + Send + 'static) -> Result<Transfer> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(failed)?;
    let outcome = runtime.block_on(both_ends(total_bytes, progress));
    runtime.shutdown_timeout(END_TIMEOUT);
    outcome
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::new(format!("the transfer over QUIC failed: {error}"))
}

async fn both_ends(total_bytes: u64, progress: impl FnMut(u64) + Send + 'static) -> Result<Transfer> {
    let (server_config, client_config) = configure()?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(server_config, any_port).map_err(failed)?;
    let server_address = server.local_addr().map_err(failed)?;
    let mut client = Endpoint::client(any_port).map_err(failed)?;
    client.set_default_client_config(client_config);

    let receiver = tokio::spawn(receive(server.clone(), total_bytes, progress));
    let connection = client
        .connect(server_address, "localhost")
        .map_err(failed)?
        .await
        .map_err(failed)?;
    let start = Instant::now();
    // On a task of its own, so that it runs on a worker like the server does.
    let sender = tokio::spawn(send(connection.clone(), total_bytes));
    sender.await.map_err(failed)??;
    let bytes = receiver.await.map_err(failed)??;
    let elapsed = start.elapsed();

    connection.close(VarInt::from_u32(0), b"done");
    server.close(VarInt::from_u32(0), b"done");
    // The close packets may be lost; the figures are taken already.
    let _ = tokio::time::timeout(END_TIMEOUT, client.wait_idle()).await;
    Ok(Transfer { bytes, elapsed })
}

async fn send(connection: quinn::Connection, total_bytes: u64) -> Result<()> {
    let mut stream = connection.open_uni().await.map_err(failed)?;
    let block = [0x5a_u8; WRITE_BYTES];
    let mut left = total_bytes;
    while left > 0 {
        let length = WRITE_BYTES.min(usize::try_from(left).unwrap_or(WRITE_BYTES));
        stream.write_all(&block[..length]).await.map_err(failed)?;
        left -= length as u64;
    }
    stream.finish().map_err(failed)
}

async fn receive(endpoint: Endpoint, total_bytes: u64, mut progress: impl FnMut(u64)) -> Result<u64> {
    let incoming = endpoint
        .accept()
        .await
        .ok_or_else(|| failed("the server was closed before the client came"))?;
    let connection = incoming.await.map_err(failed)?;
    let mut stream = connection.accept_uni().await.map_err(failed)?;
    let step = (total_bytes / 100).max(1);
    let (mut bytes, mut reported) = (0, 0);
    while let Some(chunk) = stream.read_chunk(READ_BYTES, true).await.map_err(failed)? {
        bytes += chunk.bytes.len() as u64;
        if bytes - reported >= step {
            progress(bytes);
            reported = bytes;
        }
    }
    if bytes != total_bytes {
        return Err(failed(format_args!(
            "{total_bytes} bytes were sent, and {bytes} arrived"
        )));
    }
    Ok(bytes)
}

/// Both ends with a certificate made for this transfer.
fn configure() -> Result<(ServerConfig, ClientConfig)> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).map_err(failed)?;
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());

    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into()).map_err(failed)?;
    server.transport_config(transport());

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).map_err(failed)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(failed)?;
    client.transport_config(transport());
    Ok((server, client))
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .initial_mtu(PACKET_BYTES)
        .mtu_discovery_config(None)
        .max_concurrent_uni_streams(VarInt::from_u32(1));
    Arc::new(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn all_bytes_arrive_and_progress_is_told() {
        let seen = Arc::new(AtomicU64::new(0));
        let last = seen.clone();
        let result = transfer(1_000_000, move |bytes| last.store(bytes, Ordering::SeqCst)).unwrap();
        assert_eq!(result.bytes, 1_000_000);
        assert!(seen.load(Ordering::SeqCst) >= 990_000);
    }
}
