//! `logdrive view`: logs on a screen.
//!
//! [`model`] says what is shown and what a command does, [`draw`] draws it, [`keys`] reads keys and the mouse; none of them
//! knows where records come from. [`sources`] opens logs, and `logdrive_reader::pages` reads them page by page, with a thread
//! that counts their records behind the screen.

pub(crate) mod args;
mod asked;
mod command;
mod detail;
mod draw;
mod fields;
mod histogram;
mod keys;
mod limits;
mod model;
mod prompt;
mod row;
mod shown;
mod sources;
#[cfg(test)]
mod tests;
mod typed;
mod window;

use crate::error::CliError;
use crate::paint::{ColorChoice, Paint};
use crate::screen::Screen;
use crate::signals::Signals;
use args::ViewArgs;
use asked::Asked;
use command::{Effect, Tone};
use draw::{Areas, draw};
use jiff::tz::TimeZone;
use limits::STEP_BYTES;
use logdrive_reader::pages::{Indexer, PageIndex, TimeLine, WalkFrom};
use model::Model;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use sources::Sources;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Interval of looks at logs that do not change all the time.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Interval of looks at what is copied or logged now.
const LIVE_EVERY: Duration = Duration::from_millis(50);

/// Runs the command.
pub(crate) fn run(args: &ViewArgs, color: ColorChoice) -> Result<bool, CliError> {
    if args.names.is_empty() && io::stdin().is_terminal() {
        return Err(CliError::NothingToRead);
    }
    if !io::stdout().is_terminal() {
        return Err(CliError::NoTerminal);
    }
    let index = PageIndex::default();
    let indexer = Indexer::start(index.clone()).map_err(CliError::from)?;
    let mut line = TimeLine::new(Some(indexer), index);
    let sources = Sources::open(args, &mut line)?;
    let mut filters = args.filters.filter(args.times.since_ns(), args.times.until_ns());
    filters.query = None;
    let asked = Asked {
        base: filters,
        queries: args
            .filters
            .query
            .iter()
            .chain(&args.filters.field)
            .cloned()
            .collect(),
        context: args.context.min(limits::CONTEXT_MAX),
        ..Asked::default()
    };
    let zone = args.times.zone.asked().unwrap_or(TimeZone::UTC);
    let mut model = Model::new(line, asked, zone);
    model.fields.choose(&args.fields, &args.hide);
    model.is_following = args.follow;
    let is_text = sources.is_copying();
    model.begin(match args.start || (is_text && !args.follow) {
        true => WalkFrom::Start,
        false => WalkFrom::End,
    });
    let keyboard = match io::stdin().is_terminal() {
        true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        false => File::open("/dev/tty")?,
    };
    let signals = Signals::new(&[SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP])?;
    let viewer = Viewer {
        model,
        sources,
        keyboard,
        areas: Areas::default(),
        palette: color.for_stdout(),
        look_at: Instant::now() + LIVE_EVERY,
        screen: Screen::enter_with_mouse()?,
    };
    viewer.run(&signals)?;
    Ok(true)
}

/// Everything of a running screen.
struct Viewer {
    model: Model,
    sources: Sources,
    keyboard: File,
    areas: Areas,
    palette: Paint,
    look_at: Instant,
    screen: Screen,
}

impl Viewer {
    fn run(mut self, signals: &Signals) -> Result<(), CliError> {
        let size = self.screen.terminal.size()?;
        self.model.histogram.is_open = size.height >= 20;
        self.model.window.height = size.height.into();
        self.model.go_on(STEP_BYTES);
        self.draw()?;
        loop {
            if self.wait(signals)? {
                return Ok(());
            }
            let mut has_changed = self.model.is_busy() && self.model.go_on(STEP_BYTES);
            if Instant::now() >= self.look_at {
                has_changed |= self.look();
            }
            if has_changed {
                self.draw()?;
            }
        }
    }

    /// Looks at the logs; whether the screen has changed.
    fn look(&mut self) -> bool {
        let looked = self.sources.look(&mut self.model.line);
        let before = self.model.line.index().progress(self.model.line.is_filtered());
        if looked.has_changed {
            self.model.logs_changed();
            self.model.go_on(STEP_BYTES);
        }
        let has_failed = !looked.failures.is_empty();
        for failure in looked.failures {
            self.model.say(Tone::Wrong, crate::output::safe(&failure));
        }
        let is_soon = self.sources.is_live() || self.model.is_following;
        self.look_at = Instant::now() + if is_soon { LIVE_EVERY } else { LOOK_EVERY };
        let is_counting = before.0 < before.1;
        let counts = self.model.histogram.is_open && self.model.histogram.count(&mut self.model.line);
        looked.has_changed || has_failed || is_counting || counts || self.model.is_searching()
    }

    /// Waits for a key, a signal or the next look; whether this is the end.
    ///
    /// The waiting is done here and not by the library that reads keys, which goes on reading without end when its
    /// terminal has gone.
    fn wait(&mut self, signals: &Signals) -> Result<bool, CliError> {
        let left = match self.model.is_busy() {
            // Bytes may still be missing that another thread counts at this moment.
            true => Duration::from_millis(1),
            false => self.look_at.saturating_duration_since(Instant::now()),
        };
        let timeout: Option<Timespec> = left.try_into().ok();
        let mut waited = [
            PollFd::new(&self.keyboard, PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        match poll(&mut waited, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        let [typed, _] = waited.map(|fd| fd.revents());
        if typed.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(true);
        }
        // A signal that interrupted the wait is there without its descriptor being seen.
        while let Some(number) = signals.take() {
            let effect = match number {
                SIGWINCH => Effect::Redraw,
                SIGTSTP => Effect::Suspend,
                _ => Effect::Quit,
            };
            if self.follow(effect)? {
                return Ok(true);
            }
            self.draw()?;
        }
        if typed.is_empty() {
            return Ok(false);
        }
        while event::poll(Duration::ZERO)? {
            let commands = match event::read()? {
                Event::Key(key) => keys::command(key, self.model.mode).into_iter().collect(),
                Event::Mouse(mouse) => keys::mouse(mouse, &self.areas),
                _ => Vec::new(),
            };
            for command in commands {
                let effect = self.model.act(command);
                if self.follow(effect)? {
                    return Ok(true);
                }
                self.model.go_on(STEP_BYTES);
            }
        }
        self.draw()?;
        Ok(false)
    }

    /// Does what a command wants outside of the model; whether this is the end.
    fn follow(&mut self, effect: Effect) -> Result<bool, CliError> {
        match effect {
            Effect::Quit => return Ok(true),
            Effect::Nothing => {}
            Effect::Redraw => self.screen.forget()?,
            // A process can always stop itself; if not, it goes on, which is all that can be done.
            Effect::Suspend => self.screen.leave_for(|| {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
            })?,
            Effect::Copy(bytes) => {
                let sequence = format!("\x1b]52;c;{}\x07", base64(&bytes));
                let mut stdout = io::stdout();
                stdout.write_all(sequence.as_bytes())?;
                stdout.flush()?;
            }
        }
        Ok(false)
    }

    fn draw(&mut self) -> Result<(), CliError> {
        let size = self.screen.terminal.size()?;
        let area = ratatui::layout::Rect::new(0, 0, size.width, size.height);
        self.areas = Areas::of(area, &self.model).0;
        if usize::from(self.areas.rows.height) != self.model.window.height {
            self.model.resize(self.areas.rows.height.into());
            self.model.go_on(STEP_BYTES);
        }
        self.model.histogram.width = size.width.into();
        if self.model.histogram.bins.len() != self.model.histogram.width && self.areas.histogram.height > 0 {
            self.model.histogram.count(&mut self.model.line);
        }
        let places: Vec<_> = self.model.window.rows.iter().copied().collect();
        self.model.line.show(&places);
        let (model, palette) = (&mut self.model, self.palette);
        self.screen.terminal.draw(|frame| draw(frame, model, palette))?;
        Ok(())
    }
}

/// The bytes as terminals take them for their clipboard.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS.get((word >> (18 - 6 * place)) as usize & 63).copied();
            text.push(match place <= three.len() {
                true => letter.map_or('=', char::from),
                false => '=',
            });
        }
    }
    text
}
