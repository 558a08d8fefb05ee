//! Tests of the model, and of the screens that it makes: commands in, text of the screen out.

use super::asked::Asked;
use super::command::{Command, Effect, Mode, Move, Question};
use super::draw::{Areas, draw};
use super::limits::STEP_BYTES;
use super::model::Model;
use crate::paint::Paint;
use jiff::tz::TimeZone;
use logdrive_reader::pages::{Indexer, PageIndex, PagedLog, TimeLine, WalkFrom};
use logdrive_testkit::wait_until;
use logdrive_wire::Level;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;
use std::io::Write;
use std::sync::Arc;
use tempfile::NamedTempFile;

const WIDTH: u16 = 72;
const HEIGHT: u16 = 14;

/// A model of two logs with a record each second in turn, every tenth an error.
struct Shown {
    model: Model,
    files: Vec<NamedTempFile>,
}

fn put(file: &mut NamedTempFile, number: u64) {
    let level = if number % 10 == 3 { "ERROR" } else { "INFO " };
    let (minute, second) = (number / 60, number % 60);
    let lines = if number % 10 == 3 { "\n  at net.rs" } else { "" };
    writeln!(
        file,
        "2026-11-21T08:{minute:02}:{second:02}.250Z {level} main shop a.rs:1 order id={number}{lines}"
    )
    .expect("written");
}

impl Shown {
    fn new(records: u64) -> Self {
        let new = || NamedTempFile::with_prefix("log-").expect("a file");
        let mut files = vec![new(), new()];
        for number in 0..records {
            put(&mut files[(number % 2) as usize], number);
        }
        let index = PageIndex::default();
        let indexer = Indexer::start(index.clone()).expect("started");
        let mut line = TimeLine::new(Some(indexer), index);
        for file in &files {
            line.add(Arc::new(PagedLog::open(file.path(), 1).expect("opened")));
        }
        let mut model = Model::new(line, Asked::default(), TimeZone::UTC);
        model.fields.choose(&[], &["log".to_owned(), "thread".to_owned()]);
        model.histogram.width = WIDTH.into();
        let mut shown = Self { model, files };
        shown.model.begin(WalkFrom::Start);
        shown.settle();
        shown
    }

    /// Lets everything that is under way come to its end.
    fn settle(&mut self) {
        let area = Rect::new(0, 0, WIDTH, HEIGHT);
        for _ in 0..1_000 {
            let areas = Areas::of(area, &self.model).0;
            self.model.resize(areas.rows.height.into());
            self.model.detail.height = areas.detail.height.saturating_sub(1).into();
            if !self.model.is_busy() {
                break;
            }
            self.model.go_on(STEP_BYTES);
        }
        let line = &mut self.model.line;
        wait_until("the index", || {
            let (done, all) = line.index().progress(line.is_filtered());
            done == all
        });
        self.model.histogram.count(line);
    }

    fn act(&mut self, commands: impl IntoIterator<Item = Command>) -> Effect {
        let mut effect = Effect::Nothing;
        for command in commands {
            effect = self.model.act(command);
            self.settle();
        }
        effect
    }

    fn type_in(&mut self, question: Question, text: &str) {
        self.act([Command::Ask(question), Command::EraseAll]);
        self.act(text.chars().map(Command::Type));
        self.act([Command::Accept]);
    }

    /// Identifiers of the rows, the selected one in brackets.
    fn ids(&mut self) -> String {
        let rows: Vec<_> = self.model.window.rows.iter().copied().collect();
        let selected = self.model.window.selected;
        let id = |(number, place)| {
            let text = self
                .model
                .line
                .record(place, |_, bytes| String::from_utf8_lossy(bytes).into_owned());
            let text = text.unwrap_or_default();
            let id = text
                .split("id=")
                .nth(1)
                .and_then(|rest| rest.split_whitespace().next());
            let id = id.unwrap_or("?").to_owned();
            if number == selected { format!("[{id}]") } else { id }
        };
        rows.into_iter().enumerate().map(id).collect::<Vec<_>>().join(" ")
    }

    fn screen(&mut self) -> String {
        let mut terminal = Terminal::new(TestBackend::new(WIDTH, HEIGHT)).expect("a terminal");
        let model = &mut self.model;
        terminal
            .draw(|frame| draw(frame, model, Paint { on: false }))
            .expect("drawn");
        let buffer = terminal.backend().buffer();
        let line = |row: u16| {
            let cells = (0..WIDTH).filter_map(|column| buffer.cell((column, row)));
            let text: String = cells.map(|cell| cell.symbol()).collect();
            text.trim_end().to_owned()
        };
        (0..HEIGHT).map(line).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn records_of_all_logs_are_shown_in_order_and_unfolded() {
    let mut shown = Shown::new(100);
    shown.act([Command::Go(Move::Lines(3)), Command::Unfold, Command::Value(1)]);
    assert_eq!(
        shown.screen(),
        " 2 logs  6.1 kB                                                     UTC
 2026-11-21 08:00:00.250 INFO  shop order id=0
 2026-11-21 08:00:01.250 INFO  shop order id=1
 2026-11-21 08:00:02.250 INFO  shop order id=2
 2026-11-21 08:00:03.250 ERROR shop order id=3 [+1]
 record, lines 4 to 9 of 9
 thread   main
 module   shop
 file     a.rs:1
 message  order
            at net.rs
>id       3
 2026-11-21T08:00:03.250000000+00:00
 q quit  ? keys  / search  n next  & filter  e error  F follow"
    );
    assert_eq!(shown.act([Command::CopyValue]), Effect::Copy(b"3".to_vec()));
    let record = b"2026-11-21T08:00:03.250Z ERROR main shop a.rs:1 order id=3\n  at net.rs";
    assert_eq!(shown.act([Command::CopyRecord]), Effect::Copy(record.to_vec()));
}

#[test]
fn moves_stop_at_the_ends_and_fill_the_screen() {
    let mut shown = Shown::new(100);
    assert_eq!(shown.ids(), "[0] 1 2 3 4 5 6 7 8 9 10");
    shown.act([Command::Go(Move::Pages(1))]);
    assert_eq!(shown.ids(), "[10] 11 12 13 14 15 16 17 18 19 20");
    shown.act([Command::Go(Move::Lines(-2))]);
    assert_eq!(shown.ids(), "[8] 9 10 11 12 13 14 15 16 17 18");
    shown.act([Command::Go(Move::End)]);
    assert_eq!(shown.ids(), "89 90 91 92 93 94 95 96 97 98 [99]");
    shown.act([Command::Go(Move::Lines(5))]);
    assert_eq!(shown.ids(), "89 90 91 92 93 94 95 96 97 98 [99]");
    shown.act([Command::Go(Move::Pages(-20))]);
    assert_eq!(shown.ids(), "[0] 1 2 3 4 5 6 7 8 9 10");
}

#[test]
fn errors_and_texts_are_found_in_both_directions() {
    let mut shown = Shown::new(100);
    let error = |up| Command::Level(Level::Error, up);
    shown.act([error(false), error(false)]);
    assert_eq!(shown.ids(), "10 11 12 [13] 14 15 16 17 18 19 20");
    shown.act([error(true)]);
    assert_eq!(shown.ids(), "0 1 2 [3] 4 5 6 7 8 9 10");
    shown.act([error(true)]);
    let (_, said) = shown.model.message.clone().expect("a message");
    assert_eq!(said, "no more ERROR or above in this direction");
    shown.type_in(Question::Search, "ID=7[0-9]");
    assert_eq!(
        shown.model.message.as_ref().map(|(_, said)| said.as_str()),
        Some("no more ID=7[0-9] in this direction")
    );
    shown.type_in(Question::Search, "id=7[0-9]");
    assert_eq!(shown.ids(), "67 68 69 [70] 71 72 73 74 75 76 77");
    shown.act([Command::Again(false), Command::Again(false), Command::Again(true)]);
    assert_eq!(shown.ids(), "67 68 69 70 [71] 72 73 74 75 76 77");
}

#[test]
fn a_filter_leaves_the_place_and_shows_what_is_around() {
    let mut shown = Shown::new(100);
    shown.act([Command::Go(Move::Pages(4)), Command::Go(Move::Lines(4))]);
    assert_eq!(shown.ids(), "40 41 42 43 [44] 45 46 47 48 49 50");
    shown.type_in(Question::Filter, "level:error");
    assert_eq!(shown.ids(), "3 13 23 33 43 [53] 63 73 83 93");
    shown.act([Command::Context(1)]);
    assert_eq!(shown.ids(), "34 42 43 44 52 [53] 54 62 63 64 72");
    assert!(
        shown.screen().contains("·2026-11-21 08:00:52.250"),
        "{}",
        shown.screen()
    );
    shown.act([Command::Go(Move::Start)]);
    assert_eq!(shown.ids(), "[2] 3 4 12 13 14 22 23 24 32 33");
    shown.act([Command::Level(Level::Error, false), Command::Back]);
    assert_eq!(shown.ids(), "2 [3] 4 5 6 7 8 9 10 11 12");
    shown.type_in(Question::Filter, "id=5");
    let (_, said) = shown.model.message.clone().expect("a message");
    assert!(said.contains("id:=5"), "{said}");
    assert_eq!(shown.model.mode, Mode::Ask(Question::Filter));
}

#[test]
fn the_histogram_is_brushed_and_zoomed() {
    let mut shown = Shown::new(72);
    shown.act([Command::Histogram]);
    let screen = shown.screen();
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(
        lines[1],
        " 2026-11-21 08:00:00.250 to 2026-11-21 08:01:11.250  72 records, 0 warn…"
    );
    assert_eq!(
        lines[2],
        "████████████████████████████████████████████████████████████████████████"
    );
    assert_eq!(
        lines[5],
        "···E·········E·········E·········E·········E·········E·········E········"
    );
    shown.act([
        Command::Brush,
        Command::PutBrush(10, false),
        Command::MoveBrush(9, true),
        Command::ZoomIn,
    ]);
    assert_eq!(shown.ids(), "[10] 11 12 13 14 15");
    shown.act([Command::Go(Move::End)]);
    assert_eq!(shown.ids(), "14 15 16 17 18 [19]");
    shown.act([Command::ZoomOut]);
    assert_eq!(shown.ids(), "14 15 16 17 18 [19]");
    shown.act([Command::Go(Move::Start)]);
    assert_eq!(shown.ids(), "[0] 1 2 3 4 5");
}

#[test]
fn marks_times_and_zones() {
    let mut shown = Shown::new(100);
    shown.act([Command::Go(Move::Lines(2)), Command::Mark, Command::Letter('a')]);
    shown.type_in(Question::Time, "2026-11-21 08:01:00");
    assert_eq!(shown.ids(), "57 58 59 [60] 61 62 63 64 65 66 67");
    shown.act([Command::Jump, Command::Letter('a')]);
    assert_eq!(shown.ids(), "0 1 [2] 3 4 5 6 7 8 9 10");
    shown.act([Command::Jump, Command::Letter('\'')]);
    assert_eq!(shown.ids(), "57 58 59 [60] 61 62 63 64 65 66 67");
    shown.act([Command::Jump, Command::Letter('b')]);
    assert_eq!(
        shown.model.message.as_ref().map(|(_, said)| said.as_str()),
        Some("there is no mark b")
    );
    let zone = TimeZone::posix("CET-1").expect("a good zone");
    (shown.model.zones.all, shown.model.zones.shown) = (vec![TimeZone::UTC, zone], 0);
    shown.act([Command::Zone]);
    let screen = shown.screen();
    assert!(screen.contains("2026-11-21 09:01:00.250"), "{screen}");
    assert!(screen.contains("2026-11-21T09:01:00.250000000+01:00"), "{screen}");
}

#[test]
fn what_comes_is_followed_until_something_else_is_looked_at() {
    let mut shown = Shown::new(20);
    shown.act([Command::Follow]);
    assert_eq!(shown.ids(), "9 10 11 12 13 14 15 16 17 18 [19]");
    let come = |shown: &mut Shown, number| {
        put(&mut shown.files[0], number);
        assert_eq!(shown.model.line.look().len(), 1);
        shown.model.logs_changed();
        shown.settle();
    };
    come(&mut shown, 20);
    assert_eq!(shown.ids(), "10 11 12 13 14 15 16 17 18 19 [20]");
    shown.act([Command::Go(Move::Lines(-1))]);
    come(&mut shown, 21);
    assert_eq!(shown.ids(), "10 11 12 13 14 15 16 17 18 [19] 20");
    assert!(!shown.model.is_following);
}

#[test]
fn hostile_lines_are_escaped_and_long_ones_cut() {
    let mut shown = Shown::new(2);
    let long = "x".repeat(3 << 20);
    write!(
        shown.files[0],
        "2026-11-21T09:00:00Z INFO  \u{1b}]0;title\u{7} a\u{202e}b\r{long}\n\u{1b}[31m2026-11-21T09:00:01Z INFO  red\u{1b}[0m\n"
    )
    .expect("written");
    shown.model.line.look();
    shown.act([Command::Go(Move::End), Command::Unfold]);
    let screen = shown.screen();
    assert!(
        !screen.contains(['\u{1b}', '\u{7}', '\u{202e}', '\r']),
        "{screen:?}"
    );
    assert!(screen.contains("2026-11-21 09:00:01.000 INFO  red"), "{screen}");
    shown.act([
        Command::Unfold,
        Command::Go(Move::Start),
        Command::Go(Move::Lines(2)),
    ]);
    let screen = shown.screen();
    assert!(
        screen.contains("09:00:00.000 INFO  \\x1b]0;title\\x07 a\\u{202e}b"),
        "{screen}"
    );
}

#[test]
fn without_records_it_says_so() {
    let mut shown = Shown::new(0);
    assert!(shown.screen().contains("nothing is logged here"));
    shown.act([
        Command::Go(Move::Pages(1)),
        Command::Unfold,
        Command::Brush,
        Command::ZoomIn,
        Command::CopyRecord,
        Command::Level(Level::Warn, true),
        Command::Back,
    ]);
    shown.type_in(Question::Filter, "x");
    assert!(
        shown.screen().contains("no record passes the filter"),
        "{}",
        shown.screen()
    );
}
