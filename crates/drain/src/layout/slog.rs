//! JSON lines as Go's `slog.JSONHandler` writes them: fields nest at the points of their names.

use logdrive_wire::{Field, Kind, Level};

use super::compile::{Compiler, MessageSource};
use super::escape::{Escape, escaped};
use super::plan::Var;
use super::value::Form;

/// The name of a level, as package slog has it.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::Trace => "DEBUG-4",
        Level::Fatal => "ERROR+4",
        _ => level.name(),
    }
}

impl Compiler<'_> {
    /// `{"time":"...","level":"INFO","msg":"...","group":{"key":1}}`
    pub(super) fn slog(&mut self) {
        let site = self.site;
        if let ([line], true, false) = (site.fields.as_slice(), site.message.is_empty(), self.malformed)
            && is_text(line)
            && line.name.is_empty()
        {
            return self.steps.value(0, line.kind, Form::JsonText);
        }
        self.steps.raw("{\"time\":\"");
        self.steps.var(Var::Iso);
        self.steps
            .raw(format!("\",\"level\":\"{}\"", level_name(site.level)));
        if let Some(process_named) = self.process_named {
            self.steps.raw(",\"app\":\"");
            self.steps.text(&process_named.app, Escape::Json);
            self.steps.raw(format!("\",\"pid\":{}", process_named.pid));
        }
        self.steps.raw(",\"msg\":\"");
        self.message(Escape::Json);
        self.steps.raw("\"");
        match self.source {
            MessageSource::Template(_) => self.nested_fields(),
            // Their names are only known when they are written.
            MessageSource::Raw | MessageSource::Dynamic => self.structured_fields(),
        }
        if self.malformed {
            self.steps.raw(",\"malformed\":true");
        }
        self.steps.raw("}");
    }

    /// All fields; those that follow each other in one group are in one object.
    fn nested_fields(&mut self) {
        let site = self.site;
        let mut open: Vec<String> = Vec::new();
        let mut is_first = false;
        for (index, field) in site.fields.iter().enumerate() {
            if field.name.is_empty() && field.argument {
                continue;
            }
            let mut path = parts(&field.name);
            let key = path.pop().unwrap_or_default();
            let common = open
                .iter()
                .zip(&path)
                .take_while(|(open, part)| open == part)
                .count();
            let mut lead = "}".repeat(open.len() - common).into_bytes();
            is_first &= open.len() == common;
            open.truncate(common);
            let mut add = |name: &str, behind: &[u8], is_first: bool| {
                lead.extend(if is_first { b"\"".as_slice() } else { b",\"" });
                lead.extend(escaped(name.as_bytes(), Escape::Json));
                lead.extend(behind);
            };
            for part in path.into_iter().skip(common) {
                add(&part, b"\":{", is_first);
                open.push(part);
                is_first = true;
            }
            add(&key, b"\":", is_first);
            is_first = false;
            self.steps.raw(lead);
            let form = if is_text(field) {
                Form::JsonText
            } else {
                Form::Json
            };
            self.steps.value(index, field.kind, form);
        }
        self.steps.raw("}".repeat(open.len()));
    }
}

/// Returns true for a value that may be JSON.
fn is_text(field: &Field) -> bool {
    field.kind.kind == Kind::Debug && !field.kind.optional
}

/// The parts of a name.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = name.chars();
    while let Some(char) = chars.next() {
        let char = match char {
            '.' => {
                parts.push(String::new());
                continue;
            }
            '\\' => match chars.next() {
                Some(escaped) => escaped,
                None => continue,
            },
            char => char,
        };
        if let Some(part) = parts.last_mut() {
            part.push(char);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        for (name, expected) in [
            ("a", vec!["a"]),
            ("g.a", vec!["g", "a"]),
            (r"g.http\.status", vec!["g", "http.status"]),
            (r"\", vec![""]),
            (r"g.\", vec!["g", ""]),
            (r"a\\b", vec![r"a\b"]),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
    }
}
