//! A proxy between a sender and a collector that loses, doubles and reorders datagrams.

use logdrive_testkit::Random;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct LossyProxy {
    pub(crate) address: String,
    pub(crate) lost: Arc<AtomicUsize>,
}

impl LossyProxy {
    /// Loses one datagram of so many, in both directions, and doubles and delays a third as many.
    pub(crate) fn start(to: &str, one_in: u64, seed: u64) -> Self {
        let to: SocketAddr = to
            .strip_prefix("udp://")
            .and_then(|at| at.parse().ok())
            .expect("udp");
        let outside = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = format!("udp://{}", outside.local_addr().expect("bound"));
        let lost = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&lost);
        std::thread::spawn(move || run(&outside, to, &count, one_in, seed));
        Self { address, lost }
    }
}

fn run(outside: &UdpSocket, to: SocketAddr, lost: &Arc<AtomicUsize>, one_in: u64, seed: u64) {
    let mut random = Random::new(seed);
    let mut senders: HashMap<SocketAddr, UdpSocket> = HashMap::new();
    let mut bytes = vec![0; 65_536];
    let mut held: Option<Vec<u8>> = None;
    while let Ok((length, from)) = outside.recv_from(&mut bytes) {
        // A port of its own for each sender, as it would have.
        let inside = senders.entry(from).or_insert_with(|| {
            let inside = UdpSocket::bind("127.0.0.1:0").expect("a port");
            inside.connect(to).expect("an address");
            let back = (
                inside.try_clone().expect("a socket"),
                outside.try_clone().expect("a socket"),
            );
            let (count, seed) = (Arc::clone(lost), random.bits());
            std::thread::spawn(move || answer(&back.0, &back.1, from, &count, one_in, seed));
            inside
        });
        let datagram = bytes[..length].to_vec();
        match random.below(3 * one_in) {
            0..=2 => {
                lost.fetch_add(1, Ordering::Relaxed);
            }
            3 => {
                // A collector that is away refuses it.
                let _ = inside.send(&datagram);
                let _ = inside.send(&datagram);
            }
            4 => held = Some(datagram),
            _ => {
                let _ = inside.send(&datagram);
                if let Some(late) = held.take() {
                    let _ = inside.send(&late);
                }
            }
        }
    }
}

fn answer(
    inside: &UdpSocket,
    outside: &UdpSocket,
    to: SocketAddr,
    lost: &AtomicUsize,
    one_in: u64,
    seed: u64,
) {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; 65_536];
    loop {
        match inside.recv(&mut bytes) {
            Ok(_) if random.one_in(one_in) => {
                lost.fetch_add(1, Ordering::Relaxed);
            }
            Ok(length) => {
                // A sender that has ended refuses it.
                let _ = outside.send_to(&bytes[..length], to);
            }
            // A collector that is away: the socket has told what it refused, and waits again.
            Err(_) => {}
        }
    }
}
