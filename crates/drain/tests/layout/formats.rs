//! Every kind of value with every spec is shown as `std::fmt` shows it.

use logdrive_drain::layout::{Layout, LayoutOptions, Outcome, unescape};
use logdrive_testkit::Random;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Field, Kind};

use crate::records::{Payload, field, layout, pattern, record, site, write};

/// Lays a message out and takes the escapes out again.
struct Message {
    layout: Layout,
}

impl Message {
    fn new() -> Self {
        Self {
            layout: layout(LayoutOptions::from(pattern("{message}"))),
        }
    }

    fn check(&mut self, template: &str, fields: &[Field], records: &[(Payload, String)]) {
        let plan = self.layout.compile(&site(template, fields));
        for (payload, expected) in records {
            let (outcome, bytes) = write(&mut self.layout, &plan, &record(&payload.0));
            let line = bytes.strip_suffix(b"\n").expect("a line ends");
            let found = String::from_utf8_lossy(&unescape(line)).into_owned();
            assert_eq!(&found, expected, "{template} of {fields:?} from {payload:?}");
            assert_eq!(outcome, Outcome::Done);
        }
    }
}

/// Checks values of one kind against each spec. `$encode` turns a value into its bytes.
macro_rules! check {
    ($message:expr, $kind:expr, $values:expr, $encode:expr, [$($spec:literal),* $(,)?]) => {{
        let kind: FieldKind = $kind;
        let field = Field { name: String::new(), kind, argument: true };
        $(
            let records: Vec<(Payload, String)> = $values
                .iter()
                .map(|value| ($encode(value), format!(concat!("[{0:", $spec, "}]"), value)))
                .collect();
            $message.check(concat!("[{0:", $spec, "}]"), core::slice::from_ref(&field), &records);
        )*
    }};
}

const SEED: u64 = 20_261_121;

macro_rules! check_integers {
    ($message:expr, $random:expr, $($type:ty: $kind:expr),* $(,)?) => {$(
        let mut values: Vec<$type> = vec![0, 1, 9, 10, 99, 100, <$type>::MAX, <$type>::MIN, <$type>::MAX / 2];
        values.extend((0..40).map(|round| {
            let wide = u128::from($random.bits()) << 64 | u128::from($random.bits());
            (wide >> (128 - <$type>::BITS)) as $type >> (round % <$type>::BITS)
        }));
        check!($message, FieldKind::plain($kind), values,
            |value: &$type| Payload::default().raw(&value.to_le_bytes()),
            ["", "5", "<5", "^9", ">12", "05", "+", "+08", "#x", "#010x", "x", "X", "#X", "o", "#o", "b", "#b", "#034b",
             "e", "E", ".3e", "+.2e", "012.1e", ".0e", "?", "#?", "x?", "X?", "#x?", "#010X?", "08?", "*^15", "é>7",
             "-^+9", "*<+#12x", "0", "+?", "<+05", "1000", ".2", "30e", "<#o"]);
        let some: Vec<Option<$type>> = values.iter().map(|value| Some(*value)).chain([None]).collect();
        check!($message, FieldKind { kind: $kind, optional: true }, some,
            |value: &Option<$type>| match value {
                Some(value) => Payload::default().raw(&[1]).raw(&value.to_le_bytes()),
                None => Payload::default().raw(&[0]),
            },
            ["?", "5?", "#?", "x?", "#x?", "08?", "+?", "*^9?", "#10?"]);
    )*};
}

#[test]
fn integers_equal_std() {
    let (mut message, mut random) = (Message::new(), Random::new(SEED));
    check_integers!(message, random, u8: Kind::U8, i8: Kind::I8, u16: Kind::U16, i16: Kind::I16, u32: Kind::U32,
        i32: Kind::I32, u64: Kind::U64, i64: Kind::I64, u128: Kind::U128, i128: Kind::I128);
}

macro_rules! check_floats {
    ($message:expr, $values:expr, $type:ty, $kind:expr) => {
        check!(
            $message,
            FieldKind::plain($kind),
            $values,
            |value: &$type| Payload::default().raw(&value.to_le_bytes()),
            [
                "", ".0", ".1", ".2", ".3", ".4", ".6", ".9", ".10", ".15", ".16", ".30", "10.2", "<10.2",
                "+.2", "08.3", "+010.1", "e", "E", ".3e", ".0E", "+e", "012.2e", "?", ".2?", "+?", "#?",
                "8?", "*^20?", "^12", "x?", "+", "_<24", "020", "#", ".2e"
            ]
        );
        let some: Vec<Option<$type>> = $values.iter().map(|value| Some(*value)).chain([None]).collect();
        check!(
            $message,
            FieldKind {
                kind: $kind,
                optional: true
            },
            some,
            |value: &Option<$type>| match value {
                Some(value) => Payload::default().raw(&[1]).raw(&value.to_le_bytes()),
                None => Payload::default().raw(&[0]),
            },
            ["?", ".2?", "#?", "8.3?", "+?"]
        );
    };
}

#[test]
fn floats_equal_std() {
    let (mut message, mut random) = (Message::new(), Random::new(SEED + 1));
    let mut doubles = vec![
        0.0, -0.0, 1.0, -1.5, 0.1, 0.5, 2.5, 1e15, 1e16, 1e17, 1e-4, 9.9e-5, 1e-5, 1e-7, 123456.789,
    ];
    doubles.extend([
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
    ]);
    for round in 0..60 {
        doubles.push(f64::from_bits(random.bits()));
        doubles.push((random.bits() >> (10 + round % 50)) as f64 / 10f64.powi(round % 9));
        doubles.push((random.bits() >> 40) as f64 / (1u64 << (round % 20)) as f64);
    }
    check_floats!(message, doubles, f64, Kind::F64);
    let mut singles: Vec<f32> = doubles.iter().map(|value| *value as f32).collect();
    singles.extend((0..100).map(|_| f32::from_bits(random.bits() as u32)));
    check_floats!(message, singles, f32, Kind::F32);
}

#[test]
fn text_chars_and_bools_equal_std() {
    let (mut message, mut random) = (Message::new(), Random::new(SEED + 2));
    let alphabet: Vec<char> = "aZ09 \"'\\=\n\t\r\0\u{1b}\u{7f}\u{85}é漢🦀\u{2028}\u{202e}\u{300}\u{feff}"
        .chars()
        .collect();
    let mut texts: Vec<String> = ["", "a", "abc", "größe", "漢字漢字漢字", "it's \"quoted\""]
        .map(Into::into)
        .into();
    texts.extend((0..60).map(|round| {
        (0..round % 23)
            .map(|_| *random.pick(&alphabet))
            .collect::<String>()
    }));
    let encode = |text: &String| Payload::default().blob(text.as_bytes());
    check!(
        message,
        FieldKind::plain(Kind::Str),
        texts,
        encode,
        [
            "", "5", "<10", "^11", ">10", ".3", "*^10.4", "05", "?", "10?", "#?", "x?", "0<8", "é^9.2", ".0",
            "300"
        ]
    );
    let some: Vec<Option<String>> = texts.iter().cloned().map(Some).chain([None]).collect();
    check!(
        message,
        FieldKind {
            kind: Kind::Str,
            optional: true
        },
        some,
        |text: &Option<String>| match text {
            Some(text) => Payload::default().raw(&[1]).blob(text.as_bytes()),
            None => Payload::default().raw(&[0]),
        },
        ["?", "#?", "10?"]
    );
    check!(
        message,
        FieldKind::plain(Kind::Char),
        alphabet,
        |value: &char| Payload::default().raw(&(*value as u32).to_le_bytes()),
        [
            "", "5", "<4", "^5", ">3", ".0", ".1", "05", "?", "8?", "#?", "*^7"
        ]
    );
    check!(
        message,
        FieldKind::plain(Kind::Bool),
        [true, false],
        |value: &bool| Payload::default().raw(&[u8::from(*value)]),
        ["", "6", ">7", ".2", "?", "8?", "06", "*^9.3", "#?"]
    );
}

#[test]
fn lists_of_bytes_equal_std() {
    let (mut message, mut random) = (Message::new(), Random::new(SEED + 3));
    let mut lists: Vec<Vec<u8>> = vec![Vec::new(), vec![0], vec![255, 1, 16]];
    lists.extend((0..20).map(|round| (0..round * 3).map(|_| random.bits() as u8).collect()));
    let encode = |bytes: &Vec<u8>| Payload::default().blob(bytes);
    check!(
        message,
        FieldKind::plain(Kind::Bytes),
        lists,
        encode,
        ["?", "x?", "#?", "02x?", "#04X?", "+?", "#x?", "4?", "<4?"]
    );
    let some: Vec<Option<Vec<u8>>> = lists.iter().cloned().map(Some).chain([None]).collect();
    check!(
        message,
        FieldKind {
            kind: Kind::Bytes,
            optional: true
        },
        some,
        |bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => Payload::default().raw(&[1]).blob(bytes),
            None => Payload::default().raw(&[0]),
        },
        ["?", "#?", "02x?"]
    );
}

#[test]
fn width_and_precision_may_come_from_fields_and_in_any_order() {
    let mut message = Message::new();
    let fields = [
        field("", Kind::F64, true),
        field("", Kind::U64, true),
        field("", Kind::U8, true),
        field("", Kind::Str, true),
    ];
    let mut random = Random::new(SEED + 4);
    let mut records = Vec::new();
    for _ in 0..200 {
        let value = random.bits() as f64 / 1e15;
        let (width, precision) = (random.index(40), random.index(20));
        let payload = Payload::default()
            .raw(&value.to_le_bytes())
            .raw(&(width as u64).to_le_bytes())
            .raw(&[precision as u8])
            .blob(b"abc");
        let expected = format!(
            "{3}{0:1$.2$}|{0:*<+1$}|{3:>2$}|{0:.2$}",
            value, width, precision, "abc"
        );
        records.push((payload, expected));
    }
    message.check("{3}{0:1$.2$}|{0:*<+1$}|{3:>2$}|{0:.2$}", &fields, &records);
}

#[test]
fn a_width_from_a_field_is_bounded() {
    let fields = [field("", Kind::Str, true), field("", Kind::U64, true)];
    let payload = Payload::default().blob(b"x").raw(&u64::MAX.to_le_bytes());
    Message::new().check("{0:1$}", &fields, &[(payload, format!("{:1024}", "x"))]);
}

#[test]
fn text_that_was_rendered_at_the_call_is_not_padded_again() {
    for kind in [Kind::Display, Kind::Debug] {
        let payload = Payload::default().blob(b"ab");
        Message::new().check(
            "<{0:>8.1}>",
            &[field("", kind, true)],
            &[(payload, "<ab>".into())],
        );
    }
}
