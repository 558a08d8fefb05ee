//! A thread that flushes the log, and does other work, for signal handlers, which must take no locks: a handler writes one byte, and waits for
//! one with `poll`, for as long as it likes.

use std::io::{Read, Write};
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

static ENDS: Mutex<Option<(u32, RawFd)>> = Mutex::new(None);
static WORK: Mutex<Option<extern "C" fn()>> = Mutex::new(None);
/// Byte of a request for the work, and of its answer. Another one has the log flushed, and is answered with 0 or 1.
const WORK_BYTE: u8 = 2;

/// Sets what the thread does for [`WORK_BYTE`].
pub(crate) fn set_work(work: Option<extern "C" fn()>) {
    *WORK.lock().unwrap_or_else(PoisonError::into_inner) = work;
}

/// The descriptor that a handler writes to and reads from; starts the thread the first time in a process.
pub(crate) fn descriptor() -> std::io::Result<RawFd> {
    let _held = logdrive_ring::signals::Held::new();
    let mut ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, descriptor)) = *ends
        && owner == process
    {
        return Ok(descriptor);
    }
    let (ours, theirs) = UnixStream::pair()?;
    std::thread::Builder::new()
        .name("logdrive-rescue".to_owned())
        .spawn(move || serve(ours))?;
    let descriptor = theirs.into_raw_fd();
    *ends = Some((process, descriptor));
    Ok(descriptor)
}

fn serve(mut requests: UnixStream) {
    logdrive_ring::signals::block_in_thread();
    let mut byte = [0];
    while requests.read_exact(&mut byte).is_ok() {
        if byte == [WORK_BYTE] {
            let work = *WORK.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(work) = work {
                work();
            }
        } else {
            byte = [u8::from(logdrive::flush())];
        }
        if requests.write_all(&byte).is_err() {
            return;
        }
    }
}
