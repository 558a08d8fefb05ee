//! The flight recorder as a program describes it.

use logdrive_drain::RecorderOptions;
use logdrive_drain::control::{DirectiveError, read_selector};
use logdrive_wire::Level;
use std::time::Duration;

/// Options of a flight recorder: memory for records that are below the level of all sinks. They are kept in binary and written
/// to the log on a trigger: an error, a named statement, a crash, or `logdrive dump`. Until then they cost the disk nothing.
///
/// Where an agent has the session, it keeps the records in its own memory, within its limits, and writes them to the sinks that
/// get this program's fatal records. The agent's configuration of flight recorders replaces these options. Kept records are
/// lost when the agent is killed.
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
    pub(crate) options: RecorderOptions,
    pub(crate) callsites: Vec<String>,
}

impl Keep {
    /// Returns options for a recorder of this many bytes, 1 MiB at least. They are reserved in the session's directory at the
    /// start. When they are full, the oldest records are overwritten. A record takes its values and 16 bytes.
    pub fn bytes(bytes: u64) -> Self {
        Self {
            options: RecorderOptions::new(bytes),
            callsites: Vec::new(),
        }
    }

    /// Sets the level from which on a record is a trigger. Default: error.
    #[must_use]
    pub fn trigger(mut self, level: Level) -> Self {
        self.options.trigger_level = Some(level);
        self
    }

    /// Makes no level a trigger; statements, crashes and requests still are.
    #[must_use]
    pub fn no_trigger(mut self) -> Self {
        self.options.trigger_level = None;
        self
    }

    /// Adds a statement whose records are triggers: `src/net.rs:42`, `net.rs`, or a module or target with all below it. May be
    /// called several times. A mistake in it is an error of [`crate::Builder::init`].
    #[must_use]
    pub fn trigger_at(mut self, callsite: &str) -> Self {
        self.callsites.push(callsite.to_owned());
        self
    }

    /// Writes on a trigger only records that are not older than this, and forgets the others. Default: writes all.
    #[must_use]
    pub fn before(mut self, time: Duration) -> Self {
        self.options.before = Some(time);
        self
    }

    /// Sets the shortest time between two dumps that records trigger. Default: 10 seconds.
    #[must_use]
    pub fn pause(mut self, time: Duration) -> Self {
        self.options.pause = time;
        self
    }

    /// Writes the kept records of a killed process when its session is recovered; with `false` they are lost. Default: writes
    /// them.
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
