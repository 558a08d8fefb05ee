//! `ps`, `stats` and `recover` on sessions of real programs that were killed.

mod support;

use std::fs;
use std::path::Path;
use support::{VICTIM_DIR, Victim, run, stdout, text, wait_to_be_killed};

/// Records that a victim logs.
const RECORDS: usize = 2_000;

/// Does nothing, unless it was started by [`Victim::start`]: then this is a program that logs and waits to be killed.
/// Its sink writes so late that all its records are in shared memory when it dies.
#[test]
fn victim() {
    let Some(dir) = std::env::var_os(VICTIM_DIR) else {
        assert_eq!(RECORDS % 2, 0);
        return;
    };
    let app = std::env::var("LOGDRIVE_CLI_TEST_APP").expect("the app's name is given");
    let builder = logdrive::builder(&app)
        .run_dir(Path::new(&dir).join("run"))
        .flush_every(std::time::Duration::from_secs(3_600))
        .full(logdrive::Full::Block);
    let builder = match app.as_str() {
        "console" => builder.console(logdrive::Console::stderr()),
        _ => builder.file(logdrive::File::new(Path::new(&dir).join(format!("logs/{app}.log")))),
    };
    let _guard = builder.init().expect("logging starts");
    for id in 0..RECORDS {
        logdrive::info!(id, "order filled");
        logdrive::trace!("switched off");
    }
    wait_to_be_killed();
}
