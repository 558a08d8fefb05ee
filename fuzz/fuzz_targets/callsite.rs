//! Callsites: what is accepted has one encoding only, and keeps the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_wire::Callsite;
use logdrive_wire::limits::{FIELDS_MAX, NAME_BYTES_MAX, TEMPLATE_BYTES_MAX};

fuzz_target!(|data: &[u8]| {
    let Ok(site) = Callsite::decode(data) else { return };
    assert_eq!(site.encode().expect("what was read can be written"), data);
    assert!(site.fields.len() <= FIELDS_MAX);
    assert!(site.message.len() <= TEMPLATE_BYTES_MAX);
    for name in [&site.file, &site.module, &site.target]
        .into_iter()
        .chain(site.fields.iter().map(|field| &field.name))
    {
        assert!(name.len() <= NAME_BYTES_MAX);
    }
});
