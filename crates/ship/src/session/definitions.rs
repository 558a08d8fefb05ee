//! Definitions in front of a batch of typed records: what its block names by numbers, such as callsites.
//!
//! A sender keeps each batch with all of them, and sends those alone that the connection does not have yet.

use crate::hello::Reason;
use std::collections::HashMap;

/// Bytes of the length in front, and of number and length of a definition.
const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = 8;

/// Payload of a batch of typed records: `u32 length | definitions | block`, a definition `u32 number | u32 length | bytes`.
///
/// ```
/// use logdrive_ship::session::RecordPayload;
/// let bytes = RecordPayload::encode([(7, b"callsite".as_slice())], b"block");
/// let payload = RecordPayload::decode(&bytes).expect("sound");
/// assert_eq!(payload.definitions().next(), Some((7, b"callsite".as_slice())));
/// assert_eq!(payload.block, b"block");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPayload<'a> {
    definitions: &'a [u8],
    /// Bytes behind the definitions.
    pub block: &'a [u8],
}

impl<'a> RecordPayload<'a> {
    /// Returns the bytes of a payload.
    pub fn encode<'b>(definitions: impl IntoIterator<Item = (u32, &'b [u8])>, block: &[u8]) -> Vec<u8> {
        let mut out = vec![0; LENGTH_BYTES];
        for (number, bytes) in definitions {
            put(&mut out, number, bytes);
        }
        seal(&mut out);
        out.extend_from_slice(block);
        out
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`Reason::Malformed`] when a length is more than there is.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Reason> {
        let (length, rest) = payload
            .split_first_chunk::<LENGTH_BYTES>()
            .ok_or(Reason::Malformed)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (definitions, block) = rest.split_at_checked(length).ok_or(Reason::Malformed)?;
        let found = Self { definitions, block };
        let bytes: usize = found
            .definitions()
            .map(|(_, bytes)| bytes.len() + HEAD_BYTES)
            .sum();
        match bytes == length {
            true => Ok(found),
            false => Err(Reason::Malformed),
        }
    }

    /// Bytes of the longest part that cannot be cut.
    pub(super) fn least_bytes(&self) -> u64 {
        let definitions = self.definitions().map(|(_, bytes)| bytes.len() + HEAD_BYTES);
        let longest = definitions.chain([self.block.len()]).max();
        (longest.unwrap_or(0) + LENGTH_BYTES) as u64
    }

    /// The definitions, numbers and bytes.
    pub fn definitions(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let mut rest = self.definitions;
        std::iter::from_fn(move || {
            let (number, behind) = rest.split_first_chunk::<4>()?;
            let (length, behind) = behind.split_first_chunk::<4>()?;
            let (bytes, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = behind;
            Some((u32::from_le_bytes(*number), bytes))
        })
    }
}

fn put(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Writes the length of the definitions in front of them.
fn seal(out: &mut [u8]) {
    let length = out.len().saturating_sub(LENGTH_BYTES) as u32;
    if let Some(place) = out.first_chunk_mut() {
        *place = length.to_le_bytes();
    }
}

/// Definitions that a connection has, at its sending end.
#[derive(Debug, Default)]
pub(super) struct ConnectionDefinitions {
    /// Bytes of each number.
    sent: HashMap<u32, Box<[u8]>>,
    /// Front of the payload that is sent now.
    front: Vec<u8>,
}

impl ConnectionDefinitions {
    /// Forgets all: the connection is another one.
    pub(super) fn clear(&mut self) {
        self.sent.clear();
    }

    /// Returns the next payload to send of a batch, in two parts, which has so many bytes at most: the block behind the
    /// definitions that the connection lacks, or only as many of those as fit. They count as sent. `None`: the block is too
    /// long. A payload that cannot be read is sent as it is.
    pub(super) fn next<'a>(&'a mut self, payload: &'a [u8], bytes_max: usize) -> Option<Part<'a>> {
        let Ok(found) = RecordPayload::decode(payload) else {
            return Some(Part::whole(payload));
        };
        if found.block.len() + LENGTH_BYTES > bytes_max {
            return None;
        }
        self.front.clear();
        self.front.resize(LENGTH_BYTES, 0);
        let mut lacks = false;
        for (number, bytes) in found.definitions() {
            if self.sent.get(&number).is_some_and(|sent| **sent == *bytes) {
                continue;
            }
            lacks = self.front.len() + HEAD_BYTES + bytes.len() > bytes_max;
            if lacks {
                break;
            }
            self.sent.insert(number, bytes.into());
            put(&mut self.front, number, bytes);
        }
        seal(&mut self.front);
        let is_last = !lacks && self.front.len() + found.block.len() <= bytes_max;
        // One that is longer than a frame goes nowhere.
        (is_last || self.front.len() > LENGTH_BYTES).then_some(Part {
            bytes: [&self.front, if is_last { found.block } else { &[] }],
            is_last,
        })
    }
}

/// Payload of a frame.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) bytes: [&'a [u8]; 2],
    /// The block of the batch is in it.
    pub(super) is_last: bool,
}

impl<'a> Part<'a> {
    pub(super) fn whole(payload: &'a [u8]) -> Self {
        Self {
            bytes: [payload, &[]],
            is_last: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_sent_once_until_it_changes() {
        let mut sent = ConnectionDefinitions::default();
        let mut numbers = |definitions: &[(u32, &'static [u8])]| {
            let payload = RecordPayload::encode(definitions.iter().copied(), b"block");
            let part = sent.next(&payload, 100).expect("short");
            assert!(part.is_last);
            let bytes = part.bytes.concat();
            let found = RecordPayload::decode(&bytes).expect("sound");
            assert_eq!(found.block, b"block");
            found
                .definitions()
                .map(|(number, _)| number)
                .collect::<Vec<u32>>()
        };
        assert_eq!(numbers(&[(0, b"a"), (1, b"b")]), [0, 1]);
        assert_eq!(numbers(&[(0, b"a"), (2, b"c")]), [2]);
        assert_eq!(numbers(&[(0, b"d"), (1, b"b")]), [0]);
        assert_eq!(numbers(&[(0, b"a")]), [0]);
        sent.clear();
        let payload = RecordPayload::encode([(0, b"a".as_slice())], b"");
        assert_eq!(sent.next(&payload, 100).expect("short").bytes.concat().len(), 13);
    }

    #[test]
    fn definitions_that_do_not_fit_beside_their_block_go_first() {
        let mut sent = ConnectionDefinitions::default();
        let definitions = [(0, [b'a'; 30]), (1, [b'b'; 30]), (2, [b'c'; 30])];
        let definitions = definitions
            .iter()
            .map(|(number, bytes)| (*number, bytes.as_slice()));
        let payload = RecordPayload::encode(definitions, &[b'x'; 60]);
        let mut found = Vec::new();
        loop {
            let part = sent.next(&payload, 80).expect("fits");
            let bytes = part.bytes.concat();
            assert!(bytes.len() <= 80);
            let read = RecordPayload::decode(&bytes).expect("sound");
            found.extend(read.definitions().map(|(number, _)| number));
            if part.is_last {
                assert_eq!(read.block, [b'x'; 60]);
                break;
            }
            assert!(read.block.is_empty());
        }
        assert_eq!(found, [0, 1, 2]);
        assert!(sent.next(&payload, 63).is_none());
    }

    #[test]
    fn a_payload_that_is_cut_is_malformed() {
        let payload = RecordPayload::encode([(0, b"abc".as_slice()), (9, b"".as_slice())], b"");
        for length in 0..payload.len() {
            assert_eq!(
                RecordPayload::decode(&payload[..length]),
                Err(Reason::Malformed),
                "{length}"
            );
        }
        let mut longer = payload.clone();
        longer[0] -= 1;
        assert_eq!(RecordPayload::decode(&longer), Err(Reason::Malformed));
        assert!(RecordPayload::decode(&payload).is_ok());
    }
}
