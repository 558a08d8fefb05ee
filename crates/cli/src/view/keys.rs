//! Keys and the mouse: what each of them means, by what is open at the moment.

use super::command::{Command, Mode, Move, Question};
use super::draw::Areas;
use logdrive_wire::Level;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// Columns that a key to the side goes.
const SIDE: isize = 20;

/// Lines that a turn of the wheel goes.
const WHEEL: isize = 3;

/// Returns the command of a key; `None` where it has none.
pub(super) fn command(key: KeyEvent, mode: Mode) -> Option<Command> {
    // Some terminals report the release of a key, too.
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return control(key.code, mode);
    }
    let shift = key.modifiers.contains(KeyModifiers::SHIFT);
    match mode {
        Mode::View => view(key.code, shift),
        Mode::Help => Some(match key.code {
            KeyCode::Char('q') => Command::Quit,
            _ => Command::Back,
        }),
        Mode::Ask(_) => typed(key.code),
        Mode::Brush => brush(key.code, shift),
        Mode::Fields => fields(key.code),
        Mode::Mark | Mode::Jump => Some(match key.code {
            KeyCode::Char(letter) if !letter.is_control() => Command::Letter(letter),
            _ => Command::Back,
        }),
    }
}

fn control(code: KeyCode, mode: Mode) -> Option<Command> {
    let is_typing = matches!(mode, Mode::Ask(_));
    Some(match code {
        KeyCode::Char('c') => Command::Quit,
        KeyCode::Char('z') => Command::Suspend,
        KeyCode::Char('l') => Command::Redraw,
        KeyCode::Char('u') if is_typing => Command::EraseAll,
        KeyCode::Char('h') if is_typing => Command::Erase,
        KeyCode::Char('d') => Command::Go(Move::Halves(1)),
        KeyCode::Char('u') => Command::Go(Move::Halves(-1)),
        KeyCode::Char('f') => Command::Go(Move::Pages(1)),
        KeyCode::Char('b') => Command::Go(Move::Pages(-1)),
        _ => return None,
    })
}

fn view(code: KeyCode, shift: bool) -> Option<Command> {
    Some(match code {
        KeyCode::Char('q') => Command::Quit,
        KeyCode::Up if shift => Command::Value(-1),
        KeyCode::Down if shift => Command::Value(1),
        KeyCode::Up | KeyCode::Char('k') => Command::Go(Move::Lines(-1)),
        KeyCode::Down | KeyCode::Char('j') => Command::Go(Move::Lines(1)),
        KeyCode::Char('K') => Command::Value(-1),
        KeyCode::Char('J') => Command::Value(1),
        KeyCode::PageUp => Command::Go(Move::Pages(-1)),
        KeyCode::PageDown | KeyCode::Char(' ') => Command::Go(Move::Pages(1)),
        KeyCode::Char('u') => Command::Go(Move::Halves(-1)),
        KeyCode::Char('d') => Command::Go(Move::Halves(1)),
        KeyCode::Home | KeyCode::Char('g' | '<') => Command::Go(Move::Start),
        KeyCode::End | KeyCode::Char('G' | '>') => Command::Go(Move::End),
        KeyCode::Left => Command::Side(-SIDE),
        KeyCode::Right => Command::Side(SIDE),
        KeyCode::Char('F') => Command::Follow,
        KeyCode::Char('e') => Command::Level(Level::Error, false),
        KeyCode::Char('E') => Command::Level(Level::Error, true),
        KeyCode::Char('w') => Command::Level(Level::Warn, false),
        KeyCode::Char('W') => Command::Level(Level::Warn, true),
        KeyCode::Char('/') => Command::Ask(Question::Search),
        KeyCode::Char('n') => Command::Again(false),
        KeyCode::Char('N') => Command::Again(true),
        KeyCode::Char('&' | 'f') => Command::Ask(Question::Filter),
        KeyCode::Char('t') => Command::Ask(Question::Time),
        KeyCode::Char('+' | '=') => Command::Context(1),
        KeyCode::Char('-') => Command::Context(-1),
        KeyCode::Enter => Command::Unfold,
        KeyCode::Esc => Command::Back,
        KeyCode::Char('y') => Command::CopyRecord,
        KeyCode::Char('Y') => Command::CopyValue,
        KeyCode::Char('m') => Command::Mark,
        KeyCode::Char('\'') => Command::Jump,
        KeyCode::Char('z') => Command::Zone,
        KeyCode::Char('i') => Command::Histogram,
        KeyCode::Char('b') | KeyCode::Tab => Command::Brush,
        KeyCode::Backspace => Command::ZoomOut,
        KeyCode::Char('o') => Command::Fields,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Command::Help,
        _ => return None,
    })
}

fn brush(code: KeyCode, shift: bool) -> Option<Command> {
    Some(match code {
        KeyCode::Left | KeyCode::Char('h') => Command::MoveBrush(-1, shift),
        KeyCode::Right | KeyCode::Char('l') => Command::MoveBrush(1, shift),
        KeyCode::Char('H') => Command::MoveBrush(-1, true),
        KeyCode::Char('L') => Command::MoveBrush(1, true),
        KeyCode::Home => Command::MoveBrush(-10_000, shift),
        KeyCode::End => Command::MoveBrush(10_000, shift),
        KeyCode::Enter => Command::ZoomIn,
        KeyCode::Backspace | KeyCode::Char('u') => Command::ZoomOut,
        KeyCode::Esc | KeyCode::Tab | KeyCode::Char('b' | 'q') => Command::Back,
        KeyCode::Char('i') => Command::Histogram,
        _ => return None,
    })
}

fn fields(code: KeyCode) -> Option<Command> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => Command::SelectField(-1),
        KeyCode::Down | KeyCode::Char('j') => Command::SelectField(1),
        KeyCode::Char(' ') => Command::ToggleField,
        KeyCode::Left | KeyCode::Char('K' | '-') => Command::ShiftField(-1),
        KeyCode::Right | KeyCode::Char('J' | '+') => Command::ShiftField(1),
        KeyCode::Enter | KeyCode::Esc | KeyCode::Char('o' | 'q') => Command::Back,
        _ => return None,
    })
}

fn typed(code: KeyCode) -> Option<Command> {
    Some(match code {
        KeyCode::Char(letter) if !letter.is_control() => Command::Type(letter),
        KeyCode::Backspace => Command::Erase,
        KeyCode::Up => Command::History(-1),
        KeyCode::Down => Command::History(1),
        KeyCode::Enter => Command::Accept,
        KeyCode::Esc => Command::Back,
        _ => return None,
    })
}

/// Returns the commands of the mouse, by the areas of the screen.
pub(super) fn mouse(event: MouseEvent, areas: &Areas) -> Vec<Command> {
    let place = (event.column, event.row).into();
    let column = usize::from(event.column.saturating_sub(areas.histogram.x));
    let is_histogram = areas.histogram.contains(place);
    match event.kind {
        MouseEventKind::ScrollUp if is_histogram => vec![Command::ZoomOut],
        MouseEventKind::ScrollUp if areas.detail.contains(place) => vec![Command::Value(-1)],
        MouseEventKind::ScrollDown if areas.detail.contains(place) => vec![Command::Value(1)],
        MouseEventKind::ScrollUp => vec![Command::Go(Move::Lines(-WHEEL))],
        MouseEventKind::ScrollDown => vec![Command::Go(Move::Lines(WHEEL))],
        MouseEventKind::Down(MouseButton::Left) if is_histogram => {
            vec![Command::Brush, Command::PutBrush(column, false)]
        }
        MouseEventKind::Drag(MouseButton::Left) if is_histogram => vec![Command::PutBrush(column, true)],
        MouseEventKind::Up(MouseButton::Left) if is_histogram => vec![Command::ZoomIn],
        MouseEventKind::Down(MouseButton::Right) if is_histogram => vec![Command::ZoomOut],
        MouseEventKind::Down(MouseButton::Left) if areas.rows.contains(place) => {
            vec![Command::Click(usize::from(event.row - areas.rows.y))]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(letter: char, mode: Mode) -> Option<Command> {
        command(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE), mode)
    }

    #[test]
    fn a_letter_is_a_command_or_a_letter() {
        assert_eq!(plain('q', Mode::View), Some(Command::Quit));
        assert_eq!(plain('q', Mode::Ask(Question::Filter)), Some(Command::Type('q')));
        assert_eq!(plain('q', Mode::Mark), Some(Command::Letter('q')));
        assert_eq!(plain('q', Mode::Fields), Some(Command::Back));
    }

    #[test]
    fn the_way_out_is_open_whatever_is_asked() {
        for mode in [
            Mode::View,
            Mode::Help,
            Mode::Ask(Question::Search),
            Mode::Brush,
            Mode::Fields,
            Mode::Jump,
        ] {
            let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
            assert_eq!(command(key, mode), Some(Command::Quit), "{mode:?}");
        }
    }

    #[test]
    fn the_mouse_brushes_and_selects() {
        let areas = Areas {
            histogram: ratatui::layout::Rect::new(0, 1, 80, 4),
            rows: ratatui::layout::Rect::new(0, 5, 80, 10),
            detail: ratatui::layout::Rect::default(),
        };
        let at = |kind, column, row| {
            let event = MouseEvent {
                kind,
                column,
                row,
                modifiers: KeyModifiers::NONE,
            };
            mouse(event, &areas)
        };
        let left = MouseButton::Left;
        assert_eq!(
            at(MouseEventKind::Down(left), 7, 2),
            [Command::Brush, Command::PutBrush(7, false)]
        );
        assert_eq!(at(MouseEventKind::Drag(left), 9, 2), [Command::PutBrush(9, true)]);
        assert_eq!(at(MouseEventKind::Up(left), 9, 2), [Command::ZoomIn]);
        assert_eq!(at(MouseEventKind::Down(left), 9, 7), [Command::Click(2)]);
        assert_eq!(
            at(MouseEventKind::ScrollDown, 9, 7),
            [Command::Go(Move::Lines(3))]
        );
    }
}
