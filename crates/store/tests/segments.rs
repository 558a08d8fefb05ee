//! Segments as files: random records read back as they were written, and damage costs the block that it is in.

mod support;

use logdrive_store::{
    Block, BlockHead, Compaction, Encoder, RowCallsite, RowThread, RowWriter, Rows, SegmentReader,
    SegmentWriter, StoreError, compact, digest, is_compact,
};
use logdrive_testkit::Random;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level};
use std::io::{Cursor, Read, Seek, Write};
use support::{Whole, hex, of_block, random_rows, unhex, vector_rows};

#[test]
fn random_records_of_all_kinds_read_back_in_their_order() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let count = [1, 10, 300, 3_000][random.below(4) as usize];
        let (rows, expected) = random_rows(&mut random, count);
        let mut bytes = Vec::new();
        Encoder::default().encode(&rows, &mut bytes).expect("a block");
        let block = SegmentReader::new(Cursor::new(&bytes))
            .next_block(|_| true)
            .expect("a file")
            .expect("a block");
        assert_eq!(
            block.head().head_bytes + block.head().body_bytes,
            bytes.len(),
            "seed {seed}"
        );
        let read = of_block(&block);
        assert_eq!(read.len(), expected.len(), "seed {seed}");
        for (read, expected) in read.iter().zip(&expected) {
            assert_eq!(read, expected, "seed {seed}");
        }
        let times = expected.iter().map(|row| row.unix_ns);
        assert_eq!(
            block.head().times,
            (times.clone().min().unwrap(), times.max().unwrap())
        );
    }
}

#[test]
fn a_run_of_more_rows_than_a_block_takes_becomes_several() {
    let mut rows = vec![0; 8 << 20];
    let (mut writer, mut at) = (RowWriter::default(), 0);
    let site = RowCallsite::new(&Callsite::default(), None).expect("a callsite");
    for time in 0..70_000 {
        at = writer
            .record(&mut rows, at, &site, RowThread { id: 1, name: "main" }, time, b"")
            .expect("room");
    }
    let mut bytes = Vec::new();
    Encoder::default()
        .encode(&rows[..at], &mut bytes)
        .expect("blocks");
    let mut reader = SegmentReader::new(Cursor::new(&bytes));
    let mut counts = Vec::new();
    while let Some(block) = reader.next_block(|_| true).expect("a file") {
        counts.push(of_block(&block).len());
    }
    assert_eq!(counts, [65_536, 4_464]);
}

/// A file of three small blocks, and the place of each.
fn three_blocks() -> (Vec<u8>, Vec<usize>) {
    let mut random = Random::new(7);
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        places.push(bytes.len());
        let (rows, _) = random_rows(&mut random, 6);
        Encoder::default().encode(&rows, &mut bytes).expect("a block");
    }
    places.push(bytes.len());
    (bytes, places)
}

fn read_all(bytes: &[u8]) -> (Vec<Vec<Whole>>, Vec<(u64, u64)>) {
    let mut reader = SegmentReader::new(Cursor::new(bytes));
    let mut blocks = Vec::new();
    while let Some(block) = reader.next_block(|_| true).expect("a file") {
        blocks.push(of_block(&block));
    }
    let damages = reader
        .take_damages()
        .into_iter()
        .map(|damage| (damage.offset, damage.bytes));
    (blocks, damages.collect())
}

#[test]
fn a_flipped_bit_costs_one_block_and_is_told() {
    let (mut bytes, places) = three_blocks();
    let (sound, none) = read_all(&bytes);
    assert!(sound.len() == 3 && none.is_empty());
    for at in 0..bytes.len() {
        let bit = 1 << (at % 8);
        bytes[at] ^= bit;
        let hit = places.iter().rposition(|place| *place <= at).expect("a block");
        let (blocks, damages) = read_all(&bytes);
        let mut expected = sound.clone();
        if at == places[hit] + 7 && b"12".contains(&bytes[at]) {
            // Another version that is known: it has no meaning of its own, and nothing is lost.
            assert!(blocks == expected && damages.is_empty(), "byte {at}");
            bytes[at] ^= bit;
            continue;
        }
        expected.remove(hit);
        assert_eq!(blocks, expected, "byte {at}");
        let length = places[hit + 1] - places[hit];
        // A length of the last block that grew looks like a block that is being written.
        let is_last = hit == 2 && damages.is_empty();
        assert!(
            is_last || damages == [(places[hit] as u64, length as u64)],
            "byte {at}: {damages:?}"
        );
        bytes[at] ^= bit;
    }
}

#[test]
fn a_file_that_is_cut_anywhere_opens_at_its_last_whole_block() {
    let (bytes, places) = three_blocks();
    let (sound, _) = read_all(&bytes);
    for length in 0..bytes.len() {
        let whole = places.iter().filter(|place| **place <= length).count() - 1;
        let (blocks, damages) = read_all(&bytes[..length]);
        assert_eq!(blocks, sound[..whole], "{length} bytes");
        assert!(damages.is_empty(), "{length} bytes: {damages:?}");
    }
}

#[test]
fn blocks_behind_a_torn_one_are_read() {
    let (bytes, places) = three_blocks();
    let (sound, _) = read_all(&bytes);
    for length in places[1] + 1..places[2] {
        let torn = [&bytes[..length], &bytes[places[2]..]].concat();
        let (blocks, damages) = read_all(&torn);
        assert_eq!(blocks, [sound[0].clone(), sound[2].clone()], "{length} bytes");
        assert_eq!(damages, [(places[1] as u64, (length - places[1]) as u64)]);
    }
}

/// A file that grows under its reader.
#[derive(Debug, Clone, Default)]
struct Growing(std::rc::Rc<std::cell::RefCell<Vec<u8>>>, u64);

impl Read for Growing {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.0.borrow();
        let count = (&bytes[self.1 as usize..]).read(out)?;
        self.1 += count as u64;
        Ok(count)
    }
}

impl Seek for Growing {
    fn seek(&mut self, place: std::io::SeekFrom) -> std::io::Result<u64> {
        let bytes = self.0.borrow();
        let mut cursor = Cursor::new(&bytes[..]);
        cursor.set_position(self.1);
        self.1 = cursor.seek(place)?;
        Ok(self.1)
    }
}

#[test]
fn a_file_is_read_while_it_is_written() {
    let (bytes, _) = three_blocks();
    let (sound, _) = read_all(&bytes);
    let file = Growing::default();
    let mut reader = SegmentReader::new(file.clone());
    let mut blocks = Vec::new();
    for byte in &bytes {
        file.0.borrow_mut().write_all(&[*byte]).expect("memory");
        while let Some(block) = reader.next_block(|_| true).expect("a file") {
            blocks.push(of_block(&block));
        }
    }
    assert_eq!(blocks, sound);
    assert!(reader.take_damages().is_empty());
}

#[test]
fn blocks_are_left_out_by_time_level_callsite_and_word() {
    let mut bytes = Vec::new();
    let mut writer = SegmentWriter::new(&mut bytes);
    let site = |level| Callsite {
        level,
        message: "took {0}".into(),
        fields: vec![Field {
            name: "text".into(),
            kind: FieldKind::plain(Kind::Str),
            argument: true,
        }],
        ..Callsite::default()
    };
    for second in 0..4u64 {
        let level = if second == 2 { Level::Error } else { Level::Info };
        let site = RowCallsite::new(&site(level), None).expect("a callsite");
        for number in 0..100 {
            let text = format!("Order{second}_{number}");
            let payload = [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
            let time = second * 1_000_000_000 + number;
            writer
                .record(&site, RowThread { id: 1, name: "main" }, time, &payload)
                .expect("memory");
        }
    }
    writer.flush().expect("memory");
    let select = |wanted: &dyn Fn(&BlockHead) -> bool| -> Vec<u64> {
        let mut reader = SegmentReader::new(Cursor::new(&bytes));
        let mut seconds = Vec::new();
        while let Some(block) = reader.next_block(wanted).expect("a file") {
            seconds.push(block.head().times.0 / 1_000_000_000);
        }
        seconds
    };
    assert_eq!(select(&|_| true), [0, 1, 2, 3]);
    assert_eq!(select(&|head| head.times.1 >= 3_000_000_000), [3]);
    assert_eq!(
        select(&|head| head.level_counts[usize::from(Level::Error.code())] > 0),
        [2]
    );
    assert_eq!(
        select(&|head| head
            .callsites
            .iter()
            .any(|site| site.callsite.level == Level::Error)),
        [2]
    );
    assert_eq!(select(&|head| head.filter().may_have(b"order1_99")), [1]);
}

#[test]
fn hostile_bytes_with_sound_checksums_are_errors() {
    // What a checksum does not catch: each byte of the dictionary and of the columns changed, and sums made anew.
    let mut random = Random::new(3);
    let (rows, _) = random_rows(&mut random, 40);
    let mut bytes = Vec::new();
    Encoder::default().encode(&rows, &mut bytes).expect("a block");
    for at in 12..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] = bytes[at].wrapping_add(1 + random.below(255) as u8);
        let length = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
        if let Some(rest) = bytes.get(12..length) {
            let sum = crc32c::crc32c(rest);
            bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        let read = BlockHead::decode(&bytes).and_then(|head| {
            let body = bytes[head.head_bytes..].to_vec();
            Block::new(head, body)?.rows()
        });
        if let Err(StoreError::NoBlock) = read {
            panic!("byte {at}: the first bytes are sound");
        }
    }
}

/// An old file is read for ever: the bytes of the vectors were written by the version that they are of.
#[test]
fn segment_vectors_read_as_they_say() {
    let vectors = logdrive_testkit::vectors("segment");
    let valid = vectors["valid"].as_array().expect("valid ones");
    for case in valid {
        let bytes = unhex(case["hex"].as_str().expect("hex"));
        let head = BlockHead::decode(&bytes).expect("a head");
        assert_eq!(head.records as u64, case["records"].as_u64().expect("a count"));
        let block = Block::new(head, bytes[block_head_bytes(&bytes)..].to_vec()).expect("a block");
        assert_eq!(
            hex(&block.rows().expect("rows")),
            case["rows"].as_str().expect("hex"),
            "{}",
            case["name"]
        );
    }
    let invalid = vectors["invalid"].as_array().expect("invalid ones");
    for case in invalid {
        let bytes = unhex(case["hex"].as_str().expect("hex"));
        let read = BlockHead::decode(&bytes).and_then(|head| {
            let body = bytes.get(head.head_bytes..).unwrap_or(&[]).to_vec();
            Block::new(head, body)?.rows()
        });
        let error = read.expect_err(case["name"].as_str().expect("a name"));
        assert!(
            format!("{error:?}").starts_with(case["error"].as_str().expect("an error")),
            "{error:?}"
        );
    }
    println!(
        "vectors: segment.json: {} valid, {} invalid",
        valid.len(),
        invalid.len()
    );
}

fn block_head_bytes(bytes: &[u8]) -> usize {
    BlockHead::decode(bytes).expect("a head").head_bytes
}

/// Rows of lines of requests, whose statements show the same numbers and begin with their times.
fn request_rows(requests: u64) -> (Vec<u8>, Vec<String>) {
    let (mut random, mut lines) = (Random::new(3), Vec::new());
    let mut ms = 1_795_634_105_000;
    let (mut offset, mut writer, mut out, mut at) = (7_000_000, RowWriter::default(), vec![0; 8 << 20], 0);
    for number in 0..requests {
        let size = 1_000 + random.below(9_000);
        for step in 0..4 {
            ms += random.below(3);
            let clock = format!(
                "2026-11-25 {:02}:{:02}:{:02},{:03}",
                ms / 3_600_000 % 24,
                ms / 60_000 % 60,
                ms / 1_000 % 60,
                ms % 1_000
            );
            let line = match step {
                0 => format!(
                    "[{clock}] DEBUG request {} of {size} bytes",
                    number * 3 + size % 2
                ),
                1 => format!(
                    "[{clock}] TRACE request {} goes to 00{offset}",
                    number * 3 + size % 2
                ),
                2 => format!("[{clock}] TRACE append {size} at {offset}"),
                _ => format!("[{clock}] TRACE end is {}", offset + 5),
            };
            at = writer
                .line(&mut out, at, Some(Level::Trace), ms * 1_000_000, line.as_bytes())
                .expect("room");
            lines.push(line);
        }
        offset += size;
    }
    out.truncate(at);
    (out, lines)
}

#[test]
fn numbers_that_follow_from_times_and_other_lines_take_no_room_and_read_back() {
    let (rows, lines) = request_rows(5_000);
    let mut bytes = Vec::new();
    Encoder::default().encode(&rows, &mut bytes).expect("blocks");
    let mut reader = SegmentReader::new(Cursor::new(&bytes));
    let mut read = Vec::new();
    while let Some(block) = reader.next_block(|_| true).expect("a file") {
        let found = of_block(&block).into_iter();
        read.extend(found.map(|row| String::from_utf8(row.payload).expect("text")));
    }
    assert!(read == lines);
    // Sizes, one bit of numbers and how time goes on: the rest follows.
    assert!(bytes.len() < 5_000 * 5, "{} bytes", bytes.len());
}

#[test]
fn ids_that_repeat_in_a_block_are_stored_once() {
    let (mut random, mut lines) = (Random::new(5), Vec::new());
    let (mut writer, mut out, mut at) = (RowWriter::default(), vec![0; 8 << 20], 0);
    let mut ids = [0u64; 16];
    for number in 0..12_000u64 {
        let place = random.below(16) as usize;
        if random.one_in(6) || ids[place] == 0 {
            ids[place] = random.bits() >> 2 | 1 << 50;
        }
        let id = ids[place];
        let line = match number % 3 {
            0 => format!("received blk_{id} as {id}"),
            1 => format!("served blk_-{id}"),
            _ => format!("deleted {id} of {number}"),
        };
        at = writer
            .line(&mut out, at, None, number, line.as_bytes())
            .expect("room");
        lines.push(line);
    }
    let mut bytes = Vec::new();
    Encoder::default()
        .encode(&out[..at], &mut bytes)
        .expect("a block");
    let head = BlockHead::decode(&bytes).expect("a head");
    let block = Block::new(head, bytes[block_head_bytes(&bytes)..].to_vec()).expect("a block");
    let read: Vec<String> = of_block(&block)
        .into_iter()
        .map(|row| String::from_utf8(row.payload).expect("text"))
        .collect();
    assert!(read == lines);
    // 2,000 ids of 8 bytes, and a byte or so for each place that names one.
    assert!(bytes.len() < 2_200 * 8 + 16_000 * 3 / 2, "{} bytes", bytes.len());
}

#[test]
fn a_block_of_an_unknown_version_is_left_out_and_told() {
    let (mut bytes, places) = three_blocks();
    bytes[places[1] + 7] = b'9';
    let mut reader = SegmentReader::new(Cursor::new(&bytes));
    let mut count = 0;
    while reader.next_block(|_| true).expect("a file").is_some() {
        count += 1;
    }
    let damages = reader.take_damages();
    assert_eq!((count, damages.len()), (2, 1));
    assert_eq!(
        damages[0].error,
        StoreError::Unknown {
            what: "version of a block",
            found: u64::from(b'9')
        }
    );
    assert_eq!(
        (damages[0].offset, damages[0].bytes),
        (places[1] as u64, (places[2] - places[1]) as u64)
    );
}

#[test]
fn compaction_keeps_records_of_every_kind_and_their_order() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let (rows, records) = random_rows(&mut random, 100);
            Encoder::default().encode(&rows, &mut bytes).expect("a block");
            expected.extend(
                records
                    .into_iter()
                    .map(|row| (row.callsite, row.level, row.unix_ns, row.payload)),
            );
        }
        assert!(!is_compact(Cursor::new(&bytes), None).expect("memory"));
        for level in [3, 19] {
            let mut full = SegmentWriter::new(Vec::new()).fill_blocks().level(level);
            let done = compact(Cursor::new(&bytes), &mut full, &|| false).expect("memory");
            assert_eq!(done, Compaction::Written(600));
            let full = std::mem::take(full.file_mut());
            let (blocks, damages) = read_all(&full);
            assert_eq!((blocks.len(), damages.len()), (1, 0));
            let read = blocks.into_iter().flatten();
            let read: Vec<_> = read
                .map(|row| (row.callsite, row.level, row.unix_ns, row.payload))
                .collect();
            assert!(read == expected, "seed {seed}");
            for (wanted, is_enough) in [(None, true), (Some(2), true), (Some(19), level == 19)] {
                assert_eq!(is_compact(Cursor::new(&full), wanted).expect("memory"), is_enough);
            }
            assert_eq!(
                digest(Cursor::new(&full)).expect("memory"),
                digest(Cursor::new(&bytes)).expect("memory")
            );
        }
        bytes[60] ^= 1;
        let mut full = SegmentWriter::new(Vec::new());
        assert_eq!(
            compact(Cursor::new(&bytes), &mut full, &|| false).expect("memory"),
            Compaction::Damaged
        );
        assert_eq!(digest(Cursor::new(&bytes)).expect("memory"), None);
    }
}

/// Prints the vectors of this version, for `vectors/segment.json` when the version changes.
#[test]
fn a_block_of_the_vectors_is_written_and_read_by_this_version() {
    written_and_read(&vector_rows(), 36);
    written_and_read(&request_rows(26).0, 104);
    written_and_read(&id_rows(), 64);
}

/// Rows of lines with ids that repeat, also within a line, and with sizes of which most are the same.
fn id_rows() -> Vec<u8> {
    let (mut writer, mut out, mut at) = (RowWriter::default(), vec![0; 1 << 14], 0);
    for number in 0..64u64 {
        let id = 1_608_999_687_919_862_906 + number / 5 * number % 7 * 1_000_003;
        let size = if number % 7 == 3 {
            2_000_000_000 + number * number
        } else {
            67_108_864
        };
        let line = match number % 2 {
            0 => format!("received blk_{id} of {size}"),
            _ => format!("deleted blk_{id} as /data/blk_{id}"),
        };
        let room = writer.line(
            &mut out,
            at,
            Some(Level::Info),
            1_700_000_000_000_000_000 + number,
            line.as_bytes(),
        );
        at = room.expect("room");
    }
    out.truncate(at);
    out
}

#[test]
fn an_id_that_a_line_shows_twice_takes_no_more_room() {
    let (mut random, mut sizes) = (Random::new(11), Vec::new());
    let ids: Vec<u64> = (0..3_000).map(|_| random.bits() >> 2 | 1 << 50).collect();
    for is_twice in [false, true] {
        let mut writer = SegmentWriter::new(Vec::new());
        for (number, id) in ids.iter().chain(&ids).enumerate() {
            let line = match is_twice {
                true => format!("blk_{id} as /data/blk_{id}"),
                false => format!("blk_{id} as /data/blk"),
            };
            writer.line(None, number as u64, line.as_bytes()).expect("memory");
        }
        writer.flush().expect("memory");
        let bytes = std::mem::take(writer.file_mut());
        let lines: Vec<Whole> = read_all(&bytes).0.concat();
        assert!(lines.iter().zip(ids.iter().chain(&ids)).all(|(line, id)| {
            let text = std::str::from_utf8(&line.payload).expect("text");
            text.starts_with(&format!("blk_{id} as")) && text.ends_with(&id.to_string()) == is_twice
        }));
        sizes.push(bytes.len());
    }
    assert!(sizes[1] < sizes[0] + 32, "{sizes:?}");
}

fn written_and_read(rows: &[u8], count: usize) {
    let mut bytes = Vec::new();
    Encoder::default().encode(rows, &mut bytes).expect("a block");
    let head_bytes = block_head_bytes(&bytes);
    let read = Block::new(
        BlockHead::decode(&bytes).expect("a head"),
        bytes[head_bytes..].to_vec(),
    );
    let read = read.expect("a block").rows().expect("rows");
    println!("hex {}\nrows {}", hex(&bytes), hex(&read));
    let (mut written, mut read) = (Rows::new(rows), Rows::new(&read));
    for _ in 0..count {
        assert_eq!(written.next_row().expect("rows"), read.next_row().expect("rows"));
    }
    assert_eq!(read.next_row().expect("rows"), None);
}
