//! Programs that run, as a query reads them: their log files once these have what was logged up to now; of those that log to no
//! file what their rings hold.

use super::args::QueryArgs;
use super::work::Work;
use crate::error::CliError;
use crate::output::safe;
use crate::session_finder::{Located, SessionFinder};
use crate::tail::past::{files_of, has_written};
use logdrive_drain::Stats;
use logdrive_reader::follow::{Follow, FollowOptions, Start};
use logdrive_reader::{Filter, Task, log_files};
use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Timeout for files to have what was logged before: as for `tail`.
const FILES_BEHIND: Duration = Duration::from_millis(450);

/// Running programs.
pub(super) struct Running {
    files: Vec<PathBuf>,
    follow: RefCell<Follow>,
}

impl Running {
    /// Finds the running processes of these names.
    pub(super) fn find(names: &[PathBuf], args: &QueryArgs) -> Result<Self, CliError> {
        let mut finder = SessionFinder::of(&args.run_dir, &args.agent)?;
        let found: Vec<Located> = finder.find()?.into_iter().filter(Located::is_alive).collect();
        let mut running = Self {
            files: Vec::new(),
            follow: RefCell::new(Follow::new(FollowOptions::default())),
        };
        for name in names {
            let text = name.to_string_lossy();
            let mut is_known = false;
            for at in &found {
                let owner = finder.owner_of(at);
                if let Some((app, pid)) = owner
                    && at.is_named(&text, &app, pid)
                {
                    is_known = true;
                    running.add(at, pid, &mut finder);
                }
            }
            if !is_known {
                return Err(CliError::NoFile {
                    path: PathBuf::from(safe(&text)),
                    hint: "nor does a program of this name log here".to_owned(),
                });
            }
        }
        running.files.sort();
        running.files.dedup();
        Ok(running)
    }

    fn add(&mut self, at: &Located, pid: u32, finder: &mut SessionFinder) {
        // One that cannot be opened has just ended, and its log has everything.
        let Ok(view) = finder.view(at) else {
            return;
        };
        let shared = match at.entry.is_some() {
            // An agent writes at once when it is asked.
            true => finder.sinks(at, true).unwrap_or_default(),
            false => Vec::new(),
        };
        let shared = shared.into_iter().filter_map(|sink| Some(sink.file?.path));
        let file = shared
            .filter(|path| path.is_file())
            .chain(files_of(&view, pid))
            .next();
        match file {
            Some(file) => {
                let committed = Stats::of_view(&view).committed;
                let began = Instant::now();
                while at.entry.is_none()
                    && !has_written(&at.path, committed)
                    && began.elapsed() < FILES_BEHIND
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let logs = log_files(&file).unwrap_or_default();
                let own = logs
                    .into_iter()
                    .find(|log| log.iter().any(|part| part.path == file));
                match own {
                    Some(log) => self.files.extend(log.into_iter().map(|part| part.path)),
                    None => self.files.push(file),
                }
            }
            None => {
                let id = u64::from(pid);
                // More sessions than are followed at once are left to their logs.
                let _ = self.follow.borrow_mut().add(id, view, Start::Oldest);
            }
        }
    }

    /// The log files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    /// Gives the records that rings hold.
    pub(super) fn take_records(&self, filter: &Filter, work: &mut Work) {
        let mut follow = self.follow.borrow_mut();
        follow.poll();
        let taken: Result<u64, ()> = follow.take(true, |record| {
            if !record.passes(filter) {
                return Ok(());
            }
            let flow = record.ask(filter, |record| work.take(record));
            if flow.is_break() { Err(()) } else { Ok(()) }
        });
        // An end before the last record is one that was wanted.
        let _ = taken;
    }
}
