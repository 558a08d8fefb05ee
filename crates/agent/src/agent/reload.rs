//! Another configuration while the agent runs: first what can go wrong, then what cannot.

use super::{Agent, StartError};
use crate::config::{AgentConfig, Change, Process};
use crate::flight_recorders::FlightRecorders;
use crate::level_rules;
use crate::metrics_server::MetricsServer;
use crate::quota::ConfiguredQuotas;
use crate::routing::merged;
use crate::server::ServerOptions;

impl Agent {
    /// Takes another configuration: routes, levels, recorders, limits, metrics, new sinks, and how lines of open sinks look
    /// and when they are written hold at once. Returns what holds from the next start on: places, and all else of sinks
    /// that are open.
    ///
    /// # Errors
    /// Fails when a new sink cannot be opened, its directory belongs to another agent, or metrics cannot be served; then nothing
    /// has changed.
    pub fn reload(&mut self, config: AgentConfig) -> Result<Vec<Change>, StartError> {
        let later: Vec<Change> = self
            .config
            .diff(&config)
            .into_iter()
            .filter(Change::needs_restart)
            .collect();
        let metrics = self.metrics_of(&config)?;
        self.sinks.open_new(&config)?;
        if let Some(metrics) = metrics {
            self.metrics = metrics;
        }
        let next = AgentConfig {
            // What is open stays as it is, and so do the places that others know.
            sinks: merged(&self.config.sinks, &config.sinks),
            socket: self.config.socket.clone(),
            group: self.config.group.clone(),
            mode: self.config.mode,
            run_dir: self.config.run_dir.clone(),
            ..config
        };
        let before = std::mem::replace(&mut self.config, next);
        self.server
            .adjust(ServerOptions::of(&self.config, self.backend.journal()));
        self.routing.lock().config = self.config.clone();
        self.sinks.tune(&before.sinks);
        self.sinks.mark_changed();
        let sessions: Vec<_> = self.server.sessions().cloned().collect();
        for session in &sessions {
            self.open_sinks(&Process::from(&**session));
        }
        self.backend.set_router(self.routing.router());
        self.backend
            .set_recorder_policy(FlightRecorders(self.routing.clone()));
        self.backend
            .set_quota_policy(ConfiguredQuotas::new(&self.config.limits, &self.config.run_dir));
        let (old, new) = (before.levels, self.config.levels.clone());
        level_rules::change_running(sessions, old, new, self.notices.0.clone());
        Ok(later)
    }

    /// The server of metrics, where it is another one.
    fn metrics_of(&self, config: &AgentConfig) -> Result<Option<MetricsServer>, StartError> {
        if *self.metrics.place() == config.metrics {
            return Ok(None);
        }
        let group = self.config.group.as_ref().map(|group| group.id);
        let shown = self.numbers.clone();
        let server = MetricsServer::start(&config.metrics, self.config.mode, group, move || shown.text())?;
        Ok(Some(server))
    }
}
