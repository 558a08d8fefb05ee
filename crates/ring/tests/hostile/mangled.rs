//! A real session's files, damaged on purpose and then read by every means that the crate has. Shared by the seeded
//! test beside it and by the fuzz target `session`.

use logdrive_ring::{
    BUFFER_BYTES_MIN, Buffers, Calibration, Consumer, FileLocation, FullPolicy, Producer, Ring,
    SessionOptions, SessionReader, SessionWriter, SinkDrops, control,
};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A change of a file of the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edit {
    pub(crate) file: u8,
    pub(crate) op: u8,
    pub(crate) at: u16,
    pub(crate) value: u64,
}

/// Bytes that encode one [`Edit`].
pub(crate) const EDIT_BYTES: usize = 12;

impl Edit {
    pub(crate) fn from_bytes(bytes: &[u8; EDIT_BYTES]) -> Self {
        let [file, op, a0, a1, value @ ..] = *bytes;
        Self {
            file,
            op,
            at: u16::from_le_bytes([a0, a1]),
            value: u64::from_le_bytes(value),
        }
    }
}

/// A file: its bytes up to the last one that is not zero, and its length.
struct Image {
    name: String,
    bytes: Vec<u8>,
    length: u64,
    /// Offset of its header: edits count from there, and wrap to the file's beginning.
    head_at: u64,
}

/// The files of a session.
pub(crate) struct Images {
    files: Vec<Image>,
}

/// Result of reading a session.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) opened: u32,
    pub(crate) rings: u32,
    pub(crate) records: u32,
    pub(crate) buffers: u32,
    pub(crate) refused: u32,
}

/// Values that sit at the edges of what the format allows.
const EDGES: [u64; 16] = [
    0,
    1,
    7,
    8,
    16,
    255,
    4096,
    65_535,
    65_536,
    65_544,
    1 << 31,
    u32::MAX as u64,
    1 << 40,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];

impl Images {
    /// Makes a session as [`make_session`] does; keeps its files and removes it.
    pub(crate) fn of_a_real_session(run_dir: &Path) -> Self {
        let session = make_session(run_dir);
        let images = Self::of(session.path());
        session.remove().expect("the session can be removed");
        images
    }

    /// The files of a session.
    pub(crate) fn of(dir: &Path) -> Self {
        Self {
            files: images_of(dir),
        }
    }

    /// Number of files.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// Name and length of a file.
    pub(crate) fn file(&self, index: usize) -> (&str, u64) {
        let image = &self.files[index];
        (&image.name, image.length)
    }

    /// Bytes of a file that are worth a change: up to the last one that is not zero.
    pub(crate) fn used_bytes(&self, index: usize) -> usize {
        self.files[index].bytes.len()
    }

    /// Writes the files anew, each whole, then applies the edits.
    pub(crate) fn write(&self, dir: &Path, edits: &[Edit]) {
        fs::create_dir_all(dir).expect("a directory can be made");
        for image in &self.files {
            let path = dir.join(&image.name);
            let mut bytes = image.bytes.clone();
            // What the last reader did behind the used bytes is undone as far as it matters: a page.
            bytes.resize((bytes.len() + 4096).min(image.length as usize), 0);
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path);
            let file = file.expect("a file can be made");
            file.write_all_at(&bytes, 0).expect("a file can be written");
            if file.metadata().expect("it can be looked at").len() != image.length {
                file.set_len(image.length).expect("its length can be set");
            }
        }
        for edit in edits {
            let image = &self.files[usize::from(edit.file) % self.files.len()];
            // An earlier edit may have removed the file.
            let path = dir.join(&image.name);
            if let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) {
                image.apply(&file, &path, edit);
            }
        }
    }
}

impl Image {
    /// The first word of its header.
    fn head(&self) -> &[u8] {
        let at = self.head_at as usize;
        self.bytes.get(at..at + 8).unwrap_or(&[])
    }

    fn apply(&self, file: &File, path: &Path, edit: &Edit) {
        let used = self.bytes.len().max(8) as u64;
        let anywhere = (self.head_at + u64::from(edit.at) % used) % used;
        let word = anywhere & !7;
        let edge = EDGES[edit.value as usize % EDGES.len()];
        let put = |offset: u64, bytes: &[u8]| file.write_all_at(bytes, offset).expect("it can be written");
        match edit.op % 10 {
            0 => put(word, &edit.value.to_le_bytes()),
            1 => put(word, &edge.to_le_bytes()),
            2 => put(anywhere & !3, &(edit.value as u32).to_le_bytes()),
            3 => put(anywhere & !3, &(edge as u32).to_le_bytes()),
            4 => put(anywhere, &[edit.value as u8]),
            5 => {
                // A small step away from what stands there: the most likely to be believed.
                let mut bytes = [0; 8];
                if file.read_exact_at(&mut bytes, word).is_ok() {
                    let step = (edit.value % 33)
                        .wrapping_sub(16)
                        .wrapping_mul(if edit.value > 255 { 8 } else { 1 });
                    put(word, &u64::from_le_bytes(bytes).wrapping_add(step).to_le_bytes());
                }
            }
            6 => file
                .set_len(edit.value % (self.length + 1))
                .expect("it can be cut"),
            7 => file
                .set_len(u64::from(edit.at).min(self.length))
                .expect("it can be cut"),
            8 => file
                .set_len(self.length + edit.value % (1 << 20))
                .expect("it can grow"),
            _ if edit.value.is_multiple_of(8) => fs::remove_file(path).expect("it can be removed"),
            _ => put(word, self.head()),
        }
    }
}

/// Makes a session below `run_dir` with callsites, records in two rings, and buffers in every state.
pub(crate) fn make_session(run_dir: &Path) -> SessionWriter {
    let options = SessionOptions {
        app: "mangled".into(),
        run_dirs: vec![run_dir.to_owned()],
        ring_bytes: 1 << 16,
        config: b"[sink]\nlayout = text\nmin_level = TRACE\n".to_vec(),
        sink_count: 2,
        buffers_per_sink: 4,
        buffer_bytes: BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 0,
    };
    let (session, failed) = SessionWriter::create(&options).expect("a session can be made");
    assert!(failed.is_empty());
    for number in 0..20u32 {
        session
            .register(format!("callsite {number}").as_bytes(), control::ON)
            .expect("there is room");
    }
    let calibration = Calibration {
        base_ticks: 5,
        base_unix_ns: 7,
        ns_per_tick_q32: 1 << 32,
    };
    session.header().store_calibration(&calibration);
    for thread in 0..2u32 {
        let mut producer = session
            .acquire(&format!("thread {thread}"))
            .expect("there is room");
        for number in 0..40 {
            push(&mut producer, number % 20, 16 + 8 * (number as usize % 9));
        }
        let consumer = Consumer::new(session.rings_from(thread as usize).remove(0));
        consumer.note_drained(16, 1, 0);
        consumer.note_drained(40, 2, 1);
    }
    fill_buffers(session.buffers());
    session
}

fn push(producer: &mut Producer, callsite_id: u32, length: usize) {
    let mut record = vec![0u8; length];
    record[..4].copy_from_slice(&(length as u32).to_le_bytes());
    record[4..8].copy_from_slice(&callsite_id.to_le_bytes());
    record[8..16].copy_from_slice(&(1000 + u64::from(callsite_id)).to_le_bytes());
    producer.push(&record, false, FullPolicy::Drop);
}

/// One buffer of each state for every sink.
fn fill_buffers(buffers: &Arc<Buffers>) {
    let mut sequence = 0;
    for sink in 0..buffers.sink_count() {
        let mut all = buffers.take_all(sink).expect("room").into_iter();
        let mut next = || all.next().expect("four for each sink");
        let (mut ready, mut writing, mut filling) = (next(), next(), next());
        for buffer in [&mut writing, &mut ready, &mut filling] {
            sequence += 1;
            buffer.start_filling(sequence);
            buffer.space()[..5].copy_from_slice(b"line\n");
            buffer.grow(5, 1);
        }
        buffers.note_fill(sink, Some(&filling), &SinkDrops::default(), 1);
        buffers.note_fill(sink, Some(&filling), &SinkDrops::default(), 2);
        ready.mark_ready();
        writing.mark_ready();
        writing.mark_writing(FileLocation {
            dev: 1,
            ino: 2,
            offset: 3,
        });
    }
    buffers.publish(2);
}

fn images_of(dir: &Path) -> Vec<Image> {
    let list = fs::read_dir(dir).expect("the session can be listed");
    let mut paths: Vec<PathBuf> = list
        .map(|entry| entry.expect("an entry can be read").path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let mut bytes = fs::read(&path).expect("a file can be read");
            let length = bytes.len() as u64;
            bytes.truncate(
                bytes
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |at| at + 1)
                    .next_multiple_of(8),
            );
            let name = path
                .file_name()
                .expect("it has a name")
                .to_str()
                .expect("of ascii")
                .to_owned();
            let head_at = if name.starts_with("ring-") {
                length - 4096
            } else {
                0
            };
            Image {
                name,
                bytes,
                length,
                head_at,
            }
        })
        .collect()
}

/// Reads everything of a session that can be read, and does to it what a recoverer does.
pub(crate) fn read_all(dir: &Path) -> Seen {
    let mut seen = Seen::default();
    for view in [SessionReader::open(dir), SessionReader::adopt(dir)] {
        match view {
            Ok(view) => read_view(&view, &mut seen),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                seen.refused += 1;
            }
        }
    }
    seen
}

fn read_view(view: &SessionReader, seen: &mut Seen) {
    seen.opened += 1;
    let header = view.header();
    let _ = (header.identity(), header.totals());
    let _ = (header.clock_source(), header.coarse_clock());
    if let Some(calibration) = header.calibration() {
        for ticks in EDGES {
            calibration.unix_ns(ticks);
        }
    }
    if let Ok(callsites) = view.callsites() {
        assert!(
            callsites.len() <= (16 << 20) / 16,
            "an entry takes 16 bytes at least"
        );
    }
    for id in (0..40).chain([header.totals().callsites, u32::MAX]) {
        if let Some(entry) = view.control(id) {
            let switch = entry.switch();
            control::settle(entry, || 0, |_| switch);
        }
    }
    let (rings, broken) = view.rings();
    seen.refused += broken.len() as u32;
    let epoch = match view.buffers() {
        Ok(buffers) => {
            let epoch = buffers.epoch();
            read_buffers(&buffers, seen);
            epoch
        }
        Err(_) => {
            seen.refused += 1;
            0
        }
    };
    for ring in rings {
        seen.rings += 1;
        read_ring(&ring, epoch, seen);
    }
}

fn read_buffers(buffers: &Arc<Buffers>, seen: &mut Seen) {
    let _ = (buffers.config(), buffers.last_sequence());
    for sink in 0..buffers.sink_count() {
        let counts = buffers.counts(sink);
        assert!(!format!("{counts:?}").is_empty());
        let drops = buffers.drops(sink);
        buffers.note_error(sink, 1);
        let (unwritten, empty) = buffers.adopt(sink).expect("room");
        for (mut buffer, place) in unwritten {
            seen.buffers += 1;
            assert!(buffer.length() <= buffers.buffer_bytes());
            // Whatever the text is, it can be read to its end.
            assert!(
                buffer.bytes().iter().map(|byte| u64::from(*byte)).sum::<u64>()
                    <= 255 * buffer.length() as u64
            );
            buffer.mark_ready();
            buffer.mark_writing(place);
            buffer.mark_written();
            assert_eq!(buffer.length(), 0);
        }
        if let Some(mut buffer) = empty.into_iter().next() {
            let sequence = buffers.last_sequence().wrapping_add(1);
            buffer.start_filling(sequence);
            buffer.space()[..2].copy_from_slice(b"x\n");
            buffer.grow(2, 1);
            let epoch = buffers.epoch().wrapping_add(1);
            buffers.note_fill(sink, Some(&buffer), &drops, epoch);
            buffers.publish(epoch);
            buffer.clear();
        }
    }
}

/// Walks a ring by the rules of `spec/ring.md`; the work is bounded by its capacity.
pub(crate) fn read_ring(ring: &Arc<Ring>, epoch: u64, seen: &mut Seen) {
    let _ = (ring.thread_name(), ring.thread_id(), ring.counts());
    let _ = ring.take_unreported();
    let _ = Consumer::new(Arc::clone(ring)).pending_bytes();
    let mut consumer = Consumer::adopt(Arc::clone(ring), epoch);
    let Ok(pending) = consumer.pending_bytes() else {
        seen.refused += 1;
        return consumer.quarantine();
    };
    assert!(pending <= ring.capacity_bytes());
    let mut at = 0;
    let mut header = [0; 16];
    while at + 16 <= pending {
        consumer.copy_out(at, &mut header);
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if !(16..=65_536).contains(&length) || !length.is_multiple_of(8) || at + length > pending {
            seen.refused += 1;
            return consumer.quarantine();
        }
        let mut record = vec![0; length];
        consumer.copy_out(at, &mut record);
        at += length;
        seen.records += 1;
    }
    consumer.note_drained(at, epoch.wrapping_add(1), epoch);
    consumer.release(at);
    let _ = consumer.is_finished();
}
