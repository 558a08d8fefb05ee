//! Adoption of a session that another process made, by recovery when that process is dead, and by a sidecar while it
//! lives: what an earlier drain had begun is finished, then its rings are drained through the same sinks.

use crate::drain::Drain;
use crate::drain::counts::DrainCounts;
use crate::drain::pipeline::DrainParts;
use crate::error::BackendError;
use crate::file::Storage;
use crate::flight_recorder::FlightRecorder;
use crate::layout::ProcessInfo;
use crate::sink::options::{Overflow, RecoverableSink, sinks_from_text};
use crate::sink::start::{SinkStarter, process_info};
use crate::sink::writer::IoRequest;
use crate::status::BackendStatus;
use logdrive_ring::{Buffers, RingError, SessionReader};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

/// A session of another process, and the sinks that it describes.
#[derive(Debug)]
pub(crate) struct AdoptedSession {
    pub(crate) session: Arc<SessionReader>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) sinks: Vec<RecoverableSink>,
    pub(crate) status: Arc<BackendStatus>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Requests to the I/O threads, in the order of the sinks.
    pub(crate) writers: Vec<Sender<IoRequest>>,
}

impl AdoptedSession {
    /// Reads the sinks of a session that is locked for this process.
    pub(crate) fn new(session: SessionReader) -> Result<Self, RingError> {
        let buffers = session.buffers()?;
        let mut sinks = sinks_from_text(&String::from_utf8_lossy(&buffers.config()));
        sinks.resize_with(buffers.sink_count(), RecoverableSink::default);
        Ok(Self {
            session: Arc::new(session),
            buffers,
            status: Arc::new(BackendStatus::new(sinks.len())),
            sinks,
            stop: Arc::default(),
            writers: Vec::new(),
        })
    }

    /// Opens the sinks, finishes what an earlier drain had begun to write, and returns a drain for the rest.
    pub(crate) fn drain(
        &mut self,
        storage: &Arc<dyn Storage>,
        overflow: Overflow,
        coarse_clock: bool,
        recorder: Option<FlightRecorder>,
    ) -> Result<Drain, BackendError> {
        let header = self.session.header();
        let starter = SinkStarter {
            buffers: Arc::clone(&self.buffers),
            storage: Arc::clone(storage),
            status: Arc::clone(&self.status),
            process: ProcessInfo {
                pid: header.identity().pid,
                ..process_info(&header.identity().app)
            },
        };
        let sinks = self.sinks.iter().enumerate();
        let sinks = sinks.map(|(index, sink)| starter.adopt(index, sink, overflow));
        let sinks = sinks.collect::<Result<Vec<_>, _>>()?;
        self.writers = sinks.iter().map(|sink| sink.sender()).collect();
        let parts = DrainParts {
            session: Arc::clone(&self.session),
            buffers: Arc::clone(&self.buffers),
            sinks,
            router: None,
            recorder,
            status: Arc::clone(&self.status),
            counts: Arc::new(DrainCounts::default()),
            stop: Arc::clone(&self.stop),
            coarse: coarse_clock,
        };
        Ok(Drain::new(parts, None))
    }
}
