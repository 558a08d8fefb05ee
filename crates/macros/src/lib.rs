//! The procedural macro behind Logdrive's logging macros.
//!
//! `logdrive` wraps [`record!`] in `info!`, `event!`, `every_n!` and so on; other crates do not call it. It
//! reads the call (`input`), takes the format string apart (`format`), decides what is captured
//! (`plan`) and writes the code (`emit`). It uses nothing but `proc_macro`, since every dependency here
//! would be built before the user's first crate.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

mod emit;
mod format;
mod input;
mod literal;
mod plan;
mod split;

/// Expands one log call; its input is `$crate MODE ;` and the caller's tokens.
#[doc(hidden)]
#[proc_macro]
pub fn record(input: TokenStream) -> TokenStream {
    let expanded = input::read(input).and_then(|mut call| {
        let is_counted = matches!(
            call.limiter,
            input::Limiter::EveryN(_) | input::Limiter::EveryMs(_)
        );
        let plan = plan::plan(&mut call, is_counted)?;
        Ok(emit::emit(&call, &plan))
    });
    expanded.unwrap_or_else(|mistake| emit::mistake(&mistake))
}
