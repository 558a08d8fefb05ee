//! Processes and callsites for tests.

use crate::session_finder::Located;
use crate::watched_session::{Session, Site, State};
use logdrive_drain::{SinkStats, Stats};
use logdrive_ring::CallsiteTotals;
use logdrive_wire::{Callsite, Level};
use std::path::PathBuf;

/// A process that has done nothing, with one sink.
pub(crate) fn process(app: &str, pid: u32) -> Session {
    Session {
        at: Located {
            path: PathBuf::from(format!("{app}-{pid}")),
            holder: Some(pid),
            entry: None,
        },
        state: State::Alive,
        app: app.to_owned(),
        pid,
        start_unix_ns: 1,
        signal: None,
        panics: 0,
        stats: Stats {
            rings: (4, 3),
            callsites: 13,
            sinks: vec![SinkStats::default()],
            ..Stats::default()
        },
        bytes: 0,
        fill: 0.0,
        sinks: Vec::new(),
        damage: None,
    }
}

/// A callsite that is on.
pub(crate) fn site(id: u32, records: u64) -> Site {
    Site {
        id,
        callsite: Callsite {
            level: Level::Info,
            module: "shop::net".to_owned(),
            file: "src/net.rs".to_owned(),
            line: 40 + id,
            message: "packet {0} came".to_owned(),
            ..Callsite::default()
        },
        state: "on".to_owned(),
        by_rule: false,
        totals: CallsiteTotals {
            records,
            bytes: records * 80,
            ..CallsiteTotals::default()
        },
    }
}
