//! Rotation and retention against a plain model: random options, chunks, clocks that jump and
//! restarts; after every step the directory must hold exactly the files that the model holds.

mod file_support;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use file_support::{Chunks, NOW_S, SECOND_NS, content, names, open, put, settle};
use logdrive_drain::file::{Compress, Every, FileOptions, LogFile};
use logdrive_testkit::Random;

/// The expected content of the directory, in the simplest terms.
#[derive(Debug)]
struct Model {
    options: FileOptions,
    active: Vec<u8>,
    period: u64,
    /// By number and time of the rotation.
    rotated: BTreeMap<(u32, u64), Vec<u8>>,
    last: u32,
}

impl Model {
    fn period_of(&self, now_s: u64) -> u64 {
        match self.options.rotate_every {
            None => 0,
            Some(Every::Daily) => now_s / 86_400,
            Some(Every::Hourly) => now_s / 3_600,
            Some(Every::Seconds(seconds)) => now_s / seconds,
        }
    }

    fn put(&mut self, bytes: &[u8], now_s: u64) {
        let period = self.period_of(now_s);
        if self.active.is_empty() || period < self.period {
            self.period = period;
        }
        let too_big = self
            .options
            .rotate_bytes
            .is_some_and(|rotate_bytes| (self.active.len() + bytes.len()) as u64 > rotate_bytes);
        if !self.active.is_empty() && (too_big || period > self.period) {
            let on_disk = self.rotated.keys().map(|(number, _)| *number).max();
            self.last = on_disk.unwrap_or(0).max(self.last) + 1;
            let key = (self.last, now_s);
            self.rotated.insert(key, std::mem::take(&mut self.active));
            self.period = period;
            self.retain(now_s);
        }
        self.active.extend_from_slice(bytes);
    }

    /// One rule after the other, one file after the other.
    fn retain(&mut self, now_s: u64) {
        if let Some(age) = self.options.keep_age {
            self.rotated
                .retain(|(_, second), _| *second > now_s || now_s - second <= age.as_secs());
        }
        while self
            .options
            .keep_files
            .is_some_and(|keep| self.rotated.len() > keep as usize)
        {
            self.rotated.pop_first();
        }
        while self
            .options
            .keep_bytes
            .is_some_and(|keep| self.rotated_bytes() > keep)
        {
            self.rotated.pop_first();
        }
    }

    fn rotated_bytes(&self) -> u64 {
        self.rotated.values().map(|content| content.len() as u64).sum()
    }

    fn check(&self, dir: &Path) {
        let mut wanted: Vec<(String, &[u8])> = vec![("app.log".into(), &self.active)];
        for ((number, second), content) in &self.rotated {
            let ending = match self.options.compress {
                Compress::None => "",
                Compress::Gzip => ".gz",
                Compress::Zstd => ".zst",
            };
            wanted.push((format!("app.{}.{number:06}.log{ending}", stamp(*second)), content));
        }
        wanted.sort();
        let wanted_names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names(dir), wanted_names, "{self:#?}");
        for (name, bytes) in wanted {
            assert_eq!(content(&dir.join(&name)), bytes, "{name}");
        }
    }
}

/// The time in a name, by another way than the program's: counting days up from the year 2026.
fn stamp(unix_s: u64) -> String {
    let (mut days, second) = (unix_s / 86_400 - 20_454, unix_s % 86_400);
    let mut year = 2026;
    loop {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let months = [
            31,
            if leap { 29 } else { 28 },
            31,
            30,
            31,
            30,
            31,
            31,
            30,
            31,
            30,
            31,
        ];
        for (month, length) in months.iter().enumerate() {
            if days < *length {
                let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
                return format!(
                    "{year}-{:02}-{:02}T{hour:02}-{minute:02}-{second:02}Z",
                    month + 1,
                    days + 1
                );
            }
            days -= length;
        }
        year += 1;
    }
}

fn random_rules(random: &mut Random, options: &mut FileOptions) {
    options.rotate_bytes = random.maybe(|random| 20 + random.below(400));
    options.rotate_every = random.maybe(|random| match random.below(3) {
        0 => Every::Hourly,
        1 => Every::Daily,
        _ => Every::Seconds(1 + random.below(5_000)),
    });
    options.keep_files = random.maybe(|random| random.below(5) as u32);
    options.keep_age = random.maybe(|random| Duration::from_secs(random.below(200_000)));
    options.keep_bytes = random.maybe(|random| random.below(1_500));
}

/// Time mostly creeps, sometimes leaps, sometimes goes back.
fn pass_time(random: &mut Random, now_s: u64) -> u64 {
    match random.below(20) {
        0..=7 => now_s,
        8..=12 => now_s + random.below(5),
        13..=15 => now_s + random.below(4_000),
        16..=17 => now_s + random.below(100_000),
        18 => now_s - random.below(10),
        _ => now_s - random.below(200_000),
    }
}

/// Leaves the file as if it had been written at the time of the test, which is not that of the disk.
fn close(file: LogFile, path: &Path, now_s: u64) {
    file.close(now_s * SECOND_NS).expect("closed");
    let file = File::options().write(true).open(path).expect("the active file");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(now_s);
    file.set_modified(time).expect("the time is set");
}

fn round(random: &mut Random, compress: Compress, steps: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.log");
    let mut options = FileOptions::new(&path);
    random_rules(random, &mut options);
    options.compress = compress;
    if compress != Compress::None {
        options.keep_bytes = None; // the model knows no compressed sizes
    }
    let mut now_s = NOW_S;
    let mut written_s = now_s;
    let mut model = Model {
        options: options.clone(),
        active: Vec::new(),
        period: 0,
        rotated: BTreeMap::new(),
        last: 0,
    };
    let mut file = open(&options);
    let mut chunks = Chunks::default();
    for _ in 0..steps {
        now_s = pass_time(random, now_s);
        if random.below(15) == 0 {
            settle(&file);
            close(file, &path, written_s);
            let keep_bytes = options.keep_bytes;
            random_rules(random, &mut options);
            options.keep_bytes = if compress == Compress::None {
                options.keep_bytes
            } else {
                keep_bytes
            };
            file = LogFile::open(
                &options,
                std::sync::Arc::new(logdrive_drain::file::Disk),
                now_s * SECOND_NS,
            )
            .expect("the log opens again");
            model.options = options.clone();
            model.last = 0;
            let began_s = if model.active.is_empty() {
                now_s
            } else {
                written_s.min(now_s)
            };
            model.period = model.period_of(began_s);
            model.retain(now_s);
        } else {
            let count = 1 + random.below(6);
            let bytes = chunks.next(count);
            put(&mut file, &bytes, now_s * SECOND_NS + random.below(SECOND_NS));
            model.put(&bytes, now_s);
            written_s = now_s;
        }
        settle(&file);
        model.check(dir.path());
    }
}

#[test]
fn a_rotated_log_file_is_where_the_model_has_it() {
    Random::rounds(60, |random| round(random, Compress::None, 60));
}

#[cfg(feature = "gzip")]
#[test]
fn a_log_file_compressed_with_gzip_is_where_the_model_has_it() {
    Random::rounds(10, |random| round(random, Compress::Gzip, 30));
}

#[cfg(feature = "zstd")]
#[test]
fn a_log_file_compressed_with_zstd_is_where_the_model_has_it() {
    Random::rounds(10, |random| round(random, Compress::Zstd, 30));
}
