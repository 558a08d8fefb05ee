//! Reading a payload: every read is checked, and what does not fit makes the record malformed.

use logdrive_wire::kind::FieldKind;
use logdrive_wire::value::INLINE_KEY;
use logdrive_wire::{Cursor, Kind};

/// The payload does not fit its callsite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl From<logdrive_wire::WireError> for Malformed {
    fn from(_: logdrive_wire::WireError) -> Self {
        // The line says that it is malformed; where exactly does not help its reader.
        Malformed
    }
}

/// Progress of a line: offsets in the buffer and in the payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) at: usize,
    pub(super) offset: usize,
}

/// Reads the next `N` bytes of a payload.
#[inline(always)]
pub(super) fn take<const N: usize>(payload: &[u8], offset: &mut usize) -> Result<[u8; N], Malformed> {
    let bytes = payload.get(*offset..).and_then(|rest| rest.first_chunk::<N>());
    *offset += N;
    bytes.copied().ok_or(Malformed)
}

/// Reads an unsigned integer of `N` bytes, at most 8.
#[inline(always)]
pub(super) fn take_unsigned<const N: usize>(payload: &[u8], offset: &mut usize) -> Result<u64, Malformed> {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&take::<N>(payload, offset)?);
    Ok(u64::from_le_bytes(bytes))
}

/// Reads a signed integer of four bytes.
#[inline(always)]
pub(super) fn take_i32(payload: &[u8], offset: &mut usize) -> Result<i64, Malformed> {
    Ok(i64::from(i32::from_le_bytes(take(payload, offset)?)))
}

/// Reads a `u32` length and as many bytes.
#[inline(always)]
pub(super) fn take_blob<'a>(payload: &'a [u8], offset: &mut usize) -> Result<&'a [u8], Malformed> {
    let length = take_unsigned::<4>(payload, offset)?;
    take_bytes(payload, offset, length as usize)
}

/// Reads a `u16` length and as many bytes, as names are stored.
#[inline(always)]
pub(super) fn take_short<'a>(payload: &'a [u8], offset: &mut usize) -> Result<&'a [u8], Malformed> {
    let length = take_unsigned::<2>(payload, offset)?;
    take_bytes(payload, offset, length as usize)
}

#[inline(always)]
fn take_bytes<'a>(payload: &'a [u8], offset: &mut usize, length: usize) -> Result<&'a [u8], Malformed> {
    let rest = payload.get(*offset..).ok_or(Malformed)?;
    *offset += length;
    rest.get(..length).ok_or(Malformed)
}

/// Reads whether an optional value is there.
#[inline]
pub(super) fn take_presence(payload: &[u8], offset: &mut usize) -> Result<bool, Malformed> {
    match take::<1>(payload, offset)? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(Malformed),
    }
}

/// Moves behind a value that is there.
#[inline]
pub(super) fn skip(payload: &[u8], kind: Kind, offset: &mut usize) -> Result<(), Malformed> {
    *offset += match kind {
        Kind::None => 0,
        Kind::Bool | Kind::I8 | Kind::U8 => 1,
        Kind::I16 | Kind::U16 => 2,
        Kind::I32 | Kind::U32 | Kind::F32 | Kind::Char => 4,
        Kind::I64 | Kind::U64 | Kind::F64 | Kind::Pointer => 8,
        Kind::I128 | Kind::U128 => 16,
        Kind::Str | Kind::Bytes | Kind::Display | Kind::Debug | Kind::Scope | Kind::Message => {
            take_blob(payload, offset)?;
            0
        }
    };
    if *offset > payload.len() {
        Err(Malformed)
    } else {
        Ok(())
    }
}

/// Tag in front of a value of a dynamic record. The same bytes as `logdrive_wire::value::DynamicFields`
/// reads, without making the value: these are most of the work for a `tracing` event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag<'a> {
    pub(super) kind: Kind,
    /// True if bytes of the value follow: not for an absent optional.
    pub(super) present: bool,
    /// The callsite's field, or `None` when the key is in the record.
    pub(super) index: Option<u8>,
    /// The key in the record. A caller that does not know that it is ASCII has to use [`Tag::key`], also to skip it.
    pub(super) key_bytes: &'a [u8],
}

impl<'a> Tag<'a> {
    /// The key in the record; an empty one has a name here.
    #[inline]
    pub(super) fn key(&self) -> Result<&'a str, Malformed> {
        match self.key_bytes {
            [] => Ok("arg"),
            key => core::str::from_utf8(key).map_err(|_| Malformed),
        }
    }

    /// For a value that is left out with its key.
    #[inline]
    pub(super) fn check_key(&self) -> Result<(), Malformed> {
        self.key().map(|_| ())
    }
}

static KINDS: [Option<Kind>; 256] = {
    let mut kinds = [None; 256];
    let mut code = 0;
    while code < 256 {
        if let Ok(field) = FieldKind::from_code(code as u8) {
            kinds[code] = Some(field.kind);
        }
        code += 1;
    }
    kinds
};

/// Reads the next tag; `Ok(None)` at the end, which is a zero byte or the end of the payload.
#[inline]
pub(super) fn take_tag<'a>(payload: &'a [u8], offset: &mut usize) -> Result<Option<Tag<'a>>, Malformed> {
    match payload.get(*offset) {
        None | Some(0) => return Ok(None),
        Some(_) => {}
    }
    let [code, index] = take(payload, offset)?;
    let kind = KINDS[usize::from(code)].ok_or(Malformed)?;
    let (index, key_bytes) = match index {
        INLINE_KEY => (None, take_short(payload, offset)?),
        index => (Some(index), &[][..]),
    };
    let present = code & Kind::OPTIONAL == 0 || take_presence(payload, offset)?;
    let present = present && kind != Kind::None;
    Ok(Some(Tag {
        kind,
        present,
        index,
        key_bytes,
    }))
}

/// A cursor at this place of the payload, for what is read by [`logdrive_wire::Value`].
pub(super) fn cursor_at(payload: &[u8], offset: usize) -> Result<Cursor<'_>, Malformed> {
    payload.get(offset..).map(Cursor::new).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_ends_early_is_malformed() {
        assert_eq!(take_blob(&[2, 0, 0, 0, b'a'], &mut 0), Err(Malformed));
        assert_eq!(take_blob(&[0xff; 8], &mut 0), Err(Malformed));
        assert_eq!(take_blob(&[1, 0, 0, 0, b'a'], &mut 0), Ok(&b"a"[..]));
        assert_eq!(take::<4>(&[0; 3], &mut 0), Err(Malformed));
        assert_eq!(take::<1>(&[0; 3], &mut 9), Err(Malformed));
    }
}
