//! A socket that joins what quinn sends in pieces of ten datagrams: the kernel takes up to 64 at once, and each call
//! costs.

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// Datagrams that are sent at once: fewer than the kernel's 64, and of less than 64 KiB together.
const SEGMENTS_MAX: usize = 40;
/// Bytes of a datagram that can be cut: the bound of UDP over IPv4.
const BYTES_MAX: usize = 65_507;

/// Socket that coalesces datagrams.
#[derive(Debug)]
pub(super) struct CoalescingSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    pending: Mutex<PendingDatagrams>,
}

/// Datagrams that wait for more of their kind, which come in the same turn of the runtime or not at all.
#[derive(Debug, Default)]
struct PendingDatagrams {
    bytes: Vec<u8>,
    common: Option<SegmentMeta>,
    /// Nothing can be joined to it: its last datagram is a short one.
    is_closed: bool,
    /// More has come since the last look.
    grew: bool,
    /// Wakes the task that sends them when nothing more comes.
    flush_waker: Option<Waker>,
}

/// Properties that datagrams must share to be sent in one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SegmentMeta {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    segment_bytes: usize,
    src_ip: Option<IpAddr>,
}

impl PendingDatagrams {
    /// Sends what is held.
    fn flush(&mut self, socket: &dyn AsyncUdpSocket) -> io::Result<()> {
        let Some(common) = self.common else {
            return Ok(());
        };
        let transmit = Transmit {
            destination: common.destination,
            ecn: common.ecn,
            contents: &self.bytes,
            segment_size: (self.bytes.len() > common.segment_bytes).then_some(common.segment_bytes),
            src_ip: common.src_ip,
        };
        let sent = socket.try_send(&transmit);
        if sent
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            return sent;
        }
        self.common = None;
        self.bytes.clear();
        self.is_closed = false;
        sent
    }
}

impl CoalescingSocket {
    /// Around a socket; within a runtime, which gets a task that ends with the socket.
    pub(super) fn wrap(inner: Arc<dyn AsyncUdpSocket>) -> Arc<Self> {
        let socket = Arc::new(Self {
            inner,
            pending: Mutex::default(),
        });
        let poller = Arc::clone(&socket.inner).create_io_poller();
        tokio::spawn(FlushTask {
            socket: Arc::downgrade(&socket),
            poller,
        });
        socket
    }

    fn lock(&self) -> MutexGuard<'_, PendingDatagrams> {
        // Whole datagrams go in and out.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CoalescingSocket {
    fn drop(&mut self) {
        let mut pending = self.lock();
        let flush_waker = pending.flush_waker.take();
        // What is lost here was lost on the way.
        let _ = pending.flush(self.inner.as_ref());
        drop(pending);
        flush_waker.iter().for_each(Waker::wake_by_ref);
    }
}

impl AsyncUdpSocket for CoalescingSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut pending = self.lock();
        let length = transmit.contents.len();
        let Some(segment_bytes) = transmit
            .segment_size
            .filter(|_| self.inner.max_transmit_segments() > 1)
        else {
            pending.flush(self.inner.as_ref())?;
            return self.inner.try_send(transmit);
        };
        let common = SegmentMeta {
            destination: transmit.destination,
            ecn: transmit.ecn,
            segment_bytes,
            src_ip: transmit.src_ip,
        };
        let bytes_max = BYTES_MAX.min(segment_bytes * SEGMENTS_MAX);
        let is_other = pending.common.is_some_and(|other| other != common);
        if is_other || pending.is_closed || pending.bytes.len() + length > bytes_max {
            pending.flush(self.inner.as_ref())?;
        }
        pending.common = Some(common);
        pending.bytes.extend_from_slice(transmit.contents);
        pending.grew = true;
        pending.is_closed = !length.is_multiple_of(segment_bytes);
        if pending.is_closed || pending.bytes.len() + length > bytes_max {
            return match pending.flush(self.inner.as_ref()) {
                // It is held, and goes later.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    pending.flush_waker.iter().for_each(Waker::wake_by_ref);
                    Ok(())
                }
                sent => sent,
            };
        }
        pending.flush_waker.iter().for_each(Waker::wake_by_ref);
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Sends what nothing more has come for since its last turn.
struct FlushTask {
    socket: Weak<CoalescingSocket>,
    poller: Pin<Box<dyn UdpPoller>>,
}

impl Future for FlushTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(socket) = self.socket.upgrade() else {
            return Poll::Ready(());
        };
        let mut pending = socket.lock();
        if pending
            .flush_waker
            .as_ref()
            .is_none_or(|waker| !waker.will_wake(cx.waker()))
        {
            pending.flush_waker = Some(cx.waker().clone());
        }
        if pending.common.is_none() {
            return Poll::Pending;
        }
        if std::mem::take(&mut pending.grew) {
            // Its sender may have more in its next turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            match pending.flush(socket.inner.as_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Others than that are like a loss on the way.
                _ => return Poll::Pending,
            }
            match self.poller.as_mut().poll_writable(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn::{Runtime as _, TokioRuntime};
    use std::net::UdpSocket;
    use std::time::Duration;

    const SEGMENT_BYTES: usize = 1_200;

    fn receiver() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a time limit");
        let address = socket.local_addr().expect("an address");
        (socket, address)
    }

    async fn send(socket: &CoalescingSocket, destination: SocketAddr, contents: &[u8]) {
        let transmit = Transmit {
            destination,
            ecn: None,
            contents,
            segment_size: (contents.len() > SEGMENT_BYTES).then_some(SEGMENT_BYTES),
            src_ip: None,
        };
        while let Err(error) = socket.try_send(&transmit) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            tokio::task::yield_now().await;
        }
    }

    fn came(socket: &UdpSocket, bytes: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while all.iter().map(Vec::len).sum::<usize>() < bytes {
            let mut datagram = [0; 2 * SEGMENT_BYTES];
            let length = socket.recv(&mut datagram).expect("what was sent");
            all.push(datagram[..length].to_vec());
        }
        all
    }

    #[test]
    fn joined_datagrams_come_apart_in_order_and_none_waits_for_more() {
        let (one, one_at) = receiver();
        let (other, other_at) = receiver();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let bytes = |length: usize, seed: usize| -> Vec<u8> {
            (0..length)
                .map(|at| ((at / SEGMENT_BYTES) * 7 + seed) as u8)
                .collect()
        };
        // Whole ones, one with a short end, one that stands alone, and whole ones at the end with nothing behind them.
        let pieces = [10, 10, 10, 10, 10].map(|count| count * SEGMENT_BYTES);
        let pieces = [
            &pieces[..],
            &[4 * SEGMENT_BYTES + 5, 2 * SEGMENT_BYTES, 700],
            &pieces[..2],
        ]
        .concat();
        let pieces: Vec<Vec<u8>> = pieces
            .iter()
            .enumerate()
            .map(|(seed, length)| bytes(*length, seed))
            .collect();
        let wanted: Vec<Vec<u8>> = pieces
            .iter()
            .flat_map(|piece| piece.chunks(SEGMENT_BYTES).map(<[u8]>::to_vec))
            .collect();
        let length: usize = pieces.iter().map(Vec::len).sum();
        let aside = bytes(3 * SEGMENT_BYTES, 200);
        runtime.block_on(async {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let socket =
                CoalescingSocket::wrap(TokioRuntime.wrap_udp_socket(socket).expect("a wrapped socket"));
            for (number, piece) in pieces.iter().enumerate() {
                send(&socket, one_at, piece).await;
                if number == 1 {
                    send(&socket, other_at, &aside).await;
                }
            }
            // The last ones are held until the runtime has another turn; then nothing more is needed.
            let gone = async {
                while socket.lock().common.is_some() {
                    tokio::task::yield_now().await;
                }
            };
            let gone = tokio::time::timeout(Duration::from_secs(20), gone).await;
            assert!(gone.is_ok(), "nobody sends what is pending");
            assert_eq!(came(&one, length), wanted);
            assert_eq!(came(&other, aside.len()).concat(), aside);
        });
    }
}
