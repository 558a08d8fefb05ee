//! `logdrive drain`: the sidecar of a program that writes a session and has no drain of its own. Such programs start it;
//! people have no use for it, so that the help does not show it.
//!
//! The program says `flush NUMBER DURABLE` and `bye` on standard input, and hears `ready`, `error TEXT`,
//! `flushed NUMBER REACHED` and `done COMPLETE` on standard output, or on standard error where the log goes to the former. When its input ends without a `bye`, the program is dead.

use crate::error::CliError;
use clap::Args;
use logdrive_drain::{Overflow, Sidecar, SidecarOptions, Stopped};
use logdrive_ring::User;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of the longest line that a program may say.
const LINE_BYTES_MAX: u64 = 256;

/// Time that a program whose pipe has ended has to end itself, before it is taken for one that lives.
const END_MS: u64 = 2_000;

/// Drain the session of a program that has no drain of its own
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The session's directory
    #[arg(value_name = "SESSION")]
    session: PathBuf,
    /// Renew the coarse clock
    #[arg(long)]
    coarse: bool,
    /// Hold records back when the log is too slow, in place of dropping them
    #[arg(long)]
    hold: bool,
    /// Write the lines of this sink, which has no file, to standard output, and answers to standard error
    #[arg(long, value_name = "NUMBER")]
    console: Option<usize>,
    /// User and group that the program becomes: this process becomes them now
    #[arg(long, value_name = "UID:GID", value_parser = parse_user)]
    run_as: Option<User>,
}

fn parse_user(text: &str) -> Result<User, String> {
    let numbers = text.split_once(':').map(|(uid, gid)| (uid.parse(), gid.parse()));
    match numbers {
        Some((Ok(uid), Ok(gid))) => Ok(User { uid, gid }),
        _ => Err("expected the numbers of a user and a group, such as 65534:65534".to_owned()),
    }
}

/// Makes for a user what only root can make, and becomes that user.
fn become_user(session: &Path, user: User) -> nix::Result<()> {
    logdrive_drain::prepare_for_user(session, user);
    let gid = nix::unistd::Gid::from_raw(user.gid);
    nix::unistd::setgroups(&[gid])?;
    nix::unistd::setgid(gid)?;
    nix::unistd::setuid(nix::unistd::Uid::from_raw(user.uid))
}

/// Runs the command; whether everything is in the log.
pub(crate) fn run(args: &DrainArgs) -> Result<bool, CliError> {
    let say = |line: &str| match args.console.is_some() {
        true => put_line(&mut std::io::stderr().lock(), line),
        false => put_line(&mut std::io::stdout().lock(), line),
    };
    let options = SidecarOptions {
        console: args.console,
        coarse_clock: args.coarse,
        overflow: if args.hold { Overflow::Hold } else { Overflow::Drop },
    };
    if let Some(user) = args.run_as.filter(|user| user.is_other())
        && let Err(cause) = become_user(&args.session, user)
    {
        say(&format!("error cannot become user {}: {cause}", user.uid));
        return Ok(false);
    }
    let sidecar = match Sidecar::start(&args.session, &options) {
        Ok(sidecar) => sidecar,
        Err(error) => {
            say(&format!("error {}", error.to_string().replace('\n', " ")));
            return Ok(false);
        }
    };
    say("ready");
    let in_order = listen(&sidecar, &say);
    if !in_order && !has_ended(&sidecar) {
        // It has closed its pipe and goes on: another sidecar may take the session from here.
        return Ok(sidecar.finish(true) == Stopped::Complete);
    }
    let complete = sidecar.finish(in_order) == Stopped::Complete;
    say(&format!("done {}", u8::from(complete)));
    Ok(complete)
}

/// Answers the program until it says goodbye, or ends.
fn listen(sidecar: &Sidecar, say: &impl Fn(&str)) -> bool {
    let mut input = BufReader::new(std::io::stdin());
    let mut line = String::new();
    loop {
        line.clear();
        match input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("bye"), ..) => return true,
            (Some("flush"), Some(number), durable) => {
                let reached = sidecar.flush(durable == Some("1"));
                say(&format!("flushed {number} {}", u8::from(reached)));
            }
            // What a later version may say.
            _ => {}
        }
    }
}

/// Whether the process has ended, which takes the kernel a moment after it has closed the pipe.
fn has_ended(sidecar: &Sidecar) -> bool {
    let deadline = Instant::now() + Duration::from_millis(END_MS);
    while sidecar.is_alive() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn put_line(output: &mut impl Write, line: &str) {
    // A program that does not listen any more is dead, and the input says so.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
