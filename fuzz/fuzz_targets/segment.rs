//! Hostile bytes as a segment: nothing panics, memory stays bounded, and the blocks that are read have the records that
//! their heads say. The same bytes as rows: what can be read as rows becomes blocks with the same records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_store::{Block, BlockHead, Encoder, Rows, SegmentReader};
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    let mut reader = SegmentReader::new(Cursor::new(data));
    while let Ok(Some(block)) = reader.next_block(|_| true) {
        check(&block);
    }
    let mut blocks = Vec::new();
    if Encoder::default().encode(data, &mut blocks).is_ok() {
        let mut reader = SegmentReader::new(Cursor::new(&blocks));
        let mut records = 0;
        while let Some(block) = reader.next_block(|_| true).expect("memory") {
            records += block.head().records;
            assert_eq!(check(&block), Some(block.head().records), "a block of ours is sound");
        }
        assert!(reader.take_damages().is_empty());
        let mut rows = Rows::new(data);
        let count = std::iter::from_fn(|| rows.next_row().expect("they were encoded")).count();
        assert_eq!(records, count);
    }
    // A block whose checksums hold, whatever is in it.
    let mut sealed = data.to_vec();
    if let Some(sum) = sealed.get(12..).map(crc32c::crc32c)
        && let Some(place) = sealed.get_mut(8..12)
    {
        place.copy_from_slice(&sum.to_le_bytes());
        let _ = BlockHead::decode(&sealed);
    }
});

fn check(block: &Block) -> Option<usize> {
    let bytes = block.rows().ok()?;
    let mut rows = Rows::new(&bytes);
    let mut count = 0;
    while rows.next_row().expect("rows of a block are sound").is_some() {
        count += 1;
    }
    Some(count)
}
