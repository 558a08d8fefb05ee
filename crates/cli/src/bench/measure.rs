//! One transport, measured: messages one way, then round trips.

use super::args::TransportArgs;
use crate::error::CliError;
use logdrive_messaging::{Client, Sender};
use logdrive_ship::frame::{FrameError, Messages};
use logdrive_ship::session::{Peer, ReplyBuffer, Service};
use logdrive_ship::{Address, Options, TransportError};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Messages that are pushed between two readings of the clock.
const PUSHED: u64 = 1_000;
/// Timeout of a receiver for what is under way.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Silence over UDP after which the rest is taken for lost.
const SILENCE: Duration = Duration::from_millis(500);
/// A request for the number of messages; any other is answered with its own bytes.
const COUNTS: &[u8] = b"logdrive bench: counts";

/// Result of a measurement.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) one_way_per_s: f64,
    pub(crate) lost: u64,
    pub(crate) round_trips_per_s: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) at_once_per_s: Option<f64>,
}

/// Counts messages, and answers requests. Relaxed throughout: numbers that nothing else depends on.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    came: AtomicU64,
    lost: AtomicU64,
}

impl Listener {
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.came.load(Ordering::Relaxed),
            self.lost.load(Ordering::Relaxed),
        )
    }
}

impl Service for Listener {
    fn batch(&self, _: &Peer, _: u16, mut messages: Messages<'_>) -> Result<(), FrameError> {
        let mut count = 0;
        while let Some(message) = messages.next_message()? {
            // Each is checked, so that no transport is measured that does not deliver it.
            count += u64::from(!message.is_empty());
        }
        self.came.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    fn gap(&self, _: &Peer, lost: u64) {
        self.lost.fetch_add(lost, Ordering::Relaxed);
    }

    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        if body == COUNTS {
            let (came, lost) = self.counts();
            reply.extend_from_slice(&came.to_le_bytes());
            reply.extend_from_slice(&lost.to_le_bytes());
        } else {
            reply.extend_from_slice(body);
        }
        Ok(())
    }
}

/// Receiver that knows how many messages it has.
enum Counter<'a> {
    Here(&'a Listener),
    There(Box<Client>),
    Unknown,
}

impl Counter<'_> {
    fn came(&mut self) -> Result<Option<u64>, TransportError> {
        Ok(match self {
            Self::Here(listener) => Some(listener.counts().0),
            Self::There(client) => {
                let reply = client.call(COUNTS)?;
                reply.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
            }
            Self::Unknown => None,
        })
    }
}

/// Measures the transport of an address.
pub(crate) fn over(
    args: &TransportArgs,
    address: &Address,
    options: &Options,
    here: Option<&Listener>,
) -> Result<Figures, CliError> {
    let answers = address.scheme() != "udp";
    let mut counter = match here {
        Some(listener) => Counter::Here(listener),
        None if answers => Counter::There(Box::new(Client::connect(address, options)?)),
        None => Counter::Unknown,
    };
    let mut figures = Figures::default();
    one_way(args, address, options, &mut counter, &mut figures)?;
    if answers {
        let mut client = Client::connect(address, options)?;
        let body = vec![7; args.message as usize];
        one_by_one(args, &mut client, &body, &mut figures)?;
        at_once(args, &mut client, &body, &mut figures)?;
    }
    Ok(figures)
}

fn one_way(
    args: &TransportArgs,
    address: &Address,
    options: &Options,
    counter: &mut Counter<'_>,
    figures: &mut Figures,
) -> Result<(), CliError> {
    let before = counter.came()?.unwrap_or(0);
    let sender = Sender::connect(address, options)?;
    let mut message = vec![7; args.message as usize];
    let start = Instant::now();
    let mut sent = 0_u64;
    while start.elapsed() < args.time {
        let mut batch = sender.batch();
        for _ in 0..PUSHED {
            if let Some(place) = message.first_chunk_mut::<8>() {
                *place = sent.to_le_bytes();
            }
            batch.push(&message)?;
            sent += 1;
        }
    }
    sender.flush()?;
    let (mut came, mut changed) = (0, Instant::now());
    let end = Instant::now() + TIMEOUT;
    let mut elapsed = start.elapsed();
    while let Some(now) = counter.came()? {
        let now = now.saturating_sub(before);
        if now != came {
            (came, changed, elapsed) = (now, Instant::now(), start.elapsed());
        }
        let is_silent = address.scheme() == "udp" && changed.elapsed() > SILENCE;
        if came >= sent || is_silent || Instant::now() > end {
            break;
        }
        std::thread::yield_now();
    }
    if matches!(counter, Counter::Unknown) {
        came = sent;
    }
    figures.lost = sent - came.min(sent);
    figures.one_way_per_s = came as f64 / elapsed.as_secs_f64();
    Ok(())
}

fn one_by_one(
    args: &TransportArgs,
    client: &mut Client,
    body: &[u8],
    figures: &mut Figures,
) -> Result<(), CliError> {
    let start = Instant::now();
    let mut times: Vec<Duration> = Vec::new();
    while start.elapsed() < args.time {
        let asked = Instant::now();
        client.call(body)?;
        times.push(asked.elapsed());
    }
    figures.round_trips_per_s = Some(times.len() as f64 / start.elapsed().as_secs_f64());
    times.sort_unstable();
    let at = |part: usize| Some(times.get(times.len() * part / 100)?.as_nanos() as f64 / 1e3);
    (figures.p50_us, figures.p99_us) = (at(50), at(99));
    Ok(())
}

fn at_once(
    args: &TransportArgs,
    client: &mut Client,
    body: &[u8],
    figures: &mut Figures,
) -> Result<(), CliError> {
    let start = Instant::now();
    let mut answered = 0_u64;
    while start.elapsed() < args.time {
        while client.waiting() < args.concurrency.max(1) {
            client.submit(body)?;
        }
        client.complete()?;
        answered += 1;
    }
    while client.waiting() > 0 {
        client.complete()?;
        answered += 1;
    }
    figures.at_once_per_s = Some(answered as f64 / start.elapsed().as_secs_f64());
    Ok(())
}
