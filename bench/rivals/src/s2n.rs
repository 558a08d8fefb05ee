//! s2n-quic used bare: streams in one direction, whole `Bytes` handed over and taken, and the receiver counts what comes.

use crate::plan::{Plan, done, ready, wait_for_end};
use crate::{failed, runtime};
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::{congestion_controller, io as network, tls};
use s2n_quic::{Client, Server};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Windows as `quic://` has them.
const STREAM_WINDOW_BYTES: u64 = 8 << 20;
const WINDOW_BYTES: u64 = 32 << 20;
/// The kernel's buffers of all subjects.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// UDP payload of a packet, as `quic://` has it.
const PACKET_BYTES: u16 = 1_452;

fn limits() -> io::Result<Limits> {
    Limits::new()
        .with_data_window(WINDOW_BYTES)
        .and_then(|limits| limits.with_bidirectional_local_data_window(STREAM_WINDOW_BYTES))
        .and_then(|limits| limits.with_bidirectional_remote_data_window(STREAM_WINDOW_BYTES))
        .and_then(|limits| limits.with_unidirectional_data_window(STREAM_WINDOW_BYTES))
        .and_then(|limits| limits.with_max_send_buffer_size(STREAM_WINDOW_BYTES as u32))
        .map_err(failed)
}

fn network(address: SocketAddr) -> io::Result<network::Default> {
    // The bound of s2n-quic is of the whole IP packet.
    network::Default::builder()
        .with_receive_address(address)?
        .with_send_buffer_size(SOCKET_BUFFER_BYTES)?
        .with_recv_buffer_size(SOCKET_BUFFER_BYTES)?
        .with_max_mtu(PACKET_BYTES + 28)
        .and_then(|builder| builder.with_initial_mtu(PACKET_BYTES + 28))
        .map_err(failed)?
        .build()
}

fn pem(plan: &Plan, name: &str) -> PathBuf {
    plan.directory.join("keys").join(name)
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    runtime()?.block_on(async {
        let tls = tls::default::Server::builder()
            .with_certificate(
                pem(plan, "server.pem").as_path(),
                pem(plan, "server.key").as_path(),
            )
            .and_then(|builder| builder.build())
            .map_err(failed)?;
        let mut server = Server::builder()
            .with_tls(tls)
            .map_err(failed)?
            .with_limits(limits()?)
            .map_err(failed)?
            .with_congestion_controller(congestion_controller::Cubic::default())
            .map_err(failed)?
            .with_io(network(SocketAddr::from(([127, 0, 0, 1], 0)))?)
            .map_err(failed)?
            .start()
            .map_err(failed)?;
        ready(&server.local_addr()?.to_string());
        let mut connection = server.accept().await.ok_or(io::ErrorKind::NotConnected)?;
        let mut readers = Vec::new();
        for _ in 0..plan.streams {
            let stream = connection.accept_receive_stream().await.map_err(failed)?;
            let mut stream = stream.ok_or(io::ErrorKind::UnexpectedEof)?;
            readers.push(tokio::spawn(async move {
                let mut bytes = 0_u64;
                let mut chunks = vec![Bytes::new(); 32];
                // The end is known before its last chunks have been taken.
                while let Ok((count, is_open)) = stream.receive_vectored(&mut chunks).await
                    && (is_open || count > 0)
                {
                    // Only empty places are filled.
                    let taken = chunks[..count].iter_mut().map(std::mem::take);
                    bytes += taken.map(|chunk| chunk.len() as u64).sum::<u64>();
                }
                bytes
            }));
        }
        let mut bytes = 0;
        for reader in readers {
            bytes += reader.await.map_err(failed)?;
        }
        let wanted = plan.messages * plan.message_bytes as u64;
        done((wanted - bytes) / plan.message_bytes as u64, [0.0; 2]);
        // Until the sender has gone.
        let _ = connection.accept_receive_stream().await;
        Ok::<(), io::Error>(())
    })?;
    wait_for_end();
    Ok(())
}

/// Sends all messages.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    let peer: SocketAddr = address.parse().map_err(failed)?;
    runtime()?.block_on(async {
        let tls = tls::default::Client::builder()
            .with_certificate(pem(plan, "authority.pem").as_path())
            .and_then(|builder| builder.build())
            .map_err(failed)?;
        let client = Client::builder()
            .with_tls(tls)
            .map_err(failed)?
            .with_limits(limits()?)
            .map_err(failed)?
            .with_congestion_controller(congestion_controller::Cubic::default())
            .map_err(failed)?
            .with_io(network(SocketAddr::from(([0, 0, 0, 0], 0)))?)
            .map_err(failed)?
            .start()
            .map_err(failed)?;
        let connect = Connect::new(peer).with_server_name("localhost");
        let connection = client.connect(connect).await.map_err(failed)?;
        let (handle, _acceptor) = connection.split();
        let mut writers = Vec::new();
        for number in 0..plan.streams {
            let share = plan.messages / plan.streams + u64::from(number < plan.messages % plan.streams);
            let message = Bytes::from(crate::plan::template(plan.message_bytes));
            let mut handle = handle.clone();
            writers.push(tokio::spawn(async move {
                let mut stream = handle.open_send_stream().await.map_err(failed)?;
                for _ in 0..share {
                    stream.send(message.clone()).await.map_err(failed)?;
                }
                // Until the other end has all of it.
                stream.close().await.map_err(failed)
            }));
        }
        for writer in writers {
            writer.await.map_err(failed)??;
        }
        handle.close(0_u32.into());
        Ok(())
    })
}
