//! Request of a process for a flight recorder in its agent's memory.

use super::parts::{Out, at_most, flag, text, unknown};
use crate::limits::{AGENT_KEEP_CALLSITES_MAX, AGENT_TEXT_BYTES_MAX};
use crate::{Cursor, Level, WireError};

/// See [`super::Message::Keep`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// Bytes of memory.
    pub bytes: u64,
    /// Only what is not older than this is written; 0 for all.
    pub before_ns: u64,
    /// Between two dumps that records trigger lies at least this time.
    pub pause_ns: u64,
    /// A record of this level or above has what is kept written; `None` for no level.
    pub trigger_level: Option<Level>,
    /// True if what a process kept is written when it was killed.
    pub on_crash: bool,
    /// Selectors of callsites whose records have it written, too, as `logdrive level` takes them; 64 at most.
    pub trigger_callsites: Vec<String>,
}

impl Keep {
    pub(super) fn write(&self, out: &mut Out) -> Result<(), WireError> {
        out.u64(self.bytes);
        out.u64(self.before_ns);
        out.u64(self.pause_ns);
        out.u32(self.trigger_level.map_or(0, |level| u32::from(level.code()) + 1));
        out.u32(u32::from(self.on_crash));
        let count = self.trigger_callsites.len().min(u32::MAX as usize) as u32;
        out.u32(at_most("callsites", count, AGENT_KEEP_CALLSITES_MAX)?);
        let mut callsites = self.trigger_callsites.iter();
        callsites.try_for_each(|callsite| out.text(callsite, "callsite", AGENT_TEXT_BYTES_MAX))
    }

    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        let (bytes, before_ns, pause_ns) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let trigger_level = match cursor.u32()? {
            0 => None,
            code => {
                let level = u8::try_from(code - 1).ok().and_then(Level::from_code);
                Some(level.ok_or_else(|| unknown("trigger level", code))?)
            }
        };
        let on_crash = flag(cursor, "flags")?;
        let count = at_most("callsites", cursor.u32()?, AGENT_KEEP_CALLSITES_MAX)?;
        let mut trigger_callsites = Vec::new();
        for _ in 0..count {
            trigger_callsites.push(text(cursor, "callsite", AGENT_TEXT_BYTES_MAX)?);
        }
        Ok(Self {
            bytes,
            before_ns,
            pause_ns,
            trigger_level,
            on_crash,
            trigger_callsites,
        })
    }
}
