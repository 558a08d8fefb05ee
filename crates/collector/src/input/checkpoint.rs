//! A checkpoint: the place in a source up to which records were read, the numbers under which they go to the collector, and
//! the last batches themselves. It is on the disk before they are sent, so that after any end the same records go under the
//! same numbers, and the collector leaves out those that it has.

use crate::error::CollectorError;
use crate::limits::CHECKPOINT_BYTES_MAX;
use crate::send::Payload;
use logdrive_ring::clock::unix_ns;
use logdrive_ship::forward::files::{make_directory, private, replace_durably};
use logdrive_ship::forward::new_session;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// First word of the file; the version is its last digit.
const MAGIC: &str = "logdrive-input-1";

/// State of an input that can be read again from a place.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) session: u128,
    pub(crate) epoch: u64,
    /// Number of the first record of the batches.
    pub(crate) number: u64,
    /// Place behind the records of the batches, as the source writes it.
    pub(crate) position: Value,
    pub(crate) batches: Vec<Payload>,
}

impl Checkpoint {
    pub(crate) fn records(&self) -> u64 {
        self.batches.iter().map(|batch| u64::from(batch.count)).sum()
    }
}

/// File of a checkpoint, which one input has at a time.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    path: PathBuf,
    /// Address of the input.
    address: String,
    /// Locked while this exists.
    _lock: File,
}

impl CheckpointFile {
    /// Takes the lock of the file for this input in a directory, and reads the checkpoint or makes a new one.
    ///
    /// # Errors
    /// When another process has it, or it cannot be read.
    pub(crate) fn open(directory: &Path, address: &str) -> Result<(Self, Checkpoint), CollectorError> {
        let name = format!("input-{:08x}", crc32c::crc32c(address.as_bytes()));
        let path = directory.join(format!("{name}.state"));
        make_directory(directory).map_err(CollectorError::file("make", directory))?;
        let lock_path = directory.join(format!("{name}.lock"));
        let lock = private()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path);
        let lock = lock.map_err(CollectorError::file("open", &lock_path))?;
        lock.try_lock().map_err(|_| CollectorError::InputInUse {
            address: address.to_owned(),
            path: lock_path,
        })?;
        let file = Self {
            path,
            address: address.to_owned(),
            _lock: lock,
        };
        let checkpoint = match file.read()? {
            Some(checkpoint) => checkpoint,
            None => Checkpoint {
                session: new_session().map_err(|cause| CollectorError::Random { cause })?,
                epoch: unix_ns(),
                number: 0,
                position: Value::Null,
                batches: Vec::new(),
            },
        };
        Ok((file, checkpoint))
    }

    fn read(&self) -> Result<Option<Checkpoint>, CollectorError> {
        let file = match private().read(true).open(&self.path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(CollectorError::file("open", &self.path))?,
        };
        let mut bytes = Vec::new();
        let read = file.take(CHECKPOINT_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(CollectorError::file("read", &self.path))?;
        let checkpoint = decode(&bytes, &self.address).ok_or_else(|| CollectorError::Checkpoint {
            path: self.path.clone(),
            address: self.address.clone(),
        })?;
        Ok(Some(checkpoint))
    }

    /// Writes the checkpoint in the place of the one before; it is on the disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn save(&self, checkpoint: &Checkpoint) -> Result<(), CollectorError> {
        let head = encode_head(checkpoint, &self.address);
        let batches = checkpoint.batches.iter().map(|batch| batch.bytes.as_slice());
        let parts: Vec<&[u8]> = std::iter::once(head.as_bytes()).chain(batches).collect();
        replace_durably(&self.path, &parts).map_err(CollectorError::file("write", &self.path))
    }
}

/// The first line: all but the bytes of the batches, which follow it.
fn encode_head(checkpoint: &Checkpoint, address: &str) -> String {
    let sizes: Vec<(u32, usize)> = checkpoint
        .batches
        .iter()
        .map(|batch| (batch.count, batch.bytes.len()))
        .collect();
    let checksum = checkpoint
        .batches
        .iter()
        .fold(0, |sum, batch| crc32c::crc32c_append(sum, &batch.bytes));
    let head = json!({
        "version": MAGIC,
        "address": address,
        "session": format!("{:032x}", checkpoint.session),
        "epoch": checkpoint.epoch,
        "number": checkpoint.number,
        "position": checkpoint.position,
        "batches": sizes,
        "checksum": checksum,
    });
    format!("{head}\n")
}

fn decode(bytes: &[u8], address: &str) -> Option<Checkpoint> {
    let end = memchr::memchr(b'\n', bytes)?;
    let (head, mut rest) = (bytes.get(..end)?, bytes.get(end + 1..)?);
    let mut head: Value = serde_json::from_slice(head).ok()?;
    if head.get("version")? != MAGIC || head.get("address")? != address {
        return None;
    }
    let mut batches = Vec::new();
    let mut checksum = 0;
    for size in head.get("batches")?.as_array()? {
        let count = u32::try_from(size.get(0)?.as_u64()?).ok()?;
        let length = usize::try_from(size.get(1)?.as_u64()?).ok()?;
        let (batch, after) = rest.split_at_checked(length)?;
        rest = after;
        checksum = crc32c::crc32c_append(checksum, batch);
        batches.push(Payload {
            count,
            bytes: batch.to_vec(),
            starts: Vec::new(),
        });
    }
    if head.get("checksum")?.as_u64()? != u64::from(checksum) || !rest.is_empty() {
        return None;
    }
    Some(Checkpoint {
        session: u128::from_str_radix(head.get("session")?.as_str()?, 16).ok()?,
        epoch: head.get("epoch")?.as_u64()?,
        number: head.get("number")?.as_u64()?,
        position: head.get_mut("position")?.take(),
        batches,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_reads_back_has_one_owner_and_is_no_other_inputs() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = |address: &str| CheckpointFile::open(directory.path(), address);
        let (file, mut checkpoint) = open("journald://").expect("a checkpoint");
        assert!(matches!(
            open("journald://"),
            Err(CollectorError::InputInUse { .. })
        ));
        assert!(open("kafka://x/y").is_ok());
        checkpoint.number = 7;
        checkpoint.position = json!({"cursor": "s=1"});
        for (count, bytes) in [(2, b"a\nb".to_vec()), (1, Vec::new())] {
            checkpoint.batches.push(Payload {
                count,
                bytes,
                starts: Vec::new(),
            });
        }
        file.save(&checkpoint).expect("written");
        let (path, session) = (file.path.clone(), checkpoint.session);
        drop(file);
        let (_file, read) = open("journald://").expect("a checkpoint");
        assert_eq!((read.session, read.number, read.records()), (session, 7, 3));
        assert_eq!(read.position["cursor"], "s=1");
        assert_eq!(read.batches[0].bytes, b"a\nb");
        let whole = std::fs::read(&path).expect("read");
        for length in 0..whole.len() {
            assert!(decode(&whole[..length], "journald://").is_none(), "{length}");
        }
        assert!(decode(&whole, "journald://").is_some() && decode(&whole, "files:///x").is_none());
    }
}
