//! `logdrive config`: each file in `tests/config` with what is said about it, files that others may write, and the
//! commented default. `LOGDRIVE_BLESS=1` writes the expected texts anew; look at the difference then.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use support::{logdrive, run, stdout, text, with_stdin};

/// Output of `config check` for a file: its standard output and standard error, and the exit status.
fn said_about(dir: &Path, name: &str) -> String {
    let output = run(dir, &["config", "check", name]);
    let status = output.status.code().unwrap_or(-1);
    format!(
        "{}{}exit status {status}\n",
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// A directory with one file that only we may write.
fn directory_with(name: &str, content: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join(name), content).expect("a file");
    set_mode(&dir.path().join(name), 0o644);
    dir
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn every_file_is_judged_as_expected() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let entries = fs::read_dir(&samples).expect("samples");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    files.sort();
    let (mut good, mut bad) = (0, 0);
    for path in &files {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a plain name");
        let dir = directory_with(name, &fs::read(path).expect("a sample"));
        let said = said_about(dir.path(), name);
        let expected = path.with_extension("txt");
        if std::env::var_os("LOGDRIVE_BLESS").is_some() {
            fs::write(&expected, &said).expect("it can be written");
        }
        let expected = fs::read_to_string(expected).unwrap_or_default();
        assert_eq!(said, expected, "{name}:\n{said}");
        match name.starts_with("good-") {
            true => good += 1,
            false => bad += 1,
        }
        let status = if name.starts_with("good-") { 0 } else { 1 };
        assert!(
            said.ends_with(&format!("exit status {status}\n")),
            "{name}: {said}"
        );
    }
    println!("config: {good} good, {bad} bad");
    assert!(good >= 3 && bad >= 12, "{good} good, {bad} bad");
}

#[test]
fn the_commented_default_is_sound_and_means_what_an_empty_file_means() {
    let dir = tempfile::tempdir().expect("a directory");
    let default = stdout(dir.path(), &["config", "init"]);
    let said = with_stdin(dir.path(), &["config", "check", "-"], default.as_bytes());
    assert!(said.status.success(), "{}", text(&said.stderr));
    let of_empty = with_stdin(dir.path(), &["config", "check", "-"], b"");
    assert_eq!(text(&said.stdout), text(&of_empty.stdout));
    assert!(
        text(&said.stdout).starts_with("ok: -\n"),
        "{}",
        text(&said.stdout)
    );
}

#[test]
fn the_default_for_a_user_has_the_users_places() {
    let dir = tempfile::tempdir().expect("a directory");
    let init = |variables: &[(&str, &str)]| {
        let mut command = logdrive(dir.path());
        command
            .args(["config", "init", "--user"])
            .envs(variables.iter().copied());
        command.output().expect("the command runs")
    };
    let output = init(&[("XDG_RUNTIME_DIR", "/run/user/1000"), ("HOME", "/srv/alice")]);
    let default = text(&output.stdout);
    for line in [
        "socket = \"/run/user/1000/logdrive/agent.sock\"",
        "run_dir = \"/run/user/1000/logdrive/state\"",
        "path = \"/srv/alice/.local/state/logdrive/{app}.log\"",
    ] {
        assert!(default.lines().any(|found| found == line), "{line}: {default}");
    }
    for variables in [
        &[("HOME", "/srv/alice")][..],
        &[("XDG_RUNTIME_DIR", "relative"), ("HOME", "/x")],
    ] {
        let output = init(variables);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains("XDG_RUNTIME_DIR"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let dir = directory_with("x.toml", b"");
    let path = dir.path().join("x.toml");
    set_mode(&path, 0o646);
    let said = said_about(dir.path(), "x.toml");
    assert!(
        said.contains(
            "x.toml: error: everybody may write to the file (mode 0646)\n  help: chmod o-w x.toml\n"
        ),
        "{said}"
    );
    assert!(said.ends_with("exit status 1\n"), "{said}");
    set_mode(&path, 0o664);
    let said = said_about(dir.path(), "x.toml");
    assert!(said.contains("note: the file's group may write to it"), "{said}");
    assert!(said.ends_with("exit status 0\n"), "{said}");
    set_mode(&path, 0o644);
    set_mode(dir.path(), 0o777);
    let said = said_about(dir.path(), "x.toml");
    assert!(said.contains("everybody may change what is in "), "{said}");
    set_mode(dir.path(), 0o1777);
    assert!(said_about(dir.path(), "x.toml").starts_with("ok: "));
}

#[test]
fn directories_that_others_may_write_are_refused_for_logs_and_sockets() {
    let dir = tempfile::tempdir().expect("a directory");
    let check = |mode: u32, config: String| {
        set_mode(dir.path(), mode);
        let output = with_stdin(Path::new("."), &["config", "check", "-"], config.as_bytes());
        (output.status.success(), text(&output.stderr))
    };
    let path = dir.path().display();
    let sink = |more: &str| format!("[[sink]]\nname = \"a\"\npath = \"{path}/sub/a.log\"\n{more}");
    let socket = format!("[agent]\nsocket = \"{path}/agent.sock\"\n");
    let state = format!("[agent]\nrun_dir = \"{path}\"\n");
    for (mode, config, expected) in [
        (0o755, sink(""), None),
        (0o777, sink(""), Some("sink.path: everybody may change")),
        (0o777, sink("trust_directory = true\n"), None),
        (0o1777, sink(""), None),
        (0o775, sink(""), None),
        (0o755, socket.clone(), None),
        (0o775, socket.clone(), Some("agent.socket: others may write to")),
        (0o1777, socket, Some("agent.socket: others may write to")),
        (0o700, state.clone(), None),
        (0o770, state, Some("agent.run_dir: others may write to")),
    ] {
        let (sound, said) = check(mode, config.clone());
        assert_eq!(sound, expected.is_none(), "{mode:o} {config}: {said}");
        assert!(
            said.contains(expected.unwrap_or_default()),
            "{mode:o} {config}: {said}"
        );
    }
    set_mode(dir.path(), 0o700);
}

#[test]
fn what_is_no_configuration_is_refused_in_a_sentence() {
    let dir = directory_with("latin1.toml", b"# gr\xfc\xdfe\n");
    let here = dir.path();
    assert!(said_about(here, "latin1.toml").contains("error: line 1 is not UTF-8"));
    fs::write(here.join("large.toml"), "#".repeat((1 << 20) + 1)).expect("a file");
    set_mode(&here.join("large.toml"), 0o644);
    assert!(said_about(here, "large.toml").contains("error: the file is larger than 1048576 bytes"));
    let said = said_about(here, "missing.toml");
    assert_eq!(
        said,
        "error: cannot open missing.toml: there is no such file; `logdrive config init > missing.toml` makes \
         one\nexit status 1\n"
    );
    assert!(
        said_about(here, ".").contains("is a directory"),
        "{}",
        said_about(here, ".")
    );
}

#[test]
fn problems_are_coloured_when_that_is_asked_for() {
    let dir = directory_with("x.toml", b"[agent]\nmode = \"0666\"\n");
    let output = run(dir.path(), &["config", "check", "x.toml", "--color", "always"]);
    let said = text(&output.stderr);
    assert!(said.contains("\x1b[1;31merror:\x1b[0m"), "{said}");
    assert!(said.contains("\x1b[1;31m^^^^^^\x1b[0m"), "{said}");
    assert!(!text(&run(dir.path(), &["config", "check", "x.toml"]).stderr).contains('\x1b'));
}

#[test]
fn the_service_file_says_what_the_defaults_say() {
    let unit = include_str!("../../../dist/logdrive-agent.service");
    let has = |line: &str| unit.lines().any(|found| found == line);
    let help = stdout(Path::new("."), &["config", "check", "--help"]);
    let (_, default) = help.split_once("[default: ").expect("a default file");
    let (file, _) = default.split_once(']').expect("its end");
    assert!(
        has(&format!("ExecStart=/usr/bin/logdrive agent --config {file}")),
        "{file}"
    );
    assert!(
        has(&format!("ExecStartPre=/usr/bin/logdrive config check {file}")),
        "{file}"
    );
    let default = stdout(Path::new("."), &["config", "init"]);
    for (directory, setting) in [
        ("/run/logdrive/agent.sock", "RuntimeDirectory=logdrive"),
        ("/run/logdrive/state", "RuntimeDirectory=logdrive"),
        ("/var/log/logdrive/{app}.log", "LogsDirectory=logdrive"),
    ] {
        assert!(
            default.contains(&format!(" = \"{directory}\"\n")) && has(setting),
            "{directory}"
        );
    }
    let number = |text: &str, key: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(key));
        found
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or_else(|| panic!("{key}"))
    };
    // Descriptors: the rings, five more of each process, the connections, and some log files.
    let needed = number(&default, "rings = ")
        + 5 * number(&default, "processes = ")
        + number(&default, "connections = ");
    assert!(number(unit, "LimitNOFILE=") > 2 * needed, "{needed}");
}
