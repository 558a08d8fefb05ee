//! Upstreams over real servers: members that die, come back, come and go; limits, connections made ahead, looks.

use logdrive_messaging::{Upstream, UpstreamOptions};
use logdrive_ship::session::{Peer, ReplyBuffer, Service};
use logdrive_ship::upstream::{
    BreakerOptions, BreakerState, GroupOptions, HealthOptions, MemberOptions, Policy,
};
use logdrive_ship::{Options, ServerHandle, Threads, TransportError};
use logdrive_testkit::{Servers, wait_until};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Answers with its name.
struct Named(String, Option<Barrier>);

impl Service for Named {
    fn hello(&self, _: &Peer) -> Result<u64, logdrive_ship::hello::Reason> {
        Ok(0)
    }

    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        if let Some(barrier) = &self.1 {
            barrier.wait();
        }
        if body == b"fail" {
            return Err("as asked".to_owned());
        }
        reply.extend_from_slice(self.0.as_bytes());
        Ok(())
    }
}

fn serve(servers: &Servers, name: &str) -> ServerHandle {
    let service = Arc::new(Named(name.to_owned(), None));
    servers.serve(&servers.address("unix", name), Threads::default(), service)
}

fn member(servers: &Servers, name: &str) -> MemberOptions {
    MemberOptions::new(servers.address("unix", name))
}

fn upstream(servers: &Servers, options: UpstreamOptions, names: &[&str]) -> Upstream {
    let upstream = Upstream::start("names", options, &Options::default()).expect("it starts");
    for name in names {
        upstream.add(member(servers, name)).expect("a member");
    }
    upstream
}

fn ask(upstream: &Upstream, key: u64) -> Result<String, TransportError> {
    let mut reply = Vec::new();
    upstream.call(key, b"who", &mut reply)?;
    Ok(String::from_utf8(reply).expect("text"))
}

#[test]
fn a_member_that_dies_is_replaced_by_another_and_used_again_when_it_is_back() {
    let servers = Servers::with_keys();
    let (one, _two) = (serve(&servers, "one"), serve(&servers, "two"));
    let options = UpstreamOptions {
        group: GroupOptions {
            breaker: BreakerOptions {
                failures: 1,
                open: Duration::from_millis(50),
                ..BreakerOptions::default()
            },
            ..GroupOptions::default()
        },
        ..UpstreamOptions::default()
    };
    let upstream = upstream(&servers, options, &["one", "two"]);
    let mut found: Vec<String> = (0..4).map(|_| ask(&upstream, 0).expect("answered")).collect();
    found.sort();
    assert_eq!(found, ["one", "one", "two", "two"]);
    one.stop();
    for _ in 0..6 {
        assert_eq!(ask(&upstream, 0).expect("the other answers"), "two");
    }
    let state = &upstream.members()[0];
    assert!(
        state.failed > 0 && state.opened > 0 && !state.failure.is_empty(),
        "{state:?}"
    );
    let _one = serve(&servers, "one");
    wait_until("it is used again", || {
        ask(&upstream, 0).expect("answered") == "one"
    });
    assert_eq!(
        upstream.members()[0].breaker,
        BreakerState::Closed { failures: 0 }
    );
}

#[test]
fn a_service_that_fails_is_no_member_that_fails() {
    let servers = Servers::with_keys();
    let _one = serve(&servers, "one");
    let upstream = upstream(&servers, UpstreamOptions::default(), &["one"]);
    for _ in 0..10 {
        let error = upstream.call(0, b"fail", &mut Vec::new()).expect_err("it fails");
        assert_eq!(error.to_string(), "the request failed: as asked");
    }
    assert_eq!(upstream.members()[0].failed, 0);
}

#[test]
fn members_come_and_go_and_are_chosen_while_it_runs() {
    let servers = Servers::with_keys();
    let (_one, _two) = (serve(&servers, "one"), serve(&servers, "two"));
    let options = UpstreamOptions {
        group: GroupOptions {
            policy: Policy::Manual,
            ..GroupOptions::default()
        },
        ..UpstreamOptions::default()
    };
    let upstream = upstream(&servers, options, &[]);
    let error = ask(&upstream, 0).expect_err("nobody").to_string();
    assert!(error.contains("no members"), "{error}");
    for name in ["one", "two"] {
        upstream.add(member(&servers, name)).expect("a member");
    }
    assert_eq!(ask(&upstream, 0).expect("answered"), "one");
    assert!(upstream.choose(&servers.address("unix", "two")));
    assert_eq!(ask(&upstream, 0).expect("answered"), "two");
    assert!(
        upstream.remove(&servers.address("unix", "two")) && !upstream.remove(&servers.address("unix", "two"))
    );
    assert!(ask(&upstream, 0).is_err(), "manual means no other");
    assert!(upstream.choose(&servers.address("unix", "one")));
    assert_eq!(ask(&upstream, 0).expect("answered"), "one");
}

#[test]
fn connections_are_made_ahead_and_never_more_than_allowed() {
    let servers = Servers::with_keys();
    let service = Arc::new(Named("one".to_owned(), Some(Barrier::new(2))));
    let threads = Threads {
        pool: 8,
        ..Threads::default()
    };
    let server = servers.serve(&servers.address("unix", "one"), threads, service);
    let options = UpstreamOptions {
        group: GroupOptions {
            connections_max: 2,
            ..GroupOptions::default()
        },
        connections_ahead: 2,
        ..UpstreamOptions::default()
    };
    let upstream = upstream(&servers, options, &["one"]);
    wait_until("both are made", || server.stats().connections == 2);
    std::thread::scope(|scope| {
        // The service answers two at once only: with one connection this would not end.
        for _ in 0..8 {
            scope.spawn(|| ask(&upstream, 0).expect("answered"));
        }
    });
    assert_eq!(
        (server.stats().accepted, upstream.members()[0].connections),
        (2, 2)
    );
}

#[test]
fn looks_find_out_who_is_ill_before_anybody_asks() {
    let servers = Servers::with_keys();
    let one = serve(&servers, "one");
    let options = UpstreamOptions {
        group: GroupOptions {
            health: Some(HealthOptions {
                every: Duration::from_millis(1),
                failures: 1,
                successes: 1,
            }),
            ..GroupOptions::default()
        },
        ..UpstreamOptions::default()
    };
    let upstream = upstream(&servers, options, &["one"]);
    one.stop();
    wait_until("it is found ill", || !upstream.members()[0].is_healthy);
    assert!(ask(&upstream, 0).is_err());
    assert_eq!(upstream.members()[0].failed, 0, "nobody was sent there");
    let _one = serve(&servers, "one");
    wait_until("it is found well", || upstream.members()[0].is_healthy);
    assert_eq!(ask(&upstream, 0).expect("answered"), "one");
}

#[test]
fn while_all_members_have_failed_they_are_tried_again() {
    let servers = Servers::with_keys();
    let (one, two) = (serve(&servers, "one"), serve(&servers, "two"));
    let mut options = UpstreamOptions::default();
    options.group.breaker = BreakerOptions {
        failures: 1,
        open: Duration::from_secs(3_600),
        ..BreakerOptions::default()
    };
    let upstream = upstream(&servers, options, &["one", "two"]);
    ask(&upstream, 0).expect("answered");
    one.stop();
    two.stop();
    for _ in 0..3 {
        ask(&upstream, 0).expect_err("nobody is there");
    }
    let all = upstream.members();
    assert!(
        all.iter()
            .all(|member| matches!(member.breaker, BreakerState::Open { .. })),
        "{all:?}"
    );
    let _two = serve(&servers, "two");
    // Their breakers are open for an hour.
    assert_eq!(ask(&upstream, 0).expect("one of them is back"), "two");
    assert_eq!(ask(&upstream, 0).expect("answered"), "two");
}

#[test]
fn a_function_chooses_the_member_of_each_request() {
    let servers = Servers::with_keys();
    let (_one, two) = (serve(&servers, "one"), serve(&servers, "two"));
    let upstream = upstream(&servers, UpstreamOptions::default(), &["one", "two"]);
    let wanted = servers.address("unix", "two");
    upstream.choose_by(move |key, request, members| {
        assert!(key != 13, "as the test asks");
        match (key, request) {
            (7, b"who") => members.iter().position(|member| member.address == wanted),
            _ => None,
        }
    });
    for _ in 0..6 {
        assert_eq!(ask(&upstream, 7).expect("answered"), "two");
    }
    let mut others: Vec<String> = (0..4).map(|_| ask(&upstream, 1).expect("answered")).collect();
    others.sort();
    assert_eq!(others, ["one", "one", "two", "two"], "the policy's choice");
    ask(&upstream, 13).expect("a function that panics chooses none");
    two.stop();
    assert_eq!(
        ask(&upstream, 7).expect("answered"),
        "one",
        "it can choose only what can be used"
    );
}

#[test]
fn a_backup_takes_the_place_of_the_main_member_of_its_group() {
    let servers = Servers::with_keys();
    let names = ["one", "one-backup", "two", "two-backup"];
    let mut running: Vec<ServerHandle> = names.iter().map(|name| serve(&servers, name)).collect();
    let upstream = upstream(&servers, UpstreamOptions::default(), &[]);
    for (index, name) in names.iter().enumerate() {
        let options = MemberOptions {
            group: Some(index as u32 / 2),
            is_backup: index % 2 == 1,
            ..member(&servers, name)
        };
        upstream.add(options).expect("a member");
    }
    let four = || {
        let mut found: Vec<String> = (0..4).map(|_| ask(&upstream, 0).expect("answered")).collect();
        found.sort();
        found
    };
    assert_eq!(four(), ["one", "one", "two", "two"]);
    running.remove(0).stop();
    wait_until("its backup has its share", || {
        four() == ["one-backup", "one-backup", "two", "two"]
    });
}

#[test]
fn a_member_has_time_limits_of_its_own() {
    let servers = Servers::with_keys();
    let service = Arc::new(Named("one".to_owned(), Some(Barrier::new(2))));
    let threads = Threads {
        pool: 2,
        ..Threads::default()
    };
    let server = servers.serve(&servers.address("unix", "one"), threads, service);
    let options = UpstreamOptions {
        retries: 0,
        ..UpstreamOptions::default()
    };
    let upstream = upstream(&servers, options, &[]);
    let mut options = member(&servers, "one");
    // Connecting falls into that time, too.
    options.timeouts.response = Some(Duration::from_secs(1));
    upstream.add(options).expect("a member");
    let error = ask(&upstream, 0).expect_err("no answer in time");
    assert!(error.to_string().contains("did not answer within"), "{error}");
    // The handler that waits for company gets it.
    servers.connect(&server).call(b"who").expect("answered");
}
