//! The records that a screen shows, one after the other: all of them; with a filter those that pass, and around each of
//! them as many others as were asked for.

use logdrive_reader::pages::{Budget, Direction, RecordPlace, Step, TimeLine, Walk, WalkFrom, Want};

/// A walk over the records that are shown.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    direction: Direction,
    /// Records around each that passes.
    context: usize,
    /// All records, where there is context; else those that pass.
    walk: Walk,
    /// The search for the next record that passes, behind one that is not shown.
    search: Option<(RecordPlace, Walk)>,
}

impl Shown {
    pub(super) fn new(line: &mut TimeLine, from: WalkFrom, direction: Direction, context: usize) -> Self {
        let context = if line.is_filtered() { context } else { 0 };
        Self {
            direction,
            context,
            walk: line.walk(from, direction),
            search: None,
        }
    }

    /// Goes on to the next record that is shown.
    pub(super) fn step(&mut self, line: &mut TimeLine, budget: &mut Budget) -> Step {
        if self.context == 0 {
            return line.step(&mut self.walk, Want::Passing, budget);
        }
        loop {
            if let Some((hidden, mut search)) = self.search.take() {
                match line.step(&mut search, Want::Passing, budget) {
                    Step::Found(hit) => self.go_before(line, hidden, hit),
                    Step::NotYet => {
                        self.search = Some((hidden, search));
                        return Step::NotYet;
                    }
                    Step::End => return Step::End,
                }
            }
            match line.step(&mut self.walk, Want::All, budget) {
                Step::Found(place) if is_shown(line, place, self.context) => return Step::Found(place),
                Step::Found(place) => {
                    let search = line.walk(behind(place, self.direction), self.direction);
                    self.search = Some((place, search));
                }
                other => return other,
            }
        }
    }

    /// Goes to the first record of the context before a hit, behind the last one that is hidden.
    fn go_before(&mut self, line: &mut TimeLine, hidden: RecordPlace, hit: RecordPlace) {
        let back = opposite(self.direction);
        let mut walk = line.walk(behind(hit, back), back);
        let mut first = hit;
        for _ in 0..self.context {
            match line.step(&mut walk, Want::All, &mut Budget::bytes(u64::MAX)) {
                Step::Found(place) if place != hidden => first = place,
                _ => break,
            }
        }
        self.walk = line.walk(at(first, self.direction), self.direction);
    }
}

/// Returns whether a record passes, or stands close to one that does.
pub(super) fn is_shown(line: &mut TimeLine, place: RecordPlace, context: usize) -> bool {
    if line.record_passes(place) {
        return true;
    }
    [Direction::Forwards, Direction::Backwards]
        .into_iter()
        .any(|direction| {
            let mut walk = line.walk(behind(place, direction), direction);
            (0..context).any(|_| {
                let step = line.step(&mut walk, Want::All, &mut Budget::bytes(u64::MAX));
                matches!(step, Step::Found(place) if line.record_passes(place))
            })
        })
}

/// The place behind a record, in a direction.
pub(super) fn behind(place: RecordPlace, direction: Direction) -> WalkFrom {
    match direction {
        Direction::Forwards => WalkFrom::Behind(place),
        Direction::Backwards => WalkFrom::At(place),
    }
}

/// The place of a record itself, in a direction.
pub(super) fn at(place: RecordPlace, direction: Direction) -> WalkFrom {
    match direction {
        Direction::Forwards => WalkFrom::At(place),
        Direction::Backwards => WalkFrom::Behind(place),
    }
}

pub(super) fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Forwards => Direction::Backwards,
        Direction::Backwards => Direction::Forwards,
    }
}
