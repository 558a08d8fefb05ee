//! What processes may take of rings, memory, records and disk.

use super::{Account, AppPattern, Process};

/// Upper limits. `None` is no limit of this kind.
///
/// ```
/// use logdrive_agent::config::Quota;
/// let quota = Quota { records_per_second: Some(10_000), ..Quota::default() };
/// assert_eq!(quota.rings, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Processes at once.
    pub processes: Option<u32>,
    /// Rings, one of each thread that logs.
    pub rings: Option<u32>,
    /// Bytes of memory: rings, callsite tables and flight recorders.
    pub memory_bytes: Option<u64>,
    /// Records that go to sinks in one second; more are dropped and counted. The last eighth is for warnings and errors.
    pub records_per_second: Option<u64>,
    /// Bytes of lines in files from one midnight to the next, in UTC; more are dropped and counted. The last eighth is for
    /// warnings and errors.
    pub disk_bytes_per_day: Option<u64>,
}

/// The limits. All that apply to a process hold at once.
///
/// ```
/// use logdrive_agent::config::{Limits, Process};
/// let limits = Limits::default();
/// let allowance = limits.of(&Process { app: "shop", pid: 417, uid: 1000 });
/// assert_eq!(allowance.process.rings, Some(256));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// For all processes together.
    pub total: Quota,
    /// For each process; `processes` is not used.
    pub process: Quota,
    /// For all processes of a user together. The first entry that matches is the one.
    pub users: Vec<UserLimit>,
    /// For all processes of one application together. The first entry that matches is the one.
    pub apps: Vec<AppLimit>,
}

/// Limits of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserLimit {
    /// The user; `None` for every user, each for himself.
    pub user: Option<Account>,
    /// What all processes of the user may take.
    pub quota: Quota,
}

/// Limits of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppLimit {
    /// The application; each name that matches is an application of its own.
    pub app: AppPattern,
    /// What all processes of the application may take.
    pub quota: Quota,
}

/// The limits that one process is under, see [`Limits::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance<'a> {
    /// Its own.
    pub process: &'a Quota,
    /// Those of its user, with all of the user's processes.
    pub user: Option<&'a Quota>,
    /// Those of its application, with all processes of that name.
    pub app: Option<&'a Quota>,
    /// Those of all processes.
    pub total: &'a Quota,
}

impl Default for Limits {
    /// 1024 processes, 256 of one user; 256 rings and 512 MiB for each; no limit of records or disk.
    fn default() -> Self {
        Self {
            total: Quota {
                processes: Some(1024),
                rings: Some(16_384),
                memory_bytes: Some(8 << 30),
                ..Quota::default()
            },
            process: Quota {
                rings: Some(256),
                memory_bytes: Some(512 << 20),
                ..Quota::default()
            },
            users: vec![UserLimit {
                user: None,
                quota: Quota {
                    processes: Some(256),
                    rings: Some(4096),
                    memory_bytes: Some(4 << 30),
                    ..Quota::default()
                },
            }],
            apps: Vec::new(),
        }
    }
}

impl Limits {
    /// The limits that a process is under.
    pub fn of(&self, process: &Process<'_>) -> Allowance<'_> {
        let is_user = |limit: &&UserLimit| limit.user.as_ref().is_none_or(|user| user.id == process.uid);
        let is_app = |limit: &&AppLimit| limit.app.matches(process.app);
        Allowance {
            process: &self.process,
            user: self.users.iter().find(is_user).map(|limit| &limit.quota),
            app: self.apps.iter().find(is_app).map(|limit| &limit.quota),
            total: &self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_for_a_user_or_an_application_counts() {
        let quota = |rings| Quota {
            rings: Some(rings),
            ..Quota::default()
        };
        let limits = Limits {
            users: vec![
                UserLimit {
                    user: Some(Account {
                        name: "www-data".into(),
                        id: 33,
                    }),
                    quota: quota(1),
                },
                UserLimit {
                    user: None,
                    quota: quota(2),
                },
            ],
            apps: vec![AppLimit {
                app: AppPattern::new("shop*"),
                quota: quota(3),
            }],
            ..Limits::default()
        };
        let of = |app, uid| {
            let allowance = limits.of(&Process { app, pid: 1, uid });
            (
                allowance.user.and_then(|quota| quota.rings),
                allowance.app.and_then(|quota| quota.rings),
            )
        };
        assert_eq!(of("shop-1", 33), (Some(1), Some(3)));
        assert_eq!(of("mail", 0), (Some(2), None));
    }
}
