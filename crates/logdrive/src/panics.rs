//! The panic hook: a panic is logged before the hook that was there runs.

use std::sync::Once;

/// Installs the hook, once for the program.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            log(info);
            earlier(info);
        }));
    });
}

fn log(info: &std::panic::PanicHookInfo<'_>) {
    if let Some(engine) = crate::runtime::engine() {
        engine.session().header().note_panic();
    }
    let message = info.payload_as_str().unwrap_or("a panic without a message");
    let (file, line) = info
        .location()
        .map_or(("", 0), |place| (place.file(), place.line()));
    crate::error!(target: "panic", panic.file = file, panic.line = line, "panicked: {}", message);
    // The process may end right behind the hook. Bounded: five seconds without progress.
    crate::flush();
}
