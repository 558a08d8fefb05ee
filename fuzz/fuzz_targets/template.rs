//! Message templates: no panic, errors point into the text, numbers keep their limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_wire::limits::PAD_MAX;
use logdrive_wire::template::Count;
use logdrive_wire::{Piece, Template, WireError};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    let names = ["id", "price", "größe", "_"];
    let index_of = |name: &str| names.iter().position(|known| *known == name);
    match Template::parse(text, index_of) {
        Err(WireError::Template { offset, .. }) => {
            assert!(text.is_char_boundary(offset), "{offset} of {text:?}")
        }
        Err(other) => panic!("an error of another family: {other}"),
        Ok(template) => check(text, &template),
    }
});

fn check(text: &str, template: &Template) {
    let mut literal_bytes = 0;
    let mut after_literal = false;
    for piece in &template.pieces {
        match piece {
            Piece::Literal(literal) => {
                assert!(!literal.is_empty() && !after_literal, "literals are whole");
                literal_bytes += literal.len();
                after_literal = true;
            }
            Piece::Field { spec, .. } => {
                after_literal = false;
                for count in [spec.width, spec.precision].into_iter().flatten() {
                    if let Count::Fixed(number) = count {
                        assert!(number <= PAD_MAX);
                    }
                }
            }
        }
    }
    assert!(literal_bytes <= text.len());
    assert!(template.pieces.len() <= text.len());
}
