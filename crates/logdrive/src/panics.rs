//! The panic hook: a panic is logged, with the calls that led to it, before the hook that was there runs.

use logdrive_ring::local::{self, Section};
use std::backtrace::Backtrace;
use std::sync::Once;

/// Calls that are named: the innermost ones tell most.
const CALLS_MAX: usize = 32;

/// Installs the hook, once for the program.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    // A thread that panics must not change the hook; the next start does it.
    if std::thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            log(info);
            earlier(info);
        }));
    });
}

fn log(info: &std::panic::PanicHookInfo<'_>) {
    // A thread of the logger cannot wait for itself, and one within the logger holds its locks.
    if local::is_denied() || Section::is_open() {
        return;
    }
    let Some(engine) = crate::runtime::engine() else {
        return;
    };
    engine.session().header().end().note_panic();
    let message = info.payload_as_str().unwrap_or("a panic without a message");
    let (file, line) = info
        .location()
        .map_or(("", 0), |place| (place.file(), place.line()));
    match calls() {
        Some(calls) => crate::error!(
            target: "panic",
            panic.file = file,
            panic.line = line,
            panic.calls = calls.as_str(),
            "panicked: {}",
            message
        ),
        None => {
            crate::error!(target: "panic", panic.file = file, panic.line = line, "panicked: {}", message);
        }
    }
    // The process may end right behind the hook. Bounded: five seconds without progress.
    engine.flush(false);
}

/// The calls that led to the panic, the innermost first. `None` where `RUST_BACKTRACE` says 0, or nothing is known.
fn calls() -> Option<String> {
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value == "0") {
        return None;
    }
    let calls = short(&Backtrace::force_capture().to_string());
    (!calls.is_empty()).then_some(calls)
}

/// The program's own calls of a backtrace in one line: `shop::buy (src/buy.rs:7) < shop::main (src/main.rs:3)`.
fn short(backtrace: &str) -> String {
    let mut calls: Vec<String> = Vec::new();
    for line in backtrace.lines() {
        let line = line.trim_start();
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(last) = calls.last_mut() {
                // Without the column.
                let place = place.rsplit_once(':').map_or(place, |(place, _)| place);
                last.push_str(&format!(" ({place})"));
            }
            continue;
        }
        let Some((number, name)) = line.split_once(": ") else {
            continue;
        };
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        // Calls before these are the panic's own, and calls behind them the runtime's.
        if [
            "core::panicking::",
            "std::panicking::",
            "rust_begin_unwind",
            "__rustc",
        ]
        .iter()
        .any(|own| name.starts_with(own))
        {
            calls.clear();
            continue;
        }
        if name.contains("__rust_begin_short_backtrace") {
            break;
        }
        calls.push(name.to_owned());
    }
    // A program without its symbols has only those of system libraries.
    if calls.first().is_some_and(|call| call.starts_with("<unknown>")) {
        return String::new();
    }
    calls.truncate(CALLS_MAX);
    calls.join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_panic_are_those_of_the_program() {
        let backtrace = "   0: std::backtrace::Backtrace::force_capture\n   1: logdrive::panics::log\n   \
                         2: rust_begin_unwind\n             at /rustc/std/src/panicking.rs:697:5\n   \
                         3: core::panicking::panic_fmt\n   4: shop::buy\n             at ./src/buy.rs:7:9\n   \
                         5: shop::main\n   6: std::sys::backtrace::__rust_begin_short_backtrace\n   7: main\n";
        assert_eq!(short(backtrace), "shop::buy (./src/buy.rs:7) < shop::main");
        assert_eq!(short("disabled backtrace"), "");
        assert_eq!(short("   0: <unknown>\n   1: clone3\n"), "");
    }
}
