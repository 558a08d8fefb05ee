//! Tests of the drawn screen, at several sizes.

use super::super::args::ProcessSort;
use super::super::list::Step;
use super::super::model::{Command, Tone};
use super::super::source::Sample;
use super::super::testing::{process, site};
use super::*;
use crate::watched_session::{Sites, State};
use logdrive_wire::agent::{SessionEntry, SessionState};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;

const PLAIN: Paint = Paint { on: false };

/// Returns the text of a screen of this size, line by line.
fn screen(model: &Model, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(frame, model, &mut Scroll::default(), PLAIN))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol().to_owned())
            .collect::<String>()
    };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

/// Shops that log, one faster than the other.
fn shops(count: u32) -> Model {
    let mut model = Model::new(1_000_000_000, ProcessSort::Records, "");
    for second in 0..2u64 {
        let shops = (1..=count).map(|number| {
            let mut shop = process(&format!("shop{number}"), 100 + number);
            let records = second * u64::from(number) * 1_000;
            shop.stats.committed = records;
            shop.bytes = records * 100;
            shop.stats.sinks[0].counts.written_records = records;
            shop.fill = 0.5;
            shop
        });
        model.take(Sample {
            at_ns: second * 1_000_000_000,
            processes: shops.collect(),
            troubles: Vec::new(),
        });
    }
    for second in 0..2u64 {
        let session = model.wanted().unwrap().to_owned();
        let sites = Sites {
            sites: (1..=30).map(|id| site(id, second * u64::from(id))).collect(),
            rules: Vec::new(),
        };
        model.take_sites(&session, second * 1_000_000_000, sites);
    }
    model
}

#[test]
fn a_screen_of_the_usual_size_shows_both_lists() {
    let lines = screen(&shops(2), 80, 24);
    assert!(
        lines[0].starts_with(" 2 processes  3,000 records/s  300 kB/s  0 drops/s"),
        "{lines:#?}"
    );
    assert!(lines[0].ends_with("by records  every 1 s"), "{lines:#?}");
    assert!(lines[1].contains("APP") && lines[1].contains("LAG"), "{lines:#?}");
    assert!(
        lines[2].starts_with("›shop2") && lines[2].contains("2,000"),
        "{lines:#?}"
    );
    assert!(lines[2].contains("██    50%"), "{lines:#?}");
    assert!(lines[3].starts_with(" shop1"), "{lines:#?}");
    let bar = lines
        .iter()
        .position(|line| line.starts_with(" shop2 102: 12 callsites"));
    let bar = bar.unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(
        lines[bar + 1].contains("WHERE") && lines[bar + 1].contains("MESSAGE"),
        "{lines:#?}"
    );
    assert!(
        lines[bar + 2].contains("net.rs:70") && lines[bar + 2].contains("packet {0}"),
        "{lines:#?}"
    );
    assert!(lines[23].starts_with(" q quit"), "{lines:#?}");
}

#[test]
fn nothing_is_wider_than_the_screen_and_what_matters_stays() {
    let model = shops(3);
    for (width, height) in [
        (24, 4),
        (30, 6),
        (40, 12),
        (60, 10),
        (80, 24),
        (200, 60),
        (500, 200),
    ] {
        let lines = screen(&model, width, height);
        assert!(
            lines.iter().any(|line| line.contains("shop3")),
            "{width}x{height} {lines:#?}"
        );
    }
    for (width, height) in [(23, 4), (24, 3), (1, 1), (5, 40)] {
        let lines = screen(&model, width, height);
        assert!(
            !lines.iter().any(|line| line.contains("shop3")),
            "{width}x{height} {lines:#?}"
        );
    }
}

#[test]
fn a_low_screen_shows_the_list_that_keys_are_about() {
    let mut model = shops(2);
    let has = |lines: &[String], text: &str| lines.iter().any(|line| line.contains(text));
    let lines = screen(&model, 80, 8);
    assert!(has(&lines, "APP") && !has(&lines, "WHERE"), "{lines:#?}");
    model.act(Command::OtherPane);
    let lines = screen(&model, 80, 8);
    assert!(has(&lines, "WHERE") && !has(&lines, "APP"), "{lines:#?}");
}

#[test]
fn what_is_selected_is_seen_however_far_down_it_is() {
    let mut model = shops(40);
    model.act(Command::Go(Step::Last));
    let lines = screen(&model, 100, 30);
    assert!(lines.iter().any(|line| line.starts_with("›shop1 ")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("shop40 ")), "{lines:#?}");
}

#[test]
fn a_list_scrolls_no_more_than_it_has_to() {
    assert_eq!(scrolled(0, Some(3), 10, 5), 0);
    assert_eq!(scrolled(0, Some(5), 10, 5), 1);
    assert_eq!(scrolled(4, Some(5), 10, 5), 4);
    assert_eq!(scrolled(4, Some(2), 10, 5), 2);
    assert_eq!(scrolled(9, None, 3, 5), 0);
    assert_eq!(scrolled(2, Some(7), 10, 0), 8);
}

#[test]
fn without_processes_it_says_where_was_looked() {
    let mut model = Model::new(1_000_000_000, ProcessSort::Records, "");
    model.places = vec!["run directory /dev/shm/logdrive-1000".to_owned()];
    model.take(Sample::default());
    let lines = screen(&model, 80, 24).join("\n");
    assert!(lines.contains("No program logs with Logdrive here."), "{lines}");
    assert!(
        lines.contains("looked at run directory /dev/shm/logdrive-1000"),
        "{lines}"
    );
}

#[test]
fn questions_messages_and_the_page_of_keys_are_seen_on_small_screens_too() {
    let mut model = shops(1);
    model.act(Command::AskFilter);
    model.act(Command::Type('s'));
    assert!(screen(&model, 40, 6).join("\n").contains("processes with: s▏"));
    model.act(Command::Accept);
    model.act(Command::AskLevel);
    assert!(
        screen(&model, 80, 24)
            .join("\n")
            .contains("level of all of shop1 (101)")
    );
    model.act(Command::Cancel);
    model.say(Tone::Wrong, "the process has ended");
    assert!(screen(&model, 40, 5).join("\n").contains("the process has ended"));
    model.act(Command::Help);
    let lines = screen(&model, 80, 24).join("\n");
    assert!(lines.contains(" keys ") && lines.contains("take back"), "{lines}");
}

#[test]
fn dead_and_damaged_sessions_and_those_of_agents_are_told_apart() {
    let mut model = Model::new(1_000_000_000, ProcessSort::Pid, "");
    let (mut dead, mut held, mut damaged) = (process("a", 1), process("b", 2), process("c", 3));
    dead.state = State::Dead;
    held.at.entry = Some(SessionEntry {
        session: 7,
        start_unix_ns: 1,
        pid: 2,
        uid: 0,
        ring_count: 1,
        state: SessionState::Connected,
        app: "b".to_owned(),
    });
    damaged.state = State::Damaged;
    damaged.damage = Some("it belongs to user 7".to_owned());
    model.take(Sample {
        at_ns: 0,
        processes: vec![dead, held, damaged],
        troubles: vec!["the agent at /x does not answer".to_owned()],
    });
    let lines = screen(&model, 160, 24);
    assert!(
        lines[2].contains("dead") && lines[3].contains("agent"),
        "{lines:#?}"
    );
    assert!(
        lines[4].contains("damaged") && lines[4].contains("it belongs to user 7"),
        "{lines:#?}"
    );
    assert!(
        lines.join("\n").contains("the agent at /x does not answer"),
        "{lines:#?}"
    );
    assert!(
        lines.join("\n").contains("it does not log any more"),
        "{lines:#?}"
    );
}

#[test]
fn without_colours_there_are_none_and_weight_tells_what_is_selected() {
    let model = shops(2);
    for colored in [false, true] {
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
        terminal
            .draw(|frame| draw(frame, &model, &mut Scroll::default(), Paint { on: colored }))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let has_color = buffer
            .content()
            .iter()
            .any(|cell| cell.fg != ratatui::style::Color::Reset || cell.bg != ratatui::style::Color::Reset);
        assert_eq!(has_color, colored);
        assert!(buffer[(1, 2)].modifier.contains(Modifier::REVERSED));
        assert!(!buffer[(1, 3)].modifier.contains(Modifier::REVERSED));
    }
}
