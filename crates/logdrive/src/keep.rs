//! The flight recorder as a program describes it.

use logdrive_drain::RecorderOptions;
use logdrive_drain::control::{DirectiveError, read_selector};
use logdrive_wire::Level;
use std::time::Duration;

/// Keeps records that are below the level of all sinks in memory, in binary, and writes them when something happens: an
/// error, a named statement, a crash, or `logdrive dump`. Until then they cost the disk nothing.
///
/// Where an agent has the session, it keeps them in its own memory, as far as its limits let it, and writes them where it
/// writes this program's fatal records; what its configuration says of flight recorders goes before this. When the agent is
/// killed, what it kept is gone.
///
/// ```
/// use logdrive::{File, Keep, Level};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.log");
/// let guard = logdrive::builder("shop")
///     .file(File::new(&path).min_level(Level::Info))
///     .keep(Keep::bytes(4 << 20))
/// #   .run_dir(dir.path().join("run"))
///     .init()?;
/// logdrive::debug!("only in memory");
/// logdrive::error!("now it counts");
/// logdrive::flush();
/// assert!(std::fs::read_to_string(&path)?.contains("only in memory"));
/// # drop(guard);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Keep {
    options: RecorderOptions,
    callsites: Vec<String>,
}

impl Keep {
    /// Keeps so many bytes for the process, in the session's directory, reserved at the start: 1 MiB at least. When they
    /// are full, the oldest records make room. A record takes its values and 16 bytes.
    pub fn bytes(bytes: u64) -> Self {
        Self {
            options: RecorderOptions::new(bytes),
            callsites: Vec::new(),
        }
    }

    /// A record of this level or above has what is kept written. Default: error.
    #[must_use]
    pub fn trigger(mut self, level: Level) -> Self {
        self.options.trigger_level = Some(level);
        self
    }

    /// No level is a trigger.
    #[must_use]
    pub fn no_trigger(mut self) -> Self {
        self.options.trigger_level = None;
        self
    }

    /// A record of this statement has it written, too: `src/net.rs:42`, `net.rs`, or a module or target with what is
    /// below it. May be given several times. A mistake in it is an error of [`crate::Builder::init`].
    #[must_use]
    pub fn trigger_at(mut self, callsite: &str) -> Self {
        self.callsites.push(callsite.to_owned());
        self
    }

    /// Writes only what is not older than this, and forgets the rest. Default: all that there is.
    #[must_use]
    pub fn before(mut self, time: Duration) -> Self {
        self.options.before = Some(time);
        self
    }

    /// Between two dumps that records trigger lies at least this time. Default: 10 seconds.
    #[must_use]
    pub fn pause(mut self, time: Duration) -> Self {
        self.options.pause = time;
        self
    }

    /// Returns true if what a killed process kept is written when its session is recovered. Default: yes.
    #[must_use]
    pub fn on_crash(mut self, on: bool) -> Self {
        self.options.on_crash = on;
        self
    }

    pub(crate) fn into_options(self) -> Result<RecorderOptions, DirectiveError> {
        let mut options = self.options;
        for callsite in &self.callsites {
            options.trigger_callsites.push(read_selector(callsite)?);
        }
        Ok(options)
    }
}
