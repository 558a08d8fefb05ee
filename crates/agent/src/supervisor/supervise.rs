//! One command from its start to its end: readers first, then the command, then signals until all is over.

use super::destination::Destination;
use super::error::CommandError;
use super::limits::{QUIET_MS, WAIT_OUTPUT_MS};
use super::signals::{ReceivedSignal, Signals, stop_here};
use super::terminal::{RawMode, Terminal};
use super::{CommandOptions, ExitReason, command, lifecycle, terminal};
use crate::capture::line_writer::{LineWriter, RecordOptions};
use crate::capture::stream::{CommandEvents, OutputTimeout, Stream, StreamEnd, notify};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getpgrp};
use pty_process::blocking::Pts;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::process::{WaitOptions, waitpid};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// End of the command, and of each of its outputs.
type Outcome = (ExitReason, Vec<(&'static str, StreamEnd)>);

/// An output of the command that is to be read.
struct Output {
    /// Its name, which is the target of its lines.
    name: &'static str,
    source: OwnedFd,
    tee: Option<File>,
}

/// Report of a reader thread.
enum ReaderReport {
    Ready(Result<(), CommandError>),
    CommandOutcome(&'static str, StreamEnd),
}

/// Runs the command to its end.
pub(super) fn supervise(
    options: &CommandOptions,
    signals: &Signals,
    destination: &Destination,
) -> Result<Outcome, CommandError> {
    let events = Arc::new(CommandEvents::new().map_err(CommandError::system("make an event"))?);
    let attach = LineWriter::attach(
        destination.session(),
        &options.name,
        lifecycle::TARGET,
        record_options(options, lifecycle::TARGET),
    );
    let mut writer = attach.map_err(|error| CommandError::Backend(error.into()))?;
    let program = command::describe(&options.program, &options.args, destination.environment());
    let mut prepared = Prepared::new(options, program)?;
    let outputs = std::mem::take(&mut prepared.outputs);
    let readers = Readers::start(options, destination, &events, outputs)?;
    let terminal = prepared.terminal.take();
    if let Some(terminal) = &terminal {
        let passed = terminal.pass_input(&events);
        passed.map_err(CommandError::system("start a thread"))?;
    }
    let child = match prepared.spawn(options, signals) {
        Ok(child) => child,
        Err(error) => {
            events.signal_ended();
            if options.events {
                lifecycle::not_started(&mut writer, &error.to_string());
            }
            // The readers find their outputs closed.
            readers.join();
            return Err(error);
        }
    };
    let pid = child.id();
    if options.events {
        lifecycle::started(&mut writer, pid);
    }
    let mut watch = Supervision {
        signals,
        child: &child,
        pid: Pid::from_raw(pid.cast_signed()),
        raw_mode: terminal.as_ref().and_then(Terminal::enter),
        terminal: terminal.as_ref(),
        events: &events,
        destination,
        timeout: timeout(options),
        readers,
        how: None,
        outputs: Vec::new(),
    };
    let how = watch.until_all_is_over()?;
    drop(watch.raw_mode.take());
    let Supervision { outputs, readers, .. } = watch;
    readers.join();
    if options.events {
        for (name, end) in &outputs {
            lifecycle::output_ended(&mut writer, name, end);
        }
        lifecycle::ended(&mut writer, how);
    }
    Ok((how, outputs))
}

fn record_options(options: &CommandOptions, output: &str) -> RecordOptions {
    RecordOptions {
        level: match output {
            "stderr" => options.stderr_level,
            _ => logdrive_wire::Level::Info,
        },
        min_level: options.min_level,
        parse: options.parse,
        fields: options.parse && options.fields,
        keep_ansi: options.keep_ansi,
        full: options.full,
    }
}

/// The command with its outputs, before the start.
struct Prepared {
    command: Command,
    outputs: Vec<Output>,
    terminal: Option<Terminal>,
    pts: Option<Pts>,
}

impl Prepared {
    fn new(options: &CommandOptions, command: Command) -> Result<Self, CommandError> {
        let mut prepared = Self {
            command,
            outputs: Vec::new(),
            terminal: None,
            pts: None,
        };
        if options.pty {
            let opened = Terminal::open(options.tee);
            let (terminal, pts) = opened.map_err(CommandError::system("open a terminal"))?;
            let source = terminal.side.try_clone();
            prepared.outputs.push(Output {
                name: "tty",
                source: source.map_err(CommandError::system("open a terminal"))?,
                tee: tee(options, rustix::stdio::stdout())?,
            });
            prepared.terminal = Some(terminal);
            prepared.pts = Some(pts);
            return Ok(prepared);
        }
        if !options.stderr_only {
            let write = prepared.pipe("stdout", tee(options, rustix::stdio::stdout())?)?;
            prepared.command.stdout(write);
        }
        let write = prepared.pipe("stderr", tee(options, rustix::stdio::stderr())?)?;
        prepared.command.stderr(write);
        Ok(prepared)
    }

    fn pipe(&mut self, name: &'static str, tee: Option<File>) -> Result<io::PipeWriter, CommandError> {
        let (read, write) = io::pipe().map_err(CommandError::system("make a pipe"))?;
        Stream::widen(&read);
        self.outputs.push(Output {
            name,
            source: read.into(),
            tee,
        });
        Ok(write)
    }

    /// Starts the command. Our own copies of its ends of the outputs are closed with this value.
    fn spawn(self, options: &CommandOptions, signals: &Signals) -> Result<Child, CommandError> {
        let mut command = self.command;
        let started = signals.start(move || match self.pts {
            Some(pts) => terminal::spawn(command, pts),
            None => command.spawn(),
        });
        started.map_err(|cause| command::start_error(&options.program, cause))
    }
}

/// Destination of the copy of an output.
fn tee(options: &CommandOptions, to: impl AsFd) -> Result<Option<File>, CommandError> {
    if !options.tee {
        return Ok(None);
    }
    let copied = to.as_fd().try_clone_to_owned();
    Ok(Some(
        copied.map_err(CommandError::system("open an output"))?.into(),
    ))
}

/// The reader threads.
struct Readers {
    threads: Vec<std::thread::JoinHandle<()>>,
    reports: Receiver<ReaderReport>,
    /// Readable when a report has come.
    bell: Arc<OwnedFd>,
}

impl Readers {
    /// Starts them, and comes back when each has its ring.
    fn start(
        options: &CommandOptions,
        destination: &Destination,
        events: &Arc<CommandEvents>,
        outputs: Vec<Output>,
    ) -> Result<Self, CommandError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, flags).map_err(|errno| CommandError::system("make an event")(errno.into()))?;
        let bell = Arc::new(bell);
        let (sender, reports) = channel();
        let mut threads = Vec::new();
        for output in outputs {
            let reader = Reader {
                name: options.name.clone(),
                session: Arc::clone(destination.session()),
                record: record_options(options, output.name),
                output: output.name,
                stream: Stream {
                    source: output.source,
                    tee: output.tee,
                    events: Arc::clone(events),
                    timeout: timeout(options),
                    is_pipe: !options.pty,
                },
                sender: sender.clone(),
                bell: Arc::clone(&bell),
            };
            let thread = std::thread::Builder::new()
                .name(format!("logdrive-{}", output.name))
                .spawn(move || reader.run());
            threads.push(thread.map_err(CommandError::system("start a thread"))?);
            // Each reader has its ring before the next one starts, so that a failure ends the start at once.
            match reports.recv() {
                Ok(ReaderReport::Ready(ready)) => ready?,
                Ok(ReaderReport::CommandOutcome(..)) | Err(_) => {}
            }
        }
        Ok(Self {
            threads,
            reports,
            bell,
        })
    }

    fn join(self) {
        for thread in self.threads {
            // A reader that panicked has closed its output, which is how everybody knows.
            let _ = thread.join();
        }
    }
}

fn timeout(options: &CommandOptions) -> OutputTimeout {
    match options.wait_output {
        Some(total) => OutputTimeout { quiet: total, total },
        None => OutputTimeout {
            quiet: Duration::from_millis(QUIET_MS),
            total: Duration::from_millis(WAIT_OUTPUT_MS),
        },
    }
}

/// Reader thread of one output.
struct Reader {
    name: String,
    session: Arc<logdrive_ring::SessionWriter>,
    record: RecordOptions,
    output: &'static str,
    stream: Stream,
    sender: Sender<ReaderReport>,
    bell: Arc<OwnedFd>,
}

impl Reader {
    fn run(self) {
        let attached = LineWriter::attach(&self.session, &self.name, self.output, self.record);
        // The starting thread waits for this one, so every report is received.
        let end = match attached {
            Ok(mut writer) => {
                let _ = self.sender.send(ReaderReport::Ready(Ok(())));
                self.stream.run(&mut writer)
            }
            Err(error) => {
                let _ = self
                    .sender
                    .send(ReaderReport::Ready(Err(CommandError::Backend(error.into()))));
                return;
            }
        };
        let _ = self.sender.send(ReaderReport::CommandOutcome(self.output, end));
        notify(&self.bell);
    }
}

/// The command while it runs.
struct Supervision<'a> {
    signals: &'a Signals,
    child: &'a Child,
    pid: Pid,
    terminal: Option<&'a Terminal>,
    raw_mode: Option<RawMode>,
    events: &'a Arc<CommandEvents>,
    destination: &'a Destination,
    timeout: OutputTimeout,
    readers: Readers,
    how: Option<ExitReason>,
    outputs: Vec<(&'static str, StreamEnd)>,
}

impl Supervision<'_> {
    /// Passes signals on until the command and all of its outputs have ended.
    fn until_all_is_over(&mut self) -> Result<ExitReason, CommandError> {
        loop {
            while let Some(received) = self.signals.next() {
                self.take_signal(received);
            }
            self.check_end()?;
            // Cleared before the check, so that a report after the check wakes again.
            let _ = rustix::io::read(&*self.readers.bell, &mut [0; 8]);
            while let Ok(report) = self.readers.reports.try_recv() {
                if let ReaderReport::CommandOutcome(name, end) = report {
                    self.outputs.push((name, end));
                }
            }
            let are_read = self.readers.threads.iter().all(|thread| thread.is_finished())
                || self.outputs.len() == self.readers.threads.len();
            match self.how {
                Some(how) if are_read && self.destination.has_finished(self.timeout, &self.readers.bell) => {
                    return Ok(how);
                }
                _ => self.wait()?,
            }
        }
    }

    fn wait(&self) -> Result<(), CommandError> {
        let mut waited = [
            PollFd::new(self.signals, PollFlags::IN),
            PollFd::new(&*self.readers.bell, PollFlags::IN),
        ];
        match poll(&mut waited, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(CommandError::system("wait for the command")(errno.into())),
        }
    }

    fn check_end(&mut self) -> Result<(), CommandError> {
        if self.how.is_some() {
            return Ok(());
        }
        let status = match waitpid(
            Some(rustix::process::Pid::from_child(self.child)),
            WaitOptions::NOHANG,
        ) {
            Ok(Some((_, status))) => status,
            Ok(None) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(errno) => return Err(CommandError::system("wait for the command")(errno.into())),
        };
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => ExitReason::Exited(status),
            (None, Some(signal)) => ExitReason::Killed(signal),
            (None, None) => return Ok(()),
        };
        self.how = Some(how);
        self.events.signal_ended();
        Ok(())
    }

    fn take_signal(&mut self, received: ReceivedSignal) {
        match received.signal {
            Signal::SIGCHLD => {}
            // Only other processes hold the outputs open, and the sender of the signal does not want to wait for them.
            _ if self.how.is_some() => {
                if received.is_ending() {
                    self.events.signal_give_up();
                    self.destination.abandon();
                }
            }
            Signal::SIGWINCH if self.terminal.is_some() => {
                if let Some(terminal) = self.terminal {
                    terminal.resize();
                }
            }
            Signal::SIGTSTP => {
                self.pass_on(received);
                self.stop();
            }
            _ => self.pass_on(received),
        }
    }

    /// The command gets the signal, unless the terminal has sent it to both of us.
    fn pass_on(&self, received: ReceivedSignal) {
        // A command that has just ended needs no signal any more.
        let _ = match self.terminal {
            Some(terminal) if received.by_terminal => {
                let group = terminal.foreground();
                let group = group.map_or(self.pid, |group| Pid::from_raw(group.as_raw_nonzero().get()));
                killpg(group, received.signal)
            }
            None if received.by_terminal && getpgid(Some(self.pid)) == Ok(getpgrp()) => Ok(()),
            _ => kill(self.pid, received.signal),
        };
    }

    /// Stops with the command, and goes on with it.
    fn stop(&mut self) {
        drop(self.raw_mode.take());
        stop_here();
        if let Some(terminal) = self.terminal {
            terminal.resize();
            self.raw_mode = terminal.enter();
        }
    }
}
