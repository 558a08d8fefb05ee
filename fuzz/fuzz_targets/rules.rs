//! Rules of live control: the file of a session with mangled bytes, and directives as people write them. Reading ends with
//! rules or an error; rules that were read can be put in force again, and say the same; and what they make of a callsite
//! can be computed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logdrive_drain::control::{
    Action, Selector, describe_rule, describe_selector, put_rule, read_action_directive, read_selector,
    switch_of,
};
use logdrive_ring::{SessionReader, control};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static FILE: OnceLock<(PathBuf, Vec<u8>)> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        read_text(text);
    }
    let (path, image) = FILE.get_or_init(|| {
        let run_dir = logdrive_fuzz::made_by_child("rules", make_session);
        let path = logdrive_fuzz::session_in(&run_dir).join("rules");
        let image = fs::read(&path).expect("the file can be read");
        (path, image)
    });
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    file.write_all_at(image, 0).expect("it can be written");
    for edit in data.as_chunks::<10>().0.iter().take(64) {
        let [a0, a1, value @ ..] = *edit;
        // Words of the header and of both tables' fronts; the rest of a table is as good as its front.
        let place = usize::from(u16::from_le_bytes([a0, a1]));
        let half = image.len() / 2;
        let at = match place % 4 {
            0 => (place / 4) % 32,
            1 | 2 => 4096 + (place / 4) % 4096,
            _ => half + (place / 4) % 4096,
        };
        let at = at.min(image.len() - value.len()) as u64;
        file.write_all_at(&value, at).expect("it can be written");
    }
    let session = path.parent().expect("it lies in a session");
    let session = SessionReader::open(session).expect("only its rules are edited");
    let Ok(rules) = session.rules() else { return };
    let Ok((_, found)) = rules.read() else { return };
    for (number, rule) in found.iter().enumerate() {
        assert!(!describe_rule(rule).is_empty());
        let callsite = logdrive_drain::gap_callsite();
        let _ = switch_of(&found, number as u32 + 1, &callsite, control::ON, control::OFF, 1);
    }
    let lock = rules.lock().expect("nobody else has it");
    lock.replace(&found).expect("what was read can be written");
    assert_eq!(rules.read().expect("they are good").1, found);
});

fn read_text(text: &str) {
    if let Ok((action, selector)) = read_action_directive(text) {
        assert!(matches!(action, Action::Level(level) if level.is_none_or(|level| level < 6)));
        check_selector(&selector);
        let mut rules = Vec::new();
        put_rule(&mut rules, action, selector, 0, 1);
        assert_eq!(rules.len(), 1);
    }
    if let Ok(selector) = read_selector(text) {
        check_selector(&selector);
    }
}

/// The text of a selector is read as the same one.
fn check_selector(selector: &Selector) {
    let text = describe_selector(selector);
    let again = read_selector(&text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(again, *selector, "{text:?}");
}

fn make_session(run_dir: &Path) {
    let session = logdrive_fuzz::session("rules", run_dir, |_| {});
    let lock = session.rules().lock().expect("nobody else has it");
    let mut rules = Vec::new();
    for (action, selector) in [
        (Action::Level(Some(1)), Selector::All),
        (Action::Level(None), Selector::Module("net::quic".into())),
        (Action::Mute, Selector::Line("src/net.rs".into(), 42)),
        (Action::Every(1000), Selector::Callsite(17)),
        (Action::PerSecond(10), Selector::File("net.rs".into())),
        (
            Action::PerKey {
                field: "user".into(),
                per_second: 5,
            },
            Selector::Module("shop".into()),
        ),
    ] {
        put_rule(&mut rules, action, selector, 0, 1);
    }
    lock.replace(&rules).expect("there is room");
}
