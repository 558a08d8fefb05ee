//! A program that uses the `log` facade: its records go to Logdrive, with their key-values.
//!
//! Run it with `cargo run --features log --example log -- [FILE]`; without a file it logs to a new temporary one.

use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => std::env::temp_dir().join(format!("logdrive-example-log-{}.log", std::process::id())),
    };
    log_to(&path)?;
    print!("{}", std::fs::read_to_string(&path)?);
    println!("the log: {}", path.display());
    Ok(())
}

fn log_to(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let guard = logdrive::builder("shop")
        .file(logdrive::File::new(path))
        .filter("info,db=trace")
        .init()?;
    logdrive::log::install()?;

    let (order_id, price) = (7, 9.5);
    log::info!("order {order_id} at {price}");
    // Key-values stay what they are: this is a number in JSON.
    log::info!(order_id, price; "order filled");
    // The filter looks at the target, which is the module unless it is given.
    log::trace!(target: "db", "select * from orders");
    log::debug!("this one is off");

    drop(guard);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_does_what_it_says() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("shop.log");
        super::log_to(&path)?;
        let text = std::fs::read_to_string(path)?;
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("order filled order_id=7 price=9.5"), "{text}");
        Ok(())
    }
}
