//! A thread that flushes the log for signal handlers, which must take no locks: a handler writes one byte, and waits for
//! one with `poll`, for as long as it likes.

use std::io::{Read, Write};
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

static ENDS: Mutex<Option<(u32, RawFd)>> = Mutex::new(None);

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
        byte = [u8::from(logdrive::flush())];
        if requests.write_all(&byte).is_err() {
            return;
        }
    }
}
