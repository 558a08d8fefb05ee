//! The window: the records on the screen, and the one that is selected. It is built around a record, in pieces that take
//! no longer than a budget allows, so that keys are heard meanwhile.

use super::shown::{Shown, at, behind};
use logdrive_reader::pages::{Budget, Direction, RecordPlace, Step, TimeLine, WalkFrom};
use std::collections::VecDeque;

/// Target of a build: which record is to be selected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) from: WalkFrom,
    pub(super) direction: Direction,
    /// Lines above it on the screen.
    pub(super) above: usize,
}

/// The records on the screen.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) rows: VecDeque<RecordPlace>,
    /// Number of the selected row.
    pub(super) selected: usize,
    /// Lines of the screen.
    pub(super) height: usize,
    build: Option<Build>,
}

/// A window that is being built.
#[derive(Debug)]
struct Build {
    stage: Stage,
    target: Target,
    context: usize,
    rows: VecDeque<RecordPlace>,
    selected: usize,
    /// Set if the walk to both sides has found its end.
    has_end: [bool; 2],
}

#[derive(Debug)]
enum Stage {
    /// Searches the target; `true` when the other direction was tried already.
    Find(Shown, bool),
    Down(Shown),
    Up(Shown),
}

impl Window {
    /// The record that is selected.
    pub(super) fn cursor(&self) -> Option<RecordPlace> {
        self.rows.get(self.selected).copied()
    }

    /// Returns whether a build is under way.
    pub(super) fn is_building(&self) -> bool {
        self.build.is_some()
    }

    /// Stops a build that is under way.
    pub(super) fn stop(&mut self) {
        self.build = None;
    }

    /// Begins to build the window around a record.
    pub(super) fn build(&mut self, line: &mut TimeLine, target: Target, context: usize) {
        self.build = Some(Build {
            stage: Stage::Find(Shown::new(line, target.from, target.direction, context), false),
            target,
            context,
            rows: VecDeque::new(),
            selected: 0,
            has_end: [false; 2],
        });
    }

    /// Goes on with the build; whether the rows have changed.
    pub(super) fn go_on(&mut self, line: &mut TimeLine, budget: &mut Budget) -> bool {
        let Some(build) = &mut self.build else {
            return false;
        };
        let before = build.rows.len();
        let is_done = build.go_on(line, self.height.max(1), budget);
        // A screen that is half empty for a moment is better than one that stands still, once the record is found.
        let changed = is_done || build.rows.len() != before;
        if changed {
            self.rows.clone_from(&build.rows);
            self.selected = build.selected;
        }
        if is_done {
            self.build = None;
        }
        changed
    }
}

impl Build {
    /// Returns whether it is done.
    fn go_on(&mut self, line: &mut TimeLine, height: usize, budget: &mut Budget) -> bool {
        let above = self.target.above.min(height - 1);
        loop {
            match &mut self.stage {
                Stage::Find(shown, is_second) => match shown.step(line, budget) {
                    Step::NotYet => return false,
                    Step::Found(place) => {
                        self.rows.push_back(place);
                        self.stage = self.down(line);
                    }
                    Step::End if *is_second => return true,
                    Step::End => {
                        let back = super::shown::opposite(self.target.direction);
                        self.stage =
                            Stage::Find(Shown::new(line, self.target.from, back, self.context), true);
                    }
                },
                Stage::Down(shown) => {
                    let wanted = match self.has_end[0] {
                        true => height - self.rows.len().min(height),
                        false => (height - above).saturating_sub(self.rows.len() - self.selected),
                    };
                    if wanted == 0 {
                        if self.rows.len() >= height || self.has_end[0] {
                            return true;
                        }
                        self.stage = self.up(line);
                        continue;
                    }
                    match shown.step(line, budget) {
                        Step::NotYet => return false,
                        Step::Found(place) => self.rows.push_back(place),
                        Step::End => {
                            self.has_end[1] = true;
                            if self.has_end[0] {
                                return true;
                            }
                            self.stage = self.up(line);
                        }
                    }
                }
                Stage::Up(shown) => {
                    if self.rows.len() >= height {
                        return true;
                    }
                    match shown.step(line, budget) {
                        Step::NotYet => return false,
                        Step::Found(place) => {
                            self.rows.push_front(place);
                            self.selected += 1;
                        }
                        Step::End => {
                            self.has_end[0] = true;
                            if self.has_end[1] {
                                return true;
                            }
                            self.stage = self.down(line);
                        }
                    }
                }
            }
        }
    }

    fn down(&self, line: &mut TimeLine) -> Stage {
        let from = self
            .rows
            .back()
            .map_or(WalkFrom::Start, |last| behind(*last, Direction::Forwards));
        Stage::Down(Shown::new(line, from, Direction::Forwards, self.context))
    }

    fn up(&self, line: &mut TimeLine) -> Stage {
        let from = self
            .rows
            .front()
            .map_or(WalkFrom::End, |first| behind(*first, Direction::Backwards));
        Stage::Up(Shown::new(line, from, Direction::Backwards, self.context))
    }
}

impl Target {
    /// A record, or the next one that is shown.
    pub(super) fn at(place: RecordPlace, above: usize) -> Self {
        Self {
            from: at(place, Direction::Forwards),
            direction: Direction::Forwards,
            above,
        }
    }
}
