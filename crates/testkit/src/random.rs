//! Random numbers that can be had again: the seed is printed, and taken from `LOGDRIVE_SEED` where that is set.

/// A generator of random numbers (splitmix64), which takes any seed.
///
/// ```
/// use logdrive_testkit::Random;
/// let mut random = Random::new(7);
/// assert!(random.below(10) < 10);
/// assert!(["a", "b"].contains(random.pick(&["a", "b"])));
/// ```
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts with the seed in `LOGDRIVE_SEED`, or with another one, and prints it.
    #[allow(clippy::print_stdout, reason = "a test talks to whoever runs it")]
    pub fn seeded(otherwise: u64) -> Self {
        let seed = seed_of_environment().unwrap_or(otherwise);
        println!("LOGDRIVE_SEED={seed}");
        Self(seed)
    }

    /// Runs `round` with the seeds below `count`, or with the one in `LOGDRIVE_SEED`. Prints the seed of a round that
    /// panics.
    pub fn rounds(count: u64, mut round: impl FnMut(&mut Random)) {
        let seeds = match seed_of_environment() {
            Some(seed) => seed..seed + 1,
            None => 0..count,
        };
        for seed in seeds {
            let announcement = Announcement(seed);
            round(&mut Random(seed));
            std::mem::forget(announcement);
        }
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// Returns an index below `length`; 0 where that is 0.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Returns true once in `count` times; never where that is 0.
    pub fn one_in(&mut self, count: u64) -> bool {
        count > 0 && self.below(count) == 0
    }

    /// Returns a value or nothing, evenly.
    pub fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(2).then(|| value(self))
    }

    /// Returns one of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }
}

fn seed_of_environment() -> Option<u64> {
    std::env::var("LOGDRIVE_SEED").ok()?.parse().ok()
}

/// Prints the seed when it is dropped, which only a panic does.
struct Announcement(u64);

impl Drop for Announcement {
    #[allow(clippy::print_stdout, reason = "a test talks to whoever runs it")]
    fn drop(&mut self) {
        println!("to have this again: LOGDRIVE_SEED={}", self.0);
    }
}
