//! Clients of other libraries, rustls and quinn, and certificates that change while a server runs.

use logdrive_messaging::Client;
use logdrive_ship::frame::{Header, Kind, next_frame};
use logdrive_ship::hello::{Hello, Reason, Role};
use logdrive_ship::session::{Peer, ReplyBuffer, Service};
use logdrive_ship::{
    Address, Options, ServerHandle, Threads, TlsFiles, TransportError, make_certificates, serve,
};
use logdrive_testkit::wait_until;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

struct Echo;

impl Service for Echo {
    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        reply.extend_from_slice(body);
        Ok(())
    }
}

struct Keys {
    directory: tempfile::TempDir,
    server: TlsFiles,
    client: TlsFiles,
}

impl Keys {
    fn make() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let names = ["127.0.0.1".to_owned()];
        let (server, client) = make_certificates(directory.path(), &names).expect("made");
        Self {
            directory,
            server,
            client,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn serve(&self, scheme: &str, mut options: Options) -> ServerHandle {
        options.tls = self.server.clone();
        let address: Address = format!("{scheme}://127.0.0.1:0").parse().expect("an address");
        serve(&[address], &options, Threads::default(), Arc::new(Echo)).expect("it listens")
    }

    fn options(&self) -> Options {
        Options {
            tls: self.client.clone(),
            ..Options::default()
        }
    }

    /// The client of another library that names these protocols.
    fn foreign(&self, protocols: &[&str]) -> ClientConfig {
        let file = |path: &Option<PathBuf>| path.clone().expect("there");
        let chain = |path: &Path| -> Vec<CertificateDer<'static>> {
            let found = CertificateDer::pem_file_iter(path).expect("there");
            found.map(|one| one.expect("sound")).collect()
        };
        let mut roots = RootCertStore::empty();
        for authority in chain(&file(&self.client.authorities)) {
            roots.add(authority).expect("sound");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::from_pem_file(file(&self.client.key)).expect("sound");
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_client_auth_cert(chain(&file(&self.client.certificate)), key)
            .expect("sound");
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

fn socket_address(server: &ServerHandle) -> SocketAddr {
    let host_port = server.addresses()[0].host_port().expect("it has one");
    format!("{}:{}", host_port.host, host_port.port)
        .parse()
        .expect("an address")
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    Header::new(Kind::Hello, 0).put(&[&Hello::new(Role::Client).encode()], true, &mut bytes);
    bytes
}

#[test]
fn a_client_of_tls_that_names_another_protocol_or_none_is_refused() {
    let keys = Keys::make();
    let server = keys.serve("tls", Options::default());
    for (protocols, is_served) in [(&["logdrive/1"][..], true), (&[], false), (&["h2"], false)] {
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let tls = ClientConnection::new(Arc::new(keys.foreign(protocols)), name).expect("sound");
        let socket = TcpStream::connect(socket_address(&server)).expect("it listens");
        let mut stream = StreamOwned::new(tls, socket);
        // It may be refused while it writes.
        let _ = stream.write_all(&hello()).and_then(|()| stream.flush());
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).unwrap_or(0);
        let frame = next_frame(&answer[..length], 1024).expect("frames");
        assert_eq!(
            frame.map(|frame| frame.header.kind),
            is_served.then_some(Kind::Hello),
            "{protocols:?}"
        );
    }
    wait_until("both are counted", || {
        server.stats().ended_for(Reason::Forbidden) == 2
    });
}

fn quinn_endpoint() -> quinn::Endpoint {
    quinn::Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a socket")
}

async fn quinn_connect(
    endpoint: &quinn::Endpoint,
    config: ClientConfig,
    server: &ServerHandle,
) -> Result<quinn::Connection, quinn::ConnectionError> {
    let config = QuicClientConfig::try_from(config).expect("a cipher suite");
    let config = quinn::ClientConfig::new(Arc::new(config));
    let connecting = endpoint.connect_with(config, socket_address(server), "127.0.0.1");
    connecting.expect("sound").await
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

#[test]
fn a_client_of_quic_that_names_another_protocol_or_none_is_refused() {
    let keys = Keys::make();
    let server = keys.serve("quic", Options::default());
    runtime().block_on(async {
        let endpoint = quinn_endpoint();
        for (protocols, is_served) in [(&["logdrive/1"][..], true), (&[], false), (&["h2"], false)] {
            let connected = quinn_connect(&endpoint, keys.foreign(protocols), &server).await;
            assert_eq!(connected.is_ok(), is_served, "{protocols:?}: {connected:?}");
        }
    });
}

/// Connections without a stream were not counted, and stayed as long as they liked.
#[test]
fn quic_connections_without_streams_are_counted_and_end() {
    let keys = Keys::make();
    let mut options = Options::default();
    // A quarter of them, 16 at least, may be without a hello.
    options.limits.connections_max = 20;
    let mut patient = options.clone();
    patient.timeouts.handshake = Duration::from_secs(3_600);
    let server = keys.serve("quic", patient);
    let endpoint_of = runtime();
    endpoint_of.block_on(async {
        let endpoint = quinn_endpoint();
        let mut held = Vec::new();
        for number in 0..24 {
            let connection = quinn_connect(&endpoint, keys.foreign(&["logdrive/1"]), &server)
                .await
                .expect("connected");
            if number >= 16 {
                let reason = connection.closed().await;
                let code = quinn::VarInt::from_u32(Reason::Connections as u32);
                let is_told = matches!(&reason, quinn::ConnectionError::ApplicationClosed(close) if close.error_code == code);
                assert!(is_told, "{reason}");
            } else {
                held.push(connection);
                wait_until("it is counted", || server.stats().connections == number + 1);
            }
        }
        assert_eq!(server.stats().ended_for(Reason::Connections), 8);
    });
    drop(endpoint_of);
    options.timeouts.handshake = Duration::from_millis(50);
    let server = keys.serve("quic", options);
    runtime().block_on(async {
        let endpoint = quinn_endpoint();
        let connection = quinn_connect(&endpoint, keys.foreign(&["logdrive/1"]), &server).await;
        let reason = connection.expect("connected").closed().await;
        assert!(
            matches!(reason, quinn::ConnectionError::ApplicationClosed(_)),
            "{reason}"
        );
    });
    assert_eq!(server.stats().ended_for(Reason::Handshake), 1);
    assert_eq!(server.stats().connections, 0);
    let mut client = Client::connect(&server.addresses()[0], &keys.options()).expect("there is room");
    assert_eq!(client.call(b"one").expect("an answer"), b"one");
}

#[test]
fn certificates_are_read_again_and_a_bad_file_changes_nothing() {
    for scheme in ["tls", "quic"] {
        let (keys, next) = (Keys::make(), Keys::make());
        let server = keys.serve(scheme, Options::default());
        let address = &server.addresses()[0];
        let mut before = Client::connect(address, &keys.options()).expect("its authority");
        // The old one's client has files of its own.
        let old = Keys::make();
        for name in ["authority.pem", "client.pem", "client.key"] {
            std::fs::copy(keys.path(name), old.path(name)).expect("copied");
        }
        for name in [
            "authority.pem",
            "server.pem",
            "server.key",
            "client.pem",
            "client.key",
        ] {
            std::fs::copy(next.path(name), keys.path(name)).expect("copied");
        }
        assert!(server.reload_certificates().expect("sound"), "{scheme}");
        let mut after = Client::connect(address, &next.options()).expect("the new authority");
        // A client reads its own files again when it connects.
        let mut again = Client::connect(address, &keys.options()).expect("its files have changed");
        assert!(Client::connect(address, &old.options()).is_err(), "{scheme}");
        std::fs::write(keys.path("server.pem"), "no certificate").expect("written");
        let error = server.reload_certificates().expect_err("no certificate");
        assert!(matches!(error, TransportError::Certificate { .. }), "{error}");
        // Nor does one of a client, which it has read before.
        std::fs::write(keys.path("client.pem"), "no certificate").expect("written");
        for client in [
            &mut before,
            &mut after,
            &mut again,
            &mut Client::connect(address, &next.options()).expect("as before"),
            &mut Client::connect(address, &keys.options()).expect("as before"),
        ] {
            assert_eq!(client.call(b"one").expect("an answer"), b"one", "{scheme}");
        }
    }
    let plain = serve(
        &["tcp://127.0.0.1:0".parse().expect("an address")],
        &Options::default(),
        Threads::default(),
        Arc::new(Echo),
    );
    assert!(
        !plain
            .expect("it listens")
            .reload_certificates()
            .expect("nothing to read")
    );
}
