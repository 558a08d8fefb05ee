//! A collector that runs: its outputs and its server, and another pair of them where a reload changes outputs or routes.

use super::config::CollectConfig;
use super::outputs;
use crate::error::CliError;
use crate::output::service_note;
use crate::paint::ColorChoice;
use logdrive_collector::input::{InputAddress, InputCounts, InputOptions, Inputs};
use logdrive_collector::{Outputs, StoreCounts};
use logdrive_engines::{Delivery, DeliveryCounts};
use logdrive_ship::hello::Reason;
use logdrive_ship::{Address, ServerHandle, Stats, Threads, TransportError, serve};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for deliveries to engines at the end; what is left is delivered after the next start.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Outputs, the server that brings records to them, and the deliveries of those that have an engine.
struct Parts {
    store: Arc<Outputs>,
    server: ServerHandle,
    deliveries: Vec<Delivery>,
}

/// Counts at one moment.
#[derive(Clone)]
pub(super) struct Counts {
    pub(super) stats: Stats,
    pub(super) total: StoreCounts,
    /// Counts of the outputs by their names, since they were opened.
    pub(super) outputs: Vec<(String, StoreCounts)>,
    /// Counts of the deliveries by their engines, since they were started.
    pub(super) deliveries: Vec<(String, DeliveryCounts)>,
    /// Counts of the inputs.
    pub(super) inputs: Vec<(InputAddress, InputCounts)>,
}

/// State that the thread of the metrics sees too.
struct Current {
    /// None while a reload opens others.
    parts: Option<Parts>,
    names: Vec<String>,
    /// They pass their records to the server, and outlive it.
    inputs: Option<Inputs>,
    /// Counts of those before.
    earlier: Counts,
    /// Messages of those before.
    notices: Vec<String>,
}

/// A collector that runs.
pub(super) struct RunningCollector {
    config: CollectConfig,
    current: Arc<Mutex<Current>>,
}

fn begin(config: &CollectConfig, listen: &[Address]) -> Result<Parts, CliError> {
    let (store, deliveries) = outputs::open(&config.outputs, &config.routes)?;
    let store = Arc::new(store);
    let threads = Threads {
        pollers: config.pollers,
        ..Threads::default()
    };
    let server = serve(listen, &config.options, threads, store.clone())?;
    Ok(Parts {
        store,
        server,
        deliveries,
    })
}

fn delivery_counts(deliveries: &[Delivery]) -> Vec<(String, DeliveryCounts)> {
    let counts = |delivery: &Delivery| (delivery.to().to_string(), delivery.counts());
    deliveries.iter().map(counts).collect()
}

impl Current {
    fn counts(&self) -> Counts {
        let inputs = self.inputs.as_ref().map_or(Vec::new(), Inputs::counts);
        let Some(Parts {
            store,
            server,
            deliveries,
        }) = &self.parts
        else {
            return Counts {
                inputs,
                ..self.earlier.clone()
            };
        };
        Counts {
            deliveries: delivery_counts(deliveries),
            inputs,
            stats: sum(&self.earlier.stats, &server.stats()),
            total: StoreCounts::sum([self.earlier.total, store.total()]),
            outputs: self.names.iter().cloned().zip(store.counts()).collect(),
        }
    }
}

/// Counts of two servers, one after the other.
fn sum(earlier: &Stats, now: &Stats) -> Stats {
    let mut ended = now.ended;
    for (count, earlier) in ended.iter_mut().zip(earlier.ended) {
        *count += earlier;
    }
    Stats {
        connections: now.connections,
        accepted: now.accepted + earlier.accepted,
        bytes: now.bytes + earlier.bytes,
        ended,
    }
}

impl RunningCollector {
    /// Opens the outputs and listens.
    pub(super) fn start(config: CollectConfig) -> Result<Self, CliError> {
        let parts = begin(&config, &config.listen)?;
        let inputs = match &config.inputs_to {
            Some((to, directory)) => {
                let options = InputOptions {
                    to: to.clone(),
                    directory: directory.clone(),
                    tls: config.options.tls.clone(),
                };
                Inputs::start(&config.inputs, &options)?
            }
            None => None,
        };
        let stats = Stats {
            connections: 0,
            accepted: 0,
            bytes: 0,
            ended: [0; Reason::COUNT],
        };
        let current = Current {
            parts: Some(parts),
            names: names(&config),
            inputs,
            earlier: Counts {
                stats,
                total: StoreCounts::default(),
                outputs: Vec::new(),
                deliveries: Vec::new(),
                inputs: Vec::new(),
            },
            notices: Vec::new(),
        };
        Ok(Self {
            config,
            current: Arc::new(Mutex::new(current)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        // Whole values go in and out.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells where it listens and writes.
    pub(super) fn tell(&self, color: ColorChoice) {
        if let Some(parts) = &self.lock().parts {
            for address in parts.server.addresses() {
                service_note(color, "listens", format_args!("on {address}"));
            }
            for output in parts.store.stores() {
                service_note(color, "writes", output.path().display());
            }
            for delivery in &parts.deliveries {
                service_note(color, "delivers", format_args!("to {}", delivery.to()));
            }
        }
        for input in &self.config.inputs {
            service_note(color, "takes", format_args!("records at {input}"));
        }
    }

    /// Counts of all that has run.
    pub(super) fn counts(&self) -> Counts {
        self.lock().counts()
    }

    /// Returns a function that gives the counts at the moment of its call, on another thread.
    pub(super) fn counts_source(&self) -> impl Fn() -> Counts + Send + use<> {
        let current = Arc::clone(&self.current);
        move || current.lock().unwrap_or_else(PoisonError::into_inner).counts()
    }

    /// Messages for the operator, since the last call.
    pub(super) fn notices(&self) -> Vec<String> {
        let mut current = self.lock();
        let mut all = std::mem::take(&mut current.notices);
        if let Some(parts) = &current.parts {
            all.extend(parts.store.notices());
            all.extend(parts.deliveries.iter().flat_map(Delivery::notices));
        }
        all
    }

    /// Opens the logs anew.
    pub(super) fn reopen(&self) {
        if let Some(parts) = &self.lock().parts {
            parts.store.reopen();
        }
    }

    /// Reads the files of the certificates again.
    pub(super) fn reload_certificates(&self) -> Result<bool, TransportError> {
        let current = self.lock();
        let of_inputs = current
            .inputs
            .as_ref()
            .map_or(Ok(false), Inputs::reload_certificates)?;
        match &current.parts {
            Some(parts) => Ok(parts.server.reload_certificates()? || of_inputs),
            None => Ok(of_inputs),
        }
    }

    /// Takes outputs and routes over where they are others: connections end in order, and their senders come again. Where
    /// the new outputs cannot be opened, goes on with those of before.
    ///
    /// # Errors
    /// When not even those can be opened again.
    pub(super) fn change(&mut self, config: CollectConfig, color: ColorChoice) -> Result<(), CliError> {
        if self.config.outputs == config.outputs && self.config.routes == config.routes {
            return Ok(());
        }
        let Some(listen) = self.end_parts() else {
            return Ok(());
        };
        let mut next = self.config.clone();
        (next.outputs, next.routes) = (config.outputs, config.routes);
        let (parts, config) = match begin(&next, &listen) {
            Ok(parts) => {
                service_note(color, "note", "the outputs and routes were read again");
                (parts, next)
            }
            Err(error) => {
                let text = format!("{error}; the outputs and routes of before are used on");
                service_note(color, "note", text);
                (begin(&self.config, &listen)?, self.config.clone())
            }
        };
        let mut current = self.lock();
        // Those that are open now say it for themselves.
        current.earlier.total.is_failing = false;
        (current.parts, current.names) = (Some(parts), names(&config));
        drop(current);
        self.config = config;
        Ok(())
    }

    /// Ends the server and closes the outputs; returns where it listened.
    fn end_parts(&self) -> Option<Vec<Address>> {
        let Parts {
            store,
            server,
            deliveries,
        } = self.lock().parts.take()?;
        let listen = server.addresses().to_vec();
        let stats = server.stop();
        store.close();
        deliveries
            .iter()
            .for_each(|delivery| delivery.begin_stop(DELIVERY_TIMEOUT));
        deliveries.iter().for_each(Delivery::wait);
        let mut current = self.lock();
        let current = &mut *current;
        current
            .notices
            .extend(deliveries.iter().flat_map(Delivery::notices));
        let earlier = &mut current.earlier;
        earlier.deliveries = delivery_counts(&deliveries);
        earlier.stats = sum(&earlier.stats, &stats);
        earlier.total = StoreCounts::sum([earlier.total, store.total()]);
        Some(listen)
    }

    /// Ends, and says what there is to say; returns the counts of all that has run.
    pub(super) fn stop(self, color: ColorChoice) -> Counts {
        // Before the server, to which they pass what they have.
        let inputs = self.lock().inputs.take();
        let last = inputs.as_ref().map_or(Vec::new(), Inputs::counts);
        drop(inputs);
        self.end_parts();
        for notice in self.notices() {
            service_note(color, "note", notice);
        }
        Counts {
            inputs: last,
            ..self.counts()
        }
    }
}

/// Names of the outputs; the only one needs none in the configuration.
fn names(config: &CollectConfig) -> Vec<String> {
    let name = |name: &String| {
        if name.is_empty() {
            "main".to_owned()
        } else {
            name.clone()
        }
    };
    config.outputs.iter().map(|output| name(&output.name)).collect()
}
