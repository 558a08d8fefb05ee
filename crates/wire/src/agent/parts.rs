//! Parts of messages: numbers, texts, and the checks that both directions share.

use super::is_app_name;
use crate::limits::AGENT_APP_BYTES_MAX;
use crate::{Cursor, WireError};

/// A message as it is written.
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str, what: &'static str, bytes_max: usize) -> Result<(), WireError> {
        let length = at_most(what, text.len().min(u32::MAX as usize) as u32, bytes_max as u32)?;
        // Limits of texts are far below 64 KiB.
        self.u16(length as u16);
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }

    pub(super) fn app(&mut self, name: &str) -> Result<(), WireError> {
        check_app(name)?;
        self.text(name, "application name", AGENT_APP_BYTES_MAX)
    }
}

pub(super) fn text(
    cursor: &mut Cursor<'_>,
    what: &'static str,
    bytes_max: usize,
) -> Result<String, WireError> {
    let text = cursor.short_str(what)?;
    at_most(what, text.len() as u32, bytes_max as u32)?;
    Ok(text.to_owned())
}

pub(super) fn app(cursor: &mut Cursor<'_>) -> Result<String, WireError> {
    let name = text(cursor, "application name", AGENT_APP_BYTES_MAX)?;
    check_app(&name)?;
    Ok(name)
}

fn check_app(name: &str) -> Result<(), WireError> {
    if is_app_name(name) {
        return Ok(());
    }
    let control = name.chars().find(|c| c.is_control());
    Err(match control {
        Some(found) => unknown("character of an application name", found as u32),
        None => WireError::Limit {
            what: "bytes of an application name",
            found: name.len() as u64,
            limit: AGENT_APP_BYTES_MAX as u64,
        },
    })
}

/// A session's number.
pub(super) fn number(cursor: &mut Cursor<'_>) -> Result<u64, WireError> {
    match cursor.u64()? {
        0 => Err(unknown("session", 0)),
        number => Ok(number),
    }
}

pub(super) fn policy(cursor: &mut Cursor<'_>) -> Result<u32, WireError> {
    match cursor.u32()? {
        policy @ 0..=2 => Ok(policy),
        other => Err(unknown("policy", other)),
    }
}

pub(super) fn flag(cursor: &mut Cursor<'_>, what: &'static str) -> Result<bool, WireError> {
    match cursor.u32()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(unknown(what, other)),
    }
}

pub(super) fn reserved(found: u32) -> Result<(), WireError> {
    match found {
        0 => Ok(()),
        other => Err(unknown("reserved bytes", other)),
    }
}

pub(super) fn at_most(what: &'static str, found: u32, limit: u32) -> Result<u32, WireError> {
    if found <= limit {
        return Ok(found);
    }
    Err(WireError::Limit {
        what,
        found: u64::from(found),
        limit: u64::from(limit),
    })
}

pub(super) fn unknown(what: &'static str, found: u32) -> WireError {
    WireError::Unknown {
        what,
        found: u64::from(found),
    }
}
