//! A file system that fails: every request goes to a directory beside it, until it is set to hang, to fail, to shorten
//! writes, or to forget what was not synced.
//!
//! It is served by FUSE from a process of its own, so that its memory is not that of the program under test, and so
//! that killing either ends both: a program that serves the file system which it writes to could never be killed. The
//! kernel asks one request after the other, so while one write hangs, all else on it hangs, as on a dead disk.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, BufRead};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use logdrive_testkit::report;
use nix::mount::{MntFlags, umount2};

use crate::{BenchError, Result};

/// The role of the process: the directory with the files, and the place of the mount.
pub const SERVE: &str = "--role-slow-fs";
/// Message of the process once the file system is mounted.
pub const READY: &str = "ready";
/// Message when a write begins to hang.
pub const HANGING: &str = "hanging";
/// Makes writes hang from now on.
pub const HANG: &str = "hang";
/// Lets them continue, and ends any other fault.
pub const GO: &str = "go";
/// Makes writes fail with EIO from now on.
pub const EIO: &str = "eio";
/// Makes writes fail with ENOSPC from now on.
pub const ENOSPC: &str = "enospc";
/// Makes every write take only a part of its bytes from now on.
pub const SHORTEN: &str = "shorten";
/// Makes every write take its time, and only a part of its bytes, from now on.
pub const SLOW: &str = "slow";
/// Keeps a copy of each file as of its last sync from now on: what a power cut leaves.
pub const FORGET: &str = "forget";
/// The same, and syncs fail with EIO, of which nothing is kept.
pub const FAIL_SYNCS: &str = "fail_syncs";
/// Answer to a command that has taken effect.
pub const TOLD: &str = "told";

/// Time of a slow write.
const SLOW_WRITE: Duration = Duration::from_millis(20);

/// The kernel asks anew each time: nothing here is worth remembering.
const NO_TIME: Duration = Duration::ZERO;

/// Serves a directory at another and obeys standard input, line by line, until its end.
pub fn serve(words: &[String]) -> Result<()> {
    let [store, mount] = words else {
        return Err(BenchError::new("a directory and a place to mount it are wanted"));
    };
    let (store, mount) = (Path::new(store), Path::new(mount));
    let gate = Arc::new(Gate::default());
    let files = SlowFs {
        store: store.to_path_buf(),
        durable: store.with_extension("durable"),
        gate: gate.clone(),
        known: Mutex::default(),
    };
    let session = fuser::spawn_mount(files, mount, &Config::default())?;
    report(READY);
    for line in io::stdin().lock().lines() {
        gate.obey(match line?.as_str() {
            HANG => Fault::Hang,
            GO => Fault::None,
            EIO => Fault::Error(libc::EIO),
            ENOSPC => Fault::Error(libc::ENOSPC),
            SHORTEN => Fault::Shorten,
            SLOW => Fault::Slow,
            FORGET => Fault::Forget,
            FAIL_SYNCS => Fault::FailSyncs,
            other => {
                return Err(BenchError::new(format!(
                    "{other} is no command of this file system"
                )));
            }
        });
    }
    gate.set(Fault::None);
    // Files that are still open there do not matter: the end of this process makes them fail.
    if umount2(mount, MntFlags::MNT_DETACH).is_ok() {
        // Its drop would wait for whoever has such a file.
        std::mem::forget(session);
        return Ok(());
    }
    Ok(session.umount_and_join()?)
}

/// Answer to the kernel.
type Answer<T> = std::result::Result<T, Errno>;

/// Present fault of the file system.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Fault {
    #[default]
    None,
    Hang,
    /// Writes fail with this number.
    Error(i32),
    Shorten,
    Slow,
    Forget,
    FailSyncs,
}

/// Gate that a write has to pass.
#[derive(Debug, Default)]
struct Gate {
    fault: Mutex<Fault>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, fault: Fault) {
        *self.fault() = fault;
        self.changed.notify_all();
    }

    /// Sets the fault of a command, and answers it before any write can report the fault.
    fn obey(&self, command: Fault) {
        let mut fault = self.fault();
        *fault = command;
        report(TOLD);
        self.changed.notify_all();
    }

    fn fault(&self) -> MutexGuard<'_, Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while writes hang, and returns the fault that the write has.
    fn pass(&self) -> Fault {
        let mut fault = self.fault();
        if *fault == Fault::Hang {
            report(HANGING);
        }
        while *fault == Fault::Hang {
            fault = self.changed.wait(fault).unwrap_or_else(PoisonError::into_inner);
        }
        *fault
    }
}

/// A flat directory whose writes may hang or fail.
#[derive(Debug)]
struct SlowFs {
    store: PathBuf,
    /// Copies of files as of their last sync.
    durable: PathBuf,
    gate: Arc<Gate>,
    known: Mutex<Known>,
}

/// Files that the kernel knows by number.
#[derive(Debug, Default)]
struct Known {
    names: HashMap<INodeNo, OsString>,
    files: HashMap<FileHandle, Arc<File>>,
    last_handle: u64,
}

impl SlowFs {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, ino: INodeNo) -> Answer<PathBuf> {
        if ino == INodeNo::ROOT {
            return Ok(self.store.clone());
        }
        let known = self.known();
        let name = known.names.get(&ino).ok_or(Errno::ENOENT)?;
        Ok(self.store.join(name))
    }

    fn file(&self, handle: FileHandle) -> Answer<Arc<File>> {
        self.known().files.get(&handle).cloned().ok_or(Errno::EBADF)
    }

    fn keep(&self, file: File) -> FileHandle {
        let mut known = self.known();
        known.last_handle += 1;
        let handle = FileHandle(known.last_handle);
        known.files.insert(handle, Arc::new(file));
        handle
    }

    /// The attributes of a name, under which its number is known from now on.
    fn find(&self, name: &OsStr) -> Answer<FileAttr> {
        let attr = attributes(&self.store.join(name).symlink_metadata()?);
        self.known().names.insert(attr.ino, name.to_os_string());
        Ok(attr)
    }

    fn attributes(&self, ino: INodeNo) -> Answer<FileAttr> {
        let attr = attributes(&self.path(ino)?.symlink_metadata()?);
        Ok(FileAttr { ino, ..attr })
    }

    fn change(&self, ino: INodeNo, size: Option<u64>, mode: Option<u32>) -> Answer<FileAttr> {
        let path = self.path(ino)?;
        if let Some(bytes) = size {
            File::options().write(true).open(&path)?.set_len(bytes)?;
        }
        if let Some(mode) = mode {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        }
        self.attributes(ino)
    }

    fn create_file(&self, name: &OsStr, mode: u32) -> Answer<(FileAttr, FileHandle)> {
        // The kernel has looked the name up before, so that this is always a new file.
        let path = self.store.join(name);
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = options.open(path)?;
        Ok((self.find(name)?, self.keep(file)))
    }

    fn open_file(&self, ino: INodeNo) -> Answer<FileHandle> {
        let path = self.path(ino)?;
        Ok(self.keep(File::options().read(true).write(true).open(path)?))
    }

    fn read_file(&self, handle: FileHandle, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let mut bytes = vec![0; size as usize];
        let read = self.file(handle)?.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn write_file(&self, handle: FileHandle, offset: u64, bytes: &[u8]) -> Answer<u32> {
        let fault = self.gate.pass();
        let taken = match fault {
            Fault::Error(number) => return Err(Errno::from_i32(number)),
            Fault::Shorten | Fault::Slow => &bytes[..bytes.len().div_ceil(2)],
            Fault::None | Fault::Hang | Fault::Forget | Fault::FailSyncs => bytes,
        };
        if fault == Fault::Slow {
            std::thread::sleep(SLOW_WRITE);
        }
        self.file(handle)?.write_all_at(taken, offset)?;
        u32::try_from(taken.len()).map_err(|_| Errno::EFBIG)
    }

    /// Keeps what the file has now, where power cuts are to be survived.
    fn sync_file(&self, ino: INodeNo) -> Answer<()> {
        match *self.gate.fault() {
            Fault::Error(number) => return Err(Errno::from_i32(number)),
            Fault::FailSyncs => return Err(Errno::EIO),
            _ => {}
        }
        let path = self.path(ino)?;
        if *self.gate.fault() == Fault::Forget && path.is_file() {
            std::fs::create_dir_all(&self.durable)?;
            std::fs::copy(&path, self.durable.join(path.file_name().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// Renames at once, also what is durable: journals keep the order of names.
    fn rename_file(&self, from: &OsStr, to: &OsStr) -> Answer<()> {
        std::fs::rename(self.store.join(from), self.store.join(to))?;
        // Without a durable file of that name there is nothing to rename.
        let _ = std::fs::rename(self.durable.join(from), self.durable.join(to));
        let mut known = self.known();
        let names = known.names.values_mut();
        names
            .filter(|name| *name == from)
            .for_each(|name| *name = to.to_os_string());
        Ok(())
    }

    fn entries(&self) -> Answer<Vec<(INodeNo, FileType, OsString)>> {
        let mut entries = vec![
            (INodeNo::ROOT, FileType::Directory, OsString::from(".")),
            (INodeNo::ROOT, FileType::Directory, OsString::from("..")),
        ];
        for entry in self.store.read_dir()? {
            let entry = entry?;
            let attr = attributes(&entry.metadata()?);
            entries.push((attr.ino, attr.kind, entry.file_name()));
        }
        Ok(entries)
    }
}

fn attributes(metadata: &Metadata) -> FileAttr {
    let modified = metadata.modified().unwrap_or(std::time::UNIX_EPOCH);
    let kind = match metadata.is_dir() {
        true => FileType::Directory,
        false => FileType::RegularFile,
    };
    FileAttr {
        ino: INodeNo(metadata.ino()),
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: modified,
        kind,
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for SlowFs {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(name) {
            Ok(attr) => reply.entry(&NO_TIME, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Ok(attr) => reply.attr(&NO_TIME, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.change(ino, size, mode) {
            Ok(attr) => reply.attr(&NO_TIME, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn create(&self, _: &Request, _: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        match self.create_file(name, mode) {
            Ok((attr, handle)) => {
                let flags = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&NO_TIME, &attr, Generation(0), handle, flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_file(ino) {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_file(handle, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_file(handle, offset, bytes) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.sync_file(ino) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        from: &OsStr,
        _: INodeNo,
        to: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.contains(RenameFlags::RENAME_NOREPLACE) && self.store.join(to).exists() {
            return reply.error(Errno::EEXIST);
        }
        match self.rename_file(from, to) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.known().files.remove(&handle);
        reply.ok();
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match std::fs::remove_file(self.store.join(name)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = match self.entries() {
            Ok(entries) => entries,
            Err(error) => return reply.error(error),
        };
        for (next, (ino, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
