//! Parts of a callsite's message: its text, and the columns whose values it shows, so that a word is looked for in columns before
//! any message is laid out.

use logdrive_wire::template::{Piece, Template};
use logdrive_wire::{Callsite, Kind};

/// A message as its callsite has it.
#[derive(Debug, Default)]
pub(super) struct MessageParts {
    /// Its text, with a space in the place of each value: no word goes on there.
    pub(super) text: String,
    /// Columns whose words the message has as they are.
    pub(super) columns: Vec<usize>,
    /// Ends of words of the text that go on into a value.
    glued: Vec<String>,
    /// Whether a value is shown in another form than that in which it is compared.
    has_other_forms: bool,
    /// Whether words of a value may be none of its column, or of those of others.
    is_open: bool,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

impl MessageParts {
    pub(super) fn of(callsite: &Callsite) -> Self {
        let fields = &callsite.fields;
        let index_of = |name: &str| fields.iter().position(|field| field.name == name);
        let mut parts = Self::default();
        let Ok(template) = Template::parse(&callsite.message, index_of) else {
            parts.is_open = true;
            return parts;
        };
        let mut is_behind_value = false;
        for piece in &template.pieces {
            match piece {
                Piece::Literal(literal) => {
                    let rest = literal.trim_start_matches(is_word);
                    if is_behind_value && rest.len() < literal.len() {
                        parts.glued.push(literal[..literal.len() - rest.len()].to_owned());
                    }
                    parts.text.push_str(literal);
                    is_behind_value = false;
                }
                Piece::Field { index, spec } => {
                    let before = parts.text.trim_end_matches(is_word).len();
                    if before < parts.text.len() {
                        parts.glued.push(parts.text[before..].to_owned());
                    }
                    let kind = fields.get(*index).map(|field| field.kind);
                    let is_plain = spec.is_plain()
                        && kind.is_some_and(|kind| !kind.optional && kind.kind != Kind::Bytes);
                    parts.is_open |= is_behind_value || !is_plain;
                    parts.has_other_forms |=
                        kind.is_some_and(|kind| matches!(kind.kind, Kind::F32 | Kind::F64));
                    parts.columns.push(*index);
                    parts.text.push(' ');
                    is_behind_value = true;
                }
            }
        }
        parts
    }

    /// Whether a word stands in the message where it stands in the text or in a value, and nowhere else.
    pub(super) fn is_exact(&self) -> bool {
        self.glued.is_empty() && !self.is_open && !self.has_other_forms
    }

    /// Whether a word may stand in the message that no column has.
    pub(super) fn may_show(&self, word: &[u8]) -> bool {
        let is_in = |text: &[u8], part: &[u8]| memchr::memmem::find(text, part).is_some();
        self.is_open
            || is_in(self.text.as_bytes(), word)
            || self.glued.iter().any(|glued| is_in(word, glued.as_bytes()))
    }
}
