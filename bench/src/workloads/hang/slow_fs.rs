//! A file system that stops answering: every request goes to a directory beside it, until it is set to hang.
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
    LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
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
/// Lets them continue.
pub const GO: &str = "go";

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
        gate: gate.clone(),
        known: Mutex::default(),
    };
    let session = fuser::spawn_mount(files, mount, &Config::default())?;
    report(READY);
    for line in io::stdin().lock().lines() {
        match line?.as_str() {
            HANG => gate.shut(true),
            GO => gate.shut(false),
            other => {
                return Err(BenchError::new(format!(
                    "{other} is no command of this file system"
                )));
            }
        }
    }
    gate.shut(false);
    // Files that are still open there do not matter: the end of this process makes them fail.
    if umount2(mount, MntFlags::MNT_DETACH).is_ok() {
        return Ok(());
    }
    Ok(session.umount_and_join()?)
}

/// Answer to the kernel.
type Answer<T> = std::result::Result<T, Errno>;

/// Gate that a write has to pass.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap_or_else(PoisonError::into_inner) = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut is_shut = self.is_shut.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_shut {
            report(HANGING);
        }
        while *is_shut {
            is_shut = self.changed.wait(is_shut).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A flat directory whose writes may hang.
#[derive(Debug)]
struct SlowFs {
    store: PathBuf,
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
        self.gate.pass();
        self.file(handle)?.write_all_at(bytes, offset)?;
        u32::try_from(bytes.len()).map_err(|_| Errno::EFBIG)
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

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
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
