//! Capture of records for tests that check them, also when many run at once in threads of one process.
//!
//! ```
//! fn fill(order_id: u64) {
//!     logdrive::info!(order_id, "order filled");
//! }
//!
//! let log = logdrive::testing::capture();
//! fill(7);
//! assert!(log.contains("order filled order_id=7"));
//! ```
//!
//! The first capture starts a logger for the process that keeps everything, from trace on, in memory, and the last one
//! ends it. A capture sees what its own thread logs, and threads that it adopts ([`Capture::adopt`]); tests that run
//! beside it do not disturb it. With the features `tracing` and `log`, what comes from these facades is captured too,
//! unless the test has set a subscriber or logger of its own before.

mod router;

pub use router::Record;

use router::{adopt, begin, disown, finish, read};
use std::sync::Arc;

/// Starts to capture the records of the calling thread. Waits some milliseconds for the first logger of the process; blocks
/// while another capture ends.
///
/// # Panics
/// When the test runs a logger of its own already, or none can be started: a process has one logger, so a test either
/// captures or starts one, and the two belong into different test programs (files below `tests/`).
#[must_use = "a capture ends when it is dropped"]
pub fn capture() -> Capture {
    Capture {
        ended: Arc::new(End { id: begin() }),
    }
}

/// Records that one test has logged since [`capture`]. Clones see the same.
///
/// ```
/// let log = logdrive::testing::capture();
/// logdrive::warn!(attempt = 2, "connection lost");
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let _adopted = log.adopt();
///         logdrive::debug!("from a thread of the test");
///     });
/// });
/// assert_eq!(log.lines().len(), 2);
/// let record = &log.records()[0];
/// assert_eq!(record.level, logdrive::Level::Warn);
/// assert_eq!(record.message, "connection lost");
/// assert_eq!(record.fields, "attempt=2");
/// ```
#[derive(Debug, Clone)]
pub struct Capture {
    ended: Arc<End>,
}

#[derive(Debug)]
struct End {
    id: u64,
}

impl Drop for End {
    fn drop(&mut self) {
        finish(self.id);
    }
}

impl Capture {
    /// Returns a copy of the records so far, in the order of their times. Waits until all that was logged before has come, as
    /// [`crate::flush`] does.
    pub fn records(&self) -> Vec<Record> {
        read(self.ended.id, |records| records.clone())
    }

    /// Returns the records as lines, `LEVEL target: spans: message key=value`. Waits as [`Capture::records`] does.
    pub fn lines(&self) -> Vec<String> {
        read(self.ended.id, |records| {
            records.iter().map(Record::to_string).collect()
        })
    }

    /// Returns true if a line contains the text. Waits as [`Capture::records`] does.
    pub fn contains(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }

    /// Forgets the records that were captured so far. Waits as [`Capture::records`] does.
    pub fn clear(&self) {
        read(self.ended.id, Vec::clear);
    }

    /// Captures also the records of the calling thread, until the result is dropped, which has to be on the same thread.
    #[must_use = "a thread is adopted until the result is dropped"]
    pub fn adopt(&self) -> Adopted {
        adopt(self.ended.id);
        Adopted {
            id: self.ended.id,
            thread: std::marker::PhantomData,
        }
    }
}

/// Adoption of a thread by a capture, see [`Capture::adopt`]; ends when it is dropped.
///
/// ```
/// let log = logdrive::testing::capture();
/// let other = log.clone();
/// std::thread::spawn(move || {
///     let adopted = other.adopt();
///     logdrive::info!("one");
///     drop(adopted);
///     logdrive::info!("two");
/// })
/// .join()
/// .unwrap();
/// assert_eq!(log.lines().len(), 1);
/// ```
#[derive(Debug)]
pub struct Adopted {
    id: u64,
    /// Keeps the value on its thread.
    thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Adopted {
    fn drop(&mut self) {
        disown(self.id);
    }
}
