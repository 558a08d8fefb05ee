//! A session in memory of its process alone, where no run directory has room for one: it ends with the process.

use super::{Home, Keep, Parts, SessionOptions, SessionWriter};
use crate::buffers::{BUFFER_BYTES_MIN, Buffers};
use crate::clock::{ClockSource, unix_ns};
use crate::keep_file::KeepFile;
use crate::memory_file;
use crate::process_identity::ProcessIdentity;
use crate::rules::RulesFile;
use crate::session::memory_files::MemoryFiles;
use crate::session_header::SessionHeader;
use crate::{RingError, sys};
use std::path::Path;

/// Name of its place, in sentences.
pub(super) const PLACE: &str = "memory of the process alone, and lost when that is killed";

/// Makes a session without a directory.
pub(super) fn create(options: &SessionOptions) -> Result<SessionWriter, RingError> {
    let memory = MemoryFiles::make()?;
    let (rules, path) = memory.open("rules")?;
    RulesFile::format(rules, path)?;
    let mapping: sys::Mapping = memory.map("session")?;
    // SAFETY: the page is mapped, aligned and large enough, all fields are atomics, and the reference ends before the
    // mapping does.
    let header = unsafe { &*mapping.base().cast::<SessionHeader>() };
    header.format(
        &ProcessIdentity::own(),
        &options.app,
        ClockSource::detect(),
        unix_ns(),
    );
    let mut parts = Parts::of_memory(&memory)?;
    parts.buffers = buffers(options)?;
    if options.keep_bytes > 0 {
        let bytes = KeepFile::bytes_for(options.keep_bytes);
        let file_bytes = KeepFile::file_bytes(bytes);
        let file = memory_file::make("logdrive-keep", file_bytes, file_bytes)?;
        parts.keep = Some(Keep::of(&file, Path::new(PLACE), bytes)?);
    }
    let home = Home::Private(Box::new(memory));
    Ok(SessionWriter::from_parts(home, parts, options.ring_bytes))
}

/// Memory of a session that only its process has.
pub(crate) fn memory_of(session: &SessionWriter) -> Option<&MemoryFiles> {
    match &session.home {
        Home::Private(memory) => Some(memory),
        _ => None,
    }
}

/// Output buffers, small ones: where shared memory is scarce, other memory may be, too.
fn buffers(options: &SessionOptions) -> Result<Buffers, RingError> {
    let buffer_bytes = options.buffer_bytes.min(BUFFER_BYTES_MIN);
    let bytes = Buffers::file_bytes(options.sink_count * options.buffers_per_sink, buffer_bytes);
    let file = memory_file::make("logdrive-drain", bytes, Buffers::file_bytes(0, 0))?;
    let path = Path::new(PLACE);
    let mut buffers = Buffers::create(
        &file,
        path,
        &options.config,
        options.sink_count,
        options.buffers_per_sink,
        buffer_bytes,
    )?;
    buffers.reserve_later(path);
    (0..options.sinks_at_start.min(options.sink_count)).try_for_each(|sink| buffers.reserve_first(sink))?;
    Ok(buffers)
}
