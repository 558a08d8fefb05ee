//! Standard input as a source of lines.

use super::lines::{HeldRecord, take_lines};
use crate::error::CollectorError;
use memchr::memrchr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::path::Path;
use std::time::Instant;

/// Standard input, with the front of a line that has not come whole.
#[derive(Debug, Default)]
pub struct Stdin {
    rest: Vec<u8>,
    pub(crate) has_ended: bool,
    held: HeldRecord,
}

impl Stdin {
    /// Appends whole lines, and returns their number. Waits at most 50 ms.
    pub(crate) fn read(
        &mut self,
        lines: &mut Vec<u8>,
        bytes_max: usize,
        last: bool,
    ) -> Result<u32, CollectorError> {
        let Self {
            rest,
            has_ended,
            held,
        } = self;
        let failed = |cause| CollectorError::read(Path::new("-"), cause);
        let stdin = io::stdin();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        // So that acknowledgements and signals are handled while nothing comes.
        let is_ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait)).unwrap_or(0) > 0;
        if is_ready && !*has_ended {
            let held = rest.len();
            rest.resize(held + bytes_max, 0);
            let got = rustix::io::read(&stdin, rest.get_mut(held..).unwrap_or(&mut []));
            let length = match got {
                Ok(length) => length,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {
                    rest.truncate(held);
                    return Ok(0);
                }
                Err(error) => return Err(failed(error.into())),
            };
            rest.truncate(held + length);
            *has_ended = length == 0;
        }
        // A line that never ends is cut into pieces that fit.
        let end = match memrchr(b'\n', rest) {
            Some(at) => at + 1,
            None if *has_ended || last || rest.len() >= bytes_max => rest.len(),
            None => 0,
        };
        let is_full = rest.len() >= bytes_max;
        let end = match *has_ended || last {
            true => end,
            false => held.end(rest.get(..end).unwrap_or_default(), is_full, Instant::now()),
        };
        Ok(take_lines(rest, end, lines))
    }
}
