//! A client's connection, made again when it was lost.

use crate::backoff::Backoff;
use logdrive_ship::connection::Connection;
use logdrive_ship::hello::{HELLO_ACKS, Hello};
use logdrive_ship::limits::IDLE_LOOK_MS;
use logdrive_ship::{Address, Options, TransportError, coarse_now};
use std::io;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Reconnect {
    address: Address,
    options: Box<Options>,
    backoff: Backoff,
    is_lost: bool,
    /// Of a pool, which makes another client in the place of one that is lost.
    is_single: bool,
    /// Time of the last look at the connection, or of its last use, on the coarse clock.
    looked_at: Duration,
}

/// Returns whether nothing can come over a connection any more after this error.
pub(crate) fn loses_connection(error: &TransportError) -> bool {
    matches!(
        error,
        TransportError::Lost { .. } | TransportError::Refused { .. } | TransportError::Frame { .. }
    )
}

impl Reconnect {
    pub(super) fn connect(
        address: &Address,
        options: &Options,
    ) -> Result<(Self, Connection, Hello), TransportError> {
        if let Address::Udp(_) = address {
            return Err(TransportError::OneWay {
                address: address.to_string(),
            });
        }
        let (connection, hello) = Connection::connect(address, options, HELLO_ACKS)?;
        let reconnect = Self {
            address: address.clone(),
            options: Box::new(options.clone()),
            backoff: Backoff::default(),
            is_lost: false,
            is_single: false,
            looked_at: coarse_now(),
        };
        Ok((reconnect, connection, hello))
    }

    pub(super) fn set_single(&mut self) {
        self.is_single = true;
    }

    pub(super) fn set_lost(&mut self) {
        self.is_lost = true;
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Looks at a connection on which nothing is under way: after a while without use the other end may have closed it.
    pub(super) fn look(&mut self, connection: &mut Connection) {
        let now = coarse_now();
        let is_due = now.saturating_sub(self.looked_at) >= Duration::from_millis(IDLE_LOOK_MS);
        if is_due {
            // Why it has ended is of no interest: nothing was under way.
            self.is_lost |= connection.look().is_err();
        }
        self.looked_at = now;
    }

    /// Connects again until `end`: once, or as often as it takes and pauses allow. Gives the last error when it does not
    /// succeed until then, or no attempt can.
    pub(super) fn connect_again(
        &mut self,
        end: Instant,
        is_once: bool,
    ) -> Result<(Connection, Hello), TransportError> {
        if self.is_single {
            return Err(TransportError::lost(&self.address)(
                io::ErrorKind::BrokenPipe.into(),
            ));
        }
        loop {
            let now = Instant::now();
            let pause = self.backoff.left(now);
            let left = end.saturating_duration_since(now);
            if pause >= left {
                return Err(self.timeout());
            }
            std::thread::sleep(pause);
            let left = left - pause;
            let mut options = Options::clone(&self.options);
            let timeouts = &mut options.timeouts;
            timeouts.connect = timeouts.connect.min(left);
            timeouts.handshake = timeouts.handshake.min(left);
            match Connection::connect(&self.address, &options, HELLO_ACKS) {
                Ok(connected) => {
                    self.backoff.succeeded();
                    self.is_lost = false;
                    self.looked_at = coarse_now();
                    return Ok(connected);
                }
                Err(error) => {
                    self.backoff.failed(Instant::now());
                    let is_over = Instant::now() + self.backoff.left(Instant::now()) >= end;
                    if is_once || is_over || !error.is_passing() {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn timeout(&self) -> TransportError {
        TransportError::timeout(
            &self.address,
            "accept a connection",
            self.options.timeouts.connect,
        )
    }
}
