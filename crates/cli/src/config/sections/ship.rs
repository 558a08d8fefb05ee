//! The table `[[ship]]`.

use super::super::keys::{Kind, Section, Word};
use super::sink::{OVERFLOWS, PATH_BYTES_MAX};
use super::{key, required, unset};
use logdrive_agent::config::limits::{
    BUFFERS, FLUSH_EVERY, NAME_BYTES_MAX, SINKS_MAX, SPOOL_BYTES, ZSTD_LEVEL,
};

const LAYOUTS: &[Word] = &[
    ("json", "one JSON object a line: fields keep their types"),
    (
        "text",
        "time, level, thread, module, place, message and fields, for people",
    ),
    ("logfmt", "key=value pairs"),
    ("glog", "as Google's glog"),
];

const POLICIES: &[Word] = &[
    ("round_robin", "one after the other"),
    ("weighted_random", "by chance"),
    (
        "consistent_hash",
        "by the session, so that the same is found again",
    ),
    ("manual", "the first, and no other but the backups"),
];

pub(super) const SHIP: Section = Section {
    name: "ship",
    many: Some(SINKS_MAX),
    help: &[
        "Collectors (`logdrive collect`) that records are sent to. Each is a sink that routes may name. A record is in the \
         collector's log once, whatever is restarted, cut or killed on the way: what the collector has not acknowledged \
         stays in the agent's buffers or in the spool, and is sent again.",
        "A reload opens new ones, and changes `layout`, `level`, `overflow`, `flush_every` and `flush_level` of open ones; \
         all else of them holds from the next start on.",
    ],
    keys: &[
        required("name", Kind::Name, "\"central\"", "Its name, for routes."),
        required(
            "to",
            Kind::Addresses,
            "[\"tls://logs.example.org:7140\"]",
            "Where it listens; with several, whichever can be reached, in turn.",
        ),
        unset(
            "backup",
            Kind::Addresses,
            "there are none",
            "[\"tls://spare.example.org:7140\"]",
            "Collectors that are used while none of the others can be.",
        ),
        key(
            "policy",
            Kind::Word(POLICIES),
            "\"round_robin\"",
            "Which one is used where there are several. It stays as long as it takes records.",
        ),
        key("layout", Kind::Word(LAYOUTS), "\"json\"", "How a line looks."),
        key(
            "level",
            Kind::Level,
            "\"trace\"",
            "Records below this level are left out.",
        ),
        key(
            "overflow",
            Kind::Word(OVERFLOWS),
            "\"drop\"",
            "What happens to records when the collector, the spool and all buffers take nothing more.",
        ),
        key(
            "buffers",
            Kind::Count(BUFFERS),
            "8",
            "Output buffers of 1 MiB: what was sent stays in them until it is acknowledged.",
        ),
        key(
            "flush_every",
            Kind::Time(FLUSH_EVERY),
            "\"200ms\"",
            "Lines wait at most this long before they are sent.",
        ),
        key(
            "flush_level",
            Kind::Level,
            "\"error\"",
            "A record of this level or above is sent at once.",
        ),
        key(
            "zstd",
            Kind::CountOrOff(ZSTD_LEVEL),
            "\"off\"",
            "The level of zstd for batches. On a fast network it costs more time than it saves.",
        ),
        unset(
            "spool",
            Kind::Path(PATH_BYTES_MAX),
            "what no collector takes waits in the buffers",
            "\"/var/spool/logdrive/central\"",
            "A directory for what no collector takes, in order, which survives the agent. It belongs to this sink alone.",
        ),
        key(
            "spool_bytes",
            Kind::Size(SPOOL_BYTES),
            "\"1 GiB\"",
            "Bytes that the spool may have.",
        ),
        unset(
            "tls_authorities",
            Kind::Path(PATH_BYTES_MAX),
            "no authority, which tls:// needs",
            "\"/etc/logdrive/authority.pem\"",
            "Certificates, in PEM, of the authorities that the collector's certificate must come from.",
        ),
        unset(
            "tls_certificate",
            Kind::Path(PATH_BYTES_MAX),
            "none is shown",
            "\"/etc/logdrive/client.pem\"",
            "The agent's own certificate, in PEM.",
        ),
        unset(
            "tls_key",
            Kind::Path(PATH_BYTES_MAX),
            "none is used",
            "\"/etc/logdrive/client.key\"",
            "Its key, in PEM.",
        ),
        unset(
            "tls_name",
            Kind::Text(NAME_BYTES_MAX),
            "the host of the address",
            "\"logs.example.org\"",
            "The name that the collector's certificate must bear.",
        ),
        key(
            "insecure",
            Kind::Flag,
            "false",
            "Let plain TCP leave this machine: everybody on the way can read the records, and change them.",
        ),
    ],
    shown: &[],
    is_example: true,
};
