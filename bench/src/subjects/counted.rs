//! Counts the events that `tracing-subscriber` hands to a writer, so that a
//! loss between the writer and the file can be measured.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_subscriber::fmt::MakeWriter;

/// A maker of writers that counts how many writers it made: one an event.
#[derive(Clone, Debug)]
pub struct Counted<M> {
    inner: M,
    events: Arc<AtomicU64>,
}

impl<M> Counted<M> {
    /// Wraps `inner` and returns the counter beside it.
    pub fn new(inner: M) -> (Counted<M>, Arc<AtomicU64>) {
        let events = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            inner,
            events: events.clone(),
        };
        (counted, events)
    }
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Counted<M> {
    type Writer = M::Writer;

    fn make_writer(&'a self) -> Self::Writer {
        // Relaxed: only the sum matters, and it is read at the end.
        self.events.fetch_add(1, Ordering::Relaxed);
        self.inner.make_writer()
    }
}

/// Reports, when it is dropped, that a thread which owns it is done writing.
pub struct TellWhenDropped<W: Write> {
    inner: W,
    done: std::sync::mpsc::Sender<io::Result<()>>,
}

impl<W: Write> TellWhenDropped<W> {
    /// Wraps `inner`; the receiver gets the outcome of the last flush.
    pub fn new(inner: W) -> (Self, std::sync::mpsc::Receiver<io::Result<()>>) {
        let (done, receiver) = std::sync::mpsc::channel();
        (TellWhenDropped { inner, done }, receiver)
    }
}

impl<W: Write> Write for TellWhenDropped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for TellWhenDropped<W> {
    fn drop(&mut self) {
        let outcome = self.inner.flush();
        // There is no receiver any more when the subject has been given up.
        let _ = self.done.send(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_writer_is_told_after_its_flush() {
        let (mut writer, done) = TellWhenDropped::new(io::BufWriter::new(Vec::new()));
        writer.write_all(b"line\n").unwrap();
        assert!(done.try_recv().is_err());
        drop(writer);
        assert!(done.recv().unwrap().is_ok());
    }
}
