//! Columns of doubles: as decimal integers where all values print with few digits behind the point, else their bits.

use crate::bytes::{Compressor, Input};
use crate::error::{StoreError, limit};
use crate::integers::{self, ordered, unordered};

/// Most digits behind the point.
const DIGITS_MAX: usize = 9;
const POWERS: [f64; DIGITS_MAX + 1] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Largest integer up to which doubles hold every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// In place of a count of digits: the values are bits.
const BITS: u8 = 0xff;

/// Adding and taking away this rounds a smaller double to an integer, to an even one from the middle.
const ROUNDS: f64 = 6_755_399_441_055_744.0;
/// Largest double that it rounds.
const ROUNDED_MAX: f64 = 2_251_799_813_685_248.0;

/// The integer which, divided by the power, gives exactly these bits.
#[inline]
fn decimal(bits: u64, power: f64) -> Option<u64> {
    let scaled = f64::from_bits(bits) * power;
    // Without a call of a function, which rounding is where the processor's basic set has no instruction for it.
    let scaled = match scaled.abs() <= ROUNDED_MAX {
        true => scaled + ROUNDS - ROUNDS,
        false => scaled.round_ties_even(),
    };
    let integer = scaled as i64;
    let is_exact = scaled.abs() <= EXACT_MAX && (integer as f64 / power).to_bits() == bits;
    is_exact.then_some(ordered(integer))
}

/// Writes a column of the bits of doubles. Returns how many digits stand behind the point at most.
pub(crate) fn encode(values: &[u64], compressor: &mut Compressor, out: &mut Vec<u8>) -> u8 {
    if values.is_empty() {
        return 0;
    }
    let mut decimals = Vec::with_capacity(values.len());
    // The least digits that do for the first values mostly do for all; where they do not, more are tried.
    for (digits, power) in POWERS.iter().enumerate() {
        decimals.clear();
        decimals.extend(values.iter().map_while(|bits| decimal(*bits, *power)));
        if decimals.len() == values.len() {
            out.push(digits as u8);
            integers::encode(&decimals, compressor, out);
            return digits as u8;
        }
    }
    out.push(BITS);
    integers::encode(values, compressor, out);
    BITS
}

/// Digits behind the point that a column has at most, as [`encode`] returned them.
pub(crate) fn digits(column: &[u8]) -> u8 {
    column.first().copied().unwrap_or(0)
}

/// Reads a column of so many values.
pub(crate) fn decode(input: &mut Input<'_>, count: usize) -> Result<Vec<u64>, StoreError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let digits = input.u8()?;
    let mut values = integers::decode(input, count)?;
    if digits == BITS {
        return Ok(values);
    }
    limit("digits", usize::from(digits), DIGITS_MAX)?;
    let power = POWERS[usize::from(digits)];
    for value in &mut values {
        *value = (unordered(*value) as f64 / power).to_bits();
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(values: &[f64]) -> usize {
        let values: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
        let mut out = Vec::new();
        encode(&values, &mut Compressor::default(), &mut out);
        assert_eq!(
            decode(&mut Input::new(&out, "column"), values.len()).expect("a column"),
            values
        );
        out.len()
    }

    #[test]
    fn prices_take_the_bits_of_their_digits() {
        let prices: Vec<f64> = (0..1024).map(|n| f64::from(n * 7 % 256) / 100.0).collect();
        assert!(round(&prices) < 1100, "8 bits each");
    }

    #[test]
    fn random_doubles_keep_their_bits() {
        let mut random = logdrive_testkit::Random::new(0xf1);
        for _ in 0..400 {
            let (digits, specials) = (random.below(11), random.below(4));
            let special = [
                -0.0,
                f64::NAN,
                f64::NEG_INFINITY,
                5e-324,
                1e300,
                -9_007_199_254_740_993.0,
            ];
            let values: Vec<f64> = (0..1 + random.below(300))
                .map(|_| match random.below(40) {
                    0 if specials == 1 => special[random.below(6) as usize],
                    1 if specials == 2 => f64::from_bits(random.bits()),
                    _ => (random.bits() >> random.below(64)) as i64 as f64 / 10f64.powi(digits as i32),
                })
                .collect();
            round(&values);
        }
    }

    #[test]
    fn every_double_keeps_its_bits() {
        round(&[
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::MIN_POSITIVE,
            0.1 + 0.2,
            1e300,
            -1.5,
        ]);
        round(&[]);
        round(&[-0.5, 12.25, 9e15]);
        round(&[-0.0, 1.0]);
        round(&[
            2_251_799_813_685_247.5,
            -4_503_599_627_370_495.5,
            4.5,
            2.5,
            -0.5,
            9_007_199_254_740_993.0,
        ]);
    }
}
