//! Rules as bytes: they read back, limits hold, and no bytes make a reader panic.

use super::bytes::{read_table, write_table};
use super::*;

fn rule(action: Action, selector: Selector) -> Rule {
    Rule {
        made_unix_ns: 7,
        until_unix_ns: 9,
        action,
        selector,
    }
}

fn examples() -> Vec<Rule> {
    let keyed = Action::PerKey {
        field: "peer".into(),
        per_second: 10,
    };
    vec![
        rule(Action::Level(Some(0)), Selector::Module("net::quic".into())),
        rule(Action::Level(None), Selector::All),
        rule(Action::Mute, Selector::File("src/net.rs".into())),
        rule(Action::Every(1000), Selector::Line("net.rs".into(), 42)),
        rule(Action::PerSecond(100), Selector::Callsite(17)),
        rule(keyed, Selector::Module(String::new())),
    ]
}

/// The table with the zeros behind it, as it is read from a file.
fn whole(mut table: Vec<u8>) -> Vec<u8> {
    table.resize(TABLE_BYTES, 0);
    table
}

#[test]
fn rules_read_back_as_they_were_written() {
    let table = whole(write_table(&examples(), 5).unwrap());
    assert_eq!(read_table(&table, 5).unwrap(), examples());
    assert!(read_table(&table, 6).is_err(), "the table of another sequence");
    let none = whole(write_table(&[], 1).unwrap());
    assert_eq!(read_table(&none, 1).unwrap(), []);
}

#[test]
fn limits_are_errors_when_rules_are_written() {
    let many = vec![rule(Action::Mute, Selector::All); RULES_MAX + 1];
    assert!(matches!(write_table(&many, 1), Err(RingError::Limit { .. })));
    assert!(write_table(&many[1..], 1).is_ok());
    let long = |bytes: usize| rule(Action::Mute, Selector::Module("x".repeat(bytes)));
    assert!(write_table(&[long(RULE_NAME_BYTES_MAX + 1)], 1).is_err());
    let large = vec![long(RULE_NAME_BYTES_MAX); TABLE_BYTES / RULE_NAME_BYTES_MAX];
    assert!(matches!(write_table(&large, 1), Err(RingError::Limit { .. })));
}

#[test]
fn every_changed_byte_is_noticed() {
    let table = write_table(&examples(), 5).unwrap();
    for at in 0..table.len() {
        // The eight bytes behind the checksum are not used.
        let is_unused = (24..32).contains(&at);
        let mut changed = table.clone();
        changed[at] ^= 0x40;
        assert_eq!(read_table(&whole(changed), 5).is_ok(), is_unused, "byte {at}");
    }
    for length in 0..table.len() {
        assert!(read_table(&table[..length], 5).is_err(), "{length} bytes");
    }
}
