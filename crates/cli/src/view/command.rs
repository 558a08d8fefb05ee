//! Commands of keys and of the mouse, and what they want of the world outside of the model.

use logdrive_wire::Level;

/// Question that is open, or list that keys are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Keys move among the records.
    View,
    /// A text is typed.
    Ask(Question),
    /// The histogram's brush moves.
    Brush,
    /// Fields are chosen.
    Fields,
    /// The next letter names a mark that is set.
    Mark,
    /// The next letter names a mark that is gone to.
    Jump,
    /// The keys are shown.
    Help,
}

/// Meaning of a text that is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// A text to search.
    Search,
    /// A query that records have to pass.
    Filter,
    /// A time to go to.
    Time,
}

/// Move among records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Lines(isize),
    /// Half pages.
    Halves(isize),
    Pages(isize),
    Start,
    End,
}

/// Command of a key or of the mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Suspend,
    Redraw,
    Help,
    /// Back from what is open; then the filter goes.
    Back,
    Go(Move),
    /// Columns to the right, or to the left.
    Side(isize),
    Follow,
    /// The next record of this level or above, or the one before.
    Level(Level, bool),
    Ask(Question),
    /// The search again; upwards.
    Again(bool),
    /// The record unfolded.
    Unfold,
    /// Another value of the record that is unfolded.
    Value(isize),
    CopyRecord,
    CopyValue,
    Mark,
    Jump,
    Letter(char),
    Zone,
    Histogram,
    Brush,
    /// The brush moves by columns; its start stays.
    MoveBrush(isize, bool),
    /// The brush is put to a column; its start stays.
    PutBrush(usize, bool),
    ZoomIn,
    ZoomOut,
    Fields,
    ToggleField,
    SelectField(isize),
    ShiftField(isize),
    Context(isize),
    /// A row of the screen is clicked.
    Click(usize),
    Type(char),
    Erase,
    EraseAll,
    /// An earlier line that was typed, or a later one.
    History(isize),
    Accept,
}

/// Effect of a command outside of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Quit,
    Suspend,
    Redraw,
    /// Give these bytes to the terminal's clipboard.
    Copy(Vec<u8>),
}

/// Tone of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Done,
    Wrong,
}
