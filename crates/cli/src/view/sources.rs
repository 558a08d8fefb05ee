//! Logs of the command line: files, and what running programs log.

use super::args::ViewArgs;
use crate::error::CliError;
use crate::output::safe;
use crate::session_finder::{Located, SessionFinder};
use crate::tail::past::files_of;
use logdrive_drain::layout::{LayoutOptions, Style};
use logdrive_reader::follow::{Follow, FollowOptions, Start};
use logdrive_reader::pages::{Change, PagedLog, Spool, TimeLine};
use logdrive_reader::{FILES_MAX, Input, LogFile, is_paged, log_files};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Logs that are read, and what makes them grow.
#[derive(Debug)]
pub(super) struct Sources {
    spools: Vec<Spool>,
    /// Rings of programs that have no log file.
    rings: Option<Rings>,
    /// Logs of which another file has the name now.
    replaced: HashSet<u32>,
}

/// Rings that are followed, and the file to which their records go.
#[derive(Debug)]
struct Rings {
    follow: Follow,
    file: File,
}

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) has_changed: bool,
    pub(super) failures: Vec<String>,
}

impl Sources {
    /// Opens everything that is named.
    pub(super) fn open(args: &ViewArgs, line: &mut TimeLine) -> Result<Self, CliError> {
        let mut sources = Self {
            spools: Vec::new(),
            rings: None,
            replaced: HashSet::new(),
        };
        let mut names = args.names.clone();
        if names.is_empty() {
            names.push("-".to_owned());
        }
        let (files, sessions): (Vec<String>, Vec<String>) = names
            .into_iter()
            .partition(|name| name == "-" || Path::new(name).exists());
        let mut paths = Vec::new();
        for file in files {
            match args.all && file != "-" {
                true => paths.extend(log_files(Path::new(&file))?.concat()),
                false => paths.push(LogFile::alone(PathBuf::from(file))),
            }
        }
        let mut rings = Vec::new();
        if !sessions.is_empty() {
            let mut finder = SessionFinder::of(&args.run_dir, &args.agent)?;
            for name in &sessions {
                let (found, without) = find(&mut finder, name)?;
                paths.extend(found.into_iter().map(LogFile::alone));
                rings.extend(without);
            }
            sources.follow_rings(&mut finder, rings, line)?;
        }
        let mut seen = HashSet::new();
        paths.retain(|file| seen.insert(file.path.clone()));
        if paths.len() > FILES_MAX {
            return Err(CliError::TooManyFiles {
                count: paths.len(),
                limit: FILES_MAX,
            });
        }
        let share = paths.len();
        for file in paths {
            sources.add(file, share, line)?;
        }
        Ok(sources)
    }

    fn add(&mut self, file: LogFile, share: usize, line: &mut TimeLine) -> Result<(), CliError> {
        if is_paged(&file.path)? {
            line.add(Arc::new(PagedLog::open(&file.path, share)?));
            return Ok(());
        }
        let name = match file.path.as_os_str() == "-" {
            true => "stdin".to_owned(),
            false => file.path.display().to_string(),
        };
        let input = Input::new(vec![file]).style(Style::Json);
        let spool = Spool::of_input(name, input, share)?;
        line.add(spool.log());
        self.spools.push(spool);
        Ok(())
    }

    /// Follows the rings of sessions that have no log file.
    fn follow_rings(
        &mut self,
        finder: &mut SessionFinder,
        sessions: Vec<Located>,
        line: &mut TimeLine,
    ) -> Result<(), CliError> {
        if sessions.is_empty() {
            return Ok(());
        }
        let mut follow = Follow::new(FollowOptions {
            layout: LayoutOptions::from(Style::Json),
            ..FollowOptions::default()
        });
        for (id, at) in sessions.iter().enumerate() {
            // One that cannot be opened has just ended.
            if let Ok(view) = finder.view(at) {
                follow.add(id as u64, view, Start::Oldest)?;
            }
        }
        let (file, spool) = Spool::of_writer("live".to_owned(), 1)?;
        line.add(spool.log());
        self.spools.push(spool);
        self.rings = Some(Rings { follow, file });
        Ok(())
    }

    /// Takes what rings have, so that they are not overwritten before they are seen.
    pub(super) fn poll(&mut self) -> Result<(), CliError> {
        let Some(rings) = &mut self.rings else {
            return Ok(());
        };
        rings.follow.poll();
        let mut lines = Vec::new();
        rings.follow.take(false, |record| {
            lines.extend_from_slice(record.line_with_process());
            Ok::<(), CliError>(())
        })?;
        rings.file.write_all(&lines).map_err(|cause| CliError::Write {
            path: std::env::temp_dir(),
            cause,
        })
    }

    /// Returns whether something is still being copied.
    pub(super) fn is_copying(&self) -> bool {
        self.spools.iter().any(|spool| !spool.is_done()) && self.rings.is_none()
    }

    /// Returns whether logs may grow within a moment.
    pub(super) fn is_live(&self) -> bool {
        self.rings.is_some() || self.is_copying()
    }

    /// Looks at all logs.
    pub(super) fn look(&mut self, line: &mut TimeLine) -> Looked {
        let mut looked = Looked::default();
        if let Err(error) = self.poll() {
            looked.failures.push(error.to_string());
        }
        for (number, change) in line.look() {
            if change != Change::Replaced {
                looked.has_changed = true;
                continue;
            }
            if !self.replaced.insert(number) {
                continue;
            }
            // Its rotated file is read on, and the new one beside it.
            let path = line.logs().get(number as usize).and_then(|log| log.path());
            match path.map(|path| PagedLog::open(path, line.logs().len())) {
                Some(Ok(log)) => {
                    line.add(Arc::new(log));
                    looked.has_changed = true;
                }
                Some(Err(error)) => looked.failures.push(error.to_string()),
                None => {}
            }
        }
        for spool in &self.spools {
            looked.failures.extend(spool.take_failures());
        }
        looked
    }
}

/// Log files of the live sessions of a name, and those sessions that have none.
fn find(finder: &mut SessionFinder, name: &str) -> Result<(Vec<PathBuf>, Vec<Located>), CliError> {
    let (mut files, mut without) = (Vec::new(), Vec::new());
    let mut is_found = false;
    for at in finder.find()? {
        let Some((app, pid)) = finder.owner_of(&at).filter(|_| at.is_alive()) else {
            continue;
        };
        if !at.is_named(name, &app, pid) {
            continue;
        }
        is_found = true;
        let sinks = finder.sinks(&at, true).unwrap_or_default().into_iter();
        let of_agent = sinks
            .filter_map(|sink| Some(sink.file?.path))
            .find(|path| path.is_file());
        let own = || {
            let view = finder.view(&at).ok()?;
            files_of(&view, pid).into_iter().next()
        };
        match of_agent.or_else(own) {
            Some(file) => files.push(file),
            None => without.push(at),
        }
    }
    match is_found {
        true => Ok((files, without)),
        false => Err(CliError::NothingToView { name: safe(name) }),
    }
}
