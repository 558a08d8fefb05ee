//! Work on the records that a query finds, on the thread that finds them: printed records, rows for pipes that need all of them in
//! their order, or groups that are put together in the end.

use super::args::{QueryArgs, QueryFormat};
use super::format_of;
use super::row_buffer::RowBuffer;
use crate::cat::Shaper;
use crate::limits::SHARED_GROUP_BYTES;
use crate::paint::ColorChoice;
use logdrive_query::{Pipeline, Record, Row};
use logdrive_reader::{Shape, ShapeRecord, Task};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// What was made of some records.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Printed records.
    pub(crate) bytes: Vec<u8>,
    /// Rows of a part, for the pipes that need all of them.
    pub(crate) packed: RowBuffer,
    /// Rows for the printer.
    pub(crate) rows: Vec<Row>,
    /// Rows that were sorted.
    pub(crate) sorted: Option<Box<Pipeline>>,
}

impl Made {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.packed.is_empty() && self.rows.is_empty() && self.sorted.is_none()
    }
}

/// The form in which records are printed by threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shaping {
    pub(crate) format: QueryFormat,
    color: ColorChoice,
}

impl Shaping {
    pub(crate) fn of(args: &QueryArgs, has_pipes: bool, color: ColorChoice) -> Self {
        Self {
            format: format_of(args, has_pipes),
            color,
        }
    }

    /// Maker of printed records; none where rows are printed instead.
    pub(crate) fn shaper(self) -> Option<Shaper> {
        let shape = match self.format {
            QueryFormat::Text => Shape::AsIs,
            QueryFormat::Json => Shape::Json,
            QueryFormat::Logfmt => Shape::Logfmt,
            QueryFormat::Csv | QueryFormat::Table => return None,
        };
        Some(Shaper::new(shape, self.color))
    }
}

/// Work of one thread.
pub(crate) enum Work {
    Print(Box<Shaper>, Vec<u8>),
    /// Rows behind the pipes that look at each record by itself, as many as may be wanted.
    Rows {
        front: Box<Pipeline>,
        rows: RowBuffer,
        wanted: usize,
    },
    /// Rows of a part in order, of which few may be left.
    Sort {
        front: Box<Pipeline>,
        own: Box<Pipeline>,
        empty: Box<Pipeline>,
    },
    Share {
        /// Groups of this thread.
        own: Box<Pipeline>,
        /// The same without any record.
        empty: Box<Pipeline>,
        all: Arc<Mutex<Pipeline>>,
        counted_fields: Option<Vec<String>>,
    },
}

impl Work {
    pub(crate) fn new(
        pipeline: &Pipeline,
        has_pipes: bool,
        all: &Arc<Mutex<Pipeline>>,
        shaping: Shaping,
    ) -> Self {
        let shaper = shaping.shaper().filter(|_| !has_pipes);
        match shaper {
            Some(shaper) => Self::Print(Box::new(shaper), Vec::new()),
            None if pipeline.can_be_shared() => {
                let fields = pipeline.counted_fields();
                Self::Share {
                    own: Box::new(pipeline.clone()),
                    empty: Box::new(pipeline.clone()),
                    all: Arc::clone(all),
                    counted_fields: fields.map(|fields| fields.into_iter().map(str::to_owned).collect()),
                }
            }
            None => {
                let mut rest = pipeline.clone();
                let front = Box::new(rest.split_front());
                let wanted = rest
                    .wanted_records()
                    .and_then(|count| usize::try_from(count).ok());
                match rest.begins_with_sort() {
                    true => Self::Sort {
                        front,
                        own: Box::new(rest.clone()),
                        empty: Box::new(rest),
                    },
                    false => Self::Rows {
                        front,
                        rows: RowBuffer::default(),
                        wanted: wanted.unwrap_or(usize::MAX),
                    },
                }
            }
        }
    }

    /// Adds the groups of this thread to those of all.
    pub(crate) fn share(&mut self) {
        if let Self::Share { own, empty, all, .. } = self {
            let own = std::mem::replace(own, empty.clone());
            all.lock().unwrap_or_else(PoisonError::into_inner).merge(*own);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.share();
    }
}

impl Task for Work {
    type Made = Made;

    fn take(&mut self, record: &mut dyn Record) -> ControlFlow<()> {
        match self {
            Self::Print(shaper, bytes) => {
                if let Some(line) = record.line() {
                    shaper.shape(line, false, bytes);
                }
                ControlFlow::Continue(())
            }
            Self::Rows { front, rows, wanted } => {
                let flow = front.push(record, &mut |record: &mut dyn Record| {
                    rows.push(&record.row());
                    ControlFlow::Continue(())
                });
                if rows.len() >= *wanted {
                    ControlFlow::Break(())
                } else {
                    flow
                }
            }
            Self::Sort { front, own, .. } => front.push(record, &mut |record: &mut dyn Record| {
                own.push(record, &mut |_: &mut dyn Record| ControlFlow::Continue(()))
            }),
            Self::Share { own, .. } => own.push(record, &mut |_: &mut dyn Record| ControlFlow::Continue(())),
        }
    }

    fn counted_fields(&self) -> Option<&[String]> {
        match self {
            Self::Share { counted_fields, .. } => counted_fields.as_deref(),
            _ => None,
        }
    }

    fn count(&mut self, record: &mut dyn Record, count: u64) {
        if let Self::Share { own, .. } = self {
            own.count(record, count);
        }
    }

    fn made(&mut self) -> Made {
        match self {
            Self::Print(_, bytes) => Made {
                bytes: std::mem::take(bytes),
                ..Made::default()
            },
            Self::Rows { rows, .. } => Made {
                packed: rows.take(),
                ..Made::default()
            },
            Self::Sort { own, empty, .. } => Made {
                sorted: Some(Box::new(own.take_sorted(empty))),
                ..Made::default()
            },
            Self::Share { own, .. } => {
                if own.group_bytes() > SHARED_GROUP_BYTES {
                    self.share();
                }
                Made::default()
            }
        }
    }
}
