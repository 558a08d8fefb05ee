//! The constant message of an event, which the callsite table holds instead of each record.

use crate::dynamic::limits::CONSTANT_MESSAGE_BYTES_MAX;
use std::error::Error;
use std::fmt::{self, Write};
use tracing_core::Event;
use tracing_core::field::{Field, Visit};

/// Returns the event's message, if it may be kept in the callsite table: if it comes in one piece, as literal text does. A
/// message of nothing but an argument looks alike; then the first of them is kept, and the others are copied.
pub(super) fn find_constant(event: &Event<'_>, message_index: usize) -> Option<String> {
    let mut found = FindMessage {
        message_index,
        text: String::new(),
        pieces: 0,
    };
    event.record(&mut found);
    (found.pieces == 1 && !found.text.is_empty()).then_some(found.text)
}

/// Receiver of an event's message, and of the number of pieces in which it comes.
struct FindMessage {
    message_index: usize,
    text: String,
    pieces: usize,
}

impl Write for FindMessage {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.pieces += usize::from(!text.is_empty());
        if self.pieces == 1 && text.len() <= CONSTANT_MESSAGE_BYTES_MAX {
            self.text.push_str(text);
        }
        Ok(())
    }
}

impl Visit for FindMessage {
    fn record_f64(&mut self, _: &Field, _: f64) {}
    fn record_i64(&mut self, _: &Field, _: i64) {}
    fn record_u64(&mut self, _: &Field, _: u64) {}
    fn record_i128(&mut self, _: &Field, _: i128) {}
    fn record_u128(&mut self, _: &Field, _: u128) {}
    fn record_bool(&mut self, _: &Field, _: bool) {}
    fn record_bytes(&mut self, _: &Field, _: &[u8]) {}
    fn record_error(&mut self, _: &Field, _: &(dyn Error + 'static)) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.index() == self.message_index {
            // It does not fail.
            let _ = self.write_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.index() == self.message_index {
            // As far as a failed `Debug` came; the event itself shows it again.
            let _ = write!(self, "{value:?}");
        }
    }
}
