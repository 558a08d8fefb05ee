//! Stage of a row: a directory of its own, the programs that log with their plans, and what a row may do to them. It knows
//! no fault; those are in `rigs.rs`, `damage.rs` and `rows.rs`.

use crate::account::Account;
use crate::halt::{Halt, fail, file, skip};
use crate::language::Language;
use crate::notes::{Noted, Notes};
use crate::plan::Plan;
use crate::program_end::End;
use crate::watch::{Seen, Watch, children};
use logdrive::Stats;
use logdrive_bench::workloads::hang::slow_disk::SlowDisk;
use logdrive_ring::{SessionReader, find_sessions};
use logdrive_testkit::Process;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Deadline of the drain that finishes what a dead program left.
const SETTLE: Duration = Duration::from_secs(10);
/// The same where no drain is at work, so that what fails goes on to fail.
const GIVE_UP: Duration = Duration::from_secs(2);
/// Deadline of the end of a group of processes.
const GROUP_END: Duration = Duration::from_secs(2);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(2);

/// Programs that the rows start.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// This one, which plays the roles.
    pub(crate) own: PathBuf,
    pub(crate) cpp: PathBuf,
    pub(crate) go: PathBuf,
    /// The command `logdrive`, which programs in Go drain with.
    pub(crate) logdrive: PathBuf,
    /// Set if a row fails where its program is missing.
    pub(crate) required: bool,
}

/// Sums of the sessions when all calls were made.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    pub(crate) records: u64,
    pub(crate) sessions: usize,
}

/// Processes beside the programs that log.
#[derive(Debug, Default)]
pub(crate) struct OtherProcesses {
    /// Those that end when their input does: an agent, readers.
    pub(crate) ending: Vec<Process>,
    /// The collector of the records, or the server of requests.
    pub(crate) collector: Option<Process>,
}

/// Output of the programs.
#[derive(Debug)]
struct Said {
    /// True if every `sync()` answered true.
    is_synced: bool,
    /// Late records that they count.
    late: u64,
}

/// The stage.
pub(crate) struct Stage {
    /// Directory of the row; everything of it lies in there.
    pub(crate) dir: PathBuf,
    /// Directory of the log.
    pub(crate) logs: PathBuf,
    /// Words for all programs.
    pub(crate) words: Vec<String>,
    /// Words of the enclosure, where there is one.
    pub(crate) limits: Vec<String>,
    /// Directories in which sessions may be.
    pub(crate) run_dirs: Vec<PathBuf>,
    /// Mounts, unmounted in reverse order.
    pub(crate) mounts: Vec<PathBuf>,
    pub(crate) disk: Option<SlowDisk>,
    /// Group of processes with a limit of memory.
    pub(crate) group: Option<PathBuf>,
    watch: Option<Watch>,
    pub(crate) running: Vec<Process>,
    pub(crate) beside: OtherProcesses,
    programs: Programs,
    language: Language,
    started: u64,
    said: Said,
}

impl Stage {
    /// Makes a stage in a directory, for programs of a language.
    pub(crate) fn new(
        dir: &Path,
        programs: &Programs,
        language: Language,
        limit: Duration,
    ) -> Result<Stage, Halt> {
        let (logs, run) = (dir.join("logs"), dir.join("run"));
        for path in [&logs, &run] {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(file("make", path))?;
        }
        Ok(Stage {
            words: vec![format!("log={}", logs.join("faults.log").display())],
            limits: Vec::new(),
            run_dirs: vec![run, logs.join(".logdrive")],
            mounts: Vec::new(),
            disk: None,
            group: None,
            watch: Some(Watch::start(limit)),
            running: Vec::new(),
            beside: OtherProcesses::default(),
            programs: programs.clone(),
            language,
            started: 0,
            said: Said {
                is_synced: true,
                late: 0,
            },
            dir: dir.to_owned(),
            logs,
        })
    }

    /// Language of the programs that log.
    pub(crate) fn language(&self) -> Language {
        self.language
    }

    /// Adds words to the plan of all programs.
    pub(crate) fn plan(&mut self, words: &str) {
        self.words.extend(words.split_whitespace().map(str::to_owned));
    }

    /// Path of the log file.
    pub(crate) fn log(&self) -> PathBuf {
        self.logs.join("faults.log")
    }

    fn notes(&self, program: u64) -> PathBuf {
        self.dir.join(format!("notes-{program}"))
    }

    /// Starts a program, with the end of its plan.
    pub(crate) fn start(&mut self, end: End) -> Result<(), Halt> {
        let number = self.started;
        self.started += 1;
        let notes = self.notes(number);
        // It belongs to whoever the program will be.
        Notes::open(&notes)?;
        let mut words = vec![
            format!("app=faults-{}", std::process::id()),
            format!("program={number}"),
            format!("notes={}", notes.display()),
            format!("run={}", self.run_dirs[0].display()),
        ];
        words.extend(self.words.iter().cloned());
        words.push(format!("end={}", end.word()));
        let mut command = self.command(&words)?;
        command
            .current_dir(&self.dir)
            .env_remove("LOGDRIVE")
            .env_remove("LOGDRIVE_AGENT")
            .env("LOGDRIVE_BIN", &self.programs.logdrive);
        let program = Process::spawn(command.stderr(self.standard_error(number, &words)?));
        if let Some(watch) = &self.watch {
            watch.add(program.pid());
        }
        self.running.push(program);
        Ok(())
    }

    /// Programs write what went wrong, or their log, to a file each; through a slow reader where the plan says so.
    fn standard_error(&mut self, number: u64, words: &[String]) -> Result<Stdio, Halt> {
        let path = self.dir.join(format!("stderr-{number}"));
        if !Plan::of(words).has("slow_reader") {
            return Ok(std::fs::File::create(path)?.into());
        }
        let mut reader = self.role("read-slowly", &[&path.to_string_lossy()]);
        let input = reader.child().stdin.take();
        self.beside.ending.push(reader);
        Ok(input.map_or_else(Stdio::null, Stdio::from))
    }

    /// Starts this program in a role.
    pub(crate) fn role(&self, role: &str, words: &[&str]) -> Process {
        let mut command = Command::new(&self.programs.own);
        Process::spawn(command.args(["--play", role]).args(words))
    }

    /// The command `logdrive`.
    pub(crate) fn logdrive(&self) -> Result<Command, Halt> {
        self.check_built(&self.programs.logdrive)?;
        Ok(Command::new(&self.programs.logdrive))
    }

    /// A program that is missing is a reason to skip, where it need not be there.
    fn check_built(&self, program: &Path) -> Result<(), Halt> {
        if program.exists() {
            return Ok(());
        }
        let why = format!("{} is missing: `cargo xtask faults` builds it", program.display());
        Err(match self.programs.required {
            true => fail(why),
            false => skip(why),
        })
    }

    /// Runs another program of the same plan from start to stop.
    pub(crate) fn run_another(&mut self) -> Result<(), Halt> {
        self.running.clear();
        self.start(End::Orderly)?;
        self.expect("half")?;
        self.go_on();
        self.expect("done")?;
        self.end(End::Orderly);
        Ok(())
    }

    /// Waits for the ends of the processes beside the programs.
    pub(crate) fn end_beside(&mut self) {
        for mut process in self.beside.ending.drain(..) {
            process.close_input();
            process.wait();
        }
    }

    fn command(&self, words: &[String]) -> Result<Command, Halt> {
        let (program, role): (&Path, &[&str]) = match self.language {
            Language::Rust => (&self.programs.own, &["--play", "program"]),
            Language::Cpp => (&self.programs.cpp, &[]),
            Language::Go => (&self.programs.go, &[]),
        };
        self.check_built(program)?;
        if self.language == Language::Go {
            self.check_built(&self.programs.logdrive)?;
        }
        if self.limits.is_empty() {
            let mut command = Command::new(program);
            command.args(role).args(words);
            return Ok(command);
        }
        let mut command = Command::new(&self.programs.own);
        command.args(["--play", "enclose"]).args(&self.limits).arg("--");
        command.arg(program).args(role).args(words);
        Ok(command)
    }

    /// Waits until every program reports a phase.
    pub(crate) fn expect(&mut self, phase: &str) -> Result<(), Halt> {
        for (number, program) in self.running.iter_mut().enumerate() {
            let said = loop {
                match program.next_line() {
                    Some(line) if line.starts_with(phase) => break Some(line),
                    Some(_) => {}
                    None => break None,
                }
            };
            let Some(line) = said else {
                let status = program.wait();
                let text = std::fs::read_to_string(self.dir.join(format!("stderr-{number}")));
                let last = text.unwrap_or_default().lines().last().unwrap_or("").to_owned();
                return Err(fail(format!("ended before `{phase}` with {status}: {last}")));
            };
            match phase {
                "half" => self.said.is_synced &= line.ends_with("synced"),
                _ => {
                    self.said.late += line
                        .rsplit(' ')
                        .next()
                        .and_then(|late| late.parse().ok())
                        .unwrap_or(0)
                }
            }
        }
        Ok(())
    }

    /// Sends every program the word to go on.
    pub(crate) fn go_on(&mut self) {
        self.running.iter_mut().for_each(|program| tell(program, "go"));
    }

    /// Returns whether every program's `sync()` at the half answered true.
    pub(crate) fn is_synced(&self) -> bool {
        self.said.is_synced
    }

    /// Late records that the programs have counted.
    pub(crate) fn late(&self) -> u64 {
        self.said.late
    }

    /// Sums up what the sessions count; those of an agent are in its memory.
    pub(crate) fn committed(&self) -> Committed {
        let mut sum = Committed::default();
        for session in self.sessions() {
            let Ok(view) = SessionReader::open(&session.path) else {
                continue;
            };
            sum.records += Stats::of_view(&view).committed;
            sum.sessions += 1;
        }
        sum
    }

    /// The sessions of this row's programs.
    pub(crate) fn sessions(&self) -> Vec<logdrive_ring::FoundSession> {
        let mut found = Vec::new();
        for dir in &self.run_dirs {
            found.extend(find_sessions(dir).unwrap_or_default());
        }
        let own = format!("faults-{}-", std::process::id());
        found.retain(|session| {
            let name = session.path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(&own)
        });
        found
    }

    /// Ends all programs, and returns how they ended.
    pub(crate) fn end(&mut self, end: End) -> Vec<ExitStatus> {
        let is_nested = self.limits.iter().any(|word| word == "pids=1");
        for program in &mut self.running {
            tell(program, "end");
            if let End::Signal(signal) = end {
                let inner = children(program.pid()).first().copied();
                let pid = inner.filter(|_| is_nested).unwrap_or(program.pid());
                // One that the watch has killed is reported by it.
                let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
            }
        }
        let ended = self.running.iter_mut().map(Process::wait).collect();
        if let Some(watch) = &self.watch {
            watch.forget_all();
        }
        ended
    }

    /// Ends the watch.
    pub(crate) fn end_watch(&mut self) -> Seen {
        self.watch.take().map_or_else(Seen::default, Watch::stop)
    }

    /// Numbers of each thread below which a record is of the first half.
    pub(crate) fn half_of_records(&self) -> u64 {
        Plan::of(&self.words).number::<u64>("records").unwrap_or(0) / 2
    }

    /// Waits until no drain is at work any more, and recovers what is left. `false`: a session is left that cannot be.
    pub(crate) fn settle(&mut self) -> Result<(), Halt> {
        let started = Instant::now();
        loop {
            let sessions = self.sessions();
            if sessions.is_empty() {
                return Ok(());
            }
            let mut last = None;
            for session in sessions.iter().filter(|session| session.holder.is_none()) {
                last = logdrive::recover(&session.path, None).err().or(last);
            }
            let is_alone = sessions.iter().all(|session| session.holder.is_none());
            if started.elapsed() > if is_alone { GIVE_UP } else { SETTLE } {
                let why = last.map_or_else(|| "its process lives".to_owned(), |error| error.to_string());
                return Err(fail(format!("{} sessions stay: {why}", sessions.len())));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Sums of the notes of all programs.
    pub(crate) fn noted(&self) -> Noted {
        let of_programs = (0..self.started).map(|number| Notes::read(&self.notes(number)));
        of_programs.fold(Noted::default(), Noted::and)
    }

    /// Reads the log: all files beside the log file, and what programs wrote to standard error.
    pub(crate) fn account(&self) -> Result<Account, Halt> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&self.logs).map_err(file("list", &self.logs))? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            // The next start begins a compression anew that a kill has cut short.
            let is_log = !name.starts_with('.') && name.contains(".log") && !name.ends_with(".tmp");
            if path.is_file() && is_log {
                paths.push(path);
            }
        }
        paths.extend((0..self.started).map(|number| self.dir.join(format!("stderr-{number}"))));
        Account::of(&paths)
    }
}

/// Sends a line to a program, which may have ended.
fn tell(program: &mut Process, line: &str) {
    if let Some(input) = &mut program.child().stdin {
        let _ = writeln!(input, "{line}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.running.clear();
        self.beside = OtherProcesses::default();
        // They stay in the namespace of this process, which ends with it.
        for mounted in self.mounts.iter().rev() {
            let _ = nix::mount::umount2(mounted, nix::mount::MntFlags::MNT_DETACH);
        }
        // A group is busy for a moment after the end of its last process.
        let deadline = Instant::now() + GROUP_END;
        while let Some(group) = &self.group
            && std::fs::remove_dir(group).is_err()
            && Instant::now() < deadline
        {
            std::thread::sleep(LOOK);
        }
    }
}
