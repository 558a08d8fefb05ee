//! Processes and callsites for the tests of this command.

use super::sample::{Life, Process, Site, Via};
use logdrive_ring::CallsiteTotals;
use logdrive_wire::{Callsite, Level};

/// A process that has done nothing.
pub(super) fn process(app: &str, pid: u32) -> Process {
    Process {
        key: format!("{app}-{pid}"),
        app: app.to_owned(),
        pid,
        via: Via::Own,
        life: Life::Alive,
        age_s: Some(75),
        rings: 4,
        rings_in_use: 3,
        callsites: 12,
        committed: 0,
        bytes: 0,
        dropped: 0,
        sampled_out: 0,
        fill: 0.0,
        pending: 0,
        written: 0,
        errors: 0,
        panics: 0,
        place: format!("/var/log/{app}.log"),
        damage: None,
    }
}

/// A callsite that is on.
pub(super) fn site(id: u32, records: u64) -> Site {
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
