//! Pauses between polls, which end early when the command should end.

use crate::signals::{Signals, timespec};
use rustix::event::{PollFd, PollFlags, poll};
use std::time::Duration;

/// Waits for the time given; `true` as soon as the command should end, because of a signal or because the reader of its
/// output has gone.
pub(super) fn ends_within(signals: &Signals, time: Duration) -> bool {
    let stdout = std::io::stdout();
    let mut files = [
        PollFd::new(signals, PollFlags::IN),
        // Without a request only errors are reported: the other end of a pipe has gone.
        PollFd::new(&stdout, PollFlags::empty()),
    ];
    // A wait that was interrupted is a short one.
    let count = poll(&mut files, Some(&timespec(time))).unwrap_or(0);
    count > 0 && files.iter().any(|file| !file.revents().is_empty())
}

/// Pauses: short while records come, long while none do.
#[derive(Debug)]
pub(super) struct Pause {
    us: u64,
}

/// The longest pause: what comes is seen that soon, and a burst of some 50 MB/s still finds its ring long enough.
const PAUSE_US_MAX: u64 = 20_000;

/// The pause after something came.
const PAUSE_US: u64 = 5_000;

/// The shortest: a ring of 1 MiB that is filled at 1 GB/s lasts that long.
const PAUSE_US_MIN: u64 = 500;

/// The part of a ring, in 256ths, that should be there at the next look.
const SHARE_WANTED: u64 = 64;

impl Pause {
    pub(super) fn new() -> Self {
        Self { us: PAUSE_US }
    }

    /// The pause after so many bytes, and such a share of a ring in 256ths, were found.
    pub(super) fn next(&mut self, bytes: u64, share: u32) -> Duration {
        let share = u64::from(share);
        if share > 2 * SHARE_WANTED {
            // The records that are lost next are those that come while we wait.
            self.us = PAUSE_US_MIN;
            return Duration::ZERO;
        }
        self.us = match bytes {
            0 => (self.us * 3 / 2).min(PAUSE_US_MAX),
            _ => (self.us * SHARE_WANTED / share.max(1)).clamp(PAUSE_US_MIN, PAUSE_US),
        };
        Duration::from_micros(self.us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_follow_the_fullest_ring() {
        let mut pause = Pause::new();
        let us = |pause: Duration| pause.as_micros() as u64;
        for _ in 0..20 {
            pause.next(0, 0);
        }
        assert_eq!(us(pause.next(0, 0)), PAUSE_US_MAX);
        assert_eq!(us(pause.next(100, 1)), PAUSE_US);
        assert_eq!(us(pause.next(1 << 19, 128)), PAUSE_US / 2);
        assert_eq!(us(pause.next(1 << 20, 200)), 0);
        assert_eq!(us(pause.next(1 << 18, 64)), PAUSE_US_MIN);
    }
}
