//! Start of a sink: opens its target, and starts its I/O thread; for the sink of a dead process after what that one had
//! begun to write is finished.

use crate::console::Console;
use crate::error::BackendError;
use crate::file::{FileOptions, LogFile, Placement, Storage, rewrite};
use crate::layout::ProcessInfo;
use crate::limits::BUFFERS_PER_SINK_MIN;
use crate::options::{Overflow, RecoverableSink, SinkOptions, Target};
use crate::ship::Shipping;
use crate::sink::buffer::{SinkBuffer, SinkBufferParts, SinkSettings};
use crate::sink::writer::{DeferredFile, IoRequest, Output, Writer};
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

/// Opens a target.
pub(crate) fn open(
    target: &Target,
    storage: &Arc<dyn Storage>,
    status: &BackendStatus,
) -> Result<Output, BackendError> {
    Ok(match target {
        Target::File(options) if options.open_late => Output::DeferredFile(Box::new(DeferredFile {
            options: options.clone(),
            storage: Arc::clone(storage),
            check: None,
        })),
        Target::File(options) => {
            let mut file = LogFile::open(options, Arc::clone(storage), unix_ns())?;
            while let Some(notice) = file.notice() {
                status.notice(notice);
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

/// Starts a sink's I/O thread.
pub(crate) fn start_sink(
    index: usize,
    options: &SinkOptions,
    output: Output,
    mut spare: Vec<Buffer>,
    buffers: &Arc<Buffers>,
    status: &Arc<BackendStatus>,
    process: &ProcessInfo,
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
        Output::Unsent(ship) => {
            let started = Shipping::start(&ship, &layout, process, index, status);
            started.map(|shipping| Output::Ship(Box::new(shipping)))?
        }
        output => output,
    };
    let sink_buffer = SinkBuffer::new(SinkBufferParts {
        index,
        is_file: matches!(output, Output::File(_) | Output::DeferredFile(_)),
        settings: SinkSettings::new(options, layout, process)?,
        buffers: Arc::clone(buffers),
        spare,
        back,
        out,
    });
    let writer = Writer {
        sink: index,
        output,
        sync: options.sync,
        inbox,
        back: returned,
        buffers: Arc::clone(buffers),
        status: Arc::clone(status),
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

/// Hands buffers that a dead process left unwritten to a sink, in their order, and waits for them.
pub(crate) fn replay(sink_buffer: &SinkBuffer, unwritten: Vec<(Buffer, FileLocation)>) {
    for (mut buffer, _) in unwritten {
        buffer.mark_ready();
        sink_buffer.send(IoRequest::Write { buffer, sync: false });
    }
}

#[allow(
    clippy::too_many_arguments,
    reason = "one for each thing that a sink is made of"
)]
pub(crate) fn adopt_sink(
    index: usize,
    sink: &RecoverableSink,
    buffers: &Arc<Buffers>,
    storage: &Arc<dyn Storage>,
    status: &Arc<BackendStatus>,
    process: &ProcessInfo,
    overflow: Overflow,
    sequence: &mut u64,
) -> Result<SinkBuffer, BackendError> {
    let (unwritten, mut spare) = buffers.adopt(index);
    *sequence = (*sequence).max(buffers.last_sequence());
    let (target, unwritten) = match (&sink.file, &sink.ship) {
        (Some(file), shipped) => {
            // What was about to be sent has no place in a file.
            let placed = unwritten.into_iter();
            let unwritten = placed.map(|(buffer, place)| match shipped {
                Some(_) => (buffer, FileLocation::default()),
                None => (buffer, place),
            });
            let rest = finish_writes(file, unwritten.collect(), &mut spare, storage)?;
            (Target::File(file.clone()), rest)
        }
        (None, Some(ship)) => {
            let rest = ship.finish(unwritten, &mut spare, &sink.layout, process)?;
            (Target::Ship(ship.clone()), rest)
        }
        (None, None) => (Target::Discard, unwritten),
    };
    let output = open(&target, storage, status)?;
    let mut options = SinkOptions::new(target);
    options.layout = sink.layout.clone();
    options.layout.color = false;
    options.min_level = sink.min_level;
    options.overflow = overflow;
    let sink_buffer = start_sink(index, &options, output, spare, buffers, status, process)?;
    replay(&sink_buffer, unwritten);
    Ok(sink_buffer)
}

/// A buffer whose write had begun is written to its place again; that is the same bytes at the same offset. Returns
/// what has to be appended; finished buffers are spare.
fn finish_writes(
    file: &FileOptions,
    unwritten: Vec<(Buffer, FileLocation)>,
    spare: &mut Vec<Buffer>,
    storage: &Arc<dyn Storage>,
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
        // Whatever way it took, all of the buffer is in the log now.
        rewrite(file, Arc::clone(storage), placement, buffer.bytes(), unix_ns())?;
        buffer.mark_written();
        spare.push(buffer);
    }
    Ok(rest)
}
