//! Hostile bytes as what a peer sends: definitions, then the block of a batch; and as rows, of which batches are made. A batch that
//! is read becomes a block of a segment that has its records and the texts of its sender, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_store::{
    Batch, BatchDictionary, BatchEncoder, BatchWriter, Block, BlockHead, DictionaryCallsite, RowCallsite, Rows,
    StoredCallsite,
};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Field, Kind};

const TEXTS: [(&str, &str); 2] = [("session", "0f"), ("identity", "uid:1000")];

fuzz_target!(|data: &[u8]| {
    let mut dictionary = BatchDictionary::default();
    let mut rest = data;
    let mut number = 0;
    while let Some((length, behind)) = rest.split_first()
        && let Some((definition, behind)) = behind.split_at_checked(usize::from(*length))
        && number < 4
    {
        let _ = dictionary.define(number, definition);
        if let Ok(batch) = Batch::read(behind, &dictionary) {
            let stored = stored(&batch);
            assert!(stored.is_none_or(|count| count == batch.block.head().records));
        }
        (rest, number) = (behind, number + 1);
    }
    let Ok(batches) = BatchEncoder::default().encode(data, 1 << 10) else {
        return;
    };
    let mut dictionary = BatchDictionary::default();
    let mut records = 0;
    for batch in batches {
        for definition in &batch.definitions {
            let defined = dictionary.define(definition.number, &definition.bytes);
            defined.expect("a definition of ours");
        }
        let read = Batch::read(&batch.block, &dictionary).expect("a batch of ours");
        records += check(&read.block);
        assert!(stored(&read).is_none_or(|count| count == read.block.head().records));
    }
    let mut rows = Rows::new(data);
    let count = std::iter::from_fn(|| rows.next_row().expect("they were encoded")).count();
    assert_eq!(records, count);
});

/// Number of records of the block that a batch becomes; `None` where it is refused.
fn stored(batch: &Batch) -> Option<usize> {
    let sites: Option<Vec<StoredCallsite>> = batch.block.head().callsites.iter().map(with_texts).collect();
    let (sites, mut out) = (sites?, Vec::new());
    let sites: Vec<&StoredCallsite> = sites.iter().collect();
    let is_put = BatchWriter::default().put(batch, &sites, &TEXTS, &mut out);
    is_put.ok().filter(|is_put| *is_put)?;
    let head = BlockHead::decode(&out).expect("a head of ours");
    let body = out[head.head_bytes..].to_vec();
    Some(check(&Block::new(head, body).expect("a block of ours")))
}

/// The callsite as a collector has it in a segment.
fn with_texts(known: &DictionaryCallsite) -> Option<StoredCallsite> {
    let mut site = known.callsite.clone();
    if !site.dynamic {
        site.fields.extend(TEXTS.map(|(name, _)| Field {
            name: name.to_owned(),
            kind: FieldKind::plain(Kind::Str),
            argument: false,
        }));
    }
    let row = RowCallsite::new(&site, known.process.as_ref()).ok()?;
    let entry = DictionaryCallsite::of(&row).ok()?;
    Some(StoredCallsite { entry, has_values: true })
}

fn check(block: &Block) -> usize {
    let bytes = block.rows().expect("what was read can be rebuilt");
    let mut rows = Rows::new(&bytes);
    std::iter::from_fn(|| rows.next_row().expect("rows of a block are sound")).count()
}
