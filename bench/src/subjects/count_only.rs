//! A `tracing` subscriber that keeps nothing and counts the events: what the
//! events alone cost, and how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::{BenchError, Result};

/// Counts every event of every level.
#[derive(Clone, Debug, Default)]
pub struct CountOnly {
    events: Arc<AtomicU64>,
    spans: Arc<AtomicU64>,
}

impl CountOnly {
    /// Makes it the subscriber of this process.
    pub fn install() -> Result<CountOnly> {
        let counter = CountOnly::default();
        tracing::subscriber::set_global_default(counter.clone())
            .map_err(|error| BenchError::subject("count", error))?;
        Ok(counter)
    }

    /// The events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        // Relaxed: read when those that count are idle.
        self.events.load(Ordering::Relaxed)
    }
}

impl Subscriber for CountOnly {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        // Relaxed: an identity need only differ from the others; ids start at 1.
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {
        // Relaxed: only the sum matters, and it is read at the end.
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
