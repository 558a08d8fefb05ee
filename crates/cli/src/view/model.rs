//! The model of the screen, and the effects of commands on it. There is no terminal in here: what happens comes in as
//! commands, as changes of logs and as steps, each of which takes no longer than its budget allows.

use super::asked::{Asked, Search};
use super::command::{Command, Effect, Mode, Move, Question, Tone};
use super::detail::Detail;
use super::fields::Fields;
use super::histogram::Histogram;
use super::limits::{CONTEXT_MAX, COPY_BYTES_MAX};
use super::row::values;
use super::shown::{Shown, behind};
use super::typed::Typed;
use super::window::{Target, Window};
use crate::instant::{Edge, now_unix_ns, read_instant_in};
use crate::output::safe;
use jiff::tz::TimeZone;
use logdrive_reader::pages::{
    Budget, Direction, PageSearch, RecordPlace, RecordReader, Step, TimeLine, Walk, WalkFrom, Want,
};
use logdrive_wire::Level;
use std::collections::BTreeMap;

/// Records that are stepped over at once by a page key, at most: as many as the tallest screen has lines.
const STEPS_MAX: usize = 1_000;

/// A search that is under way.
#[derive(Debug)]
struct Job {
    walk: Walk,
    wanted: Wanted,
    /// The threads that search for a text.
    search: Option<PageSearch>,
}

#[derive(Debug, Clone)]
enum Wanted {
    Level(Level),
    Text(Search),
}

/// Zones that a key goes through, and the one that is shown.
#[derive(Debug)]
pub(super) struct Zones {
    pub(super) all: Vec<TimeZone>,
    pub(super) shown: usize,
}

/// Everything that the screen shows.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) line: TimeLine,
    pub(super) window: Window,
    pub(super) fields: Fields,
    pub(super) histogram: Histogram,
    pub(super) detail: Detail,
    pub(super) asked: Asked,
    pub(super) typed: Typed,
    pub(super) mode: Mode,
    pub(super) zones: Zones,
    pub(super) is_following: bool,
    /// Columns that are left out at the left.
    pub(super) left: usize,
    pub(super) message: Option<(Tone, String)>,
    pub(super) reader: RecordReader,
    marks: BTreeMap<char, RecordPlace>,
    job: Option<Job>,
}

impl Model {
    pub(super) fn new(line: TimeLine, asked: Asked, zone: TimeZone) -> Self {
        let mut all = vec![zone];
        for other in [TimeZone::UTC, TimeZone::system()] {
            if !all.contains(&other) {
                all.push(other);
            }
        }
        let mut model = Self {
            line,
            window: Window::default(),
            fields: Fields::default(),
            histogram: Histogram::default(),
            detail: Detail::default(),
            asked,
            typed: Typed::default(),
            mode: Mode::View,
            zones: Zones { all, shown: 0 },
            is_following: false,
            left: 0,
            message: None,
            reader: RecordReader::new(),
            marks: BTreeMap::new(),
            job: None,
        };
        // The queries of the command line were read there.
        let filter = model.asked.plan("").unwrap_or_default();
        if filter.is_some() {
            model.line.set_filter(filter);
        }
        model
    }

    /// The zone in which times are shown.
    pub(super) fn zone(&self) -> TimeZone {
        self.zones
            .all
            .get(self.zones.shown)
            .cloned()
            .unwrap_or(TimeZone::UTC)
    }

    /// Returns whether something is being searched or built.
    pub(super) fn is_busy(&self) -> bool {
        self.job.is_some() || self.window.is_building()
    }

    /// Returns whether a search is under way, which a key stops.
    pub(super) fn is_searching(&self) -> bool {
        self.job.is_some()
    }

    /// Part of the logs that a search for a text has looked through, in percent.
    pub(super) fn searched_percent(&self) -> Option<u64> {
        let (done, all) = self.job.as_ref()?.search.as_ref()?.progress();
        (all > 0).then(|| done * 100 / all)
    }

    pub(super) fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.message = Some((tone, text.into()));
    }

    /// Goes on with what is under way; whether the screen has changed.
    pub(super) fn go_on(&mut self, bytes: u64) -> bool {
        let mut budget = Budget::bytes(bytes);
        let mut changed = false;
        if let Some(mut job) = self.job.take() {
            let want = match (&job.wanted, &job.search) {
                (_, Some(search)) => Want::Match(search),
                (Wanted::Level(level), None) => Want::Level(*level),
                (Wanted::Text(_), None) => Want::Passing,
            };
            let step = self.line.step(&mut job.walk, want, &mut budget);
            match step {
                Step::NotYet => self.job = Some(job),
                Step::Found(place) => self.show(place),
                Step::End => {
                    let what = match &job.wanted {
                        Wanted::Level(level) => format!("{} or above", level.name()),
                        Wanted::Text(search) => safe(&search.text),
                    };
                    self.say(Tone::Wrong, format!("no more {what} in this direction"));
                }
            }
            changed = !matches!(step, Step::NotYet);
        }
        let before = self.window.cursor();
        changed |= self.window.go_on(&mut self.line, &mut budget);
        if changed && (self.window.cursor() != before || self.detail.values.is_empty()) {
            self.show_detail();
        }
        if let Some(failure) = self.line.take_failure() {
            self.say(Tone::Wrong, safe(&failure));
            changed = true;
        }
        changed
    }

    /// The logs have changed: more has come, or less is there.
    pub(super) fn logs_changed(&mut self) {
        if self.is_following {
            self.go(Move::End);
        } else if self.window.rows.len() < self.window.height && !self.window.is_building() {
            self.rebuild();
        }
    }

    /// The screen has another size.
    pub(super) fn resize(&mut self, height: usize) {
        if self.window.height != height {
            self.window.height = height;
            match self.is_following {
                true => self.go(Move::End),
                false => self.rebuild(),
            }
        }
    }

    /// Begins at the end of the logs, or at a time.
    pub(super) fn begin(&mut self, from: WalkFrom) {
        let (direction, above) = match from {
            WalkFrom::End => (Direction::Backwards, STEPS_MAX),
            _ => (Direction::Forwards, 0),
        };
        let target = Target {
            from,
            direction,
            above,
        };
        self.window.build(&mut self.line, target, self.asked.context);
    }

    /// Builds the window anew around the selected record, where it is on the screen.
    fn rebuild(&mut self) {
        let target = match self.window.cursor() {
            Some(cursor) => Target::at(cursor, self.window.selected),
            None => Target {
                from: WalkFrom::Start,
                direction: Direction::Forwards,
                above: 0,
            },
        };
        if self.window.cursor().is_some() || !self.window.is_building() {
            self.window.build(&mut self.line, target, self.asked.context);
        }
    }

    /// Selects a record; the screen moves only when it is not on it.
    fn show(&mut self, place: RecordPlace) {
        self.is_following = false;
        match self.window.rows.iter().position(|row| *row == place) {
            Some(row) if !self.window.is_building() => self.window.selected = row,
            _ => {
                let target = Target::at(place, self.window.height / 3);
                self.window.build(&mut self.line, target, self.asked.context);
            }
        }
        self.show_detail();
    }

    fn show_detail(&mut self) {
        let Some(cursor) = self.window.cursor().filter(|_| self.detail.is_open) else {
            return;
        };
        let reader = &mut self.reader;
        let parts = self.line.record(cursor, |_, bytes| reader.read(bytes));
        let log = self.line.logs().get(cursor.log as usize);
        let log = log.map_or("", |log| log.name()).to_owned();
        let zone = self.zone();
        self.detail.show(values(&parts.unwrap_or_default(), &log, &zone));
    }

    /// Follows a command.
    pub(super) fn act(&mut self, command: Command) -> Effect {
        if self.job.take().is_some() {
            self.say(Tone::Done, "the search was stopped");
            if command == Command::Back {
                return Effect::Nothing;
            }
        } else if !matches!(command, Command::Type(_) | Command::Redraw) {
            self.message = None;
        }
        match command {
            Command::Quit => return Effect::Quit,
            Command::Suspend => return Effect::Suspend,
            Command::Redraw => return Effect::Redraw,
            Command::CopyRecord | Command::CopyValue => return self.copy(command == Command::CopyRecord),
            Command::Go(step) => self.go(step),
            Command::Side(by) => self.left = self.left.saturating_add_signed(by),
            Command::Follow => {
                self.is_following = !self.is_following;
                if self.is_following {
                    self.go(Move::End);
                }
            }
            Command::Level(level, upwards) => self.search(Wanted::Level(level), upwards),
            Command::Again(upwards) => match self.asked.search.clone() {
                Some(search) => self.search(Wanted::Text(search), upwards),
                None => self.say(Tone::Wrong, "nothing was searched yet: / searches"),
            },
            Command::Ask(question) => {
                self.mode = Mode::Ask(question);
                self.typed.begin(match question {
                    Question::Filter => &self.asked.filter,
                    _ => "",
                });
            }
            Command::Accept => self.accept(),
            Command::Back => self.back(),
            Command::Unfold => {
                self.detail.is_open = !self.detail.is_open;
                self.show_detail();
            }
            Command::Value(by) => self.detail.select(by),
            Command::Zone => {
                self.zones.shown = (self.zones.shown + 1) % self.zones.all.len();
                self.show_detail();
            }
            Command::Context(by) => {
                self.asked.context = self.asked.context.saturating_add_signed(by).min(CONTEXT_MAX);
                self.rebuild();
            }
            Command::Click(row) if row < self.window.rows.len() => {
                self.is_following = false;
                self.window.selected = row;
                self.show_detail();
            }
            Command::Letter(letter) => self.letter(letter),
            other => self.act_on_lists(other),
        }
        Effect::Nothing
    }

    /// Commands of the histogram, the list of fields and the line that is typed.
    fn act_on_lists(&mut self, command: Command) {
        match command {
            Command::Help => self.mode = Mode::Help,
            Command::Mark => self.mode = Mode::Mark,
            Command::Jump => self.mode = Mode::Jump,
            Command::Fields => self.mode = Mode::Fields,
            Command::ToggleField => self.fields.toggle(),
            Command::SelectField(by) => self.fields.select(by),
            Command::ShiftField(by) => self.fields.shift(by),
            Command::Histogram => {
                self.histogram.is_open = !self.histogram.is_open;
                self.histogram.brush = None;
                self.mode = Mode::View;
            }
            Command::Brush => {
                self.histogram.is_open = true;
                self.mode = Mode::Brush;
                self.histogram.count(&mut self.line);
                let cursor = self.window.cursor();
                let column = cursor.and_then(|cursor| self.histogram.column_of(cursor.unix_ns));
                self.histogram.brush = Some(column.map_or((0, 0), |column| (column, column)));
            }
            Command::MoveBrush(by, extends) => self.histogram.move_brush(by, extends),
            Command::PutBrush(column, extends) => {
                let from = self
                    .histogram
                    .brush
                    .filter(|_| extends)
                    .map_or(column, |brush| brush.0);
                self.histogram.brush = Some((from, column));
            }
            Command::ZoomIn => self.zoom_in(),
            Command::ZoomOut => self.zoom_out(),
            Command::Type(letter) => self.typed.push(letter),
            Command::Erase if self.typed.text.is_empty() => self.mode = Mode::View,
            Command::Erase => self.typed.erase(),
            Command::EraseAll => self.typed.begin(""),
            Command::History(by) => self.typed.recall(by),
            _ => {}
        }
    }

    /// Moves among the records.
    fn go(&mut self, step: Move) {
        let height = self.window.height.max(1);
        if !matches!(step, Move::End) {
            self.is_following = false;
        }
        match step {
            Move::Start => self.begin(WalkFrom::Start),
            Move::End => self.begin(WalkFrom::End),
            Move::Lines(by) => self.go_lines(by, None),
            Move::Halves(by) => self.go_lines(by * (height as isize / 2).max(1), Some(self.window.selected)),
            Move::Pages(by) => {
                self.go_lines(by * (height as isize - 1).max(1), Some(self.window.selected));
            }
        }
    }

    /// Selects another record so many lines away; `above` is the line of the screen where it then is.
    fn go_lines(&mut self, by: isize, above: Option<usize>) {
        let wanted = self.window.selected.checked_add_signed(by);
        let is_there = |row: &usize| *row < self.window.rows.len();
        if above.is_none()
            && let Some(row) = wanted.filter(is_there)
        {
            self.window.selected = row;
            return self.show_detail();
        }
        let Some(cursor) = self.window.cursor() else {
            return;
        };
        let (direction, edge) = match by > 0 {
            true => (Direction::Forwards, usize::MAX),
            false => (Direction::Backwards, 0),
        };
        let mut shown = Shown::new(
            &mut self.line,
            behind(cursor, direction),
            direction,
            self.asked.context,
        );
        // What is not in memory is left for the build, which goes on from the last record that was found.
        let mut budget = Budget::bytes(super::limits::STEP_BYTES);
        let mut found = None;
        for _ in 0..by.unsigned_abs().min(STEPS_MAX) {
            match shown.step(&mut self.line, &mut budget) {
                Step::Found(place) => found = Some(place),
                Step::NotYet if found.is_none() => {
                    let target = Target {
                        from: behind(cursor, direction),
                        direction,
                        above: above.unwrap_or(edge),
                    };
                    return self.window.build(&mut self.line, target, self.asked.context);
                }
                Step::NotYet | Step::End => break,
            }
        }
        if let Some(place) = found {
            let target = Target::at(place, above.unwrap_or(edge));
            self.window.build(&mut self.line, target, self.asked.context);
        }
    }

    fn search(&mut self, wanted: Wanted, upwards: bool) {
        let direction = match upwards {
            true => Direction::Backwards,
            false => Direction::Forwards,
        };
        if let Some(cursor) = self.window.cursor() {
            self.is_following = false;
            let walk = self.line.walk(behind(cursor, direction), direction);
            let search = match &wanted {
                Wanted::Level(_) => Ok(None),
                Wanted::Text(search) => self.line.search(&walk, search.pattern()).map(Some),
            };
            match search {
                Ok(search) => self.job = Some(Job { walk, wanted, search }),
                Err(error) => self.say(Tone::Wrong, safe(&format!("no thread to search with: {error}"))),
            }
        }
    }

    /// Takes what was typed, or what is selected.
    fn accept(&mut self) {
        let Mode::Ask(question) = self.mode else {
            self.mode = Mode::View;
            return;
        };
        let text = self.typed.text.clone();
        match question {
            Question::Search => {
                let search = match text.is_empty() {
                    true => self.asked.search.clone().ok_or_else(String::new),
                    false => Search::read(&text),
                };
                match search {
                    Ok(search) => {
                        self.asked.search = Some(search.clone());
                        self.search(Wanted::Text(search), false);
                    }
                    Err(why) if why.is_empty() => {}
                    Err(why) => return self.say(Tone::Wrong, safe(&why)),
                }
            }
            Question::Filter => match self.asked.plan(&text) {
                Ok(filter) => {
                    self.asked.filter = text.trim().to_owned();
                    self.line.set_filter(filter);
                    self.rebuild();
                }
                Err(why) => return self.say(Tone::Wrong, safe(&why)),
            },
            Question::Time => match read_instant_in(&text, Edge::First, now_unix_ns(), &self.zone()) {
                Ok(unix_ns) => {
                    self.is_following = false;
                    let target = Target {
                        from: WalkFrom::Time(unix_ns),
                        direction: Direction::Forwards,
                        above: self.window.height / 3,
                    };
                    self.window.build(&mut self.line, target, self.asked.context);
                }
                Err(why) => return self.say(Tone::Wrong, why),
            },
        }
        self.typed.keep();
        self.mode = Mode::View;
    }

    /// Closes what is open, the innermost first; then the filter goes, with its place kept.
    fn back(&mut self) {
        if self.mode != Mode::View {
            self.mode = Mode::View;
            self.histogram.brush = None;
        } else if self.window.is_building() {
            self.window.stop();
        } else if self.detail.is_open {
            self.detail.is_open = false;
        } else if !self.histogram.zoomed.is_empty() {
            self.zoom_out();
        } else if !self.asked.filter.is_empty() {
            self.asked.filter.clear();
            self.line.set_filter(self.asked.plan("").unwrap_or_default());
            self.rebuild();
        }
    }

    fn zoom_in(&mut self) {
        if let Some(range) = self.histogram.brushed() {
            self.histogram.zoomed.push(range);
            self.zoomed();
        }
    }

    fn zoom_out(&mut self) {
        if self.histogram.zoomed.pop().is_some() {
            self.zoomed();
        }
    }

    fn zoomed(&mut self) {
        self.histogram.brush = None;
        self.mode = Mode::View;
        let range = self.histogram.zoomed.last().copied();
        self.line.set_range(range.unwrap_or((0, u64::MAX)));
        self.rebuild();
    }

    /// A letter that names a mark.
    fn letter(&mut self, letter: char) {
        let mode = std::mem::replace(&mut self.mode, Mode::View);
        let cursor = self.window.cursor();
        if mode == Mode::Mark {
            if let Some(cursor) = cursor {
                self.marks.insert(letter, cursor);
                self.say(Tone::Done, format!("marked {letter}; '{letter} comes back here"));
            }
            return;
        }
        let Some(place) = self.marks.get(&letter).copied() else {
            return self.say(
                Tone::Wrong,
                format!("there is no mark {}", safe(&letter.to_string())),
            );
        };
        // A second quote comes back.
        if let Some(cursor) = cursor {
            self.marks.insert('\'', cursor);
        }
        self.show(place);
    }

    /// Letters of the marks of a record.
    pub(super) fn marks_of(&self, place: RecordPlace) -> Option<char> {
        let mut marks = self.marks.iter();
        marks
            .find(|(letter, mark)| **mark == place && **letter != '\'')
            .map(|(letter, _)| *letter)
    }

    fn copy(&mut self, is_record: bool) -> Effect {
        let value = self.detail.values.get(self.detail.selected);
        let (what, bytes) = match (is_record || !self.detail.is_open, value) {
            (false, Some((name, value))) => (safe(name), value.clone()),
            _ => {
                let cursor = self.window.cursor();
                let bytes = cursor.and_then(|cursor| self.line.record(cursor, |_, bytes| bytes.to_vec()));
                let bytes = bytes.unwrap_or_default();
                let end = bytes.strip_suffix(b"\n").unwrap_or(&bytes).len();
                (
                    "the record".to_owned(),
                    bytes.get(..end).unwrap_or_default().to_vec(),
                )
            }
        };
        if bytes.is_empty() || bytes.len() > COPY_BYTES_MAX {
            self.say(Tone::Wrong, format!("{} bytes cannot be copied", bytes.len()));
            return Effect::Nothing;
        }
        self.say(Tone::Done, format!("copied {what}"));
        Effect::Copy(bytes)
    }
}
