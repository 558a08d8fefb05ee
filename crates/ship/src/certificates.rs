//! Certificates for tests and first steps: an authority of one's own, a server and a client.

use crate::TransportError;
use crate::options::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes `authority.pem`, `server.pem`, `server.key`, `client.pem` and `client.key` in a directory, and gives the files
/// of the server and of the client. The server's certificate is for these names; keys get mode 0600. Nothing that is
/// there is written over. The authority's own key is thrown away, so that no more certificates can be made with it.
///
/// # Errors
/// Fails when a file is there already or cannot be written, or a name is no host name.
pub fn make_certificates(directory: &Path, names: &[String]) -> Result<(TlsFiles, TlsFiles), TransportError> {
    let wrong = |error: rcgen::Error| TransportError::Certificate {
        path: directory.to_owned(),
        why: error.to_string(),
    };
    std::fs::create_dir_all(directory).map_err(|cause| TransportError::File {
        doing: "make",
        path: directory.to_owned(),
        cause,
    })?;
    let mut params = CertificateParams::new(Vec::new()).map_err(wrong)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Logdrive test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority =
        CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(wrong)?).map_err(wrong)?;
    let authorities = directory.join("authority.pem");
    write_new(&authorities, &authority.pem(), 0o644)?;
    let member = |file: &str, names: &[String], purpose| -> Result<TlsFiles, TransportError> {
        let mut params = CertificateParams::new(names).map_err(wrong)?;
        params
            .distinguished_name
            .push(DnType::CommonName, format!("logdrive {file}"));
        params.extended_key_usages = vec![purpose];
        let pair = KeyPair::generate().map_err(wrong)?;
        let certificate = params.signed_by(&pair, &authority).map_err(wrong)?;
        let files = TlsFiles {
            authorities: Some(authorities.clone()),
            certificate: Some(directory.join(format!("{file}.pem"))),
            key: Some(directory.join(format!("{file}.key"))),
            ..TlsFiles::default()
        };
        if let (Some(path), Some(key)) = (&files.certificate, &files.key) {
            write_new(key, &pair.serialize_pem(), 0o600)?;
            write_new(path, &certificate.pem(), 0o644)?;
        }
        Ok(files)
    };
    let server = member("server", names, ExtendedKeyUsagePurpose::ServerAuth)?;
    let client = member("client", &[], ExtendedKeyUsagePurpose::ClientAuth)?;
    Ok((server, client))
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), TransportError> {
    let failed = |cause| TransportError::File {
        doing: "write",
        path: path.to_owned(),
        cause,
    };
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
