//! The record that is unfolded, with one of its values selected.

use super::row::{DetailLine, details};

/// The record that is unfolded.
#[derive(Debug, Default)]
pub(super) struct Detail {
    pub(super) is_open: bool,
    /// Its values by name.
    pub(super) values: Vec<(String, Vec<u8>)>,
    pub(super) lines: Vec<DetailLine>,
    /// Number of the selected value.
    pub(super) selected: usize,
    /// First line on the screen.
    pub(super) scroll: usize,
    /// Lines of the screen.
    pub(super) height: usize,
}

impl Detail {
    /// Shows another record. The same value stays selected, where it has it.
    pub(super) fn show(&mut self, values: Vec<(String, Vec<u8>)>) {
        let name = self.values.get(self.selected).map(|(name, _)| name.clone());
        let same = name.and_then(|name| values.iter().position(|(other, _)| *other == name));
        let message = values.iter().position(|(name, _)| name == "message");
        self.selected = same.or(message).unwrap_or(0);
        self.lines = details(&values);
        self.values = values;
        self.scroll = 0;
        self.scroll_to_selected();
    }

    /// Selects another value; within one that is larger than the screen goes line by line.
    pub(super) fn select(&mut self, by: isize) {
        let (first, last) = self.lines_of_selected();
        let end = self.scroll + self.height;
        match by > 0 {
            true if last >= end => self.scroll = (self.scroll + 1).min(last),
            false if first < self.scroll => self.scroll -= 1,
            _ => {
                let most = self.values.len().saturating_sub(1);
                self.selected = self.selected.saturating_add_signed(by).min(most);
                self.scroll_to_selected();
            }
        }
    }

    /// First and last line of the selected value.
    fn lines_of_selected(&self) -> (usize, usize) {
        let is_selected = |line: &DetailLine| line.value == self.selected;
        let first = self.lines.iter().position(is_selected).unwrap_or(0);
        let last = self.lines.iter().rposition(is_selected).unwrap_or(0);
        (first, last)
    }

    fn scroll_to_selected(&mut self) {
        let (first, last) = self.lines_of_selected();
        let height = self.height.max(1);
        if last >= self.scroll + height {
            self.scroll = (last + 1 - height).min(first);
        }
        if first < self.scroll {
            self.scroll = first;
        }
    }
}
