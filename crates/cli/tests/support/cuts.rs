//! A proxy of any transport that cuts connections after some bytes, or lets them hang, until it is told to stop that.

use logdrive_ring::channel::{Channel, Received};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a sender after which a connection is cut: within the hello or the handshake, within the first batches, and far
/// behind them.
const SENT_BYTES: [usize; 7] = [10, 150, 600, 1_500, 2_500, 4_000, 10_000];
/// The same for the collector's: within its hello, and within acknowledgements.
const ANSWERED_BYTES: [usize; 6] = [10, 60, 150, 400, 1_500, 3_500];
/// Bytes that a handshake of QUIC takes in either direction: every other connection is cut behind it.
const QUIC_HANDSHAKE_BYTES: usize = 5_000;
/// Milliseconds that a connection in shared memory lives; its bytes do not go through the proxy.
const LIVES_MS: [u64; 6] = [0, 1, 3, 10, 40, 120];

#[derive(Debug, Default)]
struct Cuts {
    count: AtomicUsize,
    is_calm: AtomicBool,
}

/// A proxy in front of a collector.
pub(crate) struct CuttingProxy {
    pub(crate) address: String,
    cuts: Arc<Cuts>,
}

impl CuttingProxy {
    /// Passes on to an address; a socket of its own lies in the directory.
    pub(crate) fn start(to: &str, directory: &Path) -> Self {
        let (scheme, place) = to.split_once("://").expect("an address");
        let place = place.to_owned();
        let cuts = Arc::new(Cuts::default());
        let own = Arc::clone(&cuts);
        let socket = directory.join("proxy.sock");
        let at = match scheme {
            "tcp" | "tls" => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let at = listener.local_addr().expect("bound").to_string();
                std::thread::spawn(move || {
                    let clients = listener.incoming().map_while(Result::ok);
                    pass_streams(clients, || TcpStream::connect(&place), &own);
                });
                at
            }
            "unix" => {
                let listener = UnixListener::bind(&socket).expect("a socket");
                std::thread::spawn(move || {
                    let clients = listener.incoming().map_while(Result::ok);
                    pass_streams(clients, || UnixStream::connect(&place), &own);
                });
                socket.display().to_string()
            }
            "shm" => {
                let listener = listen_for_packets(&socket).expect("a socket");
                std::thread::spawn(move || pass_channels(&listener, Path::new(&place), &own));
                socket.display().to_string()
            }
            "udp" | "quic" => {
                let outside = UdpSocket::bind("127.0.0.1:0").expect("a port");
                let at = outside.local_addr().expect("bound").to_string();
                let to = place.parse().expect("an address");
                let later = if scheme == "quic" { QUIC_HANDSHAKE_BYTES } else { 0 };
                std::thread::spawn(move || pass_datagrams(&outside, to, later, &own));
                at
            }
            other => panic!("{other}"),
        };
        Self {
            address: format!("{scheme}://{at}"),
            cuts,
        }
    }

    /// Number of connections that were cut.
    pub(crate) fn count(&self) -> usize {
        self.cuts.count.load(Ordering::Relaxed)
    }

    /// Cuts no more.
    pub(crate) fn calm(&self) {
        self.cuts.is_calm.store(true, Ordering::Relaxed);
    }
}

/// One connection, and where it is cut.
#[derive(Debug)]
struct Flow {
    cuts: Arc<Cuts>,
    /// The bytes of the collector count, not those of the sender.
    by_answers: bool,
    /// Nothing passes any more, and nobody is told.
    hangs: bool,
    limit: usize,
    passed: AtomicUsize,
    is_cut: AtomicBool,
}

impl Flow {
    /// The flow of a connection that is cut so many bytes later than others, if it is one of every other.
    fn new(number: usize, later: usize, cuts: &Arc<Cuts>) -> Self {
        let by_answers = number % 3 == 1;
        let limit = match by_answers {
            true => ANSWERED_BYTES[number / 3 % ANSWERED_BYTES.len()],
            false => SENT_BYTES[number % SENT_BYTES.len()] + number * 37 % 300,
        };
        Self {
            cuts: Arc::clone(cuts),
            by_answers,
            hangs: number % 5 == 4,
            limit: limit + later * (number % 2),
            passed: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
        }
    }

    /// Returns how many of these bytes pass.
    fn pass(&self, is_answer: bool, length: usize) -> usize {
        if self.is_cut.load(Ordering::Relaxed) {
            return 0;
        }
        if is_answer != self.by_answers || self.cuts.is_calm.load(Ordering::Relaxed) {
            return length;
        }
        let passed = self.passed.fetch_add(length, Ordering::Relaxed);
        let left = self.limit.saturating_sub(passed);
        if length > left {
            self.is_cut.store(true, Ordering::Relaxed);
            self.cuts.count.fetch_add(1, Ordering::Relaxed);
        }
        length.min(left)
    }
}

/// A connected stream that two threads use.
trait Stream: Read + Write + Send + Sized + 'static {
    fn twin(&self) -> io::Result<Self>;
    fn end(&self);
}

macro_rules! stream {
    ($name:ty) => {
        impl Stream for $name {
            fn twin(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn end(&self) {
                // The other end may have closed it already.
                let _ = self.shutdown(Shutdown::Both);
            }
        }
    };
}
stream!(TcpStream);
stream!(UnixStream);

fn pass_streams<S: Stream>(
    clients: impl Iterator<Item = S>,
    connect: impl Fn() -> io::Result<S>,
    cuts: &Arc<Cuts>,
) {
    for (number, client) in clients.enumerate() {
        let Ok(server) = connect() else {
            continue;
        };
        let flow = Arc::new(Flow::new(number, 0, cuts));
        let (Ok(to_server), Ok(to_client)) = (server.twin(), client.twin()) else {
            continue;
        };
        let back = Arc::clone(&flow);
        std::thread::spawn(move || copy(client, to_server, &flow, false));
        std::thread::spawn(move || copy(server, to_client, &back, true));
    }
}

fn copy<S: Stream>(mut from: S, mut to: S, flow: &Flow, is_answer: bool) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        let passes = flow.pass(is_answer, length);
        if passes > 0 && to.write_all(&bytes[..passes]).is_err() || passes < length && !flow.hangs {
            break;
        }
    }
    from.end();
    to.end();
}

fn listen_for_packets(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 64)?;
    Ok(socket)
}

/// Passes on the packets that bring the rings, and ends both channels some time later: one of them first, in turn.
fn pass_channels(listener: &OwnedFd, to: &Path, cuts: &Arc<Cuts>) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    for number in 0.. {
        let Ok(client) = accept_with(listener, flags) else {
            return;
        };
        let Ok(server) = Channel::connect(to, Duration::from_secs(1)) else {
            continue;
        };
        let (client, cuts) = (Channel::new(client), Arc::clone(cuts));
        std::thread::spawn(move || pass_channel(&client, &server, number, &cuts));
    }
}

fn pass_channel(client: &Channel, server: &Channel, number: usize, cuts: &Cuts) {
    let lives = Duration::from_millis(LIVES_MS[number % LIVES_MS.len()] + number as u64 % 7);
    let (began, mut bytes) = (Instant::now(), [0; 256]);
    let is_over = |from: &Channel, to: &Channel, bytes: &mut [u8]| {
        let mut descriptors = Vec::new();
        match from.receive(bytes, &mut descriptors, true) {
            Ok(Received::Packet(length)) => {
                let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
                to.send(&bytes[..length], &descriptors).is_err()
            }
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    };
    while !is_over(client, server, &mut bytes) && !is_over(server, client, &mut bytes) {
        if began.elapsed() >= lives && !cuts.is_calm.load(Ordering::Relaxed) {
            cuts.count.fetch_add(1, Ordering::Relaxed);
            break;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let (first, second) = match number % 2 {
        0 => (client, server),
        _ => (server, client),
    };
    first.shut();
    std::thread::park_timeout(Duration::from_millis(number as u64 % 3 * 30));
    second.shut();
}

/// Passes datagrams on, with a port of its own for each sender, as that would have.
fn pass_datagrams(outside: &UdpSocket, to: SocketAddr, later: usize, cuts: &Arc<Cuts>) {
    let mut senders: HashMap<SocketAddr, (UdpSocket, Arc<Flow>)> = HashMap::new();
    let mut bytes = vec![0; 65_536];
    // A sender that has ended refuses what comes late.
    while let Ok((length, from)) = receive(outside, &mut bytes) {
        let number = senders.len();
        let (inside, flow) = senders.entry(from).or_insert_with(|| {
            let inside = UdpSocket::bind("127.0.0.1:0").expect("a port");
            inside.connect(to).expect("an address");
            let flow = Arc::new(Flow::new(number, later, cuts));
            let twins = [&inside, outside].map(|socket| socket.try_clone().expect("a socket"));
            let theirs = Arc::clone(&flow);
            std::thread::spawn(move || answer(&twins[0], &twins[1], from, &theirs));
            (inside, flow)
        });
        if flow.pass(false, length) == length {
            // A collector that is away refuses it.
            let _ = inside.send(&bytes[..length]);
        }
    }
}

/// The next datagram, after the refusals of earlier ones.
fn receive(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(bytes) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            other => return other,
        }
    }
}

fn answer(inside: &UdpSocket, outside: &UdpSocket, to: SocketAddr, flow: &Flow) {
    let mut bytes = vec![0; 65_536];
    inside
        .set_read_timeout(Some(Duration::from_secs(1)))
        .expect("a time");
    loop {
        match receive(inside, &mut bytes) {
            Ok((length, _)) if flow.pass(true, length) == length => {
                // A sender that has ended refuses it.
                let _ = outside.send_to(&bytes[..length], to);
            }
            Ok(_) => {}
            // None has a word for a connection that was cut.
            Err(_) if flow.is_cut.load(Ordering::Relaxed) => return,
            Err(_) => {}
        }
    }
}
