//! Which parts and fields of records a row shows, in which order.

use super::limits::FIELD_NAMES_MAX;
use logdrive_reader::pages::RecordParts;

/// Own parts of records, in the order in which they stand at first, and whether they are shown then.
const OWN: [(&str, bool); 10] = [
    ("time", true),
    ("level", true),
    ("log", true),
    ("app", false),
    ("pid", false),
    ("thread", true),
    ("module", true),
    ("file", false),
    ("message", true),
    (REST, true),
];

/// Stands for all fields that are not named.
pub(super) const REST: &str = "other fields";

/// A part or field of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldChoice {
    pub(super) name: String,
    pub(super) is_shown: bool,
    /// Set if it stands at a place of its own, and not among the other fields.
    pub(super) is_placed: bool,
}

/// Parts and fields in their order.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) choices: Vec<FieldChoice>,
    /// Number of the selected one, where they are chosen.
    pub(super) selected: usize,
}

impl Default for Fields {
    fn default() -> Self {
        let choice = |(name, is_shown): (&str, bool)| FieldChoice {
            name: name.to_owned(),
            is_shown,
            is_placed: true,
        };
        Self {
            choices: OWN.into_iter().map(choice).collect(),
            selected: 0,
        }
    }
}

impl Fields {
    /// Shows these and no others, in this order, and hides those.
    pub(super) fn choose(&mut self, shown: &[String], hidden: &[String]) {
        for choice in self.choices.iter_mut().filter(|_| !shown.is_empty()) {
            choice.is_shown = false;
        }
        for (place, name) in shown.iter().enumerate() {
            let mut choice = self.take(name);
            (choice.is_shown, choice.is_placed) = (true, true);
            self.choices.insert(place.min(self.choices.len()), choice);
        }
        for name in hidden {
            let mut choice = self.take(name);
            (choice.is_shown, choice.is_placed) = (false, true);
            self.choices.push(choice);
        }
    }

    fn take(&mut self, name: &str) -> FieldChoice {
        match self.choices.iter().position(|choice| choice.name == name) {
            Some(place) => self.choices.remove(place),
            None => FieldChoice {
                name: name.to_owned(),
                is_shown: false,
                is_placed: true,
            },
        }
    }

    /// Learns the names of a record's fields.
    pub(super) fn learn(&mut self, parts: &RecordParts) {
        for field in &parts.fields {
            if self.choices.len() >= FIELD_NAMES_MAX {
                return;
            }
            if !self.choices.iter().any(|choice| choice.name == field.key) {
                self.choices.push(FieldChoice {
                    name: field.key.clone(),
                    is_shown: true,
                    is_placed: false,
                });
            }
        }
    }

    /// Returns whether a field stands among the other fields.
    pub(super) fn is_among_rest(&self, name: &str) -> bool {
        !self
            .choices
            .iter()
            .any(|choice| choice.name == name && choice.is_placed)
    }

    /// Shows the selected one, or hides it.
    pub(super) fn toggle(&mut self) {
        if let Some(choice) = self.choices.get_mut(self.selected) {
            choice.is_shown = !choice.is_shown;
            choice.is_placed = choice.is_placed || !choice.is_shown;
        }
    }

    /// Selects another one.
    pub(super) fn select(&mut self, by: isize) {
        let last = self.choices.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Moves the selected one forwards or backwards.
    pub(super) fn shift(&mut self, by: isize) {
        let to = self.selected.saturating_add_signed(by);
        if to < self.choices.len() && to != self.selected {
            self.choices.swap(self.selected, to);
            if let Some(choice) = self.choices.get_mut(to) {
                (choice.is_placed, choice.is_shown) = (true, true);
            }
            self.selected = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &Fields) -> Vec<&str> {
        let shown = fields.choices.iter().filter(|choice| choice.is_shown);
        shown.map(|choice| choice.name.as_str()).collect()
    }

    #[test]
    fn fields_are_chosen_ordered_and_hidden() {
        let mut fields = Fields::default();
        fields.choose(&["user".to_owned(), "message".to_owned()], &[]);
        assert_eq!(shown(&fields), ["user", "message"]);
        assert!(!fields.is_among_rest("user") && fields.is_among_rest("peer"));
        let mut fields = Fields::default();
        fields.choose(&[], &["thread".to_owned(), "peer".to_owned()]);
        assert_eq!(
            shown(&fields),
            ["time", "level", "log", "module", "message", REST]
        );
        assert!(!fields.is_among_rest("peer"));
        fields.toggle();
        fields.select(1);
        fields.shift(1);
        assert_eq!(shown(&fields), ["log", "level", "module", "message", REST]);
    }
}
