//! JSON lines, one object a record, with typed fields.
//!
//! Run it with `cargo run --example json -- [FILE]`; without a file it logs to a new temporary one.

use logdrive::{File, Layout};
use std::path::{Path, PathBuf};

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
    log_to(&path)?;
    print!("{}", std::fs::read_to_string(&path)?);
    println!("the log: {}", path.display());
    Ok(())
}

fn log_to(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let guard = logdrive::builder("shop")
        .file(File::new(path).layout(Layout::json()))
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
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_does_what_it_says() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("shop.json");
        super::log_to(&path)?;
        let text = std::fs::read_to_string(path)?;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].contains(r#""items":3,"total":59.9,"note":null,"paid":true}"#),
            "{text}"
        );
        assert!(
            lines[2].contains(r#""message":"order 7 is 2 days late","order":7,"days":2}"#),
            "{text}"
        );
        Ok(())
    }
}
