//! Clients and services for tasks of tokio, over every transport.
#![cfg(feature = "tokio")]

use logdrive_messaging::tokio::{Client, Request, TowerService};
use logdrive_ship::hello::Reason;
use logdrive_ship::session::{DeferredReply, Outbox, Peer, ReplyBuffer, Service};
use logdrive_ship::{Threads, TransportError, serve};
use logdrive_testkit::{DEADLINE, Servers, wait_for, wait_until};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tower_service::Service as _;

const SCHEMES: [&str; 5] = ["unix", "shm", "tcp", "tls", "quic"];

/// Turns bodies round, defers what it is told to, keeps the ways to its peers.
#[derive(Default)]
struct Desk {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    owed: Vec<DeferredReply>,
    outboxes: Vec<Outbox>,
    messages: Vec<Vec<u8>>,
}

impl Desk {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Desk {
    fn hello(&self, peer: &Peer) -> Result<u64, Reason> {
        self.kept().outboxes.push(peer.outbox.clone());
        Ok(0)
    }

    fn message(&self, _: &Peer, _: u16, message: &[u8]) {
        self.kept().messages.push(message.to_vec());
    }

    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        match body {
            b"later" => self.kept().owed.push(reply.defer()?),
            b"fail" => return Err("as asked".to_owned()),
            _ => reply.extend(body.iter().rev().copied()),
        }
        Ok(())
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(DEADLINE, future).await.expect("in time") })
}

/// Waits for another thread while tasks go on.
async fn until<T: Send + 'static>(what: &'static str, check: impl Fn() -> Option<T> + Send + 'static) -> T {
    tokio::task::spawn_blocking(move || wait_for(what, check))
        .await
        .expect("no panic")
}

#[test]
fn many_tasks_share_a_connection_over_every_transport() {
    let servers = Servers::with_keys();
    for scheme in SCHEMES {
        for pool in [0, 2] {
            let threads = Threads {
                pool,
                ..Threads::default()
            };
            let desk = Arc::new(Desk::default());
            let server = servers.serve(&servers.address(scheme, scheme), threads, desk.clone());
            block_on(async {
                let options = &servers.client_options;
                let client = Client::connect(&server.addresses()[0], options)
                    .await
                    .expect("connected");
                assert_eq!(client.call(b"abc").await.expect("answered"), b"cba", "{scheme}");
                let error = client.call(b"fail").await.expect_err("it said so");
                assert!(matches!(error, TransportError::Failed(words) if words == "as asked"));
                let tasks: Vec<_> = (0..40_u32)
                    .map(|task| {
                        let client = client.clone();
                        tokio::spawn(async move {
                            for round in 0..20_u32 {
                                let body = [task.to_le_bytes(), round.to_le_bytes()]
                                    .concat()
                                    .repeat(1 + round as usize * 40);
                                let reply = client.call(body.clone()).await.expect("answered");
                                assert!(reply.iter().rev().eq(&body), "another one's");
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.expect("no panic");
                }
                let big = vec![7; 900_000];
                assert_eq!(client.call(big.clone()).await.expect("answered"), big);
                let error = client.call(vec![7; 2 << 20]).await.expect_err("too long");
                assert!(matches!(error, TransportError::TooLong { .. }), "{error}");
                let numbers: Vec<[u8; 4]> = (0..30_000_u32).map(u32::to_le_bytes).collect();
                client.deliver(&numbers).await.expect("taken");
                assert!(
                    desk.kept().messages.iter().eq(&numbers),
                    "{scheme}: in order, all"
                );
                client.send(b"one way").await.expect("handed over");
                client.deliver::<&[u8]>(&[]).await.expect("nothing to take");
                let kept = desk.clone();
                until("it comes", move || {
                    kept.kept()
                        .messages
                        .iter()
                        .any(|one| one == b"one way")
                        .then_some(())
                })
                .await;
                drop(client);
                while server.stats().connections > 0 {
                    tokio::task::yield_now().await;
                }
            });
            let stats = server.stop();
            assert_eq!(
                (stats.accepted, stats.ended_for(Reason::Done)),
                (1, 1),
                "{scheme}"
            );
        }
    }
}

#[test]
fn calls_have_deadlines_and_those_that_are_dropped_are_given_up() {
    let servers = Servers::with_keys();
    for scheme in SCHEMES {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), Threads::default(), desk.clone());
        block_on(async {
            let client = Client::connect(&server.addresses()[0], &servers.client_options)
                .await
                .expect("connected");
            let error = client
                .call_within(b"later", Duration::from_millis(50))
                .await
                .expect_err("no answer in time");
            assert!(matches!(error, TransportError::Timeout { .. }), "{error}");
            let dropped = tokio::spawn({
                let client = client.clone();
                async move { client.call(b"later").await }
            });
            let kept = desk.clone();
            until("both are there", move || {
                (kept.kept().owed.len() == 2).then_some(())
            })
            .await;
            dropped.abort();
            assert!(dropped.await.expect_err("given up").is_cancelled());
            let kept = desk.clone();
            until("the server is told", move || {
                let is_given_up = kept.kept().owed.iter().all(|owed| !owed.is_wanted());
                is_given_up.then_some(())
            })
            .await;
            for owed in std::mem::take(&mut desk.kept().owed) {
                owed.reply(b"too late".to_vec());
            }
            assert_eq!(
                client.call(b"abc").await.expect("the client goes on"),
                b"cba",
                "{scheme}"
            );
            assert_eq!(server.stats().accepted, 1);
        });
    }
}

#[test]
fn messages_of_the_server_come_at_any_time() {
    let servers = Servers::with_keys();
    for scheme in SCHEMES {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), Threads::default(), desk.clone());
        block_on(async {
            let client = Client::connect(&server.addresses()[0], &servers.client_options)
                .await
                .expect("connected");
            let outbox = desk.kept().outboxes[0].clone();
            for number in 0..500_u32 {
                outbox.push(4, &number.to_le_bytes()).expect("room");
            }
            for number in 0..500_u32 {
                let pushed = client.next_pushed().await.expect("open");
                assert_eq!(
                    (pushed.stream, &pushed.message[..]),
                    (4, &number.to_le_bytes()[..]),
                    "{scheme}"
                );
            }
            for _ in 0..3_000 {
                outbox.push(0, b"x").expect("room");
            }
            let counted = client.clone();
            until("those without room are counted", move || {
                (counted.dropped() == 3_000 - 1_024).then_some(())
            })
            .await;
            assert_eq!(client.call(b"abc").await.expect("answered"), b"cba");
            drop(client);
            until("it has left", move || (!outbox.is_open()).then_some(())).await;
        });
    }
}

#[test]
fn a_client_connects_again_when_its_server_is_back() {
    let servers = Servers::with_keys();
    let mut options = servers.server_options.clone();
    options.timeouts.stop = Duration::from_millis(10);
    for scheme in SCHEMES {
        let desk = Arc::new(Desk::default());
        let at = [servers.address(scheme, scheme)];
        let server = serve(&at, &options, Threads::default(), desk.clone()).expect("it listens");
        let address = server.addresses()[0].clone();
        block_on(async {
            let client = Client::connect(&address, &servers.client_options)
                .await
                .expect("connected");
            let under_way = tokio::spawn({
                let client = client.clone();
                async move { client.call(b"later").await }
            });
            let kept = desk.clone();
            until("it is there", move || kept.kept().owed.pop())
                .await
                .reply(b"first".to_vec());
            assert_eq!(under_way.await.expect("no panic").expect("answered"), b"first");
            let under_way = tokio::spawn({
                let client = client.clone();
                async move { client.call(b"later").await }
            });
            let kept = desk.clone();
            let owed = until("it is there", move || kept.kept().owed.pop()).await;
            tokio::task::spawn_blocking(move || server.stop())
                .await
                .expect("no panic");
            let error = under_way
                .await
                .expect("no panic")
                .expect_err("its server has gone");
            assert!(error.is_passing(), "{scheme}: {error}");
            drop(owed);
            let error = client
                .call_within(b"abc", Duration::from_millis(30))
                .await
                .expect_err("nobody is there");
            assert!(error.is_passing(), "{scheme}: {error}");
            // A call waits for it.
            let waits = tokio::spawn({
                let client = client.clone();
                async move { client.call(b"abc").await }
            });
            let _server = servers.serve(&address, Threads::default(), desk.clone());
            assert_eq!(
                waits.await.expect("no panic").expect("answered"),
                b"cba",
                "{scheme}"
            );
        });
    }
}

#[test]
fn a_connection_without_calls_is_kept_alive() {
    let mut servers = Servers::with_keys();
    servers.server_options.timeouts.idle = Duration::from_millis(300);
    servers.client_options.timeouts.idle = Duration::from_millis(300);
    for scheme in ["unix", "shm", "quic"] {
        let desk = Arc::new(Desk::default());
        let server = servers.serve(&servers.address(scheme, scheme), Threads::default(), desk.clone());
        block_on(async {
            let client = Client::connect(&server.addresses()[0], &servers.client_options)
                .await
                .expect("connected");
            let quiet = tokio::time::timeout(Duration::from_millis(900), client.next_pushed());
            quiet.await.expect_err("nothing came");
            assert_eq!(client.call(b"abc").await.expect("answered"), b"cba");
            assert_eq!(server.stats().accepted, 1, "{scheme}");
        });
    }
}

/// A runtime that ends while a client is left leaves neither a thread nor a caller behind.
#[test]
fn a_runtime_may_end_before_its_clients() {
    let servers = Servers::with_keys();
    for scheme in SCHEMES {
        let server = servers.serve(
            &servers.address(scheme, scheme),
            Threads::default(),
            Arc::new(Desk::default()),
        );
        let client = block_on(async {
            let options = &servers.client_options;
            let client = Client::connect(&server.addresses()[0], options)
                .await
                .expect("connected");
            client.call(b"abc").await.expect("answered");
            client
        });
        wait_until("the connection has ended", || server.stats().connections == 0);
        let error = block_on(client.call(b"abc")).expect_err("nobody serves it");
        assert!(matches!(error, TransportError::Lost { .. }), "{scheme}: {error}");
    }
}

/// Answers after a while, and fails as it is told to.
#[derive(Clone)]
struct Tasks;

impl tower_service::Service<Request> for Tasks {
    type Response = Vec<u8>;
    type Error = String;
    type Future = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(async move {
            tokio::task::yield_now().await;
            match &request.body[..] {
                b"hang" => {
                    let _ends = CountsDrops;
                    std::future::pending().await
                }
                b"fail" => Err(format!("as asked on stream {}", request.stream)),
                body => Ok(body.to_ascii_uppercase()),
            }
        })
    }
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct CountsDrops;

impl Drop for CountsDrops {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_tower_service_answers_and_a_client_is_one() {
    let servers = Servers::with_keys();
    for scheme in SCHEMES {
        block_on(async {
            let service = Arc::new(TowerService::new(Tasks));
            let server = servers.serve(&servers.address(scheme, scheme), Threads::default(), service);
            let address = server.addresses()[0].clone();
            let mut client = Client::connect(&address, &servers.client_options)
                .await
                .expect("connected");
            std::future::poll_fn(|context| client.poll_ready(context))
                .await
                .expect("ready");
            let service_call = tower_service::Service::call(&mut client, b"abc".to_vec());
            assert_eq!(service_call.await.expect("answered"), b"ABC", "{scheme}");
            let error = Client::call(&client, b"fail").await.expect_err("it said so");
            assert!(error.to_string().contains("as asked on stream 0"), "{error}");
            let dropped = DROPPED.load(Ordering::SeqCst);
            let hangs = client.call_within(b"hang", Duration::from_millis(50)).await;
            assert!(hangs.is_err());
            until("its task is dropped", move || {
                (DROPPED.load(Ordering::SeqCst) > dropped).then_some(())
            })
            .await;
        });
    }
}
