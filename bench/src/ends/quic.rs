//! quinn used bare: streams in one direction, whole `Bytes` handed over, and the receiver counts what comes.

use super::plan::{Plan, done, ready, wait_for_end};
use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Receive windows and send window, as `quic://` has them.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const WINDOW_BYTES: u32 = 32 << 20;
/// UDP payload of a packet, as `quic://` has it.
const PACKET_BYTES: u16 = 1_452;

/// For the goodbye of a connection.
const GOODBYE: Duration = Duration::from_millis(5);

fn runtime() -> io::Result<Runtime> {
    // One thread for each end measures better than two workers each on two cores.
    Builder::new_current_thread().enable_all().build()
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .initial_mtu(PACKET_BYTES)
        .mtu_discovery_config(None)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(WINDOW_BYTES.into());
    Arc::new(config)
}

/// With the kernel's buffers of all subjects.
fn endpoint(address: SocketAddr, config: Option<quinn::ServerConfig>) -> io::Result<Endpoint> {
    let socket = UdpSocket::bind(address)?;
    super::sockets::size_buffers(&socket)?;
    Endpoint::new(EndpointConfig::default(), config, socket, Arc::new(TokioRuntime))
}

fn pem(plan: &Plan, name: &str) -> std::path::PathBuf {
    plan.directory.join("keys").join(name)
}

fn certificates(path: &std::path::Path) -> io::Result<Vec<rustls::pki_types::CertificateDer<'static>>> {
    use rustls::pki_types::pem::PemObject;
    rustls::pki_types::CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(io::Error::other)
}

fn server_config(plan: &Plan) -> io::Result<quinn::ServerConfig> {
    use rustls::pki_types::pem::PemObject;
    let key =
        rustls::pki_types::PrivateKeyDer::from_pem_file(pem(plan, "server.key")).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates(&pem(plan, "server.pem"))?, key)
        .map_err(io::Error::other)?;
    tls.alpn_protocols = vec![b"bare".to_vec()];
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport());
    Ok(config)
}

fn client_config(plan: &Plan) -> io::Result<quinn::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates(&pem(plan, "authority.pem"))? {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"bare".to_vec()];
    let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport());
    Ok(config)
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    let config = server_config(plan)?;
    let runtime = runtime()?;
    let task = async {
        let endpoint = endpoint(SocketAddr::from(([127, 0, 0, 1], 0)), Some(config))?;
        ready(&endpoint.local_addr()?.to_string());
        let incoming = endpoint.accept().await.ok_or(io::ErrorKind::NotConnected)?;
        let connection = incoming.await.map_err(io::Error::other)?;
        let mut readers = Vec::new();
        for _ in 0..plan.streams {
            let mut stream = connection.accept_uni().await.map_err(io::Error::other)?;
            readers.push(tokio::spawn(async move {
                let mut bytes = 0;
                while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, true).await {
                    bytes += chunk.bytes.len() as u64;
                }
                bytes
            }));
        }
        let mut bytes = 0;
        for reader in readers {
            bytes += reader.await.map_err(io::Error::other)?;
        }
        let wanted = plan.messages * plan.message_bytes as u64;
        done((wanted - bytes) / plan.message_bytes as u64, [0.0; 2]);
        connection.closed().await;
        Ok::<(), io::Error>(())
    };
    runtime.block_on(task)?;
    wait_for_end();
    Ok(())
}

/// Sends all messages.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    let config = client_config(plan)?;
    let peer: SocketAddr = address.parse().map_err(io::Error::other)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let endpoint = endpoint(SocketAddr::from(([0, 0, 0, 0], 0)), None)?;
        let connecting = endpoint
            .connect_with(config, peer, "localhost")
            .map_err(io::Error::other)?;
        let connection = connecting.await.map_err(io::Error::other)?;
        let mut writers = Vec::new();
        for stream in 0..plan.streams {
            let share = plan.messages / plan.streams + u64::from(stream < plan.messages % plan.streams);
            writers.push(tokio::spawn(write(connection.clone(), share, plan.message_bytes)));
        }
        for writer in writers {
            writer.await.map_err(io::Error::other)??;
        }
        connection.close(VarInt::from_u32(0), b"done");
        // As long as `quic://` gives it: the goodbye is sent, and not repeated.
        let _ = tokio::time::timeout(GOODBYE, endpoint.wait_idle()).await;
        Ok(())
    })
}

async fn write(connection: Connection, messages: u64, message_bytes: usize) -> io::Result<()> {
    let mut stream = connection.open_uni().await.map_err(io::Error::other)?;
    let message = Bytes::from(super::plan::template(message_bytes));
    for _ in 0..messages {
        stream.write_chunk(message.clone()).await?;
    }
    stream.finish().map_err(io::Error::other)?;
    // Until the other end has all of it.
    stream.stopped().await.map_err(io::Error::other)?;
    Ok(())
}
