//! Start of a sink: opens its target, and starts its I/O thread; for the sink of a dead process after what that one had
//! begun to write is finished.

use crate::console::Console;
use crate::error::BackendError;
use crate::file::{FileOptions, LogFile, Placement, Rewrite, Storage, rewrite};
use crate::layout::{LayoutError, LayoutOptions, ProcessInfo, Style};
use crate::limits::BUFFERS_PER_SINK_MIN;
use crate::recovery_state::RecoveryState;
use crate::segment::{BlockEncoder, readable_rows};
use crate::ship::ShipOptions;
use crate::sink::buffer::{SinkBuffer, SinkSettings};
use crate::sink::options::{Overflow, RecoverableSink, SinkOptions, Target};
use crate::sink::writer::{DeferredFile, DeferredShip, OpenAttempt, OpenCheck, Output, Writer};
use crate::status::BackendStatus;
use logdrive_ring::clock::unix_ns;
use logdrive_ring::{Buffer, Buffers, DamageNotes, FileLocation};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

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
    /// Recovery of earlier processes, which may work on the same files.
    pub(crate) recovery: Arc<RecoveryState>,
    /// Directories with sessions of dead processes that may have begun to write to the same files.
    pub(crate) run_dirs: Arc<[PathBuf]>,
}

impl SinkStarter {
    /// Opens a target.
    pub(crate) fn open(&self, target: &Target) -> Result<Output, BackendError> {
        Ok(match target {
            Target::File(options) if options.open_late || self.is_recovered(options) => {
                self.defer(options, None)
            }
            Target::File(options) => {
                let (storage, run_dirs) = (Arc::clone(&self.storage), Arc::clone(&self.run_dirs));
                let mut file = LogFile::open_among(options, storage, run_dirs, unix_ns())?;
                while let Some(notice) = file.notice() {
                    self.status.notice(notice);
                }
                Output::File(Box::new(file))
            }
            Target::Stdout => Output::Console(Console::stdout()),
            Target::Stderr => Output::Console(Console::stderr()),
            Target::Memory(memory) => Output::Memory(memory.clone()),
            Target::Callback(callback) => Output::Callback(callback.clone()),
            Target::Ship(options) => Output::Unsent(options.clone()),
            Target::Discard => Output::Discard,
        })
    }

    // Without the feature there is no value of these options.
    #[cfg_attr(
        not(all(feature = "ship", target_os = "linux")),
        allow(unreachable_code, unused_variables)
    )]
    fn deferred_ship(&self, options: &ShipOptions, layout: &LayoutOptions) -> DeferredShip {
        DeferredShip {
            options: options.clone(),
            layout: layout.clone(),
            process: self.process.clone(),
            recovery: Arc::clone(&self.recovery),
            attempt: None,
        }
    }

    fn is_recovered(&self, file: &FileOptions) -> bool {
        std::path::absolute(&file.path).is_ok_and(|path| self.recovery.holds(&path))
    }

    /// As [`SinkStarter::open`] at the start of a program: its thread opens the file, because a disk may not answer.
    /// Returns what the first try comes to.
    // Without the feature there is no value of these options.
    #[cfg_attr(
        not(all(feature = "ship", target_os = "linux")),
        allow(unreachable_code, unused_variables)
    )]
    pub(crate) fn open_at_start(
        &self,
        sink: &SinkOptions,
    ) -> Result<(Output, Option<Receiver<OpenAttempt>>), BackendError> {
        match &sink.target {
            Target::File(options) if !options.open_late => {
                let (sender, tried) = channel();
                let late = DeferredFile {
                    attempt: Some(sender),
                    ..self.deferred(options, None)
                };
                Ok((Output::DeferredFile(Box::new(late)), Some(tried)))
            }
            Target::Ship(options) => {
                let (sender, tried) = channel();
                let late = DeferredShip {
                    attempt: Some(sender),
                    ..self.deferred_ship(options, &sink.layout)
                };
                Ok((Output::DeferredShip(Box::new(late)), Some(tried)))
            }
            target => Ok((self.open(target)?, None)),
        }
    }

    /// Returns a file that is opened with its first line, when the check has passed.
    pub(crate) fn defer(&self, options: &FileOptions, check: Option<OpenCheck>) -> Output {
        Output::DeferredFile(Box::new(self.deferred(options, check)))
    }

    fn deferred(&self, options: &FileOptions, check: Option<OpenCheck>) -> DeferredFile {
        DeferredFile {
            options: options.clone(),
            storage: Arc::clone(&self.storage),
            check,
            recovery: Arc::clone(&self.recovery),
            run_dirs: Arc::clone(&self.run_dirs),
            attempt: None,
        }
    }

    /// Starts a sink's I/O thread.
    // Without the feature there is no value of these options.
    #[cfg_attr(
        not(all(feature = "ship", target_os = "linux")),
        allow(unreachable_code, unused_variables)
    )]
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
            Output::Unsent(ship) if ship.spool_path().is_some_and(|path| self.recovery.holds(&path)) => {
                Output::DeferredShip(Box::new(self.deferred_ship(&ship, &layout)))
            }
            Output::Unsent(ship) => Output::Ship(ship.start(&layout, &self.process, index, &self.status)?),
            output => output,
        };
        let is_file = matches!(output, Output::File(_) | Output::DeferredFile(_));
        let is_typed = layout.style == Style::Segments;
        let is_segments = is_typed && is_file;
        let sends = matches!(output, Output::Ship(_) | Output::DeferredShip(_));
        if is_typed && !is_file && !sends && !matches!(output, Output::Discard | Output::Gone) {
            return Err(LayoutError::SegmentsNeedFile.into());
        }
        if is_segments && matches!(&options.target, Target::File(file) if file.header.is_some()) {
            return Err(LayoutError::SegmentsHaveNoHeader.into());
        }
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
            blocks: is_segments.then(Box::default),
            has_left: false,
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
        notes: &mut DamageNotes,
    ) -> Result<SinkBuffer, BackendError> {
        let (mut unwritten, mut spare) = self.buffers.adopt(index)?;
        if sink.layout.style == Style::Segments {
            leave_out_unreadable(&mut unwritten, sink.ship.is_some(), notes);
        }
        if let Some(file) = sink.file.as_ref().filter(|_| !unwritten.is_empty()) {
            // Lines of earlier processes come first; where those stand still, these may come before them.
            let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
            self.recovery.wait_for_file(&path, index, &self.status);
        }
        let has_target = sink.file.is_some() || sink.ship.is_some() || sink.is_console;
        let (target, unwritten) = match (&sink.file, &sink.ship) {
            (Some(file), shipped) => {
                // What was about to be sent has no place in a file.
                let placed = unwritten.into_iter();
                let unwritten = placed.map(|(buffer, place)| match shipped {
                    Some(_) => (buffer, FileLocation::default()),
                    None => (buffer, place),
                });
                let is_segments = sink.layout.style == Style::Segments;
                let rest = self.finish_writes(file, is_segments, unwritten.collect(), &mut spare)?;
                (Target::File(file.clone()), rest)
            }
            (None, Some(ship)) => {
                let rest = ship.finish(unwritten, &mut spare, (&sink.layout, &self.process), &self.status)?;
                (Target::Ship(ship.clone()), rest)
            }
            (None, None) if sink.is_console => (Target::Stdout, unwritten),
            (None, None) => (Target::Discard, unwritten),
        };
        let output = match has_target {
            true => self.open(&target)?,
            // Such as the terminal of a process that is dead: what it did not get is counted as dropped for that.
            false => Output::Gone,
        };
        let mut options = SinkOptions::new(target);
        options.layout = sink.layout.clone();
        options.layout.color = false;
        options.min_level = sink.min_level;
        options.targets = sink.targets.clone();
        options.overflow = overflow;
        let mut sink_buffer = self.start(index, &options, output, spare)?;
        for (buffer, _) in unwritten {
            sink_buffer.hand_over_earlier(buffer);
        }
        Ok(sink_buffer)
    }

    /// A buffer whose write had begun is written to its place again; that is the same bytes at the same offset. Returns
    /// what has to be appended, in its order; finished buffers are spare.
    fn finish_writes(
        &self,
        file: &FileOptions,
        is_segments: bool,
        unwritten: Vec<(Buffer, FileLocation)>,
        spare: &mut Vec<Buffer>,
    ) -> Result<Vec<(Buffer, FileLocation)>, BackendError> {
        let mut rest = Vec::new();
        let mut blocks = is_segments.then(BlockEncoder::default);
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
            let storage = Arc::clone(&self.storage);
            let block = blocks
                .as_mut()
                .and_then(|blocks| blocks.block(buffer.bytes()).ok());
            let bytes = block.unwrap_or(buffer.bytes());
            if let Rewrite::Missing { skip_bytes, .. } = rewrite(file, storage, placement, bytes)? {
                // A block is there as a whole or not.
                let skip_bytes = if is_segments { 0 } else { skip_bytes };
                // Killed while it appends the rest, the next recovery finds how far it came.
                buffer.mark_done(skip_bytes);
                rest.push((buffer, FileLocation::default()));
            } else {
                buffer.mark_written();
                spare.push(buffer);
            }
        }
        Ok(rest)
    }
}

/// Leaves out rows of a dead process's buffers that cannot be read, and notes their number before anything of these buffers
/// goes anywhere. A buffer that a file may have already goes there as it is.
fn leave_out_unreadable(unwritten: &mut [(Buffer, FileLocation)], is_sent: bool, notes: &mut DamageNotes) {
    for (buffer, place) in unwritten {
        let found = readable_rows(buffer.bytes(), buffer.records());
        if found.lost > 0 && (is_sent || place.ino == 0) {
            // With the number of the buffer, so that another recoverer notes the same line.
            notes.note(&format!(
                "{} records in output buffer {} of the dead process are lost: its memory is damaged there",
                found.lost,
                buffer.sequence()
            ));
            buffer.truncate(found.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Disk;
    use crate::internal_notices::{InternalNotices, Notice};
    use crate::sink::buffer::Staged;
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
            sinks_at_start: 0,
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
            recovery: Arc::new(RecoveryState::none()),
            run_dirs: Arc::default(),
        };
        let sink = RecoverableSink {
            file: Some(FileOptions::new(&log)),
            ..RecoverableSink::default()
        };
        let mut notes = DamageNotes::open(dir.path());
        let adopted = starter.adopt(0, &sink, Overflow::Drop, &mut notes);
        let mut sink = adopted.expect("a sink");
        let mut sequence = buffers.last_sequence();
        wait_until("both buffers are written", || {
            sink.take_buffer(false, &mut sequence, &|| true)
        });
        assert_eq!(std::fs::read(&log).expect("the log"), b"earlier\nearlier\n");

        let mut sinks = [sink];
        let notices = InternalNotices::new(&sinks);
        let [sink] = &mut sinks;
        let staged = notices.stage(sink, 0, &Notice::new(Some(Level::Info), "later"));
        assert!(matches!(staged, Staged::Line(_)), "{staged:?}");
        sink.accept(staged, Level::Info, false, 0);
        let now = Instant::now();
        sink.note(1);
        buffers.publish(1);
        sink.committed(now);
        assert!(!sink.wants_flush(now));
        assert!(sink.wants_flush(now + Duration::from_secs(1)));
    }
}
