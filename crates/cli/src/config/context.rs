//! Facts about the machine that a configuration is judged by: accounts, and directories.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Looks things up.
pub(crate) trait Context {
    /// The number of a user.
    fn user(&self, name: &str) -> Option<u32>;

    /// The number of a group.
    fn group(&self, name: &str) -> Option<u32>;

    /// The permissions of a directory; `None` when there is none.
    fn directory_mode(&self, path: &Path) -> Option<u32>;
}

/// This machine.
#[derive(Debug)]
pub(crate) struct Machine;

impl Context for Machine {
    fn user(&self, name: &str) -> Option<u32> {
        let user = nix::unistd::User::from_name(name).ok().flatten()?;
        Some(user.uid.as_raw())
    }

    fn group(&self, name: &str) -> Option<u32> {
        let group = nix::unistd::Group::from_name(name).ok().flatten()?;
        Some(group.gid.as_raw())
    }

    fn directory_mode(&self, path: &Path) -> Option<u32> {
        let metadata = path.metadata().ok()?;
        metadata.is_dir().then(|| metadata.mode() & 0o7777)
    }
}
