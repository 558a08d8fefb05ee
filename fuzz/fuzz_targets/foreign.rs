//! Lines of other programs: any bytes become records whose values can be encoded and read again, a joiner takes them, and no
//! record is longer than its lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_reader::LineHeads;
use logdrive_reader::foreign::{ForeignCallsites, ForeignParser, JoinRule, LineJoiner, PAYLOAD_BYTES_MAX};
use logdrive_wire::value::DynamicFields;

fuzz_target!(|data: &[u8]| {
    let mut heads = LineHeads::default();
    for rule in [JoinRule::LogFile, JoinRule::Output] {
        let mut joiner = LineJoiner::new(rule);
        let mut parser = ForeignParser::default();
        let mut callsites = ForeignCallsites::default();
        let mut record = Vec::new();
        for line in data.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            heads.of(text);
            if !joiner.continues(text) {
                read(&mut parser, &mut callsites, &record);
                record.clear();
            }
            record.extend_from_slice(line);
        }
        read(&mut parser, &mut callsites, &record);
    }
});

fn read(parser: &mut ForeignParser, callsites: &mut ForeignCallsites, lines: &[u8]) {
    let found = parser.read(lines);
    assert!(found.message.len() <= lines.len());
    assert!(callsites.of(&found).is_ok());
    let mut payload = Vec::new();
    let _ = found.encode(&mut payload);
    assert!(payload.len() <= PAYLOAD_BYTES_MAX);
    let mut fields = DynamicFields::new(&payload);
    while fields.next_value().expect("values that can be read").is_some() {}
}
