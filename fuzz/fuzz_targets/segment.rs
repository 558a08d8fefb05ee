//! Hostile bytes as a segment: nothing panics, memory stays bounded, and the blocks that are read have the records that
//! their heads say. The same bytes as rows: what can be read as rows becomes blocks with the same records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_store::{Batch, BatchDictionary, BatchEncoder, Block, BlockHead, Encoder, Rows, SegmentReader};
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
        let mut dictionary = BatchDictionary::default();
        let mut sent = 0;
        for batch in BatchEncoder::default().encode(data, 1 << 12).expect("they were encoded") {
            for definition in &batch.definitions {
                let defined = dictionary.define(definition.number, &definition.bytes);
                defined.expect("a definition of ours");
            }
            let read = Batch::read(&batch.block, &dictionary).expect("a batch of ours");
            sent += check(&read.block).expect("sound");
        }
        assert_eq!(sent, count);
    }
    // The same bytes as what a peer sends: a definition, then a block.
    let mut dictionary = BatchDictionary::default();
    if let Some((length, rest)) = data.split_first()
        && let Some((definition, block)) = rest.split_at_checked(usize::from(*length))
    {
        let _ = dictionary.define(0, definition);
        if let Ok(batch) = Batch::read(block, &dictionary) {
            check(&batch.block);
        }
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
