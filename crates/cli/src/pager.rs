//! The pager of `cat`: what would run over a terminal goes through a program that shows it page by page, as git does it.

use crate::signals::Signals;
use rustix::stdio::dup2_stdout;
use signal_hook::consts::SIGINT;
use std::ffi::OsString;
use std::fs::File;
use std::io::IsTerminal;
use std::process::{Child, Command, Stdio};

/// A pager that takes what is written to standard output.
pub(crate) struct Pager {
    child: Child,
    /// Ctrl-C is for the pager, which would lose its terminal to the shell if this command ended before it.
    _signals: Option<Signals>,
}

impl Pager {
    /// Starts the pager of LOGDRIVE_PAGER or PAGER, or else `less`; none where standard output is no terminal, the variable is
    /// empty or `cat`, or no such program is there.
    pub(crate) fn start() -> Option<Self> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        let named = ["LOGDRIVE_PAGER", "PAGER"].iter().find_map(std::env::var_os);
        let mut command = match named {
            Some(name) if name.is_empty() || name == "cat" => return None,
            Some(name) => {
                let mut command = Command::new("sh");
                command.args([OsString::from("-c"), name]);
                command
            }
            None => Command::new("less"),
        };
        if std::env::var_os("LESS").is_none() {
            // Colours as they are, an end where one screen is enough, and no clearing of the screen.
            command.env("LESS", "-RFX");
        }
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        let signals = Signals::new(&[SIGINT]).ok();
        let pipe = child.stdin.take()?;
        dup2_stdout(&pipe).ok()?;
        Some(Self {
            child,
            _signals: signals,
        })
    }

    /// Tells the pager that nothing follows, and waits until it is left.
    pub(crate) fn finish(mut self) {
        // The pager sees the end when the last descriptor of the pipe is gone.
        if let Ok(null) = File::options().write(true).open("/dev/null") {
            // If it fails, the pager ends with this process.
            let _ = dup2_stdout(&null);
        }
        // A pager that is gone needs no waiting, and its status says nothing about what was printed.
        let _ = self.child.wait();
    }
}
