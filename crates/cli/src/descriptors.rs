//! Descriptors that this process may have at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as it goes: the usual one is for programs that might still use `select`.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, the callers do with fewer.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}
