//! TLS 1.3 over TCP, with rustls. Both ends show a certificate unless the one that listens says that anyone may come.

use super::{Incoming, IncomingLink, Link, Listen, SocketLink, listen_tcp};
use crate::TransportError;
use crate::address::{Address, HostPort};
use crate::identity::Identity;
use crate::options::{Options, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sets of files whose last configuration is kept: more than a process has collectors with certificates of their own.
const CLIENT_CONFIGS_MAX: usize = 16;
/// Bytes that wait in the link for room in the socket.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// A TLS connection.
pub(crate) struct TlsLink {
    socket: SocketLink,
    tls: Connection,
}

/// Rustls reads and writes through this without waiting.
struct NonBlocking<'a>(&'a mut SocketLink);

impl Read for NonBlocking<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.0.try_receive(space)
    }
}

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_send(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_send(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn connect(
    address: &Address,
    host_port: &HostPort,
    options: &Options,
    end: Instant,
) -> Result<TlsLink, TransportError> {
    let config = client_config(&options.tls)?;
    let name = options.tls.name.clone().unwrap_or_else(|| host_port.host.clone());
    let name = ServerName::try_from(name).map_err(|_| TransportError::Option {
        option: "tls.name",
        found: host_port.host.clone(),
        allowed: "a host name or an IP address",
    })?;
    let failed = TransportError::connect(address);
    let timed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            TransportError::timeout(address, "accept a connection", options.timeouts.connect)
        }
        _ => failed(cause),
    };
    let peers = host_port.resolve_until(end).map_err(&timed)?;
    let socket = SocketLink::connect_tcp(&peers, options, end).map_err(&timed)?;
    let tls = ClientConnection::new(config, name).map_err(|error| failed(io::Error::other(error)))?;
    let mut link = TlsLink::new(socket, tls.into());
    match link.complete_handshake(end) {
        Ok(true) => Ok(link),
        Ok(false) => {
            let (what, limit) = ("finish the TLS handshake", options.timeouts.connect);
            Err(TransportError::timeout(address, what, limit))
        }
        Err(cause) => Err(failed(cause)),
    }
}

impl TlsLink {
    fn new(socket: SocketLink, mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Self { socket, tls }
    }

    fn complete_handshake(&mut self, end: Instant) -> io::Result<bool> {
        while self.tls.is_handshaking() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            match self.flush().and_then(|()| self.read_socket()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let for_room = self.tls.wants_write();
                    self.socket.wait(for_room, left)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads from the socket once.
    fn read_socket(&mut self) -> io::Result<usize> {
        let got = self.tls.read_tls(&mut NonBlocking(&mut self.socket))?;
        if let Err(error) = self.tls.process_new_packets() {
            // The other end gets the reason, if it still reads.
            let _ = self.flush();
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        if !self.tls.is_handshaking() && self.tls.alpn_protocol() != Some(ALPN) {
            // TLS itself lets those pass who name no protocol at all.
            self.tls.send_close_notify();
            let _ = self.flush();
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the other end does not speak logdrive/1",
            ));
        }
        Ok(got)
    }
}

/// Configuration of the listening end, which can be replaced: connections that are accepted from then on get the new one.
#[derive(Clone)]
pub(crate) struct SharedConfig(Arc<Mutex<Arc<ServerConfig>>>);

impl SharedConfig {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(Mutex::new(config)))
    }

    fn lock(&self) -> MutexGuard<'_, Arc<ServerConfig>> {
        // Whole configurations are stored.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn replace(&self, config: Arc<ServerConfig>) {
        *self.lock() = config;
    }
}

/// Accepts TLS connections, whose handshake happens while they are read.
pub(crate) struct TlsListener {
    listener: TcpListener,
    config: SharedConfig,
}

impl TlsListener {
    pub(crate) fn listen(host_port: &HostPort, config: SharedConfig) -> io::Result<Self> {
        let listener = listen_tcp(host_port)?;
        Ok(Self { listener, config })
    }
}

impl Listen for TlsListener {
    fn accept(&self, options: &Options) -> io::Result<Incoming> {
        let (stream, peer) = self.listener.accept()?;
        let link = SocketLink::tcp(stream, options).and_then(|socket| {
            let config = Arc::clone(&self.config.lock());
            let tls = ServerConnection::new(config).map_err(io::Error::other)?;
            Ok(Box::new(TlsLink::new(socket, tls.into())) as Box<dyn Link>)
        });
        Ok(Incoming {
            address: format!("tcp://{peer}"),
            link: IncomingLink::Link(link),
        })
    }

    fn host_port(&self) -> Option<HostPort> {
        self.listener.host_port()
    }
}

impl AsFd for TlsListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Link for TlsLink {
    fn try_send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.tls.wants_write() {
            self.flush()?;
        }
        let mut taken = 0;
        'parts: for part in parts {
            let mut rest: &[u8] = part;
            while !rest.is_empty() {
                let length = self.tls.writer().write(rest)?;
                if length == 0 {
                    break 'parts;
                }
                taken += length;
                rest = rest.get(length..).unwrap_or(&[]);
            }
        }
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => Ok(taken),
            Err(error) => Err(error),
            Ok(()) => Ok(taken),
        }
    }

    fn try_receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let got = self.read_socket();
            if self.tls.wants_write() {
                // Handshake and key updates; what does not go now goes with the next bytes.
                let _ = self.flush();
            }
            if got? == 0 {
                return Ok(0);
            }
        }
    }

    fn wait(&mut self, for_room: bool, timeout: Duration) -> io::Result<bool> {
        self.socket.wait(for_room, timeout)
    }

    fn guard(&mut self) {
        self.socket.guard();
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.descriptor()
    }

    fn buffers_received(&self) -> bool {
        true
    }

    fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut NonBlocking(&mut self.socket))?;
        }
        Ok(())
    }

    fn is_integrity_protected(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<Identity> {
        Identity::of_certificate(self.tls.peer_certificates()?.first()?)
    }
}

fn unusable(path: &Path, why: impl ToString) -> TransportError {
    TransportError::Certificate {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TransportError> {
    let mut store = RootCertStore::empty();
    for certificate in chain(path)? {
        store.add(certificate).map_err(|error| unusable(path, error))?;
    }
    Ok(store)
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|error| unusable(path, error))?
        .collect();
    let found = found.map_err(|error| unusable(path, error))?;
    if found.is_empty() {
        return Err(unusable(path, "there is no certificate in it"));
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TransportError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, error))
}

fn missing(option: &'static str, allowed: &'static str) -> TransportError {
    TransportError::Option {
        option,
        found: "not set".to_owned(),
        allowed,
    }
}

/// Cipher suites. AES-128 comes first: it takes ten rounds where AES-256 takes fourteen, and neither has been broken.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    let is_first =
        |suite: &rustls::SupportedCipherSuite| suite.suite() == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(|suite| !is_first(suite));
    Arc::new(provider)
}

/// Configurations that were made of files last, so that a file which cannot be used at the moment keeps nobody from connecting.
static LAST_CONFIGS: Mutex<Vec<(TlsFiles, Arc<ClientConfig>)>> = Mutex::new(Vec::new());

/// Configuration of the connecting end, of the files as they are now; where they cannot be used, as they were last.
///
/// # Errors
/// When they cannot be used, and never could.
pub(crate) fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, TransportError> {
    let read = read_client_config(files);
    // Whole configurations go in and out.
    let mut last = LAST_CONFIGS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = last.iter().position(|(other, _)| other == files);
    match (read, known) {
        (Ok(config), place) => {
            if let Some(place) = place.or((last.len() >= CLIENT_CONFIGS_MAX).then_some(0)) {
                last.remove(place);
            }
            last.push((files.clone(), Arc::clone(&config)));
            Ok(config)
        }
        (Err(_), Some(place)) => last
            .get(place)
            .map(|(_, config)| Arc::clone(config))
            .ok_or_else(|| missing("tls.authorities", "a file that can be read")),
        (Err(error), None) => Err(error),
    }
}

/// Configuration of the connecting end: trusts the authority, and shows its own certificate where there is one.
fn read_client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, TransportError> {
    let authorities = files.authorities.as_ref().ok_or_else(|| {
        missing("tls.authorities", "the file with the authority's certificate; `logdrive collect --make-certificates DIR` makes one for a test")
    })?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unusable(authorities, error))?
        .with_root_certificates(roots(authorities)?);
    let mut config = match (&files.certificate, &files.key) {
        (Some(certificate), Some(private)) => builder
            .with_client_auth_cert(chain(certificate)?, key(private)?)
            .map_err(|error| unusable(certificate, error))?,
        (None, None) => builder.with_no_client_auth(),
        _ => return Err(missing("tls.certificate and tls.key", "both or none")),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// Configuration of the listening end: shows its certificate, and wants one of the same authority.
pub(crate) fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TransportError> {
    let mut config = listening_config(files, &[&rustls::version::TLS13])?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// Configuration of a listening end of another protocol over TLS 1.2 or 1.3, such as syslog: shows the certificate of these
/// files, and wants one of their authorities.
///
/// # Errors
/// When a file is missing or cannot be used.
pub fn foreign_server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TransportError> {
    let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
    Ok(Arc::new(listening_config(files, &versions)?))
}

fn listening_config(
    files: &TlsFiles,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Result<ServerConfig, TransportError> {
    let (Some(certificate), Some(private)) = (&files.certificate, &files.key) else {
        return Err(missing(
            "tls.certificate and tls.key",
            "the files of this server's own certificate; `logdrive collect --make-certificates DIR` makes them for a test",
        ));
    };
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .map_err(|error| unusable(certificate, error))?;
    let builder = match (&files.authorities, files.anyone) {
        (_, true) => builder.with_no_client_auth(),
        (Some(authorities), false) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authorities)?), provider())
                    .build()
                    .map_err(|error| unusable(authorities, error))?;
            builder.with_client_cert_verifier(verifier)
        }
        (None, false) => {
            return Err(missing(
                "tls.authorities",
                "the file with the authority whose clients may come, or anyone = true",
            ));
        }
    };
    let mut config = builder
        .with_single_cert(chain(certificate)?, key(private)?)
        .map_err(|error| unusable(certificate, error))?;
    // Sessions are not resumed, so nothing is stored for it; and no data comes before the handshake is done.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.max_early_data_size = 0;
    Ok(config)
}

/// The name of the protocol within TLS.
pub(crate) const ALPN: &[u8] = b"logdrive/1";
