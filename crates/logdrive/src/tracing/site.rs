//! Callsites of `tracing`: control word and constant message of each `Metadata`.

use super::constant::find_constant;
use super::level_of;
use crate::dynamic::limits::TRACING_SITES;
use crate::dynamic::{Table, hash_address, hash_words};
use crate::statement::Statement;
use crate::{runtime, sampling};
use logdrive_drain::control::is_off;
use logdrive_ring::control::{ControlRef, OFF, OFF_COUNTED, ON, UNREGISTERED};
use logdrive_ring::local::{self, Section};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::limits::FIELDS_MAX;
use logdrive_wire::{Callsite, Field, Kind, Level};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing_core::{Event, Interest, Metadata};

/// Returns true if the callsite of this metadata is on.
#[inline]
pub(super) fn is_enabled(metadata: &Metadata<'_>) -> bool {
    match SITES.find(hash_address(metadata), |site| is_of(site, metadata)) {
        Some(site) => site.is_enabled(),
        None => is_enabled_elsewhere(metadata),
    }
}

#[cold]
fn is_enabled_elsewhere(metadata: &Metadata<'_>) -> bool {
    match further(std::ptr::from_ref(metadata).addr()) {
        Some(site) => site.is_enabled(),
        // A description that was made for the question, or a callsite that another thread is registering.
        None => runtime::allows(metadata.target(), level_of(metadata)).unwrap_or(false),
    }
}

/// The callsite at an address that found no place in the table; `None` also for a handler that interrupts the logger.
fn further(address: usize) -> Option<&'static Site> {
    if local::is_busy() {
        return None;
    }
    let _section = Section::masked();
    let further = FURTHER.lock().unwrap_or_else(PoisonError::into_inner);
    further.get(&address).copied()
}

/// The metadata at an address, which is that of a callsite.
pub(super) fn at(address: usize) -> Option<&'static Metadata<'static>> {
    let is = |site: &Site| std::ptr::from_ref(site.metadata).addr() == address;
    let site = SITES
        .find(hash_words(address as u64, 0), is)
        .or_else(|| further(address));
    site.map(|site| site.metadata)
}

/// By address: a description that does not live for ever has the address of none that does.
#[inline]
fn is_of(site: &Site, metadata: &Metadata<'_>) -> bool {
    std::ptr::from_ref(site.metadata).addr() == std::ptr::from_ref(metadata).addr()
}

/// A callsite. There is one per `Metadata`, for the rest of the program; what a call reads is one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Site {
    control: ControlRef,
    metadata: &'static Metadata<'static>,
    /// The message that the first event had, if it came in one piece.
    message: OnceLock<&'static str>,
    /// True if the table of the running session holds it.
    message_in_table: AtomicBool,
    urgent: bool,
    /// True if fields of some span of this callsite have changed.
    has_changed: AtomicBool,
    /// Index of the field `message`; beyond all fields where there is none.
    message_index: u16,
}

const _: () = assert!(size_of::<Site>() == 64);

static SITES: Table<Site, TRACING_SITES> = Table::new();
/// Those that found no place in the table.
static FURTHER: Mutex<BTreeMap<usize, &'static Site>> = Mutex::new(BTreeMap::new());

impl Site {
    /// Returns the entry of a callsite.
    #[inline]
    pub(super) fn of(metadata: &'static Metadata<'static>) -> &'static Site {
        let hash = hash_address(metadata);
        match SITES.find(hash, |site| is_of(site, metadata)) {
            Some(site) => site,
            None => Self::make(hash, metadata),
        }
    }

    #[cold]
    fn make(hash: u64, metadata: &'static Metadata<'static>) -> &'static Site {
        let is = |site: &Site| is_of(site, metadata);
        // Handlers wait: `tracing` makes its callsites under a lock of its own, which it does not give away in handlers.
        let _section = Section::masked();
        SITES
            .find_or_make(hash, is, || Site::new(metadata))
            .unwrap_or_else(|| {
                let mut further = FURTHER.lock().unwrap_or_else(PoisonError::into_inner);
                let address = std::ptr::from_ref(metadata).addr();
                further
                    .entry(address)
                    .or_insert_with(|| Box::leak(Box::new(Site::new(metadata))))
            })
    }

    fn new(metadata: &'static Metadata<'static>) -> Self {
        let message = metadata
            .fields()
            .iter()
            .find(|field| field.name() == "message" && metadata.is_event());
        Self {
            metadata,
            control: ControlRef::unregistered(),
            urgent: level_of(metadata).is_urgent(),
            message_index: message.map_or(u16::MAX, |field| field.index() as u16),
            message: OnceLock::new(),
            message_in_table: AtomicBool::new(false),
            has_changed: AtomicBool::new(false),
        }
    }

    /// Returns true if fields of its spans may change, as far as is known.
    #[inline]
    pub(super) fn may_change(&self) -> bool {
        // Relaxed: a hint.
        self.has_changed.load(Ordering::Relaxed)
    }

    /// Fields of a span have changed.
    pub(super) fn note_change(&self) {
        self.has_changed.store(true, Ordering::Relaxed);
    }

    /// Index of the field `message`; beyond all fields where there is none.
    #[inline]
    pub(super) fn message_index(&self) -> usize {
        usize::from(self.message_index)
    }

    /// The message that a record need not carry.
    #[inline]
    pub(super) fn constant(&self) -> Option<&str> {
        // Relaxed: it was stored before the control entry was bound, and is read after the entry was.
        let in_table = self.message_in_table.load(Ordering::Relaxed);
        if in_table {
            self.message.get().copied()
        } else {
            None
        }
    }

    /// Returns true if the event goes on: the callsite's number in the session, with the marks of `sampling`. Counts what does
    /// not.
    #[inline]
    pub(super) fn admit(&'static self, event: &Event<'_>) -> Option<u32> {
        let entry = self.control.entry();
        match entry.control() {
            ON => Some(entry.id()),
            OFF => {
                local::count_disabled();
                None
            }
            _ => self.admit_slowly(event),
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_slowly(&'static self, event: &Event<'_>) -> Option<u32> {
        if self.control.entry().control() == UNREGISTERED {
            // With its message known, the table can hold it. A callsite that is off is entered without.
            if self.message.get().is_none()
                && let Some(text) = find_constant(event, self.message_index())
            {
                // Another thread may have set it; it then is the constant.
                let _ = self.message.set(String::leak(text));
            }
        }
        sampling::admit(self.entry()?)
    }

    /// Returns the interest that `tracing` may remember. A callsite that is off is asked about at
    /// every call, so that its control word can switch it on.
    pub(super) fn interest(&self) -> Interest {
        match runtime::allows(self.metadata.target(), self.level()) {
            Some(true) => Interest::always(),
            _ => Interest::sometimes(),
        }
    }

    fn level(&self) -> Level {
        level_of(self.metadata)
    }

    /// The answer to the question. Counts events that are off; the others are counted when they come.
    #[inline]
    pub(super) fn is_enabled(&'static self) -> bool {
        match self.control.entry().control() {
            OFF | OFF_COUNTED => {
                if self.metadata.is_event() {
                    local::count_disabled();
                }
                false
            }
            UNREGISTERED => self.is_enabled_at_first(),
            _ => true,
        }
    }

    #[cold]
    #[inline(never)]
    fn is_enabled_at_first(&'static self) -> bool {
        match runtime::allows(self.metadata.target(), self.level()) {
            // The event enters the callsite, with its message.
            Some(true) if self.metadata.is_event() => true,
            // Nothing runs: an event is counted as such, and a span may outlive the start.
            None => !self.metadata.is_event() || self.entry_if_on().is_some(),
            Some(_) if self.metadata.is_event() => self.entry_if_on().is_some(),
            Some(_) => self.is_shown(),
        }
    }

    /// Returns true if a span is on. Enters it into the table, so that its control word can switch it.
    #[inline]
    pub(super) fn is_shown(&'static self) -> bool {
        let entry = self.control.entry();
        match entry.control() {
            OFF | OFF_COUNTED => false,
            UNREGISTERED => self.is_shown_at_first(),
            _ => true,
        }
    }

    #[cold]
    #[inline(never)]
    fn is_shown_at_first(&'static self) -> bool {
        // Spans are not calls, so nothing is counted where nothing runs.
        if runtime::allows(self.metadata.target(), self.level()).is_none() {
            return true;
        }
        self.entry().is_none_or(|entry| !is_off(entry.control()))
    }
}

impl Statement for &'static Site {
    #[inline]
    fn control(&self) -> &'static ControlRef {
        &self.control
    }

    #[inline]
    fn is_urgent(&self) -> bool {
        self.urgent
    }

    fn describe(&self) -> Callsite {
        let message = if self.metadata.is_event() {
            self.message.get().copied().unwrap_or("")
        } else {
            self.metadata.name()
        };
        // Relaxed: published by the binding of the control entry, which follows.
        self.message_in_table
            .store(!message.is_empty() && self.metadata.is_event(), Ordering::Relaxed);
        let module = self.metadata.module_path().unwrap_or("");
        let target = self.metadata.target();
        let fields = self.metadata.fields().iter().take(FIELDS_MAX);
        Callsite {
            level: level_of(self.metadata),
            dynamic: true,
            line: self.metadata.line().unwrap_or(0),
            file: self.metadata.file().unwrap_or("").to_owned(),
            module: module.to_owned(),
            target: if target == module {
                String::new()
            } else {
                target.to_owned()
            },
            message: message.to_owned(),
            fields: fields
                .map(|field| Field {
                    name: field.name().to_owned(),
                    kind: FieldKind::plain(Kind::None),
                    argument: field.index() == self.message_index(),
                })
                .collect(),
        }
    }
}
