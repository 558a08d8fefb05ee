//! Recovery of a session that kept records in memory, whose file `keep` is mangled: the recoverer's walk over chunks and
//! entries, and what it lays out of them. It ends, and every line that it leaves in the log is whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_fuzz::Images;
use logdrive_ring::{KeepCounts, KeepPositions, control};
use std::path::Path;
use std::sync::OnceLock;

static SESSION: OnceLock<Images> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let session = SESSION.get_or_init(|| Images::made_by_child("keep", make_session));
    let keep = session.files.iter().position(|image| image.name == "keep");
    session.recover("keep-1-0", data, |[op, size, a0, a1]| {
        let place = u64::from(u16::from_le_bytes([a0, a1]));
        // The header's words, and entries of the first two chunks.
        let at = match op % 4 {
            0 => place % 160,
            1 | 2 => 4096 + place % 512,
            _ => 4096 + 262_144 + place % 512,
        };
        (keep.expect("it keeps records"), at, size)
    });
});

fn make_session(run_dir: &Path) {
    let session = logdrive_fuzz::session("keep", run_dir, |options| {
        let config = format!(
            "[keep]\non_crash = true\n{}",
            logdrive_fuzz::config_of_file(run_dir)
        );
        options.config = config.into_bytes();
        (options.ring_bytes, options.keep_bytes) = (1 << 16, 1 << 20);
        (options.sink_count, options.buffers_per_sink) = (1, 2);
    });
    for _ in 0..2 {
        let site = logdrive_drain::gap_callsite();
        session
            .register(&site.encode().expect("it keeps the limits"), control::ON)
            .expect("there is room");
    }
    let mut keep = session.take_keep().expect("it was asked for");
    let chunk = logdrive_ring::CHUNK_BYTES as u64;
    let mut end = 0;
    for number in 0..2u64 {
        let mut at = number * chunk;
        let mut put = |bytes: &[u8]| {
            keep.write_both(at, bytes, &[]);
            at += bytes.len() as u64;
        };
        put(&entry(48 | 1 << 31, 0, 0, 417));
        put(b"main\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        for record in 0..12 {
            let mut values = 7u64.to_le_bytes().to_vec();
            values.extend_from_slice(b"\x04\0\0\0full");
            let time = 1000 + 100 * number + record;
            put(&entry(16 + values.len() as u32, 1, 0, time));
            put(&values);
        }
        put(&[0; 8]);
        end = at - 8;
    }
    let positions = KeepPositions {
        head: end,
        written: 0,
    };
    keep.note(positions, &KeepCounts::default(), 1, 0);
    session.buffers().publish(1);
}

fn entry(length: u32, callsite: u16, thread: u16, time: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..6].copy_from_slice(&callsite.to_le_bytes());
    bytes[6..8].copy_from_slice(&thread.to_le_bytes());
    bytes[8..].copy_from_slice(&time.to_le_bytes());
    bytes
}
