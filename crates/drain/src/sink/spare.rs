//! Empty buffers of a sink. Their memory is reserved when they are needed: without room for it there are fewer.

use crate::limits::{READY_BUFFERS, ROOM_RETRY};
use logdrive_ring::Buffer;
use std::time::Instant;

/// The empty buffers of one sink.
#[derive(Debug)]
pub(crate) struct SpareBuffers {
    /// Those whose memory is reserved stand last, and are taken first.
    buffers: Vec<Buffer>,
    /// Those that have no memory, because there is no room for it.
    without_room: Vec<Buffer>,
    /// Time at which room is looked for again.
    retry_at: Option<Instant>,
    /// All buffers of the sink, wherever they are, but for those without room.
    count: usize,
}

impl SpareBuffers {
    pub(crate) fn new(mut buffers: Vec<Buffer>) -> Self {
        buffers.sort_by_key(Buffer::is_reserved);
        Self {
            count: buffers.len(),
            buffers,
            without_room: Vec::new(),
            retry_at: None,
        }
    }

    /// Number of the sink's buffers that have memory or may get some, wherever they are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Another buffer is on its way that comes back here.
    pub(crate) fn count_another(&mut self) {
        self.count += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.buffers.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Takes buffers that were written.
    pub(crate) fn take_back(&mut self, written: impl IntoIterator<Item = Buffer>) {
        self.buffers.extend(written);
    }

    /// Gives a buffer to be filled, for which [`SpareBuffers::reserve_ahead`] has found memory.
    pub(crate) fn pop(&mut self) -> Option<Buffer> {
        self.buffers.pop_if(|buffer| buffer.is_reserved())
    }

    pub(crate) fn clear(&mut self) {
        self.buffers.clear();
        self.without_room.clear();
    }

    /// Has memory reserved for the buffer that is taken next, and for one behind it, so that it is known which is the last.
    pub(crate) fn reserve_ahead(&mut self) {
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_at = None;
            self.count += self.without_room.len();
            self.buffers.splice(..0, self.without_room.drain(..));
        }
        let ready = self
            .buffers
            .iter()
            .rev()
            .take_while(|buffer| buffer.is_reserved());
        let mut ready = ready.count();
        while ready < READY_BUFFERS.min(self.buffers.len()) {
            let next = self.buffers.len() - 1 - ready;
            if self
                .buffers
                .get(next)
                .is_some_and(|buffer| buffer.reserve().is_ok())
            {
                ready += 1;
                continue;
            }
            self.without_room.extend(self.buffers.drain(..=next));
            self.count = self.count.saturating_sub(next + 1);
            self.retry_at = Some(Instant::now() + ROOM_RETRY);
        }
    }
}
