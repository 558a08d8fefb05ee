//! Options of sinks that send, in a build without the feature `ship`: there are none, which the compiler knows.

use crate::error::BackendError;
use crate::layout::{LayoutOptions, ProcessInfo};
use crate::sink::delivery::Delivery;
use crate::status::BackendStatus;
use logdrive_ring::{Buffer, FileLocation};
use std::time::Duration;

/// A collector: none without the feature `ship`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShipOptions {}

/// Methods that cannot be called, as there are no options to call them with.
macro_rules! uncallable {
    ($($(#[$doc:meta])* $visibility:vis fn $name:ident($($argument:ty),*) -> $result:ty;)*) => {
        $($(#[$doc])* $visibility fn $name(&self, $(_: $argument),*) -> $result { match *self {} })*
    };
}

type Unwritten = Vec<(Buffer, FileLocation)>;

impl ShipOptions {
    pub(crate) fn from_text(_: &str) -> Option<Self> {
        None
    }

    uncallable! {
        pub(crate) fn to_text() -> String;
        /// Returns where lines go, for people.
        pub fn destination() -> String;
        pub(crate) fn has_spool() -> bool;
        pub(crate) fn spool_path() -> Option<std::path::PathBuf>;
        pub(crate) fn answers(Duration) -> bool;
        pub(crate) fn start(&LayoutOptions, &ProcessInfo, usize, &BackendStatus) -> Result<Box<dyn Delivery>, BackendError>;
        pub(crate) fn finish(Unwritten, &mut Vec<Buffer>, (&LayoutOptions, &ProcessInfo), &BackendStatus) -> Result<Unwritten, BackendError>;
    }
}
