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
    println!(
        "{name:36} p50 {:7.1}  p99 {:7.1}",
        means[BURSTS / 2],
        means[BURSTS * 99 / 100]
    );
}

fn facades() {
    let customer = black_box("ACME-0000012");
    measure("four fields", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    measure("message only", |_| tracing::info!("order filled"));
    measure("disabled by the filter", |order| {
        tracing::trace!(order, "order filled")
    });
    measure(
        "one display field",
        |order| tracing::info!(order = %order, "order filled"),
    );
    measure("message with an argument", |order| {
        tracing::info!("order {order} filled")
    });
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

/// Back to back, as many as a ring holds: for `perf`, and for what a call costs when everything is warm.
fn tight(name: &str, mut call: impl FnMut(u64)) {
    const CALLS: u64 = 2000;
    if std::env::args().nth(2).is_some_and(|only| only != name) {
        return;
    }
    let mut means = Vec::with_capacity(BURSTS);
    for _ in 0..std::env::args()
        .nth(3)
        .map_or(300, |rounds| rounds.parse().unwrap_or(300))
    {
        let start = Instant::now();
        (0..CALLS).for_each(|number| call(black_box(number)));
        means.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
        logdrive::flush();
    }
    means.sort_by(f64::total_cmp);
    println!(
        "{name:36} min {:7.1}  p50 {:7.1}",
        means[0],
        means[means.len() / 2]
    );
}

fn all_tight() -> Result<(), Box<dyn std::error::Error>> {
    let customer = black_box("ACME-0000012");
    tracing::subscriber::set_global_default(logdrive::tracing::subscriber())?;
    tight("macro, four fields", |order| {
        logdrive::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    tight("four fields", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    tight("four numbers", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, x = 5, "order filled");
    });
    tight("message only", |_| tracing::info!("order filled"));
    tight("one number, no message", |order| tracing::info!(order));
    tight("no message", |_| tracing::info!(order = tracing::field::Empty));
    tight("disabled", |order| tracing::trace!(order, "order filled"));
    tight(
        "one display field",
        |order| tracing::info!(order = %order, "order filled"),
    );
    tight("message with an argument", |order| {
        tracing::info!("order {order} filled")
    });
    tight("log, four arguments", |order| {
        log::info!(
            "order {} at {:.2}, {} pieces, for {}",
            order,
            9.25f64,
            3i32,
            customer
        );
    });
    tight("log, constant message", |_| log::info!("order filled"));
    tight("log, four key-values", |order| {
        log::info!(order, price = 9.25f64, quantity = 3i32, customer; "order filled");
    });
    tight("span alone", |order| {
        let _entered = tracing::info_span!("packet", order).entered();
    });
    let span = tracing::info_span!("connection", id = 3);
    tight("enter and leave", |_| drop(span.enter()));
    let _entered = span.enter();
    tight("four fields in a span", |order| {
        tracing::info!(order, price = 9.25f64, quantity = 3i32, customer, "order filled");
    });
    tight("span in a span", |order| {
        let _entered = tracing::info_span!("packet", order).entered();
    });
    tight("span in a span, with an event", |order| {
        let _entered = tracing::info_span!("packet", order).entered();
        tracing::info!(len = 1200, "got stream frame");
    });
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = logdrive::builder("cost")
        .use_env(false)
        .filter("debug")
        .full(logdrive::Full::Drop)
        .discard()
        .init()?;
    logdrive::log::install()?;
    if std::env::args().nth(1).as_deref() == Some("tight") {
        all_tight()?;
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
        log::info!(
            "order {} at {:.2}, {} pieces, for {}",
            order,
            9.25f64,
            3i32,
            customer
        );
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
    println!(
        "{:?}",
        guard
            .stop()
            .map(|(stopped, stats)| (stopped, stats.committed, stats.dropped_calls()))
    );
    Ok(())
}
