//! The blocking interface within tasks of a tokio runtime: it blocks the task's thread, and panics nowhere.

use logdrive_messaging::{Client, Sender};
use logdrive_ship::session::{Peer, ReplyBuffer, Service};
use logdrive_ship::{Threads, serve};
use logdrive_testkit::Servers;
use std::sync::Arc;

struct Echo;

impl Service for Echo {
    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        reply.extend_from_slice(body);
        Ok(())
    }
}

/// A task of tokio may connect, send and serve: `quic://` has a runtime of its own, which must not be entered, nor
/// dropped, on the thread of another one's task.
#[test]
fn connecting_and_serving_within_a_task_panics_nowhere() {
    let servers = Servers::with_keys();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        for scheme in ["unix", "shm", "tcp", "tls", "quic"] {
            let server = servers.serve(
                &servers.address(scheme, scheme),
                Threads::default(),
                Arc::new(Echo),
            );
            let address = &server.addresses()[0].clone();
            let mut client = servers.connect(&server);
            assert_eq!(client.call(b"within").expect("answered"), b"within", "{scheme}");
            let sender = Sender::connect(address, &servers.client_options).expect("connected");
            let mut batch = sender.batch_on(3).expect("another stream");
            batch.push(b"one way").expect("sent");
            drop(batch);
            sender.flush().expect("sent");
            if scheme == "quic" {
                let again = serve(
                    std::slice::from_ref(address),
                    &servers.server_options,
                    Threads::default(),
                    Arc::new(Echo),
                );
                assert!(again.is_err(), "the port is taken");
            }
            drop((client, sender));
            server.stop();
            if scheme == "quic" {
                let mut options = servers.client_options.clone();
                options.timeouts.connect = std::time::Duration::from_millis(50);
                let error = Client::connect(address, &options).expect_err("nobody is there");
                assert!(error.is_passing(), "{error}");
            }
        }
    });
}
