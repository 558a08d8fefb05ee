//! The terminal while it is ours: taken over, and given back as it was, however this ends.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, Stdout};
use std::sync::Once;

/// The terminal. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn enter() -> io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        let entered = execute!(io::stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        if entered.is_err() {
            restore();
        }
        Ok(Self { terminal: entered? })
    }

    /// Lets the next drawing draw everything. Not by the terminal's own function, which asks the terminal where its
    /// cursor is, and not all of them answer.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }

    /// Gives the terminal back, does something, and takes it again.
    pub(super) fn leave_for(&mut self, something: impl FnOnce()) -> io::Result<()> {
        restore();
        something();
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// A terminal that has gone needs no restoring, and whatever works is better than nothing.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}

/// Gives the terminal back at a panic, so that its message can be read, and the shell works afterwards.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}
