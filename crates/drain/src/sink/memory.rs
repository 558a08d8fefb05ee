//! The memory sink: the newest lines, for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps the newest lines in memory. Clones share them.
///
/// ```
/// use logdrive_drain::MemorySink;
/// let memory = MemorySink::new(1 << 20);
/// assert!(memory.lines().is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct MemorySink {
    shared: Arc<Mutex<Held>>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Held {
    lines: VecDeque<String>,
    bytes: usize,
}

impl MemorySink {
    /// Keeps at most this many bytes of lines; the oldest go first.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shared: Arc::default(),
            bytes_max,
        }
    }

    /// The lines, oldest first, without their line ends.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.iter().cloned().collect()
    }

    /// The lines, which are then forgotten.
    pub fn take(&self) -> Vec<String> {
        let mut kept = self.lock();
        kept.bytes = 0;
        kept.lines.drain(..).collect()
    }

    pub(crate) fn append(&self, bytes: &[u8]) {
        let mut kept = self.lock();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            kept.bytes += line.len();
            kept.lines.push_back(String::from_utf8_lossy(line).into_owned());
        }
        while kept.bytes > self.bytes_max {
            let Some(oldest) = kept.lines.pop_front() else {
                break;
            };
            kept.bytes -= oldest.len().min(kept.bytes);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_go_first() {
        let memory = MemorySink::new(6);
        memory.append(b"one\ntwo\n");
        memory.append(b"three\n");
        assert_eq!(memory.lines(), ["three"]);
        assert_eq!(memory.take(), ["three"]);
        assert!(memory.lines().is_empty());
    }
}
