//! Set-up, calls and end of each logger; knows no workload.
//!
//! A workload's loop is generic over [`Subject`], so that every logger's own
//! macros are compiled into it as they would be in a program that uses them.
//! Each is set up as its authors advise.

#[cfg(feature = "workloads")]
pub mod agent;
pub mod count_only;
pub mod counted;
#[cfg(feature = "workloads")]
pub mod floor;
pub mod foreign;
pub mod in_place;
pub mod logdrive;
#[cfg(feature = "workloads")]
pub mod spdlog_rs;
#[cfg(feature = "workloads")]
pub mod tracing_floor;
pub mod tracing_fmt;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::{BenchError, Result};

/// Policy for a call that it has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Give up at once.
    Drop,
    /// Give up after a bounded time.
    Wait,
    /// Wait for as long as it takes.
    Block,
}

impl Full {
    /// Reads the name that the parameter `policy` has.
    pub fn from_name(name: &str) -> Result<Full> {
        match name {
            "drop" => Ok(Full::Drop),
            "wait" => Ok(Full::Wait),
            "block" => Ok(Full::Block),
            other => Err(BenchError::new(format!("there is no policy '{other}'"))),
        }
    }
}

/// Log file of a logger, and what it may lose.
#[derive(Clone, Debug)]
pub struct Target {
    /// The log file, written from its start; see [`crate::warm`].
    pub path: PathBuf,
    /// Policy when full.
    pub full: Full,
    /// Set if the file is longer than what will be written. The rivals write
    /// at the start of any file; Logdrive appends by default.
    pub in_place: bool,
    /// When writes are to hang, for a logger that supports it.
    pub hang: Option<(Instant, Instant)>,
}

impl Target {
    /// A file of the logger's own that is new or empty.
    #[must_use]
    pub fn new(path: &Path, full: Full) -> Target {
        Target {
            path: path.to_path_buf(),
            full,
            in_place: false,
            hang: None,
        }
    }

    /// A file whose old pages are written over, see [`crate::warm`].
    #[must_use]
    pub fn in_place(path: &Path, full: Full) -> Target {
        Target {
            in_place: true,
            ..Target::new(path, full)
        }
    }
}

/// Report of a logger that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The calls that the logger itself admits to have dropped.
    pub dropped_counted: u64,
}

/// A logger that is set up.
pub trait Subject: Sync {
    /// Logs `text` as the whole message.
    fn line(&self, text: &str);

    /// Logs a message with four values.
    fn four(&self, order: u64, price: f64, quantity: i32, customer: &str);

    /// Returns when all that was logged has been handed to the kernel; at once for a subject that writes nothing.
    fn finish(self) -> Result<Ended>
    where
        Self: Sized,
    {
        Ok(Ended::default())
    }
}

/// Implements the calls of a [`Subject`] by a macro that takes a format and its values, as most loggers have them.
macro_rules! formatted_calls {
    ($($log:ident)::+) => {
        #[inline]
        fn line(&self, text: &str) {
            $($log)::+!("{}", text);
        }

        #[inline]
        fn four(&self, order: u64, price: f64, quantity: i32, customer: &str) {
            $($log)::+!("order {} at {:.2} x {} for {}", order, price, quantity, customer);
        }
    };
}

/// Implements the calls of a [`Subject`] by the macros of `tracing`, with fields.
macro_rules! tracing_calls {
    () => {
        #[inline]
        fn line(&self, text: &str) {
            tracing::info!("{}", text);
        }

        #[inline]
        fn four(&self, order: u64, price: f64, quantity: i32, customer: &str) {
            tracing::info!(order, price, quantity, customer, "order filled");
        }
    };
}
pub(crate) use {formatted_calls, tracing_calls};

/// A workload's loop, waiting for the logger to run it with.
pub trait Visitor {
    /// Result of the loop.
    type Output;

    /// Runs the loop.
    fn visit<S: Subject>(self, subject: S) -> Result<Self::Output>;
}

#[cfg(feature = "workloads")]
/// Sets up the logger called `name` and runs `visitor` with it.
pub fn visit<V: Visitor>(name: &str, target: &Target, visitor: V) -> Result<V::Output> {
    match name {
        "clock" => visitor.visit(floor::ClockOnly),
        "stores" => visitor.visit(floor::Stores),
        "std-fmt" => visitor.visit(floor::StdFmt),
        "tracing-visit" => visitor.visit(tracing_floor::TracingVisit::install()?),
        "mutex-bufwriter" => visitor.visit(floor::MutexBufWriter::open(target)?),
        "spdlog-rs-sync" => visitor.visit(spdlog_rs::SpdlogRs::sync(target)?),
        "spdlog-rs-async" => visitor.visit(spdlog_rs::SpdlogRs::pooled(target)?),
        "tracing-bufwriter" => visitor.visit(tracing_fmt::TracingFmt::buffered(target)?),
        "tracing-appender" => visitor.visit(tracing_fmt::TracingFmt::appender(target)?),
        name if name.starts_with("logdrive") => logdrive::visit(name, target, visitor),
        other => Err(BenchError::new(format!(
            "there is no logger '{other}' in this build"
        ))),
    }
}
