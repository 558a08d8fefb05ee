//! The logging macros, and what their expansions refer to.
//!
//! All of them hand their tokens to one procedural macro, `logdrive_macros::record!`, together with `$crate`, so
//! that a program may rename the dependency. [`support`] is what the expansions use besides the callsite.

mod limiter;

/// Items that expansions of the macros refer to. Not for use by hand; they change without notice.
#[doc(hidden)]
pub(crate) mod support {
    pub use super::limiter::Limiter;
    pub use crate::capture::{Any, Arg, Cons, Fields, Kinds, raw_value};
    // Under `#![no_implicit_prelude]` the caller has none of these.
    pub use core::option::Option::Some;
    pub use core::{file, format_args, line, module_path};
    pub use logdrive_macros::record;
}

/// Logs at a level that is given: `event!(Level, ...)`.
///
/// The level is `Trace`, `Debug`, `Info`, `Warn`, `Error`, `Fatal`, or a constant of type [`Level`](crate::Level).
/// What follows is the same for all logging macros:
///
/// ```text
/// [target: "name",] [fields,]* ["format string" [, arguments]*]
/// ```
///
/// **Fields** are `name = value`, `name` for a variable or a path such as `user.name`, and `"any key" = value`. They
/// are kept as what they are: numbers, `bool`, `char`, text, bytes, pointers, and `Option`s of them. Other types take
/// a `%` (their `Display`) or a `?` (their `Debug`) before the value or the shorthand name.
///
/// **The format string** is that of [`std::format!`], with all that it can do. It is a literal. Values of the types
/// above are captured as they are and formatted later, elsewhere; only other types are rendered at the call, and
/// cost what their `Display` or `Debug` costs.
///
/// Nothing is evaluated when the call is disabled. When it is enabled, every value is evaluated once, fields first.
/// `?`, `return` and `.await` work in values. A record holds 64 KiB at most; longer text is cut, marked with `…` and
/// counted.
///
/// A call does not allocate, lock or make a system call once its thread has a ring and its callsite is known; the first call
/// of either does. It blocks only while its ring is full, as [`Builder::full`](crate::Builder::full) says. A call that cannot
/// be kept is dropped and counted, by reason, in [`stats`](crate::stats) and in the log. Calls in the `Display` of a
/// value are allowed, and so are those in signal handlers: one that interrupts the logger in its own thread is dropped and
/// counted as `reentrant`, and never waits. The first call of a statement or of a thread must not interrupt the program's own
/// calls of the allocator, so a handler's statements should have run once before.
///
/// The type of a value should be known where it is logged: a type that only later code determines is taken for one
/// of those that are kept as they are.
///
/// ```
/// use logdrive::{Level, event};
///
/// const LOUD: Level = Level::Warn;
/// let (id, price, user) = (7, 9.5, "ann");
/// event!(Info, "order {id} at {price:.2} by {}", user);
/// event!(LOUD, target: "orders", order_id = id, price, ?user, "order filled");
/// event!(Level::Debug, "http.status" = 200, body = Some("text"));
/// ```
///
/// A value that cannot be kept as it is needs a sigil:
/// ```compile_fail
/// struct Order;
/// logdrive::event!(Info, order = Order, "filled");
/// ```
/// `%` needs a `Display`:
/// ```compile_fail
/// struct Order;
/// logdrive::event!(Info, %Order, "filled");
/// ```
/// The level is a constant:
/// ```compile_fail
/// let level = logdrive::Level::Info;
/// logdrive::event!(level, "filled");
/// ```
/// and stands first:
/// ```compile_fail
/// logdrive::event!("filled");
/// ```
#[macro_export]
macro_rules! event {
    ($($call:tt)*) => { $crate::__private::record!($crate event; $($call)*) };
}

/// Logs fine detail, at level trace. See [`event!`] for what may be in a call.
///
/// ```
/// let packet = [1u8, 2, 3];
/// logdrive::trace!(bytes = packet, "packet of {} bytes", packet.len());
/// ```
#[macro_export]
macro_rules! trace {
    ($($call:tt)*) => { $crate::__private::record!($crate trace; $($call)*) };
}

/// Logs detail for developers, at level debug. See [`event!`] for what may be in a call.
///
/// ```
/// let (stream, offset) = (3, 8192);
/// logdrive::debug!("stream {stream} at {offset:#x}");
/// ```
#[macro_export]
macro_rules! debug {
    ($($call:tt)*) => { $crate::__private::record!($crate debug; $($call)*) };
}

/// Logs the normal course of a program, at level info. See [`event!`] for what may be in a call.
///
/// ```
/// let (order_id, price) = (7, 9.5);
/// logdrive::info!(order_id, price, "order filled");
/// logdrive::info!("order {} at {:.2}", order_id, price);
/// ```
///
/// Mistakes in a call are compile errors. The format string must be a literal:
/// ```compile_fail
/// logdrive::info!(concat!("a", "b"));
/// ```
/// it must have all its arguments:
/// ```compile_fail
/// logdrive::info!("{} and {}", 1);
/// ```
/// and no more than these, so that a field cannot be left behind it by mistake:
/// ```compile_fail
/// logdrive::info!("filled", order_id = 7);
/// ```
/// Its braces must match:
/// ```compile_fail
/// logdrive::info!("50 % } done");
/// ```
/// A type must have the trait that its placeholder asks for:
/// ```compile_fail
/// logdrive::info!("{:x}", 1.5);
/// ```
/// A width that comes from an argument is a `usize`:
/// ```compile_fail
/// logdrive::info!("{:1$}", 5, "8");
/// ```
/// An expression needs a name to be a field:
/// ```compile_fail
/// logdrive::info!(1 + 2, "sum");
/// ```
/// There must be something to log:
/// ```compile_fail
/// logdrive::info!();
/// ```
#[macro_export]
macro_rules! info {
    ($($call:tt)*) => { $crate::__private::record!($crate info; $($call)*) };
}

/// Logs an unexpected event that has been handled, at level warn. See [`event!`] for what may be in a call.
///
/// ```
/// let attempt = 2;
/// logdrive::warn!(attempt, "connection lost, trying again");
/// ```
#[macro_export]
macro_rules! warn {
    ($($call:tt)*) => { $crate::__private::record!($crate warn; $($call)*) };
}

/// Logs the failure of an operation, at level error. See [`event!`] for what may be in a call.
///
/// ```
/// if let Err(error) = std::fs::read("/no/such/file") {
///     logdrive::error!(%error, "cannot read the file");
/// }
/// ```
#[macro_export]
macro_rules! error {
    ($($call:tt)*) => { $crate::__private::record!($crate error; $($call)*) };
}

/// Logs that the program cannot go on, at level fatal, and waits until the log is written, as [`flush`](crate::flush) does. It
/// does not end the program. See [`event!`] for what may be in a call.
///
/// ```
/// logdrive::fatal!("the journal is corrupt at byte {}", 4096);
/// ```
#[macro_export]
macro_rules! fatal {
    ($($call:tt)*) => { $crate::__private::record!($crate fatal; $($call)*) };
}

/// Logs the first call and then one in `N`: `every_n!(N, Level, ...)`, see [`event!`] for the rest.
///
/// A field `suppressed` has the number of calls that were left out since the last one that was logged. Calls of all threads
/// count together; calls that the filter disables do not count, and evaluate nothing, `N` included.
///
/// ```
/// for packet in 0..1000 {
///     logdrive::every_n!(100, Info, "packet {packet}");
/// }
/// ```
/// ```compile_fail
/// logdrive::every_n!(Info, "the number is missing");
/// ```
#[macro_export]
macro_rules! every_n {
    ($($call:tt)*) => { $crate::__private::record!($crate every_n; $($call)*) };
}

/// Logs the first call and then at most one in `MS` milliseconds: `every_ms!(MS, Level, ...)`, see [`event!`] for the
/// rest.
///
/// A field `suppressed` has the number of calls that were left out since the last one that was logged. The time is that of
/// the coarse clock, which moves in steps of some milliseconds.
///
/// ```
/// for _ in 0..1000 {
///     logdrive::every_ms!(500, Warn, "queue is full");
/// }
/// ```
#[macro_export]
macro_rules! every_ms {
    ($($call:tt)*) => { $crate::__private::record!($crate every_ms; $($call)*) };
}

/// Logs the first call only: `once!(Level, ...)`, see [`event!`] for the rest.
///
/// ```
/// for _ in 0..10 {
///     logdrive::once!(Warn, "this option is deprecated");
/// }
/// ```
#[macro_export]
macro_rules! once {
    ($($call:tt)*) => { $crate::__private::record!($crate once; $($call)*) };
}
