//! Helpers that the tests of the file sink share: chunks of numbered lines, and the lines that a log holds.
#![allow(dead_code)] // each test binary uses a part of it

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logdrive_drain::file::{Disk, FileOptions, LogFile, Placement, Storage};

/// 2026-11-21T12:34:56Z.
pub(crate) const NOW_S: u64 = 1_795_264_496;
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const NOW_NS: u64 = NOW_S * SECOND_NS;

pub(crate) fn open(options: &FileOptions) -> LogFile {
    open_on(options, Arc::new(Disk))
}

pub(crate) fn open_on(options: &FileOptions, storage: Arc<dyn Storage>) -> LogFile {
    LogFile::open(options, storage, NOW_NS).expect("the log opens")
}

/// Places and writes a chunk.
pub(crate) fn put(file: &mut LogFile, bytes: &[u8], now_ns: u64) -> Placement {
    let placement = file.place(bytes.len() as u64, now_ns).expect("a place");
    file.write_at(placement, 0, bytes).expect("written");
    placement
}

pub(crate) fn settle(file: &LogFile) {
    assert!(file.wait_idle(Duration::from_secs(60)), "the tidying ends");
}

pub(crate) fn notices(file: &mut LogFile) -> Vec<String> {
    std::iter::from_fn(|| file.notice()).collect()
}

/// Names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// The bytes of a log file, decompressed if its name says so.
pub(crate) fn content(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).expect("a file");
    match path.extension().and_then(|extension| extension.to_str()) {
        #[cfg(feature = "gzip")]
        Some("gz") => {
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&bytes[..]);
            std::io::Read::read_to_end(&mut decoder, &mut plain).expect("whole gzip");
            plain
        }
        #[cfg(feature = "zstd")]
        Some("zst") => zstd::decode_all(&bytes[..]).expect("whole zstd"),
        _ if logdrive_store::is_segment(&bytes) => lines_of_segment(bytes),
        _ => bytes,
    }
}

/// Lines as a segment of small blocks.
pub(crate) fn small_blocks(lines: &[u8]) -> Vec<u8> {
    let mut writer = logdrive_store::SegmentWriter::new(Vec::new());
    for (number, line) in lines.trim_ascii_end().split(|byte| *byte == b'\n').enumerate() {
        writer.line(None, NOW_NS + number as u64, line).expect("memory");
        if number % 10 == 9 {
            writer.flush().expect("memory");
        }
    }
    writer.flush().expect("memory");
    std::mem::take(writer.file_mut())
}

/// Number of blocks of a segment.
pub(crate) fn block_count(path: &Path) -> usize {
    let file = fs::File::open(path).expect("a file");
    let (mut reader, mut count) = (logdrive_store::SegmentReader::new(file), 0);
    while reader.next_block(|_| true).expect("a file").is_some() {
        count += 1;
    }
    assert_eq!(reader.take_damages(), []);
    count
}

fn lines_of_segment(bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len() as u64;
    let mut reader = logdrive_store::SegmentReader::new(std::io::Cursor::new(bytes));
    let mut lines = Vec::new();
    while let Some(block) = reader.next_block(|_| true).expect("memory") {
        let rows = block.rows().expect("rows");
        let mut rows = logdrive_store::Rows::new(&rows);
        while let Some(row) = rows.next_row().expect("rows") {
            lines.extend_from_slice(row.payload);
            lines.push(b'\n');
        }
    }
    assert_eq!(reader.take_damages(), []);
    assert_eq!(reader.offset(), length, "the last block is whole");
    lines
}

/// All lines of all files of a directory, sorted; fails on a line without an end.
pub(crate) fn lines(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for name in names(dir) {
        let text = String::from_utf8(content(&dir.join(&name))).expect("text");
        assert!(
            text.is_empty() || text.ends_with('\n'),
            "{name} has a torn last line: {text:?}"
        );
        lines.extend(text.lines().map(str::to_owned));
    }
    lines.sort();
    lines
}

/// Chunks of numbered lines, each different from all others.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    pub(crate) lines: u64,
}

impl Chunks {
    pub(crate) fn next(&mut self, count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            self.lines += 1;
            let filling = "x".repeat((self.lines % 23) as usize);
            bytes.extend_from_slice(format!("line {:06} {filling}\n", self.lines).as_bytes());
        }
        bytes
    }
}

/// The lines of a chunk.
pub(crate) fn lines_of(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Mounts a small tmpfs that goes with the value; nothing, with a note, where that is not permitted.
pub(crate) struct SmallDisk {
    pub(crate) dir: tempfile::TempDir,
}

impl SmallDisk {
    pub(crate) fn mount(bytes: u64) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().expect("a directory");
        let size = format!("size={bytes},mode=0755");
        let mut mount = std::process::Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "logdrive-test"])
            .arg(dir.path());
        match mount.output() {
            Ok(output) if output.status.success() => Some(SmallDisk { dir }),
            other => {
                println!("skipped: no tmpfs can be mounted here ({other:?})");
                None
            }
        }
    }

    pub(crate) fn remount(&self, how: &str) {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-o", &format!("remount,{how}")]).arg(self.dir.path());
        assert!(mount.status().expect("mount runs").success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.dir.path())
            .status();
        println!("unmounted: {status:?}");
    }
}
