//! A producer that writes whatever it likes into a ring's memory, while a consumer drains by the rules of
//! `spec/ring.md`. Neither panics, and the consumer's work is bounded by what it was told is there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_ring::{Consumer, FullPolicy, Producer, Ring};
use logdrive_wire::RecordHeader;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const CAPACITY: usize = 1 << 16;
/// Offset of the header.
const HEADER: u64 = CAPACITY as u64;

struct World {
    ring: Arc<Ring>,
    file: File,
    producer: Option<Producer>,
    consumer: Consumer,
    quarantined: bool,
}

fuzz_target!(|data: &[u8]| {
    let (ring, file) = Ring::unnamed(CAPACITY).expect("a ring can be made");
    let ring = Arc::new(ring);
    let mut world = World {
        producer: Some(Producer::attach(Arc::clone(&ring), "p")),
        consumer: Consumer::new(Arc::clone(&ring)),
        ring,
        file,
        quarantined: false,
    };
    for op in data.as_chunks::<12>().0.iter().take(256) {
        world.step(op);
    }
    drop(world.producer.take());
    world.drain(usize::MAX);
});

impl World {
    fn step(&mut self, op: &[u8; 12]) {
        let [code, flags, a0, a1, value @ ..] = *op;
        let at = u16::from_le_bytes([a0, a1]);
        let number = u64::from_le_bytes(value);
        match code % 8 {
            0 | 1 => self.push(at, flags, number),
            // Words of the header, positions among them.
            2 => self.put(HEADER + (u64::from(at) % 384 & !7), &value),
            3 => self.put(
                HEADER + [64, 256, 272, 280, 288, 296][usize::from(at) % 6],
                &value,
            ),
            // The data area.
            4 => self.put(u64::from(at & !7), &value[..usize::from(flags) % 9]),
            5 => self.drain(usize::from(at)),
            6 => {
                drop(self.producer.take());
                self.producer = Some(Producer::attach(Arc::clone(&self.ring), "q"));
            }
            _ => self.consumer = Consumer::resume(Arc::clone(&self.ring), number % 4),
        }
    }

    fn put(&self, offset: u64, bytes: &[u8]) {
        self.file
            .write_all_at(bytes, offset)
            .expect("memory can be written");
    }

    fn push(&mut self, at: u16, flags: u8, ticks: u64) {
        let length = (usize::from(at) % 9_000).max(16) & !7;
        let mut record = vec![0xa5; length];
        let header = RecordHeader {
            length_bytes: length as u32,
            callsite_id: 1,
            time_ticks: ticks,
        };
        record[..16].copy_from_slice(&header.encode());
        if let Some(producer) = &mut self.producer {
            producer.push(&record, flags & 1 != 0, FullPolicy::Drop);
        }
        if flags & 2 != 0 {
            self.ring.take_unreported();
        }
    }

    fn drain(&mut self, most: usize) {
        if self.quarantined {
            return;
        }
        let Ok(pending) = self.consumer.pending_bytes() else {
            return self.quarantine();
        };
        assert!(pending <= CAPACITY && pending % 8 == 0);
        let mut window = vec![0; pending];
        self.consumer.copy_out(0, &mut window);
        let mut taken = 0;
        while taken < pending && taken < most {
            match RecordHeader::decode(&window[taken..]) {
                Ok(header) if header.length_bytes as usize <= pending - taken => {
                    taken += header.length_bytes as usize
                }
                _ => return self.quarantine(),
            }
        }
        self.consumer.note_drained(taken, 2, 1);
        self.consumer.release(taken);
        let _ = self.consumer.is_finished();
    }

    fn quarantine(&mut self) {
        self.consumer.quarantine();
        self.quarantined = true;
    }
}
