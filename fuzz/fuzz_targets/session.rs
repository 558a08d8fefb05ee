//! A session directory whose files are mangled: opening, adopting, callsites, rings, buffers. Never a panic, never a
//! SIGBUS, and work bounded by the files' sizes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::OnceLock;

#[allow(dead_code, reason = "the seeded test uses more of it")]
#[path = "../../crates/ring/tests/hostile/mangled.rs"]
mod mangled;
use mangled::{EDIT_BYTES, Edit, Images, make_session, read_all};

static IMAGES: OnceLock<(Images, PathBuf)> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let (images, dir) = IMAGES.get_or_init(|| {
        let run_dir = logdrive_fuzz::made_by_child("session", |dir| drop(make_session(dir)));
        (
            Images::of(&logdrive_fuzz::session_in(&run_dir)),
            run_dir.join("mangled-1-0"),
        )
    });
    let edits: Vec<Edit> = data
        .as_chunks::<EDIT_BYTES>()
        .0
        .iter()
        .take(64)
        .map(Edit::from_bytes)
        .collect();
    images.write(dir, &edits);
    read_all(dir);
});
