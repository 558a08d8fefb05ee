//! `logdrive top`: programs while they log, on a screen that keys act upon.
//!
//! [`model`] says what is shown and what a key does, [`view`] draws it, [`input`] reads keys; none of them reads a
//! session. [`source`] does that, and [`snapshot`] prints what there is without a screen.

pub(crate) mod args;
pub(crate) mod cells;
pub(crate) mod columns;
mod input;
mod limits;
mod list;
mod model;
mod prompt;
mod sample;
mod snapshot;
mod source;
#[cfg(test)]
pub(crate) mod testing;
mod view;

use crate::error::CliError;
use crate::paint::{ColorChoice, Paint};
use crate::screen::Screen;
use crate::signals::Signals;
use args::TopArgs;
use model::{Effect, Model, Tone};
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use source::Source;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};
use view::{Scroll, draw};

/// The second look comes soon, because rates need two.
const SECOND_LOOK_MS: u64 = 250;

/// Runs the command.
pub(crate) fn run(args: &TopArgs, color: ColorChoice) -> Result<(), CliError> {
    let mut source = Source::new(args)?;
    let is_screen = io::stdout().is_terminal() && io::stdin().is_terminal();
    if args.once || args.json || args.count.is_some() || !is_screen {
        return snapshot::run(args, &mut source, color);
    }
    let signals = Signals::new(&[SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP])?;
    let model = Model::new(args.interval, args.sort, args.filter.as_deref().unwrap_or(""));
    let mut watch = Watch {
        model,
        source,
        screen: Screen::enter()?,
        scroll: Scroll::default(),
        palette: color.for_stdout(),
        look_at: Instant::now(),
    };
    watch.model.places = watch.source.places();
    watch.run(&signals)
}

/// Everything of a running screen.
struct Watch {
    model: Model,
    source: Source,
    screen: Screen,
    scroll: Scroll,
    palette: Paint,
    /// Time of the next refresh of the sessions.
    look_at: Instant,
}

impl Watch {
    fn run(&mut self, signals: &Signals) -> Result<(), CliError> {
        self.look();
        self.look_at = Instant::now() + Duration::from_millis(SECOND_LOOK_MS);
        self.draw()?;
        loop {
            if self.wait(signals)? {
                return Ok(());
            }
            if !self.model.paused && Instant::now() >= self.look_at {
                self.look();
                self.draw()?;
            }
        }
    }

    /// Waits for a key, a signal or the next look; whether this is the end.
    ///
    /// The waiting is done here and not by the library that reads keys, which goes on reading without end when its
    /// terminal has gone.
    fn wait(&mut self, signals: &Signals) -> Result<bool, CliError> {
        let left = self.look_at.saturating_duration_since(Instant::now());
        let timeout: Option<Timespec> = (!self.model.paused).then(|| left.try_into().ok()).flatten();
        let stdin = rustix::stdio::stdin();
        let mut waited = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        match poll(&mut waited, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        let [typed, signalled] = waited.map(|fd| fd.revents());
        if typed.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(true);
        }
        if !signalled.is_empty() && self.take_signals(signals)? {
            return Ok(true);
        }
        if !typed.is_empty() {
            while event::poll(Duration::ZERO)? {
                let effect = match event::read()? {
                    Event::Key(key) => input::command(key, &self.model.mode)
                        .map_or(Effect::Nothing, |command| self.model.act(command)),
                    _ => Effect::Nothing,
                };
                if self.follow(effect)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Does what signals want; whether this is the end.
    fn take_signals(&mut self, signals: &Signals) -> Result<bool, CliError> {
        while let Some(number) = signals.take() {
            let effect = match number {
                SIGWINCH => Effect::Redraw,
                SIGTSTP => Effect::Suspend,
                _ => Effect::Quit,
            };
            if self.follow(effect)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does what a key wants outside of the model; whether this is the end.
    fn follow(&mut self, effect: Effect) -> Result<bool, CliError> {
        match effect {
            Effect::Quit => return Ok(true),
            Effect::Nothing => {}
            Effect::Redraw => self.screen.forget()?,
            Effect::Look => self.look_at_sites(),
            Effect::Suspend => self.suspend()?,
            Effect::Change(session, edit) => {
                match self.source.change(&session, &edit) {
                    Ok(done) => self.model.say(Tone::Done, done),
                    Err(why) => self.model.say(Tone::Wrong, why),
                }
                self.look_at_sites();
            }
        }
        self.draw()?;
        Ok(false)
    }

    fn look(&mut self) {
        self.model.take(self.source.look());
        self.look_at_sites();
        self.look_at = Instant::now() + Duration::from_nanos(self.model.interval_ns);
    }

    fn look_at_sites(&mut self) {
        let Some(session) = self.model.wanted().map(Path::to_owned) else {
            return;
        };
        if let Some((at_ns, sites)) = self.source.sites(&session) {
            self.model.take_sites(&session, at_ns, sites);
        }
    }

    fn draw(&mut self) -> Result<(), CliError> {
        let Self {
            model,
            screen,
            scroll,
            palette,
            ..
        } = self;
        screen
            .terminal
            .draw(|frame| draw(frame, model, scroll, *palette))?;
        Ok(())
    }

    /// Stops as the terminal's key would have done, with the terminal given back until it goes on.
    fn suspend(&mut self) -> Result<(), CliError> {
        // A process can always stop itself; if not, it goes on, which is all that can be done.
        self.screen.leave_for(|| {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        })?;
        self.look();
        Ok(())
    }
}
