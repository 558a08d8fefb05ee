//! Callsites of front ends in other languages. Such a front end encodes its callsites and values by `spec/record.md`
//! and writes records into the thread's ring by itself (`logdrive_ring::local::thread_state`). What it cannot do there comes
//! here, with the values encoded: the first call, a full ring, samples, records that are too long.
//!
//! Callsites are copied and kept for ever, so that it does not matter where the caller's own description lies, or
//! whether the library that holds it is unloaded. One that is described again, byte for byte, is the same.

use crate::capture::cut::{equal_part, kept};
use crate::capture::limits::CUT_MARK;
use crate::site::{drop_call, write_slowly};
use crate::{runtime, sampling};
use logdrive_drain::control::is_off;
use logdrive_ring::control::{ControlEntry, ControlRef, KeyField, ON, UNREGISTERED};
use logdrive_ring::{DropReason, StaticCell, local};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::record::{HEADER_BYTES, align_up};
use logdrive_wire::{Callsite, Cursor, Kind, Value};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Callsites that are kept at most: four times what a session takes, for programs that load and unload libraries.
const SITES_MAX: usize = 4 * logdrive_ring::limits::CALLSITES_MAX;

/// A callsite of another language. Its first word is the address of its control entry.
#[derive(Debug)]
#[repr(C)]
pub struct ForeignSite {
    control: ControlRef,
    callsite: Callsite,
}

type Sites = HashMap<Box<[u8]>, &'static ForeignSite>;

/// StaticCell with its lock, because the child of a `fork` may find that locked for ever; the child begins anew.
static SITES: StaticCell<Mutex<Sites>> = StaticCell::empty();

/// Forgets the list of callsites, whose lock may be held by a thread that this process has not. The callsites stay.
fn forget_sites() {
    SITES.clear();
}

impl ForeignSite {
    /// The callsite with this description. `None` when it cannot be read, there are too many, or a signal handler asks
    /// inside of a log call; counted as a drop.
    pub fn intern(description: &[u8]) -> Option<&'static Self> {
        if local::is_busy() {
            runtime::count_drop(DropReason::Reentrant);
            return None;
        }
        let site = Self::find_or_keep(description);
        if site.is_none() {
            runtime::count_drop(DropReason::NoCallsite);
        }
        site
    }

    fn find_or_keep(description: &[u8]) -> Option<&'static Self> {
        runtime::on_fork(forget_sites);
        let mut sites = SITES
            .value_or(Mutex::default)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = sites.get(description) {
            return Some(site);
        }
        let callsite = Callsite::decode(description).ok()?;
        if callsite.dynamic || sites.len() >= SITES_MAX {
            return None;
        }
        let site: &'static Self = Box::leak(Box::new(Self {
            control: ControlRef::unregistered(),
            callsite,
        }));
        sites.insert(description.into(), site);
        Some(site)
    }

    /// Returns true if a call goes on, where its control word does not say so at once. Registers the callsite the first time.
    #[cold]
    pub fn admit(&'static self) -> bool {
        let mut entry = self.control.entry();
        if sampling::is_left_out(entry) {
            return false;
        }
        if entry.control() == UNREGISTERED {
            match self.register() {
                Some(registered) => entry = registered,
                None => return false,
            }
        }
        if is_off(entry.control()) {
            // Counts where that is asked for.
            let _ = sampling::admit_uncommon(entry);
            return false;
        }
        true
    }

    fn register(&'static self) -> Option<&'static ControlEntry> {
        runtime::register(&self.control, &|| self.callsite.clone())
    }

    /// Writes one record with these values, encoded; whether it is committed. What is not is counted.
    #[cold]
    pub fn write(&'static self, values: &[u8]) -> bool {
        let mut entry = self.control.entry();
        if entry.control() == UNREGISTERED {
            match self.register() {
                Some(registered) => entry = registered,
                None => return false,
            }
        }
        let marked = match entry.control() {
            ON => Some(entry.id()),
            _ => sampling::admit_uncommon(entry),
        };
        let Some(marked) = marked else { return false };
        if sampling::is_keyed(marked) && !sampling::pass_key(entry, self.key(entry, values).as_ref()) {
            return false;
        }
        let once = local::is_ending() && !local::is_busy() && runtime::attach_for_one_call().is_ok();
        let committed = self.put(entry, marked, values);
        if once {
            local::detach_thread();
        }
        committed
    }

    fn put(&'static self, entry: &'static ControlEntry, marked: u32, values: &[u8]) -> bool {
        let sampled_variant = sampling::is_one_of_many(marked)
            .then(|| self.sampled_variant(entry))
            .flatten();
        let id = sampled_variant.unwrap_or(sampling::number(marked));
        let one_of = sampled_variant.map(|_| sampling::one_of(entry).to_le_bytes());
        let mark: &[u8] = one_of.as_ref().map_or(&[], |mark| mark);
        let length = |values: &[u8]| align_up(HEADER_BYTES + values.len() + mark.len());
        let longest = runtime::record_bytes_max();
        let shorter;
        let (values, cut) = if length(values) > longest {
            shorter = shortened(&self.kinds(), values, longest - HEADER_BYTES - mark.len());
            (&*shorter, true)
        } else {
            (values, false)
        };
        let length = length(values);
        if length > longest {
            drop_call(&self.control, DropReason::TooLarge);
            return false;
        }
        let urgent = self.callsite.level.is_urgent();
        let fill = |put: &mut logdrive_ring::RecordWriter<'_>| {
            put.bytes(values);
            put.bytes(mark);
        };
        let wrote = local::write(id, length, urgent, fill);
        let again = || self.number_again(one_of.is_some());
        let committed = write_slowly(&self.control, wrote, length, urgent, &fill, &again);
        if committed && cut {
            local::count_cut();
        }
        committed
    }

    fn kinds(&self) -> Vec<FieldKind> {
        self.callsite.fields.iter().map(|field| field.kind).collect()
    }

    fn sampled_variant(&'static self, entry: &'static ControlEntry) -> Option<u32> {
        match entry.sampled_variant() {
            0 => runtime::register_sampled_variant(entry, &|| self.callsite.clone()),
            own if own == entry.id() => None,
            sampled_variant => Some(sampling::number(sampled_variant)),
        }
    }

    fn number_again(&'static self, has_mark: bool) -> Option<u32> {
        let mut entry = self.control.entry();
        if entry.control() == UNREGISTERED {
            entry = self.register()?;
        }
        if is_off(entry.control()) {
            local::count_disabled();
            return None;
        }
        if has_mark {
            self.sampled_variant(entry)
        } else {
            Some(sampling::number(entry.id()))
        }
    }

    fn key<'a>(&self, entry: &'static ControlEntry, values: &'a [u8]) -> Option<Value<'a>> {
        let KeyField::Index(index) = sampling::key_of(entry) else {
            return None;
        };
        let mut cursor = Cursor::new(values);
        let mut found = None;
        for field in self.callsite.fields.get(..=usize::from(index))? {
            found = Value::read(field.kind, &mut cursor).ok();
            found?;
        }
        found.map(|(value, _)| value)
    }
}

/// Returns whether a blob is text (`true`) or a byte string (`false`); `None` for other values.
fn blob_of(kind: Kind) -> Option<bool> {
    match kind {
        Kind::Str | Kind::Display | Kind::Debug => Some(true),
        Kind::Bytes => Some(false),
        _ => None,
    }
}

/// The values with the longest texts and byte strings cut, so that together they keep to a limit. Values that cannot be
/// read are left as they are.
fn shortened(kinds: &[FieldKind], values: &[u8], bytes_max: usize) -> Vec<u8> {
    // For each blob, where its length word stands, and its length.
    let mut blobs = Vec::new();
    let mut cursor = Cursor::new(values);
    for field in kinds {
        let start = values.len() - cursor.left();
        let Ok((value, _)) = Value::read(*field, &mut cursor) else {
            return values.to_vec();
        };
        let end = values.len() - cursor.left();
        if let (Some(is_text), false) = (blob_of(field.kind), value == Value::None) {
            blobs.push((start + usize::from(field.optional), end, is_text));
        }
    }
    let mut lengths: Vec<usize> = blobs.iter().map(|(start, end, _)| end - start - 4).collect();
    let fixed = values.len() - lengths.iter().sum::<usize>();
    let limit = equal_part(&mut lengths, bytes_max.saturating_sub(fixed));
    let mut out = Vec::with_capacity(bytes_max);
    let mut done = 0;
    for (start, end, is_text) in blobs {
        let blob = values.get(start + 4..end).unwrap_or_default();
        let (length, has_mark) = kept(blob, is_text, limit);
        let mark = if has_mark { CUT_MARK.as_bytes() } else { &[] };
        out.extend_from_slice(values.get(done..start).unwrap_or_default());
        out.extend_from_slice(&((length + mark.len()) as u32).to_le_bytes());
        out.extend_from_slice(blob.get(..length).unwrap_or_default());
        out.extend_from_slice(mark);
        done = end;
    }
    out.extend_from_slice(values.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_all_others_stay() {
        let kinds = [
            FieldKind::plain(Kind::U8),
            FieldKind::plain(Kind::Str),
            FieldKind {
                kind: Kind::Str,
                optional: true,
            },
            FieldKind::plain(Kind::U16),
        ];
        let mut values = vec![7];
        values.extend_from_slice(&1000u32.to_le_bytes());
        values.extend_from_slice(&[b'x'; 1000]);
        values.push(1);
        values.extend_from_slice(&2u32.to_le_bytes());
        values.extend_from_slice(b"ab\x34\x12");
        let cut = shortened(&kinds, &values, 100);
        assert!(cut.len() <= 100 && cut.len() > 95, "{}", cut.len());
        assert_eq!(cut[0], 7);
        assert!(cut.ends_with(b"\x01\x02\0\0\0ab\x34\x12"));
        assert!(cut.windows(6).any(|part| part == "xxx…".as_bytes()));
    }

    #[test]
    fn the_same_description_is_the_same_callsite() {
        let describe = |line| {
            Callsite {
                line,
                ..Callsite::default()
            }
            .encode()
            .unwrap()
        };
        let first = ForeignSite::find_or_keep(&describe(1)).unwrap();
        assert!(core::ptr::eq(
            first,
            ForeignSite::find_or_keep(&describe(1)).unwrap()
        ));
        assert!(!core::ptr::eq(
            first,
            ForeignSite::find_or_keep(&describe(2)).unwrap()
        ));
        assert!(ForeignSite::find_or_keep(b"\xff").is_none());
    }
}
