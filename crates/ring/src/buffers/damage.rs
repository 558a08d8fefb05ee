//! Damage of the output buffers of a dead process: it is mended where a checksum or a copy says how. Text of which nobody
//! can say whether the log has it is not written again, and listed.

use super::{
    BUFFER_BYTES_MIN, Buffers, Descriptor, FILLING, FREE, MAGIC, READY, Sizes, WRITING, whole_lines,
};
use crate::checksum::{Checksum, unguarded};
use crate::{DamageNotes, RingError, files};
use core::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;

/// Damage of output buffers.
#[derive(Debug, Default)]
pub struct BufferDamage {
    /// Whole lines of buffers that the log may have or not.
    pub texts: Vec<Vec<u8>>,
    /// Set if nobody knows the destinations of the sinks.
    pub has_lost_config: bool,
}

/// Mends the words that describe the buffers of a dead process, and notes before what is wrong with them. For a recoverer,
/// before it adopts them.
pub fn mend_buffers(buffers: &Buffers, notes: &mut DamageNotes) -> BufferDamage {
    let mut damage = BufferDamage::default();
    mend_header(buffers, notes, &mut damage);
    for sink in 0..buffers.sink_count {
        mend_sink(buffers, sink, notes, &mut damage);
    }
    for index in 0..buffers.buffer_count {
        mend_descriptor(buffers, index, notes, &mut damage);
    }
    damage
}

/// Number of lines about damage of the session that are laid out, as of the epoch that was published last.
pub fn damage_told(buffers: &Buffers) -> u64 {
    let cells = &buffers.words.header().damage_told;
    cells.newest(buffers.epoch(), |_| true).map_or(0, |[lines]| lines)
}

/// Notes how many lines about damage are laid out once `epoch` is published; `committed` is the one before it.
pub fn note_damage_told(buffers: &Buffers, lines: u64, epoch: u64, committed: u64) {
    let cells = &buffers.words.header().damage_told;
    cells.note([lines], epoch, committed);
}

/// Name that the file of output buffers gets that cannot be read.
pub const REPLACED_BUFFERS_NAME: &str = "drain.damaged";

/// Makes new output buffers with one sink in the directory of a session, where those of it cannot be read; the file of
/// these stays beside them.
///
/// # Errors
/// When there is no room, or a file cannot be renamed.
pub fn replace_buffers(session: &Path, config: &[u8]) -> Result<(), RingError> {
    let path = session.join("drain");
    let aside = session.join(REPLACED_BUFFERS_NAME);
    let new = session.join("drain.new");
    let io = |action, path: &Path, cause| RingError::io(action, path, cause);
    // Left by a recoverer that was killed here.
    let _ = std::fs::remove_file(&new);
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&new);
    let file = file.map_err(|cause| io("make", &new, cause))?;
    let bytes = Buffers::file_bytes(REPLACED_BUFFERS, BUFFER_BYTES_MIN);
    files::reserve(&file, &new, 0, bytes)?;
    Buffers::create(&file, &new, config, 1, REPLACED_BUFFERS, BUFFER_BYTES_MIN)?;
    if path.exists() {
        std::fs::rename(&path, &aside).map_err(|cause| io("rename", &path, cause))?;
    }
    std::fs::rename(&new, &path).map_err(|cause| io("rename", &new, cause))
}

/// Buffers of a sink that takes the place of those that cannot be read.
const REPLACED_BUFFERS: usize = 4;

fn mend_header(buffers: &Buffers, notes: &mut DamageNotes, damage: &mut BufferDamage) {
    let (header, copy) = (buffers.words.header(), buffers.words.header_copy());
    // Relaxed: the writer is dead.
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let is_damaged = Sizes::load(header.sizes()).is_none()
        || Sizes::load(copy.sizes()).is_none()
        || [&header.epoch, &copy.epoch]
            .iter()
            .any(|word| unguarded(load(word), &[]).is_none())
        || [&header.magic, &copy.magic]
            .iter()
            .any(|word| load(word) != MAGIC);
    if is_damaged {
        notes.note("the header of the output buffers or its copy is damaged: the other was taken");
    }
    let places = [&header.config_place, &copy.config_place];
    let mut mend = |place: u64| {
        buffers.words.mend_config(place, || {
            notes.note("the description of the sinks is damaged: one byte was mended");
        })
    };
    if buffers.whole_config().is_none() && !places.iter().any(|place| mend(load(place))) {
        damage.has_lost_config = true;
        notes.note("the description of the sinks is damaged: nothing is written to a place that it names");
    } else if places
        .iter()
        .any(|place| buffers.words.config_at(load(place)).is_none())
    {
        notes.note("a place of the description of the sinks is damaged: the other was taken");
    }
}

/// Lists the text of a sink's current buffer behind the fill that is certain.
fn mend_sink(buffers: &Buffers, sink: usize, notes: &mut DamageNotes, damage: &mut BufferDamage) {
    let words = buffers.words.sink(sink);
    if !words.is_damaged(sink) {
        return;
    }
    let epoch = buffers.epoch();
    let mut lines = 0;
    if !words.is_fill_certain(epoch) {
        for index in (0..buffers.buffer_count).filter(|index| buffers.sink_of(*index) == sink) {
            if buffers.words.descriptor(index).true_state() == Some(FILLING) {
                let (from, _) = buffers.filled(sink, index, epoch);
                lines += list_text(buffers, index, from.min(buffers.buffer_bytes), damage);
            }
        }
    }
    notes.note(&format!(
        "the words of sink {sink} are damaged{}",
        of_lines(lines)
    ));
    words.store_mark(sink);
}

fn mend_descriptor(buffers: &Buffers, index: usize, notes: &mut DamageNotes, damage: &mut BufferDamage) {
    let descriptor = buffers.words.descriptor(index);
    if descriptor.true_state().is_some() {
        return;
    }
    if let Some(mended) = mended_words(descriptor) {
        notes.note(&format!(
            "the descriptor of buffer {index} is damaged: one byte was mended"
        ));
        mended.store(descriptor);
        return;
    }
    let lines = list_text(buffers, index, 0, damage);
    notes.note(&format!(
        "the descriptor of buffer {index} is damaged{}",
        of_lines(lines)
    ));
}

fn of_lines(lines: u64) -> String {
    match lines {
        0 => String::new(),
        lines => format!(": {lines} lines of its text are set aside, of which the log may have some"),
    }
}

fn list_text(buffers: &Buffers, index: usize, from: usize, damage: &mut BufferDamage) -> u64 {
    // Where there is no room for blocks that it lacks, it has none.
    let reserved = buffers
        .blocks
        .reserve(index, buffers.buffer_bytes, &buffers.words.mapping);
    if reserved.is_err() {
        return 0;
    }
    let bytes = buffers.bytes_of(index);
    let (end, lines) = whole_lines(bytes, from);
    let text = bytes.get(from..end).unwrap_or(&[]);
    if !text.is_empty() {
        damage.texts.push(text.to_vec());
    }
    lines
}

/// Words of a descriptor of which one byte was damaged.
struct DescriptorValues {
    state: u32,
    /// Those that are valid in the state, as bytes.
    bytes: Vec<u8>,
    checksum: u64,
}

impl DescriptorValues {
    fn store(&self, descriptor: &Descriptor) {
        for (word, part) in descriptor.guarded_words().iter().zip(self.bytes.chunks_exact(8)) {
            let value = part.first_chunk().map_or(0, |part| u64::from_le_bytes(*part));
            // Relaxed: the process is dead.
            word.store(value, Ordering::Relaxed);
        }
        descriptor.checksum.store(self.checksum, Ordering::Relaxed);
        descriptor.state.store(self.state, Ordering::Relaxed);
    }
}

impl Descriptor {
    /// Words that the checksum covers in some state, in its order.
    fn guarded_words(&self) -> [&AtomicU64; 6] {
        [
            &self.sequence,
            &self.length,
            &self.records,
            &self.dev,
            &self.ino,
            &self.offset,
        ]
    }
}

/// Mends one byte of a descriptor or of its checksum; `None` where more is damaged.
fn mended_words(descriptor: &Descriptor) -> Option<DescriptorValues> {
    // Relaxed: the process is dead.
    let stored = descriptor.checksum.load(Ordering::Relaxed);
    let words = descriptor.guarded_words();
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
        .collect();
    let states = [(WRITING, 6), (READY, 3), (FILLING, 1), (FREE, 0)];
    states.into_iter().find_map(|(state, valid)| {
        let mut bytes = bytes.get(..8 * valid).unwrap_or(&[]).to_vec();
        let checksum = Checksum::of_words(&[u64::from(state)]).mend(&mut bytes, stored)?;
        Some(DescriptorValues {
            state,
            bytes,
            checksum,
        })
    })
}
