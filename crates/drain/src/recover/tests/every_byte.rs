//! Flips in each byte of what describes a session, pages of zeros, and files that are cut off: no panic, no hang, nothing
//! written elsewhere, no record twice, and none that is missing without a word.

use super::*;
use logdrive_testkit::Random;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Set to `all`, it has every case run in place of a part of them.
const ALL: &str = "LOGDRIVE_DAMAGE";
/// Of so many cases one runs, unless all do.
const PART: u64 = 16;
const THREADS: u64 = 3;
/// Records of one thread: they fill half of its ring.
const RECORDS_EACH: u64 = 400;
const RING: usize = 1 << 16;
const PAGE: usize = 4096;
/// Time after which a recovery counts as one that hangs. It takes milliseconds.
const CASE_MAX: Duration = Duration::from_secs(30);

/// Damage of one file of a session.
#[derive(Debug, Clone)]
struct Case {
    file: String,
    harm: Damage,
}

#[derive(Debug, Clone)]
enum Damage {
    /// One flipped bit of the byte at this offset.
    Flip(usize, u8),
    /// A page of zeros from this offset on.
    Zeros(usize),
    /// A file that ends there.
    End(usize),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Flip(at, bit) => bytes[*at] ^= 1 << bit,
            Self::Zeros(from) => {
                let to = (from + PAGE).min(bytes.len());
                bytes[*from..to].fill(0);
            }
            Self::End(at) => bytes.truncate(*at),
        }
    }
}

/// Files of a session of several threads, with text in a buffer that is to be written.
fn session_files(dir: &Path, log: &Path) -> (PathBuf, Vec<(String, Vec<u8>)>) {
    let sink = SinkOptions::new(Target::File(FileOptions::new(log)));
    let session = new_session(dir.join("run"), RING, &[sink]);
    let mut producers: Vec<_> = (0..THREADS)
        .map(|_| session.acquire("main").expect("a ring"))
        .collect();
    for number in 0..THREADS * RECORDS_EACH {
        let record = dead::record(number, number as usize % 40);
        let _ = producers[(number % THREADS) as usize].push(&record, false, FullPolicy::Drop);
    }
    {
        let view = SessionReader::open(session.path()).expect("the session");
        let mut buffer = view
            .buffers()
            .expect("buffers")
            .take_all(0)
            .expect("room")
            .remove(0);
        buffer.start_filling(1);
        buffer.space()[..8].copy_from_slice(b"earlier\n");
        buffer.grow(8, 1);
        buffer.mark_ready();
    }
    let path = session.path().to_owned();
    let list = std::fs::read_dir(&path).expect("a list").flatten();
    let mut files: Vec<_> = list
        .map(|file| {
            let bytes = std::fs::read(file.path()).expect("a file");
            (file.file_name().into_string().expect("text"), bytes)
        })
        .collect();
    files.sort();
    (path, files)
}

/// All cases, of which those of flips are drawn.
fn cases(files: &[(String, Vec<u8>)], random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for (file, bytes) in files {
        let mut flips: Vec<usize> = match file.as_str() {
            "session" => (0..2496).collect(),
            "drain" => [
                0..64,
                3248..3288,
                4088..4608,
                12288..12416,
                28672..28900,
                61440..61488,
            ]
            .into_iter()
            .flatten()
            .collect(),
            "callsites" => (0..128).collect(),
            name if name.starts_with("ring-") => (RING..RING + 384).collect(),
            _ => (0..64).collect(),
        };
        flips.extend((0..200).map(|_| random.index(bytes.len())));
        let mut add = |harm| {
            cases.push(Case {
                file: file.clone(),
                harm,
            });
        };
        for at in flips {
            add(Damage::Flip(at, random.below(8) as u8));
        }
        for at in (0..bytes.len()).step_by(PAGE) {
            add(Damage::Zeros(at));
            add(Damage::End(at));
        }
    }
    cases
}

/// Checks what a recovery of a damaged session leaves behind; returns the number of its records in the logs.
fn check(case: &Case, dir: &Path, session: &Path, recovered: &Result<Recovered, BackendError>) -> usize {
    let names = |path: &Path| -> Vec<String> {
        let list = std::fs::read_dir(path).expect("a list").flatten();
        let names = list.map(|file| file.file_name().to_string_lossy().into_owned());
        names.collect()
    };
    let mut outside = names(dir);
    outside.sort();
    assert_eq!(outside, ["logs", "run"], "{case:?}");
    let logs = names(&dir.join("logs"));
    let mut text = String::new();
    for log in &logs {
        assert!(
            ["own.log", "shop.log"].contains(&log.as_str()),
            "{case:?}: {logs:?}"
        );
        let bytes = std::fs::read(dir.join("logs").join(log)).expect("a log");
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    let found = numbers(text.as_bytes());
    let of_session: HashSet<u64> = found
        .iter()
        .copied()
        .filter(|number| *number < THREADS * RECORDS_EACH)
        .collect();
    assert!(text.matches("earlier\n").count() <= 1, "{case:?}");
    let all = (THREADS * RECORDS_EACH) as usize;
    // A value that is flipped, or begins on a page of zeros, makes another record of it.
    let changed = usize::from(!matches!(&case.harm, Damage::End(_)) && case.file.starts_with("ring"));
    assert!(
        found.len() <= of_session.len() + changed,
        "{case:?}: a record is there twice"
    );
    let kept = names(&dir.join("run"));
    let sums = format!("{all} calls committed, ");
    let is_told = !kept.is_empty()
        || recovered
            .as_ref()
            .is_ok_and(|recovered| !recovered.damage.is_empty())
        || recovered.is_err()
        // As a ring that had no room.
        || text.contains("what they held is lost")
        || text.contains(&sums) && !text.contains(&format!(": {} written", all + 1));
    assert!(
        of_session.len() + changed >= all || is_told,
        "{case:?}: {} of {all} without a word: {recovered:?}",
        of_session.len()
    );
    if recovered.is_err() {
        assert!(session.exists(), "{case:?}: {recovered:?} removed the session");
    }
    of_session.len()
}

/// A zeroed page removed 39,316 records, and of 135 flips in the header 37 made everything unreadable.
#[test]
fn damage_of_any_byte_and_page_costs_no_more_than_it_hits() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, own) = (dir.path().join("logs/shop.log"), dir.path().join("logs/own.log"));
    let (session, files) = session_files(dir.path(), &log);
    let own = FileOptions::new(own);
    let storage = Arc::new(Disk) as Arc<dyn Storage>;
    let mut random = Random::seeded(14);
    let is_all = std::env::var(ALL).is_ok_and(|part| part == "all");
    let mut cases = cases(&files, &mut random);
    cases.retain(|_| is_all || random.one_in(PART));
    cases.push(Case {
        file: "session".to_owned(),
        harm: Damage::Flip(4095, 0),
    });
    let (mut whole, mut partial) = (0, 0);
    for case in &cases {
        std::fs::remove_dir_all(dir.path().join("run")).expect("the last session");
        let _ = std::fs::remove_dir_all(dir.path().join("logs"));
        std::fs::create_dir_all(&session).expect("a directory");
        std::fs::create_dir_all(dir.path().join("logs")).expect("a directory");
        for (name, bytes) in &files {
            let mut bytes = bytes.clone();
            if *name == case.file {
                case.harm.apply(&mut bytes);
            }
            std::fs::write(session.join(name), bytes).expect("a file");
        }
        let began = Instant::now();
        let recovered = recover_with(&session, None, Some(&own), &storage, None);
        assert!(began.elapsed() < CASE_MAX, "{case:?} hangs: {recovered:?}");
        match check(case, dir.path(), &session, &recovered) as u64 == THREADS * RECORDS_EACH {
            true => whole += 1,
            false => partial += 1,
        }
    }
    // Most damage costs no record at all.
    println!("{} cases, {whole} without loss, {partial} with", cases.len());
    assert!(whole > 3 * partial, "{whole} cases without loss, {partial} with");
}
