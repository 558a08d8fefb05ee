//! Dictionaries: the callsites and threads that records name by numbers, those of a block, and those of a connection.

use crate::error::{StoreError, limit};
use crate::limits::{DEFINITIONS_BYTES_MAX, DEFINITIONS_MAX, NAME_BYTES_MAX};
use crate::rows::{CALLSITE, RowCallsite, RowProcess, THREAD, read_definition};
use logdrive_wire::Callsite;
use std::collections::HashMap;

/// Callsite of a block's dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DictionaryCallsite {
    /// The callsite.
    pub callsite: Callsite,
    /// Process that it belongs to, where the segment is of several.
    pub process: Option<RowProcess>,
    /// Its bytes as rows have them.
    pub(crate) definition: Vec<u8>,
}

/// Thread of a block's dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DictionaryThread {
    /// Id of the thread.
    pub id: u64,
    /// Its name; may be empty.
    pub name: String,
}

impl DictionaryCallsite {
    /// The callsite that rows name so.
    ///
    /// # Errors
    /// When its definition cannot be read.
    pub fn of(callsite: &RowCallsite) -> Result<Self, StoreError> {
        Self::decode(&callsite.definition)
    }

    pub(crate) fn decode(definition: &[u8]) -> Result<Self, StoreError> {
        let (process, callsite) = read_definition(definition).map_err(StoreError::Callsite)?;
        Ok(Self {
            callsite,
            process,
            definition: definition.to_vec(),
        })
    }
}

/// Callsites and threads that a connection has defined, at its receiving end.
///
/// ```
/// let mut dictionary = logdrive_store::BatchDictionary::default();
/// dictionary.define(7, &[2, 1, 0, 0, 0, 0, 0, 0, 0, b'a'])?;
/// assert_eq!(dictionary.bytes(), 10);
/// # Ok::<(), logdrive_store::StoreError>(())
/// ```
#[derive(Debug, Default)]
pub struct BatchDictionary {
    callsites: HashMap<u32, DictionaryCallsite>,
    threads: HashMap<u32, DictionaryThread>,
    /// Bytes of the definition of each number.
    lengths: HashMap<u32, usize>,
    bytes: usize,
}

impl BatchDictionary {
    /// Takes a definition, in place of an earlier one of its number.
    ///
    /// # Errors
    /// When it cannot be read, or there are too many.
    pub fn define(&mut self, number: u32, definition: &[u8]) -> Result<(), StoreError> {
        let cut = || StoreError::Truncated { what: "definition" };
        limit("number of a definition", number as usize, DEFINITIONS_MAX)?;
        let bytes = self.bytes - self.lengths.get(&number).copied().unwrap_or(0) + definition.len();
        limit("bytes of definitions", bytes, DEFINITIONS_BYTES_MAX)?;
        let (kind, rest) = definition.split_first().ok_or_else(cut)?;
        match *kind {
            CALLSITE => {
                let callsite = DictionaryCallsite::decode(rest)?;
                self.threads.remove(&number);
                self.callsites.insert(number, callsite);
            }
            THREAD => {
                let (id, name) = rest.split_first_chunk().ok_or_else(cut)?;
                limit("bytes of a name", name.len(), NAME_BYTES_MAX)?;
                let thread = DictionaryThread {
                    id: u64::from_le_bytes(*id),
                    name: String::from_utf8_lossy(name).into_owned(),
                };
                self.callsites.remove(&number);
                self.threads.insert(number, thread);
            }
            found => {
                return Err(StoreError::Unknown {
                    what: "kind of a definition",
                    found: u64::from(found),
                });
            }
        }
        self.lengths.insert(number, definition.len());
        self.bytes = bytes;
        Ok(())
    }

    /// Bytes of all definitions.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of definitions.
    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    pub(crate) fn callsite(&self, number: u32) -> Result<&DictionaryCallsite, StoreError> {
        self.callsites.get(&number).ok_or(StoreError::Contradiction {
            what: "number of a callsite",
        })
    }

    pub(crate) fn thread(&self, number: u32) -> Result<&DictionaryThread, StoreError> {
        self.threads.get(&number).ok_or(StoreError::Contradiction {
            what: "number of a thread",
        })
    }
}
