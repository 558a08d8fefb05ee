//! The table `[[ship]]`.

use super::super::keys::{Kind, Section, Word};
use super::sink::{OVERFLOWS, PATH_BYTES_MAX};
use super::{key, required, unset};
use logdrive_agent::config::limits::{
    BREAKER_COUNT, BREAKER_FAILURES, BREAKER_OPEN, BUFFERS, CONNECT_TIMEOUT, FLUSH_EVERY, HEALTH_EVERY,
    NAME_BYTES_MAX, RESPONSE_TIMEOUT, SHIP_IDLE_TIMEOUT, SINKS_MAX, SPOOL_BYTES, ZSTD_LEVEL,
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
    (
        "manual",
        "the first, and no other but the backups; another one comes first, and a reload changes over to it",
    ),
];

pub(super) const SHIP: Section = Section {
    name: "ship",
    many: Some(SINKS_MAX),
    help: &[
        "Collectors (`logdrive collect`) that records are sent to. Each is a sink that routes may name. A record is in the \
         collector's log once, whatever is restarted, cut or killed on the way: what the collector has not acknowledged \
         stays in the agent's buffers or in the spool, and is sent again.",
        "A reload opens new ones, and changes `to`, `backup`, `layout`, `level`, `overflow`, `flush_every` and `flush_level` \
         of open ones; all else of them holds from the next start on.",
    ],
    keys: &[
        required("name", Kind::Name, "\"central\"", "Its name, for routes."),
        required(
            "to",
            Kind::Members,
            "[\"tls://logs.example.org:7140\"]",
            "Where it listens; with several, whichever can be reached. One that is a table may have a weight and may be a \
             backup, and tables [[ship.to]] say the same as a list.",
        ),
        unset(
            "backup",
            Kind::Members,
            "there are none",
            "[\"tls://spare.example.org:7140\"]",
            "Collectors that are used while none of the others can be. With `health_every`, records go back to the others \
             once one of them is well again.",
        ),
        key(
            "policy",
            Kind::Word(POLICIES),
            "\"round_robin\"",
            "Which one is used where there are several. It stays as long as it takes records.",
        ),
        key(
            "breaker_failures",
            Kind::CountOrOff(BREAKER_FAILURES),
            "\"off\"",
            "After so many failures in a row a collector is not tried for the time of `breaker_open`. Off, it is tried again \
             and again, with growing pauses.",
        ),
        key(
            "breaker_open",
            Kind::Time(BREAKER_OPEN),
            "\"5s\"",
            "How long it is left alone then.",
        ),
        key(
            "breaker_probes",
            Kind::Count(BREAKER_COUNT),
            "1",
            "How many may try it at once when that time is over.",
        ),
        key(
            "breaker_successes",
            Kind::Count(BREAKER_COUNT),
            "1",
            "How many of those have to succeed before all is as it was.",
        ),
        key(
            "health_every",
            Kind::TimeOrOff(HEALTH_EVERY),
            "\"off\"",
            "How often a thread connects to each collector to see whether it is well. One that is ill is not tried.",
        ),
        key(
            "health_failures",
            Kind::Count(BREAKER_COUNT),
            "2",
            "So many looks in vain, in a row, make it ill.",
        ),
        key(
            "health_successes",
            Kind::Count(BREAKER_COUNT),
            "2",
            "So many good ones, in a row, make it well again.",
        ),
        key(
            "connect_timeout",
            Kind::Time(CONNECT_TIMEOUT),
            "\"5s\"",
            "How long a connection may take to be made.",
        ),
        key(
            "response_timeout",
            Kind::Time(RESPONSE_TIMEOUT),
            "\"10s\"",
            "How long an acknowledgement may take before the collector is taken for dead, and another one is tried.",
        ),
        key(
            "idle_timeout",
            Kind::Time(SHIP_IDLE_TIMEOUT),
            "\"30s\"",
            "A collector that nothing was heard of for a third of this time is asked whether it lives.",
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
            "no authority, which tls:// and quic:// need",
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
