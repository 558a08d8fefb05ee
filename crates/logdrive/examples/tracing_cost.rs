//! Costs of calls through `tracing` and `log`, in nanoseconds: `cargo run --release --example tracing_cost
//! --features tracing,log [burst|tight] [NAME]`. In bursts with pauses, or back to back, as many as a ring holds, which
//! suits `perf`; `layer` measures bursts through the layer. The figures of record come from `cargo xtask bench`.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tracing_subscriber::layer::SubscriberExt;

/// Measurement of one call after the other, as the command line asks for.
struct Measurement {
    is_tight: bool,
    only: Option<String>,
}

impl Measurement {
    fn of(&self, name: &str, mut call: impl FnMut(u64)) {
        if self.only.as_ref().is_some_and(|only| only != name) {
            return;
        }
        let (rounds, calls) = if self.is_tight { (300, 2000) } else { (2000, 20) };
        let mut means = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let start = Instant::now();
            (0..calls).for_each(|number| call(black_box(number)));
            means.push(start.elapsed().as_nanos() as f64 / calls as f64);
            if self.is_tight {
                logdrive::flush();
                continue;
            }
            let end = Instant::now() + Duration::from_micros(200);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        }
        means.sort_by(f64::total_cmp);
        let (min, p50, p99) = (means[0], means[rounds / 2], means[rounds * 99 / 100]);
        println!("{name:36} min {min:7.1}  p50 {p50:7.1}  p99 {p99:7.1}");
    }
}

fn all(measure: &Measurement) {
    let customer = black_box("ACME-0000012");
    measure.of("clock", |_| {
        black_box(Instant::now());
    });
    measure.of("macro, four fields", |order| {
        logdrive::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    measure.of("log, four arguments", |order| {
        log::info!("order {order} at {:.2}, {} pieces, for {customer}", 9.25f64, 3i32);
    });
    measure.of("log, constant message", |_| log::info!("order filled"));
    measure.of("log, four key-values", |order| {
        log::info!(order, price = 9.25f64, quantity = 3i32, customer; "order filled");
    });
    measure.of("log, disabled", |order| log::trace!("order {order} filled"));
    measure.of("four fields", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    measure.of("four numbers", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, x = 5, "order filled");
    });
    measure.of("message only", |_| tracing::info!("order filled"));
    measure.of("one number, no message", |order| tracing::info!(order));
    measure.of("no message", |_| tracing::info!(order = tracing::field::Empty));
    measure.of("disabled", |order| tracing::trace!(order, "order filled"));
    measure.of(
        "one display field",
        |order| tracing::info!(order = %order, "order filled"),
    );
    measure.of("message with an argument", |order| {
        tracing::info!("order {order} filled")
    });
    measure.of("span alone", |order| {
        drop(tracing::info_span!("packet", order).entered())
    });
    let span = tracing::info_span!("connection", id = 3);
    measure.of("enter and leave", |_| drop(span.enter()));
    let _entered = span.enter();
    measure.of("four fields in a span", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    measure.of("span in a span", |order| {
        drop(tracing::info_span!("packet", order).entered())
    });
    measure.of("span in a span, with an event", |order| {
        let _entered = tracing::info_span!("packet", order).entered();
        tracing::info!(len = 1200, "got stream frame");
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let guard = logdrive::builder("cost")
        .use_env(false)
        .filter("debug")
        .full(logdrive::Full::Drop)
        .discard()
        .init()?;
    logdrive::log::install()?;
    if mode == "layer" {
        let subscriber = tracing_subscriber::registry().with(logdrive::tracing::layer());
        tracing::subscriber::set_global_default(subscriber)?;
    } else {
        tracing::subscriber::set_global_default(logdrive::tracing::subscriber())?;
    }
    all(&Measurement {
        is_tight: mode == "tight",
        only: arguments.next(),
    });
    let ended = guard.stop();
    let counts = ended.map(|(stopped, stats)| (stopped, stats.committed, stats.dropped_calls()));
    println!("{counts:?}");
    Ok(())
}
