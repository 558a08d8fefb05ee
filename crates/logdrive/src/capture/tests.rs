//! The bytes and kinds of captured values, and what `Arg` decides.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Cursor, Value};

use super::limits::PAYLOAD_BYTES_MAX;
use super::*;

fn written(values: &dyn Values) -> Vec<u8> {
    let [bytes, others] = [0xee, 0x11].map(|before| {
        let mut bytes = vec![before; values.size_bytes()];
        values.write(&mut RecordWriter::new(&mut bytes));
        bytes
    });
    assert_eq!(bytes, others, "the size is exact");
    bytes
}

/// Reads the values back, as text.
fn read<V: Fields>(values: &V) -> Vec<String> {
    read_kinds(V::KINDS, values)
}

fn read_kinds(kinds: &[u8], values: &dyn Values) -> Vec<String> {
    let bytes = written(values);
    let mut cursor = Cursor::new(&bytes);
    let texts = kinds.iter().map(|code| {
        let kind = FieldKind::from_code(*code).unwrap();
        format!("{:?}", Value::read(kind, &mut cursor).unwrap().0)
    });
    let texts = texts.collect();
    assert_eq!(cursor.left(), 0);
    texts
}

#[test]
fn values_are_written_as_the_record_format_says() {
    let values = (
        raw_value(&0x0102_u16),
        raw_value("ab"),
        raw_value(&Some(-2i8)),
        raw_value(&None::<u64>),
        raw_value(&[9u8, 8]),
    );
    assert_eq!(
        written(&values),
        [2, 1, 2, 0, 0, 0, b'a', b'b', 1, 0xfe, 0, 2, 0, 0, 0, 9, 8]
    );
    assert_eq!(kinds_of(&values), [8, 15, 0x82, 0x8a, 16]);
}

fn kinds_of<V: Fields>(_: &V) -> &'static [u8] {
    V::KINDS
}

#[test]
fn all_raw_types_read_back() {
    let (unsigned, signed) = (
        (
            raw_value(&1u8),
            raw_value(&2u16),
            raw_value(&3u32),
            raw_value(&4u64),
            raw_value(&5u128),
            raw_value(&6usize),
        ),
        (
            raw_value(&-1i8),
            raw_value(&-2i16),
            raw_value(&-3i32),
            raw_value(&-4i64),
            raw_value(&-5i128),
            raw_value(&-6isize),
        ),
    );
    assert_eq!(
        read(&unsigned),
        ["U64(1)", "U64(2)", "U64(3)", "U64(4)", "U128(5)", "U64(6)"]
    );
    assert_eq!(
        read(&signed),
        ["I64(-1)", "I64(-2)", "I64(-3)", "I64(-4)", "I128(-5)", "I64(-6)"]
    );
    let mut number = 7i32;
    let others = (
        raw_value(&1.5f32),
        raw_value(&2.5f64),
        raw_value(&true),
        raw_value(&'é'),
        raw_value(&core::num::NonZero::<u16>::MAX),
        raw_value(&core::ptr::without_provenance::<u32>(16)),
        raw_value(&&mut number),
        raw_value(&Box::new(Rc::new(Arc::new(8u8)))),
    );
    let shown = [
        "F32(1.5)",
        "F64(2.5)",
        "Bool(true)",
        "Char('é')",
        "U64(65535)",
        "Pointer(16)",
        "I64(7)",
        "U64(8)",
    ];
    assert_eq!(read(&others), shown);
    let texts = read(&(
        raw_value(&String::from("a")),
        raw_value(&Cow::Borrowed("b")),
        raw_value(&Arc::<str>::from("c")),
        raw_value(&Some(Box::<str>::from("d"))),
        raw_value(&vec![1u8]),
        raw_value(&Cow::Borrowed(&[2u8][..])),
    ));
    let shown = [
        "Str([97])",
        "Str([98])",
        "Str([99])",
        "Str([100])",
        "Bytes([1])",
        "Bytes([2])",
    ];
    assert_eq!(texts, shown);
}

#[test]
fn kinds_of_chained_tuples_are_in_order() {
    let values = Cons((1u8, 2u16), Cons((3u32,), ()));
    assert_eq!(kinds_of(&values), [7, 8, 9]);
    assert_eq!(written(&values), [1, 2, 0, 3, 0, 0, 0]);
    assert_eq!(kinds_of(&()), []);
}

#[test]
fn what_is_not_raw_is_rendered_with_its_spec() {
    struct Shown;
    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.pad("shown")
        }
    }
    let raw = Arg::new(&5u8).logdrive_display(format_args!("not used"));
    assert_eq!(kinds_of(&(raw,)), [7]);
    let values = (
        Arg::new(&Shown).logdrive_display(format_args!("{:>7}", Shown)),
        Arg::new(&[1u16]).logdrive_debug(format_args!("{:?}", [1u16])),
    );
    assert_eq!(kinds_of(&values), [17, 18]);
    assert_eq!(written(&values), b"\x07\0\0\0  shown\x03\0\0\0[1]");
}

#[test]
fn any_mix_of_long_values_is_cut_to_the_limit_and_reads_back() {
    let lengths = [0, 1, 5, 1000, 21_000, 40_000, PAYLOAD_BYTES_MAX, 1 << 20];
    let text = "aé€😀".repeat(1 << 18);
    for (a, b, c) in lengths
        .iter()
        .flat_map(|a| lengths.iter().flat_map(move |b| lengths.map(|c| (*a, *b, c))))
    {
        let text = |length| text.get(..text.floor_char_boundary(length)).unwrap();
        let maybe = Some(text(b));
        let values = (
            raw_value(text(a)),
            raw_value(&maybe),
            7u8,
            raw_value(text(c).as_bytes()),
        );
        if values.size_bytes() <= PAYLOAD_BYTES_MAX {
            continue;
        }
        let short = Shortened::new(&values, PAYLOAD_BYTES_MAX);
        assert!(short.size_bytes() <= PAYLOAD_BYTES_MAX && short.size_bytes() > PAYLOAD_BYTES_MAX - 16);
        assert_eq!(read_kinds(kinds_of(&values), &short).len(), 4, "{a} {b} {c}");
        for limit in [0, 10, 100] {
            assert!(Shortened::new(&values, limit).size_bytes() <= limit.max(14 + 4));
        }
    }
}

#[test]
fn a_sum_of_lengths_never_wraps_around() {
    let huge: &[u8] = &vec![0; 1 << 20];
    let values = (raw_value(huge), raw_value(huge), raw_value(huge));
    assert!(values.size_bytes() > PAYLOAD_BYTES_MAX && values.size_bytes() < 4 << 16);
}
