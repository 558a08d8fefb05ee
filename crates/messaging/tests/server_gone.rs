//! Senders whose server is killed, or ends: they notice it, over every transport, and go on with the next one.

use logdrive_messaging::Sender;
use logdrive_ship::frame::{Header, Kind, next_frame};
use logdrive_ship::hello::{Hello, Role};
use logdrive_ship::session::{Peer, Service};
use logdrive_ship::{Address, Options, Threads, TlsFiles, TransportError, serve};
use logdrive_testkit::{DEADLINE, Process, Servers, end_of_input, report, role, wait_until};
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Count(AtomicU64);

impl Service for Count {
    fn message(&self, _: &Peer, _: u16, _: &[u8]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Serves in a process of its own until it is killed; its role has the address, and the directory of its keys.
fn serve_alone(role: &str) {
    let (address, keys) = role.split_once(' ').expect("an address and a directory");
    let file = |name: &str| Some(Path::new(keys).join(name));
    let tls = TlsFiles {
        authorities: file("authority.pem"),
        certificate: file("server.pem"),
        key: file("server.key"),
        ..TlsFiles::default()
    };
    let options = Options {
        tls,
        ..Options::default()
    };
    let address: Address = address.parse().expect("an address");
    let server = serve(
        &[address],
        &options,
        Threads::default(),
        Arc::new(Count::default()),
    )
    .expect("it listens");
    report(&format!("listening at {}", server.addresses()[0]));
    let _ = end_of_input().recv();
}

/// Sends until it fails.
fn send_until_noticed(sender: &Sender, address: &Address) -> TransportError {
    let end = Instant::now() + DEADLINE;
    let mut sent = 0_u64;
    loop {
        assert!(
            Instant::now() < end,
            "{address}: {sent} messages were sent to nobody"
        );
        if let Err(error) = sender.send(b"to nobody") {
            return error;
        }
        sent += 1;
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// 3,655 sends over 20 s returned `Ok` over shm and udp, whose rings and sockets have room when nobody reads.
#[test]
fn a_sender_notices_that_its_server_was_killed_and_goes_on_with_the_next_one() {
    if let Some(role) = role() {
        return serve_alone(&role);
    }
    let servers = Servers::with_keys();
    for scheme in ["shm", "udp", "unix", "tcp", "tls", "quic"] {
        let mut options = servers.client_options.clone();
        options.timeouts.idle = Duration::from_secs(1);
        let role = format!(
            "{} {}",
            servers.address(scheme, scheme),
            servers.path("keys").display()
        );
        let test = "a_sender_notices_that_its_server_was_killed_and_goes_on_with_the_next_one";
        let mut child = Process::in_role(test, &role);
        let address: Address = child.expect("listening at ").parse().expect("an address");
        let sender = Sender::connect(&address, &options).expect("connected");
        sender.send(b"one").expect("sent");
        sender.flush().expect("sent");
        child.kill();
        let error = send_until_noticed(&sender, &address);
        assert!(error.is_passing(), "{scheme}: {error}");
        let count = Arc::new(Count::default());
        let _server = servers.serve(&address, Threads::default(), count.clone());
        wait_until("it connects again", || sender.send(b"two").is_ok());
        sender.flush().expect("sent");
        wait_until("messages come again", || {
            // Datagrams may be lost.
            let _ = sender.send(b"three");
            count.0.load(Ordering::Relaxed) > 0
        });
    }
}

#[test]
fn a_sender_notices_that_its_server_has_ended_and_goes_on_with_the_next_one() {
    let servers = Servers::with_keys();
    for scheme in ["shm", "udp", "unix", "tcp", "tls", "quic"] {
        let count = Arc::new(Count::default());
        let server = servers.serve(
            &servers.address(scheme, scheme),
            Threads::default(),
            count.clone(),
        );
        let address = server.addresses()[0].clone();
        let sender = Sender::connect(&address, &servers.client_options).expect("connected");
        sender
            .batch_on(7)
            .expect("another stream")
            .push(b"one")
            .expect("sent");
        sender.flush().expect("sent");
        wait_until("it has come", || count.0.load(Ordering::Relaxed) == 1);
        server.stop();
        let error = send_until_noticed(&sender, &address);
        assert!(error.is_passing(), "{scheme}: {error}");
        let _server = servers.serve(&address, Threads::default(), count.clone());
        wait_until("it connects again", || sender.send(b"two").is_ok());
        let before = count.0.load(Ordering::Relaxed);
        wait_until("messages of another stream come, too", || {
            let pushed = sender.batch_on(7).and_then(|mut batch| batch.push(b"three"));
            pushed.and_then(|()| sender.flush()).expect("sent");
            count.0.load(Ordering::Relaxed) > before + 1
        });
    }
}

/// A network that says nothing of a machine that is gone; and a receiver that has nothing to acknowledge is asked first.
#[test]
fn a_receiver_of_datagrams_that_says_nothing_any_more_is_noticed() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address: Address = format!("udp://{}", socket.local_addr().expect("bound"))
        .parse()
        .expect("an address");
    let (done, is_done) = channel();
    let receiver = std::thread::spawn(move || {
        let (mut bytes, mut hellos) = ([0; 2_000], 0);
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a socket");
        let mut answer = Vec::new();
        Header::new(Kind::Hello, 0).put(&[&Hello::new(Role::Server).encode()], true, &mut answer);
        while is_done.try_recv().is_err() {
            let Ok((length, sender)) = socket.recv_from(&mut bytes) else {
                continue;
            };
            let frame = next_frame(&bytes[..length], 2_000)
                .expect("a frame")
                .expect("whole");
            if frame.header.kind == Kind::Hello {
                hellos += 1;
                // The handshake, and one question.
                if hellos <= 2 {
                    socket.send_to(&answer, sender).expect("sent");
                }
            }
        }
        hellos
    });
    let sender = Sender::connect(&address, &Options::default()).expect("connected");
    let error = send_until_noticed(&sender, &address);
    assert!(error.to_string().contains("did not say a word"), "{error}");
    done.send(()).expect("it runs");
    let hellos = receiver.join().expect("no panic");
    assert!(hellos > 3, "it was asked {hellos} times, again and again");
}

#[test]
fn messages_that_are_written_in_place_are_not_written_for_nobody() {
    let servers = Servers::with_keys();
    let server = servers.serve(
        &servers.address("shm", "s"),
        Threads::default(),
        Arc::new(Count::default()),
    );
    let sender = Sender::connect(&server.addresses()[0], &servers.client_options).expect("connected");
    let write = || {
        sender
            .batch()
            .push_in_place(|space| space.extend_from_slice(b"in place"))
    };
    write().expect("sent");
    server.stop();
    wait_until("it is noticed", || write().is_err());
    wait_until("and not forgotten", || write().is_err());
}
