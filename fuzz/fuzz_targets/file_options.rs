//! The text form of a file's options, as it lies in a session: what is accepted reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_drain::file::FileOptions;

fuzz_target!(|text: &str| {
    if let Ok(options) = FileOptions::from_text(text) {
        let again = FileOptions::from_text(&options.to_text()).expect("what was read can be written");
        assert_eq!(again, options);
    }
    // The sinks of a session hold such texts; whatever cannot be read becomes a sink without a file.
    let sinks = logdrive_drain::sinks_from_text(text);
    assert!(sinks.len() <= text.len());
});
