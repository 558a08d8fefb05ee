//! The text form of a layout's options: what is accepted reads back the same, and makes a layout.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_drain::layout::{Layout, LayoutOptions, ProcessInfo};

fuzz_target!(|text: &str| {
    let Ok(options) = LayoutOptions::from_text(text) else {
        return;
    };
    let line = options.to_text();
    assert!(!line.contains(char::is_control), "{line:?}");
    assert_eq!(
        LayoutOptions::from_text(&line).expect("what was read can be written"),
        options
    );
    Layout::new(options, ProcessInfo::default()).expect("what was read can be used");
});
