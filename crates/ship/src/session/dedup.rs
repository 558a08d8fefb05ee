//! Which records of a session are new: deduplication by session, epoch and sequence.

/// Up to where the records of one session have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DedupCursor {
    /// The epoch of the numbering.
    pub epoch: u64,
    /// The number of the record that is wanted next.
    pub next: u64,
}

/// Classification of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classification {
    /// Keep what comes behind the first `skip` records, which are kept already.
    New {
        /// Records to leave out.
        skip: u32,
    },
    /// All of it is kept already: acknowledge again.
    Duplicate,
    /// Records before it are missing: it will be sent again behind them.
    Ahead,
}

impl DedupCursor {
    /// A sender says hello. `false`: it is of an epoch that has been left behind.
    pub fn resume(&mut self, epoch: u64, sender_next: u64) -> bool {
        if epoch < self.epoch {
            return false;
        }
        if epoch > self.epoch {
            *self = Self { epoch, next: 0 };
        }
        // The sender has given up what lies before: it has counted that and reports it as a gap.
        self.next = self.next.max(sender_next);
        true
    }

    /// Judges a batch by its first number and its count.
    pub fn classify(&self, first: u64, count: u32) -> Classification {
        let end = first.saturating_add(u64::from(count));
        if first > self.next {
            Classification::Ahead
        } else if end <= self.next {
            Classification::Duplicate
        } else {
            Classification::New {
                skip: u32::try_from(self.next - first).unwrap_or(count),
            }
        }
    }

    /// The batch is kept.
    pub fn advance(&mut self, first: u64, count: u32) {
        self.next = self.next.max(first.saturating_add(u64::from(count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_is_new_once() {
        let mut cursor = DedupCursor::default();
        assert!(cursor.resume(5, 0));
        assert_eq!(cursor.classify(0, 3), Classification::New { skip: 0 });
        cursor.advance(0, 3);
        assert_eq!(cursor.classify(0, 3), Classification::Duplicate);
        assert_eq!(cursor.classify(2, 3), Classification::New { skip: 1 });
        assert_eq!(cursor.classify(4, 1), Classification::Ahead);
        assert!(!cursor.resume(4, 0), "an older epoch");
        assert!(cursor.resume(6, 0));
        assert_eq!(cursor.classify(0, 1), Classification::New { skip: 0 });
    }
}
