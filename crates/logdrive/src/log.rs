//! `log`: records of the `log` facade go into the ring, with their key-values as typed fields.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("shop.log");
//! let guard = logdrive::builder("shop").file(logdrive::File::new(&path)).init()?;
//! logdrive::log::install()?;
//!
//! log::info!(order_id = 7; "order filled");
//! drop(guard);
//! assert!(std::fs::read_to_string(&path)?.contains("order filled order_id=7"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Messages** without arguments are stored once and not copied. With arguments they are rendered at the call, by
//!   their own code: `log` gives no access to the arguments. Logdrive's own macros do better.
//! - **Key-values** of primitive types are kept as what they are; others are rendered at the call.
//! - **Levels**: Logdrive's filter decides, for the record's target. A statement that is off costs a load of its
//!   control word, some nanoseconds: the greatest level of `log` is trace, so that every statement can be switched on
//!   and off in the running process, from outside of it, too. `log_enabled!` answers as the filter says.
//! - **Limits**: a record holds 64 KiB, what does not fit is cut and counted. Programs that make targets at the call
//!   may do so for 4,096 statements and targets; records of further ones carry target, file and line as fields.

mod site;
mod values;

use crate::dynamic::{Encoder, commit, pass_sample, with_scratch};
use crate::statement::Statement;
use crate::{runtime, sampling};
use log::{Level, Log, Metadata, Record};
use site::Site;

/// Makes Logdrive the logger of the `log` facade. It writes to the running logger, which may be started later.
///
/// It is called once for the program, also where the logger is stopped and started again. Records before the start are
/// dropped and counted. Sets the greatest level of `log` to trace, because Logdrive's filter decides. Does not block.
///
/// # Errors
/// When another logger has been set before; it stays.
pub fn install() -> Result<(), InstallError> {
    log::set_logger(&FACADE).map_err(|_| InstallError { _private: () })?;
    log::set_max_level(log::LevelFilter::Trace);
    Ok(())
}

/// Error of [`install`]: another logger has been set before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log facade has a logger already; call logdrive::log::install before any other logger is set, and once"
)]
pub struct InstallError {
    _private: (),
}

static FACADE: Facade = Facade;

struct Facade;

impl Log for Facade {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        runtime::allows(metadata.target(), level_of(metadata.level())).unwrap_or(false)
    }

    fn log(&self, record: &Record<'_>) {
        let site = Site::of(record);
        let Some(marked) = site.admit(record) else { return };
        with_scratch(|bytes| {
            let mut out = Encoder::new(bytes);
            values::encode(record, site, &mut out);
            if marked >= sampling::MARKS && !pass_sample(site.control(), marked, &mut out) {
                return;
            }
            let (values, cut) = out.written();
            commit(site, marked, &[], values, cut);
        });
    }

    fn flush(&self) {
        crate::flush();
    }
}

/// Logdrive's level for one of `log`.
fn level_of(level: Level) -> crate::Level {
    match level {
        Level::Trace => crate::Level::Trace,
        Level::Debug => crate::Level::Debug,
        Level::Info => crate::Level::Info,
        Level::Warn => crate::Level::Warn,
        Level::Error => crate::Level::Error,
    }
}
