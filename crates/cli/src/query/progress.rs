//! Progress of a long query on a terminal: bytes, rate and the time that is left.

use crate::paint::ColorChoice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A query that is done sooner needs none.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// Shows how far a query is.
pub(super) struct Progress {
    began: Instant,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
    is_wanted: bool,
}

impl Progress {
    pub(super) fn new(total: u64, _: ColorChoice) -> Self {
        Self {
            began: Instant::now(),
            total,
            done: 0,
            bar: None,
            is_wanted: std::io::stderr().is_terminal(),
        }
    }

    /// So many bytes more are done.
    pub(super) fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if !self.is_wanted || self.began.elapsed() < SHOWN_AFTER {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(self.total), ProgressDrawTarget::stderr())
                .with_elapsed(self.began.elapsed());
            let template = "{bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
            match ProgressStyle::with_template(template) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        bar.set_length(self.total.max(self.done));
        bar.set_position(self.done);
    }

    /// Takes the line away, because something else is printed; it comes again.
    pub(super) fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    pub(super) fn finish(&mut self) {
        self.hide();
        self.is_wanted = false;
    }
}
