//! A segment in pages: each of its blocks is one, laid out when it is looked at.
//!
//! A record of text whose lines lie in two blocks is shown as two.

use super::page::{Page, PageBytes};
use crate::filter::Filter;
use crate::segment::{MAGIC, SegmentLines};
use crate::times::Times;
use logdrive_drain::layout::Style;
use logdrive_store::{BlockPlace, BlockPlaces};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// Blocks of a segment that may grow.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    known: Mutex<Known>,
}

/// Blocks that were found so far.
#[derive(Debug, Default)]
struct Known {
    finder: BlockPlaces,
    places: Vec<BlockPlace>,
}

impl Blocks {
    /// Finds the blocks of a file; `None` where it is no segment.
    pub(super) fn of(file: &File, length: u64) -> io::Result<Option<Self>> {
        let mut first = [0; MAGIC.len()];
        if length < first.len() as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut first, 0)?;
        if first != MAGIC {
            return Ok(None);
        }
        let blocks = Self::default();
        blocks.find(file, length)?;
        Ok(Some(blocks))
    }

    /// Finds the blocks that came; of a file that was cut all of them anew.
    pub(super) fn find(&self, file: &File, length: u64) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.places.last().is_some_and(|place| place.end() > length) {
            *known = Known::default();
        }
        while let Some(place) = known.finder.next_place(file, length)? {
            known.places.push(place);
        }
        match known.finder.take_damages().into_iter().next() {
            Some(damage) => Err(io::Error::other(damage.to_string())),
            None => Ok(()),
        }
    }

    /// Number of blocks.
    pub(super) fn count(&self) -> u32 {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(known.places.len()).unwrap_or(u32::MAX)
    }

    /// Reads a block as JSON lines. One that is not there is empty.
    pub(super) fn page(&self, number: u32, file: &File, times: &mut Times) -> io::Result<Page> {
        let place = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.places.get(number as usize).copied()
        };
        let Some(place) = place else {
            return Ok(Page::default());
        };
        let damaged = |error| io::Error::other(place.damage(error).to_string());
        let head = place.read_head(file)?.map_err(damaged)?;
        let block = place.read_body(file, head)?.map_err(damaged)?;
        let mut lines = SegmentLines::new(file.try_clone()?, Style::Json, &Filter::default())
            .map_err(|error| io::Error::other(error.to_string()))?;
        let bytes = lines.of_block(&block).map_err(damaged)?;
        let source = PageBytes {
            own: bytes.len(),
            bytes,
            is_first: true,
            is_end: true,
            is_lines: false,
        };
        Ok(Page::read(source, times).unwrap_or_default())
    }
}
