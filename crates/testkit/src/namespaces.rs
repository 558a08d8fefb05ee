//! Commands with mounts of their own: file systems of any size, and a `/dev/shm` as a container has it.

use std::process::Command;

/// Returns a command that runs another one behind a script of the shell, in a mount namespace that ends with it, and with
/// `isolated_pids` as the first process of a process namespace of its own. `None` where this process is not root; the
/// reason is printed.
///
/// The variables that were set for the command stay set.
pub fn in_namespaces(script: &str, isolated_pids: bool, command: &Command) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        skip("this test is left out: it mounts file systems, which root may");
        return None;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private"]);
    if isolated_pids {
        unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    }
    unshare.args(["sh", "-c", &format!("set -e\n{script}\nexec \"$@\""), "sh"]);
    unshare.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unshare.env(name, value),
            None => unshare.env_remove(name),
        };
    }
    Some(unshare)
}

#[allow(clippy::print_stdout, reason = "a test talks to whoever runs it")]
fn skip(why: &str) {
    println!("{why}");
}
