//! The near end of a [file system that stops answering](super::slow_fs): starts its process and tells it when to hang.
//!
//! Whoever may mounts it in a mount namespace of its own, which nobody else sees and which is gone with its last
//! process, however that ends.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;

use super::slow_fs::{GO, HANG, HANGING, READY};
use crate::{BenchError, Result};

/// The subject whose measurement is to serve the file system.
pub const SERVER: &str = "slow-fs";

const DEVICE: &str = "/dev/fuse";
const HOW_TO_GET: &str = "`modprobe fuse`, and root or the package fuse3";

/// A mounted file system whose writes can be made to hang. Dropping it unmounts it and removes its files.
#[derive(Debug)]
pub struct SlowDisk {
    mounted: PathBuf,
    store: PathBuf,
    server: Child,
    orders: Option<ChildStdin>,
    news: BufReader<ChildStdout>,
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
        let place = |kind: &str| {
            let path = dir.join(format!("slow-{}.{kind}", std::process::id()));
            std::fs::create_dir_all(&path).map_err(BenchError::io("create", &path))?;
            Ok(path)
        };
        let (mounted, store) = (place("mnt")?, place("store")?);
        let job = json!({"subject": SERVER, "params": {}, "settings": {"mount": mounted, "store": store}});
        let mut server = Command::new(program)
            .args(["--child", "hang", SERVER, &job.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::io("start", program))?;
        let (Some(orders), Some(news)) = (server.stdin.take(), server.stdout.take()) else {
            return Err(unusable("its process has no pipes".to_owned()));
        };
        let mut disk = SlowDisk {
            mounted,
            store,
            server,
            orders: Some(orders),
            news: BufReader::new(news),
        };
        disk.wait_for(READY)?;
        Ok(disk)
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

    /// From now on, writes hang.
    pub fn hang(&mut self) -> Result<()> {
        self.order(HANG)
    }

    /// Returns when a write hangs.
    pub fn wait_until_hanging(&mut self) -> Result<()> {
        self.wait_for(HANGING)
    }

    /// Lets hanging writes go on.
    pub fn go(&mut self) -> Result<()> {
        self.order(GO)
    }

    fn order(&mut self, word: &str) -> Result<()> {
        let Some(orders) = &mut self.orders else {
            return Err(unusable("its process has ended".to_owned()));
        };
        writeln!(orders, "{word}").map_err(BenchError::io("tell", &self.mounted))
    }

    fn wait_for(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        while line.trim() != word {
            line.clear();
            let read = self
                .news
                .read_line(&mut line)
                .map_err(BenchError::io("hear of", &self.mounted))?;
            if read == 0 {
                return Err(unusable(format!("its process has ended before it was {word}")));
            }
        }
        Ok(())
    }
}

fn unusable(why: String) -> BenchError {
    BenchError::Usage(format!(
        "no file system of our own by FUSE: {why}; it takes {HOW_TO_GET}"
    ))
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // The end of its orders ends the server, which unmounts. Whatever fails here leaves files in the directory for
        // scratch, and no more.
        drop(self.orders.take());
        let _ = self.server.wait();
        let _ = std::fs::remove_dir(&self.mounted);
        let _ = std::fs::remove_dir_all(&self.store);
    }
}
