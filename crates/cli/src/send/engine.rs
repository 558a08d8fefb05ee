//! An engine as the destination of a sender, which reads the log again after a restart from what the engine has acknowledged.

use logdrive_collector::send::{Destination, Payload};
use logdrive_engines::LineDelivery;
use logdrive_ship::forward::ForwardState;
use logdrive_ship::upstream::MemberOptions;
use std::time::Duration;

/// An engine to which a sender's records go.
#[derive(Debug)]
pub(super) struct EngineDestination {
    delivery: LineDelivery,
}

impl EngineDestination {
    pub(super) fn new(delivery: LineDelivery) -> Self {
        Self { delivery }
    }
}

impl Destination for EngineDestination {
    fn first_number(&self) -> u64 {
        self.delivery.first_number()
    }

    fn next_number(&self) -> u64 {
        self.delivery.next_number()
    }

    fn push(&mut self, payload: Payload, timeout: Duration) -> Result<(), Payload> {
        let Payload { count, bytes, starts } = payload;
        let pushed = self.delivery.push(bytes, starts, timeout);
        pushed.map_err(|(bytes, starts)| Payload { count, bytes, starts })
    }

    fn state(&self) -> ForwardState {
        let counts = self.delivery.counts();
        ForwardState {
            is_connected: counts.error.is_empty(),
            pushed: self.next_number() - self.first_number(),
            acknowledged: self.delivery.acknowledged(),
            secured: self.delivery.acknowledged(),
            resent_batches: counts.retries,
            failure: counts.error,
            ..ForwardState::default()
        }
    }

    /// An engine is named on the command line, which no reload changes.
    fn set_members(&self, _: Vec<MemberOptions>) {}

    fn stop(&mut self, timeout: Duration) -> ForwardState {
        self.delivery.stop(timeout);
        self.state()
    }
}
