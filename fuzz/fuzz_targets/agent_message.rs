//! Packets of an agent's socket. What is accepted has one encoding only, so writing it again gives the same bytes; what is
//! not is refused with an error that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_wire::agent::{Message, is_other_version};
use logdrive_wire::limits::AGENT_MESSAGE_BYTES_MAX;

fuzz_target!(|data: &[u8]| {
    read(data);
    // The magic, the version and the length are hard to guess: with them in place the bodies are reached.
    let mut packet = data.to_vec();
    if packet.len() >= 16 && packet.len() <= AGENT_MESSAGE_BYTES_MAX {
        packet[..4].copy_from_slice(b"LDAG");
        packet[4..6].copy_from_slice(&1u16.to_le_bytes());
        let length = packet.len() as u32;
        packet[8..12].copy_from_slice(&length.to_le_bytes());
        packet[14..16].fill(0);
        read(&packet);
    }
});

fn read(data: &[u8]) {
    match Message::decode(data) {
        Ok(message) => {
            let again = message.encode().expect("what was read can be written");
            assert_eq!(again, data);
            assert!(!message.name().is_empty());
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(!is_other_version(&error) || data.len() >= 8);
        }
    }
}
