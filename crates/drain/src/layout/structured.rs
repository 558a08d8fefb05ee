//! JSON lines and logfmt: every part of the line has a key, and each key stands once.

use logdrive_wire::{Callsite, Level};

use super::compile::{Compiler, MessageSource};
use super::escape::{Bare, Escape, escaped_key};
use super::plan::{FieldStyle, Fields, KeyText, Rare, Var};

/// Keys of a JSON or logfmt line that are not fields.
const RESERVED: [&str; 11] = [
    "ts",
    "level",
    "thread",
    "target",
    "module",
    "file",
    "line",
    "message",
    "spans",
    "malformed",
    "cut",
];
/// Those of a line that names its process.
const RESERVED_PROCESS: &[&str] = &["app", "pid"];

/// The key of a span's name.
pub(super) const RESERVED_SPAN: &str = "name";

/// The keys of a callsite's fields.
pub(super) fn fields(site: &Callsite, style: FieldStyle, names_process: bool) -> Fields {
    let has_keys = style != FieldStyle::Text;
    let of_process = RESERVED_PROCESS.iter().filter(|_| names_process);
    let reserved = RESERVED.iter().chain(of_process).filter(|_| has_keys);
    let mut names: Vec<String> = reserved.map(|name| (*name).to_owned()).collect();
    let reserved = names.len();
    let mut key_texts = Vec::with_capacity(site.fields.len());
    for (index, field) in site.fields.iter().enumerate() {
        let mut name = match field.name.as_str() {
            "" => format!("arg{index}"),
            name => name.to_owned(),
        };
        if has_keys {
            let plain = name.clone();
            let mut number = 0;
            while names.contains(&name) {
                number += 1;
                name = format!("{plain}_{number}");
            }
        }
        key_texts.push(KeyText::new(lead(&name, style)));
        names.push(name);
    }
    Fields {
        key_texts,
        names,
        reserved,
        message: super::escape::escaped(site.message.as_bytes(), style.message()),
        seek_message: site.dynamic && site.message.is_empty(),
        style,
    }
}

/// Returns the constant text in front of a field's value.
fn lead(name: &str, style: FieldStyle) -> Vec<u8> {
    match style {
        FieldStyle::Json => {
            let name = super::escape::escaped(name.as_bytes(), Escape::Json);
            [b",\"", name.as_slice(), b"\":"].concat()
        }
        FieldStyle::Text | FieldStyle::Logfmt => {
            [b" ", escaped_key(name.as_bytes()).as_slice(), b"="].concat()
        }
    }
}

/// The name of a level as the style writes it.
pub(super) fn level_name(level: Level, style: FieldStyle) -> &'static str {
    match style {
        FieldStyle::Logfmt => level.lower_name(),
        _ => level.name(),
    }
}

impl Compiler<'_> {
    /// `{"ts":"...","level":"INFO",...,"message":"...","key":1}`
    pub(super) fn json(&mut self) {
        let site = self.site;
        self.steps.raw("{\"ts\":\"");
        self.steps.var(Var::Iso);
        self.steps.raw("\",\"level\":\"");
        self.steps.raw(site.level.name());
        if let Some(process_named) = self.process_named {
            self.steps.raw("\",\"app\":\"");
            self.steps.text(&process_named.app, Escape::Json);
            self.steps
                .raw(format!("\",\"pid\":{},\"thread\":\"", process_named.pid));
        } else {
            self.steps.raw("\",\"thread\":\"");
        }
        self.steps.var(Var::Thread(Escape::Json));
        self.steps.raw("\"");
        if !site.target.is_empty() && site.target != site.module {
            self.json_text("target", &site.target);
        }
        self.json_text("module", &site.module);
        self.json_text("file", &site.file);
        if site.line != 0 {
            self.steps.raw(format!(",\"line\":{}", site.line));
        }
        self.steps.raw(",\"message\":\"");
        self.message(Escape::Json);
        self.steps.raw("\"");
        self.structured_fields();
        if self.malformed {
            self.steps.raw(",\"malformed\":true");
        }
        self.steps.raw("}");
    }

    fn json_text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.steps.raw(format!(",\"{key}\":\""));
            self.steps.text(text, Escape::Json);
            self.steps.raw("\"");
        }
    }

    /// `ts=... level=info ... message="..." key=1`
    pub(super) fn logfmt(&mut self) {
        let site = self.site;
        self.steps.raw("ts=");
        self.steps.var(Var::Iso);
        self.steps.raw(" level=");
        self.steps.raw(level_name(site.level, FieldStyle::Logfmt));
        if let Some(process_named) = self.process_named {
            self.logfmt_text("app", &process_named.app);
            self.steps.raw(format!(" pid={}", process_named.pid));
        }
        self.steps.raw(" thread=");
        self.steps.rare(Rare::ThreadBare);
        if !site.target.is_empty() && site.target != site.module {
            self.logfmt_text("target", &site.target);
        }
        self.logfmt_text("module", &site.module);
        self.logfmt_text("file", &site.file);
        if site.line != 0 {
            self.steps.raw(format!(" line={}", site.line));
        }
        self.steps.raw(" message=\"");
        self.message(Escape::Json);
        self.steps.raw("\"");
        self.structured_fields();
        if self.malformed {
            self.steps.raw(" malformed=true");
        }
    }

    fn logfmt_text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.steps.raw(format!(" {key}="));
            self.steps
                .raw(super::escape::escaped_bare(text.as_bytes(), Bare::Logfmt));
        }
    }

    /// Every field that has a name, also those that the message shows.
    pub(super) fn structured_fields(&mut self) {
        match self.source {
            MessageSource::Raw => self.steps.rare(Rare::AllFields),
            MessageSource::Dynamic => {
                self.steps.rare(Rare::Fields);
                self.steps.rare(Rare::SpansField);
            }
            MessageSource::Template(_) => {
                let site = self.site;
                for (index, field) in site.fields.iter().enumerate() {
                    if !field.name.is_empty() || !field.argument {
                        self.field(index, field);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_wire::kind::FieldKind;
    use logdrive_wire::{Field, Kind};

    #[test]
    fn keys_that_are_taken_get_a_number() {
        let names = ["level", "id", "id", "id_1", "", "level_1"];
        let site = Callsite {
            fields: names
                .map(|name| Field {
                    name: name.into(),
                    kind: FieldKind::plain(Kind::U64),
                    argument: false,
                })
                .into(),
            ..Callsite::default()
        };
        let found = fields(&site, FieldStyle::Json, false);
        assert_eq!(
            found.names[found.reserved..],
            ["level_1", "id", "id_1", "id_1_1", "arg4", "level_1_1"]
        );
        assert_eq!(found.key_texts[0].text, b",\"level_1\":");
        assert_eq!(fields(&site, FieldStyle::Text, false).key_texts[2].text, b" id=");
    }
}
