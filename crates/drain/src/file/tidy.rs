//! Tidying behind a log file after each rotation and at open: left-overs of crashes go, rotated
//! files are compressed, and those that the rules of retention name are removed.
//!
//! Every pass reads the directory again and needs no state of the one before. So several
//! processes may tidy one directory, and whatever a crash has cut short is taken up again.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::compact::{compact, is_segment_named, move_to_cold};
use super::compress::{Outcome, compress, drop_twin, lock_file};
use super::error::{FileError, FileOperation};
use super::limits::{COLD_AFTER, COLD_LEVEL, LISTED_MAX};
use super::names::{Form, Names, Rotated};
use super::notices::Notices;
use super::open_dir::open_dir;
use super::options::{Compress, FileOptions};
use super::retention::{RotatedFile, to_remove};
use super::storage::{FileKind, OpenMode, Stat, Storage, existing};
use super::unsynced::UnsyncedFiles;

/// Everything that a pass needs; independent of the log file, since it runs on another thread.
#[derive(Clone, Debug)]
pub(crate) struct Tidy {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) dir: Arc<File>,
    pub(crate) names: Names,
    pub(crate) options: Arc<FileOptions>,
    pub(crate) notices: Notices,
    pub(crate) unsynced: UnsyncedFiles,
    /// The log has had blocks of segments, so that rotated files are compacted.
    pub(crate) has_segments: bool,
    pub(crate) compact_files: CompactFiles,
    /// Those that are old and need no stronger compression.
    pub(crate) cold_files: CompactFiles,
    /// The cold directory, once a pass has opened it.
    pub(crate) cold: OnceLock<Option<Arc<File>>>,
}

/// Segments that need no compaction, by device and inode, so that no pass looks at them again. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompactFiles(Arc<Mutex<HashSet<(u64, u64)>>>);

impl CompactFiles {
    fn has(&self, stat: &Stat) -> bool {
        self.files().contains(&(stat.dev, stat.ino))
    }

    fn note(&self, stat: &Stat) {
        let mut files = self.files();
        if files.len() >= LISTED_MAX {
            // They are looked at again.
            files.clear();
        }
        files.insert((stat.dev, stat.ino));
    }

    fn files(&self) -> MutexGuard<'_, HashSet<(u64, u64)>> {
        // Nothing between lock and unlock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that was found in the directory.
struct Found {
    name: String,
    form: Form,
    stat: Stat,
    /// In the cold directory.
    is_cold: bool,
}

/// Rotated files by age; a crash may have left one in two forms.
type Listing = BTreeMap<Rotated, Vec<Found>>;

impl Tidy {
    /// One pass. A failure is reported in a notice and tried again by the next pass.
    pub(crate) fn run(&self, now_unix_s: i64, opening: bool, stop: &AtomicBool) {
        let compresses = self.options.compress != Compress::None || self.has_segments;
        let is_slow = compresses || self.options.rotated.cold_dir.is_some();
        if !opening && !is_slow && !self.options.removes() {
            return;
        }
        let mut listing = match self.list() {
            Ok(listing) => listing,
            Err(error) => return self.notices.push(error),
        };
        if opening {
            self.clean(&mut listing);
        }
        self.drop_twins(&mut listing);
        // First what goes anyway, so that it is not compressed before; bytes only count afterwards,
        // when the newest file is compressed too.
        let mut without_bytes = FileOptions::clone(&self.options);
        if is_slow {
            without_bytes.keep_bytes = None;
        }
        self.retain(&mut listing, &without_bytes, now_unix_s);
        if self.options.rotated.delay_compress {
            leave_newest_plain(&mut listing);
        }
        let is_done =
            is_slow && self.compress_all(&mut listing, stop) && self.cool_old(&mut listing, now_unix_s, stop);
        if is_done && self.options.keep_bytes.is_some() {
            self.retain(&mut listing, &self.options, now_unix_s);
        }
    }

    /// The cold directory, where there is one.
    fn cold(&self) -> Option<&File> {
        let open = || {
            let path = self.options.rotated.cold_dir.as_deref()?;
            match open_dir(self.storage.as_ref(), path, &self.options) {
                Ok((dir, _)) => Some(Arc::new(dir)),
                Err(error) => {
                    self.notices.push(error);
                    None
                }
            }
        };
        self.cold.get_or_init(open).as_deref()
    }

    /// The directory that a file is in.
    fn dir_of(&self, found: &Found) -> &File {
        match self.cold() {
            Some(cold) if found.is_cold => cold,
            _ => &self.dir,
        }
    }

    /// The rotated files of this log, temporary ones included.
    fn list(&self) -> Result<Listing, FileError> {
        let mut listing = Listing::new();
        self.list_dir(&self.dir, false, &mut listing)?;
        if let Some(cold) = self.cold() {
            self.list_dir(cold, true, &mut listing)?;
        }
        Ok(listing)
    }

    fn list_dir(&self, dir: &File, is_cold: bool, listing: &mut Listing) -> Result<(), FileError> {
        let wanted = |name: &OsStr| self.names.parse_rotated(name).is_some();
        let path = self.options.rotated.cold_dir.as_ref().filter(|_| is_cold);
        let names = self
            .storage
            .list(dir, &wanted, LISTED_MAX)
            .map_err(|cause| FileError::io(FileOperation::List, path.unwrap_or(&self.names.dir), cause))?;
        for name in names {
            let Some((rotated, form)) = self.names.parse_rotated(&name) else {
                continue;
            };
            let Some(name) = name.to_str() else { continue };
            let stat = existing(self.storage.stat(dir, Path::new(name)))
                .map_err(|cause| self.failed(FileOperation::Inspect, name, cause))?;
            // A directory or link of such a name is none of ours, a file that is gone none at all.
            if let Some(stat) = stat.filter(|stat| stat.kind == FileKind::Regular) {
                listing.entry(rotated).or_default().push(Found {
                    name: name.to_owned(),
                    form,
                    stat,
                    is_cold,
                });
            }
        }
        Ok(())
    }

    /// Removes what a crash has left: compressions that have not ended, and rotated names that were
    /// made but not used.
    fn clean(&self, listing: &mut Listing) {
        for files in listing.values_mut() {
            files.retain(|found| {
                let left_over = match found.form {
                    Form::Temporary => true,
                    Form::Plain => found.stat.bytes == 0,
                    Form::Gzip | Form::Zstd => false,
                };
                !(left_over && self.remove_left_over(found))
            });
        }
    }

    /// Ends compressions that were cut short between the name of the compressed file and the removal of the plain one:
    /// one of both stays, the compressed one where it is whole.
    fn drop_twins(&self, listing: &mut Listing) {
        for files in listing.values_mut() {
            let is_plain = |found: &&Found| found.form == Form::Plain && !found.is_cold;
            let Some(plain) = files.iter().find(is_plain) else {
                continue;
            };
            let (plain, is_twin) = (plain.name.clone(), |found: &&Found| {
                let ending = found.name.strip_prefix(plain.name.as_str());
                matches!(ending, Some(".gz" | ".zst")) && !found.is_cold
            });
            let Some((twin, form)) = files
                .iter()
                .find(is_twin)
                .map(|twin| (twin.name.clone(), twin.form))
            else {
                continue;
            };
            let removed = drop_twin(
                self.storage.as_ref(),
                &self.dir,
                &plain,
                (&twin, form),
                &self.unsynced,
            );
            match removed {
                Ok(Some(name)) => files.retain(|found| found.name != name),
                Ok(None) => {}
                Err(cause) => self
                    .notices
                    .push(self.failed(FileOperation::Compress, &plain, cause)),
            }
        }
    }

    /// Removes a left-over that no process holds; whether it is gone. Since it was listed, a rotation may have given the
    /// name of an empty file to a log with lines: that one stays.
    fn remove_left_over(&self, found: &Found) -> bool {
        match lock_file(
            self.storage.as_ref(),
            self.dir_of(found),
            &found.name,
            OpenMode::ReadOnly,
        ) {
            Ok(Some((_, stat))) if found.form == Form::Plain && stat.bytes > 0 => false,
            Ok(Some(_locked)) => self.remove(found),
            Ok(None) => false,
            Err(cause) => {
                self.notices
                    .push(self.failed(FileOperation::Remove, &found.name, cause));
                false
            }
        }
    }

    /// Compresses or compacts what is plain, oldest first; whether it came to the end of the list.
    fn compress_all(&self, listing: &mut Listing, stop: &AtomicBool) -> bool {
        for files in listing.values_mut() {
            // An empty one is about to be the log.
            let is_due = |found: &Found| {
                found.form == Form::Plain
                    && found.stat.bytes > 0
                    && !found.is_cold
                    && !self.compact_files.has(&found.stat)
            };
            let Some(plain) = files.iter().position(is_due) else {
                continue;
            };
            // Relaxed: the flag carries no data.
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let name = files[plain].name.clone();
            let (how, storage) = (self.options.compress, self.storage.as_ref());
            let is_segment = is_segment_named(storage, &self.dir, &name);
            let outcome = match is_segment {
                true => compact(storage, &self.dir, &name, None, stop, &self.unsynced),
                false => compress(storage, &self.dir, &name, how, stop, &self.unsynced),
            };
            match outcome {
                Ok(Outcome::Done) if is_segment => {
                    if let Ok(stat) = storage.stat(&self.dir, Path::new(&name)) {
                        files[plain].stat = stat;
                        self.compact_files.note(&stat);
                    }
                }
                Ok(Outcome::Done) => {
                    files.swap_remove(plain);
                    self.add_compressed(files, &name);
                }
                Ok(Outcome::AsItIs | Outcome::Damaged) => self.compact_files.note(&files[plain].stat),
                Ok(Outcome::InUse) => {}
                Ok(Outcome::Stopped) => return false,
                Err(cause) => {
                    self.notices
                        .push(self.failed(FileOperation::Compress, &name, cause));
                }
            }
        }
        true
    }

    /// Treats files that are old enough: they go to the cold directory, or segments are compressed again where they are; whether it
    /// came to the end of the list.
    fn cool_old(&self, listing: &mut Listing, now_unix_s: i64, stop: &AtomicBool) -> bool {
        let rotated = &self.options.rotated;
        let after = rotated.cold_after.unwrap_or(COLD_AFTER);
        let is_old = |rotated: &Rotated| {
            u64::try_from(now_unix_s - rotated.unix_s).is_ok_and(|age_s| age_s > after.as_secs())
        };
        let old = listing.iter_mut().filter(|(rotated, _)| is_old(rotated));
        let mut old = old.map(|(_, files)| files);
        match self.cold() {
            Some(cold) => self.move_all_to_cold(&mut old, cold, stop),
            None if self.has_segments && rotated.cold_dir.is_none() && rotated.cold_after.is_some() => {
                self.compress_again(&mut old, stop)
            }
            None => true,
        }
    }

    /// Compresses segments with the level of cold ones, oldest first; whether it came to the end of the list.
    fn compress_again(&self, old: &mut dyn Iterator<Item = &mut Vec<Found>>, stop: &AtomicBool) -> bool {
        for files in old {
            let is_due = |found: &&mut Found| {
                found.form == Form::Plain && found.stat.bytes > 0 && !self.cold_files.has(&found.stat)
            };
            let Some(found) = files.iter_mut().find(is_due) else {
                continue;
            };
            // Relaxed: the flag carries no data.
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let storage = self.storage.as_ref();
            let outcome = match is_segment_named(storage, &self.dir, &found.name) {
                true => compact(
                    storage,
                    &self.dir,
                    &found.name,
                    Some(COLD_LEVEL),
                    stop,
                    &self.unsynced,
                ),
                false => Ok(Outcome::AsItIs),
            };
            match outcome {
                Ok(Outcome::Done) => {
                    if let Ok(stat) = storage.stat(&self.dir, Path::new(&found.name)) {
                        found.stat = stat;
                        self.compact_files.note(&stat);
                        self.cold_files.note(&stat);
                    }
                }
                Ok(Outcome::AsItIs | Outcome::Damaged) => self.cold_files.note(&found.stat),
                Ok(Outcome::InUse) => {}
                Ok(Outcome::Stopped) => return false,
                Err(cause) => self
                    .notices
                    .push(self.failed(FileOperation::Compress, &found.name, cause)),
            }
        }
        true
    }

    /// Moves files to the cold directory, oldest first; whether it came to the end of the list.
    fn move_all_to_cold(
        &self,
        old: &mut dyn Iterator<Item = &mut Vec<Found>>,
        cold: &File,
        stop: &AtomicBool,
    ) -> bool {
        for files in old {
            let is_hot =
                |found: &Found| !found.is_cold && found.form != Form::Temporary && found.stat.bytes > 0;
            let Some(hot) = files.iter().position(is_hot) else {
                continue;
            };
            // Relaxed: the flag carries no data.
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let name = files[hot].name.clone();
            let storage = self.storage.as_ref();
            match move_to_cold(storage, (&self.dir, cold), &name, stop, &self.unsynced) {
                Ok(Outcome::Done) => {
                    let found = files.swap_remove(hot);
                    let stat = storage.stat(cold, Path::new(&name)).unwrap_or(found.stat);
                    files.retain(|found| found.name != name);
                    files.push(Found {
                        stat,
                        is_cold: true,
                        ..found
                    });
                }
                Ok(Outcome::InUse | Outcome::AsItIs | Outcome::Damaged) => {}
                Ok(Outcome::Stopped) => return false,
                Err(cause) => self
                    .notices
                    .push(self.failed(FileOperation::MoveToCold, &name, cause)),
            }
        }
        true
    }

    /// Puts the compressed form of `name` in the list, for the rule by bytes.
    fn add_compressed(&self, files: &mut Vec<Found>, name: &str) {
        for (form, ending) in [(Form::Gzip, ".gz"), (Form::Zstd, ".zst")] {
            let name = format!("{name}{ending}");
            if files.iter().any(|found| found.name == name) {
                continue;
            }
            if let Ok(stat) = self.storage.stat(&self.dir, Path::new(&name)) {
                files.push(Found {
                    name,
                    form,
                    stat,
                    is_cold: false,
                });
            }
        }
    }

    /// Removes what the rules name, in each of its forms.
    fn retain(&self, listing: &mut Listing, rules: &FileOptions, now_unix_s: i64) {
        let complete = |found: &&Found| found.form != Form::Temporary;
        let sized: Vec<RotatedFile> = listing
            .iter()
            .filter(|(_, files)| files.iter().any(|found| complete(&found)))
            .map(|(rotated, files)| RotatedFile {
                rotated: *rotated,
                bytes: files.iter().filter(complete).map(|found| found.stat.bytes).sum(),
            })
            .collect();
        for rotated in to_remove(&sized, rules, now_unix_s) {
            let Some(files) = listing.get_mut(&rotated) else {
                continue;
            };
            files.retain(|found| {
                if found.form != Form::Temporary {
                    // By the rules it is not to be kept, and so not to be brought to the disk.
                    self.unsynced.settle(&found.stat);
                }
                found.form == Form::Temporary || !self.remove(found)
            });
        }
    }

    /// Removes a file; whether it is gone.
    fn remove(&self, found: &Found) -> bool {
        let removed = existing(self.storage.remove(self.dir_of(found), &found.name));
        let failed = |cause| self.failed(FileOperation::Remove, &found.name, cause);
        removed.map_err(|cause| self.notices.push(failed(cause))).is_ok()
    }

    fn failed(&self, doing: FileOperation, name: &str, cause: io::Error) -> FileError {
        FileError::io(doing, self.names.dir.join(name), cause)
    }
}

/// Takes the newest file out of the listing where it is plain: it is neither compressed nor counted as bytes before the
/// next one comes.
fn leave_newest_plain(listing: &mut Listing) {
    listing.retain(|_, files| !files.is_empty());
    let is_plain = |found: &Found| matches!(found.form, Form::Plain | Form::Temporary);
    if let Some(newest) = listing.last_entry()
        && newest.get().iter().all(is_plain)
    {
        newest.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::super::directory::LogDirectory;
    use super::super::storage::Disk;
    use super::*;

    /// A rotation gives its name to the log while the pass of the start is about to remove the empty file that had the
    /// name: the lines of the log were removed with it.
    #[test]
    fn lines_that_take_the_name_of_an_empty_file_are_not_removed_with_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = FileOptions::new(dir.path().join("app.log"));
        let directory = LogDirectory::open(&options, Arc::new(Disk), Notices::default()).expect("opened");
        let tidy = directory.tidy(&UnsyncedFiles::default(), false);
        let name = |number| {
            dir.path()
                .join(format!("app.2026-11-21T12-34-56Z.00000{number}.log"))
        };
        for number in [1, 2] {
            std::fs::write(name(number), "").expect("an empty file");
        }
        let mut listing = tidy.list().expect("listed");
        assert_eq!(listing.len(), 2);
        std::fs::write(name(1), "a line\n").expect("lines");
        tidy.clean(&mut listing);
        assert_eq!(std::fs::read_to_string(name(1)).expect("the lines"), "a line\n");
        assert!(!name(2).exists());
    }
}
