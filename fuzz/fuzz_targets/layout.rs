//! A random callsite and payload through every layout: one line comes out, it is UTF-8 without control characters,
//! JSON parses, and a small buffer changes nothing but the line's length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_drain::layout::{Layout, LayoutOptions, LineBuffer, Outcome, ProcessInfo, Record, Style, Thread};
use logdrive_wire::Callsite;

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<12>() else {
        return;
    };
    let [small, flags, length_low, length_high, time @ ..] = *head;
    let length = usize::from(u16::from_le_bytes([length_low, length_high])).min(rest.len());
    let (site, payload) = rest.split_at(length);
    // A callsite from its bytes, or one whose message is the bytes.
    let site = Callsite::decode(site).unwrap_or_else(|_| Callsite {
        dynamic: flags & 1 != 0,
        message: String::from_utf8_lossy(site).chars().take(4000).collect(),
        ..Callsite::default()
    });
    let pattern = "{time:%H:%M:%S.%3f} {level:1} {target:>8} {spans} {message:.20}{fields} {thread}:{app}";
    let styles = [
        Style::Text,
        Style::Glog,
        Style::Json,
        Style::Logfmt,
        Style::Pattern(pattern.into()),
    ];
    let line = Record {
        unix_ns: u64::from_le_bytes(time),
        thread: Thread {
            name: if flags & 2 != 0 { "wörk\n\u{1b}[0m" } else { "" },
            id: 7,
        },
        payload,
    };
    for style in styles {
        let options = LayoutOptions {
            style,
            local_time: flags & 4 != 0,
            color: false,
        };
        run(options, &site, &line, usize::from(small) * 8);
    }
});

fn run(options: LayoutOptions, site: &Callsite, line: &Record<'_>, small: usize) {
    let is_json = options.style == Style::Json;
    let process = ProcessInfo {
        app: "a".into(),
        pid: 1,
        host: "h".into(),
    };
    let mut layout = Layout::new(options, process).expect("these options are good");
    let plan = layout.compile(site);
    let mut bytes = vec![0; 512 * 1024];
    let whole = line_of(&mut layout, &plan, line, &mut bytes)
        .expect("an empty buffer of this size takes any line")
        .to_vec();
    check(&whole, is_json);
    let mut bytes = vec![0; small];
    if let Some(cut) = line_of(&mut layout, &plan, line, &mut bytes) {
        check(cut, is_json);
    }
}

fn line_of<'a>(
    layout: &mut Layout,
    plan: &logdrive_drain::layout::Plan,
    line: &Record<'_>,
    bytes: &'a mut [u8],
) -> Option<&'a [u8]> {
    let mut out = LineBuffer::new(bytes);
    let mut outcome = layout.line(plan, line, &mut out);
    if outcome == Outcome::Overflow {
        assert_eq!(out.len(), 0, "a line that does not fit leaves nothing behind");
        outcome = layout.line_cut(plan, line, &mut out);
    }
    let length = out.len();
    match outcome {
        Outcome::Overflow => None,
        _ => bytes.get(..length),
    }
}

fn check(line: &[u8], is_json: bool) {
    let text = core::str::from_utf8(line).expect("a line is utf-8");
    let body = text.strip_suffix('\n').expect("a line ends");
    assert!(!body.contains(char::is_control), "{body:?}");
    if is_json {
        let value: serde_json::Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert!(value.is_object());
    }
}
