//! Keys: what each of them means, by what is being asked at the moment.

use super::list::Step;
use super::model::{Command, Mode};
use logdrive_wire::Level;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Lines that a page key goes.
const PAGE: isize = 10;

/// Returns the command of a key; `None` where it has none.
pub(super) fn command(key: KeyEvent, mode: &Mode) -> Option<Command> {
    // Some terminals report the release of a key, too.
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return control(key.code, mode);
    }
    match mode {
        Mode::Watch => watch(key.code),
        Mode::Help => Some(match key.code {
            KeyCode::Char('q') => Command::Quit,
            _ => Command::Cancel,
        }),
        Mode::Filter { .. } | Mode::Sample(_) => typed(key.code),
        Mode::Level(_) => level(key.code),
    }
}

fn control(code: KeyCode, mode: &Mode) -> Option<Command> {
    let is_typing = matches!(mode, Mode::Filter { .. } | Mode::Sample(_));
    Some(match code {
        KeyCode::Char('c') => Command::Quit,
        KeyCode::Char('z') => Command::Suspend,
        KeyCode::Char('l') => Command::Redraw,
        KeyCode::Char('u') if is_typing => Command::EraseAll,
        KeyCode::Char('h') if is_typing => Command::Erase,
        _ => return None,
    })
}

fn watch(code: KeyCode) -> Option<Command> {
    Some(match code {
        KeyCode::Char('q') => Command::Quit,
        KeyCode::Up | KeyCode::Char('k') => Command::Go(Step::By(-1)),
        KeyCode::Down | KeyCode::Char('j') => Command::Go(Step::By(1)),
        KeyCode::PageUp => Command::Go(Step::By(-PAGE)),
        KeyCode::PageDown => Command::Go(Step::By(PAGE)),
        KeyCode::Home | KeyCode::Char('g') => Command::Go(Step::First),
        KeyCode::End | KeyCode::Char('G') => Command::Go(Step::Last),
        KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right => Command::OtherPane,
        KeyCode::Enter => Command::Accept,
        KeyCode::Esc => Command::Back,
        KeyCode::Char('s') => Command::Sort,
        KeyCode::Char('p' | ' ') => Command::Pause,
        KeyCode::Char('r') => Command::Look,
        KeyCode::Char('f') => Command::Span,
        KeyCode::Char('+' | '=') => Command::Slower,
        KeyCode::Char('-') => Command::Faster,
        KeyCode::Char('/') => Command::AskFilter,
        KeyCode::Char('l') => Command::AskLevel,
        KeyCode::Char('e') => Command::AskSample,
        KeyCode::Char('m') => Command::Mute,
        KeyCode::Char('x') => Command::TakeBack,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Command::Help,
        _ => return None,
    })
}

fn typed(code: KeyCode) -> Option<Command> {
    Some(match code {
        KeyCode::Char(letter) if !letter.is_control() => Command::Type(letter),
        KeyCode::Backspace => Command::Erase,
        KeyCode::Enter => Command::Accept,
        KeyCode::Esc => Command::Cancel,
        _ => return None,
    })
}

fn level(code: KeyCode) -> Option<Command> {
    let level = match code {
        KeyCode::Char('t') => Level::Trace,
        KeyCode::Char('d') => Level::Debug,
        KeyCode::Char('i') => Level::Info,
        KeyCode::Char('w') => Level::Warn,
        KeyCode::Char('e') => Level::Error,
        KeyCode::Char('f') => Level::Fatal,
        KeyCode::Char('o') => return Some(Command::PickLevel(None)),
        KeyCode::Tab => return Some(Command::OtherScope),
        _ => return Some(Command::Cancel),
    };
    Some(Command::PickLevel(Some(level.code())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers, mode: &Mode) -> Option<Command> {
        command(KeyEvent::new(code, modifiers), mode)
    }

    fn plain(letter: char, mode: &Mode) -> Option<Command> {
        key(KeyCode::Char(letter), KeyModifiers::NONE, mode)
    }

    #[test]
    fn a_letter_is_a_command_or_a_letter() {
        let filter = Mode::Filter {
            before: String::new(),
        };
        assert_eq!(plain('q', &Mode::Watch), Some(Command::Quit));
        assert_eq!(plain('q', &filter), Some(Command::Type('q')));
        assert_eq!(plain('G', &Mode::Watch), Some(Command::Go(Step::Last)));
        assert_eq!(plain('y', &Mode::Watch), None);
        assert_eq!(plain('y', &Mode::Help), Some(Command::Cancel));
    }

    #[test]
    fn the_way_out_is_open_whatever_is_asked() {
        let modes = [
            Mode::Watch,
            Mode::Help,
            Mode::Sample(String::new()),
            Mode::Level(super::super::model::Scope::Process),
        ];
        for mode in modes {
            let quit = key(KeyCode::Char('c'), KeyModifiers::CONTROL, &mode);
            assert_eq!(quit, Some(Command::Quit), "{mode:?}");
        }
    }

    #[test]
    fn levels_are_picked_by_their_letters() {
        let mode = Mode::Level(super::super::model::Scope::Site);
        assert_eq!(
            plain('w', &mode),
            Some(Command::PickLevel(Some(Level::Warn.code())))
        );
        assert_eq!(plain('o', &mode), Some(Command::PickLevel(None)));
        assert_eq!(plain('z', &mode), Some(Command::Cancel));
        assert_eq!(
            key(KeyCode::Tab, KeyModifiers::NONE, &mode),
            Some(Command::OtherScope)
        );
    }

    #[test]
    fn the_end_of_a_key_means_nothing() {
        let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert_eq!(command(released, &Mode::Watch), None);
    }
}
