//! Messages between agents, processes and tools. What is read has one encoding only, so writing it again gives the same
//! bytes; it is a whole packet, and its descriptors are no more than a packet carries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_wire::agent::Message;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = Message::decode(data) {
        assert_eq!(message.encode().as_deref(), Ok(data));
        assert!(message.descriptors() <= 253);
    }
});
