//! The messages between a process, a tool and the agent, drawn in `spec/agent.md`. Bytes in, bytes out; the
//! descriptors that travel beside a message are only counted here.

mod keep;
mod parts;

pub use keep::Keep;

use crate::limits::{
    AGENT_APP_BYTES_MAX, AGENT_DESCRIPTORS_MAX, AGENT_MESSAGE_BYTES_MAX, AGENT_RINGS_MAX,
    AGENT_TEXT_BYTES_MAX,
};
use crate::{Cursor, WireError};
use parts::{Out, app, at_most, flag, number, policy, reserved, text, unknown};

/// `LDAG`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"LDAG");

/// The version of the messages.
pub const VERSION: u16 = 1;

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 16;

/// Descriptors of a session before those of its rings: header, control, counts, callsites, rules.
pub const SESSION_DESCRIPTORS: u32 = 5;

/// Message between an agent and a peer.
///
/// ```
/// use logdrive_wire::agent::Message;
/// let message = Message::Flush { ticket: 7, durable: true };
/// let bytes = message.encode()?;
/// assert_eq!(Message::decode(&bytes)?, message);
/// # Ok::<(), logdrive_wire::WireError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// A process asks for a session.
    Hello(Hello),
    /// Its session: header, control, counts, callsites, rules and rings come as descriptors.
    Welcome(Welcome),
    /// No, and what to do.
    Refused(Refused),
    /// A process asks for rings.
    MoreRings {
        /// Number of rings, 1 to 16.
        count: u32,
    },
    /// A process asks for rings of 64 KiB.
    SmallRings {
        /// Number of rings, 1 to 16.
        count: u32,
    },
    /// Rings, as descriptors.
    Rings {
        /// The number of the first.
        first: u32,
        /// Number of rings; 0 when there are no more to be had.
        count: u32,
        /// Reason why there are no more.
        reason: String,
    },
    /// A process shows the session that it has from an earlier agent or connection, with all descriptors.
    Adopt(Adopt),
    /// The session goes on.
    WelcomeBack {
        /// Its number, which may be a new one.
        session: u64,
        /// The agent's journal.
        journal: u64,
        /// Rings that the agent knows.
        ring_total: u32,
        /// The most rings of the process.
        rings_max: u32,
    },
    /// The process writes nothing more.
    Bye,
    /// All is drained.
    Done {
        /// True if all of it is with the kernel.
        complete: bool,
    },
    /// Asks for a ticket when what was committed before is with the kernel.
    Flush {
        /// Chosen by the process.
        ticket: u64,
        /// True if it has to be on disk.
        durable: bool,
    },
    /// The answer to [`Message::Flush`].
    Flushed {
        /// The ticket.
        ticket: u64,
        /// True if it could be done.
        reached: bool,
    },
    /// Wakes the drain.
    Bell,
    /// A process wants records that no sink takes to be kept in memory. There is no answer.
    Keep(Keep),
    /// A process wants what is kept of it written. The answer is [`Message::Flushed`].
    WriteKept {
        /// Chosen by the process, among those of [`Message::Flush`].
        ticket: u64,
        /// Nanoseconds to go back; 0 for everything that is kept.
        span_ns: u64,
    },
    /// A tool asks which sessions there are.
    List {
        /// Those with higher numbers.
        above: u64,
    },
    /// Some of the sessions, in the order of their numbers.
    Sessions {
        /// True if there are others behind them.
        more: bool,
        /// The sessions.
        entries: Vec<SessionEntry>,
    },
    /// A tool asks for the descriptors of a session.
    Open {
        /// Which.
        session: u64,
    },
    /// The session's descriptors, as in [`Message::Welcome`].
    Session {
        /// Which.
        session: u64,
        /// Rings that it has.
        ring_total: u32,
        /// Rings that come with the message; the others follow.
        ring_count: u32,
    },
    /// A tool asks for the agent's statistics.
    Stats,
    /// A tool asks the agent to read its configuration again.
    Reload,
    /// A tool asks for what a flight recorder keeps.
    Dump {
        /// Nanoseconds to go back; 0 for everything that is kept.
        span_ns: u64,
        /// Of which application.
        app: String,
    },
    /// A tool asks for what is kept of one process.
    DumpSession {
        /// Of which.
        session: u64,
        /// Nanoseconds to go back; 0 for everything that is kept.
        span_ns: u64,
    },
    /// A tool asks for the sinks that records of a session go to.
    Files {
        /// Of which.
        session: u64,
        /// True if the answer waits until what was committed before is with the kernel.
        written: bool,
    },
    /// Text for a tool.
    Answer {
        /// True if there is more behind it.
        more: bool,
        /// The text.
        text: String,
    },
}

/// See [`Message::Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The application's name, 1 to 63 bytes.
    pub app: String,
    /// Bytes of each ring.
    pub ring_bytes: u64,
    /// Rings to begin with.
    pub ring_count: u32,
    /// Policy of a call whose ring is full.
    pub policy: u32,
    /// True if the process reads the coarse clock.
    pub coarse: bool,
}

/// See [`Message::Welcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// The session's number.
    pub session: u64,
    /// The agent's journal.
    pub journal: u64,
    /// Bytes of each ring.
    pub ring_bytes: u64,
    /// Source of ticks, as in the session's header.
    pub clock_source: u32,
    /// Rings that come with the message.
    pub ring_count: u32,
    /// The most rings of the process.
    pub rings_max: u32,
}

/// See [`Message::Adopt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopt {
    /// The session's number with the agent that gave it.
    pub session: u64,
    /// The journal of the agent that drained it last.
    pub journal: u64,
    /// Bytes of each ring.
    pub ring_bytes: u64,
    /// Rings of the session.
    pub ring_total: u32,
    /// Rings that come with the message; the others follow.
    pub ring_count: u32,
    /// Policy of a call whose ring is full.
    pub policy: u32,
    /// True if the process reads the coarse clock.
    pub coarse: bool,
}

/// See [`Message::Refused`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Which family of reasons; a code of a later version is kept as it is.
    pub code: RefusedCode,
    /// Reason of the refusal, for people.
    pub reason: String,
    /// Advice on what to do.
    pub advice: String,
}

/// Families of reasons for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedCode {
    /// The peer speaks another version.
    Version,
    /// A message that cannot be read, or that comes at the wrong time.
    Message,
    /// A limit.
    Limit,
    /// The peer may not do that.
    NotAllowed,
    /// Descriptors of the wrong kind, size or number.
    Descriptors,
    /// The agent lacks memory or descriptors.
    Resources,
    /// There is no such session.
    UnknownSession,
    /// The agent is ending.
    Ending,
    /// A code that this version does not know.
    Other(u32),
}

impl RefusedCode {
    const KNOWN: [(u32, Self); 8] = [
        (1, Self::Version),
        (2, Self::Message),
        (3, Self::Limit),
        (4, Self::NotAllowed),
        (5, Self::Descriptors),
        (6, Self::Resources),
        (7, Self::UnknownSession),
        (8, Self::Ending),
    ];

    /// The code on the wire.
    pub fn code(self) -> u32 {
        if let Self::Other(code) = self {
            return code;
        }
        let known = Self::KNOWN.iter().find(|(_, known)| *known == self);
        known.map_or(0, |(code, _)| *code)
    }

    /// The family of a code.
    pub fn from_code(code: u32) -> Self {
        let known = Self::KNOWN.iter().find(|(known, _)| *known == code);
        known.map_or(Self::Other(code), |(_, known)| *known)
    }
}

/// One session of [`Message::Sessions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEntry {
    /// Its number.
    pub session: u64,
    /// Time at which it was made, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// The process.
    pub pid: u32,
    /// The process's user.
    pub uid: u32,
    /// Its rings.
    pub ring_count: u32,
    /// True if its process is connected.
    pub state: SessionState,
    /// The application's name.
    pub app: String,
}

/// State of a session's process, as its agent knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// It is connected.
    Connected = 1,
    /// It lives, but is not connected.
    Away = 2,
    /// It ends.
    Ending = 3,
}

impl SessionState {
    fn from_code(code: u32) -> Result<Self, WireError> {
        match code {
            1 => Ok(Self::Connected),
            2 => Ok(Self::Away),
            3 => Ok(Self::Ending),
            _ => Err(WireError::Unknown {
                what: "session state",
                found: u64::from(code),
            }),
        }
    }
}

impl Message {
    /// The name of the message's kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Welcome(_) => "welcome",
            Self::Refused(_) => "refused",
            Self::MoreRings { .. } => "more_rings",
            Self::SmallRings { .. } => "small_rings",
            Self::Rings { .. } => "rings",
            Self::Adopt(_) => "adopt",
            Self::WelcomeBack { .. } => "welcome_back",
            Self::Bye => "bye",
            Self::Done { .. } => "done",
            Self::Flush { .. } => "flush",
            Self::Flushed { .. } => "flushed",
            Self::Bell => "bell",
            Self::Keep(_) => "keep",
            Self::WriteKept { .. } => "write_kept",
            Self::List { .. } => "list",
            Self::Sessions { .. } => "sessions",
            Self::Open { .. } => "open",
            Self::Session { .. } => "session",
            Self::Stats => "stats",
            Self::Reload => "reload",
            Self::Dump { .. } => "dump",
            Self::Answer { .. } => "answer",
            Self::DumpSession { .. } => "dump_session",
            Self::Files { .. } => "files",
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Hello(_) => 1,
            Self::Welcome(_) => 2,
            Self::Refused(_) => 3,
            Self::MoreRings { .. } => 4,
            Self::SmallRings { .. } => 15,
            Self::Rings { .. } => 5,
            Self::Adopt(_) => 6,
            Self::WelcomeBack { .. } => 7,
            Self::Bye => 8,
            Self::Done { .. } => 9,
            Self::Flush { .. } => 10,
            Self::Flushed { .. } => 11,
            Self::Bell => 12,
            Self::Keep(_) => 13,
            Self::WriteKept { .. } => 14,
            Self::List { .. } => 16,
            Self::Sessions { .. } => 17,
            Self::Open { .. } => 18,
            Self::Session { .. } => 19,
            Self::Stats => 20,
            Self::Reload => 21,
            Self::Dump { .. } => 22,
            Self::Answer { .. } => 23,
            Self::DumpSession { .. } => 24,
            Self::Files { .. } => 25,
        }
    }

    /// Descriptors that travel with the message.
    pub fn descriptors(&self) -> u32 {
        match self {
            Self::Welcome(Welcome { ring_count, .. })
            | Self::Adopt(Adopt { ring_count, .. })
            | Self::Session { ring_count, .. } => ring_count.saturating_add(SESSION_DESCRIPTORS),
            Self::Rings { count, .. } => *count,
            _ => 0,
        }
    }

    /// The bytes of the message.
    ///
    /// # Errors
    /// Fails when a text, a count or the whole is beyond its limit.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let descriptors = at_most("descriptors", self.descriptors(), AGENT_DESCRIPTORS_MAX)?;
        let mut out = Out(Vec::with_capacity(64));
        out.u32(MAGIC);
        out.u16(VERSION);
        out.u16(self.kind());
        out.u32(0);
        // Checked to be at most 253.
        out.u16(descriptors as u16);
        out.u16(0);
        self.body(&mut out)?;
        // Checked to be at most 64 KiB.
        let length = at_most(
            "message length",
            out.0.len() as u32,
            AGENT_MESSAGE_BYTES_MAX as u32,
        )?;
        out.0[8..12].copy_from_slice(&length.to_le_bytes());
        Ok(out.0)
    }

    fn body(&self, out: &mut Out) -> Result<(), WireError> {
        match self {
            Self::Hello(hello) => hello.write(out)?,
            Self::Welcome(welcome) => welcome.write(out)?,
            Self::Refused(refused) => {
                out.u32(refused.code.code());
                out.text(&refused.reason, "reason", AGENT_TEXT_BYTES_MAX)?;
                out.text(&refused.advice, "advice", AGENT_TEXT_BYTES_MAX)?;
            }
            Self::MoreRings { count } | Self::SmallRings { count } => {
                out.u32(at_most("rings", *count, AGENT_RINGS_MAX)?)
            }
            Self::Rings { first, count, reason } => {
                out.u32(*first);
                out.u32(at_most("rings", *count, AGENT_RINGS_MAX)?);
                out.text(reason, "reason", AGENT_TEXT_BYTES_MAX)?;
            }
            Self::Adopt(adopt) => adopt.write(out)?,
            Self::WelcomeBack {
                session,
                journal,
                ring_total,
                rings_max,
            } => {
                out.u64(*session);
                out.u64(*journal);
                out.u32(*ring_total);
                out.u32(*rings_max);
            }
            Self::Bye | Self::Bell | Self::Stats | Self::Reload => {}
            Self::Done { complete } => out.u32(u32::from(*complete)),
            Self::Flush {
                ticket,
                durable: flag,
            }
            | Self::Flushed {
                ticket,
                reached: flag,
            } => {
                out.u64(*ticket);
                out.u32(u32::from(*flag));
            }
            Self::Keep(keep) => keep.write(out)?,
            other => other.body_of_tools(out)?,
        }
        Ok(())
    }

    fn body_of_tools(&self, out: &mut Out) -> Result<(), WireError> {
        match self {
            Self::WriteKept {
                ticket: number,
                span_ns,
            }
            | Self::DumpSession {
                session: number,
                span_ns,
            } => {
                out.u64(*number);
                out.u64(*span_ns);
            }
            Self::List { above: number } | Self::Open { session: number } => out.u64(*number),
            Self::Files { session, written } => {
                out.u64(*session);
                out.u32(u32::from(*written));
            }
            Self::Sessions { more, entries } => {
                out.u32(u32::from(*more));
                out.u32(entries.len() as u32);
                entries.iter().try_for_each(|entry| entry.write(out))?;
            }
            Self::Session {
                session,
                ring_total,
                ring_count,
            } => {
                out.u64(*session);
                out.u32(*ring_total);
                out.u32(at_most("rings", *ring_count, AGENT_RINGS_MAX)?);
            }
            Self::Dump { span_ns, app } => {
                out.u64(*span_ns);
                out.app(app)?;
            }
            Self::Answer { more, text } => {
                out.u32(u32::from(*more));
                out.u32(text.len() as u32);
                out.0.extend_from_slice(text.as_bytes());
            }
            // The others have been written, or have no body.
            _ => {}
        }
        Ok(())
    }

    /// Reads a message, which must be all of `bytes`.
    ///
    /// # Errors
    /// Fails when it is no message of this version, is cut, or says what the format does not allow.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.u32()?;
        if magic != MAGIC {
            return Err(unknown("magic", magic));
        }
        let version = cursor.u16()?;
        if version != VERSION {
            return Err(unknown(VERSION_WHAT, u32::from(version)));
        }
        let kind = cursor.u16()?;
        let length = at_most("message length", cursor.u32()?, AGENT_MESSAGE_BYTES_MAX as u32)? as usize;
        let descriptors = at_most("descriptors", u32::from(cursor.u16()?), AGENT_DESCRIPTORS_MAX)?;
        reserved(u32::from(cursor.u16()?))?;
        if bytes.len() < length {
            return Err(WireError::Truncated {
                offset: 0,
                needed: length,
                left: bytes.len(),
            });
        }
        at_most("bytes of a packet", bytes.len() as u32, length as u32)?;
        let message = Self::read(kind, &mut cursor)?;
        at_most("bytes behind the message", cursor.left() as u32, 0)?;
        if message.descriptors() != descriptors {
            return Err(WireError::Limit {
                what: "descriptors",
                found: u64::from(descriptors),
                limit: u64::from(message.descriptors()),
            });
        }
        Ok(message)
    }

    fn read(kind: u16, cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        Ok(match kind {
            1 => Self::Hello(Hello::read(cursor)?),
            2 => Self::Welcome(Welcome::read(cursor)?),
            3 => Self::Refused(Refused {
                code: RefusedCode::from_code(cursor.u32()?),
                reason: text(cursor, "reason", AGENT_TEXT_BYTES_MAX)?,
                advice: text(cursor, "advice", AGENT_TEXT_BYTES_MAX)?,
            }),
            4 => Self::MoreRings {
                count: at_most("rings", cursor.u32()?, AGENT_RINGS_MAX)?,
            },
            15 => Self::SmallRings {
                count: at_most("rings", cursor.u32()?, AGENT_RINGS_MAX)?,
            },
            5 => Self::Rings {
                first: cursor.u32()?,
                count: at_most("rings", cursor.u32()?, AGENT_RINGS_MAX)?,
                reason: text(cursor, "reason", AGENT_TEXT_BYTES_MAX)?,
            },
            6 => Self::Adopt(Adopt::read(cursor)?),
            7 => Self::WelcomeBack {
                session: number(cursor)?,
                journal: cursor.u64()?,
                ring_total: cursor.u32()?,
                rings_max: cursor.u32()?,
            },
            8 => Self::Bye,
            9 => Self::Done {
                complete: flag(cursor, "complete")?,
            },
            10 => Self::Flush {
                ticket: cursor.u64()?,
                durable: flag(cursor, "durable")?,
            },
            11 => Self::Flushed {
                ticket: cursor.u64()?,
                reached: flag(cursor, "reached")?,
            },
            12 => Self::Bell,
            13 => Self::Keep(Keep::read(cursor)?),
            14 => Self::WriteKept {
                ticket: cursor.u64()?,
                span_ns: cursor.u64()?,
            },
            other => Self::read_of_tools(other, cursor)?,
        })
    }

    fn read_of_tools(kind: u16, cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        Ok(match kind {
            16 => Self::List { above: cursor.u64()? },
            17 => {
                let more = flag(cursor, "more")?;
                let count = cursor.u32()?;
                // Grows with what is there, not with what the count claims.
                let mut entries = Vec::new();
                for _ in 0..count {
                    entries.push(SessionEntry::read(cursor)?);
                }
                Self::Sessions { more, entries }
            }
            18 => Self::Open {
                session: number(cursor)?,
            },
            19 => Self::Session {
                session: number(cursor)?,
                ring_total: cursor.u32()?,
                ring_count: at_most("rings", cursor.u32()?, AGENT_RINGS_MAX)?,
            },
            20 => Self::Stats,
            21 => Self::Reload,
            22 => Self::Dump {
                span_ns: cursor.u64()?,
                app: app(cursor)?,
            },
            23 => {
                let more = flag(cursor, "more")?;
                let length = cursor.u32()? as usize;
                let text = core::str::from_utf8(cursor.take(length)?);
                Self::Answer {
                    more,
                    text: text
                        .map_err(|_| WireError::NotUtf8 { what: "answer" })?
                        .to_owned(),
                }
            }
            24 => Self::DumpSession {
                session: number(cursor)?,
                span_ns: cursor.u64()?,
            },
            25 => Self::Files {
                session: number(cursor)?,
                written: flag(cursor, "written")?,
            },
            other => return Err(unknown("message kind", u32::from(other))),
        })
    }
}

/// Name that [`Message::decode`] gives to a version that it does not know.
const VERSION_WHAT: &str = "message version";

/// Returns whether an error of [`Message::decode`] says that the peer speaks another version.
pub fn is_other_version(error: &WireError) -> bool {
    matches!(error, WireError::Unknown { what, .. } if *what == VERSION_WHAT)
}

impl Hello {
    fn write(&self, out: &mut Out) -> Result<(), WireError> {
        out.u64(self.ring_bytes);
        out.u32(self.ring_count);
        out.u32(self.policy);
        out.u32(u32::from(self.coarse));
        out.app(&self.app)
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        Ok(Self {
            ring_bytes: cursor.u64()?,
            ring_count: at_most("rings", cursor.u32()?, AGENT_RINGS_MAX)?,
            policy: policy(cursor)?,
            coarse: flag(cursor, "flags")?,
            app: app(cursor)?,
        })
    }
}

impl Welcome {
    fn write(&self, out: &mut Out) -> Result<(), WireError> {
        out.u64(self.session);
        out.u64(self.journal);
        out.u64(self.ring_bytes);
        out.u32(self.clock_source);
        out.u32(at_most("rings", self.ring_count, AGENT_RINGS_MAX)?);
        out.u32(self.rings_max);
        out.u32(0);
        Ok(())
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        let welcome = Self {
            session: number(cursor)?,
            journal: cursor.u64()?,
            ring_bytes: cursor.u64()?,
            clock_source: cursor.u32()?,
            ring_count: at_most("rings", cursor.u32()?, AGENT_RINGS_MAX)?,
            rings_max: cursor.u32()?,
        };
        reserved(cursor.u32()?)?;
        Ok(welcome)
    }
}

impl Adopt {
    fn write(&self, out: &mut Out) -> Result<(), WireError> {
        out.u64(self.session);
        out.u64(self.journal);
        out.u64(self.ring_bytes);
        out.u32(self.ring_total);
        out.u32(at_most("rings", self.ring_count, AGENT_RINGS_MAX)?);
        out.u32(self.policy);
        out.u32(u32::from(self.coarse));
        Ok(())
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        Ok(Self {
            session: number(cursor)?,
            journal: cursor.u64()?,
            ring_bytes: cursor.u64()?,
            ring_total: cursor.u32()?,
            ring_count: at_most("rings", cursor.u32()?, AGENT_RINGS_MAX)?,
            policy: policy(cursor)?,
            coarse: flag(cursor, "flags")?,
        })
    }
}

impl SessionEntry {
    fn write(&self, out: &mut Out) -> Result<(), WireError> {
        out.u64(self.session);
        out.u64(self.start_unix_ns);
        out.u32(self.pid);
        out.u32(self.uid);
        out.u32(self.ring_count);
        out.u32(self.state as u32);
        out.app(&self.app)
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        Ok(Self {
            session: number(cursor)?,
            start_unix_ns: cursor.u64()?,
            pid: cursor.u32()?,
            uid: cursor.u32()?,
            ring_count: cursor.u32()?,
            state: SessionState::from_code(cursor.u32()?)?,
            app: app(cursor)?,
        })
    }

    /// Bytes that the entry takes in a message.
    pub fn wire_bytes(&self) -> usize {
        34 + self.app.len()
    }
}

/// Returns whether a name may be an application's: 1 to 63 bytes, no control characters.
pub fn is_app_name(name: &str) -> bool {
    (1..=AGENT_APP_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}
