//! Batches a second of a collector that acknowledges what is on disk, with many senders and a slow disk:
//! `cargo run --release -p logdrive-collector --example sync_speed`. Arguments: senders (16), milliseconds of a sync (5),
//! seconds (5).

use logdrive_collector::{Store, StoreFormat};
use logdrive_drain::file::{Fault, Faulty, FileOptions, Operation};
use logdrive_ship::forward::{ForwardOptions, Forwarder};
use logdrive_ship::{Address, Options, Threads, serve};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Lines of a batch.
const LINES: u32 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut number = |default| numbers.next().unwrap_or(Ok(default));
    let (senders, sync_ms, seconds) = (number(16)?, number(5)?, number(5)?);
    let directory = std::env::temp_dir().join(format!("sync-speed-{}", std::process::id()));
    let disk = Arc::new(Faulty::new());
    let options = FileOptions::new(directory.join("collected.log"));
    let store = Arc::new(Store::open_on(&options, StoreFormat::Text, true, disk.clone())?);
    disk.fail(Operation::Sync, 0, u64::MAX, Fault::Slow(sync_ms));
    let socket = Address::Unix(directory.join("c.sock"));
    let server = serve(&[socket], &Options::default(), Threads::default(), store.clone())?;
    let ends = AtomicBool::new(false);
    let syncs = disk.calls(Operation::Sync);
    let began = Instant::now();
    let acknowledged: u64 = std::thread::scope(|scope| {
        let run = |session: u64| {
            let forward = ForwardOptions::new(u128::from(session) + 1, 1);
            let sender = Forwarder::start(server.addresses(), &Options::default(), &forward).ok()?;
            let line = "2026-11-25T10:11:12.123456Z INFO a line of a usual length with some=fields\n";
            let batch = line.repeat(LINES as usize).into_bytes();
            while !ends.load(Ordering::Relaxed) {
                // A queue that is full makes it wait.
                let _ = sender.push(LINES, batch.clone(), Duration::from_millis(100));
            }
            Some(sender.state().acknowledged)
        };
        let threads: Vec<_> = (0..senders)
            .map(|session| scope.spawn(move || run(session)))
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        ends.store(true, Ordering::Relaxed);
        threads.into_iter().filter_map(|thread| thread.join().ok()?).sum()
    });
    let elapsed_s = began.elapsed().as_secs_f64();
    let batches = acknowledged as f64 / f64::from(LINES) / elapsed_s;
    let syncs = (disk.calls(Operation::Sync) - syncs) as f64 / elapsed_s;
    println!("{senders} senders, {sync_ms} ms a sync: {batches:.0} batches/s, {syncs:.0} syncs/s");
    drop(server);
    drop(store);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
