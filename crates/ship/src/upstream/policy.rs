//! Which of several members is next. Numbers come from a seed, so that a choice can be made again.

/// Policy that chooses one of the members that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// By chance, as often as its weight says.
    WeightedRandom,
    /// In turn, as often as its weight says, and as evenly as that can be (nginx's smooth weighted round robin).
    #[default]
    RoundRobin,
    /// The same member for the same key, as long as it can be used; when members come or go, only the keys move that have
    /// to (weighted rendezvous hashing).
    ConsistentHash,
    /// The one that was chosen, and no other but backups.
    Manual,
}

impl Policy {
    /// Their names in configurations.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("weighted_random", Self::WeightedRandom),
        ("round_robin", Self::RoundRobin),
        ("consistent_hash", Self::ConsistentHash),
        ("manual", Self::Manual),
    ];
}

/// A member as a choice sees it.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) weight: u32,
    /// A number of its address.
    pub(super) hash: u64,
    /// Turns that it has been passed over, weighted.
    pub(super) credit: &'a mut i64,
}

/// Mixes all bits of a number into each other (the last steps of splitmix64): rendezvous hashing needs the same result on
/// every machine and in every version.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number of bytes, the same on every machine (FNV-1a, mixed).
pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    mix(bytes.iter().fold(0xCBF2_9CE4_8422_2325, fold))
}

pub(super) fn weighted_random(candidates: &[Candidate<'_>], random: &mut fastrand::Rng) -> Option<usize> {
    let total: u64 = candidates.iter().map(|one| u64::from(one.weight)).sum();
    if total == 0 {
        return None;
    }
    let mut left = random.u64(..total);
    candidates.iter().position(|one| {
        let is_it = left < u64::from(one.weight);
        left = left.saturating_sub(u64::from(one.weight));
        is_it
    })
}

pub(super) fn round_robin(candidates: &mut [Candidate<'_>]) -> Option<usize> {
    let total: i64 = candidates.iter().map(|one| i64::from(one.weight)).sum();
    for one in candidates.iter_mut() {
        *one.credit += i64::from(one.weight);
    }
    let credits = candidates.iter().enumerate();
    // The first of those that have waited as long.
    let (best, _) = credits.min_by_key(|(_, one)| -*one.credit)?;
    *candidates.get_mut(best)?.credit -= total;
    Some(best)
}

pub(super) fn rendezvous(candidates: &[Candidate<'_>], key: u64) -> Option<usize> {
    let score = |one: &Candidate<'_>| {
        let unit = ((mix(key ^ one.hash) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -unit.ln() / f64::from(one.weight.max(1))
    };
    let scored = candidates.iter().map(score).enumerate();
    scored
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(index, _)| index)
}
