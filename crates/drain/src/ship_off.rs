//! Sinks that send, in a build without the feature `ship`: there are none, which the compiler knows.

use crate::error::BackendError;
use crate::layout::{LayoutOptions, ProcessInfo};
use crate::status::BackendStatus;
use logdrive_ring::{Buffer, FileLocation};
use std::time::Duration;

/// A collector: none without the feature `ship`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShipOptions {}

impl ShipOptions {
    pub(crate) fn to_text(&self) -> String {
        match *self {}
    }

    pub(crate) fn from_text(_: &str) -> Option<Self> {
        None
    }

    /// Where lines go, for people.
    pub fn destination(&self) -> String {
        match *self {}
    }

    pub(crate) fn has_spool(&self) -> bool {
        match *self {}
    }

    pub(crate) fn answers(&self, _: Duration) -> bool {
        match *self {}
    }

    pub(crate) fn finish(
        &self,
        _: Vec<(Buffer, FileLocation)>,
        _: &mut Vec<Buffer>,
        _: &LayoutOptions,
        _: &ProcessInfo,
    ) -> Result<Vec<(Buffer, FileLocation)>, BackendError> {
        match *self {}
    }
}

/// What has become of what was sent.
#[derive(Debug)]
#[allow(dead_code, reason = "made with the feature `ship` alone")]
pub(crate) enum Done {
    Buffer(Buffer),
    Ticket(u64),
}

/// A sink that sends.
#[derive(Debug)]
pub(crate) enum Shipping {}

impl Shipping {
    pub(crate) fn start(
        options: &ShipOptions,
        _: &LayoutOptions,
        _: &ProcessInfo,
        _: usize,
        _: &BackendStatus,
    ) -> Result<Self, BackendError> {
        match *options {}
    }

    pub(crate) fn send(&mut self, _: Buffer) {
        match *self {}
    }

    pub(crate) fn note_ticket(&mut self, _: u64) {
        match *self {}
    }

    pub(crate) fn done(&mut self) -> Option<Done> {
        match *self {}
    }

    pub(crate) fn state_change(&mut self) -> Option<(bool, String)> {
        match *self {}
    }

    pub(crate) fn look_in(&self) -> Option<Duration> {
        match *self {}
    }

    pub(crate) fn is_settled(&self) -> bool {
        match *self {}
    }

    pub(crate) fn close(self) {
        match self {}
    }
}
