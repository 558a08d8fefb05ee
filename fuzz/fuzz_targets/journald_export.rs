//! The export format of the journal: any bytes, in pieces of any lengths, become entries within their limits, or an error; the
//! pieces make no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_collector::input::{ExportDecoder, JournaldEntry};

/// Bytes of an entry that are taken at most.
const ENTRY_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((first, stream)) = data.split_first() else {
        return;
    };
    let whole = entries(stream, stream.len().max(1));
    let pieces = entries(stream, usize::from(*first).max(1));
    // A stream that breaks the format has the entries before that.
    assert_eq!(whole, pieces);
    for entry in whole {
        let bytes: usize = entry.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= ENTRY_BYTES_MAX);
    }
});

fn entries(stream: &[u8], piece: usize) -> Vec<JournaldEntry> {
    let (mut decoder, mut found) = (ExportDecoder::default(), Vec::new());
    for part in stream.chunks(piece) {
        decoder.push(part);
        loop {
            match decoder.next_entry() {
                Ok(Some(entry)) => found.push(entry),
                Ok(None) => break,
                Err(_) => return found,
            }
        }
    }
    found
}
