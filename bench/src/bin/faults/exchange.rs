//! Requests in the place of log calls: the program that sends them, and the server that answers with the same bytes. Each
//! request is answered, which is a line of the log, or it fails, which the log tells.

use crate::account::checksum;
use crate::halt::{Halt, fail};
use crate::notes::{Noted, Notes};
use crate::plan::Plan;
use crate::program::spawn;
use logdrive_messaging::Client;
use logdrive_ship::session::{Peer, ReplyBuffer, Service};
use logdrive_ship::{Address, Options, Threads, serve};
use logdrive_testkit::{end_of_input, report, wait_for_input};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Deadline of a connection and of a request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Time that a handler takes.
const HANDLER: Duration = Duration::from_millis(1);
/// File of what handlers have answered, beside the log.
pub(crate) const HANDLED: &str = "handled";

/// Requests of one thread.
struct Requests {
    address: Address,
    program: u64,
    thread: u64,
    log: File,
    notes: Arc<Notes>,
    noted: Noted,
}

impl Requests {
    /// Sends requests over a connection of their own.
    fn send(&mut self, numbers: std::ops::Range<u64>) {
        let mut options = Options::default();
        options.timeouts.connect = REQUEST_MAX;
        let mut client = None;
        for number in numbers {
            let (program, thread) = (self.program, self.thread);
            let sum = checksum(program, thread, number);
            let body = format!("F p{program} t{thread} n{number} c{sum} end");
            let begin = Instant::now();
            let answered = ask(&mut client, &self.address, &options, &body);
            let took_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.noted.worst_ns = self.noted.worst_ns.max(took_ns);
            self.noted.calls = number + 1;
            let line = match answered {
                Ok(()) => format!("x INFO {body}\n"),
                Err(()) => "x WARN 1 records dropped: the request failed\n".to_owned(),
            };
            // What cannot be noted is missing from the sums.
            let _ = self.log.write_all(line.as_bytes());
            let _ = self.notes.note(thread, self.noted);
        }
    }
}

/// Sends a request. A connection that is lost is made again by the next one.
fn ask(client: &mut Option<Client>, address: &Address, options: &Options, body: &str) -> Result<(), ()> {
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::connect(address, options).map_err(|_| ())?),
    };
    let reply = client.call_within(body.as_bytes(), REQUEST_MAX).map_err(|_| ())?;
    (reply == body.as_bytes()).then_some(()).ok_or(())
}

/// Plays the program to its end.
pub(crate) fn play(plan: &Plan) -> Result<(), Halt> {
    let missing = |what: &str| fail(format!("{what} is missing"));
    let number = |key| plan.number::<u64>(key).unwrap_or(0);
    let address = plan.text("messages").ok_or_else(|| missing("messages=ADDRESS"))?;
    let address: Address = address.parse()?;
    let log = plan.path("log").ok_or_else(|| missing("log=PATH"))?;
    let notes = plan.path("notes").ok_or_else(|| missing("notes=PATH"))?;
    let notes = Arc::new(Notes::open(&notes)?);
    let (threads, records) = (number("threads"), number("records"));
    let barrier = Arc::new(Barrier::new(threads as usize + 1));
    for thread in 0..threads {
        let mut requests = Requests {
            address: address.clone(),
            program: number("program"),
            thread,
            log: OpenOptions::new().append(true).create(true).open(&log)?,
            notes: notes.clone(),
            noted: Noted::default(),
        };
        let barrier = barrier.clone();
        spawn(thread, move || {
            requests.send(0..records / 2);
            barrier.wait();
            barrier.wait();
            requests.send(records / 2..records);
            barrier.wait();
        })?;
    }
    barrier.wait();
    report("half");
    wait_for_input();
    barrier.wait();
    barrier.wait();
    report("done");
    wait_for_input();
    Ok(())
}

/// Service that answers with the bytes of the request.
struct Echo {
    /// Requests of each thread of which the last one panics; 0: none.
    panic_every: u64,
    /// Number of requests after which the server stops, and another one starts in its place; 0: never.
    stop_after: u64,
    handled: Mutex<File>,
    count: AtomicU64,
    stops: Mutex<Sender<()>>,
}

impl Service for Echo {
    fn request(&self, _: &Peer, _: u16, body: &[u8], reply: &mut ReplyBuffer<'_>) -> Result<(), String> {
        std::thread::sleep(HANDLER);
        let text = String::from_utf8_lossy(body);
        let number = text
            .split(' ')
            .find_map(|word| word.strip_prefix('n')?.parse::<u64>().ok());
        let is_last = |number: u64| number % self.panic_every == self.panic_every - 1;
        assert!(self.panic_every == 0 || !number.is_some_and(is_last), "as told");
        let line = format!("x INFO {text}\n");
        let mut handled = self.handled.lock().unwrap_or_else(PoisonError::into_inner);
        handled
            .write_all(line.as_bytes())
            .map_err(|error| error.to_string())?;
        drop(handled);
        reply.extend_from_slice(body);
        // Relaxed: a count that orders nothing.
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.stop_after {
            let stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
            // The server ends, and needs no stop.
            let _ = stops.send(());
        }
        Ok(())
    }
}

/// Serves at an address until the input ends.
pub(crate) fn serve_requests(address: &str, dir: &Path, words: &[String]) -> Result<(), Halt> {
    // Handlers panic as they are told.
    std::panic::set_hook(Box::new(|_| {}));
    let plan = Plan::of(words);
    let address: Address = address.parse()?;
    let handled = dir.join(HANDLED);
    let (stops, stop) = channel();
    let service = Arc::new(Echo {
        panic_every: plan.number("panic_every").unwrap_or(0),
        stop_after: plan.number("stop_after").unwrap_or(0),
        handled: Mutex::new(OpenOptions::new().append(true).create(true).open(handled)?),
        count: AtomicU64::new(0),
        stops: Mutex::new(stops),
    });
    let threads = Threads {
        pool: 4,
        ..Threads::default()
    };
    let start = move || {
        serve(
            std::slice::from_ref(&address),
            &Options::default(),
            threads,
            service.clone(),
        )
    };
    let mut server = start()?;
    report("ready");
    std::thread::spawn(move || {
        while stop.recv().is_ok() {
            server.stop();
            match start() {
                Ok(next) => server = next,
                // Requests fail from here on, which the sums show.
                Err(_) => return,
            }
        }
    });
    // Its end is that of the server.
    let _ = end_of_input().recv();
    Ok(())
}
