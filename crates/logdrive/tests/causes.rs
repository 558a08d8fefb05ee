//! Causes of the end of a process, as its log has them: in the process itself where there is time for it, else after its
//! recovery.
//!
//! The program that ends is this one, started anew with a role to play.
#![cfg(target_os = "linux")]

use logdrive::{File, Guard};
use logdrive_ring::find_sessions;
use logdrive_testkit::{Process, directory, report, role, this_test, wait_for_input, wait_until};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Variable with the directory in which the program plays its role.
const DIR: &str = "LOGDRIVE_TEST_CAUSES_DIR";
const ROLE: &str = "LOGDRIVE_TEST_ROLE";

fn start() -> Guard {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("a directory"));
    let guard = logdrive::builder("causes")
        .use_env(false)
        .run_dir(dir.join("run"))
        .flush_every(Duration::from_secs(3600))
        .file(File::new(dir.join("app.log")))
        .init();
    guard.expect("it starts")
}

/// Reads from an address that is nobody's.
#[inline(never)]
fn read_nothing() -> u8 {
    let nothing = std::hint::black_box(16 as *const u8);
    // SAFETY: it is not: the process ends here, which is what the test is about.
    unsafe { nothing.read_volatile() }
}

#[inline(never)]
#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let kept = std::hint::black_box([depth; 64]);
    recurse(depth + 1) + kept[depth as usize % 64]
}

static DEALT_WITH: AtomicUsize = AtomicUsize::new(0);

/// A handler such as those of virtual machines, for which a fault is no end.
extern "C" fn deal_with(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    DEALT_WITH.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the kernel's; the thread goes on behind the instruction of two bytes that has failed.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] += 2;
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = context;
}

fn play(role: &str) {
    if role == "dealt with" {
        // SAFETY: the structure is plain numbers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = deal_with as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut()), 0);
        }
    }
    let guard = start();
    logdrive::info!("| the last line");
    match role {
        "segv" => assert_eq!(read_nothing(), 1),
        "abort" => std::process::abort(),
        // The first one makes the handler of Rust's runtime withdraw.
        "sent" => loop {
            // SAFETY: ends the process.
            unsafe { libc::raise(libc::SIGSEGV) };
        },
        "overflow" => assert_eq!(recurse(0), 1),
        "exit" => std::process::exit(3),
        "success" => std::process::exit(0),
        // SAFETY: ends the process.
        "_exit" => unsafe { libc::_exit(5) },
        "exec" => {
            let error = Command::new("sleep").arg("60").exec();
            panic!("{error}");
        }
        "kill" => {
            report("ready");
            wait_for_input();
        }
        "memory" => {
            report("ready");
            wait_for_input();
            let mut all: Vec<Vec<u8>> = Vec::new();
            loop {
                all.push(vec![1; 1 << 20]);
            }
        }
        "dealt with" => {
            for _ in 0..3 {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the handler from above goes on behind it.
                unsafe {
                    std::arch::asm!("ud2");
                }
            }
            report(&format!("dealt with {}", DEALT_WITH.load(Ordering::SeqCst)));
            wait_for_input();
        }
        "panics" => {
            let caught = std::panic::catch_unwind(|| panic!("out of {}", "stock"));
            assert!(caught.is_err());
            std::process::exit(0);
        }
        _ => panic!("no such role: {role}"),
    }
    drop(guard);
}

/// The test in which the roles are played.
const STAGE: &str = "a_crash_is_in_the_log_before_the_process_has_ended";

fn command(role: &str, dir: &Path) -> Command {
    let mut command = this_test(STAGE);
    command
        .env(ROLE, role)
        .env(DIR, dir)
        .stderr(std::process::Stdio::null());
    command
}

fn spawn(role: &str, dir: &Path) -> Process {
    Process::spawn(&mut command(role, dir))
}

fn log(dir: &Path) -> String {
    let text = std::fs::read_to_string(dir.join("app.log")).unwrap_or_default();
    assert_eq!(text.matches("| the last line").count(), 1, "{text}");
    text
}

fn sessions(dir: &Path) -> Vec<PathBuf> {
    let found = find_sessions(&dir.join("run")).unwrap_or_default();
    found.into_iter().map(|found| found.path).collect()
}

/// Recovers what is left, and returns the log.
fn recovered(dir: &Path) -> String {
    let left = sessions(dir);
    assert_eq!(left.len(), 1);
    logdrive::recover(&left[0], None).expect("recovered");
    log(dir)
}

#[test]
fn a_crash_is_in_the_log_before_the_process_has_ended() {
    if let Some(role) = role() {
        return play(&role);
    }
    for (role, signal, name) in [
        ("segv", 11, "SIGSEGV"),
        ("abort", 6, "SIGABRT"),
        ("sent", 11, "SIGSEGV"),
    ] {
        let dir = directory();
        let mut process = spawn(role, dir.path());
        assert_eq!(process.wait().signal(), Some(signal), "{role}");
        assert!(sessions(dir.path()).is_empty(), "{role}: a session is left");
        let text = log(dir.path());
        let end = text.lines().last().unwrap_or_default();
        let told = format!(
            "process {} of causes was ended by signal {signal} ({name}) in thread ",
            process.pid()
        );
        assert!(end.contains(&told), "{end}");
        let (_, calls) = end.split_once(", at ").expect("its calls");
        if role == "segv" {
            assert!(calls.starts_with("causes-") && calls.contains("+0x"), "{end}");
        }
        #[cfg(target_env = "gnu")]
        assert!(calls.matches("causes-").count() > 2, "{end}");
    }
}

#[test]
fn an_overflow_of_the_stack_ends_as_it_would_have_and_is_told_after_recovery() {
    let dir = directory();
    // Rust's runtime prints a message and aborts.
    assert_eq!(spawn("overflow", dir.path()).wait().signal(), Some(libc::SIGABRT));
    let text = recovered(dir.path());
    assert!(text.contains("was ended by signal 11 (SIGSEGV)"), "{text}");
}

#[test]
fn a_signal_that_the_program_deals_with_leaves_no_note() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let dir = directory();
    let mut process = spawn("dealt with", dir.path());
    process.expect("dealt with 3");
    process.kill();
    let text = recovered(dir.path());
    assert!(text.contains("ended without a word"), "{text}");
}

#[test]
fn a_panic_is_in_the_log_with_the_calls_that_led_to_it() {
    let dir = directory();
    assert!(spawn("panics", dir.path()).wait().success());
    let text = log(dir.path());
    let line = text.lines().find(|line| line.contains("panicked: out of stock"));
    let line = line.expect("its line");
    assert!(
        line.contains(" ERROR ") && line.contains("tests/causes.rs"),
        "{line}"
    );
    // A program without its symbols has no names of calls.
    let calls = line.split_once("panic.calls=");
    assert!(
        calls.is_none_or(|(_, calls)| calls.contains("causes::play")),
        "{line}"
    );
    assert!(!line.contains("core::panicking"), "{line}");
}

#[test]
fn the_status_of_an_exit_is_told_where_it_is_none_of_success() {
    for (role, status) in [("success", 0), ("exit", 3)] {
        let dir = directory();
        let mut process = spawn(role, dir.path());
        assert_eq!(process.wait(), ExitStatus::from_raw(status << 8));
        assert!(sessions(dir.path()).is_empty());
        let told = format!("process {} of causes exited with status {status}", process.pid());
        // Other C libraries do not say the status to those who run at the end.
        let is_told = status != 0 && cfg!(target_env = "gnu");
        assert_eq!(log(dir.path()).contains(&told), is_told);
    }
}

#[test]
fn an_end_that_nobody_has_seen_is_told_as_such() {
    for role in ["_exit", "kill"] {
        let dir = directory();
        let mut process = spawn(role, dir.path());
        if role == "kill" {
            process.expect("ready");
            process.kill();
        }
        process.wait();
        let text = recovered(dir.path());
        assert!(text.contains("ended without a word"), "{role}: {text}");
    }
    let dir = directory();
    let mut process = spawn("exec", dir.path());
    let name = format!("/proc/{}/comm", process.pid());
    wait_until("it runs another program", || {
        std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep")
    });
    let text = recovered(dir.path());
    assert!(
        text.contains("of causes executed another program; 1 records"),
        "{text}"
    );
    process.kill();
}

/// A control group with little memory, removed when it is dropped.
struct Group(PathBuf);

impl Group {
    /// `None` where none can be made, or none has a limit of memory.
    fn new() -> Option<Self> {
        let name = format!("logdrive-causes-{}", std::process::id());
        for (top, limit) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ] {
            let dir = Path::new(top).join(&name);
            if std::fs::create_dir(&dir).is_ok() {
                let group = Self(dir);
                if std::fs::write(group.0.join(limit), "67108864").is_ok() {
                    // With swap this would take long.
                    let _ = std::fs::write(group.0.join("memory.swap.max"), "0");
                    let _ = std::fs::write(group.0.join("memory.swappiness"), "0");
                    return Some(group);
                }
            }
        }
        eprintln!("skipped: no control group with a limit of memory can be made");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended.
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_kill_for_lack_of_memory_is_told_as_such() {
    let Some(group) = Group::new() else { return };
    let dir = directory();
    let played = command("memory", dir.path());
    let mut inside = Command::new("sh");
    inside
        .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
        .arg(group.0.join("cgroup.procs"));
    inside.arg(played.get_program()).args(played.get_args());
    inside.envs(played.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut process = Process::spawn(&mut inside);
    process.expect("ready");
    process.send("go on");
    assert_eq!(process.wait().signal(), Some(libc::SIGKILL));
    let text = recovered(dir.path());
    assert!(text.contains("out of memory: the kernel has killed "), "{text}");
}
