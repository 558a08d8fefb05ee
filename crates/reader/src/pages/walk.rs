//! A walk over the records of all logs, in the order of their times, forwards or backwards.

/// Place of a record among those of all logs. Their order is that of the time line: by time, at equal times by log, and
/// within a log as it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordPlace {
    /// Time by which it is merged.
    pub unix_ns: u64,
    /// Number of its log.
    pub log: u32,
    /// Number of its page.
    pub page: u32,
    /// Number of the record in its page.
    pub record: u32,
}

/// Place at which a walk begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkFrom {
    /// Start of all logs.
    Start,
    /// End of all logs.
    End,
    /// A record, which is the first that a walk forwards may find.
    At(RecordPlace),
    /// Just behind a record, which is the first that a walk backwards may find.
    Behind(RecordPlace),
    /// The first record of this time or later.
    Time(u64),
}

/// Direction of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To later records.
    Forwards,
    /// To earlier records.
    Backwards,
}

/// Outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The next record.
    Found(RecordPlace),
    /// The budget was used up; another step goes on.
    NotYet,
    /// No record is left.
    End,
}

/// A walk that is under way. It belongs to the time line as it was when the walk began.
#[derive(Debug, Clone)]
pub struct Walk {
    pub(crate) direction: Direction,
    /// Next record of each log.
    pub(crate) heads: Vec<Head>,
}

/// Next record of one log.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Head {
    /// To be found from this page and record on; backwards the record itself is none.
    From(u32, u32),
    Found(RecordPlace),
    /// None is left; a log that has grown goes on from this page and record.
    Ended(u32, u32),
    /// Those that are left lie outside of the time that is shown.
    End,
}

impl Walk {
    /// Goes on in so many logs, which have grown, or have come since the walk began.
    pub fn resume(&mut self, logs: usize) {
        for head in &mut self.heads {
            if let Head::Ended(page, record) = *head {
                *head = Head::From(page, record);
            }
        }
        let first = Head::From(0, 0);
        self.heads.resize(self.heads.len().max(logs), first);
    }

    /// Goes back to the start of a log.
    pub fn restart(&mut self, log: u32) {
        if let Some(head) = self.heads.get_mut(log as usize) {
            *head = Head::From(0, 0);
        }
    }

    /// The first of the records that were found, in the direction of the walk.
    pub(crate) fn first_found(&self) -> Option<RecordPlace> {
        let found = self.heads.iter().filter_map(|head| match head {
            Head::Found(place) => Some(*place),
            _ => None,
        });
        match self.direction {
            Direction::Forwards => found.min(),
            Direction::Backwards => found.max(),
        }
    }

    /// Goes on behind the record that was taken.
    pub(crate) fn take(&mut self, place: RecordPlace) {
        if let Some(head) = self.heads.get_mut(place.log as usize) {
            *head = match self.direction {
                Direction::Forwards => Head::From(place.page, place.record + 1),
                Direction::Backwards => Head::From(place.page, place.record),
            };
        }
    }
}
