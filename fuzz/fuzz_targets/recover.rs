//! Recovery, end to end, of a session whose files are mangled: the backend's reader, merge, layouts and file sink on
//! hostile bytes. It ends, and every line that it leaves in the log is whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_drain::file::FileOptions;
use logdrive_ring::{
    BUFFER_BYTES_MIN, Calibration, Consumer, FullPolicy, Producer, SessionOptions, SessionWriter, control,
};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, RecordHeader};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

struct World {
    run_dir: PathBuf,
    files: Vec<(String, Vec<u8>, u64)>,
}

static WORLD: OnceLock<World> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let world = WORLD.get_or_init(World::make);
    let dir = world.run_dir.join("recover-1-0");
    let log = world.run_dir.join("recovered.log");
    let _ = fs::remove_file(&log);
    world.write(&dir, data);
    let mut options = FileOptions::new(&log);
    options.trust_directory = true;
    // A session that is refused stays as it was; that is no fault.
    let _ = logdrive_drain::recover(&dir, Some(&options));
    if let Ok(text) = fs::read(&log) {
        assert!(
            text.is_empty() || text.last() == Some(&b'\n'),
            "the last line is whole"
        );
    }
});

impl World {
    fn make() -> Self {
        let run_dir = logdrive_fuzz::made_by_child("recover", make_session);
        let session = logdrive_fuzz::session_in(&run_dir);
        let files = images_of(&session);
        fs::remove_dir_all(session).expect("the session can be removed");
        Self { run_dir, files }
    }

    fn write(&self, dir: &Path, data: &[u8]) {
        fs::create_dir_all(dir).expect("a directory can be made");
        for (name, bytes, length) in &self.files {
            let path = dir.join(name);
            fs::write(&path, bytes).expect("a file can be written");
            OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(*length))
                .expect("it grows");
        }
        for edit in data.as_chunks::<12>().0.iter().take(64) {
            let [file, op, a0, a1, value @ ..] = *edit;
            let (name, bytes, length) = &self.files[usize::from(file) % self.files.len()];
            // The header of a ring ends its file; edits count from there, and go on at the beginning.
            let used = bytes.len().max(8) as u64;
            let head_at = if name.starts_with("ring-") {
                length - 4096
            } else {
                0
            };
            let at = (head_at + u64::from(u16::from_le_bytes([a0, a1])) * 8) % used;
            let Ok(file) = OpenOptions::new().read(true).write(true).open(dir.join(name)) else {
                continue;
            };
            match op % 8 {
                0..4 => file.write_all_at(&value, at).expect("it can be written"),
                4 | 5 => file.write_all_at(&value[..4], at).expect("it can be written"),
                6 => file
                    .write_all_at(&value[..1], at + u64::from(value[1] % 8))
                    .expect("it can be written"),
                _ => file
                    .set_len(u64::from_le_bytes(value) % (length + 1))
                    .expect("it can be cut"),
            }
        }
    }
}

fn make_session(run_dir: &Path) {
    let log = run_dir.join("recovered.log");
    let config = format!(
        "[sink]\nlayout = json\nmin_level = TRACE\n[file]\npath = {}\n",
        log.display()
    );
    let (session, _) = SessionWriter::create(&SessionOptions {
        app: "recover".into(),
        run_dirs: vec![run_dir.to_owned()],
        ring_bytes: 1 << 18,
        config: config.into_bytes(),
        sink_count: 1,
        buffers_per_sink: 2,
        buffer_bytes: BUFFER_BYTES_MIN,
        keep_bytes: 0,
    })
    .expect("a session can be made");
    for site in [logdrive_drain::gap_callsite(), static_site(), dynamic_site()] {
        session
            .register(&site.encode().expect("it keeps the limits"), control::ON)
            .expect("there is room");
    }
    let calibration = Calibration {
        base_ticks: 0,
        base_unix_ns: 0,
        ns_per_tick_q32: 1 << 32,
    };
    session.header().store_calibration(&calibration);
    for thread in 0..2_usize {
        let mut producer = session.acquire("t").expect("there is room");
        fill_ring(&mut producer, thread as u64);
        Consumer::new(session.rings_from(thread).remove(0)).note_drained(40, 1, 0);
    }
    session.buffers().publish(1);
}

fn images_of(dir: &Path) -> Vec<(String, Vec<u8>, u64)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("the session can be listed") {
        let path = entry.expect("an entry can be read").path();
        let mut bytes = fs::read(&path).expect("a file can be read");
        let length = bytes.len() as u64;
        bytes.truncate(
            bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |at| at + 1)
                .next_multiple_of(8),
        );
        files.push((
            path.file_name()
                .expect("it has a name")
                .to_string_lossy()
                .into_owned(),
            bytes,
            length,
        ));
    }
    files.sort();
    files
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
