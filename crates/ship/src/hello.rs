//! Payloads of the frames that are about the session itself: hello, credit, gap and goodbye.

use crate::frame::FrameError;
use crate::limits::{HELLO_BYTES_MAX, NAME_BYTES_MAX, WORDS_BYTES_MAX};

/// The highest version of the format that this code speaks; the second has frames that cancel requests.
pub const VERSION: u16 = 2;
/// The lowest one.
pub const VERSION_MIN: u16 = 1;

/// Role of the end that says hello.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends messages and requests.
    Client = 1,
    /// Sends records, which are kept and acknowledged.
    Shipper = 2,
    /// Answers: the one that listens.
    Server = 3,
}

/// Format of a shipper's records.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Messages: opaque bytes.
    Opaque = 0,
    /// Lines of text.
    Text = 1,
    /// Lines that are JSON objects.
    Json = 2,
    /// Typed records: blocks of columns, and definitions of what they name.
    Records = 3,
}

impl Format {
    /// Returns the format of a code; `None` for one that this version does not know.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [Self::Opaque, Self::Text, Self::Json, Self::Records]
            .get(usize::from(code))
            .copied()
    }
}

/// Wants acknowledgements for batches.
pub const HELLO_ACKS: u8 = 1;
/// Leaves the payload out of checksums: both ends are on one host, or the transport checks.
pub const HELLO_UNCHECKED: u8 = 2;
/// Of a shipper: what lies before its next record may be kept by another server.
pub const HELLO_ELSEWHERE: u8 = 4;
const HELLO_FLAGS: u8 = HELLO_ACKS | HELLO_UNCHECKED | HELLO_ELSEWHERE;

/// The first frame in each direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The lowest version that is spoken.
    pub version_min: u16,
    /// The highest version that is spoken.
    pub version_max: u16,
    /// Role of the sender of this hello.
    pub role: Role,
    /// Format of its records.
    pub format: Format,
    /// `HELLO_...`.
    pub flags: u8,
    /// Bytes of a frame that it accepts.
    pub frame_bytes_max: u32,
    /// Bytes that the other may send before the first credit.
    pub credit_bytes: u64,
    /// The session whose records come; 0 without.
    pub session: u128,
    /// Rises when the numbering of the session begins anew.
    pub epoch: u64,
    /// Of a shipper: the number of its next record. Of a server: the number that it wants next.
    pub next: u64,
    /// Process that the records come from.
    pub pid: u32,
    /// The host's name, as the sender knows it.
    pub host: String,
    /// The program's name.
    pub app: String,
}

/// Bytes of a hello before its names.
const HELLO_FIXED: usize = 2 + 2 + 1 + 1 + 1 + 1 + 4 + 4 + 8 + 16 + 8 + 8;

impl Hello {
    /// A hello with the limits of this code.
    pub fn new(role: Role) -> Self {
        Self {
            version_min: VERSION_MIN,
            version_max: VERSION,
            role,
            format: Format::Opaque,
            flags: 0,
            frame_bytes_max: crate::limits::FRAME_BYTES_MAX as u32,
            credit_bytes: crate::limits::CREDIT_BYTES,
            session: 0,
            epoch: 0,
            next: 0,
            pid: std::process::id(),
            host: String::new(),
            app: String::new(),
        }
    }

    /// Returns whether its sender knows frames that cancel requests.
    pub fn knows_cancel(&self) -> bool {
        self.version_max >= 2
    }

    /// The payload. Names that are too long are cut at a character.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HELLO_FIXED + 2 + self.host.len() + self.app.len());
        out.extend_from_slice(&self.version_min.to_le_bytes());
        out.extend_from_slice(&self.version_max.to_le_bytes());
        out.extend_from_slice(&[self.role as u8, self.format as u8, self.flags, 0]);
        out.extend_from_slice(&self.frame_bytes_max.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.credit_bytes.to_le_bytes());
        out.extend_from_slice(&self.session.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.next.to_le_bytes());
        for name in [&self.host, &self.app] {
            let name = cut(name, NAME_BYTES_MAX);
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
        }
        out
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// Fails when it is no hello, or its versions are none of [`VERSION_MIN`] to [`VERSION`].
    pub fn decode(payload: &[u8]) -> Result<Self, FrameError> {
        limit("hello", payload.len(), HELLO_BYTES_MAX)?;
        let mut cursor = Cursor { payload, offset: 0 };
        let version_min = u16::from_le_bytes(cursor.take()?);
        let version_max = u16::from_le_bytes(cursor.take()?);
        if version_min > VERSION || version_max < VERSION_MIN {
            let found = if version_min > VERSION {
                version_min
            } else {
                version_max
            };
            return Err(unknown("version", found));
        }
        let [role, format, flags, reserved] = cursor.take()?;
        let hello = Self {
            version_min,
            version_max,
            role: match role {
                1 => Role::Client,
                2 => Role::Shipper,
                3 => Role::Server,
                _ => return Err(unknown("role", role)),
            },
            format: Format::from_code(format).ok_or_else(|| unknown("format", format))?,
            flags: match (flags & !HELLO_FLAGS, reserved) {
                (0, 0) => flags,
                _ => return Err(unknown("flags of a hello", flags | reserved)),
            },
            frame_bytes_max: u32::from_le_bytes(cursor.take()?),
            pid: u32::from_le_bytes(cursor.take()?),
            credit_bytes: u64::from_le_bytes(cursor.take()?),
            session: u128::from_le_bytes(cursor.take()?),
            epoch: u64::from_le_bytes(cursor.take()?),
            next: u64::from_le_bytes(cursor.take()?),
            host: cursor.name("host")?,
            app: cursor.name("app")?,
        };
        if (hello.frame_bytes_max as usize) < HELLO_BYTES_MAX {
            let (field, allowed) = ("bytes of a frame", HELLO_BYTES_MAX as u64);
            let found = hello.frame_bytes_max.into();
            return Err(FrameError::Limit {
                field,
                found,
                allowed,
            });
        }
        cursor.end().map(|()| hello)
    }
}

/// Declares each reason once, with its code and its name in statistics.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $code:literal, $name:literal;)*) => {
        /// Reason for the end of a connection. Its code stands in a goodbye.
        #[repr(u8)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $reason = $code,)*
        }

        impl Reason {
            const ALL: &'static [Self] = &[$(Self::$reason,)*];
            /// Names in the order of the codes, as statistics use them.
            pub const NAMES: [&'static str; Self::COUNT] = [$($name,)*];
        }
    };
}

reasons! {
    /// All is said.
    Done = 0, "done";
    /// The other end stops, or starts anew.
    Ending = 1, "ending";
    /// No common version.
    Version = 2, "version";
    /// Bytes that are no frame.
    Malformed = 3, "malformed";
    /// A checksum does not fit.
    Checksum = 4, "checksum";
    /// Longer than what is accepted.
    TooLarge = 5, "too_large";
    /// A frame that has no place here.
    Unexpected = 6, "unexpected";
    /// Too many connections.
    Connections = 7, "connections";
    /// Too much memory, of this peer or of all.
    Memory = 8, "memory";
    /// No hello in time.
    Handshake = 9, "handshake";
    /// Silent for too long.
    Idle = 10, "idle";
    /// The peer cannot show who it is, or is not allowed.
    Forbidden = 11, "forbidden";
    /// More was sent than the credit allows.
    Credit = 12, "credit";
    /// The session goes on elsewhere, or has a newer epoch.
    Superseded = 13, "superseded";
    /// The service could not keep what came; it may be sent again.
    Unavailable = 14, "unavailable";
    /// The other end went without a goodbye. Never said, only counted.
    Lost = 15, "lost";
    /// The operating system refused what the connection needs: a registration, a thread, a TLS state.
    System = 16, "system";
    /// The service failed while it handled what came: a fault of its program.
    Failed = 17, "failed";
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).copied().unwrap_or("unknown")
    }

    /// Returns whether another attempt may end otherwise without anybody changing anything.
    pub fn is_passing(self) -> bool {
        !matches!(
            self,
            Self::Version
                | Self::Malformed
                | Self::TooLarge
                | Self::Unexpected
                | Self::Forbidden
                | Self::Superseded
        )
    }
}

impl From<FrameError> for Reason {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Unknown { field: "version", .. } => Self::Version,
            FrameError::Limit { field: "length", .. } => Self::TooLarge,
            FrameError::Checksum { .. } => Self::Checksum,
            FrameError::Refused { .. } => Self::Unexpected,
            _ => Self::Malformed,
        }
    }
}

/// The payload of a goodbye.
pub fn encode_goodbye(reason: Reason, words: &str) -> Vec<u8> {
    let words = cut(words, WORDS_BYTES_MAX);
    let mut out = vec![reason as u8];
    out.extend_from_slice(words.as_bytes());
    out
}

/// Reads the payload of a goodbye. A reason of a later version is [`Reason::Ending`].
///
/// # Errors
/// Fails when it is empty, too long or not UTF-8.
pub fn decode_goodbye(payload: &[u8]) -> Result<(Reason, &str), FrameError> {
    let mut cursor = Cursor { payload, offset: 0 };
    let [code] = cursor.take()?;
    let words = payload.get(1..).unwrap_or(&[]);
    limit("words of a goodbye", words.len(), WORDS_BYTES_MAX)?;
    let known = Reason::ALL.get(usize::from(code));
    let reason = known.copied().unwrap_or(Reason::Ending);
    let words = std::str::from_utf8(words).map_err(|_| FrameError::NotUtf8 { field: "words" })?;
    Ok((reason, words))
}

/// Reads a payload that is one number, of a credit or a gap.
///
/// # Errors
/// Fails when it is not eight bytes long.
pub fn decode_number(payload: &[u8]) -> Result<u64, FrameError> {
    let mut cursor = Cursor { payload, offset: 0 };
    let number = u64::from_le_bytes(cursor.take()?);
    cursor.end().map(|()| number)
}

struct Cursor<'a> {
    payload: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn bytes(&mut self, needed: usize) -> Result<&'a [u8], FrameError> {
        let rest = self.payload.get(self.offset..).unwrap_or(&[]);
        let Some(bytes) = rest.get(..needed) else {
            return Err(FrameError::Truncated {
                offset: self.offset,
                needed,
                left: rest.len(),
            });
        };
        self.offset += needed;
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }

    fn name(&mut self, field: &'static str) -> Result<String, FrameError> {
        let [length] = self.take()?;
        limit(field, length.into(), NAME_BYTES_MAX)?;
        let bytes = self.bytes(length.into())?;
        let name = std::str::from_utf8(bytes).map_err(|_| FrameError::NotUtf8 { field })?;
        Ok(name.to_owned())
    }

    fn end(&self) -> Result<(), FrameError> {
        limit("bytes behind the end", self.payload.len() - self.offset, 0)
    }
}

fn limit(field: &'static str, found: usize, allowed: usize) -> Result<(), FrameError> {
    if found <= allowed {
        return Ok(());
    }
    let (found, allowed) = (found as u64, allowed as u64);
    Err(FrameError::Limit {
        field,
        found,
        allowed,
    })
}

fn unknown(field: &'static str, found: impl Into<u64>) -> FrameError {
    let found = found.into();
    FrameError::Unknown { field, found }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_reads_back_and_no_part_of_it_does() {
        let mut hello = Hello::new(Role::Shipper);
        hello.session = u128::MAX - 1;
        hello.host = "häuschen".to_owned();
        hello.app = "x".repeat(NAME_BYTES_MAX);
        let bytes = hello.encode();
        assert_eq!(Hello::decode(&bytes), Ok(hello));
        for length in 0..bytes.len() {
            let error = Hello::decode(&bytes[..length]).expect_err("cut");
            assert!(matches!(error, FrameError::Truncated { .. }), "{error}");
        }
    }

    #[test]
    fn reasons_have_their_codes_as_places() {
        for (code, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, code);
            let bytes = encode_goodbye(*reason, "why");
            assert_eq!(decode_goodbye(&bytes), Ok((*reason, "why")));
        }
    }
}
