//! Identity of a peer, as the transport knows it: never as the peer says.

use std::fmt::{self, Display, Formatter};

/// Bit of the keys of users, which those of certificates do not have.
const USER_BIT: u64 = 1 << 63;

/// Identity of a peer that the kernel or a certificate vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Number by which it is kept: of a user its id, of a certificate a hash of its names. Never 0.
    pub key: u64,
    /// Name for people: `uid:1000`, or `cert:web-1`. Letters, digits and `.-_:@` only.
    pub name: String,
}

impl Identity {
    /// A user of this machine.
    pub fn of_user(uid: u32) -> Self {
        Self {
            key: USER_BIT | u64::from(uid),
            name: format!("uid:{uid}"),
        }
    }

    /// The names of a certificate that was verified, in DER; `None` where it cannot be read. A certificate that is renewed
    /// under the same names is the same identity.
    #[cfg(feature = "tls")]
    pub fn of_certificate(certificate: &rustls::pki_types::CertificateDer<'_>) -> Option<Self> {
        let read = webpki::EndEntityCert::try_from(certificate).ok()?;
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        hash.update(read.subject());
        for name in read.valid_dns_names() {
            // Names have lengths, so that two lists are never one text.
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
        }
        let digest = hash.finish();
        let key = u64::from_le_bytes(*digest.as_ref().first_chunk::<8>()?);
        let common = common_name(read.subject()).map(String::from_utf8_lossy);
        let name = common.or_else(|| read.valid_dns_names().next().map(Into::into));
        let keep = |c: char| c.is_ascii_alphanumeric() || ".-_:@".contains(c);
        let name: String = name.unwrap_or_default().chars().take(NAME_CHARS_MAX).collect();
        let name = name.replace(|c| !keep(c), "_");
        Some(Self {
            key: (key & !USER_BIT) | 1,
            name: format!("cert:{name}"),
        })
    }

    /// Whether it is that of the superuser of this machine, who may act for every user.
    pub fn is_superuser(&self) -> bool {
        self.key == USER_BIT
    }

    /// Whether a key is that of a user of this machine.
    pub fn is_user_key(key: u64) -> bool {
        key & USER_BIT != 0
    }
}

impl Display for Identity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Characters of the name of a certificate that are shown.
#[cfg(feature = "tls")]
const NAME_CHARS_MAX: usize = 64;

/// Finds the common name in a subject in DER: behind its object identifier (2.5.4.3) a string of less than 128 bytes.
#[cfg(feature = "tls")]
fn common_name(subject: &[u8]) -> Option<&[u8]> {
    const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
    let at = subject
        .windows(COMMON_NAME.len())
        .position(|bytes| bytes == COMMON_NAME)?;
    let [_tag, length, text @ ..] = subject.get(at + COMMON_NAME.len()..)? else {
        return None;
    };
    text.get(..usize::from(*length)).filter(|_| *length < 0x80)
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;

    fn certificate(name: &str, dns: &[&str]) -> Identity {
        let mut params =
            rcgen::CertificateParams::new(dns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
                .expect("names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let pair = rcgen::KeyPair::generate().expect("a key");
        let made = params.self_signed(&pair).expect("signed");
        Identity::of_certificate(made.der()).expect("read")
    }

    #[test]
    fn a_certificate_is_known_by_its_names() {
        let one = certificate("web 1", &["a.example", "b.example"]);
        assert_eq!(one.name, "cert:web_1");
        // Another key, the same names.
        assert_eq!(one, certificate("web 1", &["a.example", "b.example"]));
        assert_ne!(one.key, certificate("web 1", &["a.example"]).key);
        assert_ne!(one.key, certificate("web 2", &["a.example", "b.example"]).key);
        assert!(!one.is_superuser() && !Identity::is_user_key(one.key) && one.key != 0);
    }

    #[test]
    fn users_are_not_certificates() {
        let user = Identity::of_user(1000);
        assert_eq!((user.name.as_str(), user.is_superuser()), ("uid:1000", false));
        assert!(Identity::of_user(0).is_superuser() && Identity::is_user_key(user.key));
    }
}
