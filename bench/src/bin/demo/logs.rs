//! Paths of the logs that the demo leaves, how to read them, and their last lines.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use logdrive_bench::{BenchError, Result};

/// The end of a log that is searched for its last lines.
const TAIL_BYTES: u64 = 16 * 1024;
const TAIL_LINES: usize = 2;
const SHOWN_CHARS: usize = 160;

/// Prints the paths of the logs and their last lines.
pub(crate) fn print(logs: &[PathBuf]) -> Result<()> {
    let logs: Vec<PathBuf> = logs.iter().map(|log| shortened(log)).collect();
    let names: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
    println!("\nThe logs stay in {}.", names.join(" and "));
    for log in &logs {
        println!("\nThe last lines of {}:", log.display());
        for line in last_lines(log)? {
            println!("  {line}");
        }
    }
    if let Some(last) = names.last() {
        println!("\nTo read one:\n  cargo run --release -p logdrive-cli -- cat {last}");
    }
    Ok(())
}

/// The path as seen from the current directory, where it lies below it.
fn shortened(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf))
        .unwrap_or_else(|| path.to_path_buf())
}

fn last_lines(log: &Path) -> Result<Vec<String>> {
    let mut text = Vec::new();
    File::open(log)
        .and_then(|mut file| {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
            file.take(TAIL_BYTES).read_to_end(&mut text)
        })
        .map_err(BenchError::io("read", log))?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(TAIL_LINES)..]
        .iter()
        .map(|line| cut(line))
        .collect())
}

fn cut(line: &str) -> String {
    let mut shown: String = line.chars().take(SHOWN_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}
