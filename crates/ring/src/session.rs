//! A session: all that one process shares. The process that logs has its writing handle, and each process that drains,
//! reads or recovers it has a reading handle of the same memory, which lies in a directory or in sealed memory files.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod hosted;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod memory_files;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) mod no_agent;
pub(crate) mod reader;
pub(crate) mod writer;

use crate::RingError;
use crate::files::open_existing;
#[cfg(any(target_os = "linux", target_os = "android"))]
use memory_files::MemoryFiles;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Memory of a session.
#[derive(Debug)]
pub(crate) enum SessionMemory {
    /// Files in a directory.
    Directory(PathBuf),
    /// Sealed memory files, which an agent and a process share.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Files {
        /// Socket of the agent, for messages.
        path: PathBuf,
        /// Memory files of the session without its rings.
        files: Box<MemoryFiles>,
        /// Files of the rings that were shown with them.
        rings: Vec<File>,
    },
}

impl SessionMemory {
    /// Directory of the session, or the socket of its agent.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Files { path, .. } => path,
        }
    }

    /// Opens a file of the session; the path is for messages.
    pub(crate) fn open(&self, name: &str) -> Result<(File, PathBuf), RingError> {
        match self {
            Self::Directory(path) => {
                let path = path.join(name);
                Ok((open_existing(&path)?, path))
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Files { files, .. } => files.open(name),
        }
    }
}
