//! Recovery of a session that kept records in memory, whose file `keep` is mangled: the recoverer's walk over chunks and
//! entries, and what it lays out of them. It ends, and every line that it leaves in the log is whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_drain::file::FileOptions;
use logdrive_ring::{BUFFER_BYTES_MIN, Calibration, KeepPositions, SessionWriter, SessionOptions, control};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The files of the session, each with its bytes up to the last that is not zero, and its size.
type Images = Vec<(String, Vec<u8>, u64)>;

static WORLD: OnceLock<(PathBuf, Images)> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let (run_dir, images) = WORLD.get_or_init(|| {
        let run_dir = logdrive_fuzz::made_by_child("keep", make_session);
        let session = logdrive_fuzz::session_in(&run_dir);
        let images = images_of(&session);
        fs::remove_dir_all(session).expect("the session can be removed");
        (run_dir, images)
    });
    let dir = run_dir.join("keep-1-0");
    let log = run_dir.join("recovered.log");
    // Left by the last run, if anything.
    let _ = fs::remove_file(&log);
    write(&dir, images, data);
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

fn write(dir: &Path, images: &Images, data: &[u8]) {
    fs::create_dir_all(dir).expect("a directory can be made");
    for (name, bytes, length) in images {
        let path = dir.join(name);
        fs::write(&path, bytes).expect("a file can be written");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .expect("it is there");
        file.set_len(*length).expect("it grows");
        if name != "keep" {
            continue;
        }
        for edit in data.as_chunks::<12>().0.iter().take(64) {
            let [op, size, a0, a1, value @ ..] = *edit;
            let place = u64::from(u16::from_le_bytes([a0, a1]));
            // The header's words, and entries of the first two chunks.
            let at = match op % 4 {
                0 => place % 160,
                1 | 2 => 4096 + place % 512,
                _ => 4096 + 262_144 + place % 512,
            };
            match size % 8 {
                0..4 => file.write_all_at(&value, at).expect("it can be written"),
                4 | 5 => file.write_all_at(&value[..4], at).expect("it can be written"),
                6 => file.write_all_at(&value[..1], at).expect("it can be written"),
                _ => file
                    .set_len(u64::from_le_bytes(value) % (length + 1))
                    .expect("it can be cut"),
            }
        }
    }
}

fn images_of(dir: &Path) -> Images {
    let image = |path: PathBuf| {
        let mut bytes = fs::read(&path).expect("a file can be read");
        let length = bytes.len() as u64;
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        bytes.truncate(used.next_multiple_of(8));
        let name = path
            .file_name()
            .expect("it has a name")
            .to_string_lossy()
            .into_owned();
        (name, bytes, length)
    };
    let entries = fs::read_dir(dir).expect("the session can be listed");
    entries
        .map(|entry| image(entry.expect("an entry").path()))
        .collect()
}

fn make_session(run_dir: &Path) {
    let log = run_dir.join("recovered.log");
    let config = format!(
        "[keep]\non_crash = true\n[sink]\nlayout = json\nmin_level = TRACE\n[file]\npath = {}\n",
        log.display()
    );
    let (session, _) = SessionWriter::create(&SessionOptions {
        app: "keep".into(),
        run_dirs: vec![run_dir.to_owned()],
        ring_bytes: 1 << 16,
        config: config.into_bytes(),
        sink_count: 1,
        buffers_per_sink: 2,
        buffer_bytes: BUFFER_BYTES_MIN,
        keep_bytes: 1 << 20,
    })
    .expect("a session can be made");
    for _ in 0..2 {
        let site = logdrive_drain::gap_callsite();
        session
            .register(&site.encode().expect("it keeps the limits"), control::ON)
            .expect("there is room");
    }
    session.header().store_calibration(&Calibration {
        base_ticks: 0,
        base_unix_ns: 0,
        ns_per_tick_q32: 1 << 32,
    });
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
            put(&entry(
                16 + values.len() as u32,
                1,
                0,
                1000 + 100 * number + record,
            ));
            put(&values);
        }
        put(&[0; 8]);
        end = at - 8;
    }
    keep.note(
        KeepPositions {
            head: end,
            written: 0,
        },
        1,
        0,
    );
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
