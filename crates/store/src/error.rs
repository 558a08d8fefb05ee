//! Errors of reading and writing segments.

use logdrive_wire::WireError;

/// Reason why bytes are no block, or a block is not what its head says.
///
/// ```
/// use logdrive_store::StoreError;
/// assert_eq!(StoreError::Checksum { what: "head" }.to_string(), "the checksum of the head does not match its bytes");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No block begins here.
    #[error("no block begins here")]
    NoBlock,
    /// The bytes end early.
    #[error("the bytes of the {what} end early")]
    Truncated {
        /// Part of the block.
        what: &'static str,
    },
    /// A length or count is above its limit.
    #[error("{what} is {found}, the limit is {limit}")]
    Limit {
        /// Quantity.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Largest value allowed.
        limit: u64,
    },
    /// A code that this version does not know.
    #[error("unknown {what} {found}; a newer version may have written the segment")]
    Unknown {
        /// Code.
        what: &'static str,
        /// Value found.
        found: u64,
    },
    /// A checksum differs.
    #[error("the checksum of the {what} does not match its bytes")]
    Checksum {
        /// Part of the block.
        what: &'static str,
    },
    /// Parts of a block contradict each other.
    #[error("the {what} of the block contradicts its head")]
    Contradiction {
        /// Part of the block.
        what: &'static str,
    },
    /// Compressed bytes that cannot be read.
    #[error("compressed bytes cannot be read: {0}")]
    Compression(String),
    /// A callsite that cannot be read.
    #[error("a callsite cannot be read: {0}")]
    Callsite(WireError),
}

/// Checks a quantity against its limit.
pub(crate) fn limit(what: &'static str, found: usize, limit: usize) -> Result<(), StoreError> {
    if found > limit {
        return Err(StoreError::Limit {
            what,
            found: found as u64,
            limit: limit as u64,
        });
    }
    Ok(())
}
