//! Quotas of processes: rings, memory, records and disk.

use super::limits::{DISK_BYTES_PER_DAY, MEMORY_BYTES, PROCESSES, RECORDS_PER_SECOND, RINGS};
use super::selector::APP_PATTERN;
use super::{Account, AppPattern, Process};
use logdrive_drain::options;
use logdrive_drain::schema::{FILE, Kind, Row, Setting, Value};

options! {
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
        pub processes: Option<u32> => Row::of(Kind::Count(PROCESSES)).off().scope(FILE),
        /// Rings: one for each thread that logs. A thread without one has its records dropped and counted.
        pub rings: Option<u32> => Row::of(Kind::Count(RINGS)).off().scope(FILE),
        /// Shared memory of rings, callsite tables and flight recorders.
        pub memory_bytes: Option<u64> => Row::of(Kind::Size(MEMORY_BYTES)).off().scope(FILE),
        /// Records in one second; more are dropped, counted and reported in the log. The last eighth is for warnings and
        /// errors. Records in a flight recorder do not count.
        pub records_per_second: Option<u64> => Row::of(Kind::Count(RECORDS_PER_SECOND)).off().scope(FILE),
        /// Bytes of lines in files from midnight to midnight, UTC, before compression; more are dropped, counted and
        /// reported in the log. The last eighth is for warnings and errors.
        pub disk_bytes_per_day: Option<u64> => Row::of(Kind::Size(DISK_BYTES_PER_DAY)).off().scope(FILE),
    }
}

/// The limits. All that apply to a process hold at once.
///
/// ```
/// use logdrive_agent::config::{Limits, Process};
/// let limits = Limits::default();
/// let quotas = limits.of(&Process { app: "shop", pid: 417, uid: 1000 });
/// assert_eq!(quotas.process.rings, Some(256));
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

options! {
    /// Limits of a user.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UserLimit {
        /// The user, as the kernel knows it; "*" is every other user, each for itself.
        pub user: Option<Account> => Row::of(Kind::User)
            .words(&[("*", "every other user")])
            .required("\"*\"")
            .scope(FILE)
            => [|limit| limit.user.to_value().or(Some(Value::Word("*"))), |limit, value| {
                limit.user = match value {
                    Value::Word(_) => None,
                    value => Some(Account::from_value(value)?),
                };
                Ok(())
            }],
    }
    and {
        /// Quota of all processes of the user together.
        pub quota: Quota,
    }
    after { quota }
}

options! {
    /// Limits of an application.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AppLimit {
        /// The application's name, with * and ?. Each name that matches is an application of its own.
        pub app: AppPattern => Row::of(Kind::Parsed(APP_PATTERN)).required("\"shop*\"").scope(FILE),
    }
    and {
        /// Quota of all processes of the application together.
        pub quota: Quota,
    }
    after { quota }
}

/// The limits that one process is under, see [`Limits::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessQuotas<'a> {
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
    pub fn of(&self, process: &Process<'_>) -> ProcessQuotas<'_> {
        let is_user = |limit: &&UserLimit| limit.user.as_ref().is_none_or(|user| user.id == process.uid);
        let is_app = |limit: &&AppLimit| limit.app.matches(process.app);
        ProcessQuotas {
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
            let quotas = limits.of(&Process { app, pid: 1, uid });
            (
                quotas.user.and_then(|quota| quota.rings),
                quotas.app.and_then(|quota| quota.rings),
            )
        };
        assert_eq!(of("shop-1", 33), (Some(1), Some(3)));
        assert_eq!(of("mail", 0), (Some(2), None));
    }
}
