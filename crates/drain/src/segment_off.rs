//! Segments in a build without them: nothing of this can be made, because no layout of them can.

use logdrive_wire::Callsite;
use std::io::{self, Read, Seek, Write};
use std::sync::atomic::AtomicBool;

pub(crate) const IS_BUILT_IN: bool = false;

#[derive(Debug, Clone)]
pub(crate) enum RowPlan {}

impl RowPlan {
    pub(crate) fn new(_: &Callsite, _: Option<(&str, u32, &str)>) -> Option<Self> {
        None
    }
}

#[derive(Debug, Default)]
pub(crate) struct RowLayout(());

impl RowLayout {
    pub(crate) fn put(
        &mut self,
        plan: &RowPlan,
        _: (u64, &str),
        _: (u64, &[u8]),
        _: &mut [u8],
        _: (usize, usize),
    ) -> Option<usize> {
        match *plan {}
    }

    pub(crate) fn run(&mut self, plan: &RowPlan, _: (u64, &str), _: (usize, usize)) -> Option<RowRun> {
        match *plan {}
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum RowRun {}

impl RowRun {
    pub(crate) fn put(self, _: (u64, &[u8]), _: &mut [u8], _: usize) -> Option<usize> {
        match self {}
    }
}

pub(crate) struct RowPrefix {
    pub(crate) bytes: usize,
    pub(crate) lost: u64,
}

pub(crate) fn readable_rows(bytes: &[u8], _: u64) -> RowPrefix {
    RowPrefix {
        bytes: bytes.len(),
        lost: 0,
    }
}

#[derive(Debug, Default)]
pub(crate) struct BlockEncoder;

impl BlockEncoder {
    pub(crate) fn block(&mut self, _: &[u8]) -> Result<&[u8], String> {
        Err("segments need the feature segments of logdrive-drain".to_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)] // Without segments there are none to rewrite.
pub(crate) enum Compaction {
    Done,
    Stopped,
    Damaged,
}

pub(crate) fn is_segment(_: &[u8]) -> bool {
    false
}

pub(crate) fn is_compact(_: impl Read + Seek, _: Option<i32>) -> io::Result<bool> {
    Ok(true)
}

pub(crate) fn digest(_: impl Read + Seek) -> io::Result<Option<(u64, u64)>> {
    Ok(None)
}

pub(crate) fn rewrite(
    _: impl Read + Seek,
    _: impl Write,
    _: Option<i32>,
    _: &AtomicBool,
) -> io::Result<Compaction> {
    Ok(Compaction::Damaged)
}
