//! The limits of records and of disk, as the drain asks for them, and the bytes of the day, which outlive the agent.

use crate::config::{self, Limits, Process};
use crate::limits::SPENT_FILE_BYTES_MAX;
use logdrive_drain::{ClientProcess, Quota, QuotaPolicy};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Quotas of records and bytes, by the limits of a configuration.
#[derive(Debug)]
pub(crate) struct ConfiguredQuotas {
    limits: Limits,
    /// File in which the bytes of the day are noted.
    file: PathBuf,
}

impl ConfiguredQuotas {
    pub(crate) fn new(limits: &Limits, run_dir: &Path) -> Self {
        Self {
            limits: limits.clone(),
            file: run_dir.join("disk-today"),
        }
    }
}

fn quota_of(owner: String, is_per_process: bool, limits: &config::Quota) -> Option<Quota> {
    let quota = Quota {
        owner,
        is_per_process,
        records_per_second: limits.records_per_second,
        bytes_per_day: limits.disk_bytes_per_day,
    };
    let is_limit = quota.records_per_second.is_some() || quota.bytes_per_day.is_some();
    is_limit.then_some(quota)
}

impl QuotaPolicy for ConfiguredQuotas {
    fn quotas(&self, client: &ClientProcess) -> Vec<Quota> {
        let limits = self.limits.of(&Process::from(client));
        let user = limits
            .user
            .and_then(|quota| quota_of(format!("user {}", client.uid), false, quota));
        let app = limits.app;
        let app = app.and_then(|quota| quota_of(format!("application {}", client.app), false, quota));
        let process = quota_of(client.to_string(), true, limits.process);
        let total = quota_of("all processes together".to_owned(), false, limits.total);
        // The narrowest is the first to be named where several are used up.
        [process, app, user, total].into_iter().flatten().collect()
    }

    fn spent(&self, day: u64) -> Vec<(String, u64)> {
        let mut text = String::new();
        let read = fs::File::open(&self.file)
            .and_then(|file| file.take(SPENT_FILE_BYTES_MAX as u64).read_to_string(&mut text));
        // Without it the day begins anew: more may be written than was allowed, and nothing is lost.
        match read {
            Ok(_) => read_spent(&text, day),
            Err(_) => Vec::new(),
        }
    }

    fn remember(&self, day: u64, spent: &[(String, u64)]) {
        let mut text = format!("{day}\n");
        for (owner, bytes) in spent {
            text.push_str(&format!("{bytes} {owner}\n"));
        }
        let new = self.file.with_extension("new");
        // As above; the next second tries again.
        let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file));
    }
}

/// The lines of the day; what cannot be read is left out.
fn read_spent(text: &str, day: u64) -> Vec<(String, u64)> {
    let mut lines = text.lines();
    if lines.next().and_then(|line| line.parse().ok()) != Some(day) {
        return Vec::new();
    }
    let entry = |line: &str| {
        let (bytes, owner) = line.split_once(' ')?;
        Some((owner.to_owned(), bytes.parse().ok()?))
    };
    lines.filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Account, UserLimit};

    fn client(uid: u32) -> ClientProcess {
        ClientProcess {
            app: "shop".into(),
            pid: 417,
            uid,
        }
    }

    #[test]
    fn a_process_is_under_its_own_limits_and_those_of_its_user() {
        let mut limits = Limits::default();
        assert!(
            ConfiguredQuotas::new(&limits, Path::new("/"))
                .quotas(&client(0))
                .is_empty()
        );
        limits.process.records_per_second = Some(7);
        limits.users.insert(
            0,
            UserLimit {
                user: Some(Account {
                    name: "www-data".into(),
                    id: 33,
                }),
                quota: config::Quota {
                    disk_bytes_per_day: Some(1 << 20),
                    ..config::Quota::default()
                },
            },
        );
        let found = ConfiguredQuotas::new(&limits, Path::new("/")).quotas(&client(33));
        let owner: Vec<&str> = found.iter().map(|quota| quota.owner.as_str()).collect();
        assert_eq!(owner, ["process 417 of shop", "user 33"]);
        assert!(found[0].is_per_process && !found[1].is_per_process);
        let other = ConfiguredQuotas::new(&limits, Path::new("/")).quotas(&client(34));
        assert_eq!(other.len(), 1);
    }

    #[test]
    fn what_was_spent_today_is_read_again_and_nothing_else_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let allowances = ConfiguredQuotas::new(&Limits::default(), dir.path());
        assert!(allowances.spent(7).is_empty());
        let spent = [
            ("user 33".to_owned(), 5),
            ("application my shop".to_owned(), 1 << 40),
        ];
        allowances.remember(7, &spent);
        assert_eq!(allowances.spent(7), spent);
        assert!(allowances.spent(8).is_empty(), "another day");
        for text in [
            "",
            "7",
            "x\n5 user 1\n",
            "7\n5\nuser 1\n-1 user 2\n99999999999999999999 user 3\n",
        ] {
            fs::write(dir.path().join("disk-today"), text).expect("written");
            assert!(allowances.spent(7).is_empty(), "{text:?}");
        }
        fs::write(dir.path().join("disk-today"), [0xff; 64]).expect("written");
        assert!(allowances.spent(7).is_empty());
    }
}
