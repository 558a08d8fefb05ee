//! The memory files of a session that an agent holds: header, control, counts, callsites and rules. Made by the agent,
//! passed to the process, kept by both, and shown to the next agent when one has died. See `spec/agent.md`.

use crate::control::ENTRY_BYTES;
use crate::counts::COUNTS_BYTES;
use crate::limits::{CALLSITES_MAX, RESERVE_STEP_BYTES, RULES_FILE_BYTES, TABLE_BYTES_MAX};
use crate::memory_file::{self, MemoryId};
use crate::own_file::OwnFile;
use crate::session_header::SESSION_BYTES;
use crate::{RingError, sys};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// One file of a session: its name in a directory, its size, and how much of it has its blocks from the start.
struct Part {
    name: &'static str,
    bytes: usize,
    reserved: usize,
}

/// In the order in which their descriptors travel.
const PARTS: [Part; MemoryFiles::PARTS] = [
    part("session", SESSION_BYTES, SESSION_BYTES),
    part("control", CALLSITES_MAX * ENTRY_BYTES, RESERVE_STEP_BYTES),
    part("counts", CALLSITES_MAX * COUNTS_BYTES, RESERVE_STEP_BYTES),
    part("callsites", TABLE_BYTES_MAX, RESERVE_STEP_BYTES),
    part("rules", RULES_FILE_BYTES, RULES_FILE_BYTES),
];

const fn part(name: &'static str, bytes: usize, reserved: usize) -> Part {
    Part {
        name,
        bytes,
        reserved,
    }
}

/// The memory files of a session, without its rings.
#[derive(Debug)]
pub struct MemoryFiles {
    files: [OwnFile; Self::PARTS],
    ids: [MemoryId; Self::PARTS],
}

impl MemoryFiles {
    /// Number of the files.
    pub const PARTS: usize = 5;

    /// Makes empty ones, with the blocks of what is used first.
    pub(crate) fn make() -> Result<Self, RingError> {
        let mut files = Vec::with_capacity(Self::PARTS);
        for part in &PARTS {
            let name = format!("logdrive-{}", part.name);
            files.push(memory_file::make(&name, part.bytes as u64, part.reserved as u64)?);
        }
        Self::check(files)
    }

    /// Takes descriptors that came from a peer; each must be what the format says, and no two of the same file.
    ///
    /// # Errors
    /// With the first one that is wrong.
    pub fn check(files: Vec<File>) -> Result<Self, RingError> {
        let found = files.len() as u64;
        let files: [File; Self::PARTS] = files.try_into().map_err(|_| RingError::Damaged {
            what: "session",
            field: "number of descriptors",
            found,
            expected: "header, control, counts, callsites and rules",
        })?;
        let mut ids = Vec::with_capacity(Self::PARTS);
        for (file, part) in files.iter().zip(&PARTS) {
            let id = memory_file::check(file, part.name, part.bytes as u64)?;
            if ids.contains(&id) {
                return Err(twice(part.name));
            }
            ids.push(id);
        }
        let ids = ids.try_into().map_err(|_| twice("session"))?;
        let mut own = Vec::with_capacity(Self::PARTS);
        for file in files {
            let io = |cause| RingError::io("look at", Path::new("session"), cause);
            own.push(OwnFile::new(file).map_err(io)?);
        }
        let files = own.try_into().map_err(|_| twice("session"))?;
        Ok(Self { files, ids })
    }

    /// The descriptors, in the order in which they travel.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; Self::PARTS] {
        self.files.each_ref().map(|file| file.unchecked().as_fd())
    }

    /// Further descriptors of the same files.
    pub(crate) fn copy(&self) -> Result<Self, RingError> {
        let io = |cause| RingError::io("open", Path::new("session"), cause);
        let copy = |file: &OwnFile| file.checked()?.try_clone();
        let files: Result<Vec<File>, _> = self.files.iter().map(copy).collect();
        Self::check(files.map_err(io)?)
    }

    /// Returns whether the program has closed one of the descriptors.
    pub(crate) fn are_lost(&self) -> bool {
        self.files.iter().any(|file| file.checked().is_err())
    }

    /// Identities of the files.
    pub fn ids(&self) -> &[MemoryId] {
        &self.ids
    }

    /// Maps one of the files, whole; its size cannot change.
    pub(crate) fn map(&self, name: &str) -> Result<sys::Mapping, RingError> {
        let (file, bytes) = self.part(name)?;
        sys::Mapping::plain(file, 0, bytes).map_err(|cause| RingError::io("map", Path::new(name), cause))
    }

    /// One of the files, and its size.
    pub(crate) fn part(&self, name: &str) -> Result<(&File, usize), RingError> {
        let found = PARTS.iter().zip(&self.files).find(|(part, _)| part.name == name);
        let (part, file) = found.ok_or_else(|| not_there(name))?;
        let io = |cause| RingError::io("open", Path::new(name), cause);
        Ok((file.checked().map_err(io)?, part.bytes))
    }

    /// One of the files, with a descriptor of its own for its place and its locks; the path is for messages.
    pub(crate) fn open(&self, name: &str) -> Result<(File, PathBuf), RingError> {
        let (file, _) = self.part(name)?;
        let path = PathBuf::from(name);
        match memory_file::open_again(file) {
            Ok(file) => Ok((file, path)),
            Err(cause) => Err(RingError::io("open", path, cause)),
        }
    }
}

/// Two descriptors of one file.
pub(crate) fn twice(what: &'static str) -> RingError {
    RingError::Damaged {
        what,
        field: "descriptor",
        found: 2,
        expected: "a file of its own",
    }
}

fn not_there(name: &str) -> RingError {
    RingError::io("open", Path::new(name), std::io::ErrorKind::NotFound.into())
}
