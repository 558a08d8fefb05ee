//! A connection with a thread of its own: for links that nobody can poll, as rings in shared memory.

use super::Shared;
use crate::hello::Reason;
use crate::limits::READ_BYTES;
use crate::link::Link;
use crate::session::Server;
use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often the thread looks whether the server stops.
const LOOK: Duration = Duration::from_millis(100);

/// Serves a connection until it ends.
pub(crate) fn serve(mut link: Box<dyn Link>, mut server: Server, shared: &Shared) {
    let mut is_met = false;
    let end = talk(link.as_mut(), &mut server, shared, &mut is_met);
    let (Ok(reason) | Err(reason)) = end;
    if end.is_err() {
        let mut out = Vec::new();
        server.part(reason, &mut out);
        // Whoever is gone needs no goodbye.
        let _ = link.send(&[IoSlice::new(&out)], LOOK);
    }
    shared.leave(reason, !is_met);
    if is_met {
        shared.service.left(&server.peer, reason);
    }
}

/// `Ok`: nothing is left to be said; `Err`: a goodbye is.
fn talk(
    link: &mut dyn Link,
    server: &mut Server,
    shared: &Shared,
    is_met: &mut bool,
) -> Result<Reason, Reason> {
    let mut input = vec![0; READ_BYTES];
    let (mut start, mut end) = (0, 0);
    let mut out = Vec::new();
    let mut heard = Instant::now();
    loop {
        if shared.stops() {
            return Err(Reason::Ending);
        }
        let space = input.get_mut(end..).unwrap_or(&mut []);
        let length = match link.receive(space, LOOK) {
            Ok(0) => return Ok(Reason::Lost),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let (limit, reason) = match is_met {
                    true => (shared.options.idle_timeout, Reason::Idle),
                    false => (shared.options.handshake_timeout, Reason::Handshake),
                };
                if heard.elapsed() >= limit {
                    return Err(reason);
                }
                continue;
            }
            Err(_) => return Ok(Reason::Lost),
        };
        heard = Instant::now();
        shared.bytes.fetch_add(length as u64, Ordering::Relaxed);
        end += length;
        let bytes = input.get(start..end).unwrap_or(&[]);
        let fed = server.feed(bytes, shared.service.as_ref(), &mut out, None);
        start += fed.used_bytes;
        if !*is_met && server.is_open() {
            *is_met = true;
            shared.met();
        }
        if let Err(reason) = send_all(link, &mut out, shared) {
            return Ok(fed.ends.unwrap_or(reason));
        }
        if let Some(reason) = fed.ends {
            // Its goodbye has been sent.
            return Ok(reason);
        }
        if start == end {
            (start, end) = (0, 0);
        } else if input.len() - end < READ_BYTES / 2 {
            input.copy_within(start..end, 0);
            (start, end) = (0, end - start);
            if input.len() - end < READ_BYTES / 2 {
                // A frame is 1 MiB at most, which the session has checked by then.
                input.resize(input.len() * 2, 0);
            }
        }
    }
}

fn send_all(link: &mut dyn Link, out: &mut Vec<u8>, shared: &Shared) -> Result<(), Reason> {
    let mut sent = 0;
    while let Some(rest) = out.get(sent..).filter(|rest| !rest.is_empty()) {
        match link.send(&[IoSlice::new(rest)], shared.options.idle_timeout) {
            Ok(length) => sent += length,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Reason::Idle),
            Err(_) => return Err(Reason::Lost),
        }
    }
    out.clear();
    Ok(())
}
