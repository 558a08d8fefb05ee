//! Start of a sink: opens its target, and starts its I/O thread; for the sink of a dead process after what that one had
//! begun to write is finished.

use crate::console::Console;
use crate::error::BackendError;
use crate::file::{FileOptions, LogFile, Placement, Storage, rewrite};
use crate::layout::ProcessInfo;
use crate::limits::BUFFERS_PER_SINK_MIN;
use crate::sink::buffer::{SinkBuffer, SinkSettings};
use crate::sink::options::{Overflow, RecoverableSink, SinkOptions, Target};
use crate::sink::writer::{DeferredFile, OpenCheck, Output, Writer};
use crate::status::BackendStatus;
use logdrive_ring::clock::unix_ns;
use logdrive_ring::{Buffer, Buffers, FileLocation};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Describes this process, for patterns that name it.
pub(crate) fn process_info(app: &str) -> ProcessInfo {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    ProcessInfo {
        app: app.to_owned(),
        pid: std::process::id(),
        host,
    }
}

/// Starts the sinks of one session, with all that they share.
#[derive(Debug)]
pub(crate) struct SinkStarter {
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) status: Arc<BackendStatus>,
    /// Process whose lines they are.
    pub(crate) process: ProcessInfo,
}

impl SinkStarter {
    /// Opens a target.
    pub(crate) fn open(&self, target: &Target) -> Result<Output, BackendError> {
        Ok(match target {
            Target::File(options) if options.open_late => self.defer(options, None),
            Target::File(options) => {
                let mut file = LogFile::open(options, Arc::clone(&self.storage), unix_ns())?;
                while let Some(notice) = file.notice() {
                    self.status.notice(notice);
                }
                Output::File(Box::new(file))
            }
            Target::Stdout => Output::Console(Console::stdout()),
            Target::Stderr => Output::Console(Console::stderr()),
            Target::Memory(memory) => Output::Memory(memory.clone()),
            Target::Ship(options) => Output::Unsent(options.clone()),
            Target::Discard => Output::Discard,
        })
    }

    /// Returns a file that is opened with its first line, when the check has passed.
    pub(crate) fn defer(&self, options: &FileOptions, check: Option<OpenCheck>) -> Output {
        Output::DeferredFile(Box::new(DeferredFile {
            options: options.clone(),
            storage: Arc::clone(&self.storage),
            check,
        }))
    }

    /// Starts a sink's I/O thread.
    pub(crate) fn start(
        &self,
        index: usize,
        options: &SinkOptions,
        output: Output,
        mut spare: Vec<Buffer>,
    ) -> Result<SinkBuffer, BackendError> {
        let (out, inbox) = channel();
        let (returned, back) = channel();
        if let Some(wanted) = options.buffers {
            spare.truncate(wanted.max(BUFFERS_PER_SINK_MIN));
        }
        let mut layout = options.layout.clone();
        if let Output::Console(console) = &output {
            layout.color = console.colour_wanted();
        }
        let output = match output {
            Output::Unsent(ship) => Output::Ship(ship.start(&layout, &self.process, index, &self.status)?),
            output => output,
        };
        let is_file = matches!(output, Output::File(_) | Output::DeferredFile(_));
        let settings = SinkSettings::new(options, layout, &self.process)?;
        let buffers = Arc::clone(&self.buffers);
        let sink_buffer = SinkBuffer::new(index, settings, is_file, buffers, spare, back, out);
        let writer = Writer {
            sink: index,
            output,
            sync: options.sync,
            inbox,
            back: returned,
            buffers: Arc::clone(&self.buffers),
            status: Arc::clone(&self.status),
            failing: false,
            unsynced_since: None,
        };
        std::thread::Builder::new()
            .name(format!("logdrive-io-{index}"))
            .spawn(move || writer.run())
            .map_err(|cause| BackendError::Thread {
                name: "logdrive-io",
                cause,
            })?;
        Ok(sink_buffer)
    }

    /// Starts a sink of an earlier drain of the session: what that one had begun to write is finished, and what it had
    /// not is written first.
    pub(crate) fn adopt(
        &self,
        index: usize,
        sink: &RecoverableSink,
        overflow: Overflow,
    ) -> Result<SinkBuffer, BackendError> {
        let (unwritten, mut spare) = self.buffers.adopt(index);
        let (target, unwritten) = match (&sink.file, &sink.ship) {
            (Some(file), shipped) => {
                // What was about to be sent has no place in a file.
                let placed = unwritten.into_iter();
                let unwritten = placed.map(|(buffer, place)| match shipped {
                    Some(_) => (buffer, FileLocation::default()),
                    None => (buffer, place),
                });
                let rest = self.finish_writes(file, unwritten.collect(), &mut spare)?;
                (Target::File(file.clone()), rest)
            }
            (None, Some(ship)) => {
                let rest = ship.finish(unwritten, &mut spare, &sink.layout, &self.process)?;
                (Target::Ship(ship.clone()), rest)
            }
            (None, None) => (Target::Discard, unwritten),
        };
        let output = self.open(&target)?;
        let mut options = SinkOptions::new(target);
        options.layout = sink.layout.clone();
        options.layout.color = false;
        options.min_level = sink.min_level;
        options.overflow = overflow;
        let mut sink_buffer = self.start(index, &options, output, spare)?;
        for (buffer, _) in unwritten {
            sink_buffer.hand_over_earlier(buffer);
        }
        Ok(sink_buffer)
    }

    /// A buffer whose write had begun is written to its place again; that is the same bytes at the same offset. Returns
    /// what has to be appended; finished buffers are spare.
    fn finish_writes(
        &self,
        file: &FileOptions,
        unwritten: Vec<(Buffer, FileLocation)>,
        spare: &mut Vec<Buffer>,
    ) -> Result<Vec<(Buffer, FileLocation)>, BackendError> {
        let mut rest = Vec::new();
        for (mut buffer, place) in unwritten {
            if place.ino == 0 {
                rest.push((buffer, place));
                continue;
            }
            let placement = Placement {
                dev: place.dev,
                ino: place.ino,
                offset: place.offset,
            };
            // By whichever way, all of the buffer is in the log now.
            rewrite(
                file,
                Arc::clone(&self.storage),
                placement,
                buffer.bytes(),
                unix_ns(),
            )?;
            buffer.mark_written();
            spare.push(buffer);
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Disk;
    use crate::internal_notices::InternalNotices;
    use logdrive_ring::{BUFFER_BYTES_MIN, SessionOptions, SessionWriter};
    use logdrive_testkit::wait_until;
    use logdrive_wire::Level;
    use std::time::{Duration, Instant};

    /// With no buffer free at its start, a sink took itself for one that is behind, and waited for full buffers.
    #[test]
    fn a_sink_whose_buffers_were_all_left_unwritten_flushes_in_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("shop.log");
        let (session, _) = SessionWriter::create(&SessionOptions {
            app: "shop".to_owned(),
            run_dirs: vec![dir.path().join("run")],
            ring_bytes: 1 << 16,
            config: Vec::new(),
            sink_count: 1,
            buffers_per_sink: 2,
            buffer_bytes: BUFFER_BYTES_MIN,
            keep_bytes: 0,
        })
        .expect("a session");
        let buffers = session.buffers();
        for (mut buffer, sequence) in buffers.take_all(0).expect("buffers").into_iter().zip(1..) {
            buffer.start_filling(sequence);
            buffer.space()[..8].copy_from_slice(b"earlier\n");
            buffer.grow(8, 1);
            buffer.mark_ready();
        }
        let starter = SinkStarter {
            buffers: Arc::clone(buffers),
            storage: Arc::new(Disk),
            status: Arc::new(BackendStatus::new(1)),
            process: process_info("shop"),
        };
        let sink = RecoverableSink {
            file: Some(FileOptions::new(&log)),
            ..RecoverableSink::default()
        };
        let mut sink = starter.adopt(0, &sink, Overflow::Drop).expect("a sink");
        let mut sequence = buffers.last_sequence();
        wait_until("both buffers are written", || {
            sink.take_buffer(false, &mut sequence, &|| true)
        });
        assert_eq!(std::fs::read(&log).expect("the log"), b"earlier\nearlier\n");

        let mut sinks = [sink];
        let notices = InternalNotices::new(&sinks);
        let [sink] = &mut sinks;
        assert!(notices.notice(sink, 0, Level::Info, "later"));
        let now = Instant::now();
        sink.note(1);
        buffers.publish(1);
        sink.committed(now);
        assert!(!sink.wants_flush(now));
        assert!(sink.wants_flush(now + Duration::from_secs(1)));
    }
}
