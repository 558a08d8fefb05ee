//! What a workload is to the harness: metrics, cases, and how to run one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Result;

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
    /// What distinguishes this case from others of the same subject.
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

/// What the measuring process is told: a case, on its way through a pipe.
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

    /// Whether a setting or parameter is there and true.
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

/// How much of a workload to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// What the reported figures come from.
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

/// One of the measured cases that the project exists for.
pub trait Workload: Sync {
    /// The name on the command line and in every result.
    fn name(&self) -> &'static str;

    /// What is measured, in a few words, for the heading of the table.
    fn title(&self, scale: Scale) -> String;

    /// The metrics, in the order of the table's columns.
    fn metrics(&self) -> &'static [Metric];

    /// The comparison in the last column, if the workload has a floor.
    fn ratio(&self) -> Option<Ratio>;

    /// All cases at this scale, in the order of the table's rows.
    fn cases(&self, scale: Scale) -> Vec<Case>;

    /// Runs once before the first round, in the parent: warms what all cases
    /// use and completes the cases' settings. `run` measures a case in a
    /// child.
    fn prepare(
        &self,
        scale: Scale,
        cases: &mut Vec<Case>,
        run: &dyn Fn(&Case) -> Result<Samples>,
    ) -> Result<()>;

    /// Runs in the parent before each measurement, outside of every clock.
    fn before_each(&self) -> Result<()> {
        Ok(())
    }

    /// Runs in the parent after the last round.
    fn clean_up(&self) -> Result<()> {
        Ok(())
    }

    /// Measures one case; runs in a process of its own.
    fn measure(&self, job: &Job) -> Result<Samples>;
}
