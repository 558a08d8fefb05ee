//! `tracing`: events go into the ring with typed fields, and with the spans around them.
//!
//! [`subscriber`] is all that a program needs, and the fastest way: an event costs about what a call of Logdrive's own
//! macros costs, because neither spans nor fields are formatted or locked on the way. [`layer`] is for programs that
//! use other layers of `tracing-subscriber` as well.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("shop.log");
//! let guard = logdrive::builder("shop").file(logdrive::File::new(&path)).init()?;
//! tracing::subscriber::set_global_default(logdrive::tracing::subscriber())?;
//!
//! let span = tracing::info_span!("order", id = 7);
//! span.in_scope(|| tracing::info!(price = 9.5, "filled"));
//! drop(guard);
//! assert!(std::fs::read_to_string(&path)?.contains("order{id=7}: filled price=9.5"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Fields** of primitive types are kept as what they are. `?` and `%` fields and messages with arguments are
//!   rendered at the call, by their own code. A constant message is stored once and not copied.
//! - **Spans**: a record carries the names and fields of all spans around it. Fields that are recorded later are in
//!   the records that follow. When a span goes before those in it, they show it as it was when they were made, or, where
//!   it had fields declared `Empty`, as it was at its end. `follows_from` is not kept.
//! - **Levels**: Logdrive's filter (`LOGDRIVE`, [`crate::set_filter`]) decides, for the target of an event or span.
//!   Every callsite has a control word in shared memory, which every event loads, so that a callsite can be
//!   switched on and off from outside of the process. That is why no maximum level is announced to `tracing`: a
//!   callsite that is off costs a load of its word, about 5 ns.
//! - **Limits**: a record holds 64 KiB, fields that do not fit are cut and counted. A span shows 4 KiB, a
//!   record 16 KiB and 64 levels of spans.
//!
//! Events and spans may come from signal handlers as far as their values allow it; `Span::record` may not, it takes a
//! lock. What interrupts a call of this module in its own thread is logged without spans.

mod constant;
mod context;
mod layer;
mod site;
mod spans;
mod subscriber;
mod visit;

pub use layer::layer;
pub use subscriber::{Subscriber, subscriber};

use tracing_core::{Metadata, callsite, dispatcher};

/// The filter has changed: which callsites are always on is asked anew.
pub(crate) fn refresh() {
    // Asked by a thread that does not see the dispatcher, `tracing` would switch everything off.
    let ours =
        dispatcher::get_default(|dispatch| dispatch.is::<Subscriber>() || dispatch.is::<layer::Records>());
    if ours {
        callsite::rebuild_interest_cache();
    }
}

/// Logdrive's level for one of `tracing`.
fn level_of(metadata: &Metadata<'_>) -> crate::Level {
    match *metadata.level() {
        tracing_core::Level::TRACE => crate::Level::Trace,
        tracing_core::Level::DEBUG => crate::Level::Debug,
        tracing_core::Level::INFO => crate::Level::Info,
        tracing_core::Level::WARN => crate::Level::Warn,
        tracing_core::Level::ERROR => crate::Level::Error,
    }
}
