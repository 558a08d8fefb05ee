//! Callsites of `log`: control word and constant message of each statement.
//!
//! `log` has no callsites: a statement is known by its place, target and level. Targets may be made at the call, so the
//! number of entries is bounded; records of further statements share one callsite per level.

use super::level_of;
use crate::dynamic::limits::{CONSTANT_MESSAGE_BYTES_MAX, LOG_PLACES, LOG_SITES_MAX};
use crate::dynamic::{Table, hash_words};
use crate::statement::Statement;
use crate::{runtime, sampling};
use log::Record;
use logdrive_drain::control::is_off;
use logdrive_ring::control::{ControlRef, OFF, ON};
use logdrive_ring::local::{self, Section};
use logdrive_wire::{Callsite, Level};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A statement of `log` with its target.
#[derive(Debug)]
pub(super) struct Site {
    control: ControlRef,
    level: Level,
    line: u32,
    file: &'static str,
    module: &'static str,
    target: &'static str,
    /// The literal message of the first record. Later ones may differ: a macro of the program may hold the statement.
    message: Option<&'static str>,
    /// True if it stands for all statements that found no entry.
    is_shared: bool,
}

static SITES: Table<Site, LOG_PLACES> = Table::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// By level, from trace to error.
static SHARED: [Site; 5] = [
    Site::shared(Level::Trace),
    Site::shared(Level::Debug),
    Site::shared(Level::Info),
    Site::shared(Level::Warn),
    Site::shared(Level::Error),
];

impl Site {
    /// Returns the callsite of a record.
    #[inline]
    pub(super) fn of(record: &Record<'_>) -> &'static Site {
        let hash = hash_of(record);
        match SITES.find(hash, |site| site.is_of(record)) {
            Some(site) => site,
            None => Self::make(hash, record),
        }
    }

    #[cold]
    fn make(hash: u64, record: &Record<'_>) -> &'static Site {
        // A handler that interrupts the logger may meet an entry that is being made.
        let is_busy = local::is_busy();
        let _section = Section::masked();
        // Relaxed: a bound, which some threads at once may overstep by one each.
        if !is_busy && COUNT.load(Ordering::Relaxed) < LOG_SITES_MAX {
            let make = || {
                COUNT.fetch_add(1, Ordering::Relaxed);
                Site::new(record)
            };
            if let Some(site) = SITES.find_or_make(hash, |site| site.is_of(record), make) {
                return site;
            }
        }
        let [trace, debug, info, warn, error] = &SHARED;
        match record.level() {
            log::Level::Trace => trace,
            log::Level::Debug => debug,
            log::Level::Info => info,
            log::Level::Warn => warn,
            log::Level::Error => error,
        }
    }

    fn new(record: &Record<'_>) -> Self {
        let module = keep(record.module_path_static(), record.module_path().unwrap_or(""));
        let is_module = std::ptr::eq(record.target(), module);
        Self {
            control: ControlRef::unregistered(),
            level: level_of(record.level()),
            line: record.line().unwrap_or(0),
            file: keep(record.file_static(), record.file().unwrap_or("")),
            module,
            target: keep(is_module.then_some(module), record.target()),
            message: record
                .args()
                .as_str()
                .filter(|text| !text.is_empty() && text.len() <= CONSTANT_MESSAGE_BYTES_MAX),
            is_shared: false,
        }
    }

    const fn shared(level: Level) -> Self {
        Self {
            control: ControlRef::unregistered(),
            level,
            line: 0,
            file: "",
            module: "",
            target: "",
            message: None,
            is_shared: true,
        }
    }

    #[inline(always)]
    fn is_of(&self, record: &Record<'_>) -> bool {
        self.line == record.line().unwrap_or(0)
            && self.level == level_of(record.level())
            && is_same(self.target, record.target())
            && is_same(self.file, record.file().unwrap_or(""))
            && is_same(self.module, record.module_path().unwrap_or(""))
    }

    /// The message that a record need not carry.
    pub(super) fn message(&self) -> Option<&'static str> {
        self.message
    }

    /// Returns true if records have to say themselves where they come from.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns true if the record goes on: the callsite's number in the session, with the marks of `sampling`. Counts what
    /// does not.
    #[inline]
    pub(super) fn admit(&'static self, record: &Record<'_>) -> Option<u32> {
        let entry = self.control.entry();
        match entry.control() {
            ON if !self.is_shared => Some(entry.id()),
            OFF if !self.is_shared => {
                local::count_disabled();
                None
            }
            _ => self.admit_slowly(record),
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_slowly(&'static self, record: &Record<'_>) -> Option<u32> {
        let entry = self.entry()?;
        // A shared callsite has no target of its own, so the filter is asked for each of its records.
        if self.is_shared && runtime::allows(record.target(), self.level) == Some(false) {
            local::count_disabled();
            return None;
        }
        // The filter's word for it as a whole says nothing about its records.
        match entry.control() {
            word if self.is_shared && is_off(word) => Some(sampling::number(entry.id())),
            _ => sampling::admit(entry),
        }
    }
}

impl Statement for &'static Site {
    fn control(&self) -> &'static ControlRef {
        &self.control
    }

    fn is_urgent(&self) -> bool {
        self.level.is_urgent()
    }

    fn ignores_filter(&self) -> bool {
        self.is_shared
    }

    fn describe(&self) -> Callsite {
        Callsite {
            level: self.level,
            dynamic: true,
            line: self.line,
            file: self.file.to_owned(),
            module: self.module.to_owned(),
            target: if self.target == self.module {
                String::new()
            } else {
                self.target.to_owned()
            },
            message: self.message.unwrap_or("").to_owned(),
            fields: Vec::new(),
        }
    }
}

/// A text for the rest of the program.
fn keep(fixed: Option<&'static str>, text: &str) -> &'static str {
    fixed.unwrap_or_else(|| String::leak(text.to_owned()))
}

/// Returns true if a text is the one that is kept. Mostly it is the very same: nothing else can have its address, which is
/// never freed.
#[inline]
fn is_same(kept: &'static str, text: &str) -> bool {
    std::ptr::eq(kept, text) || kept == text
}

/// Of what is the same for all records of a statement, whether or not its texts were made at the call.
#[inline]
fn hash_of(record: &Record<'_>) -> u64 {
    let file = record.file().unwrap_or("");
    let place = file.len() as u64 | u64::from(record.line().unwrap_or(0)) << 16;
    let target = record.target().as_bytes();
    // A made target differs at its end, if anywhere.
    let tail = target
        .last_chunk::<8>()
        .map_or(0, |tail| u64::from_le_bytes(*tail));
    hash_words(place, tail ^ (target.len() as u64) << 8 ^ record.level() as u64)
}
