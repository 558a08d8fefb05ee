//! Workloads as the harness sees them: metrics, cases, and the measurement of one.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::runs;
use crate::{BenchError, Result, warm};

/// Named values that describe a case; they are part of a result's identity.
pub type Params = Map<String, Value>;

/// A quantity that a workload measures.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, which ends in the unit where it has one.
    pub name: &'static str,
    /// The unit, spelled out for the result lines.
    pub unit: &'static str,
    /// Decimal places in the table.
    pub decimals: usize,
}

impl Metric {
    /// Describes a metric.
    #[must_use]
    pub const fn new(name: &'static str, unit: &'static str, decimals: usize) -> Metric {
        Metric { name, unit, decimals }
    }
}

/// The column of the table that compares every subject with the floor.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// The metric that is compared.
    pub metric: &'static str,
    /// The subject that is 1.00.
    pub floor: &'static str,
}

/// One subject with one set of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The name of what is measured.
    pub subject: &'static str,
    /// Parameters that distinguish this case from others of the same subject.
    pub params: Params,
    /// Values that the measuring process needs and that no result shows.
    pub settings: Params,
}

impl Case {
    /// A case without parameters.
    #[must_use]
    pub fn new(subject: &'static str) -> Case {
        Case {
            subject,
            params: Params::new(),
            settings: Params::new(),
        }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn param(mut self, name: &str, value: impl Into<Value>) -> Case {
        self.params.insert(name.to_string(), value.into());
        self
    }

    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: &str, value: impl Into<Value>) -> Case {
        self.settings.insert(name.to_string(), value.into());
        self
    }

    /// The chosen parameters as `name=value`, separated by spaces.
    #[must_use]
    pub fn params_text(&self, chosen: impl Fn(&str) -> bool) -> String {
        let pairs: Vec<String> = self
            .params
            .iter()
            .filter(|(name, _)| chosen(name))
            .map(|(name, value)| match value {
                Value::String(text) => format!("{name}={text}"),
                other => format!("{name}={other}"),
            })
            .collect();
        pairs.join(" ")
    }
}

/// Request to the measuring process: a case, on its way through a pipe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The name of what is measured.
    pub subject: String,
    /// See [`Case::params`].
    pub params: Params,
    /// See [`Case::settings`].
    pub settings: Params,
}

impl Job {
    /// A whole number from the settings or the parameters, 0 where it is absent.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.value(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Returns whether a setting or parameter is there and true.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A string from the settings or the parameters, empty where it is absent.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.value(name).and_then(Value::as_str).unwrap_or("")
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.settings.get(name).or_else(|| self.params.get(name))
    }
}

/// The values that one run of one case measured, by metric.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Samples(pub std::collections::BTreeMap<String, f64>);

impl Samples {
    /// Adds a value.
    #[must_use]
    pub fn with(mut self, metric: &str, value: f64) -> Samples {
        self.0.insert(metric.to_string(), value);
        self
    }

    /// The value of a metric, if this run measured it.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.0.get(metric).copied()
    }
}

/// Size of a workload's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Full size, from which the reported figures come.
    Full,
    /// A smoke test of a few seconds.
    Quick,
}

impl Scale {
    /// Picks the value for this scale.
    #[must_use]
    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Scale::Full => full,
            Scale::Quick => quick,
        }
    }
}

/// Measures a case in a child process.
pub type Measure<'a> = &'a dyn Fn(&Case) -> Result<Samples>;

/// Properties of a workload that never change.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name on the command line and in every result.
    pub name: &'static str,
    /// Metrics, in the order of the table's columns.
    pub metrics: &'static [Metric],
    /// Comparison in the last column, if the workload has a floor.
    pub ratio: Option<Ratio>,
    /// Name of the log file that all cases write over, if there is one, see [`crate::warm`].
    pub shared_log: Option<&'static str>,
}

impl About {
    /// A workload without a floor.
    #[must_use]
    pub const fn new(name: &'static str, metrics: &'static [Metric]) -> About {
        About {
            name,
            metrics,
            ratio: None,
            shared_log: None,
        }
    }

    /// The same, whose cases write over one log file of this name, see [`crate::warm`].
    #[must_use]
    pub const fn with_shared_log(self, name: &'static str) -> About {
        About {
            shared_log: Some(name),
            ..self
        }
    }

    /// The same, whose last column compares `metric` with that of the subject `floor`.
    #[must_use]
    pub const fn with_floor(self, metric: &'static str, floor: &'static str) -> About {
        About {
            ratio: Some(Ratio { metric, floor }),
            ..self
        }
    }
}

/// One of the measured cases that the project exists for.
pub trait Workload: Sync {
    /// Name, metrics and floor.
    fn about(&self) -> About;

    /// Name on the command line and in every result.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// Title in a few words, for the heading of the table.
    fn title(&self, scale: Scale) -> String;

    /// All cases at this scale, in the order of the table's rows.
    fn cases(&self, scale: Scale) -> Vec<Case>;

    /// Runs once before the first round, in the parent: warms what all cases
    /// use and completes the cases' settings. `run` measures a case in a
    /// child.
    fn prepare(&self, _scale: Scale, _cases: &mut Vec<Case>, _run: Measure<'_>) -> Result<()> {
        Ok(())
    }

    /// Path of the log file that all cases write over; an error for a workload without one.
    fn shared_log(&self) -> Result<PathBuf> {
        let name = self.about().shared_log;
        let name = name.ok_or_else(|| BenchError::subject(self.name(), "it has no shared log"))?;
        Ok(runs::scratch_dir()?.join(name))
    }

    /// Runs in the parent before each measurement, outside of every clock. Fills the shared log with zeros.
    fn before_each(&self) -> Result<()> {
        if self.about().shared_log.is_some() {
            warm::blank(&self.shared_log()?, 0)?;
        }
        Ok(())
    }

    /// Runs in the parent after the last round. Removes the shared log.
    fn clean_up(&self) -> Result<()> {
        if self.about().shared_log.is_some() {
            let path = self.shared_log()?;
            std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
        }
        Ok(())
    }

    /// Measures one case; runs in a process of its own.
    fn measure(&self, job: &Job) -> Result<Samples>;
}
