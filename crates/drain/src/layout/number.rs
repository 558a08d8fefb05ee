//! Numbers as decimal text.
//!
//! Integers up to six digits come from a table of three, longer ones are taken apart eight digits at a time inside one
//! 64-bit word: one store and no loop for most. Their length comes from a table of its own, so that what follows does not
//! wait for the digits.
//! Floats with a fixed number of decimals are multiplied out exactly and rounded half to even, as `std` does.

use super::write::{OVERFLOW, put, put_byte, room};

const POW10: [u64; 20] = {
    let mut table = [1; 20];
    let mut i = 1;
    while i < 20 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// `TABLE[log2(v)] + v`, shifted right by 32, is the number of decimal digits of `v`
/// (Lemire and Kendall Willets, "Computing the number of digits of an integer even faster", 2021).
const DIGITS: [u64; 32] = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 32 {
        let smallest = 1u64 << i;
        let mut digits = 1;
        while digits < 11 && POW10[digits] <= smallest {
            digits += 1;
        }
        // A power of ten between this power of two and the next carries into the upper half.
        let next = POW10[digits];
        table[i] = if next < smallest * 2 {
            ((digits as u64 + 1) << 32) - next
        } else {
            (digits as u64) << 32
        };
        i += 1;
    }
    table
};

/// Three digits and a zero byte, for numbers below 1000.
static THREE_DIGITS: [[u8; 4]; 1024] = {
    let mut table = [[0; 4]; 1024];
    let mut i = 0;
    while i < 1024 {
        table[i] = [
            b'0' + (i / 100 % 10) as u8,
            b'0' + (i / 10 % 10) as u8,
            b'0' + (i % 10) as u8,
            0,
        ];
        i += 1;
    }
    table
};

/// The three digits of a number below 1000, and a zero byte behind them.
#[inline(always)]
pub(super) fn three_digits(value: u32) -> &'static [u8; 4] {
    &THREE_DIGITS[value as usize & 1023]
}

const ZEROS: u64 = 0x3030_3030_3030_3030;
const MILLION: u64 = 1_000_000;
const EIGHT: u64 = 100_000_000;

/// Decimal digits of a number; 1 for zero.
#[inline(always)]
fn digit_count(value: u32) -> usize {
    ((u64::from(value) + DIGITS[(value | 1).ilog2() as usize]) >> 32) as usize
}

/// The eight digits of a number below 10^8 as text, the first digit in the lowest byte.
#[inline(always)]
fn eight_digits(value: u32) -> u64 {
    let value = u64::from(value);
    let high = (value * 109_951_163) >> 40;
    let merged = high | ((value - high * 10_000) << 32);
    let hundreds = ((merged * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | ((merged - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens | ((pairs - tens * 10) << 8)) | ZEROS
}

/// The six digits of a number below a million, likewise; zeros above them.
#[inline(always)]
fn six_digits(value: u32) -> u64 {
    let high = value / 1_000;
    let low = value - high * 1_000;
    let digits = |value| u64::from(u32::from_le_bytes(*three_digits(value)));
    digits(high) | digits(low) << 24
}

/// A number below 10^8 as text of `count` digits, which are all that it has, or more; at most six where it is short.
#[inline(always)]
fn last_digits(value: u32, count: usize, is_short: bool) -> u64 {
    let shift = |of: u32| of.wrapping_sub(count as u32).wrapping_mul(8) & 63;
    if is_short {
        six_digits(value) >> shift(6)
    } else {
        eight_digits(value) >> shift(8)
    }
}

/// Writes an unsigned integer.
#[inline(never)]
pub(super) fn put_u64(bytes: &mut [u8], at: usize, value: u64) -> usize {
    put_u64_here(bytes, at, value)
}

/// The same in the place of the call, for loops that write many.
#[inline(always)]
pub(super) fn put_u64_here(bytes: &mut [u8], at: usize, value: u64) -> usize {
    if value < EIGHT {
        put_u32_short(bytes, at, value as u32)
    } else {
        put_u64_long(bytes, at, value)
    }
}

#[inline(always)]
fn put_u32_short(bytes: &mut [u8], at: usize, value: u32) -> usize {
    let Some(place) = room::<8>(bytes, at) else {
        return OVERFLOW;
    };
    let count = digit_count(value);
    *place = last_digits(value, count, u64::from(value) < MILLION).to_le_bytes();
    at + count
}

#[inline(never)]
fn put_u64_long(bytes: &mut [u8], at: usize, value: u64) -> usize {
    let (head, low) = (value / EIGHT, (value % EIGHT) as u32);
    let at = if head < EIGHT {
        put_u32_short(bytes, at, head as u32)
    } else {
        let at = put_u32_short(bytes, at, (head / EIGHT) as u32);
        put_eight(bytes, at, (head % EIGHT) as u32)
    };
    put_eight(bytes, at, low)
}

#[inline(always)]
fn put_eight(bytes: &mut [u8], at: usize, value: u32) -> usize {
    match room::<8>(bytes, at) {
        Some(place) => {
            *place = eight_digits(value).to_le_bytes();
            at + 8
        }
        None => OVERFLOW,
    }
}

/// Writes a signed integer.
#[inline(never)]
pub(super) fn put_i64(bytes: &mut [u8], at: usize, value: i64) -> usize {
    put_i64_here(bytes, at, value)
}

/// The same in the place of the call.
#[inline(always)]
pub(super) fn put_i64_here(bytes: &mut [u8], at: usize, value: i64) -> usize {
    // The sign is always written and then kept or not, which costs less than a branch that guesses wrong.
    match bytes.get_mut(at) {
        Some(place) => *place = b'-',
        None => return OVERFLOW,
    }
    put_u64_here(bytes, at + usize::from(value < 0), value.unsigned_abs())
}

/// Writes an unsigned integer with spaces before it, at least `width` characters.
pub(super) fn put_u64_right(bytes: &mut [u8], at: usize, value: u64, width: usize) -> usize {
    let count = value.checked_ilog10().map_or(1, |log| log as usize + 1);
    let mut at = at;
    for _ in count..width {
        at = put_byte(bytes, at, b' ');
    }
    put_u64(bytes, at, value)
}

/// Writes exactly `count` digits, at most 16, with leading zeros.
#[inline]
pub(super) fn put_digits(bytes: &mut [u8], at: usize, value: u64, count: usize) -> usize {
    if count > 8 {
        let at = put_digits(bytes, at, value / EIGHT, count - 8);
        return put_eight(bytes, at, (value % EIGHT) as u32);
    }
    let Some(place) = room::<8>(bytes, at) else {
        return OVERFLOW;
    };
    let shift = (8 - count as u32) * 8;
    *place = eight_digits(value as u32)
        .checked_shr(shift)
        .unwrap_or(0)
        .to_le_bytes();
    at + count
}

/// Decimals that [`put_fixed`] can do: 2^53 times 10^15 leaves room in 128 bits for every shift that matters.
pub(super) const FIXED_DECIMALS_MAX: usize = 15;

/// Writes a float with a fixed number of decimals, exactly as `{:.N}` does; `None` when this way cannot (not finite,
/// or too large for 64 bits when multiplied out), and then nothing was written that counts.
#[inline(always)]
pub(super) fn put_fixed(bytes: &mut [u8], at: usize, value: f64, decimals: usize) -> Option<usize> {
    let bits = value.to_bits();
    let exponent = (bits >> 52) as u32 & 0x7ff;
    let mantissa = bits & ((1 << 52) - 1) | u64::from(exponent != 0) << 52;
    // The value is mantissa / 2^shift. Subnormals share the exponent of the smallest normal number.
    let shift = 1075 - exponent.max(1) as i32;
    if !(1..=1074).contains(&shift) || decimals > FIXED_DECIMALS_MAX {
        return None;
    }
    let rounded = if decimals <= 3 {
        round_shift_64(mantissa * POW10[decimals], shift as u32)
    } else {
        round_shift_128(u128::from(mantissa) * u128::from(POW10[decimals]), shift as u32)?
    };
    match bytes.get_mut(at) {
        Some(place) => *place = b'-',
        None => return Some(OVERFLOW),
    }
    let at = at + (bits >> 63) as usize;
    Some(put_scaled(bytes, at, rounded, decimals))
}

/// As [`put_fixed`], for numbers of usual size with one to three decimals.
#[inline(always)]
pub(super) fn put_fixed_here(bytes: &mut [u8], at: usize, value: f64, decimals: usize) -> Option<usize> {
    const UNITS: [u64; 4] = [1, 10, 100, 1_000];
    let bits = value.to_bits();
    let exponent = (bits >> 52) as u32 & 0x7ff;
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    // Within these the number is a normal one.
    let shift = 1075u32.wrapping_sub(exponent);
    if shift.wrapping_sub(1) > 62 || decimals.wrapping_sub(1) > 2 {
        return None;
    }
    let scaled = round_shift_64(mantissa * UNITS[decimals & 3], shift);
    if scaled >= 10 * MILLION {
        return None;
    }
    *bytes.get_mut(at)? = b'-';
    let at = at + (bits >> 63) as usize;
    Some(put_scaled_short(bytes, at, scaled as u32, decimals))
}

/// Thresholds from which on a number has one digit more in front of the point.
const DECADES: [f64; 9] = [1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5];

/// Writes a float with six digits that count, as `%g` of C does, where that takes no exponent; else `None`, and then nothing
/// was written that counts.
#[inline(always)]
pub(super) fn put_general(bytes: &mut [u8], at: usize, value: f64) -> Option<usize> {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..999_999.5).contains(&magnitude) {
        return None;
    }
    // What is rounded up to the next decade has zeros behind it, which go.
    let decades = DECADES.iter().filter(|&&decade| magnitude >= decade).count();
    let decimals = if magnitude == 0.0 { 0 } else { 9 - decades };
    let end = put_fixed(bytes, at, value, decimals)?;
    let Some(text) = bytes.get(at..end).filter(|_| decimals > 0) else {
        return Some(end);
    };
    let zeros = text.iter().rev().take_while(|&&digit| digit == b'0').count();
    let point = usize::from(text.get(text.len() - zeros - 1) == Some(&b'.'));
    Some(end - zeros - point)
}

/// `product / 2^shift`, rounded half to even; `product` is below 2^63.
#[inline(always)]
fn round_shift_64(product: u64, shift: u32) -> u64 {
    const HALF: u64 = 1 << 63;
    if shift > 63 {
        // Less than a half.
        return 0;
    }
    let quotient = product >> shift;
    let rest = product << (64 - shift);
    // An odd quotient is rounded up from the half on, an even one from above it.
    quotient + u64::from(rest > HALF - (quotient & 1))
}

#[inline]
fn round_shift_128(product: u128, shift: u32) -> Option<u64> {
    if shift > 127 {
        return Some(0);
    }
    let quotient = product >> shift;
    let rest = product & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    let rounded = quotient + u128::from(rest > half || (rest == half && quotient & 1 == 1));
    u64::try_from(rounded).ok()
}

/// Writes `scaled / 10^decimals`.
#[inline(always)]
fn put_scaled(bytes: &mut [u8], at: usize, scaled: u64, decimals: usize) -> usize {
    if scaled < 10 * MILLION && decimals <= 6 && decimals > 0 {
        return put_scaled_short(bytes, at, scaled as u32, decimals);
    }
    put_scaled_long(bytes, at, scaled, decimals)
}

/// The same for seven digits at most, of which one to six are decimals.
#[inline(always)]
fn put_scaled_short(bytes: &mut [u8], at: usize, scaled: u32, decimals: usize) -> usize {
    let Some(place) = room::<8>(bytes, at) else {
        return OVERFLOW;
    };
    let count = digit_count(scaled).max(decimals + 1);
    let digits = last_digits(scaled, count, u64::from(scaled) < MILLION && decimals < 6);
    // Opens a gap of one byte for the point: at most seven digits, so nothing falls out.
    let point = ((count - decimals) * 8) as u32 & 63;
    let below = (1u64 << point) - 1;
    let text = digits & below | u64::from(b'.') << point | (digits & !below) << 8;
    *place = text.to_le_bytes();
    at + count + 1
}

#[inline(never)]
fn put_scaled_long(bytes: &mut [u8], at: usize, scaled: u64, decimals: usize) -> usize {
    let unit = POW10[decimals];
    let at = put_u64(bytes, at, scaled / unit);
    if decimals == 0 {
        return at;
    }
    let at = put_byte(bytes, at, b'.');
    put_digits(bytes, at, scaled % unit, decimals)
}

/// Form of the shortest text of a float.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortest {
    /// As `{}`: `1`, never an exponent.
    Display,
    /// As `{:?}`: `1.0`, an exponent outside of 1e-5 to 1e16. Also how JSON writes it.
    Debug,
}

/// Writes the shortest text that reads back as the same double.
#[inline]
pub(super) fn put_f64(bytes: &mut [u8], at: usize, value: f64, form: Shortest) -> usize {
    match put_few_decimals(bytes, at, value, form) {
        Some(end) => end,
        None => put_any_f64(bytes, at, value, form),
    }
}

/// Writes a float of up to four decimals in its shortest form, as most prices and times are; `None` for others.
#[inline]
fn put_few_decimals(bytes: &mut [u8], at: usize, value: f64, form: Shortest) -> Option<usize> {
    const DECIMALS: usize = 4;
    const UNIT: f64 = 1e4;
    /// Adding and taking away this rounds a smaller double to an integer.
    const ROUNDS: f64 = 6_755_399_441_055_744.0;
    // Numbers of 15 digits are doubles of their own, each, so that the digits of this one are the fewest.
    if !(1e-4..1e11).contains(&value.abs()) {
        return None;
    }
    let rounded = value * UNIT + ROUNDS - ROUNDS;
    if rounded / UNIT != value {
        return None;
    }
    let scaled = rounded.abs() as u64;
    *bytes.get_mut(at)? = b'-';
    let end = put_scaled(bytes, at + usize::from(value < 0.0), scaled, DECIMALS);
    let zeros = match scaled {
        _ if !scaled.is_multiple_of(10) => 0,
        _ if !scaled.is_multiple_of(100) => 1,
        _ if !scaled.is_multiple_of(1_000) => 2,
        _ if !scaled.is_multiple_of(10_000) || form == Shortest::Debug => 3,
        // With the point.
        _ => 1 + DECIMALS,
    };
    Some(if end >= OVERFLOW { end } else { end - zeros })
}

macro_rules! put_float {
    ($(#[$doc:meta])* $name:ident, $type:ty, $below:literal) => {
        $(#[$doc])*
        #[inline(never)]
        pub(super) fn $name(bytes: &mut [u8], at: usize, value: $type, form: Shortest) -> usize {
            // In this range both `std` and `zmij` write neither an exponent nor zeros in its place.
            let magnitude = value.abs();
            if (1e-4..$below).contains(&magnitude) || magnitude == 0.0 {
                let mut buffer = zmij::Buffer::new();
                let text = buffer.format_finite(value).as_bytes();
                if let Some(text) = shortest(text, f64::from(value), form) {
                    return put(bytes, at, text);
                }
            }
            // Rare, so it may allocate.
            let text = match form {
                Shortest::Display => format!("{value}"),
                Shortest::Debug => format!("{value:?}"),
            };
            put(bytes, at, text.as_bytes())
        }
    };
}

put_float!(
    /// Writes the shortest text that reads back as the same double, whichever it is.
    put_any_f64, f64, 1e14
);
put_float!(
    /// Writes the shortest text that reads back as the same single.
    put_f32, f32, 1e7
);

/// Returns the text of `std`, given that of `zmij`; `None` where the value lies in the middle between two texts of this
/// length, where `std` rounds up and `zmij` to even.
#[inline(always)]
fn shortest(text: &[u8], value: f64, form: Shortest) -> Option<&[u8]> {
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32 & 0x7ff;
    let fraction_bits = 1075 - exponent - bits.trailing_zeros().cast_signed();
    if fraction_bits <= 0 || value == 0.0 {
        return Some(if form == Shortest::Debug {
            text
        } else {
            text.strip_suffix(b".0").unwrap_or(text)
        });
    }
    // A value with N bits behind the point has exactly N decimals, and the last one is a five: it is such a middle if
    // the text has one decimal less. No text has more than 17 digits, which may follow on three zeros.
    if fraction_bits <= 21 {
        let decimals = text.iter().rev().position(|byte| *byte == b'.').unwrap_or(0);
        return (decimals as i32 + 1 != fraction_bits).then_some(text);
    }
    Some(text)
}

/// The words of `std` for what is not a number.
pub(super) fn non_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "inf"
    } else {
        "-inf"
    }
}

/// Writes a 128-bit integer.
pub(super) fn put_wide_int<I: itoa::Integer>(bytes: &mut [u8], at: usize, value: I) -> usize {
    put(bytes, at, itoa::Buffer::new().format(value).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::spec::general_text;
    use super::*;
    use logdrive_testkit::Random;

    fn text(write: impl Fn(&mut [u8]) -> usize) -> String {
        let mut bytes = [b'#'; 512];
        let length = write(&mut bytes);
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn the_short_way_to_the_general_form_leads_where_the_long_one_does() {
        let mut random = Random::new(0x0dd5_ca1e_5eed_f00d);
        let mut values = vec![
            0.0,
            -0.0,
            999_999.5,
            999_999.499_999,
            9.999_995,
            9.999_994_9,
            0.000_1,
            0.000_099_999_95,
        ];
        for decade in DECADES {
            let steps = |bits: u64| [bits - 1, bits, bits + 1].map(f64::from_bits);
            values.extend(steps(decade.to_bits()).map(|value| -value));
            values.extend(
                [0.25, 0.5, 1.5, 2.5, 9.999_999, 1.000_000_5, 1.000_001_5].map(|value| value * decade),
            );
        }
        values.extend(
            (0..100_000).map(|_| (random.bits() >> 44) as f64 / random.pick(&[1.0, 4.0, 100.0, 1e6, 1e9])),
        );
        values.extend((0..100_000).map(|_| f64::from_bits(random.bits())));
        let mut short = 0;
        for value in values {
            let mut bytes = [b'#'; 64];
            if let Some(end) = put_general(&mut bytes, 3, value) {
                short += 1;
                let text = String::from_utf8_lossy(&bytes[3..end]);
                assert_eq!(text, String::from_utf8_lossy(&general_text(value)), "{value:e}");
            }
        }
        assert!(short > 80_000, "{short}");
    }

    #[test]
    fn integers_of_every_length_equal_std() {
        let mut random = Random::new(0x1234_5678_9abc_def1);
        let mut values: Vec<u64> = (0..20)
            .flat_map(|i| [POW10[i] - 1, POW10[i], POW10[i] + 1])
            .collect();
        values.extend((0..64).flat_map(|i| [1 << i, (1u64 << i) - 1]));
        values.push(u64::MAX);
        values.extend((0..200_000).map(|i| random.bits() >> (i % 64)));
        for value in values {
            assert_eq!(text(|bytes| put_u64(bytes, 0, value)), value.to_string());
            let signed = value.cast_signed();
            assert_eq!(text(|bytes| put_i64(bytes, 0, signed)), signed.to_string());
        }
        assert_eq!(text(|bytes| put_i64(bytes, 0, i64::MIN)), i64::MIN.to_string());
    }

    fn check_fixed(value: f64) {
        for decimals in 0..=FIXED_DECIMALS_MAX {
            let mut bytes = [b'#'; 64];
            let ends = [
                put_fixed(&mut bytes, 0, value, decimals),
                put_fixed_here(&mut bytes[32..], 0, value, decimals),
            ];
            for (end, start) in ends.into_iter().zip([0, 32]) {
                let Some(length) = end else { continue };
                let found = core::str::from_utf8(&bytes[start..start + length]).unwrap();
                assert_eq!(
                    found,
                    format!("{value:.decimals$}"),
                    "{value:e} with {decimals} decimals"
                );
            }
        }
    }

    #[test]
    fn fixed_decimals_equal_std_also_at_ties() {
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        for value in [
            0.0,
            -0.0,
            0.5,
            1.5,
            2.5,
            0.25,
            0.125,
            -0.001,
            0.045,
            1e-300,
            5e-324,
            1e15,
            1e22,
            4503599627370495.5,
        ] {
            check_fixed(value);
            check_fixed(-value);
        }
        for round in 0..60_000 {
            let bits = random.bits();
            check_fixed(f64::from_bits(bits));
            // Exact ties: odd multiples of a power of two.
            check_fixed((bits >> 44) as f64 / (1u64 << (round % 24)) as f64);
            // Prices and durations.
            check_fixed((bits >> (20 + round % 40)) as f64 / POW10[round % 10] as f64);
        }
    }

    #[test]
    fn shortest_floats_equal_std() {
        let mut random = Random::new(0x0bad_cafe_dead_beef);
        let mut values = vec![
            0.0,
            -0.0,
            1.0,
            1e-5,
            1e-4,
            9.99e-5,
            1e15,
            1e16,
            1e17,
            123456.75,
            f64::MAX,
            5e-324,
        ];
        values.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        values.extend((0..100_000).map(|_| f64::from_bits(random.bits())));
        values.extend((0..100_000).map(|i| (random.bits() >> (i % 60)) as f64 / POW10[i % 12] as f64));
        // Few bits behind the point, where ties are.
        values.extend((0..100_000).map(|i| (random.bits() >> (i % 40)) as f64 / (1u64 << (i % 17)) as f64));
        for value in values {
            assert_eq!(
                text(|b| put_f64(b, 0, value, Shortest::Display)),
                format!("{value}")
            );
            assert_eq!(
                text(|b| put_f64(b, 0, value, Shortest::Debug)),
                format!("{value:?}")
            );
            let single = value as f32;
            assert_eq!(
                text(|b| put_f32(b, 0, single, Shortest::Display)),
                format!("{single}")
            );
            assert_eq!(
                text(|b| put_f32(b, 0, single, Shortest::Debug)),
                format!("{single:?}")
            );
        }
    }

    #[test]
    fn a_number_that_does_not_fit_overflows() {
        let mut bytes = [0; 4];
        assert_eq!(put_u64(&mut bytes, 0, 12_345), OVERFLOW);
        assert_eq!(put_u64(&mut bytes, 0, u64::MAX), OVERFLOW);
        assert_eq!(put_fixed(&mut bytes, 4, 1.5, 2), Some(OVERFLOW));
        assert_eq!(put_fixed_here(&mut bytes, 3, 1.5, 2), Some(OVERFLOW));
        assert_eq!(put_fixed_here(&mut bytes, 4, 1.5, 2), None);
        assert_eq!(put_digits(&mut [0; 8], 0, 7, 0), 0);
    }
}
