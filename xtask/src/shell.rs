//! Running other programs: every command line is shown before it runs, a program that is missing is
//! named with how to get it, and a failure says what failed and what to do next.

use crate::paint;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Why a command of the workshop did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Message of the failure; shown after `error: `.
    pub(crate) message: String,
    /// Advice on what to do next; empty when the message already says it.
    pub(crate) advice: String,
    /// The exit code for the caller.
    pub(crate) code: u8,
}

/// Result of every command of the workshop returns.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    pub(crate) fn new(message: impl Into<String>, advice: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            advice: advice.into(),
            code: 1,
        }
    }

    /// For a command line that could not be understood.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            advice: "`cargo xtask help` lists the commands".to_owned(),
            code: 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// The workspace's top directory: the nearest one at or above the working directory whose
/// `Cargo.toml` opens a workspace and which holds `xtask/`.
pub(crate) fn root() -> Result<PathBuf, Failure> {
    let start = std::env::current_dir()
        .map_err(|cause| Failure::new(format!("the working directory is unreadable: {cause}"), ""))?;
    start
        .ancestors()
        .find(|dir| dir.join("xtask/Cargo.toml").is_file() && dir.join("Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| {
            Failure::new(
                format!("{} lies outside the Logdrive tree", start.display()),
                "change into the checkout and run `cargo xtask` there",
            )
        })
}

/// Cargo's target directory, which the environment may have moved.
pub(crate) fn target_dir(root: &Path) -> Result<PathBuf, Failure> {
    Ok(match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root.join(dir),
        None => root.join("target"),
    })
}

/// One program call, with the options the workshop needs.
pub(crate) struct Call {
    command: Command,
    shown_env: Vec<String>,
    shown: Vec<String>,
}

impl Call {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Call {
        let program = program.as_ref();
        let name = Path::new(program).file_name().unwrap_or(program);
        Call {
            command: Command::new(program),
            shown_env: Vec::new(),
            shown: vec![name.to_string_lossy().into_owned()],
        }
    }

    /// The cargo that runs this workshop.
    pub(crate) fn cargo() -> Call {
        Call::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
    }

    /// Cargo of the nightly toolchain. The variables that the stable cargo left for its children are
    /// taken away, since `cargo miri` and `cargo fuzz` would follow them back to the stable tools.
    pub(crate) fn nightly_cargo() -> Call {
        let mut call = Call::new("rustup").words("run nightly cargo");
        for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
            call.command.env_remove(name);
        }
        call
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<str>) -> Call {
        self.shown.push(arg.as_ref().to_owned());
        self.command.arg(arg.as_ref());
        self
    }

    pub(crate) fn args<I: IntoIterator<Item = S>, S: AsRef<str>>(mut self, args: I) -> Call {
        for arg in args {
            self = self.arg(arg);
        }
        self
    }

    /// Arguments that hold no blanks, written as one text.
    pub(crate) fn words(self, words: &str) -> Call {
        self.args(words.split_whitespace())
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Call {
        self.shown_env.push(format!("{name}={}", quoted(value)));
        self.command.env(name, value);
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Call {
        self.command.current_dir(dir);
        self
    }

    /// The command line as a person would type it.
    pub(crate) fn line(&self) -> String {
        let words = self.shown.iter().map(|word| quoted(word));
        self.shown_env
            .iter()
            .cloned()
            .chain(words)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Shows the line, runs it with this process's own input and outputs, and reports its failure.
    pub(crate) fn run(mut self) -> Outcome {
        let line = self.line();
        eprintln!("{}", paint::faint(&format!("$ {line}")));
        let status = self
            .command
            .status()
            .map_err(|cause| not_started(&line, &cause))?;
        judge(&line, status)
    }

    /// Runs and gives back what was printed on stdout; stderr passes through.
    pub(crate) fn stdout(mut self) -> Result<String, Failure> {
        let line = self.line();
        let output = self
            .command
            .stderr(Stdio::inherit())
            .output()
            .map_err(|cause| not_started(&line, &cause))?;
        judge(&line, output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns whether the program starts and succeeds; nothing of it is shown.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.command.status().is_ok_and(|status| status.success())
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

fn not_started(line: &str, cause: &std::io::Error) -> Failure {
    Failure::new(format!("`{line}` did not start: {cause}"), "")
}

fn judge(line: &str, status: ExitStatus) -> Outcome {
    if status.success() {
        return Ok(());
    }
    let mut failure = Failure::new(format!("`{line}` failed: {status}"), "");
    if let Some(code) = status.code().and_then(|code| u8::try_from(code).ok()) {
        failure.code = code;
    }
    Err(failure)
}

/// A program that some command needs and that may be missing on this machine.
pub(crate) struct Tool {
    /// Name for messages.
    pub(crate) name: &'static str,
    /// A call that succeeds where it is installed.
    pub(crate) probe: &'static [&'static str],
    /// Command that installs it.
    pub(crate) how: &'static str,
}

pub(crate) const NIGHTLY: Tool = Tool {
    name: "a nightly Rust toolchain",
    probe: &["rustup", "run", "nightly", "rustc", "--version"],
    how: "rustup toolchain install nightly",
};
pub(crate) const MIRI: Tool = Tool {
    name: "Miri",
    probe: &["rustup", "run", "nightly", "cargo", "miri", "--version"],
    how: "rustup component add miri rust-src --toolchain nightly",
};
pub(crate) const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    probe: &["cargo-fuzz", "--version"],
    how: "cargo install cargo-fuzz --locked",
};
pub(crate) const RUSTUP: Tool = Tool {
    name: "rustup",
    probe: &["rustup", "--version"],
    how: "see https://rustup.rs",
};
pub(crate) const RUSTFMT: Tool = Tool {
    name: "rustfmt",
    probe: &["rustfmt", "--version"],
    how: "rustup component add rustfmt",
};
pub(crate) const CLIPPY: Tool = Tool {
    name: "clippy",
    probe: &["clippy-driver", "--version"],
    how: "rustup component add clippy",
};
pub(crate) const CMAKE: Tool = Tool {
    name: "CMake",
    probe: &["cmake", "--version"],
    how: "apt-get install cmake (Debian, Ubuntu), dnf install cmake (Fedora)",
};
pub(crate) const CXX: Tool = Tool {
    name: "a C++ compiler",
    probe: &["c++", "--version"],
    how: "apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora)",
};
pub(crate) const OBJCOPY: Tool = Tool {
    name: "objcopy",
    probe: &["objcopy", "--version"],
    how: "apt-get install binutils (Debian, Ubuntu), dnf install binutils (Fedora)",
};
pub(crate) const MUSL_CC: Tool = Tool {
    name: "a C compiler for musl",
    probe: &["musl-gcc", "--version"],
    how: "apt-get install musl-tools (Debian, Ubuntu), dnf install musl-gcc (Fedora)",
};
pub(crate) const GO: Tool = Tool {
    name: "Go",
    probe: &["go", "version"],
    how: "apt-get install golang-go (Debian, Ubuntu), or see https://go.dev/dl",
};
pub(crate) const CROSS_CC: Tool = Tool {
    name: "a C compiler for aarch64",
    probe: &["aarch64-linux-gnu-gcc", "--version"],
    how: "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross (Debian, Ubuntu)",
};
pub(crate) const QEMU: Tool = Tool {
    name: "the user-mode emulator for aarch64",
    probe: &["qemu-aarch64", "--version"],
    how: "apt-get install qemu-user (Debian, Ubuntu)",
};

impl Tool {
    pub(crate) fn present(&self) -> bool {
        Call::new(self.probe[0]).args(&self.probe[1..]).succeeds()
    }

    /// One line that says what is missing and how to get it.
    pub(crate) fn missing(&self) -> String {
        format!("{} is missing; to get it: {}", self.name, self.how)
    }

    pub(crate) fn require(&self) -> Outcome {
        if self.present() {
            return Ok(());
        }
        Err(Failure::new(
            format!("{} is missing", self.name),
            format!("to get it: {}", self.how),
        ))
    }
}

/// The first of `tools` that is not installed.
pub(crate) fn first_missing<'a>(tools: &[&'a Tool]) -> Option<&'a Tool> {
    tools.iter().copied().find(|tool| !tool.present())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_as_a_person_would_type_it() {
        let call = Call::new("cargo")
            .args(["test", "-p", "a b"])
            .env("RUSTFLAGS", "--cfg loom");
        assert_eq!(call.line(), "RUSTFLAGS='--cfg loom' cargo test -p 'a b'");
    }

    #[test]
    fn a_missing_program_is_named_with_how_to_get_it() {
        let tool = Tool {
            name: "the thing",
            probe: &["no-such-program-here"],
            how: "make it",
        };
        let failure = tool.require().expect_err("the program does not exist");
        assert_eq!(
            (failure.message.as_str(), failure.advice.as_str()),
            ("the thing is missing", "to get it: make it")
        );
        assert!(!tool.present());
    }
}
