//! Control of a [file system that stops answering](super::slow_fs): starts its process and makes it hang.
//!
//! A process with the permission mounts it in a mount namespace of its own, which no other process sees and which ends
//! with its last process, however that ends.

use std::path::{Path, PathBuf};
use std::process::Command;

use logdrive_testkit::Process;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::slow_fs::{GO, HANG, HANGING, READY, SERVE, TOLD};
use crate::{BenchError, Result};

const DEVICE: &str = "/dev/fuse";
const HOW_TO_GET: &str = "`modprobe fuse`, and root or the package fuse3";

/// A mounted file system whose writes can be made to hang. Dropping it unmounts it and removes its files.
#[derive(Debug)]
pub struct SlowDisk {
    mounted: PathBuf,
    store: PathBuf,
    server: Process,
}

impl SlowDisk {
    /// Mounts one below `dir`. `program` is the benchmark program, which serves it.
    ///
    /// # Errors
    /// FUSE is missing or may not be used; the message says so.
    pub fn mount(program: &Path, dir: &Path) -> Result<SlowDisk> {
        if !Path::new(DEVICE).exists() {
            return Err(unusable(format!("{DEVICE} is missing")));
        }
        // A user who may not have a mount namespace may still mount with `fusermount3`.
        if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
                .map_err(|error| unusable(format!("the mounts cannot be kept to ourselves: {error}")))?;
        }
        let place = |kind: &str| -> Result<PathBuf> {
            let path = dir.join(format!("slow-{}.{kind}", std::process::id()));
            std::fs::create_dir_all(&path).map_err(BenchError::io("create", &path))?;
            Ok(path)
        };
        let (mounted, store) = (place("mnt")?, place("store")?);
        let mut command = Command::new(program);
        command.arg(SERVE).args([&store, &mounted]);
        let mut disk = SlowDisk {
            mounted,
            store,
            server: Process::spawn(&mut command),
        };
        while let Some(line) = disk.server.next_line() {
            if line == READY {
                return Ok(disk);
            }
        }
        Err(unusable(format!("its process has ended before it was {READY}")))
    }

    /// Path that programs write to.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.mounted
    }

    /// Path that holds what was written, whether it answers or not.
    #[must_use]
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// Path that holds what a power cut leaves, once the file system was told to forget the rest.
    #[must_use]
    pub fn durable(&self) -> PathBuf {
        self.store.with_extension("durable")
    }

    /// Sends a command of [`super::slow_fs`], and blocks until it has taken effect.
    pub fn tell(&mut self, command: &str) {
        self.server.send(command);
        self.server.expect(TOLD);
    }

    /// Makes every write hang that begins after the call.
    pub fn hang(&mut self) {
        self.tell(HANG);
    }

    /// Returns when a write hangs.
    pub fn wait_until_hanging(&mut self) {
        self.server.expect(HANGING);
    }

    /// Lets hanging writes go on.
    pub fn go(&mut self) {
        self.tell(GO);
    }
}

fn unusable(why: String) -> BenchError {
    BenchError::new(format!(
        "no file system of our own by FUSE: {why}; it takes {HOW_TO_GET}"
    ))
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // The end of its input ends the server, which unmounts. Whatever fails here leaves files in the directory for
        // scratch, and no more.
        self.server.close_input();
        self.server.wait();
        let _ = std::fs::remove_dir(&self.mounted);
        let _ = std::fs::remove_dir_all(&self.store);
        let _ = std::fs::remove_dir_all(self.durable());
    }
}
