//! Members of an upstream as configurations have them: a list whose elements are addresses, or tables with an address, a
//! weight and whether it is a backup. `to = ["tls://a:1", { address = "tls://b:1", weight = 3 }]` and two tables
//! `[[ship.to]]` say the same.

use crate::suggestion::most_similar;
use logdrive_ship::Address;
use logdrive_ship::upstream::MemberOptions;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Weights: more than any group of machines differs in.
pub(crate) const WEIGHT_MAX: u32 = 1_000;

/// Keys of a member.
const KEYS: [&str; 3] = ["address", "weight", "backup"];

/// An error's place in the text, and its description.
pub(crate) type Wrong = (Range<usize>, String);

/// Reads a list.
///
/// # Errors
/// With the first thing that is wrong with it.
pub(crate) fn read(given: &Spanned<DeValue<'_>>, is_backup: bool) -> Result<Vec<MemberOptions>, Wrong> {
    let Some(all) = given.get_ref().as_array() else {
        return Err((given.span(), "this is no list: put brackets around it".to_owned()));
    };
    let mut members: Vec<MemberOptions> = Vec::new();
    for element in all.iter() {
        let member = match element.get_ref() {
            DeValue::String(text) => plain(text, element.span(), is_backup)?,
            DeValue::Table(table) => described(table, element.span(), is_backup)?,
            _ => {
                return Err((
                    element.span(),
                    "this is neither an address nor a table".to_owned(),
                ));
            }
        };
        if members.iter().any(|other| other.address == member.address) {
            return Err((element.span(), format!("{} stands here twice", member.address)));
        }
        members.push(member);
    }
    let uses_one = members.iter().any(|member| member.weight > 0);
    if !members.is_empty() && !uses_one {
        return Err((
            given.span(),
            "none of these is ever used: all have weight 0".to_owned(),
        ));
    }
    Ok(members)
}

fn plain(text: &str, span: Range<usize>, is_backup: bool) -> Result<MemberOptions, Wrong> {
    let address: Address = text
        .parse()
        .map_err(|error: logdrive_ship::TransportError| (span, error.to_string()))?;
    let mut member = MemberOptions::new(address);
    member.is_backup = is_backup;
    Ok(member)
}

fn described(table: &DeTable<'_>, span: Range<usize>, is_backup: bool) -> Result<MemberOptions, Wrong> {
    let find = |name: &str| table.iter().find(|(key, _)| key.get_ref() == name);
    for (key, _) in table {
        let name = key.get_ref().as_ref();
        if !KEYS.contains(&name) {
            let meant = most_similar(name, KEYS)
                .map_or_else(String::new, |meant| format!(", did you mean `{meant}`?"));
            return Err((key.span(), format!("an address has no key `{name}`{meant}")));
        }
    }
    let Some((_, address)) = find("address") else {
        return Err((span, "`address` is missing".to_owned()));
    };
    let Some(text) = address.get_ref().as_str() else {
        return Err((
            address.span(),
            "this is no address: put it between quotes".to_owned(),
        ));
    };
    let mut member = plain(text, address.span(), is_backup)?;
    if let Some((_, weight)) = find("weight") {
        let found = match weight.get_ref() {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let found = found.filter(|found| *found <= WEIGHT_MAX);
        member.weight = found.ok_or_else(|| (weight.span(), "this is no weight".to_owned()))?;
    }
    if let Some((_, backup)) = find("backup") {
        let found = backup.get_ref().as_bool();
        member.is_backup |=
            found.ok_or_else(|| (backup.span(), "this is neither true nor false".to_owned()))?;
    }
    Ok(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str) -> Result<Vec<MemberOptions>, String> {
        let document = DeTable::parse(text).expect("it is TOML");
        let (_, given) = document.get_ref().iter().next().expect("a key");
        read(given, false).map_err(|(span, why)| format!("{}: {why}", text.get(span).expect("within")))
    }

    #[test]
    fn a_list_and_tables_say_the_same() {
        let list = "to = [\"tls://a:1\", { address = \"tls://b:1\", weight = 3, backup = true }]";
        let tables =
            "[[to]]\naddress = \"tls://a:1\"\n[[to]]\naddress = \"tls://b:1\"\nweight = 3\nbackup = true\n";
        let found = members(list).expect("sound");
        assert_eq!(found, members(tables).expect("sound"));
        assert_eq!((found[0].weight, found[0].is_backup), (1, false));
        assert_eq!((found[1].weight, found[1].is_backup), (3, true));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, told) in [
            ("to = \"tls://a:1\"", "\"tls://a:1\": this is no list"),
            ("to = [7]", "7: this is neither"),
            (
                "to = [\"ftp://a:1\"]",
                "\"ftp://a:1\": `ftp://a:1` is no address: it begins with one of shm://",
            ),
            ("to = [{ weight = 1 }]", "`address` is missing"),
            ("to = [{ address = 7 }]", "7: this is no address"),
            (
                "to = [{ address = \"tls://a:1\", weight = 1001 }]",
                "1001: this is no weight",
            ),
            (
                "to = [{ address = \"tls://a:1\", weight = -1 }]",
                "-1: this is no weight",
            ),
            (
                "to = [{ address = \"tls://a:1\", backup = 1 }]",
                "1: this is neither true nor false",
            ),
            (
                "to = [{ address = \"tls://a:1\", wieght = 1 }]",
                "wieght: an address has no key `wieght`, did you mean `weight`?",
            ),
            (
                "to = [\"tls://a:1\", \"tls://a:1\"]",
                "tls://a:1 stands here twice",
            ),
            (
                "to = [{ address = \"tls://a:1\", weight = 0 }]",
                "none of these is ever used",
            ),
        ] {
            let error = members(text).expect_err(text);
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
