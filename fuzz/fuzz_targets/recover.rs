//! Recovery, end to end, of a session whose files are mangled: the backend's reader, merge, layouts and file sink on
//! hostile bytes. It ends, and every line that it leaves in the log is whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_fuzz::Images;
use logdrive_ring::{Consumer, FullPolicy, Producer, control};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, RecordHeader};
use std::path::Path;
use std::sync::OnceLock;

static SESSION: OnceLock<Images> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let session = SESSION.get_or_init(|| Images::made_by_child("recover", make_session));
    session.recover("recover-1-0", data, |[file, op, a0, a1]| {
        let file = usize::from(file) % session.files.len();
        let image = &session.files[file];
        // The header of a ring ends its file; edits count from there, and go on at the beginning.
        let head_at = if image.name.starts_with("ring-") {
            image.length - 4096
        } else {
            0
        };
        let at = head_at + u64::from(u16::from_le_bytes([a0, a1])) * 8;
        (file, at % image.used_bytes(), op)
    });
});

fn make_session(run_dir: &Path) {
    let session = logdrive_fuzz::session("recover", run_dir, |options| {
        options.config = logdrive_fuzz::config_of_file(run_dir).into_bytes();
        options.ring_bytes = 1 << 18;
        (options.sink_count, options.buffers_per_sink) = (1, 2);
    });
    for site in [logdrive_drain::gap_callsite(), static_site(), dynamic_site()] {
        session
            .register(&site.encode().expect("it keeps the limits"), control::ON)
            .expect("there is room");
    }
    for thread in 0..2_usize {
        let mut producer = session.acquire("t").expect("there is room");
        fill_ring(&mut producer, thread as u64);
        Consumer::new(session.rings_from(thread).remove(0)).note_drained(40, 1, 0);
    }
    session.buffers().publish(1);
}

fn static_site() -> Callsite {
    let field = |name: &str, kind, optional, argument| Field {
        name: name.into(),
        kind: FieldKind { kind, optional },
        argument,
    };
    Callsite {
        file: "a.rs".into(),
        module: "a".into(),
        message: "order {0} of {1:>8} at {2:.2}".into(),
        fields: vec![
            field("id", Kind::U64, false, true),
            field("name", Kind::Str, false, true),
            field("price", Kind::F64, false, true),
            field("note", Kind::Str, true, false),
        ],
        ..Callsite::default()
    }
}

fn dynamic_site() -> Callsite {
    Callsite {
        dynamic: true,
        message: "event".into(),
        module: "b".into(),
        ..Callsite::default()
    }
}

/// Records of both callsites, and then enough of them that the ring holds more than the drain's window.
fn fill_ring(producer: &mut Producer, thread: u64) {
    for number in 0..3000u64 {
        let mut payload = Vec::new();
        let id = if number % 2 == 0 {
            payload.extend_from_slice(&number.to_le_bytes());
            payload.extend_from_slice(b"\x03\0\0\0abc");
            payload.extend_from_slice(&1.5f64.to_bits().to_le_bytes());
            payload.push(0);
            1
        } else {
            payload.extend_from_slice(b"\x0f\xff\x03\0key\x05\0\0\0value");
            2
        };
        let length = (16 + payload.len()).next_multiple_of(8);
        let header = RecordHeader {
            length_bytes: length as u32,
            callsite_id: id,
            time_ticks: 1000 + 2 * number + thread,
        };
        let mut record = header.encode().to_vec();
        record.extend_from_slice(&payload);
        record.resize(length, 0);
        producer.push(&record, false, FullPolicy::Drop);
    }
}
