//! The destination of a file sink: whole chunks of lines in, a rotating log on disk out.
//!
//! Synchronous and driven by one thread. It knows nothing of records, and every time is an argument.
//! [`LogFile`] is the log, [`rewrite`] finishes after a kill what its writer could not, and
//! [`Storage`] is the seam where tests let the disk fail.
//!
//! A log has one owner at a time, by an exclusive lock (`flock`) on the active file. That file has the
//! configured path; rotation names it `NAME.2026-11-21T12-34-56Z.000001.log`, by the time of the rotation
//! and a number that counts the rotations of the log, and compression adds `.gz` or `.zst`.

mod active;
mod beside;
mod calendar;
mod compact;
mod compact_segment;
mod compress;
mod directory;
mod error;
mod faulty;
pub(crate) mod limits;
mod link;
mod log_file;
mod names;
mod notices;
mod open;
mod open_dir;
mod options;
mod retention;
mod rewrite;
mod rotation;
mod storage;
mod tidy;
mod tidy_thread;
mod unfinished;
mod unsynced;

pub use active::Placement;
pub use compact_segment::{Compacted, compact_segment};
pub use error::{FileError, FileOperation, SyncFailed, UnsyncedRange, WriteFailed};
pub use faulty::{Fault, Faulty, Operation};
pub use log_file::LogFile;
pub use names::safe_name;
pub(crate) use open::is_locked;
pub use options::{Compress, Every, FileOptions, RotatedFiles};
pub use rewrite::{NotInPlace, Rewrite, rewrite};
pub use storage::{Disk, FileKind, OpenMode, RenameMode, Stat, Storage};
pub(crate) use unfinished::BESIDE_LOG;
