//! The certificates of a server, which are read again while it runs: new connections get the new ones, and those that are there
//! go on.

use crate::TransportError;
use crate::link::tls::{SharedConfig, server_config};
use crate::options::TlsFiles;

/// Configurations of the listeners that have certificates.
#[derive(Default)]
pub(super) struct ServerCertificates {
    tls: Option<SharedConfig>,
    #[cfg(feature = "quic")]
    quic: Vec<crate::quic::EndpointConfig>,
}

impl ServerCertificates {
    /// Returns the configuration that all TLS listeners share.
    pub(super) fn of_tls(&mut self, files: &TlsFiles) -> Result<SharedConfig, TransportError> {
        if let Some(shared) = &self.tls {
            return Ok(shared.clone());
        }
        let shared = SharedConfig::new(server_config(files)?);
        self.tls = Some(shared.clone());
        Ok(shared)
    }

    /// Keeps the configuration of a QUIC endpoint.
    #[cfg(feature = "quic")]
    pub(super) fn add(&mut self, endpoint: crate::quic::EndpointConfig) {
        self.quic.push(endpoint);
    }

    /// Reads the files again. `false`: no listener has certificates.
    ///
    /// # Errors
    /// When they cannot be used; then all listeners go on with those that they have.
    pub(super) fn reload(&self, files: &TlsFiles) -> Result<bool, TransportError> {
        let is_used = self.tls.is_some();
        #[cfg(feature = "quic")]
        let is_used = is_used || !self.quic.is_empty();
        if !is_used {
            return Ok(false);
        }
        let config = server_config(files)?;
        #[cfg(feature = "quic")]
        for endpoint in &self.quic {
            endpoint.replace(&config)?;
        }
        if let Some(tls) = &self.tls {
            tls.replace(config);
        }
        Ok(true)
    }
}

impl std::fmt::Debug for ServerCertificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerCertificates")
    }
}
