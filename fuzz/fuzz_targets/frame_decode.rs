//! Frames, hellos, goodbyes and messages: no bytes make a decoder panic, and what it accepts is written again to the same
//! bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_ship::frame::{FLAG_CHECKED, Header, Messages, next_frame};
use logdrive_ship::hello::{Hello, decode_goodbye, decode_number};

fuzz_target!(|data: &[u8]| {
    if let Ok(Some(frame)) = next_frame(data, 1 << 20) {
        let mut again = Vec::new();
        let checked = frame.header.flags & FLAG_CHECKED != 0;
        if !(checked && frame.payload.is_empty()) {
            Header { ..frame.header }.put(&[frame.payload], checked, &mut again);
            assert_eq!(again, data[..again.len()]);
        }
    }
    if let Ok(hello) = Hello::decode(data) {
        assert_eq!(hello.encode(), data);
    }
    if let Ok((_, words)) = decode_goodbye(data) {
        assert!(words.len() < data.len());
    }
    if let Ok(number) = decode_number(data) {
        assert_eq!(number.to_le_bytes(), data);
    }
    let count = data.len() as u32 / 4;
    let mut messages = Messages::new(data, count);
    let mut bytes = 0;
    while let Ok(Some(message)) = messages.next_message() {
        bytes += 4 + message.len();
    }
    assert!(bytes <= data.len());
});
