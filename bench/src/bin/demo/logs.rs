//! Paths of the logs that the demo leaves, how to read them, their last lines, and a query over one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logdrive_bench::{BenchError, Result};
use logdrive_query::{Pipeline, Query, Record};
use logdrive_reader::{Filter, LogFile, QueryScan, SegmentForm, Task};

/// Question to the log at the end.
const QUERY: &str = "* | top 5 by (module, level)";

/// Interval in which each part of the log is waited for.
const PART_TIMEOUT: Duration = Duration::from_secs(1);

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
    if let (Some(last), Some(name)) = (logs.last(), names.last()) {
        ask(last, name)?;
        println!("\nTo read one:\n  cargo run --release -p logdrive-cli -- cat {name}");
    }
    Ok(())
}

/// Asks a log, as `logdrive query` does, and prints the answer.
fn ask(log: &Path, name: &str) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| BenchError::new(format!("cannot query {name}: {error}"));
    let pipeline = Query::parse(QUERY).map_err(|error| failed(&error))?.pipeline(0);
    let start = Instant::now();
    let files = vec![LogFile::alone(log.to_path_buf())];
    let form = SegmentForm::default();
    let mut scan = QueryScan::start(files, &Filter::default(), &form, || Counted {
        own: pipeline.clone(),
        empty: pipeline.clone(),
    })
    .map_err(|error| failed(&error))?;
    let mut all = pipeline;
    while let Some(part) = scan.next_part(PART_TIMEOUT) {
        if let Some(error) = part.failures.first() {
            return Err(failed(error));
        }
        part.before
            .into_iter()
            .chain(part.made)
            .for_each(|made| all.merge(made));
    }
    println!("\nlogdrive query '{QUERY}' {name}");
    all.finish(&mut |record: &mut dyn Record| {
        let cells = record.row().cells;
        let pair = |(name, value): &(Box<[u8]>, Box<[u8]>)| {
            format!(
                "{}={}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            )
        };
        println!("  {}", cells.iter().map(pair).collect::<Vec<_>>().join(" "));
        ControlFlow::Continue(())
    });
    println!("  in {} ms", start.elapsed().as_millis());
    Ok(())
}

/// Groups of the records that one thread reads.
struct Counted {
    own: Pipeline,
    empty: Pipeline,
}

impl Task for Counted {
    type Made = Pipeline;

    fn take(&mut self, record: &mut dyn Record) -> ControlFlow<()> {
        self.own
            .push(record, &mut |_: &mut dyn Record| ControlFlow::Continue(()))
    }

    fn made(&mut self) -> Pipeline {
        std::mem::replace(&mut self.own, self.empty.clone())
    }
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
