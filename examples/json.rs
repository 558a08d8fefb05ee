//! JSON lines, one object a record, with typed fields.
//!
//! Run it with `cargo run --example json -- [FILE]`; without a file it logs to a new temporary one.

use logdrive::{File, Layout};
use std::path::PathBuf;

#[derive(Debug)]
#[expect(dead_code, reason = "only its `Debug` is looked at")]
struct Address {
    city: &'static str,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => std::env::temp_dir().join(format!("logdrive-example-{}.json", std::process::id())),
    };
    let guard = logdrive::builder("shop")
        .file(File::new(&path).layout(Layout::json()))
        .init()?;

    let (customer, note) = ("Zoë \"Z\" Ångström", None::<&str>);
    // A name alone is a field, and so is `name = value`. An absent value is `null`.
    logdrive::info!(
        customer,
        items = 3,
        total = 59.9,
        note,
        paid = true,
        "order filled"
    );
    // `?` takes a value's `Debug`, `%` its `Display`. Any text may be a key.
    let address = Address { city: "Umeå" };
    logdrive::info!(?address, "ship.to" = %"home", "shipped");
    // The values of the message are fields as well.
    logdrive::warn!("order {order} is {days} days late", order = 7, days = 2);

    drop(guard);
    print!("{}", std::fs::read_to_string(&path)?);
    println!("the log: {}", path.display());
    Ok(())
}
