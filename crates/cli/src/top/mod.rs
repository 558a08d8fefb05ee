//! `logdrive top`: programs while they log, on a screen that keys act upon.
//!
//! [`model`] says what is shown and what a key does, [`view`] draws it, [`input`] reads keys; none of them looks at a
//! session. [`source`] does that, [`edit`] changes rules, and [`snapshot`] prints what there is without a screen.

pub(crate) mod args;
mod board;
mod cells;
mod columns;
mod edit;
mod input;
mod limits;
mod model;
mod paint;
mod prompt;
mod rates;
mod sample;
mod screen;
mod snapshot;
mod source;
#[cfg(test)]
mod testing;
mod view;

use crate::error::CliError;
use crate::paint::ColorChoice;
use args::TopArgs;
use limits::LOOK_MS;
use model::{Effect, Model, Tone};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use paint::Palette;
use ratatui::crossterm::event::{self, Event};
use screen::Screen;
use source::Source;
use std::io::{self, IsTerminal};
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
    let signals = hold_signals()?;
    let model = Model::new(args.interval, args.sort, args.filter.as_deref().unwrap_or(""));
    let mut watch = Watch {
        model,
        source,
        screen: Screen::enter()?,
        scroll: Scroll::default(),
        palette: Palette::of(color.for_stdout()),
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
    palette: Palette,
    /// When the sessions are looked at next.
    look_at: Instant,
}

impl Watch {
    fn run(&mut self, signals: &SignalFd) -> Result<(), CliError> {
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
    fn wait(&mut self, signals: &SignalFd) -> Result<bool, CliError> {
        let left = self.look_at.saturating_duration_since(Instant::now());
        let wait = match self.model.paused {
            true => Duration::from_millis(LOOK_MS),
            false => left.min(Duration::from_millis(LOOK_MS)),
        };
        if event::poll(wait)? {
            let effect = match event::read()? {
                Event::Key(key) => match input::command(key, &self.model.mode) {
                    Some(command) => self.model.act(command),
                    None => Effect::Nothing,
                },
                Event::Resize(..) => Effect::Redraw,
                _ => Effect::Nothing,
            };
            if self.follow(effect)? {
                return Ok(true);
            }
        }
        let arrived = signals.read_signal().ok().flatten();
        let signal = arrived.and_then(|found| Signal::try_from(i32::try_from(found.ssi_signo).ok()?).ok());
        match signal {
            None => Ok(false),
            Some(Signal::SIGTSTP) => self.follow(Effect::Suspend),
            Some(_) => Ok(true),
        }
    }

    /// Does what a key wants outside of the model; whether this is the end.
    fn follow(&mut self, effect: Effect) -> Result<bool, CliError> {
        match effect {
            Effect::Quit => return Ok(true),
            Effect::Nothing => {}
            Effect::Redraw => self.screen.terminal.clear()?,
            Effect::Look => self.look_at_sites(),
            Effect::Suspend => self.suspend()?,
            Effect::Change(change) => {
                match self.source.change(&change) {
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
        let sites = self.model.wanted().and_then(|key| self.source.sites(key));
        if let Some(sites) = sites {
            self.model.take_sites(sites);
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
        self.screen.leave();
        // A process can always stop itself; if not, it goes on, which is all that can be done.
        let _ = raise(Signal::SIGSTOP);
        self.screen = Screen::enter()?;
        self.look();
        Ok(())
    }
}

/// Signals that would end this with the terminal as it is are read instead.
fn hold_signals() -> Result<SignalFd, CliError> {
    let held: SigSet = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGTSTP,
    ]
    .into_iter()
    .collect();
    let system = |cause: nix::Error| CliError::Signals {
        cause: io::Error::from(cause),
    };
    held.thread_block().map_err(system)?;
    SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(system)
}
