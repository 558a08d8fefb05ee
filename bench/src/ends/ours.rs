//! Logdrive's own transports, through their public interface.

use super::plan::{Plan, Source, Walk, done as report_done, ready, stamp, template, wait_for_end};
use logdrive_messaging::{Client, Sender};
use logdrive_ship::frame::{FrameError, Messages};
use logdrive_ship::hello::Reason;
use logdrive_ship::session::{InPlace, Peer, ReplyBuffer, Reserved, Service};
use logdrive_ship::{
    Address, Options, Threads, TlsFiles, TransportError, make_certificates, serve as listen,
};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Paths of the certificates.
const KEYS: &str = "keys";

fn failed(error: TransportError) -> io::Error {
    io::Error::other(error)
}

/// Makes certificates for both ends.
pub fn make_keys(plan: &Plan) -> io::Result<()> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    make_certificates(&plan.directory.join(KEYS), &names).map_err(failed)?;
    Ok(())
}

fn options(plan: &Plan, member: &str) -> Options {
    let keys = plan.directory.join(KEYS);
    let mut options = Options {
        spin: Duration::from_micros(plan.spin_us),
        linger: Duration::from_micros(plan.linger_us),
        batch_bytes: plan.batch_bytes,
        // The sender always lets the kernel cut (GSO); the parameter is about the receiver (GRO).
        offload: plan.offload || member == "client",
        ..Options::default()
    };
    if plan.subject == "logdrive-udp" && plan.batch_bytes < 65_000 {
        options.datagram_bytes = plan.batch_bytes;
    }
    if keys.is_dir() {
        options.tls = TlsFiles {
            authorities: Some(keys.join("authority.pem")),
            certificate: Some(keys.join(format!("{member}.pem"))),
            key: Some(keys.join(format!("{member}.key"))),
            ..TlsFiles::default()
        };
    }
    options
}

fn address(plan: &Plan) -> String {
    let scheme = plan.subject.strip_prefix("logdrive-").unwrap_or_default();
    match scheme {
        "shm" | "unix" => format!("{scheme}://{}", plan.directory.join("ours.sock").display()),
        other => format!("{other}://127.0.0.1:0"),
    }
}

/// Walks every message; says when all have come.
struct Counter {
    tally: Mutex<Tally>,
    messages: u64,
    reply: Vec<u8>,
    echoes: bool,
    is_lossy: bool,
    in_place: Option<Steps>,
    done: SyncSender<()>,
}

/// The walk over messages where they lie. Relaxed throughout, and no lock: one thread feeds a connection, and the
/// channel orders the end.
#[derive(Default)]
struct Steps {
    next: AtomicU64,
    came: AtomicU64,
    is_wrong: AtomicBool,
}

/// Messages that have arrived.
struct Tally {
    streams: Vec<Walk>,
    came: u64,
    lost: u64,
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, Tally> {
        // Numbers that are whole at any time.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, mut tally: MutexGuard<'_, Tally>, came: u64, lost: u64) {
        tally.came += came;
        tally.lost += lost;
        if tally.came + tally.lost >= self.messages {
            // Sent once; a second send finds it full.
            let _ = self.done.try_send(());
        }
    }
}

impl Service for Counter {
    fn batch(&self, _: &Peer, stream: u16, mut messages: Messages<'_>) -> Result<(), FrameError> {
        let mut tally = self.lock();
        let Some(walk) = tally.streams.get_mut(usize::from(stream)) else {
            return Ok(());
        };
        let mut came = 0;
        while let Some(message) = messages.next_message()? {
            walk.take(message);
            came += 1;
        }
        self.count(tally, came, 0);
        Ok(())
    }

    fn gap(&self, _: &Peer, lost: u64) {
        self.count(self.lock(), 0, lost);
    }

    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        reply.extend_from_slice(if self.echoes { body } else { &self.reply });
        Ok(())
    }

    fn reads_in_place(&self) -> bool {
        self.in_place.is_some()
    }

    fn message_in_place(&self, _: &Peer, stream: u16, message: InPlace<'_>) {
        let Some(steps) = self.in_place.as_ref().filter(|_| stream == 0) else {
            return;
        };
        let number = message.array(0).map_or(u64::MAX, u64::from_le_bytes);
        let last = message.byte(message.len().wrapping_sub(1));
        let is_next = number == steps.next.load(Ordering::Relaxed);
        if !is_next || message.len() != self.reply.len() || last.as_ref() != self.reply.last() {
            steps.is_wrong.store(true, Ordering::Relaxed);
        }
        steps.next.store(number.wrapping_add(1), Ordering::Relaxed);
        let came = steps.came.load(Ordering::Relaxed) + 1;
        steps.came.store(came, Ordering::Relaxed);
        if came >= self.messages {
            // As above.
            let _ = self.done.try_send(());
        }
    }

    fn request_in_place(
        &self,
        _: &Peer,
        _: u16,
        body: InPlace<'_>,
        reply: &mut Reserved<'_>,
    ) -> Result<(), String> {
        match self.echoes {
            true => reply.extend_in_place(body),
            false => reply.extend_from_slice(&self.reply),
        }
        Ok(())
    }

    fn disconnected(&self, _: &Peer, _: Reason) {
        // Over datagrams the last ones may have been lost; they are not waited for then.
        if self.is_lossy && self.messages > 0 && self.lock().came > 0 {
            let _ = self.done.try_send(());
        }
    }
}

/// The receiving end.
pub fn serve(plan: &Plan) -> io::Result<()> {
    let (done, told) = sync_channel(1);
    let counter = Arc::new(Counter {
        tally: Mutex::new(Tally {
            streams: vec![Walk::new(plan); plan.streams.max(1) as usize],
            came: 0,
            lost: 0,
        }),
        in_place: plan.in_place.then(Steps::default),
        messages: plan.messages,
        reply: template(plan.reply_bytes),
        echoes: plan.reply_bytes == plan.message_bytes,
        is_lossy: plan.subject == "logdrive-udp",
        done,
    });
    let at: Address = address(plan).parse().map_err(failed)?;
    let options = options(plan, "server");
    let server = listen(&[at], &options, Threads::default(), counter.clone()).map_err(failed)?;
    let bound = server.addresses().first().map(Address::to_string);
    ready(&bound.unwrap_or_default());
    if plan.messages > 0 {
        told.recv().map_err(io::Error::other)?;
        let tally = counter.lock();
        let in_place = counter.in_place.as_ref();
        let came = tally.came + in_place.map_or(0, |steps| steps.came.load(Ordering::Relaxed));
        let late_us = tally.streams.first().map_or([0.0; 2], Walk::late_us);
        drop(tally);
        report_done(plan.messages - came.min(plan.messages), late_us);
    }
    wait_for_end();
    server.stop();
    let tally = counter.lock();
    let in_place = counter.in_place.as_ref();
    let is_wrong = in_place.is_some_and(|steps| steps.is_wrong.load(Ordering::Relaxed));
    match is_wrong || tally.streams.iter().any(Walk::is_wrong) {
        true => Err(io::Error::other("a message was not as it was sent")),
        false => Ok(()),
    }
}

/// Sends all messages, through one lock for many.
pub fn send(plan: &Plan, address: &str) -> io::Result<()> {
    const LOCKED: u64 = 1_000;
    let address: Address = address.parse().map_err(failed)?;
    let sender = Sender::connect(&address, &options(plan, "client")).map_err(failed)?;
    let mut message = template(plan.message_bytes);
    let streams = plan.streams.max(1);
    let mut source = Source::new(plan);
    let mut number = 0;
    while number < plan.messages {
        if streams == 1 {
            let mut batch = sender.batch();
            let locked = if plan.pace_us > 0 { 1 } else { LOCKED };
            let end = (number + locked).min(plan.messages);
            while number < end {
                batch.push(source.next_message()).map_err(failed)?;
                number += 1;
            }
        } else {
            stamp(&mut message, number / streams);
            let stream = (number % streams) as u16;
            let batch = sender.batch_on(stream);
            batch.and_then(|mut batch| batch.push(&message)).map_err(failed)?;
            number += 1;
        }
    }
    sender.flush().map_err(failed)
}

/// Keeps so many requests under way until all are answered.
pub fn echo(plan: &Plan, address: &str) -> io::Result<()> {
    let address: Address = address.parse().map_err(failed)?;
    let mut client = Client::connect(&address, &options(plan, "client")).map_err(failed)?;
    let mut message = template(plan.message_bytes);
    if plan.concurrency <= 1 {
        for number in 0..plan.requests {
            stamp(&mut message, number);
            let length = match plan.in_place {
                true => client.call_in_place(&message, |reply| reply.len()),
                false => client.call(&message).map(<[u8]>::len),
            };
            if length.map_err(failed)? != plan.reply_bytes {
                return Err(io::Error::other("a reply has another length"));
            }
        }
        return Ok(());
    }
    let (mut asked, mut answered) = (0, 0);
    while answered < plan.requests {
        while asked < plan.requests && asked - answered < plan.concurrency {
            stamp(&mut message, asked);
            client.submit(&message).map_err(failed)?;
            asked += 1;
        }
        let reply = client.complete().map_err(failed)?;
        if reply.result.map(<[u8]>::len) != Ok(plan.reply_bytes) {
            return Err(io::Error::other("a reply has another length"));
        }
        answered += 1;
    }
    Ok(())
}
