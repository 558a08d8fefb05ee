//! Following live: what several processes log, merged by time, without being anybody's drain and without help by those
//! processes.
//!
//! A [`Follow`] watches the rings of the sessions that it was given through observers, which store nothing anywhere.
//! [`look`](Follow::look) copies what is new into private memory; [`take`](Follow::take) gives the records that are
//! older than a small window to the caller, in order of time over all rings. A follower that is too slow misses
//! records, which are counted; the process never notices. What a ring says is checked before it is used, as in the
//! drain: a ring that breaks a rule is given up and counted, and the others go on.
//!
//! A thread's name is that of the ring's present owner: a record of a thread that ended within the same look in which
//! another one took its ring over is shown under the new name.

mod process;
mod watched;

use crate::error::BackendError;
use crate::layout::{Layout, LayoutOptions, Line, Out, Outcome, ProcessInfo, Thread};
use crate::limits::{FOLLOWED_HELD_BYTES_MAX, FOLLOWED_MAX};
use logdrive_ring::SessionView;
use logdrive_ring::clock::unix_ns;
use logdrive_wire::Level;
use process::{Process, Site};
use std::path::Path;
use watched::Watched;

/// How sessions are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowOptions {
    /// How lines look.
    pub layout: LayoutOptions,
    /// Records below this level are left out, at next to no cost.
    pub min_level: Level,
    /// How long a record is kept back so that earlier ones of other threads come before it.
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

/// With which records of a session to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With those that are committed from now on.
    Newest,
    /// With the oldest that can be told apart in its rings: all of a young session, else what its drain has not taken.
    Oldest,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Looked {
    /// Bytes of new records.
    pub bytes: u64,
    /// How much of a ring had to be copied, in the ring where it was most: in 256ths of its capacity. Beyond some 200
    /// records are lost, so look more often.
    pub fullest: u32,
}

/// Follows sessions.
///
/// ```
/// use logdrive_drain::follow::{Follow, FollowOptions, From};
/// let mut follow = Follow::new(FollowOptions::default());
/// // for each session: follow.add(SessionView::open(path)?, From::Newest)?;
/// follow.look();
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
    processes: Vec<Process>,
    /// Of processes that are no longer followed.
    missed_before: u64,
    /// Where a line is laid out.
    line: Vec<u8>,
}

/// A process that is no longer followed, because all that it logged was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Whose session it was.
    pub process: ProcessInfo,
    /// The number that [`Follow::add`] gave.
    pub id: u64,
    /// Records of it that were missed.
    pub missed: u64,
}

impl Follow {
    /// Follows nobody so far.
    pub fn new(options: FollowOptions) -> Self {
        Self {
            options,
            processes: Vec::new(),
            missed_before: 0,
            line: vec![0; crate::layout::limits::LINE_BYTES_MAX],
        }
    }

    /// Follows a session from now on, under a number of the caller's choice.
    ///
    /// # Errors
    /// When there are too many, or its layout cannot be made, because a name in it is too long.
    pub fn add(&mut self, id: u64, view: SessionView, from: From) -> Result<(), BackendError> {
        if self.processes.len() >= FOLLOWED_MAX {
            return Err(BackendError::TooManyFollowed { limit: FOLLOWED_MAX });
        }
        let info = ProcessInfo {
            app: view.header().app(),
            pid: view.header().pid(),
            host: String::new(),
        };
        let layout = Layout::new(self.options.layout.clone(), info.clone())?;
        self.processes.push(Process::new(id, view, info, layout, from));
        Ok(())
    }

    /// The sessions that are followed, each with its number.
    pub fn followed(&self) -> impl Iterator<Item = (u64, &Path)> {
        self.processes
            .iter()
            .map(|process| (process.id, process.view.path()))
    }

    /// Sessions whose process has more rings than their view has: each has to be opened anew for [`Follow::extend`]. Only
    /// sessions that an agent has shown can be so.
    pub fn lacking_rings(&self) -> Vec<u64> {
        let lacking = self.processes.iter().filter(|process| process.lacks_rings());
        lacking.map(|process| process.id).collect()
    }

    /// Goes on with another view of the same session, which has more rings.
    pub fn extend(&mut self, id: u64, view: SessionView) {
        if let Some(process) = self.processes.iter_mut().find(|process| process.id == id) {
            process.extend(view);
        }
    }

    /// The process of this session has ended: once all is taken, it is no longer followed.
    pub fn has_ended(&mut self, id: u64) {
        for process in self.processes.iter_mut().filter(|process| process.id == id) {
            process.has_ended = true;
        }
    }

    /// Forgets processes that have ended and of which everything was taken.
    pub fn take_gone(&mut self) -> Vec<Gone> {
        let mut gone = Vec::new();
        self.processes.retain(|process| {
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

    /// Records that were overwritten before they were seen. A few may be told late: a ring's count is exact only while
    /// its thread is outside of a call.
    pub fn missed(&self) -> u64 {
        self.processes.iter().fold(self.missed_before, |sum, process| {
            sum.saturating_add(process.missed())
        })
    }

    /// Rings that broke a rule and are not watched any more, and records that belong to no callsite.
    pub fn damaged(&self) -> u64 {
        self.processes
            .iter()
            .fold(0, |sum, process| sum + process.damaged)
    }

    /// Copies what the processes have committed since the last look. Does not wait.
    pub fn look(&mut self) -> Looked {
        let mut held: usize = self.rings().map(Watched::held_bytes).sum();
        let mut looked = Looked::default();
        for process in &mut self.processes {
            process.renew();
            let (calibration, latest) = (process.calibration, process.now_ticks());
            for ring in &mut process.rings {
                // What nobody takes must not fill the memory: rather it is missed.
                let room = FOLLOWED_HELD_BYTES_MAX.saturating_sub(held);
                match ring.look(room, &calibration, latest) {
                    Ok((bytes, share)) => {
                        held += bytes;
                        looked.bytes += bytes as u64;
                        looked.fullest = looked.fullest.max(share);
                    }
                    Err(_) => {
                        ring.give_up();
                        process.damaged += 1;
                    }
                }
            }
        }
        looked
    }

    fn rings(&self) -> impl Iterator<Item = &Watched> {
        self.processes.iter().flat_map(|process| &process.rings)
    }

    /// Gives records to `each`, in order of time: those that are older than the window, or `all`. Returns how many.
    ///
    /// # Errors
    /// What `each` returns; the record counts as taken.
    pub fn take<E>(
        &mut self,
        all: bool,
        mut each: impl FnMut(&mut Followed<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let held: usize = self.rings().map(Watched::held_bytes).sum();
        // When memory becomes scarce, order has to stand back.
        let until = if all || held > FOLLOWED_HELD_BYTES_MAX / 2 {
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
            let Some(process) = self.processes.get_mut(front.process) else {
                break;
            };
            // A run of one ring is taken without looking at the others.
            loop {
                taken += 1;
                let outcome = process.take_front(front.ring, &self.options, &mut self.line, &mut each);
                let goes_on = process
                    .rings
                    .get(front.ring)
                    .and_then(Watched::front_ns)
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
        for (process, rings) in self.processes.iter().map(|process| &process.rings).enumerate() {
            for (ring, watched) in rings.iter().enumerate() {
                let Some(unix_ns) = watched.front_ns() else {
                    continue;
                };
                let front = Front {
                    unix_ns,
                    process,
                    ring,
                };
                match &oldest {
                    Some(before) if before.unix_ns <= unix_ns => {
                        next = Some(next.map_or(unix_ns, |next| next.min(unix_ns)));
                    }
                    _ => {
                        next = oldest.map(|before| before.unix_ns);
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

/// A record that is taken.
#[derive(Debug)]
pub struct Followed<'a> {
    /// Whose it is.
    pub process: &'a ProcessInfo,
    /// The number of the session.
    pub id: u64,
    /// Its level.
    pub level: Level,
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Name of the thread; empty if it has none.
    pub thread: &'a str,
    record: Line<'a>,
    site: &'a Site,
    layout: &'a mut Layout,
    space: &'a mut [u8],
}

impl Followed<'_> {
    /// Its line as the process itself would write it, with the line's end.
    pub fn line(&mut self) -> &[u8] {
        self.lay_out(false)
    }

    /// Its line with the name of the process: `app[pid]/thread`, or keys of their own.
    pub fn line_with_process(&mut self) -> &[u8] {
        self.lay_out(true)
    }

    fn lay_out(&mut self, named: bool) -> &[u8] {
        let plan = if named { &self.site.named } else { &self.site.plain };
        let mut out = Out::new(self.space);
        if self.layout.line(plan, &self.record, &mut out) == Outcome::Overflow {
            out = Out::new(self.space);
            // A line that not even its mark fits into would be empty; the space is larger.
            let _ = self.layout.line_cut(plan, &self.record, &mut out);
        }
        let length = out.len();
        self.space.get(..length).unwrap_or(b"")
    }
}

/// A thread as layouts want it.
fn thread_of(ring: &Watched) -> Thread<'_> {
    Thread {
        name: &ring.thread_name,
        id: ring.thread_id,
    }
}
