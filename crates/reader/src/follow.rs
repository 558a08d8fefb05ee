//! Following live: what several processes log, merged by time, without being anybody's drain and without help by those
//! processes.
//!
//! A [`Follow`] watches the rings of the sessions that it was given through ring followers, which store nothing
//! anywhere. [`poll`](Follow::poll) copies what is new into private memory; [`take`](Follow::take) gives the records
//! that are older than a small window to the caller, in order of time over all rings. A follower that is too slow misses
//! records, which are counted; the process never notices. What a ring says is checked before it is used, as in the
//! drain: a ring that breaks a rule is given up and counted, and the others go on.
//!
//! A thread's name is that of the ring's present owner: a record of a thread that ended within the same poll in which
//! another one took its ring over is shown under the new name.

mod record;
mod ring;
mod session;

pub use record::FollowedRecord;
pub use ring::Start;

use crate::error::ReadError;
use crate::limits::{HELD_BYTES_MAX, SESSIONS_MAX};
use crate::typed::message_style;
use logdrive_drain::layout::limits::LINE_BYTES_MAX;
use logdrive_drain::layout::{Layout, LayoutOptions, ProcessInfo};
use logdrive_ring::SessionReader;
use logdrive_ring::clock::unix_ns;
use logdrive_wire::Level;
use record::Layouts;
use ring::WatchedRing;
use session::FollowedSession;
use std::path::Path;

/// Options of a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowOptions {
    /// Layout of lines.
    pub layout: LayoutOptions,
    /// Records below this level are left out, at next to no cost.
    pub min_level: Level,
    /// Nanoseconds for which a record is kept back so that earlier ones of other threads come before it.
    pub window_ns: u64,
}

impl Default for FollowOptions {
    /// Text, all levels, 50 ms.
    fn default() -> Self {
        Self {
            layout: LayoutOptions::default(),
            min_level: Level::Trace,
            window_ns: 50_000_000,
        }
    }
}

/// Amount of what a poll found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Polled {
    /// Bytes of new records.
    pub bytes: u64,
    /// Share of a ring that had to be copied, in the ring where it was most: in 256ths of its capacity. Beyond some 200
    /// records are lost, so poll more often.
    pub fullest: u32,
}

/// Follows sessions.
///
/// ```
/// use logdrive_reader::follow::{Follow, FollowOptions, Start};
/// let mut follow = Follow::new(FollowOptions::default());
/// // for each session: follow.add(SessionReader::open(path)?, Start::Newest)?;
/// follow.poll();
/// follow.take(false, |record| {
///     let _text: &[u8] = record.line();
///     Ok::<(), std::io::Error>(())
/// })?;
/// assert_eq!(follow.missed(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Follow {
    options: FollowOptions,
    sessions: Vec<FollowedSession>,
    /// Of processes that are no longer followed.
    missed_before: u64,
    /// Space in which a line is laid out.
    line: Vec<u8>,
}

/// A process that is no longer followed, because all that it logged was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Process of the session.
    pub process: ProcessInfo,
    /// The number that [`Follow::add`] gave.
    pub id: u64,
    /// Records of it that were missed.
    pub missed: u64,
}

impl Follow {
    /// Returns a follower without sessions.
    pub fn new(options: FollowOptions) -> Self {
        Self {
            options,
            sessions: Vec::new(),
            missed_before: 0,
            line: vec![0; LINE_BYTES_MAX],
        }
    }

    /// Follows a session from now on, under a number of the caller's choice.
    ///
    /// # Errors
    /// When there are too many, or its layout cannot be made, because a name in it is too long.
    pub fn add(&mut self, id: u64, view: SessionReader, start: Start) -> Result<(), ReadError> {
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(ReadError::TooManySessions { limit: SESSIONS_MAX });
        }
        let process = view.header().identity();
        let info = ProcessInfo {
            app: process.app,
            pid: process.pid,
            host: String::new(),
        };
        let layouts = Layouts {
            lines: Layout::new(self.options.layout.clone(), info.clone())?,
            messages: Layout::new(message_style().into(), info.clone())?,
        };
        self.sessions
            .push(FollowedSession::new(id, view, info, layouts, start));
        Ok(())
    }

    /// The sessions that are followed, each with its number.
    pub fn followed(&self) -> impl Iterator<Item = (u64, &Path)> {
        self.sessions
            .iter()
            .map(|process| (process.id, process.view.path()))
    }

    /// Sessions whose process has more rings than their view has: each has to be opened anew for [`Follow::extend`].
    /// Only sessions that an agent has shown can be so.
    pub fn lacking_rings(&self) -> Vec<u64> {
        let lacking = self.sessions.iter().filter(|process| process.lacks_rings());
        lacking.map(|process| process.id).collect()
    }

    /// Goes on with another view of the same session, which has more rings.
    pub fn extend(&mut self, id: u64, view: SessionReader) {
        if let Some(process) = self.sessions.iter_mut().find(|process| process.id == id) {
            process.extend(view);
        }
    }

    /// The process of this session has ended: once all is taken, it is no longer followed.
    pub fn has_ended(&mut self, id: u64) {
        for process in self.sessions.iter_mut().filter(|process| process.id == id) {
            process.has_ended = true;
        }
    }

    /// Forgets processes that have ended and of which everything was taken.
    pub fn take_gone(&mut self) -> Vec<Gone> {
        let mut gone = Vec::new();
        self.sessions.retain(|process| {
            let stays = !process.has_ended || !process.is_taken();
            if !stays {
                gone.push(Gone {
                    process: process.info.clone(),
                    id: process.id,
                    missed: process.missed(),
                });
            }
            stays
        });
        self.missed_before += gone.iter().map(|process| process.missed).sum::<u64>();
        gone
    }

    /// Records that were overwritten before they were seen. A few may be counted late: a ring's count is exact only
    /// while its thread is outside of a call.
    pub fn missed(&self) -> u64 {
        self.sessions.iter().fold(self.missed_before, |sum, process| {
            sum.saturating_add(process.missed())
        })
    }

    /// Rings that broke a rule and are not watched any more, and records that belong to no callsite.
    pub fn damaged(&self) -> u64 {
        self.sessions.iter().fold(0, |sum, process| sum + process.damaged)
    }

    /// Copies what the processes have committed since the last poll. Does not wait.
    pub fn poll(&mut self) -> Polled {
        let mut held: usize = self.rings().map(WatchedRing::held_bytes).sum();
        let mut polled = Polled::default();
        for process in &mut self.sessions {
            process.renew();
            let (calibration, latest) = (process.calibration, process.now_ticks());
            for ring in &mut process.rings {
                // Records that are not taken must not fill the memory: they are missed.
                let room = HELD_BYTES_MAX.saturating_sub(held);
                match ring.poll(room, &calibration, latest) {
                    Some((bytes, share)) => {
                        held += bytes;
                        polled.bytes += bytes as u64;
                        polled.fullest = polled.fullest.max(share);
                    }
                    None => {
                        ring.give_up();
                        process.damaged += 1;
                    }
                }
            }
        }
        polled
    }

    fn rings(&self) -> impl Iterator<Item = &WatchedRing> {
        self.sessions.iter().flat_map(|process| &process.rings)
    }

    /// Gives records to `each`, in order of time: those that are older than the window, or `all`. Returns how many.
    ///
    /// # Errors
    /// Those of `each`; the record counts as taken.
    pub fn take<E>(
        &mut self,
        all: bool,
        mut each: impl FnMut(&mut FollowedRecord<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let held: usize = self.rings().map(WatchedRing::held_bytes).sum();
        // When memory becomes scarce, order has to stand back.
        let until = if all || held > HELD_BYTES_MAX / 2 {
            u64::MAX - 1
        } else {
            unix_ns().saturating_sub(self.options.window_ns)
        };
        let mut taken = 0;
        while let Some((front, next)) = self.two_oldest() {
            if front.unix_ns > until {
                break;
            }
            let limit = next.unwrap_or(u64::MAX).min(until);
            let Some(process) = self.sessions.get_mut(front.process) else {
                break;
            };
            // A run of one ring is taken without a check of the others.
            loop {
                taken += 1;
                let outcome =
                    process.take_front(front.ring, self.options.min_level, &mut self.line, &mut each);
                let goes_on = process
                    .rings
                    .get(front.ring)
                    .and_then(WatchedRing::front_ns)
                    .is_some_and(|front_ns| front_ns <= limit);
                outcome?;
                if !goes_on {
                    break;
                }
            }
        }
        Ok(taken)
    }

    /// The ring with the oldest record, and the time of the oldest in any other ring.
    fn two_oldest(&self) -> Option<(Front, Option<u64>)> {
        let mut oldest: Option<Front> = None;
        let mut next: Option<u64> = None;
        for (process, session) in self.sessions.iter().enumerate() {
            for (ring, watched) in session.rings.iter().enumerate() {
                let Some(unix_ns) = watched.front_ns() else {
                    continue;
                };
                let front = Front {
                    unix_ns,
                    process,
                    ring,
                };
                match oldest {
                    Some(before) if before.unix_ns <= unix_ns => {
                        next = Some(next.map_or(unix_ns, |next| next.min(unix_ns)));
                    }
                    before => {
                        next = before.map(|before| before.unix_ns);
                        oldest = Some(front);
                    }
                }
            }
        }
        oldest.map(|oldest| (oldest, next))
    }
}

/// The record at the front of a ring.
#[derive(Debug, Clone, Copy)]
struct Front {
    unix_ns: u64,
    process: usize,
    ring: usize,
}
