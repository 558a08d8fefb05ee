//! Two log files: text for people, which rotates and is removed by itself, and JSON lines for programs.
//!
//! Run it with `cargo run --example file -- [DIRECTORY]`; without a directory it logs to a new temporary one.

use logdrive::{File, Full, Layout, Level};
use std::path::PathBuf;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = match std::env::args_os().nth(1) {
        Some(directory) => PathBuf::from(directory),
        None => std::env::temp_dir().join(format!("logdrive-example-file-{}", std::process::id())),
    };
    log_to(directory)
}

fn log_to(directory: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
    let text = directory.join("shop.log");
    let json = directory.join("shop.json");

    let people = File::new(&text)
        // A new file at about 1 MiB or at midnight, whichever comes first. `shop.log` is always the active one.
        .rotate_bytes(1 << 20)
        .rotate_daily()
        // Old files go when there are more than five, or when they are older than two weeks.
        .keep_files(5)
        .keep_age(Duration::from_secs(14 * 86_400));
    // The programs that read this one are not interested in detail.
    let programs = File::new(&json).layout(Layout::json()).min_level(Level::Info);

    // Both get every record. The guard writes what is left when it is dropped, so it is kept until the end of `main`.
    let guard = logdrive::builder("shop")
        .file(people)
        .file(programs)
        .filter("debug")
        // This program logs as fast as it can, and would rather wait for the disk than lose a record.
        .full(Full::Block)
        .init()?;

    for order_id in 0..20_000u64 {
        // Values are kept as what they are: numbers stay numbers in JSON.
        logdrive::info!(order_id, price = order_id as f64 * 1.25, "order filled");
        // The values of a format string are formatted later, in another thread.
        logdrive::debug!("order {order_id} took {:.1} ms", 2.5);
    }
    logdrive::warn!("the shop closes");

    // Dropping the guard does the same; this tells how it went.
    if let Some((stopped, stats)) = guard.stop() {
        println!("{} records, {stopped:?}", stats.committed);
    }
    println!("text: {}", text.display());
    println!("JSON: {}", json.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_does_what_it_says() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        super::log_to(dir.path().to_owned())?;
        let text = std::fs::read_to_string(dir.path().join("shop.log"))?;
        assert!(text.trim_end().ends_with("the shop closes"), "{text}");
        let names: Vec<_> = std::fs::read_dir(dir.path())?
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        let rotated = names
            .iter()
            .filter(|name| name.to_string_lossy().contains("Z."))
            .count();
        assert!((1..=5).contains(&rotated), "{names:?}");
        let json = std::fs::read_to_string(dir.path().join("shop.json"))?;
        assert_eq!(json.lines().count(), 20_001);
        Ok(())
    }
}
