//! Servers in the test's own process, with sockets in a directory of their own, and clients that they know.

use logdrive_messaging::Client;
use logdrive_ship::session::Service;
use logdrive_ship::{Address, Options, ServerHandle, Threads, make_certificates, serve};
use std::path::PathBuf;
use std::sync::Arc;

/// A directory for sockets, and the options of servers and their clients, with certificates of one authority.
///
/// ```
/// # use logdrive_ship::Threads;
/// # use logdrive_ship::session::{Peer, ReplyBuffer, Service};
/// # use logdrive_testkit::Servers;
/// # struct Echo;
/// # impl Service for Echo {
/// #     fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
/// #         reply.extend_from_slice(body);
/// #         Ok(())
/// #     }
/// # }
/// let servers = Servers::with_keys();
/// let server = servers.serve(&servers.address("tls", "one"), Threads::default(), std::sync::Arc::new(Echo));
/// assert_eq!(servers.connect(&server).call(b"one").expect("answered"), b"one");
/// ```
#[derive(Debug)]
pub struct Servers {
    directory: tempfile::TempDir,
    /// Options of clients.
    pub client_options: Options,
    /// Options of servers.
    pub server_options: Options,
}

impl Servers {
    /// Makes the directory and the certificates.
    #[track_caller]
    pub fn with_keys() -> Self {
        let directory = crate::directory();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let (server, client) =
            make_certificates(&directory.path().join("keys"), &names).expect("certificates");
        let with = |tls| Options {
            tls,
            ..Options::default()
        };
        Self {
            client_options: with(client),
            server_options: with(server),
            directory,
        }
    }

    /// Returns the path of this name in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns an address to listen at: a socket of this name in the directory, or any port.
    #[track_caller]
    pub fn address(&self, scheme: &str, name: &str) -> Address {
        let text = match scheme {
            "unix" | "shm" => format!("{scheme}://{}", self.path(name).display()),
            _ => format!("{scheme}://127.0.0.1:0"),
        };
        text.parse().expect("an address")
    }

    /// Starts a server, which ends when the handle is dropped.
    #[track_caller]
    pub fn serve(&self, address: &Address, threads: Threads, service: Arc<dyn Service>) -> ServerHandle {
        let at = std::slice::from_ref(address);
        serve(at, &self.server_options, threads, service).expect("it listens")
    }

    /// Connects to the first address of a server.
    #[track_caller]
    pub fn connect(&self, server: &ServerHandle) -> Client {
        Client::connect(&server.addresses()[0], &self.client_options).expect("connected")
    }
}
