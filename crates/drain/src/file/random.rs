//! A seeded random sequence for the property tests: prints its seed when a round fails, and
//! `LOGDRIVE_SEED=N` runs that round again.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
pub(crate) struct Random(u64);

impl Random {
    /// Runs `round` with `count` seeds, or with the one that the environment names.
    pub(crate) fn rounds(count: u64, mut round: impl FnMut(&mut Random)) {
        let named = std::env::var("LOGDRIVE_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seeds = match named {
            Some(seed) => seed..seed + 1,
            None => 0..count,
        };
        for seed in seeds {
            let announce = Announce(seed);
            round(&mut Random(seed));
            std::mem::forget(announce);
        }
    }

    /// Returns the next 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns a value or nothing, at even odds.
    pub(crate) fn maybe<T>(&mut self, value: impl FnOnce(&mut Random) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| value(self))
    }
}

/// Prints the seed while a panic of its round unwinds.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        eprintln!("failed with LOGDRIVE_SEED={}", self.0);
    }
}
