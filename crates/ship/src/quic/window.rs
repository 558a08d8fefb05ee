//! The in-flight window of a connection, which bounds what its callers may send, and the pool of buffers that come back
//! from it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Unacknowledged bytes of a connection that are allowed at least: two gigabytes a second over a millisecond. More is
/// of use only where the path holds more: what lies here meanwhile leaves the cache. Beyond that at most the second.
const IN_FLIGHT_BYTES: (usize, usize) = (2 << 20, 32 << 20);
/// The same for each of its streams: batches of streams that are used in turn are full at the same time.
const STREAM_BYTES: usize = 256 << 10;
/// Bytes of buffers that a connection keeps for its next batches.
const SPARE_BYTES_MAX: usize = 8 << 20;

/// The buffers of a connection.
pub(super) struct InFlightWindow {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Buffers that have been sent and acknowledged, for the next batches: memory that is in the cache, and in the
    /// process.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    in_flight_bytes: usize,
    in_flight_bytes_max: usize,
    /// Room is reported when no more than this is in flight.
    wake_below_bytes: usize,
    waiting: usize,
}

/// A buffer that is returned when its bytes are not needed any more.
pub(super) struct PooledBuffer {
    bytes: Vec<u8>,
    window: Arc<InFlightWindow>,
}

impl State {
    fn bytes_max(&self, streams: usize) -> usize {
        self.in_flight_bytes_max
            .max((streams * STREAM_BYTES).min(IN_FLIGHT_BYTES.1))
    }
}

impl InFlightWindow {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                spare: Vec::new(),
                spare_bytes: 0,
                in_flight_bytes: 0,
                in_flight_bytes_max: IN_FLIGHT_BYTES.0,
                wake_below_bytes: IN_FLIGHT_BYTES.0 / 2,
                waiting: 0,
            }),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole buffers go in and out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchanges a buffer for a fresh one once there is room for it, or the connection has ended; `None`: there is
    /// none in time.
    pub(super) fn exchange(
        self: &Arc<Self>,
        buffer: &mut Vec<u8>,
        streams: usize,
        timeout: Duration,
        is_broken: impl Fn() -> bool,
    ) -> Option<PooledBuffer> {
        let mut state = self.lock();
        let max = state.bytes_max(streams);
        state.wake_below_bytes = max / 2;
        if state.in_flight_bytes >= max {
            state.waiting += 1;
            // Half of it at once: so the caller and the runtime wake each other seldom.
            let waits = |state: &mut State| state.in_flight_bytes >= max / 2 && !is_broken();
            let waited = self.changed.wait_timeout_while(state, timeout, waits);
            let over;
            (state, over) = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            if over.timed_out() && state.in_flight_bytes >= max {
                return None;
            }
        }
        state.in_flight_bytes += buffer.len();
        let fresh = state.spare.pop();
        state.spare_bytes -= fresh.as_ref().map_or(0, Vec::capacity);
        drop(state);
        let fresh = fresh.filter(|found| found.capacity() >= buffer.capacity());
        let fresh = fresh.unwrap_or_else(|| Vec::with_capacity(buffer.capacity()));
        Some(PooledBuffer {
            bytes: std::mem::replace(buffer, fresh),
            window: Arc::clone(self),
        })
    }

    /// Says to those who wait that they may look again.
    pub(super) fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Notes the shortest round trip of the path, and with it how much it holds, whose end may be far.
    pub(super) fn set_round_trip(&self, shortest: Duration) {
        let bytes = usize::try_from(shortest.as_nanos()).unwrap_or(usize::MAX);
        let bytes = bytes
            .saturating_mul(2)
            .clamp(IN_FLIGHT_BYTES.0, IN_FLIGHT_BYTES.1);
        self.lock().in_flight_bytes_max = bytes;
    }

    /// Returns whether what is given now waits for what was given before.
    pub(super) fn is_congested(&self) -> bool {
        let state = self.lock();
        state.in_flight_bytes >= state.wake_below_bytes / 2
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let length = bytes.len();
        bytes.clear();
        let mut state = self.window.lock();
        state.in_flight_bytes -= length;
        if state.spare_bytes + bytes.capacity() <= SPARE_BYTES_MAX {
            state.spare_bytes += bytes.capacity();
            state.spare.push(bytes);
        }
        let wakes = state.waiting > 0 && state.in_flight_bytes < state.wake_below_bytes;
        drop(state);
        if wakes {
            self.window.changed.notify_all();
        }
    }
}
