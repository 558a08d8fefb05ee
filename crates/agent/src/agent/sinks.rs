//! The files that a process is the first to need, and the file that processes share when there are no more places.

use super::asks::process_of;
use super::{Agent, StartError};
use crate::config::{Process, SinkConfig};
use crate::routes::{OTHERS, key_of};
use logdrive_ring::SharedSession;
use std::collections::BTreeSet;

impl Agent {
    /// Opens the files that a process is the first to need.
    pub(super) fn open_sinks(&mut self, session: &SharedSession) {
        let process = process_of(session);
        let places = self.routes.lock().places_of(&process);
        let sinks = places
            .into_iter()
            .filter_map(|place| self.config.sinks.get(place));
        let sinks: Vec<_> = sinks.filter(|sink| sink.has_placeholders()).cloned().collect();
        for sink in sinks {
            let key = key_of(&sink, &process);
            if self.routes.lock().numbers.contains_key(&key) {
                continue;
            }
            match self.open_for(&sink, &process) {
                Ok((number, is_shared)) => {
                    let mut routes = self.routes.lock();
                    if is_shared {
                        routes.shared.insert(key.clone());
                    }
                    routes.numbers.insert(key, number);
                }
                Err(error) => self.backend.notice(format!(
                    "no sink {} for process {} of {}: {error}",
                    sink.name, process.pid, process.app
                )),
            }
        }
    }

    /// A file of its own, as long as one is left that all others can share; whether it is the shared one.
    fn open_for(&mut self, sink: &SinkConfig, process: &Process<'_>) -> Result<(usize, bool), StartError> {
        if self.has_place() {
            return Ok((self.open_file(sink, process)?, false));
        }
        let key = key_of(sink, &OTHERS);
        let found = self.routes.lock().numbers.get(&key).copied();
        if let Some(number) = found {
            return Ok((number, true));
        }
        let number = self.open_file(sink, &OTHERS)?;
        self.routes.lock().numbers.insert(key.clone(), number);
        self.backend.notice(format!(
            "there are places for {} sinks and no more: from {} on, what else comes for sink {} is in {}; routes by \
             application say who shares which file",
            self.backend.sink_places(),
            process.app,
            sink.name,
            key.1.display()
        ));
        Ok((number, true))
    }

    /// Whether there is a place beside those that shared files may need.
    fn has_place(&self) -> bool {
        let routes = self.routes.lock();
        let open = routes.numbers.values().max().map_or(0, |last| last + 1);
        let named = self.config.routes.iter().map(|route| &route.sinks);
        let named = named.chain(self.config.recorders.iter().map(|recorder| &recorder.sinks));
        let named: BTreeSet<usize> = named.flat_map(|names| self.config.places_of(names)).collect();
        let sinks = named.into_iter().filter_map(|place| self.config.sinks.get(place));
        let is_lacking = |sink: &&SinkConfig| {
            sink.has_placeholders() && !routes.numbers.contains_key(&key_of(sink, &OTHERS))
        };
        let lacking = sinks.filter(is_lacking).count();
        open + lacking < self.backend.sink_places()
    }

    fn open_file(&mut self, sink: &SinkConfig, process: &Process<'_>) -> Result<usize, StartError> {
        let options = sink.options_for(process);
        self.outputs.take(&options.target)?;
        Ok(self.backend.add_sink(&options)?)
    }
}
