//! The table `[agent]`.

use super::super::keys::{Kind, Section};
use super::{key, unset};
use logdrive_agent::config::limits::{CONNECTIONS, IDLE_TIMEOUT, SOCKET_PATH_BYTES_MAX};

/// The path of a directory leaves room for the names of the files in it.
const DIRECTORY_BYTES_MAX: usize = 3072;

pub(super) const AGENT: Section = Section {
    name: "agent",
    many: None,
    help: &[
        "Where the agent is found. What stands in this table holds from the next start on, but for `metrics`, \
         `connections` and `idle_timeout`, which a reload changes.",
    ],
    keys: &[
        key(
            "socket",
            Kind::Path(SOCKET_PATH_BYTES_MAX),
            "\"/run/logdrive/agent.sock\"",
            "The Unix socket that processes and commands connect to. Nobody but root and the agent's user may be able \
             to write to its directory, or somebody else could take its place.",
        ),
        unset(
            "group",
            Kind::Group,
            "the agent's own group",
            "\"adm\"",
            "The group of the socket: who may log through the agent, and look at it.",
        ),
        key(
            "mode",
            Kind::Mode {
                most: 0o660,
                least: 0o600,
            },
            "\"0660\"",
            "Permissions of the socket. All others stay out, because who may connect may take memory and disk.",
        ),
        key(
            "run_dir",
            Kind::Path(DIRECTORY_BYTES_MAX),
            "\"/run/logdrive/state\"",
            "The agent's own directory, mode 0700. Here lies what it needs to go on where it was when it is killed; it \
             need not outlive the machine's power, so shared memory is right.",
        ),
        key(
            "metrics",
            Kind::Metrics,
            "\"off\"",
            "Where metrics are served to Prometheus, by HTTP without a password: names of applications and their \
             numbers of records, never a record.",
        ),
        key(
            "metrics_insecure",
            Kind::Flag,
            "false",
            "Accept an address in `metrics` that other machines can reach.",
        ),
        key(
            "connections",
            Kind::Count(CONNECTIONS),
            "1024",
            "Connections at once, of processes and commands. Each takes a file descriptor, and a process a dozen more.",
        ),
        key(
            "idle_timeout",
            Kind::Time(IDLE_TIMEOUT),
            "\"5s\"",
            "A connection without a session that says nothing for this long is closed.",
        ),
    ],
    shown: &[],
    is_example: false,
};
