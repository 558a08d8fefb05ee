//! The terminal while it is ours: taken over, and given back as it was, however this ends.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, Stdout};
use std::sync::Once;

/// The terminal. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
    has_mouse: bool,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn enter() -> io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        let entered = execute!(io::stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        if entered.is_err() {
            restore();
        }
        Ok(Self {
            terminal: entered?,
            has_mouse: false,
        })
    }

    /// Takes the terminal and its mouse over.
    pub(crate) fn enter_with_mouse() -> io::Result<Self> {
        let mut screen = Self::enter()?;
        screen.has_mouse = true;
        execute!(io::stdout(), EnableMouseCapture)?;
        Ok(screen)
    }

    /// Lets the next drawing draw everything. Not by the terminal's own function, which asks the terminal where its
    /// cursor is, and not all of them answer.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }

    /// Gives the terminal back, does something, and takes it again.
    pub(crate) fn leave_for(&mut self, something: impl FnOnce()) -> io::Result<()> {
        restore();
        something();
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        if self.has_mouse {
            execute!(io::stdout(), EnableMouseCapture)?;
        }
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
    let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
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
