//! The command: searched for before anything is made for it, then started.

use super::error::CommandError;
use rustix::fs::{Access, access};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;

/// The name of a command: the last part of its path.
///
/// ```
/// assert_eq!(logdrive_agent::supervisor::name_of("/usr/bin/env".as_ref()), "env");
/// ```
pub fn name_of(program: &OsStr) -> String {
    let path = Path::new(program);
    path.file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// Says early that there is no such program, so that no log is made for it. Errors that the search cannot find are
/// reported by the start itself.
pub(crate) fn find(program: &OsStr) -> Result<(), CommandError> {
    let path = Path::new(program);
    let has_slash = program.as_encoded_bytes().contains(&b'/');
    if has_slash {
        return match path.metadata() {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(not_found(program)),
            _ => Ok(()),
        };
    }
    let Some(dirs) = std::env::var_os("PATH") else {
        return Ok(());
    };
    let found = std::env::split_paths(&dirs).any(|dir| {
        let path = dir.join(path);
        path.is_file() || access(&path, Access::EXEC_OK).is_ok()
    });
    if found { Ok(()) } else { Err(not_found(program)) }
}

fn not_found(program: &OsStr) -> CommandError {
    let path = Path::new(program);
    let has_slash = program.as_encoded_bytes().contains(&b'/');
    let hint = if has_slash {
        "there is no such file".to_owned()
    } else if program.is_empty() {
        "its name is empty".to_owned()
    } else if path.is_file() {
        format!("it is not in PATH; ./{} is in this directory", path.display())
    } else {
        "it is in no directory of PATH; check the spelling, or give its path".to_owned()
    };
    CommandError::NotFound {
        program: path.to_owned(),
        hint,
    }
}

/// Error for the cause that the start of a command gave.
pub(crate) fn start_error(program: &OsStr, cause: io::Error) -> CommandError {
    match cause.kind() {
        io::ErrorKind::NotFound => not_found(program),
        _ => CommandError::NotExecutable {
            program: program.into(),
            cause,
        },
    }
}

/// The command with its arguments and what the destination wants in its environment.
pub(crate) fn describe(
    program: &OsStr,
    args: &[OsString],
    environment: Vec<(OsString, OsString)>,
) -> Command {
    let mut command = Command::new(program);
    command.args(args).envs(environment);
    command
}
