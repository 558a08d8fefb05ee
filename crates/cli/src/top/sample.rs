//! Ways to sample, as they are typed.

use logdrive_drain::control::Action;

/// Reads how to sample: `1000` keeps one of 1000, `100/s` so many a second, `10/s peer` so many a second for each value
/// of a field. `None` for nothing: all are kept again.
pub(super) fn read_sample(text: &str) -> Result<Option<Action>, &'static str> {
    const EXPECTED: &str = "write 1000 for one of 1000, 100/s, 10/s FIELD, or nothing to keep all";
    let mut words = text.split_whitespace();
    let Some(number) = words.next() else {
        return Ok(None);
    };
    let field = words.next();
    if words.next().is_some() {
        return Err(EXPECTED);
    }
    let per_second = number.strip_suffix("/s").map(str::parse::<u32>);
    let action = match (per_second, field) {
        (Some(Ok(per_second)), None) => Action::PerSecond(per_second),
        (Some(Ok(per_second)), Some(field)) => Action::PerKey {
            field: field.to_owned(),
            per_second,
        },
        (None, None) => match number.parse() {
            Ok(every @ 1..) => Action::Every(every),
            _ => return Err(EXPECTED),
        },
        _ => return Err(EXPECTED),
    };
    Ok(Some(action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_sample_are_read_as_they_are_written() {
        assert_eq!(read_sample(" 1000 "), Ok(Some(Action::Every(1000))));
        assert_eq!(read_sample("100/s"), Ok(Some(Action::PerSecond(100))));
        let keyed = Action::PerKey {
            field: "peer".to_owned(),
            per_second: 10,
        };
        assert_eq!(read_sample("10/s peer"), Ok(Some(keyed)));
        assert_eq!(read_sample("  "), Ok(None));
        for wrong in ["0", "-1", "x", "10/m", "1000 peer", "10/s a b", "99999999999"] {
            assert!(read_sample(wrong).is_err(), "{wrong}");
        }
    }
}
