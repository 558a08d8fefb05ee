//! The accepting end of a connection: whatever a peer sends, it answers or ends, uses no more bytes than there are, and
//! hands over only what a sender may send.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_ship::frame::{Header, Kind};
use logdrive_ship::hello::{HELLO_ACKS, Hello, Reason, Role};
use logdrive_ship::session::{Acks, Outbox, Peer, ReplyBuffer, Server, Service};
use std::sync::atomic::{AtomicU64, Ordering};

/// Keeps what is new, and checks that each number is new once.
#[derive(Default)]
struct Keeper {
    next: AtomicU64,
}

impl Service for Keeper {
    fn hello(&self, _: &Peer) -> Result<u64, Reason> {
        Ok(0)
    }

    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        reply.extend_from_slice(body);
        Ok(())
    }

    fn records(&self, _: &Peer, first: u64, count: u32, _: &[u8]) -> Result<u64, Reason> {
        let end = first.saturating_add(count.into());
        assert!(first <= self.next.load(Ordering::Relaxed) && end > self.next.load(Ordering::Relaxed));
        self.next.store(end, Ordering::Relaxed);
        Ok(end)
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let peer = Peer { id: 0, address: String::new(), uid: None, identity: None, hello: None, outbox: Outbox::default(), acks: Acks::default() };
    let mut server = Server::new(peer, Hello::new(Role::Server));
    if choice & 2 != 0 {
        server = server.lossy();
    }
    let (keeper, mut out, mut input) = (Keeper::default(), Vec::new(), Vec::new());
    if choice & 1 != 0 {
        let role = if choice & 4 != 0 { Role::Shipper } else { Role::Client };
        let mut hello = Hello::new(role);
        if choice & 8 != 0 {
            hello.flags |= HELLO_ACKS;
        }
        Header::new(Kind::Hello, 0).put(&[&hello.encode()], true, &mut input);
    }
    input.extend_from_slice(data);
    let fed = server.feed(&input, &keeper, &mut out, None);
    assert!(fed.used_bytes <= input.len());
    assert!(out.len() <= 2 * input.len() + 4096);
});
