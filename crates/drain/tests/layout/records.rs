//! Callsites and payloads for the tests, and the lines that come of them.

use logdrive_drain::layout::{
    Layout, LayoutOptions, LineBuffer, Outcome, Plan, ProcessInfo, Record, Style, Thread,
};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level};

/// 2026-11-21T12:34:56.123456789Z
pub(crate) const TIME_NS: u64 = 1_795_264_496_123_456_789;

/// The bytes of a record's values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload(pub(crate) Vec<u8>);

impl Payload {
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn blob(self, bytes: &[u8]) -> Self {
        self.raw(&(bytes.len() as u32).to_le_bytes()).raw(bytes)
    }

    pub(crate) fn short(self, text: &str) -> Self {
        self.raw(&(text.len() as u16).to_le_bytes()).raw(text.as_bytes())
    }

    /// Tag and field index of a dynamic value.
    pub(crate) fn tag(self, code: u8, index: u8) -> Self {
        self.raw(&[code, index])
    }

    /// Tag and key of a dynamic value.
    pub(crate) fn key(self, code: u8, key: &str) -> Self {
        self.tag(code, 0xff).short(key)
    }
}

pub(crate) fn field(name: &str, kind: Kind, argument: bool) -> Field {
    Field {
        name: name.into(),
        kind: FieldKind::plain(kind),
        argument,
    }
}

pub(crate) fn optional(name: &str, kind: Kind, argument: bool) -> Field {
    Field {
        name: name.into(),
        kind: FieldKind { kind, optional: true },
        argument,
    }
}

pub(crate) fn site(message: &str, fields: &[Field]) -> Callsite {
    Callsite {
        level: Level::Info,
        line: 42,
        file: "src/net/session.rs".into(),
        module: "app::net".into(),
        message: message.into(),
        fields: fields.to_vec(),
        ..Callsite::default()
    }
}

pub(crate) fn layout(options: LayoutOptions) -> Layout {
    let process = ProcessInfo {
        app: "shop".into(),
        pid: 417,
        host: "web-1".into(),
    };
    Layout::new(options, process).unwrap()
}

pub(crate) fn record(payload: &[u8]) -> Record<'_> {
    Record {
        unix_ns: TIME_NS,
        thread: Thread { name: "main", id: 93 },
        payload,
    }
}

/// Writes one line into a large buffer.
pub(crate) fn write(layout: &mut Layout, plan: &Plan, line: &Record<'_>) -> (Outcome, Vec<u8>) {
    let mut bytes = vec![0xaa; 1 << 17];
    let mut out = LineBuffer::new(&mut bytes);
    let outcome = layout.line(plan, line, &mut out);
    let length = out.len();
    bytes.truncate(length);
    (outcome, bytes)
}

/// The line of a record that has to be whole.
pub(crate) fn line(options: impl Into<LayoutOptions>, site: &Callsite, payload: &Payload) -> String {
    let mut layout = layout(options.into());
    let plan = layout.compile(site);
    let (outcome, bytes) = write(&mut layout, &plan, &record(&payload.0));
    assert_eq!(outcome, Outcome::Done, "{:?}", String::from_utf8_lossy(&bytes));
    String::from_utf8(bytes)
        .unwrap()
        .strip_suffix('\n')
        .unwrap()
        .to_owned()
}

pub(crate) fn pattern(text: &str) -> Style {
    Style::Pattern(text.into())
}
