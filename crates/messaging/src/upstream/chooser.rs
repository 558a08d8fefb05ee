//! The caller's own choice of a member for each request.

use logdrive_ship::upstream::MemberOptions;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Function = dyn Fn(u64, &[u8], &[&MemberOptions]) -> Option<usize> + Send;

/// Function that chooses, if there is one.
#[derive(Default)]
pub(super) struct Chooser(Option<Box<Function>>);

/// Request that a member is wanted for; of messages, the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) key: u64,
    pub(super) request: &'a [u8],
}

impl<'a> Wanted<'a> {
    pub(super) fn of<M: AsRef<[u8]>>(key: u64, messages: &'a [M]) -> Self {
        let request = messages.first().map_or(&[][..], AsRef::as_ref);
        Self { key, request }
    }
}

impl Chooser {
    pub(super) fn new(
        function: impl Fn(u64, &[u8], &[&MemberOptions]) -> Option<usize> + Send + 'static,
    ) -> Self {
        Self(Some(Box::new(function)))
    }

    pub(super) fn choose(&self, wanted: Wanted<'_>, members: &[&MemberOptions]) -> Option<usize> {
        let function = self.0.as_ref()?;
        // Nothing of ours is half done while it runs.
        let chosen = catch_unwind(AssertUnwindSafe(|| function(wanted.key, wanted.request, members)));
        chosen.ok().flatten()
    }
}

impl std::fmt::Debug for Chooser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Chooser").field(&self.0.is_some()).finish()
    }
}
