//! Handlers that panic: their connection ends with a reason, the service is told, and all other connections go on.

use logdrive_messaging::{Client, Sender};
use logdrive_ship::hello::Reason;
use logdrive_ship::session::{InPlace, Peer, ReplyBuffer, Reserved, Service};
use logdrive_ship::{Address, ServerHandle, Threads, TransportError};
use logdrive_testkit::{DEADLINE, Servers, wait_until};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Instant;

const ASKED_FOR: &str = "the test asks for this panic";

/// Panics where it is told to; elsewhere answers with what was asked, behind the name of its thread.
#[derive(Default)]
struct Fragile {
    reads_in_place: bool,
    panics_at_end: bool,
    panics: Mutex<Vec<String>>,
}

impl Fragile {
    fn panics(&self) -> MutexGuard<'_, Vec<String>> {
        self.panics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(body: &[u8]) {
        assert!(body != b"panic", "{ASKED_FOR}");
    }
}

impl Service for Fragile {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        let app = peer.hello.as_ref().map_or("", |hello| &hello.app);
        Self::handle(app.as_bytes());
        Ok(0)
    }

    fn message(&self, _: &Peer, _: u16, message: &[u8]) {
        Self::handle(message);
    }

    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        reply.extend_from_slice(std::thread::current().name().unwrap_or_default().as_bytes());
        Self::handle(body);
        reply.extend_from_slice(body);
        Ok(())
    }

    fn reads_in_place(&self) -> bool {
        self.reads_in_place
    }

    fn request_in_place(
        &self,
        _: &Peer,
        _: u16,
        body: InPlace<'_>,
        reply: &mut Reserved<'_>,
    ) -> Result<(), String> {
        reply.extend_from_slice(b"in place ");
        Self::handle(&body.to_vec());
        reply.extend_in_place(body);
        Ok(())
    }

    fn message_in_place(&self, _: &Peer, _: u16, message: InPlace<'_>) {
        Self::handle(&message.to_vec());
    }

    fn panicked(&self, _: &Peer, words: &str) {
        self.panics().push(words.to_owned());
    }

    fn disconnected(&self, _: &Peer, _: Reason) {
        assert!(!self.panics_at_end, "{ASKED_FOR}");
    }
}

/// Leaves panics that a test asks for out of its output.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let words = panic.payload().downcast_ref::<String>();
            if words.is_none_or(|words| words != ASKED_FOR) {
                usual(panic);
            }
        }));
    });
}

fn expect_failure(client: &mut Client) {
    let error = client.call(b"panic").expect_err("the handler panics");
    assert!(
        matches!(&error, TransportError::Failed(words) if words == "the handler panicked"),
        "{error}"
    );
    let error = client.call(b"more").expect_err("the connection has ended");
    let is_reason = |reason: &Reason| *reason == Reason::Failed;
    let is_told = matches!(&error, TransportError::Refused { reason, .. } if is_reason(reason));
    // A goodbye that was sent before the peer sends more may be lost with the socket.
    assert!(is_told || matches!(error, TransportError::Lost { .. }), "{error}");
}

fn check(servers: &Servers, server: &ServerHandle, service: &Fragile, schemed: &Address) {
    let mut bystander = servers.connect(server);
    assert!(
        bystander.call(b"one").expect("answered").ends_with(b"one"),
        "{schemed}"
    );
    for round in 1..=3 {
        expect_failure(&mut servers.connect(server));
        assert!(
            bystander.call(b"two").expect("answered").ends_with(b"two"),
            "{schemed}"
        );
        wait_until("it is counted", || {
            server.stats().ended_for(Reason::Failed) == round
        });
    }
    let sender = Sender::connect(schemed, &servers.client_options).expect("connected");
    sender.send(b"panic").expect("handed over");
    sender.flush().expect("sent");
    wait_until("it is counted, too", || {
        server.stats().ended_for(Reason::Failed) == 4
    });
    let mut options = servers.client_options.clone();
    options.app = "panic".to_owned();
    let error = Client::connect(schemed, &options).expect_err("its hello panics");
    assert!(
        matches!(
            error,
            TransportError::Refused {
                reason: Reason::Failed,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        bystander.call(b"three").expect("answered").ends_with(b"three"),
        "{schemed}"
    );
    drop((bystander, sender));
    wait_until("all have left", || server.stats().connections == 0);
    assert_eq!(*service.panics(), [ASKED_FOR; 5], "{schemed}");
}

/// A panic used to end the poller's thread, with all of its connections, and the thread of a pool or of a ring.
#[test]
fn a_handler_that_panics_ends_its_connection_and_no_other() {
    quiet();
    let servers = Servers::with_keys();
    for scheme in ["unix", "shm", "tcp", "tls", "quic"] {
        for (pool, reads_in_place) in [(0, false), (2, false), (0, true)] {
            if reads_in_place && scheme != "shm" {
                continue;
            }
            let threads = Threads {
                pool,
                dedicated: 0,
                ..Threads::default()
            };
            let service = Arc::new(Fragile {
                reads_in_place,
                ..Fragile::default()
            });
            let server = servers.serve(&servers.address(scheme, scheme), threads, service.clone());
            let address = server.addresses()[0].clone();
            check(&servers, &server, &service, &address);
        }
    }
}

#[test]
fn datagrams_that_make_the_service_panic_end_their_peer_alone() {
    quiet();
    let servers = Servers::with_keys();
    let service = Arc::new(Fragile::default());
    let server = servers.serve(
        &servers.address("udp", "udp"),
        Threads::default(),
        service.clone(),
    );
    let address = &server.addresses()[0];
    for round in 1..=3 {
        let sender = Sender::connect(address, &servers.client_options).expect("connected");
        sender.send(b"panic").expect("handed over");
        // The goodbye may come before this call returns.
        let _ = sender.flush();
        wait_until("it is counted", || {
            server.stats().ended_for(Reason::Failed) == round
        });
    }
    assert_eq!(service.panics().len(), 3);
}

#[test]
fn a_panic_on_a_dedicated_thread_gives_its_place_back() {
    quiet();
    let servers = Servers::with_keys();
    let service = Arc::new(Fragile::default());
    let threads = Threads {
        dedicated: 1,
        ..Threads::default()
    };
    let server = servers.serve(&servers.address("unix", "s.sock"), threads, service);
    for round in 1..=2 {
        let mut client = servers.connect(&server);
        let end = Instant::now() + DEADLINE;
        while !client
            .call(b"?")
            .expect("answered")
            .starts_with(b"logdrive-dedicated")
        {
            assert!(Instant::now() < end, "it never got the dedicated thread");
        }
        expect_failure(&mut client);
        wait_until("it is counted", || {
            server.stats().ended_for(Reason::Failed) == round
        });
    }
}

#[test]
fn a_panic_about_the_end_of_a_connection_is_told_and_no_more() {
    quiet();
    let servers = Servers::with_keys();
    for scheme in ["unix", "shm", "quic"] {
        let service = Arc::new(Fragile {
            panics_at_end: true,
            ..Fragile::default()
        });
        let server = servers.serve(
            &servers.address(scheme, scheme),
            Threads::default(),
            service.clone(),
        );
        for round in 1..=2 {
            let mut client = servers.connect(&server);
            client.call(b"x").expect("answered");
            drop(client);
            wait_until("it is told", || service.panics().len() == round);
        }
        wait_until("both have left", || server.stats().connections == 0);
    }
}
