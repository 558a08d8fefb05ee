//! Encrypted connections to engines that speak no HTTP, with rustls.

use crate::address::EngineAddress;
use crate::error::EngineError;
use crate::limits::RESPONSE_TIMEOUT;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// Makes encrypted connections to one server.
#[derive(Debug)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Encrypted connection.
#[derive(Debug)]
pub(crate) struct TlsStream(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Trusts the authorities of the option `tls_ca`, and shows the certificate of `tls_cert` and `tls_key` where there is one.
    pub(crate) fn new(address: &EngineAddress) -> Result<Self, EngineError> {
        let wrong = |option: &str, why: &dyn std::fmt::Display| address.wrong(format!("{option}: {why}"));
        let Some(authorities) = address.option("tls_ca") else {
            return Err(address.wrong("no ?tls_ca=FILE, the authority whose certificate the server has"));
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities).map_err(|why| wrong("tls_ca", &why))? {
            roots.add(certificate).map_err(|why| wrong("tls_ca", &why))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| wrong("tls", &why))?
            .with_root_certificates(roots);
        let config = match (address.option("tls_cert"), address.option("tls_key")) {
            (None, None) => builder.with_no_client_auth(),
            (Some(own), Some(key)) => {
                let chain = certificates(own).map_err(|why| wrong("tls_cert", &why))?;
                let key =
                    PrivateKeyDer::from_pem_file(Path::new(key)).map_err(|why| wrong("tls_key", &why))?;
                let made = builder.with_client_auth_cert(chain, key);
                made.map_err(|why| wrong("tls_cert", &why))?
            }
            _ => return Err(address.wrong("tls_cert and tls_key: expected both, or none")),
        };
        let host = address
            .hosts
            .rsplit_once(':')
            .map_or(&*address.hosts, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|why| address.wrong(why.to_string()))?;
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// Encrypts a connection, once the server has shown its certificate.
    pub(crate) fn connect(&self, stream: TcpStream) -> io::Result<TlsStream> {
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        let client = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut own = StreamOwned::new(client.map_err(io::Error::other)?, stream);
        while own.conn.is_handshaking() {
            own.conn.complete_io(&mut own.sock)?;
        }
        Ok(TlsStream(own))
    }
}

impl TlsStream {
    /// Writes bytes, and waits until the socket has them.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    /// Whether the server has closed the connection. Takes what it has sent, such as tickets for further connections.
    pub(crate) fn is_closed(&mut self) -> io::Result<bool> {
        let StreamOwned { conn, sock } = &mut self.0;
        sock.set_nonblocking(true)?;
        let closed = loop {
            match conn.read_tls(sock) {
                Ok(0) => break Ok(true),
                Ok(_) => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => break Ok(false),
                Err(cause) => break Err(cause),
            }
            let state = conn.process_new_packets().map_err(io::Error::other)?;
            // A syslog server has nothing to say.
            if state.peer_has_closed() || state.plaintext_bytes_to_read() > 0 {
                break Ok(true);
            }
        };
        sock.set_nonblocking(false)?;
        closed
    }
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_file_iter(Path::new(path))?.collect()
}
