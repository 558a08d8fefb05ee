//! Tests of the control words that rules give to callsites.

use super::*;
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Field, Kind};

fn callsite() -> Callsite {
    Callsite {
        level: Level::Debug,
        line: 42,
        file: "src/net/quic.rs".into(),
        module: "app::net::quic".into(),
        target: "net::quic".into(),
        fields: vec![Field {
            name: "peer".into(),
            kind: FieldKind::plain(Kind::Str),
            argument: false,
        }],
        ..Callsite::default()
    }
}

/// Rules made one after the other.
fn rules(rules: &[(Action, &str)]) -> Vec<Rule> {
    let mut made = Vec::new();
    for (action, selector) in rules {
        let selector = read_selector(selector).expect("a selector");
        put_rule(&mut made, action.clone(), selector, 0, 1_000);
    }
    made
}

fn level(level: Level) -> Action {
    Action::Level(Some(level.code()))
}

const SILENT: Action = Action::Level(None);

fn made_of(made: &[(Action, &str)], base: u32) -> Switch {
    switch_of(&rules(made), 7, &callsite(), base, OFF, 2_000)
}

#[test]
fn without_a_rule_that_means_it_a_callsite_is_as_its_filter_says() {
    for base in [OFF, ON, OFF_COUNTED, 99] {
        assert_eq!(made_of(&[], base), Switch::plain(base));
        let elsewhere = [
            (SILENT, "net::tcp"),
            (Action::Mute, "id:8"),
            (Action::Every(5), "tcp.rs"),
        ];
        assert_eq!(made_of(&elsewhere, base), Switch::plain(base));
    }
}

#[test]
fn every_kind_of_selector_finds_its_callsites() {
    for selector in [
        "all",
        "net",
        "net::quic",
        "app::net",
        "app::net::quic",
        "quic.rs",
        "net/quic.rs",
        "src/net/quic.rs",
        "quic.rs:42",
        "src/net/quic.rs:42",
        "id:7",
    ] {
        assert_eq!(
            made_of(&[(level(Level::Trace), selector)], OFF).control,
            ON,
            "{selector}"
        );
        assert_eq!(made_of(&[(SILENT, selector)], ON).control, OFF, "{selector}");
    }
    for selector in [
        "ne",
        "quic",
        "uic.rs",
        "ic.rs:42",
        "quic.rs:4",
        "rc/net/quic.rs",
        "id:42",
        "file:42",
    ] {
        assert_eq!(made_of(&[(SILENT, selector)], ON).control, ON, "{selector}");
    }
}

#[test]
fn a_level_means_callsites_of_that_level_and_above() {
    assert_eq!(made_of(&[(level(Level::Debug), "net")], OFF).control, ON);
    assert_eq!(made_of(&[(level(Level::Info), "net")], ON).control, OFF);
}

#[test]
fn the_narrowest_selector_decides_and_then_the_newest_rule() {
    let by_width = ["all", "net", "net::quic", "quic.rs", "quic.rs:42", "id:7"];
    for pair in by_width.windows(2) {
        let (wide, narrow) = ((SILENT, pair[0]), (level(Level::Trace), pair[1]));
        assert_eq!(
            made_of(&[wide.clone(), narrow.clone()], OFF).control,
            ON,
            "{pair:?}"
        );
        assert_eq!(made_of(&[narrow, wide], OFF).control, ON, "{pair:?}");
    }
    // A target and a module path are both module selectors: the longer name is the narrower one.
    let (target, module) = ("net::quic", "app::net::quic");
    assert_eq!(
        made_of(&[(level(Level::Trace), module), (SILENT, target)], OFF).control,
        ON
    );
    assert_eq!(
        made_of(&[(SILENT, "net"), (level(Level::Trace), "app")], OFF).control,
        ON
    );
    assert_eq!(
        made_of(&[(level(Level::Trace), "app"), (SILENT, "net")], ON).control,
        OFF
    );
}

#[test]
fn a_rule_takes_the_place_of_one_of_its_kind_for_the_same_callsites() {
    let made = rules(&[
        (SILENT, "net"),
        (Action::Mute, "net"),
        (level(Level::Warn), "net"),
    ]);
    assert_eq!(made.len(), 2);
    let made = rules(&[(Action::Every(2), "net"), (Action::PerSecond(2), "net")]);
    assert_eq!(made.len(), 1);
    assert!(
        rules(&[(SILENT, "a"), (SILENT, "b")])
            .windows(2)
            .all(|pair| pair[0].made_unix_ns < pair[1].made_unix_ns)
    );
}

#[test]
fn a_mute_goes_before_everything_else() {
    let made = [
        (level(Level::Trace), "id:7"),
        (Action::Every(5), "id:7"),
        (Action::Mute, "all"),
    ];
    assert_eq!(made_of(&made, ON), Switch::plain(OFF));
}

#[test]
fn off_is_the_word_that_the_process_takes_for_it() {
    let made = rules(&[(Action::Mute, "all")]);
    let word = |off| switch_of(&made, 7, &callsite(), ON, off, 0).control;
    assert_eq!([word(OFF), word(OFF_COUNTED), word(77)], [OFF, OFF_COUNTED, OFF]);
}

#[test]
fn what_is_on_is_sampled_and_what_is_off_is_not() {
    let every = Switch {
        control: EVERY,
        parameter: 5,
    };
    assert_eq!(made_of(&[(Action::Every(5), "net")], ON), every);
    assert_eq!(made_of(&[(Action::Every(5), "net")], OFF), Switch::plain(OFF));
    assert_eq!(
        made_of(&[(Action::Every(5), "net"), (level(Level::Trace), "all")], OFF),
        every
    );
    assert_eq!(made_of(&[(Action::Every(1), "net")], ON), Switch::plain(ON));
    let narrow = [(Action::PerSecond(9), "id:7"), (Action::Every(5), "net")];
    assert_eq!(made_of(&narrow, ON).control, PER_SECOND);
}

#[test]
fn a_key_is_a_field_of_the_callsite_or_one_that_its_records_bring() {
    let keyed = |field: &str| Action::PerKey {
        field: field.into(),
        per_second: 3,
    };
    let limit = KeyedLimit::of(made_of(&[(keyed("peer"), "net")], ON).parameter);
    assert_eq!((limit.per_second, limit.key), (3, KeyField::Index(0)));
    assert_eq!(made_of(&[(keyed("nobody"), "net")], ON), Switch::plain(ON));
    let dynamic = Callsite {
        dynamic: true,
        ..callsite()
    };
    let switch = switch_of(&rules(&[(keyed("nobody"), "net")]), 7, &dynamic, ON, OFF, 0);
    assert_eq!(KeyedLimit::of(switch.parameter).key, KeyedLimit::named("nobody"));
}

#[test]
fn a_rule_whose_time_is_over_is_none() {
    let mut made = Vec::new();
    put_rule(&mut made, SILENT, Selector::All, 500, 1_000);
    let at = |now| switch_of(&made, 7, &callsite(), ON, OFF, now).control;
    assert_eq!(
        [at(1_000), at(1_499), at(1_500), at(u64::MAX)],
        [OFF, OFF, ON, ON]
    );
}

#[test]
fn rules_answer_for_a_target_of_which_no_callsite_is_known() {
    let allowed = |made: &[(Action, &str)]| allowed_by_rules(&rules(made), "net::quic", Level::Debug, 0);
    assert_eq!(allowed(&[]), None);
    assert_eq!(allowed(&[(Action::Every(5), "all")]), None);
    assert_eq!(allowed(&[(level(Level::Trace), "net")]), Some(true));
    assert_eq!(
        allowed(&[(level(Level::Trace), "net"), (Action::Mute, "net")]),
        Some(false)
    );
    assert_eq!(allowed(&[(SILENT, "id:4294967294")]), None);
}
