//! Code that several fuzz targets share.
#![forbid(unsafe_code)]

use logdrive_drain::file::FileOptions;
use logdrive_ring::{BUFFER_BYTES_MIN, Calibration, SessionOptions, SessionWriter};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names the directory in which a child process is to make its session.
const MAKE: &str = "LOGDRIVE_FUZZ_MAKE";

/// A directory with what `make` made in it, in a child process that was then killed: a session keeps its memory mapped
/// for ever, which the leak checker would report, and its process must be dead before it can be recovered.
pub fn made_by_child(name: &str, make: impl Fn(&Path)) -> PathBuf {
    if let Some(dir) = std::env::var_os(MAKE) {
        make(Path::new(&dir));
        println!("made");
        std::io::stdout().flush().expect("the parent listens");
        loop {
            std::thread::park();
        }
    }
    let dir = std::env::temp_dir().join(format!("logdrive-fuzz-{name}-{}", std::process::id()));
    // The child is this same target, and comes here with its first input.
    let mut child = Command::new(std::env::current_exe().expect("a program has a path"))
        .arg("-runs=1")
        .env(MAKE, &dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child can be started");
    let output = BufReader::new(child.stdout.take().expect("it was asked for"));
    let made = output.lines().map_while(Result::ok).any(|line| line == "made");
    child.kill().expect("a child can be killed");
    child.wait().expect("it ends");
    assert!(made, "the session could not be made in {}", dir.display());
    dir
}

/// The only session of a run directory.
pub fn session_in(run_dir: &Path) -> PathBuf {
    let found = logdrive_ring::find_sessions(run_dir).expect("the directory can be listed");
    found.into_iter().next().expect("the child made a session").path
}

/// Makes a session without rings, sinks or a file for records that are kept, but for what `change` asks for.
pub fn session(app: &str, run_dir: &Path, change: impl FnOnce(&mut SessionOptions)) -> SessionWriter {
    let mut options = SessionOptions {
        app: app.into(),
        run_dirs: vec![run_dir.to_owned()],
        ring_bytes: 0,
        config: Vec::new(),
        sink_count: 0,
        buffers_per_sink: 0,
        buffer_bytes: BUFFER_BYTES_MIN,
        sinks_at_start: 0,
        keep_bytes: 0,
    };
    change(&mut options);
    let (session, _) = SessionWriter::create(&options).expect("a session can be made");
    session.header().store_calibration(&Calibration {
        base_ticks: 0,
        base_unix_ns: 0,
        ns_per_tick_q32: 1 << 32,
    });
    session
}

/// The text of a session's options with one sink, a file beside it.
pub fn config_of_file(run_dir: &Path) -> String {
    let log = run_dir.join("recovered.log");
    format!(
        "[sink]\nlayout = json\nmin_level = TRACE\n[file]\npath = {}\n",
        log.display()
    )
}

/// A file of a session: its bytes up to the last that is not zero, and its size.
pub struct Image {
    /// Name in the session's directory.
    pub name: String,
    bytes: Vec<u8>,
    /// Size in bytes.
    pub length: u64,
}

impl Image {
    fn of(path: &Path) -> Self {
        let mut bytes = fs::read(path).expect("a file can be read");
        let length = bytes.len() as u64;
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        bytes.truncate(used.next_multiple_of(8));
        let name = path
            .file_name()
            .expect("it has a name")
            .to_string_lossy()
            .into_owned();
        Self { name, bytes, length }
    }

    /// Number of bytes that are worth a change.
    pub fn used_bytes(&self) -> u64 {
        self.bytes.len().max(8) as u64
    }
}

/// Bytes of an edit that are not its value.
pub type Choice = [u8; 4];

/// A session that a child process made, as the files that it left.
pub struct Images {
    run_dir: PathBuf,
    /// The files, by name.
    pub files: Vec<Image>,
}

impl Images {
    /// Lets a child make a session, and takes its files.
    pub fn made_by_child(name: &str, make: impl Fn(&Path)) -> Self {
        let run_dir = made_by_child(name, make);
        let session = session_in(&run_dir);
        let entries = fs::read_dir(&session).expect("the session can be listed");
        let images = entries.map(|entry| Image::of(&entry.expect("an entry").path()));
        let mut files: Vec<Image> = images.collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        fs::remove_dir_all(session).expect("the session can be removed");
        Self { run_dir, files }
    }

    /// Writes the files as the session `name`, mangles them, and recovers it: that ends, and every line that it leaves in
    /// the log is whole. `place` makes of an edit's choice the file, the offset there, and what is done.
    pub fn recover(&self, name: &str, data: &[u8], place: impl Fn(Choice) -> (usize, u64, u8)) {
        let (dir, log) = (self.run_dir.join(name), self.run_dir.join("recovered.log"));
        // Left by the last run, if anything.
        let _ = fs::remove_file(&log);
        self.write(&dir);
        for edit in data.as_chunks::<12>().0.iter().take(64) {
            let [c0, c1, c2, c3, value @ ..] = *edit;
            let (file, at, op) = place([c0, c1, c2, c3]);
            self.edit(&dir, file, at, op, value);
        }
        let mut options = FileOptions::new(&log);
        options.trust_directory = true;
        // A session that is refused stays as it was; that is no fault.
        let _ = logdrive_drain::recover(&dir, Some(&options));
        if let Ok(text) = fs::read(&log) {
            assert!(
                text.is_empty() || text.last() == Some(&b'\n'),
                "the last line is whole"
            );
        }
    }

    fn write(&self, dir: &Path) {
        fs::create_dir_all(dir).expect("a directory can be made");
        for image in &self.files {
            let path = dir.join(&image.name);
            fs::write(&path, &image.bytes).expect("a file can be written");
            let file = OpenOptions::new().write(true).open(&path);
            file.and_then(|file| file.set_len(image.length))
                .expect("it grows");
        }
    }

    fn edit(&self, dir: &Path, file: usize, at: u64, op: u8, value: [u8; 8]) {
        let image = &self.files[file];
        let path = dir.join(&image.name);
        let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
            return;
        };
        let put = |bytes: &[u8], at| file.write_all_at(bytes, at).expect("it can be written");
        match op % 8 {
            0..4 => put(&value, at),
            4 | 5 => put(&value[..4], at),
            6 => put(&value[..1], at + u64::from(value[1] % 8)),
            _ => {
                let length = u64::from_le_bytes(value) % (image.length + 1);
                file.set_len(length).expect("it can be cut");
            }
        }
    }
}
