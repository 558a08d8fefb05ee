//! What calls through `tracing` and `log` cost, in nanoseconds: `cargo run --release --example tracing_cost
//! --features tracing,log`. A look while working on them; the figures of record come from `cargo xtask bench`.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tracing_subscriber::layer::SubscriberExt;

const BURSTS: usize = 2000;
const CALLS: u32 = 20;

fn measure(name: &str, mut call: impl FnMut(u64)) {
    let mut means = Vec::with_capacity(BURSTS);
    for burst in 0..BURSTS {
        let start = Instant::now();
        for number in 0..CALLS {
            call(black_box(burst as u64 + u64::from(number)));
        }
        means.push(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
        let end = Instant::now() + Duration::from_micros(200);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
    means.sort_by(f64::total_cmp);
    println!("{name:36} p50 {:7.1}  p99 {:7.1}", means[BURSTS / 2], means[BURSTS * 99 / 100]);
}

fn facades() {
    let customer = black_box("ACME-0000012");
    measure("four fields", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    measure("message only", |_| tracing::info!("order filled"));
    measure("disabled by the filter", |order| tracing::trace!(order, "order filled"));
    measure("one display field", |order| tracing::info!(order = %order, "order filled"));
    measure("message with an argument", |order| tracing::info!("order {order} filled"));
    let span = tracing::info_span!("connection", id = 3);
    let entered = span.enter();
    measure("four fields in a span", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    measure("span made, entered, left, closed", |order| {
        let _entered = tracing::info_span!("packet", order).entered();
    });
    measure("span with an event in it", |order| {
        let _entered = tracing::info_span!("packet", order).entered();
        tracing::info!(len = 1200, "got stream frame");
    });
    drop(entered);
    let entered = span.enter();
    measure("enter and leave", |_| {
        let _entered = span.enter();
    });
    drop(entered);
}

/// One call over and over, for `perf`.
fn tight(calls: u64) {
    let customer = black_box("ACME-0000012");
    let start = Instant::now();
    for order in 0..calls {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    }
    println!("back to back: {:.1}", start.elapsed().as_nanos() as f64 / calls as f64);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = logdrive::builder("cost").use_env(false).filter("debug").full(logdrive::Full::Drop).discard().init()?;
    logdrive::log::install()?;
    if std::env::args().nth(1).as_deref() == Some("tight") {
        tracing::subscriber::set_global_default(logdrive::tracing::subscriber())?;
        let calls = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
        (0..20).for_each(|_| tight(calls));
        return Ok(());
    }
    let customer = black_box("ACME-0000012");
    measure("clock", |_| {
        black_box(Instant::now());
    });
    measure("macro, four fields", |order| {
        logdrive::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    measure("log, four arguments", |order| {
        log::info!("order {} at {:.2}, {} pieces, for {}", order, 9.25f64, 3i32, customer);
    });
    measure("log, constant message", |_| log::info!("order filled"));
    measure("log, four key-values", |order| {
        log::info!(order, price = 9.25f64, quantity = 3i32, customer; "order filled");
    });
    measure("log, disabled", |order| log::trace!("order {order} filled"));
    if std::env::args().nth(1).as_deref() == Some("layer") {
        let subscriber = tracing_subscriber::registry().with(logdrive::tracing::layer());
        tracing::subscriber::set_global_default(subscriber)?;
    } else {
        tracing::subscriber::set_global_default(logdrive::tracing::subscriber())?;
    }
    facades();
    println!("{:?}", guard.stop().map(|(stopped, stats)| (stopped, stats.committed, stats.dropped_calls())));
    Ok(())
}
