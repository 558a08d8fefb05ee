//! Positions in log files that survive renaming.

/// Position in a file, whatever the file is called by now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilePosition {
    /// Device of the file; 0 for no file.
    pub dev: u64,
    /// Inode of the file; 0 for no file.
    pub ino: u64,
    /// Bytes before the position.
    pub offset: u64,
}
