//! The colours of the command line on a screen. Without colours, bold and dim text distinguish things.

use crate::paint::{Paint, Style as Meaning};
use logdrive_wire::Level;
use ratatui::style::{Color, Modifier, Style};

impl Paint {
    /// Returns the style of something by its meaning.
    pub(crate) fn style(self, meaning: Meaning) -> Style {
        let weight = match meaning {
            Meaning::Title | Meaning::Bad | Meaning::Level(Level::Fatal) => Modifier::BOLD,
            Meaning::Warning if !self.on => Modifier::BOLD,
            Meaning::Dim => Modifier::DIM,
            Meaning::Found => Modifier::REVERSED,
            _ => Modifier::empty(),
        };
        let style = Style::new().add_modifier(weight);
        match color(meaning).filter(|_| self.on) {
            Some(color) => style.fg(color),
            None => style,
        }
    }

    /// The line of whatever is selected; `has_focus` where keys are about it.
    pub(crate) fn selected(self, has_focus: bool) -> Style {
        if has_focus {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new().add_modifier(Modifier::BOLD)
        }
    }

    /// The bar at the top and between two lists.
    pub(crate) fn bar(self, has_focus: bool) -> Style {
        match (self.on, has_focus) {
            (true, true) => Style::new().fg(Color::Black).bg(Color::Cyan),
            (true, false) => Style::new().fg(Color::White).bg(Color::DarkGray),
            (false, true) => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            (false, false) => Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}

/// As the layouts and the other commands paint.
const fn color(meaning: Meaning) -> Option<Color> {
    Some(match meaning {
        Meaning::Plain | Meaning::Dim | Meaning::Title | Meaning::Found => return None,
        Meaning::Level(Level::Trace) | Meaning::File => Color::Magenta,
        Meaning::Level(Level::Debug) => Color::Blue,
        Meaning::Level(Level::Info) | Meaning::Good => Color::Green,
        Meaning::Level(Level::Warn) | Meaning::Warning => Color::Yellow,
        Meaning::Level(Level::Error | Level::Fatal) | Meaning::Bad => Color::Red,
        Meaning::Key => Color::Cyan,
    })
}
