//! A query over files of any form: their parts are looked at on all cores, and what the tasks made of them comes in order.

use super::block_batch::{BlockError, LazyBlock};
use super::block_scan::{BlockScan, BorderLines};
use super::in_order::{InOrder, Waited};
use super::query_parts::{PartSource, QueryPart, QueryParts};
use super::task::Task;
use super::text_scan::TextScan;
use crate::error::ReadError;
use crate::filter::{Filter, LineFilter};
use crate::limits::{PARTS_AHEAD, SCAN_THREADS_MAX};
use crate::log_files::LogFile;
use crate::record_values::{LazyRecord, QueriedRecord};
use logdrive_drain::layout::{LayoutError, Style};
use std::path::Path;
use std::time::Duration;

/// What a task made of a part of the files.
#[derive(Debug)]
pub struct QueriedPart<M> {
    /// Of the record that began before the part, and ended with its first lines.
    pub before: Option<M>,
    /// Of the records of the part.
    pub made: Option<M>,
    /// Bytes of the files up to the end of the part.
    pub bytes: u64,
    /// Errors of what could not be read.
    pub failures: Vec<ReadError>,
    /// Whether nothing came in time.
    pub is_idle: bool,
}

/// Result of a part as its thread gives it.
struct PartResult<M> {
    made: Option<M>,
    border: Option<BorderLines>,
    bytes: u64,
    failures: Vec<ReadError>,
}

/// A query at work.
///
/// ```
/// use logdrive_query::Record;
/// use logdrive_reader::{Filter, QueryScan, Task};
/// use std::ops::ControlFlow;
/// struct Count(u64);
/// impl Task for Count {
///     type Made = u64;
///     fn take(&mut self, _: &mut dyn Record) -> ControlFlow<()> {
///         self.0 += 1;
///         ControlFlow::Continue(())
///     }
///     fn made(&mut self) -> u64 {
///         std::mem::take(&mut self.0)
///     }
/// }
/// let mut scan = QueryScan::start(Vec::new(), &Filter::default(), &Default::default(), || Count(0))?;
/// let second = std::time::Duration::from_secs(1);
/// let end = scan.next_part(second).and_then(|part| part.before);
/// assert_eq!(end, Some(0));
/// # Ok::<(), logdrive_reader::ReadError>(())
/// ```
pub struct QueryScan<T: Task> {
    parts: InOrder<PartResult<T::Made>>,
    /// For records of text that lie in two blocks.
    task: T,
    blocks: BlockScan,
    open: Vec<u8>,
    /// Whether the lines that are open begin with the head of a record.
    is_record: bool,
    is_over: bool,
}

impl<T: Task> std::fmt::Debug for QueryScan<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QueryScan")
    }
}

/// Form in which records of segments are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SegmentForm {
    /// Lines for people.
    #[default]
    Text,
    /// JSON lines.
    Json,
    /// Pairs.
    Logfmt,
}

impl SegmentForm {
    fn style(self) -> Style {
        match self {
            Self::Text => Style::Text,
            Self::Json => Style::Json,
            Self::Logfmt => Style::Logfmt,
        }
    }
}

impl<T: Task> QueryScan<T> {
    /// Starts the threads, each with a task of its own.
    ///
    /// # Errors
    /// When layouts of segments cannot be made.
    pub fn start(
        files: Vec<LogFile>,
        filter: &Filter,
        form: &SegmentForm,
        mut task: impl FnMut() -> T,
    ) -> Result<Self, ReadError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let worker = |task: T| -> Result<_, LayoutError> {
            let mut worker = Worker {
                text: TextScan::new(filter.clone()),
                lines: LineFilter::new(filter.clone()),
                blocks: BlockScan::new(filter.clone(), form.style())?,
                memory: Vec::new(),
                task,
            };
            Ok(move |part: QueryPart| worker.work(part))
        };
        let workers = (0..cores.min(SCAN_THREADS_MAX)).map(|_| worker(task()));
        let workers: Vec<_> = workers.collect::<Result<_, _>>()?;
        let mut parts = QueryParts::new(files, filter.clone());
        let window = 2 * PARTS_AHEAD * workers.len() as u64;
        Ok(Self {
            parts: InOrder::start(workers, window, move || parts.next_part()),
            task: task(),
            blocks: BlockScan::new(filter.clone(), form.style())?,
            open: Vec::new(),
            is_record: false,
            is_over: false,
        })
    }

    /// Waits so long for what was made of the next part. `None`: there are no more. Where the time is over before, the part is of
    /// nothing.
    pub fn next_part(&mut self, timeout: Duration) -> Option<QueriedPart<T::Made>> {
        let nothing = |before, is_idle| QueriedPart {
            before,
            is_idle,
            made: None,
            bytes: 0,
            failures: Vec::new(),
        };
        let result = match self.parts.next_within(timeout) {
            Waited::Result(result) => result,
            Waited::TimedOut => return Some(nothing(None, true)),
            Waited::End if std::mem::replace(&mut self.is_over, true) => return None,
            Waited::End => {
                self.close();
                return Some(nothing(Some(self.task.made()), false));
            }
        };
        let before = match result.border {
            Some(border) => self.join(border),
            // A part of another form begins with a record.
            None => !self.open.is_empty() && self.close(),
        };
        Some(QueriedPart {
            before: before.then(|| self.task.made()),
            made: result.made,
            bytes: result.bytes,
            failures: result.failures,
            is_idle: false,
        })
    }

    /// Takes the lines at the borders of a block. Returns whether a record has ended.
    fn join(&mut self, border: BorderLines) -> bool {
        let mut has_ended = false;
        if self.is_record {
            self.open.extend_from_slice(&border.leading);
        } else {
            // Lines before the first record are taken one by one.
            for line in border.leading.split_inclusive(|byte| *byte == b'\n') {
                has_ended = true;
                let _ = self.blocks.give_lines(line, &mut self.task);
            }
        }
        if border.begins {
            has_ended |= self.close();
            self.is_record = true;
            self.open = border.open;
        }
        has_ended
    }

    fn close(&mut self) -> bool {
        let open = std::mem::take(&mut self.open);
        self.is_record = false;
        // It is one record: whether more are wanted is seen at the next one.
        let _ = self.blocks.give_lines(&open, &mut self.task);
        !open.is_empty()
    }
}

/// Looks at parts.
struct Worker<T> {
    text: TextScan,
    lines: LineFilter,
    blocks: BlockScan,
    memory: Vec<u8>,
    task: T,
}

impl<T: Task> Worker<T> {
    fn work(&mut self, part: QueryPart) -> PartResult<T::Made> {
        let mut result = PartResult {
            made: None,
            border: None,
            bytes: part.bytes,
            failures: part.failures,
        };
        match part.source {
            PartSource::Nothing => return result,
            PartSource::Text(part, path) => {
                let mut memory = std::mem::take(&mut self.memory);
                match part.read(&mut memory) {
                    Ok(bytes) => self.take_text(bytes, part.begins_line),
                    Err(cause) => result.failures.push(ReadError::read(&path)(cause)),
                }
                self.memory = memory;
            }
            PartSource::Lines(mut bytes) => self.take_text(&mut bytes, true),
            PartSource::Headless(bytes) => {
                for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                    if self
                        .lines
                        .ask(line, &mut |record| self.task.take(record))
                        .is_break()
                    {
                        break;
                    }
                }
            }
            PartSource::Block(file, place, path) => {
                let scanned = LazyBlock::read(&file, place)
                    .and_then(|mut block| self.blocks.scan(&mut block, &mut self.task));
                match scanned {
                    Ok(border) => result.border = Some(border),
                    Err(error) => result.failures.push(failure(&path, place, error)),
                }
            }
        }
        result.made = Some(self.task.made());
        result
    }

    fn take_text(&mut self, bytes: &mut [u8], begins_line: bool) {
        let Self { text, task, .. } = self;
        let mut has_enough = false;
        text.scan(bytes, begins_line, &mut |scan, bytes, record| {
            if has_enough {
                return;
            }
            let mut values = LazyRecord::new(bytes, &mut scan.parts, &mut scan.times);
            let mut record = QueriedRecord {
                values: &mut values,
                unix_ns: Some(record.head.unix_ns),
                level: record.head.level,
                process: scan.filter.process.as_ref(),
            };
            has_enough = task.take(&mut record).is_break();
        });
    }
}

fn failure(path: &Path, place: logdrive_store::BlockPlace, error: BlockError) -> ReadError {
    match error {
        BlockError::Io(cause) => ReadError::read(path)(cause),
        BlockError::Damage(error) => ReadError::Damage {
            path: path.to_owned(),
            damage: place.damage(error),
        },
    }
}
