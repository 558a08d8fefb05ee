//! The line that is typed, and those that were typed before.

use super::limits::{HISTORY_MAX, INPUT_CHARACTERS_MAX};

/// The line that is typed.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) text: String,
    history: Vec<String>,
    /// Number of the earlier line that is shown.
    recalled: usize,
}

impl Typed {
    /// Begins with a text.
    pub(super) fn begin(&mut self, text: &str) {
        self.text = text.to_owned();
        self.recalled = self.history.len();
    }

    pub(super) fn push(&mut self, letter: char) {
        if self.text.chars().count() < INPUT_CHARACTERS_MAX {
            self.text.push(letter);
        }
    }

    pub(super) fn erase(&mut self) {
        self.text.pop();
    }

    /// Shows an earlier line, or a later one.
    pub(super) fn recall(&mut self, by: isize) {
        let to = self.recalled.saturating_add_signed(by).min(self.history.len());
        self.recalled = to;
        self.text = self.history.get(to).cloned().unwrap_or_default();
    }

    /// Keeps the line.
    pub(super) fn keep(&mut self) {
        if !self.text.is_empty() && self.history.last() != Some(&self.text) {
            self.history.push(self.text.clone());
            let surplus = self.history.len().saturating_sub(HISTORY_MAX);
            self.history.drain(..surplus);
        }
    }
}
