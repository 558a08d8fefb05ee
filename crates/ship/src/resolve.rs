//! Addresses of a host by its name, in bounded time. The resolver of the system has limits of its own, which are many seconds,
//! and none that a caller can set: so it works in a thread, which is left behind when it takes too long.

use crate::limits::LOOKUPS_MAX;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Instant;

/// Lookups under way in this process, also those that nobody waits for any more. Relaxed: it only counts.
static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// Looks a host up, until `end` at most.
///
/// # Errors
/// When the name is not known, the resolver takes too long, or too many lookups hang already.
pub(crate) fn resolve(host: &str, port: u16, end: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let name = (host.to_owned(), port);
    within(end, &LOOKUPS, move || Ok(name.to_socket_addrs()?.collect()))
}

/// A lookup that is counted until it is over.
struct Lookup(&'static AtomicUsize);

impl Drop for Lookup {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn within<T: Send + 'static>(
    end: Instant,
    lookups: &'static AtomicUsize,
    look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let under_way = lookups.fetch_add(1, Ordering::Relaxed);
    let lookup = Lookup(lookups);
    if under_way >= LOOKUPS_MAX {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the system's resolver does not answer",
        ));
    }
    let (answer, answered) = sync_channel(1);
    // What a thread may not log, the one that works for it may not either.
    let is_denied = logdrive_ring::local::is_denied();
    std::thread::Builder::new()
        .name("logdrive-resolve".to_owned())
        .spawn(move || {
            if is_denied {
                logdrive_ring::local::deny_thread();
            }
            let found = look_up();
            drop(lookup);
            // Nobody may wait any more.
            let _ = answer.send(found);
        })?;
    match answered.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(found) => found,
        Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
        Err(RecvTimeoutError::Disconnected) => {
            Err(io::Error::other("the thread that looks names up has ended"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn addresses_and_names_are_found() {
        let end = Instant::now() + Duration::from_secs(60);
        let found = |host: &str| resolve(host, 7, end).expect("known");
        assert_eq!(found("127.0.0.1"), ["127.0.0.1:7".parse().expect("an address")]);
        assert_eq!(found("::1"), ["[::1]:7".parse().expect("an address")]);
        assert!(found("localhost").iter().all(|one| one.ip().is_loopback()));
    }

    #[test]
    fn a_resolver_that_hangs_holds_nobody_up_and_gets_few_threads() {
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        let (end_all, ends) = channel::<()>();
        let ends = Arc::new(std::sync::Mutex::new(ends));
        let attempt = || {
            let ends = Arc::clone(&ends);
            within(Instant::now(), &LOOKUPS, move || {
                // Until the sender is gone.
                let _ = ends.lock().map(|ends| ends.recv());
                Ok(())
            })
        };
        for _ in 0..3 * LOOKUPS_MAX {
            let error = attempt().expect_err("it hangs");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(LOOKUPS.load(Ordering::Relaxed) <= LOOKUPS_MAX);
        }
        drop(end_all);
        logdrive_testkit::wait_until("all have ended", || LOOKUPS.load(Ordering::Relaxed) == 0);
        let answer = within(Instant::now() + Duration::from_secs(60), &LOOKUPS, || Ok(7));
        assert_eq!(answer.expect("it answers"), 7);
    }
}
