//! No call makes a system call once its callsite and its thread are known, and its ring has room: the kernel itself is
//! the judge. A seccomp filter ends the program at the first system call of the calling thread that is not `write` or
//! `exit`. (Strict mode would be simpler, but takes the time-stamp counter away, too.)
//!
//! Each test starts this program anew, with a role to play.
#![cfg(all(target_os = "linux", feature = "tracing", feature = "log"))]

use logdrive::{Clock, Full, Guard};
use std::hint::black_box;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::Empty;
use tracing::{Span, info_span};

/// Variables with the role that the program plays, and the directory of its session.
const ROLE: &str = "LOGDRIVE_TEST_ROLE";
const DIR: &str = "LOGDRIVE_TEST_DIR";

/// Rounds before the filter for system calls is installed, and after it.
const ROUNDS: u64 = 2_000;

/// Rounds between two times at which the ring is empty, whether the machine gives the drain time or not: a ring that is
/// half full wakes the drain, with a system call. Their records take less than half of it.
const BATCH: u64 = 8;

/// The capacity that each ring has at first: none is replaced by a larger one, which takes system calls.
const RING_BYTES: usize = 1 << 16;

/// Message of the thread: it has made a batch, and waits for the drain.
const BATCH_MADE: u8 = 0;
/// Message of the thread: it has come to its end.
const DONE: u8 = 1;

/// Number of batches that the drain has taken.
static DRAINED: AtomicU64 = AtomicU64::new(0);

/// Exit code of a program that could not give up its system calls.
const NO_DOOR: i32 = 77;

fn macros(round: u64) {
    let customer = black_box("ACME-0000012");
    logdrive::info!(order = round, price = 9.25, customer, "order filled");
    logdrive::info!("order {round} at {:.2} for {customer:>20}", 9.25);
    logdrive::debug!(side = ?Some(3u8), shown = %round, raw = &b"bytes"[..], "rendered at the call");
    logdrive::error!("order {:#x} is lost", round);
    logdrive::every_n!(10, Info, "round {}", round);
    logdrive::every_ms!(1, Info, "round {}", round);
    logdrive::trace!(order = round, "off");
}

fn events(round: u64) {
    let customer = black_box("ACME-0000012");
    tracing::info!(order = round, price = 9.25, customer, "order filled");
    tracing::info!(shown = %round, told = ?customer, "order {round} filled");
    tracing::trace!(order = round, "off");
}

fn spans(round: u64, outer: &Span) {
    let _outer = outer.enter();
    let inner = info_span!("inner", round, state = Empty).entered();
    tracing::info!("in two spans");
    inner.record("state", "recorded");
    tracing::warn!(parent: &*inner, order = round, "after a change");
}

fn facade(round: u64) {
    let customer = black_box("ACME-0000012");
    log::info!("order {round} at {:.2}", 9.25);
    log::info!(order = round, price = 9.25, customer, shown:% = round; "order filled");
    log::trace!("order {round}: off");
}

fn rounds(outer: &Span, pipe: i32) {
    for round in 0..ROUNDS {
        if round % BATCH == 0 {
            wait_for_drain(pipe);
        }
        macros(black_box(round));
        events(black_box(round));
        spans(black_box(round), outer);
        facade(black_box(round));
    }
}

/// Has the drain empty the ring of this thread, and waits for that without a system call but `write`.
fn wait_for_drain(pipe: i32) {
    let drained = DRAINED.load(Ordering::Acquire);
    say(pipe, BATCH_MADE);
    while DRAINED.load(Ordering::Acquire) == drained {
        std::hint::spin_loop();
    }
}

fn say(pipe: i32, message: u8) {
    // SAFETY: the pipe is open for as long as the program, and one byte of `message` is read.
    let written = unsafe { libc::write(pipe, (&raw const message).cast(), 1) };
    assert_eq!(written, 1, "the pipe takes a message");
}

/// From here on, any system call of this thread but `write` and `exit` ends the program with SIGSYS.
fn shut_the_door() {
    let step = |code: u32, jump_true, jump_false, value: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_true,
        jf: jump_false,
        k: value,
    };
    let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut steps = [
        // The number of the call is the first word of what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(compare, 2, 0, libc::SYS_write as u32),
        step(compare, 1, 0, libc::SYS_exit as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: both calls take numbers and a filter program that lives until they return; they change nothing but which
    // system calls this thread may make.
    let shut = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    if !shut {
        std::process::exit(NO_DOOR);
    }
}

/// Reports that the thread has come to its end, and ends it without what a Rust thread does at its end.
fn report_and_leave(pipe: i32) -> ! {
    say(pipe, DONE);
    // SAFETY: `exit` ends this thread at once: nothing of it is freed, and its handle is never joined.
    unsafe {
        libc::syscall(libc::SYS_exit, 0);
    }
    unreachable!("the thread has left");
}

/// Runs the thread of a role, which reports to `pipe`.
fn play(role: &str, pipe: i32) -> ! {
    let outer = info_span!("outer", id = 3);
    match role {
        "warm" | "coarse" => {
            rounds(&outer, pipe);
            shut_the_door();
            rounds(&outer, pipe);
        }
        "first call" => {
            shut_the_door();
            logdrive::info!("needs a ring");
        }
        "full ring" => {
            macros(0);
            shut_the_door();
            (0..u64::MAX).for_each(macros);
        }
        other => panic!("there is no role {other}"),
    }
    report_and_leave(pipe)
}

fn start(role: &str, dir: &Path) -> Guard {
    let clock = if role == "coarse" {
        Clock::Coarse
    } else {
        Clock::Tsc
    };
    let guard = logdrive::builder("system-calls")
        .use_env(false)
        .filter("debug")
        .run_dir(dir)
        .clock(clock)
        .ring_bytes(RING_BYTES)
        .full(Full::Block)
        .count_disabled(true)
        .discard()
        .init()
        .expect("starts");
    tracing::subscriber::set_global_default(logdrive::tracing::subscriber()).expect("the first");
    logdrive::log::install().expect("the first");
    guard
}

/// Plays a role in a thread, and ends the program.
fn serve(role: &str, dir: &Path) -> ! {
    let guard = start(role, dir);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let pipe = writer.as_raw_fd();
    let thread = std::thread::spawn({
        let role = role.to_owned();
        move || play(&role, pipe)
    });
    // Not joined and not let go: the thread never ends as Rust knows it, and what it used must stay.
    std::mem::forget(thread);
    let mut message = [BATCH_MADE];
    loop {
        reader.read_exact(&mut message).expect("the thread reports");
        if message == [DONE] {
            break;
        }
        assert!(logdrive::flush(), "the drain takes a batch");
        DRAINED.fetch_add(1, Ordering::Release);
    }
    let (_, stats) = guard.stop().expect("the first stop");
    let calls = stats.committed + stats.disabled;
    assert!(calls > 2 * ROUNDS * 10, "the calls were really made: {stats:#?}");
    assert_eq!(stats.dropped_calls(), 0, "{stats:#?}");
    drop(writer);
    std::process::exit(0);
}

/// Starts the program anew for a role, and returns whether it came to its end; or plays the role, if this is the new
/// start. This is unknown where the program runs under an emulator, which has no filter for system calls.
fn survives(test: &str, role: &str) -> Option<bool> {
    if let (Ok(role), Some(dir)) = (std::env::var(ROLE), std::env::var_os(DIR)) {
        serve(&role, &PathBuf::from(dir));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let output = Command::new(std::env::current_exe().expect("the path of this program"))
        .args([test, "--exact", "--nocapture"])
        .env(ROLE, role)
        .env(DIR, dir.path())
        .output()
        .expect("this program starts again");
    match (output.status.code(), output.status.signal()) {
        (Some(0), _) => Some(true),
        (_, Some(libc::SIGSYS)) => Some(false),
        (Some(NO_DOOR), _) if cfg!(not(target_arch = "x86_64")) => None,
        _ => {
            let text = String::from_utf8_lossy(&output.stderr);
            panic!("the role `{role}`: {}\n{text}", output.status)
        }
    }
}

#[test]
fn a_call_in_a_warm_thread_makes_no_system_call() {
    let test = "a_call_in_a_warm_thread_makes_no_system_call";
    for role in ["warm", "coarse"] {
        assert_ne!(
            survives(test, role),
            Some(false),
            "the kernel has killed the role `{role}`"
        );
    }
}

#[test]
fn a_call_that_does_make_one_is_caught() {
    let test = "a_call_that_does_make_one_is_caught";
    // The first call of a thread takes a ring; a call that finds its ring full parks.
    for role in ["first call", "full ring"] {
        assert_ne!(
            survives(test, role),
            Some(true),
            "the role `{role}` has made no system call"
        );
    }
}
