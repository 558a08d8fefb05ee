//! A session of an agent that is gone, written to files: its process ends, and no other process has its memory.

use super::{Home, SessionOptions, SessionWriter};
use crate::RingError;
use crate::buffers::Buffers;
use crate::consumer::Consumer;
use crate::control::ENTRY_BYTES;
use crate::counts::COUNTS_BYTES;
use crate::files::{self, SessionDir};
use crate::limits::RULES_FILE_BYTES;
use crate::ring::Ring;
use crate::session_header::SESSION_BYTES;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time; parts of nothing but zeroes are left out.
const STEP_BYTES: usize = 64 * 1024;

impl SessionWriter {
    /// Returns whether there are records that no drain has released, or drops that were not reported.
    pub fn has_left(&self) -> bool {
        let rings = self.rings_from(0);
        let is_pending = |ring: &std::sync::Arc<Ring>| {
            let pending = Consumer::new(std::sync::Arc::clone(ring)).pending_bytes();
            // What a damaged ring holds is for the recoverer to say.
            pending.is_err() || pending.is_ok_and(|bytes| bytes > 0) || ring.has_unreported()
        };
        rings.iter().any(is_pending) || self.header.totals().dropped.iter().any(|count| *count > 0)
    }

    /// Writes a session that an agent had to files in a run directory, as if it had been made there: a program that
    /// recovers sessions finds it. For a process that ends while its agent is gone, when nothing is logged any more.
    /// The directory that it made; `None` for a session that lies in a directory anyway.
    ///
    /// # Errors
    /// When there is no room in any run directory; what was written is removed again.
    pub fn spill(&self, options: &SessionOptions) -> Result<Option<PathBuf>, RingError> {
        let Home::Agent(agent) = &self.home else {
            return Ok(None);
        };
        let mut failed = None;
        for run_dir in &options.run_dirs {
            let dir = match SessionDir::create(run_dir, &options.app) {
                Ok(dir) => dir,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            match agent.write_to(&dir, self, options) {
                Ok(()) => {
                    self.header.mark_spilled();
                    return Ok(Some(dir.path().to_owned()));
                }
                Err(error) => {
                    // Half a session is useless; the error is the one to report.
                    let _ = dir.remove();
                    failed = Some(error);
                }
            }
        }
        Err(failed.unwrap_or(RingError::Limit {
            what: "run directories",
            limit: 0,
        }))
    }
}

impl super::joined::AgentHome {
    fn write_to(
        &self,
        dir: &SessionDir,
        session: &SessionWriter,
        options: &SessionOptions,
    ) -> Result<(), RingError> {
        let buffer_count = options.sink_count * options.buffers_per_sink;
        let (file, path) =
            dir.create_file("drain", Buffers::file_bytes(buffer_count, options.buffer_bytes))?;
        Buffers::create(
            &file,
            &path,
            &options.config,
            options.sink_count,
            options.buffers_per_sink,
            options.buffer_bytes,
        )?;
        let header = session.header;
        let callsites = header.callsite_count() as usize;
        for (name, bytes) in [
            ("control", (callsites * ENTRY_BYTES) as u64),
            ("counts", (callsites * COUNTS_BYTES) as u64),
            ("callsites", header.table_bytes()),
            ("rules", RULES_FILE_BYTES as u64),
        ] {
            copy_to(dir, name, self.memory().part(name)?.0, bytes)?;
        }
        for (index, (_, from)) in self.files().iter().enumerate() {
            let lost = |cause| RingError::io("read", Path::new("ring"), cause);
            let from = from.checked().map_err(lost)?;
            let bytes = from.metadata().map_err(lost)?.len();
            copy_to(dir, &files::ring_name(index as u32), from, bytes)?;
        }
        // The agent is gone, and its epochs with it.
        header.settle_account(u64::MAX);
        // The header goes last, and its magic behind the rest of it: until then there is no session.
        let memory = self.memory();
        let (from, _) = memory.part("session")?;
        let path = dir.path().join("session");
        dir.with_file(|file| {
            let mut bytes = vec![0; SESSION_BYTES];
            let io = |action| {
                let path = path.clone();
                move |cause| RingError::io(action, path, cause)
            };
            from.read_exact_at(&mut bytes, 0).map_err(io("read"))?;
            let (magic, rest) = bytes.split_at(8);
            file.write_all_at(rest, 8).map_err(io("write"))?;
            file.write_all_at(magic, 0).map_err(io("write"))
        })
    }
}

/// Makes a file of the session with the first bytes of another one.
fn copy_to(dir: &SessionDir, name: &str, from: &File, bytes: u64) -> Result<(), RingError> {
    let (to, path) = dir.create_sparse(name, bytes)?;
    copy(from, &to, &path, bytes)
}

fn copy(from: &File, to: &File, path: &Path, bytes: u64) -> Result<(), RingError> {
    let io = |action| move |cause| RingError::io(action, path, cause);
    let mut buffer = vec![0; STEP_BYTES];
    let mut at = 0;
    while at < bytes {
        let length = buffer
            .len()
            .min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        let part = buffer.get_mut(..length).unwrap_or_default();
        from.read_exact_at(part, at).map_err(io("read"))?;
        if part.iter().any(|byte| *byte != 0) {
            to.write_all_at(part, at).map_err(io("write"))?;
        }
        at += length as u64;
    }
    Ok(())
}
