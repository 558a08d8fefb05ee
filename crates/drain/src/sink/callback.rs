//! The callback sink: whole lines go to a function of the program.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Takes lines; `false` when it has not taken them.
type Write = dyn Fn(&[u8]) -> bool + Send + Sync;

/// A function of the program that takes lines. Clones share it.
///
/// The sink's I/O thread calls it, never two calls at a time, with one or more whole lines; each ends with a line feed. Until it
/// returns, other sinks go on, and lines for it wait in the sink's buffers; when these are full, [`Overflow`](crate::Overflow)
/// decides. What it answers with `false`, or with a panic, is counted as dropped. Log calls in it are dropped and counted, and
/// a flush in it would wait for itself. Records that a killed program left are not given to it. The child of a `fork` that
/// logs has a logger of its own with the same sinks, which calls it in the child.
///
/// ```
/// use logdrive_drain::{CallbackSink, SinkOptions, Target};
/// let sink = SinkOptions::new(Target::Callback(CallbackSink::new(|lines| lines.ends_with(b"\n"))));
/// ```
#[derive(Clone)]
pub struct CallbackSink {
    write: Arc<Write>,
}

impl CallbackSink {
    /// A sink that calls this function with lines; it answers whether it has taken them.
    pub fn new(write: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self {
            write: Arc::new(write),
        }
    }

    pub(crate) fn write(&self, lines: &[u8]) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.write)(lines))).unwrap_or(false)
    }
}

impl fmt::Debug for CallbackSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackSink").finish_non_exhaustive()
    }
}
