//! A program that uses `tracing`, as most libraries do: its events and spans go to Logdrive.
//!
//! Run it with `cargo run --features tracing --example tracing -- [FILE]`; without a file it logs to a new temporary
//! one. `LOGDRIVE=info` leaves out the detail.

use std::path::{Path, PathBuf};
use tracing::{Span, debug, field, info, info_span, warn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => std::env::temp_dir().join(format!("logdrive-example-tracing-{}.log", std::process::id())),
    };
    log_to(&path)?;
    print!("{}", std::fs::read_to_string(&path)?);
    println!("the log: {}", path.display());
    Ok(())
}

fn log_to(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let guard = logdrive::builder("shop").file(logdrive::File::new(path)).init()?;
    // Where other layers of `tracing-subscriber` are needed too, `logdrive::tracing::layer()` stands beside them.
    tracing::subscriber::set_global_default(logdrive::tracing::subscriber())?;

    for order_id in 1..=3u64 {
        fill(order_id);
    }

    drop(guard);
    Ok(())
}

fn fill(order_id: u64) {
    // All that is logged inside of a span shows the span's fields.
    let span = info_span!("fill", order_id, state = field::Empty);
    let _entered = span.enter();
    info!(items = 3, "order received");
    // A field that was left empty is filled in when it is known.
    span.record("state", "paid");
    charge(59.9);
    if order_id == 2 {
        warn!(reason = "no stock", "order waits");
    }
}

fn charge(total: f64) {
    let _entered = info_span!("charge", total).entered();
    debug!("calling the bank");
    Span::current().record("total", 60.0);
    debug!("charged");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_does_what_it_says() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("shop.log");
        super::log_to(&path)?;
        let text = std::fs::read_to_string(path)?;
        assert_eq!(text.lines().count(), 10);
        assert!(
            text.contains("fill{order_id=2 state=paid}:charge{total=60.0}: charged"),
            "{text}"
        );
        Ok(())
    }
}
