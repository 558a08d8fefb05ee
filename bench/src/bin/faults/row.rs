//! Row of the table: a fault as steps around a program that logs, the end of that program, and the promise that its log
//! has to keep.

use crate::halt::Halt;
use crate::language::Language;
use crate::program_end::End;
use crate::stage::Stage;

/// Rows for programs of all languages.
pub(crate) const ALL: &[Language] = &Language::ALL;
/// Rows for programs whose drain is in the process.
pub(crate) const OWN_DRAIN: &[Language] = &[Language::Rust, Language::Cpp];
/// Rows for one language.
pub(crate) const RUST: &[Language] = &[Language::Rust];
pub(crate) const CPP: &[Language] = &[Language::Cpp];

/// Calls that the log has to explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// All: each is a line or a drop that the log tells.
    Every,
    /// Those before a `sync()` that answered true: what follows may go with the power.
    Synced,
    /// Those of the second half: others have deleted what was written before.
    SecondHalf,
}

/// Action on the stage between two phases of the program.
pub(crate) type Step = fn(&mut Stage) -> Result<(), Halt>;

fn nothing(_: &mut Stage) -> Result<(), Halt> {
    Ok(())
}

/// Actions, in the order in which they come.
pub(crate) struct Steps {
    /// Before the program starts.
    pub(crate) setup: Step,
    /// The point at which half of the calls are made; the program waits meanwhile.
    pub(crate) half: Step,
    /// The point at which all calls are made, before the end.
    pub(crate) done: Step,
    /// After the end, and before the recovery.
    pub(crate) dead: Step,
}

/// Row of the table, for each of its languages.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) languages: &'static [Language],
    /// Words of the plan beside the usual ones, see `plan.rs`.
    pub(crate) plan: &'static str,
    /// Programs that run at once.
    pub(crate) processes: u64,
    pub(crate) end: End,
    pub(crate) steps: Steps,
    pub(crate) promise: Promise,
    /// The log has to name the end of the program.
    pub(crate) names_end: bool,
    /// Left out of the quick form.
    pub(crate) slow: bool,
    /// Damages of segments that the reader has to tell.
    pub(crate) damages: usize,
    /// Lines of the logger about itself, which are no calls, that may be among the records that it tells as lost.
    pub(crate) lost_notices: i64,
}

/// A row of this name, for programs of these languages, which end in this way.
pub(crate) fn row(name: &'static str, languages: &'static [Language], end: End) -> Row {
    Row {
        name,
        languages,
        plan: "",
        processes: 1,
        end,
        steps: Steps {
            setup: nothing,
            half: nothing,
            done: nothing,
            dead: nothing,
        },
        promise: Promise::Every,
        names_end: false,
        slow: false,
        damages: 0,
        lost_notices: 0,
    }
}

impl Row {
    pub(crate) fn plan(self, plan: &'static str) -> Row {
        Row { plan, ..self }
    }

    pub(crate) fn processes(self, processes: u64) -> Row {
        Row { processes, ..self }
    }

    pub(crate) fn setup(mut self, step: Step) -> Row {
        self.steps.setup = step;
        self
    }

    pub(crate) fn half(mut self, step: Step) -> Row {
        self.steps.half = step;
        self
    }

    pub(crate) fn done(mut self, step: Step) -> Row {
        self.steps.done = step;
        self
    }

    pub(crate) fn dead(mut self, step: Step) -> Row {
        self.steps.dead = step;
        self
    }

    pub(crate) fn synced(self) -> Row {
        Row {
            promise: Promise::Synced,
            ..self
        }
    }

    pub(crate) fn second_half(self) -> Row {
        Row {
            promise: Promise::SecondHalf,
            ..self
        }
    }

    pub(crate) fn names_end(self) -> Row {
        Row {
            names_end: true,
            ..self
        }
    }

    pub(crate) fn damages(self, damages: usize) -> Row {
        Row { damages, ..self }
    }

    pub(crate) fn lost_notices(self, lost_notices: i64) -> Row {
        Row { lost_notices, ..self }
    }

    pub(crate) fn slow(self) -> Row {
        Row { slow: true, ..self }
    }
}
