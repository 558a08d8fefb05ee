//! Messages one way through groups of real servers, with acknowledgement and without: which member has them, what is lost when
//! one dies, and that the counts say so.

use logdrive_messaging::{Upstream, UpstreamOptions};
use logdrive_ship::frame::{FrameError, Messages};
use logdrive_ship::session::{Peer, Service};
use logdrive_ship::upstream::{GroupOptions, MemberOptions, Policy};
use logdrive_ship::{Address, Options, ServerHandle, Threads, TransportError};
use logdrive_testkit::{Servers, wait_until};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps the numbers that come; takes no batch with one number in it.
#[derive(Default)]
struct Taker(Mutex<Vec<u64>>);

const REFUSED: u64 = 1 << 40;

impl Service for Taker {
    fn batch(&self, _: &Peer, _: u16, mut messages: Messages<'_>) -> Result<(), FrameError> {
        let mut all = Vec::new();
        while let Some(message) = messages.next_message()? {
            let number: [u8; 8] = message.try_into().expect("eight bytes");
            all.push(u64::from_le_bytes(number));
        }
        if all.contains(&REFUSED) {
            return Err(FrameError::Unknown {
                field: "message",
                found: REFUSED,
            });
        }
        self.0.lock().expect("no panic").extend(all);
        Ok(())
    }
}

impl Taker {
    fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    fn sorted(&self) -> Vec<u64> {
        let mut all = self.0.lock().expect("no panic").clone();
        all.sort_unstable();
        all
    }
}

fn serve(servers: &Servers, scheme: &str, name: &str) -> (ServerHandle, Address, Arc<Taker>) {
    let taker = Arc::new(Taker::default());
    let server = servers.serve(&servers.address(scheme, name), Threads::default(), taker.clone());
    let address = server.addresses()[0].clone();
    (server, address, taker)
}

/// Nothing goes by itself: what is sent is told to.
fn patient() -> Options {
    Options {
        linger: Duration::from_secs(600),
        ..Options::default()
    }
}

fn upstream(options: UpstreamOptions, transport: &Options, members: &[(&Address, u32)]) -> Upstream {
    let upstream = Upstream::start("takers", options, transport).expect("it starts");
    for (address, weight) in members {
        let mut member = MemberOptions::new((*address).clone());
        member.weight = *weight;
        upstream.add(member).expect("a member");
    }
    upstream
}

fn numbers(range: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    range.map(u64::to_le_bytes).collect()
}

#[test]
fn what_is_delivered_is_with_the_service_when_the_call_returns() {
    let servers = Servers::with_keys();
    for scheme in ["unix", "shm", "tcp"] {
        let (_one, first, one) = serve(&servers, scheme, "one");
        let (_two, second, two) = serve(&servers, scheme, "two");
        let upstream = upstream(
            UpstreamOptions::default(),
            &Options::default(),
            &[(&first, 1), (&second, 1)],
        );
        let mut sent = 0;
        for count in [1, 3, 20_000, 1, 7] {
            upstream.deliver(0, &numbers(sent..sent + count)).expect("taken");
            sent += count;
            assert_eq!((one.count() + two.count()) as u64, sent, "{scheme}");
        }
        upstream
            .deliver::<[u8; 8]>(0, &[])
            .expect("nothing is as good as taken");
        let both = [one.sorted(), two.sorted()].concat();
        assert!(
            !one.sorted().is_empty() && !two.sorted().is_empty(),
            "{scheme}: in turn"
        );
        let unique: std::collections::BTreeSet<u64> = both.iter().copied().collect();
        assert_eq!(
            (unique.len(), both.len()),
            (sent as usize, sent as usize),
            "{scheme}"
        );
    }
}

#[test]
fn many_threads_deliver_at_once_and_each_message_is_taken_once() {
    let servers = Servers::with_keys();
    let (_one, first, one) = serve(&servers, "unix", "one");
    let options = UpstreamOptions {
        group: GroupOptions {
            connections_max: 3,
            ..GroupOptions::default()
        },
        ..UpstreamOptions::default()
    };
    let upstream = upstream(options, &Options::default(), &[(&first, 1)]);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let upstream = &upstream;
            scope.spawn(move || {
                for round in 0..50 {
                    let start = 10_000 + thread * 1_000 + round * 20;
                    upstream
                        .deliver(thread, &numbers(start..start + 20))
                        .expect("taken");
                    upstream
                        .send(thread, &(start + 100_000).to_le_bytes())
                        .expect("handed over");
                }
            });
        }
    });
    upstream.flush().expect("sent");
    wait_until("all have come", || one.count() == 8 * 50 * 21);
    let mut all = one.sorted();
    all.dedup();
    assert_eq!(all.len(), 8 * 50 * 21, "twice");
    assert!(upstream.members()[0].connections <= 3);
    assert_eq!(upstream.lost(), 0);
}

#[test]
fn what_the_service_refuses_is_not_acknowledged_and_its_connection_is_not_used_again() {
    let servers = Servers::with_keys();
    let (server, address, one) = serve(&servers, "unix", "one");
    let mut client = servers.connect(&server);
    client.deliver(&numbers(0..5)).expect("taken");
    let error = client
        .deliver(&numbers(REFUSED..REFUSED + 1))
        .expect_err("refused");
    assert!(error.to_string().contains("malformed"), "{error}");
    let upstream = upstream(
        UpstreamOptions {
            retries: 0,
            ..UpstreamOptions::default()
        },
        &Options::default(),
        &[(&address, 1)],
    );
    upstream.deliver(0, &numbers(5..6)).expect("taken");
    assert!(upstream.deliver(0, &numbers(REFUSED..REFUSED + 1)).is_err());
    assert_eq!(upstream.members()[0].failed, 1);
    upstream
        .deliver(0, &numbers(6..7))
        .expect("by a connection that is sound");
    assert_eq!(one.sorted(), [0, 1, 2, 3, 4, 5, 6]);
    let long = vec![0; 2 << 20];
    let error = upstream.deliver(0, &[&long[..]]).expect_err("too long");
    assert!(matches!(error, TransportError::TooLong { .. }), "{error}");
    assert!(matches!(
        upstream.send(0, &long),
        Err(TransportError::TooLong { .. })
    ));
    assert_eq!(upstream.members()[0].failed, 1, "which is nobody's fault");
}

#[test]
fn a_member_that_dies_is_replaced_and_what_it_had_is_acknowledged_by_another() {
    let servers = Servers::with_keys();
    let (one, first, _) = serve(&servers, "unix", "one");
    let (_two, second, two) = serve(&servers, "unix", "two");
    let upstream = upstream(
        UpstreamOptions::default(),
        &Options::default(),
        &[(&first, 1), (&second, 1)],
    );
    upstream.deliver(0, &numbers(0..2)).expect("taken");
    upstream.deliver(0, &numbers(2..4)).expect("taken");
    one.stop();
    for number in 4..40 {
        upstream
            .deliver(0, &numbers(number..number + 1))
            .expect("the other takes it");
    }
    let taken = two.sorted();
    assert!((4..40).all(|number| taken.contains(&number)), "{taken:?}");
}

#[test]
fn messages_without_acknowledgement_go_by_weight_and_by_key() {
    let servers = Servers::with_keys();
    let (_one, first, one) = serve(&servers, "unix", "one");
    let (_two, second, two) = serve(&servers, "unix", "two");
    let members = [(&first, 3), (&second, 1)];
    let upstream_of = |policy| {
        let group = GroupOptions {
            policy,
            ..GroupOptions::default()
        };
        let options = UpstreamOptions {
            group,
            ..UpstreamOptions::default()
        };
        upstream(options, &Options::default(), &members)
    };
    let in_turn = upstream_of(Policy::RoundRobin);
    for number in 0..400_u64 {
        in_turn.send(0, &number.to_le_bytes()).expect("handed over");
    }
    in_turn.flush().expect("sent");
    wait_until("all have come", || one.count() + two.count() == 400);
    assert_eq!((one.count(), two.count()), (300, 100));
    let by_key = upstream_of(Policy::ConsistentHash);
    for round in 1..=3 {
        for key in 0..50_u64 {
            by_key
                .send_all(key, &numbers(1_000 + key..1_001 + key))
                .expect("handed over");
        }
        by_key.flush().expect("sent");
        wait_until("all have come", || one.count() + two.count() == 400 + round * 50);
    }
    let (mut of_one, mut of_two) = (one.sorted(), two.sorted());
    of_one.dedup();
    of_two.dedup();
    let keys = |all: &[u64]| all.iter().filter(|number| **number >= 1_000).count();
    assert_eq!(keys(&of_one) + keys(&of_two), 50, "each key has one member");
    assert!(keys(&of_one) > 0 && keys(&of_two) > 0);
}

#[test]
fn what_is_lost_with_a_connection_is_counted_and_what_comes_then_goes_elsewhere() {
    let servers = Servers::with_keys();
    let (one, first, of_one) = serve(&servers, "unix", "one");
    let (_two, second, two) = serve(&servers, "unix", "two");
    let upstream = upstream(
        UpstreamOptions::default(),
        &patient(),
        &[(&first, 1), (&second, 1)],
    );
    for number in 0..20_u64 {
        upstream.send(0, &number.to_le_bytes()).expect("handed over");
    }
    upstream.flush().expect("sent");
    wait_until("all have come", || of_one.count() + two.count() == 20);
    one.stop();
    for number in 20..40_u64 {
        upstream.send(0, &number.to_le_bytes()).expect("handed over");
    }
    upstream.flush().expect_err("one of them is gone");
    wait_until("the other half has come", || two.count() == 20);
    assert_eq!(upstream.lost(), 10, "counted");
    for number in 40..60_u64 {
        upstream
            .send(0, &number.to_le_bytes())
            .expect("the other takes it");
    }
    upstream.flush().expect("sent");
    wait_until("all of that has come", || two.count() == 40);
    assert_eq!(upstream.lost(), 10);
    assert!(two.sorted().ends_with(&(40..60).collect::<Vec<u64>>()));
}

#[test]
fn a_connection_that_nobody_uses_is_closed_and_made_again() {
    let servers = Servers::with_keys();
    let (server, address, taker) = serve(&servers, "unix", "one");
    let options = UpstreamOptions {
        idle_timeout: Duration::from_millis(1),
        ..UpstreamOptions::default()
    };
    let upstream = upstream(options, &patient(), &[(&address, 1)]);
    upstream.send(0, &1_u64.to_le_bytes()).expect("handed over");
    wait_until("it has come without a flush", || taker.count() == 1);
    wait_until("it is closed", || server.stats().connections == 0);
    upstream.send(0, &2_u64.to_le_bytes()).expect("handed over");
    upstream.flush().expect("sent");
    wait_until("it has come", || taker.count() == 2);
    assert_eq!((upstream.lost(), server.stats().accepted >= 2), (0, true));
}

#[test]
fn datagrams_are_sent_and_what_wants_an_answer_is_refused_with_the_reason() {
    let servers = Servers::with_keys();
    let (_one, address, taker) = serve(&servers, "udp", "one");
    let upstream = upstream(UpstreamOptions::default(), &Options::default(), &[(&address, 1)]);
    for number in 0..10_u64 {
        upstream.send(0, &number.to_le_bytes()).expect("handed over");
    }
    upstream.flush().expect("sent");
    wait_until("they have come", || taker.count() == 10);
    let error = upstream
        .deliver(0, &numbers(0..1))
        .expect_err("no acknowledgements");
    assert!(matches!(error, TransportError::OneWay { .. }), "{error}");
    assert!(error.to_string().contains("one way"), "{error}");
    assert_eq!(upstream.members()[0].failed, 0, "it was not asked");
}
