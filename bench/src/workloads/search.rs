//! `search`: questions to a log of many records, asked of a segment by `logdrive query`, of text and JSON by `logdrive cat`, of
//! the same text by ripgrep and lnav, of the same JSON by hl, and of the same records by DuckDB over Parquet and by chdb,
//! ClickHouse's engine. A rival that is not installed has no rows.
//!
//! `LOGDRIVE_PYTHON` names a Python that has the packages `duckdb`, `chdb`, `pyarrow` and `numpy`; the times of both engines begin
//! when Python has started.
//!
//! The log is made once and removed at the end; with `--keep` it stays for the next run of its size. All files are read once
//! before the clock starts, so that they are in the page cache where memory holds them. What the answer is goes to `/dev/null`, but
//! where it is a count. A round asks each question up to three times, until that has taken five seconds, and takes the median.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use logdrive_store::{RowCallsite, RowThread, SegmentWriter};
use logdrive_wire::kind::{FieldKind, Kind};
use logdrive_wire::{Callsite, Field, Level};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::statvfs::statvfs;

use crate::harness::{About, Args, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};
use crate::{BenchError, Result, command};

const FULL_RECORDS: u64 = 100_000_000;
const QUICK_RECORDS: u64 = 200_000;
const FULL_TRIALS: u64 = 3;
const QUICK_TRIALS: u64 = 1;

/// Records below which some question would have no answer.
const LEAST_RECORDS: u64 = 10_000;

/// Time after which a question is not asked again in the same round.
const ASKED_AGAIN: Duration = Duration::from_secs(5);

/// Bytes of the files for each record: text 135, text with zstd 14, segment 5, Parquet 13, and a MergeTree 23.
const RECORD_BYTES: u64 = 190;
/// Bytes of the files that `cat` reads, and what a disk is to have left.
const MORE_BYTES: u64 = 3 << 30;

/// Lines of the text and JSON files that `cat` reads; a log of fewer records has as many.
const LINES_MAX: u64 = 4_000_000;

/// Time of the first record, and between two of them, in nanoseconds.
const BEGIN_NS: u64 = 1_795_000_000_000_000_000;
const STEP_NS: u64 = 10_000;

/// One record in so many has a text of its own, a warning, or an error.
const REQUEST_EVERY: u64 = 10;
const WARN_EVERY: u64 = 100;
const ERROR_EVERY: u64 = 1_000;

const METRICS: &[Metric] = &[
    Metric::new("wall_s", "s", 4),
    Metric::new("cpu_s", "s", 3),
    Metric::new("memory_mib", "MiB", 0),
];

/// Subjects.
const QUERY: &str = "logdrive-query";
const CAT: &str = "logdrive-cat";
const RIPGREP: &str = "rg";
const ZSTDCAT: &str = "zstdcat-rg";
const LNAV: &str = "lnav";
const HL: &str = "hl";
const DUCKDB: &str = "duckdb-parquet";
const CHDB: &str = "chdb";

/// Program that asks DuckDB and chdb.
const SQL_PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rivals/search.py");

/// A question, and how each subject is asked. `{n}` is a number of a record near the end, `{since}` its time, and `{request}` the
/// text that one record alone has.
struct Question {
    name: &'static str,
    asked: &'static [(&'static str, &'static str)],
}

const QUESTIONS: &[Question] = &[
    Question {
        name: "needle-text",
        asked: &[
            (QUERY, "query request:={request} {segment} --count"),
            (RIPGREP, "-c {request} {text}"),
            (DUCKDB, "SELECT§count(*)§FROM§{log}§WHERE§request§=§'{request}'"),
            (CHDB, "SELECT§count(*)§FROM§{log}§WHERE§request§=§'{request}'"),
        ],
    },
    Question {
        name: "needle-integer",
        asked: &[
            (QUERY, "query order_id:={order} {segment} --count"),
            (RIPGREP, "-c order_id={order}\\b {text}"),
            (DUCKDB, "SELECT§count(*)§FROM§{log}§WHERE§order_id§=§{order}"),
            (CHDB, "SELECT§count(*)§FROM§{log}§WHERE§order_id§=§{order}"),
        ],
    },
    Question {
        name: "needle-any-field",
        asked: &[
            (QUERY, "query {request} {segment} --count"),
            (RIPGREP, "-c {request} {text}"),
        ],
    },
    Question {
        name: "count-by-level",
        asked: &[
            (QUERY, "query *|stats§by§(level)§count() {segment}"),
            (DUCKDB, "SELECT§level,§count(*)§FROM§{log}§GROUP§BY§level"),
            (CHDB, "SELECT§level,§count(*)§FROM§{log}§GROUP§BY§level"),
        ],
    },
    Question {
        name: "count-by-callsite",
        asked: &[
            (QUERY, "query *|stats§by§(file,line)§count() {segment}"),
            (
                DUCKDB,
                "SELECT§file,§line,§count(*)§FROM§{log}§GROUP§BY§file,§line",
            ),
            (CHDB, "SELECT§file,§line,§count(*)§FROM§{log}§GROUP§BY§file,§line"),
        ],
    },
    Question {
        name: "range",
        asked: &[
            (QUERY, "query qty:range[100,200) {segment} --count"),
            (
                DUCKDB,
                "SELECT§count(*)§FROM§{log}§WHERE§qty§>=§100§AND§qty§<§200",
            ),
            (CHDB, "SELECT§count(*)§FROM§{log}§WHERE§qty§>=§100§AND§qty§<§200"),
        ],
    },
    Question {
        name: "word-in-every-block",
        asked: &[
            (QUERY, "query filled {segment} --count"),
            (RIPGREP, "-c filled {text}"),
            (DUCKDB, "SELECT§count(*)§FROM§{log}§WHERE§message§LIKE§'%filled%'"),
            (CHDB, "SELECT§count(*)§FROM§{log}§WHERE§message§LIKE§'%filled%'"),
        ],
    },
    Question {
        name: "regex",
        asked: &[
            (
                QUERY,
                "query message:~\"(slow|late)§answer§of§[a-z]+-1[0-9]§\" {segment} --count",
            ),
            (ZSTDCAT, "-c (slow|late)§answer§of§[a-z]+-1[0-9]§"),
            (RIPGREP, "-c (slow|late)§answer§of§[a-z]+-1[0-9]§ {text}"),
            (
                DUCKDB,
                "SELECT§count(*)§FROM§{log}§WHERE§regexp_matches(message,§'(slow|late)§answer§of§[a-z]+-1[0-9]§')",
            ),
            (
                CHDB,
                "SELECT§count(*)§FROM§{log}§WHERE§match(message,§'(slow|late)§answer§of§[a-z]+-1[0-9]§')",
            ),
        ],
    },
    Question {
        name: "ten-slowest",
        asked: &[
            (QUERY, "query *|sort§by§(took_ms§desc)|limit§10 {segment}"),
            (
                DUCKDB,
                "SELECT§*§FROM§{log}§ORDER§BY§took_ms§DESC§NULLS§LAST§LIMIT§10",
            ),
            (
                CHDB,
                "SELECT§*§FROM§{log}§ORDER§BY§took_ms§DESC§NULLS§LAST§LIMIT§10",
            ),
        ],
    },
    Question {
        name: "text-level",
        asked: &[
            (CAT, "cat -l warn {lines}"),
            (RIPGREP, "(WARN|ERROR|FATAL)§ {lines}"),
            (LNAV, "-n -I {formats} -c :set-min-log-level§warning {lines}"),
        ],
    },
    Question {
        name: "json-level",
        asked: &[
            (CAT, "cat -l warn {json}"),
            (RIPGREP, "level\":\"(WARN|ERROR|FATAL)\" {json}"),
            (LNAV, "-n -I {formats} -c :set-min-log-level§warning {json}"),
            (HL, "-P -l w {json}"),
        ],
    },
    Question {
        name: "text-field",
        asked: &[
            (CAT, "cat -f order_id={n} {lines}"),
            (RIPGREP, "order_id={n}\\b {lines}"),
        ],
    },
    Question {
        name: "json-field",
        asked: &[
            (CAT, "cat -f order_id={n} {json}"),
            (RIPGREP, "\"order_id\":{n}\\b {json}"),
            (HL, "-P -f order_id={n} {json}"),
        ],
    },
    Question {
        name: "text-word",
        asked: &[(CAT, "cat -g {word} {lines}"), (RIPGREP, "-F {word} {lines}")],
    },
    Question {
        name: "json-word",
        asked: &[(CAT, "cat -g {word} {json}"), (RIPGREP, "-F {word} {json}")],
    },
    Question {
        name: "text-as-json",
        asked: &[(CAT, "cat --json {lines}")],
    },
    Question {
        name: "json-as-json",
        asked: &[(CAT, "cat --json {json}")],
    },
    Question {
        name: "text-last-10",
        asked: &[(CAT, "cat -n 10 {lines}")],
    },
    Question {
        name: "json-last-10",
        asked: &[(CAT, "cat -n 10 {json}")],
    },
    Question {
        name: "text-since-near-end",
        asked: &[(CAT, "cat --since {since} {lines}")],
    },
    Question {
        name: "json-since-near-end",
        asked: &[(CAT, "cat --since {since} {json}")],
    },
];

/// Choice of the log.
#[derive(Debug)]
struct Choice {
    records: Option<u64>,
    is_kept: bool,
}

static CHOICE: OnceLock<Choice> = OnceLock::new();
/// Files that were made in this run, or found.
static FILES: OnceLock<Files> = OnceLock::new();

/// Takes the size of the log from the command line, and whether it is kept.
pub fn choose(args: &Args) {
    // Once a run; a second call would change nothing.
    let _ = CHOICE.set(Choice {
        records: args.records,
        is_kept: args.keep,
    });
}

/// The workload.
pub struct Search;

impl Workload for Search {
    fn about(&self) -> About {
        About::new("search", METRICS)
    }

    fn title(&self, scale: Scale) -> String {
        format!("questions to a log of {} records", records_at(scale))
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let cases = QUESTIONS.iter().flat_map(|question| {
            question
                .asked
                .iter()
                .map(|(subject, _)| Case::new(subject).param("question", question.name))
        });
        cases
            .map(|case| {
                case.setting("records", records_at(scale))
                    .setting("trials", scale.pick(FULL_TRIALS, QUICK_TRIALS))
            })
            .collect()
    }

    fn prepare(&self, scale: Scale, cases: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        let programs = [
            (RIPGREP, "rg", "ripgrep"),
            (ZSTDCAT, "zstdcat", "zstd"),
            (LNAV, "lnav", "lnav"),
            (HL, "hl", "hl"),
        ];
        for (subject, program, package) in programs {
            if !succeeds(Command::new(program).arg(version_of(program))) {
                eprintln!("  left out: {subject}; install {package}");
                cases.retain(|case| case.subject != subject);
            }
        }
        for (subject, library) in [(DUCKDB, "duckdb"), (CHDB, "chdb")] {
            if !succeeds(python().args(["check", library])) {
                eprintln!(
                    "  left out: {subject}; pip install {library}, and name its Python with LOGDRIVE_PYTHON"
                );
                cases.retain(|case| case.subject != subject);
            }
        }
        let files = match FILES.get() {
            Some(files) => files,
            None => {
                let files = Files::of(records_at(scale))?;
                FILES.get_or_init(|| files)
            }
        };
        files.make(records_at(scale))?;
        let is_asked = cases.iter().any(|case| [DUCKDB, CHDB].contains(&case.subject));
        match is_asked {
            true => files.make_parquet(records_at(scale)),
            false => Ok(()),
        }
    }

    fn clean_up(&self) -> Result<()> {
        let is_kept = CHOICE.get().is_some_and(|choice| choice.is_kept);
        match FILES.get() {
            Some(files) if !is_kept => files.remove(),
            _ => Ok(()),
        }
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let records = job.number("records");
        let files = Files::of(records)?;
        let question = QUESTIONS
            .iter()
            .find(|question| question.name == job.text("question"));
        let asked = question.and_then(|question| {
            let mut asked = question.asked.iter();
            asked.find(|(subject, _)| *subject == job.subject)
        });
        let (_, words) = asked.ok_or_else(|| BenchError::subject(&job.subject, "is not asked this"))?;
        let words: Vec<String> = words.split(' ').map(|word| files.word(word, records)).collect();
        files.warm(&words)?;
        let (wall_s, cpu_s) = match job.subject.as_str() {
            DUCKDB | CHDB => run_sql(job, &words, &files)?,
            _ => run_trials(job, &words, &files)?,
        };
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(std::io::Error::from)?;
        Ok(Samples::default()
            .with("wall_s", wall_s)
            .with("cpu_s", cpu_s)
            .with("memory_mib", usage.max_rss() as f64 / 1024.0))
    }
}

fn records_at(scale: Scale) -> u64 {
    let wanted = CHOICE.get().and_then(|choice| choice.records);
    wanted
        .unwrap_or(scale.pick(FULL_RECORDS, QUICK_RECORDS))
        .max(LEAST_RECORDS)
}

fn python() -> Command {
    let program = std::env::var_os("LOGDRIVE_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(program);
    command.arg(SQL_PROGRAM);
    command
}

fn version_of(program: &str) -> &'static str {
    if program == "lnav" { "-V" } else { "--version" }
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Asks a program several times; returns the median of the seconds that it took, and the mean of those of the processors.
fn run_trials(job: &Job, words: &[String], files: &Files) -> Result<(f64, f64)> {
    let (mut trials, begin) = (Vec::new(), Instant::now());
    while trials.is_empty() || (trials.len() as u64) < job.number("trials") && begin.elapsed() < ASKED_AGAIN {
        let start = Instant::now();
        run(&job.subject, words, files)?;
        trials.push(start.elapsed().as_secs_f64());
    }
    trials.sort_by(f64::total_cmp);
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(std::io::Error::from)?;
    let cpu = usage.user_time() + usage.system_time();
    let cpu_s = cpu.tv_sec() as f64 + cpu.tv_usec() as f64 / 1e6;
    let median = trials.get(trials.len() / 2).copied().unwrap_or(0.0);
    Ok((median, cpu_s / trials.len() as f64))
}

/// Asks DuckDB or chdb several times; returns the medians in seconds, of the clock and of the processors.
fn run_sql(job: &Job, words: &[String], files: &Files) -> Result<(f64, f64)> {
    let library = if job.subject == CHDB { "chdb" } else { "duckdb" };
    let (path, trials) = (files.parquet.display().to_string(), job.number("trials").max(1));
    let output = python()
        .args([library, &path, &words.join(" "), &trials.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut medians = text.split_whitespace().map_while(|word| word.parse().ok());
    match (medians.next(), medians.next()) {
        (Some(wall_s), Some(cpu_s)) => Ok((wall_s, cpu_s)),
        _ => Err(BenchError::subject(
            &job.subject,
            String::from_utf8_lossy(&output.stderr),
        )),
    }
}

/// Asks a subject once. A search that finds nothing is a fault of the question.
fn run(subject: &str, words: &[String], files: &Files) -> Result<()> {
    let status = match subject {
        QUERY | CAT => Command::new(command::path()?)
            .args(words)
            .stdout(Stdio::null())
            .status()?,
        RIPGREP => Command::new("rg").args(words).stdout(Stdio::null()).status()?,
        LNAV | HL => Command::new(subject).args(words).stdout(Stdio::null()).status()?,
        _ => {
            let mut zstdcat = Command::new("zstdcat")
                .arg(&files.zstd)
                .stdout(Stdio::piped())
                .spawn()?;
            let mut rg = Command::new("rg");
            if let Some(bytes) = zstdcat.stdout.take() {
                rg.stdin(bytes);
            }
            let status = rg.args(words).stdout(Stdio::null()).status()?;
            zstdcat.wait()?;
            status
        }
    };
    match status.success() {
        true => Ok(()),
        false => Err(BenchError::subject(subject, status)),
    }
}

/// The files of a log of one size.
#[derive(Debug)]
struct Files {
    segment: PathBuf,
    text: PathBuf,
    zstd: PathBuf,
    lines: PathBuf,
    json: PathBuf,
    parquet: PathBuf,
    done: PathBuf,
}

impl Files {
    fn of(records: u64) -> Result<Files> {
        let dir = runs::scratch_dir()?;
        let path = |name: &str| dir.join(format!("search-{records}.{name}"));
        Ok(Files {
            segment: path("segment"),
            text: path("log"),
            zstd: path("log.zst"),
            lines: path("lines.log"),
            json: path("json"),
            parquet: path("parquet"),
            done: path("done"),
        })
    }

    /// A word of a command line. A blank within it is written as `§`.
    fn word(&self, word: &str, records: u64) -> String {
        let near_end = records.min(LINES_MAX) - 100;
        let path = |path: &Path| path.display().to_string();
        match word {
            "{segment}" => path(&self.segment),
            "{text}" => path(&self.text),
            "{lines}" => path(&self.lines),
            "{json}" => path(&self.json),
            "{formats}" => concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/lnav").to_owned(),
            word => word
                .replace('§', " ")
                .replace("{n}", &near_end.to_string())
                .replace("{since}", &time_text(BEGIN_NS + near_end * STEP_NS))
                .replace("{word}", &request(near_end / REQUEST_EVERY * REQUEST_EVERY))
                .replace("{order}", &(records / 2 + 1).to_string())
                .replace("{request}", &request(records / 2 / REQUEST_EVERY * REQUEST_EVERY)),
        }
    }

    /// Reads the files that are asked.
    fn warm(&self, words: &[String]) -> Result<()> {
        for path in [
            &self.segment,
            &self.text,
            &self.zstd,
            &self.lines,
            &self.json,
            &self.parquet,
        ] {
            if words.iter().any(|word| Path::new(word) == path.as_path()) {
                std::io::copy(&mut File::open(path)?, &mut std::io::sink())?;
            }
        }
        Ok(())
    }

    /// Refuses a log that the disk has no room for.
    fn check_room(&self, records: u64) -> Result<()> {
        let Some(directory) = self.text.parent() else {
            return Ok(());
        };
        let disk = statvfs(directory).map_err(std::io::Error::from)?;
        let free = disk.blocks_available().saturating_mul(disk.fragment_size());
        let room = free.saturating_sub(MORE_BYTES) / RECORD_BYTES;
        match records <= room {
            true => Ok(()),
            false => Err(BenchError::new(format!(
                "{} has no room for {records} records; `--records {}` fits",
                directory.display(),
                room / LEAST_RECORDS * LEAST_RECORDS
            ))),
        }
    }

    /// Makes the Parquet file, if it is not there.
    fn make_parquet(&self, records: u64) -> Result<()> {
        if self.parquet.exists() {
            return Ok(());
        }
        let path = self.parquet.display().to_string();
        let made = python().args(["make", &path, &records.to_string()]).status()?;
        match made.success() {
            true => Ok(()),
            false => Err(BenchError::new("the Parquet file cannot be made")),
        }
    }

    /// Removes the files.
    fn remove(&self) -> Result<()> {
        let files = [
            &self.segment,
            &self.text,
            &self.zstd,
            &self.lines,
            &self.json,
            &self.parquet,
            &self.done,
        ];
        for path in files.into_iter().filter(|path| path.exists()) {
            std::fs::remove_file(path).map_err(BenchError::io("remove", path))?;
        }
        // As the Python program names it.
        let table = self.parquet.with_extension("parquet.chdb");
        match table.exists() {
            true => std::fs::remove_dir_all(&table).map_err(BenchError::io("remove", &table)),
            false => Ok(()),
        }
    }

    /// Makes the files, if they are not there.
    fn make(&self, records: u64) -> Result<()> {
        if self.done.exists() {
            return Ok(());
        }
        self.check_room(records)?;
        eprintln!("  making a log of {records} records in {}", self.text.display());
        let create = |path: &Path| File::create(path).map(|file| BufWriter::with_capacity(1 << 20, file));
        let (mut text, mut lines, mut json) =
            (create(&self.text)?, create(&self.lines)?, create(&self.json)?);
        let mut zstd = zstd::stream::Encoder::new(create(&self.zstd)?, 3)?;
        let mut segment = SegmentWriter::new(create(&self.segment)?).fill_blocks();
        let sites = Sites::new()?;
        let mut record = Made::default();
        for number in 0..records {
            record.make(number);
            text.write_all(&record.text)?;
            zstd.write_all(&record.text)?;
            if number < LINES_MAX {
                lines.write_all(&record.text)?;
                json.write_all(&record.json)?;
            }
            let thread = RowThread {
                id: 4_711 + number % 4,
                name: THREADS[(number % 4) as usize],
            };
            let time = BEGIN_NS + number * STEP_NS;
            segment.record(sites.of(number), thread, time, &record.payload)?;
        }
        segment.flush()?;
        zstd.finish()?.flush()?;
        for file in [&mut text, &mut lines, &mut json] {
            file.flush()?;
        }
        File::create(&self.done)?;
        Ok(())
    }
}

const THREADS: [&str; 4] = ["worker-1", "worker-2", "worker-3", "worker-4"];
const SYMBOLS: [&str; 8] = ["AAPL", "MSFT", "GOOG", "AMZN", "NVDA", "META", "TSLA", "INTC"];

/// Level, file, line and message of a statement.
const STATEMENTS: [(Level, &str, u32, &str); 4] = [
    (Level::Info, "orders.rs", 11, "order filled"),
    (Level::Debug, "requests.rs", 24, "request answered"),
    (
        Level::Warn,
        "net.rs",
        7,
        "slow answer of {peer} after {took_ms} ms",
    ),
    (Level::Error, "payment.rs", 40, "payment failed: {reason}"),
];

/// The statement of a record.
fn statement(number: u64) -> usize {
    match number {
        number if number % ERROR_EVERY == 7 => 3,
        number if number % WARN_EVERY == 3 => 2,
        number if number.is_multiple_of(REQUEST_EVERY) => 1,
        _ => 0,
    }
}

/// A number like chance, the same in each run.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 31
}

/// The text that one record alone has.
fn request(number: u64) -> String {
    format!("req-{:016x}", mixed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn time_text(unix_ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns));
    time.map(|time| format!("{time:.9}")).unwrap_or_default()
}

struct Sites(Vec<RowCallsite>);

impl Sites {
    fn new() -> Result<Sites> {
        let field = |name: &str, kind: Kind, argument: bool| Field {
            name: name.to_owned(),
            kind: FieldKind::plain(kind),
            argument,
        };
        let fields = [
            vec![
                field("order_id", Kind::U64, false),
                field("qty", Kind::U32, false),
                field("price", Kind::F64, false),
                field("symbol", Kind::Str, false),
            ],
            vec![
                field("order_id", Kind::U64, false),
                field("request", Kind::Str, false),
            ],
            vec![field("peer", Kind::Str, true), field("took_ms", Kind::U64, true)],
            vec![
                field("reason", Kind::Str, true),
                field("order_id", Kind::U64, false),
            ],
        ];
        let site = |((level, file, line, message), fields): ((Level, &str, u32, &str), Vec<Field>)| {
            let callsite = Callsite {
                level,
                file: file.to_owned(),
                line,
                module: "shop::orders".to_owned(),
                message: message.to_owned(),
                fields,
                ..Callsite::default()
            };
            RowCallsite::new(&callsite, None)
        };
        let sites = STATEMENTS.into_iter().zip(fields).map(site);
        let sites: std::result::Result<Vec<_>, _> = sites.collect();
        sites
            .map(Sites)
            .map_err(|error| BenchError::new(error.to_string()))
    }

    fn of(&self, number: u64) -> &RowCallsite {
        &self.0[statement(number)]
    }
}

/// A record in all of its forms.
#[derive(Default)]
struct Made {
    text: Vec<u8>,
    json: Vec<u8>,
    payload: Vec<u8>,
}

impl Made {
    fn make(&mut self, number: u64) {
        let (level, file, line, message) = STATEMENTS[statement(number)];
        let chance = mixed(number);
        let (qty, cents, symbol) = (
            chance % 1_000,
            chance >> 20 & 0xffff,
            SYMBOLS[(chance >> 40 & 7) as usize],
        );
        let price = cents as f64 / 100.0;
        let peer = format!("gate-{}", chance % 64);
        let took_ms = chance >> 16 & 0x3ff;
        let time = time_text(BEGIN_NS + number * STEP_NS);
        let thread = THREADS[(number % 4) as usize];
        let message = message
            .replace("{peer}", &peer)
            .replace("{took_ms}", &took_ms.to_string())
            .replace("{reason}", "card declined");
        let str_bytes = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
        self.payload.clear();
        let (text, json) = match statement(number) {
            0 => {
                self.payload.extend_from_slice(&number.to_le_bytes());
                self.payload.extend_from_slice(&(qty as u32).to_le_bytes());
                self.payload.extend_from_slice(&price.to_le_bytes());
                self.payload.extend(str_bytes(symbol));
                (
                    format!(" order_id={number} qty={qty} price={price:?} symbol={symbol}"),
                    format!(
                        ",\"order_id\":{number},\"qty\":{qty},\"price\":{price:?},\"symbol\":\"{symbol}\""
                    ),
                )
            }
            1 => {
                let request = request(number);
                self.payload.extend_from_slice(&number.to_le_bytes());
                self.payload.extend(str_bytes(&request));
                (
                    format!(" order_id={number} request={request}"),
                    format!(",\"order_id\":{number},\"request\":\"{request}\""),
                )
            }
            2 => {
                self.payload.extend(str_bytes(&peer));
                self.payload.extend_from_slice(&took_ms.to_le_bytes());
                (
                    String::new(),
                    format!(",\"peer\":\"{peer}\",\"took_ms\":{took_ms}"),
                )
            }
            _ => {
                self.payload.extend(str_bytes("card declined"));
                self.payload.extend_from_slice(&number.to_le_bytes());
                (
                    format!(" order_id={number}"),
                    format!(",\"reason\":\"card declined\",\"order_id\":{number}"),
                )
            }
        };
        self.text.clear();
        self.json.clear();
        let level = level.name();
        // Writing to memory does not fail.
        let _ = writeln!(
            self.text,
            "{time} {level:5} {thread} shop::orders {file}:{line} {message}{text}"
        );
        let _ = writeln!(
            self.json,
            "{{\"ts\":\"{time}\",\"level\":\"{level}\",\"thread\":\"{thread}\",\"module\":\"shop::orders\",\
             \"file\":\"{file}\",\"line\":{line},\"message\":\"{message}\"{json}}}"
        );
    }
}
