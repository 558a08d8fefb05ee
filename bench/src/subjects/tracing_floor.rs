//! The floor of `tracing`: a subscriber that reads the clock and looks at every
//! value of an event, and drops it. What an event costs beyond this is the
//! logger's own.

use std::fmt::Debug;
use std::hint::black_box;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{Subject, tracing_calls};
use crate::{BenchError, Result, probe};

/// Looks at every value.
#[derive(Clone, Copy, Debug)]
pub struct TracingVisit;

impl TracingVisit {
    /// Makes it the subscriber of this process.
    pub fn install() -> Result<TracingVisit> {
        tracing::subscriber::set_global_default(TracingVisit)
            .map_err(|error| BenchError::subject("tracing-visit", error))?;
        Ok(TracingVisit)
    }
}

struct Look;

impl Visit for Look {
    fn record_f64(&mut self, _: &Field, value: f64) {
        black_box(value);
    }

    fn record_i64(&mut self, _: &Field, value: i64) {
        black_box(value);
    }

    fn record_u64(&mut self, _: &Field, value: u64) {
        black_box(value);
    }

    fn record_str(&mut self, _: &Field, value: &str) {
        black_box(value);
    }

    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        // Not rendered: a constant message need not be.
        black_box(value);
    }
}

impl Subscriber for TracingVisit {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        black_box(probe::ticks());
        event.record(&mut Look);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

impl Subject for TracingVisit {
    tracing_calls!();
}
