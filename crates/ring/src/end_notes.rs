//! Notes about the end of a process in the header of its session: what the process itself could say of it, and what was so
//! when it began. Drawn in `spec/session.md`.

use crate::backtrace;
use crate::memory_kills::{MemoryKills, OutOfMemory};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// In `exit`: the process has begun its exit.
const EXIT_BEGUN: u32 = 1 << 31;

/// In `exit`, besides: with the status in the low bits.
const EXIT_STATUS: u32 = 1 << 30;

/// The header from offset 384 on.
#[repr(C)]
#[derive(Debug)]
pub struct EndNotes {
    signal: AtomicU32,
    panics: AtomicU32,
    thread: AtomicU64,
    unix_ns: AtomicU64,
    exit: AtomicU32,
    backtrace_bytes: AtomicU32,
    /// Kills for lack of memory when the session began: the control group, its count, and that of the machine.
    start_kills: [AtomicU64; 3],
    rest: AtomicU64,
    /// The calls of the thread that was stopped by a fatal signal, as text.
    backtrace: [AtomicU64; backtrace::TEXT_BYTES / 8],
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(offset_of!(EndNotes, exit) == 408 - 384);
    assert!(offset_of!(EndNotes, start_kills) == 416 - 384);
    assert!(offset_of!(EndNotes, backtrace) == 448 - 384);
    assert!(size_of::<EndNotes>() == 1984 - 384);
};

impl EndNotes {
    /// The fatal signal that was noted: its number, the thread, and the time in nanoseconds since 1970.
    pub(crate) fn signal(&self) -> Option<(u32, u64, u64)> {
        // SYNC(end)
        let signal = self.signal.load(Ordering::Acquire);
        (signal != 0).then(|| {
            (
                signal,
                self.thread.load(Ordering::Relaxed),
                self.unix_ns.load(Ordering::Relaxed),
            )
        })
    }

    /// Number of panics so far.
    pub(crate) fn panics(&self) -> u32 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Notes a fatal signal. Safe to call from a signal handler: plain stores.
    pub(crate) fn note_signal(&self, signal: u32, thread_id: u64, unix_ns: u64) {
        self.thread.store(thread_id, Ordering::Relaxed);
        self.unix_ns.store(unix_ns, Ordering::Relaxed);
        // SYNC(end): thread and time are visible to a process that sees the signal.
        self.signal.store(signal, Ordering::Release);
    }

    /// Takes the note of a signal back: a handler of the program has dealt with it.
    pub(crate) fn forget_signal(&self) {
        // SYNC(end)
        self.signal.store(0, Ordering::Release);
    }

    /// Notes the calls of the thread that a fatal signal has stopped. Safe to call from a signal handler.
    pub(crate) fn note_backtrace(&self, text: &[u8]) {
        let mut words = text.chunks(8);
        for word in &self.backtrace {
            let mut bytes = [0; 8];
            let Some(chunk) = words.next() else { break };
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        let length = text.len().min(backtrace::TEXT_BYTES) as u32;
        // SYNC(end backtrace): the text is visible to a process that sees its length.
        self.backtrace_bytes.store(length, Ordering::Release);
    }

    /// The calls of the thread that was stopped by a fatal signal: files and places in them, the innermost first. Empty
    /// where nothing was noted. Allocates.
    pub fn backtrace(&self) -> String {
        // SYNC(end backtrace)
        let length = self.backtrace_bytes.load(Ordering::Acquire) as usize;
        let words = self.backtrace.iter();
        let bytes = words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        // It is the process's own text: nothing but plain characters goes on.
        let shown = |byte: u8| if (b' '..=b'~').contains(&byte) { byte } else { b'?' };
        bytes.take(length).map(|byte| char::from(shown(byte))).collect()
    }

    /// Notes that the process ends by `exit`, with a status where it is known. Safe to call from a signal handler.
    pub(crate) fn note_exit(&self, status: Option<u8>) {
        let status = status.map_or(0, |status| EXIT_STATUS | u32::from(status));
        // Relaxed: a word that is valid by itself.
        self.exit.store(EXIT_BEGUN | status, Ordering::Relaxed);
    }

    /// `Some` once the process has begun to end by `exit`: with its status, where that is known.
    pub fn exit(&self) -> Option<Option<u8>> {
        // Relaxed: see `note_exit`.
        let word = self.exit.load(Ordering::Relaxed);
        (word & EXIT_BEGUN != 0).then(|| (word & EXIT_STATUS != 0).then_some(word as u8))
    }

    /// Notes the kernel's counts of kills for lack of memory at the start of the process. Reads three files at most.
    pub fn note_start_kills(&self) {
        let kills = MemoryKills::now();
        for (word, count) in (self.start_kills.iter()).zip([kills.group, kills.in_group, kills.on_machine]) {
            // Relaxed: each is valid by itself, and compared with counts of later only.
            word.store(count, Ordering::Relaxed);
        }
    }

    /// Kills for lack of memory since the start of the process; `None` where the kernel has counted none, or nothing can
    /// be known of it. Reads three files at most.
    pub fn memory_kills(&self) -> Option<OutOfMemory> {
        // Relaxed: see `note_start_kills`.
        let [group, in_group, on_machine] =
            core::array::from_fn(|index| self.start_kills[index].load(Ordering::Relaxed));
        let start = MemoryKills {
            group,
            in_group,
            on_machine,
        };
        start.until(MemoryKills::now())
    }

    /// Counts a panic.
    pub fn note_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }
}
