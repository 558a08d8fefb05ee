//! Bytes of the batches that are sent over a slow link: one that is not through before the other end has to acknowledge it would
//! be sent again for ever.

use crate::limits::{FRAME_BYTES_MAX, PIECE_BYTES_MIN};

/// Limit for the batches of the next connection.
#[derive(Debug)]
pub(super) struct PieceLimit {
    bytes: usize,
    /// Records before this number were acknowledged when the last connection ended.
    acknowledged: u64,
}

impl Default for PieceLimit {
    fn default() -> Self {
        Self {
            bytes: FRAME_BYTES_MAX,
            acknowledged: 0,
        }
    }
}

impl PieceLimit {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A connection has ended. One that was too slow for a single batch makes those of the next one smaller by a quarter of
    /// their size; any other makes them larger again.
    pub(super) fn connection_ended(&mut self, acknowledged: u64, is_slow: bool) {
        let has_moved = acknowledged != std::mem::replace(&mut self.acknowledged, acknowledged);
        if is_slow && !has_moved {
            self.bytes = (self.bytes / 4).max(PIECE_BYTES_MIN);
        } else if !is_slow {
            self.bytes = (self.bytes * 2).min(FRAME_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_shrink_while_nothing_gets_through_and_grow_again() {
        let mut limit = PieceLimit::default();
        let mut after = |acknowledged, is_slow| {
            limit.connection_ended(acknowledged, is_slow);
            limit.bytes()
        };
        assert_eq!(after(0, true), FRAME_BYTES_MAX / 4);
        assert_eq!(after(0, true), FRAME_BYTES_MAX / 16);
        assert_eq!(after(5, true), FRAME_BYTES_MAX / 16, "something got through");
        for _ in 0..9 {
            after(5, true);
        }
        assert_eq!(after(5, true), PIECE_BYTES_MIN);
        assert_eq!(after(5, false), 2 * PIECE_BYTES_MIN);
    }
}
