//! Typed records, of live sessions and of segments, as filters see them: their values as they are, and their message laid out
//! where that is asked for.

use crate::filter::Filter;
use crate::record_values::{OwnPart, RecordValues};
use crate::typed_values::{each_value, values_of};
use logdrive_drain::layout::{Layout, Plan, Record};
use logdrive_wire::Callsite;

/// A record with its callsite.
pub(crate) struct TypedRecord<'a> {
    pub(crate) callsite: &'a Callsite,
    /// Application and process id, where they are known.
    pub(crate) process: Option<(&'a str, u32)>,
    pub(crate) record: &'a Record<'a>,
    /// Layout of messages alone, and the callsite's plan for it.
    pub(crate) messages: &'a mut Layout,
    pub(crate) message: &'a Plan,
    /// Room for a message or a line.
    pub(crate) space: &'a mut [u8],
    /// Layout of lines, and the callsite's plan for it, where its line may be asked for.
    pub(crate) lines: Option<(&'a mut Layout, &'a Plan)>,
}

impl TypedRecord<'_> {
    /// Whether level, time and values pass.
    pub(crate) fn passes(&mut self, filter: &Filter) -> bool {
        let (level, unix_ns) = (self.callsite.level, self.record.unix_ns);
        filter.passes_level_and_time(Some(level), unix_ns) && filter.passes_values(self, unix_ns, level)
    }
}

impl RecordValues for TypedRecord<'_> {
    fn fields(&mut self, key: &str, each: &mut dyn FnMut(&[u8])) {
        values_of(self.callsite, self.record.payload, key, each);
    }

    fn each_field(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) {
        each_value(self.callsite, self.record.payload, each);
    }

    fn line(&mut self) -> Option<&[u8]> {
        let (layout, plan) = self.lines.as_mut()?;
        Some(plan.line_in(layout, self.record, self.space))
    }

    fn own_part(&mut self, part: OwnPart, each: &mut dyn FnMut(&[u8])) {
        let callsite = self.callsite;
        let mut some = |text: &str| {
            if !text.is_empty() {
                each(text.as_bytes());
            }
        };
        match (part, self.process) {
            (OwnPart::App, Some((app, _))) => some(app),
            (OwnPart::Pid, Some((_, pid))) => some(&pid.to_string()),
            (OwnPart::App | OwnPart::Pid, None) => {}
            (OwnPart::Thread, _) => match self.record.thread.name {
                "" => some(&self.record.thread.id.to_string()),
                name => some(name),
            },
            (OwnPart::Module, _) => some(callsite.target_or_module()),
            (OwnPart::File, _) => some(callsite.file.rsplit(['/', '\\']).next().unwrap_or_default()),
            (OwnPart::Path, _) => some(&callsite.file),
            (OwnPart::Line, _) if callsite.line > 0 => some(&callsite.line.to_string()),
            (OwnPart::Line, _) => {}
            (OwnPart::Message, _) => {
                let message = self.message.line_in(self.messages, self.record, self.space);
                each(message.strip_suffix(b"\n").unwrap_or(message));
            }
        }
    }
}

/// Returns the layout of messages alone.
pub(crate) fn message_style() -> logdrive_drain::layout::Style {
    logdrive_drain::layout::Style::Pattern("{raw_message}".to_owned())
}
