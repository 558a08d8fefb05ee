//! Callsites of front ends in other languages. Such a front end encodes its callsites and values by `spec/record.md`
//! and writes records into the thread's ring by itself (`logdrive_ring::local::thread_state`). What it cannot do there comes
//! here, with the values encoded: the first call, a full ring, samples, records that are too long.
//!
//! Callsites are copied and kept for ever, so that it does not matter where the caller's own description lies, or
//! whether the library that holds it is unloaded. One that is described again, byte for byte, is the same.

use crate::capture::{Piece, Values};
use crate::statement::{RecordDraft, Statement, value_at};
use crate::{runtime, sampling};
use logdrive_ring::control::ControlRef;
use logdrive_ring::local::{self, Section};
use logdrive_ring::{DropReason, RecordWriter, StaticCell};
use logdrive_wire::{Callsite, Cursor, Field, Value};
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
        let section = Section::masked();
        let site = Self::find_or_keep(description);
        drop(section);
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

    /// Returns true if a call goes on, where its control word does not say so at once. Registers the callsite the first
    /// time. A call that does not go on is counted.
    #[cold]
    pub fn admit(&'static self) -> bool {
        !sampling::is_left_out(self.control.entry()) && self.entry_if_on().is_some()
    }

    /// Writes one record with these values, encoded; whether it is committed. What is not is counted.
    #[cold]
    pub fn write(&'static self, values: &[u8]) -> bool {
        let Some(entry) = self.entry() else { return false };
        let Some(marked) = sampling::admit_uncommon(entry) else {
            return false;
        };
        let fields = &self.callsite.fields;
        if sampling::is_keyed(marked) {
            let kinds = fields.iter().map(|field| field.kind);
            let key = value_at(sampling::key_of(entry), kinds, values);
            if !sampling::pass_key(entry, key.as_ref()) {
                return false;
            }
        }
        RecordDraft::of_sample(&self, marked).write(&EncodedValues { fields, values })
    }
}

impl Statement for &'static ForeignSite {
    fn control(&self) -> &'static ControlRef {
        &self.control
    }

    fn describe(&self) -> Callsite {
        self.callsite.clone()
    }

    fn is_urgent(&self) -> bool {
        self.callsite.level.is_urgent()
    }
}

/// Values of a record as the other language has encoded them.
struct EncodedValues<'a> {
    fields: &'a [Field],
    values: &'a [u8],
}

impl Values for EncodedValues<'_> {
    fn size_bytes(&self) -> usize {
        self.values.len()
    }

    fn write(&self, out: &mut RecordWriter<'_>) {
        out.bytes(self.values);
    }

    /// Values behind one that cannot be read are left as they are.
    fn give(&self, each: &mut dyn FnMut(Piece<'_>)) {
        let mut cursor = Cursor::new(self.values);
        let mut rest = self.values;
        for field in self.fields {
            let Ok((value, _)) = Value::read(field.kind, &mut cursor) else {
                break;
            };
            let piece = match value {
                Value::Str(text) | Value::Display(text) | Value::Debug(text) => Piece::Text(text),
                Value::Bytes(bytes) => Piece::Bytes(bytes),
                _ => Piece::Fixed(&[]),
            };
            let (read, behind) = rest.split_at(rest.len() - cursor.left());
            if let Piece::Fixed(_) = piece {
                each(Piece::Fixed(read));
            } else {
                // A blob has its length before it, and that the presence byte where it may be absent.
                each(Piece::Fixed(
                    read.get(..usize::from(field.kind.optional)).unwrap_or_default(),
                ));
                each(piece);
            }
            rest = behind;
        }
        each(Piece::Fixed(rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Shortened;
    use logdrive_wire::Kind;
    use logdrive_wire::kind::FieldKind;

    #[test]
    fn long_values_are_cut_and_all_others_stay() {
        let text = FieldKind::plain(Kind::Str);
        let maybe = FieldKind {
            optional: true,
            ..text
        };
        let fields = [
            FieldKind::plain(Kind::U8),
            text,
            maybe,
            FieldKind::plain(Kind::U16),
        ]
        .map(|kind| Field {
            name: String::new(),
            kind,
            argument: false,
        });
        let mut values = vec![7];
        values.extend_from_slice(&1000u32.to_le_bytes());
        values.extend_from_slice(&[b'x'; 1000]);
        values.push(1);
        values.extend_from_slice(&2u32.to_le_bytes());
        values.extend_from_slice(b"ab\x34\x12");
        let encoded = EncodedValues {
            fields: &fields,
            values: &values,
        };
        let short = Shortened::new(&encoded, 100);
        let mut cut = vec![0; short.size_bytes()];
        short.write(&mut RecordWriter::new(&mut cut));
        assert!(cut.len() <= 100 && cut.len() > 95, "{}", cut.len());
        assert_eq!(cut[0], 7);
        assert!(cut.ends_with(b"\x01\x02\0\0\0ab\x34\x12"));
        assert!(cut.windows(6).any(|part| part == "xxx…".as_bytes()));
    }

    #[test]
    fn a_text_that_is_longer_than_any_record_is_cut_to_what_a_record_has_room_for() {
        let fields = [Kind::U8, Kind::Str].map(|kind| Field {
            name: String::new(),
            kind: FieldKind::plain(kind),
            argument: false,
        });
        let mut values = vec![7];
        values.extend_from_slice(&200_000u32.to_le_bytes());
        values.extend_from_slice(&[b'x'; 200_000]);
        let encoded = EncodedValues {
            fields: &fields,
            values: &values,
        };
        assert_eq!(Shortened::new(&encoded, 65_000).size_bytes(), 65_000);
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
