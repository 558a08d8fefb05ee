//! Suggestions for mistyped names.

use crate::limits::TYPO_LETTERS_MAX;

/// The candidate that is most like a name, if one is like it at all.
pub(crate) fn most_similar<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = name.chars().count();
    let most = (letters / 3).clamp(1, TYPO_LETTERS_MAX);
    let rated = candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        .filter_map(|candidate| {
            let distance = strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
            // `shop` also means `shop.log` and `shop-worker`.
            let is_begun = letters >= 2 && candidate.starts_with(name);
            (distance <= most || is_begun).then_some((!is_begun, distance, candidate))
        });
    rated.min().map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_understood_and_other_names_are_not() {
        let names = ["shop", "gateway", "shop-worker", "a"];
        for (name, expected) in [
            ("shpo", Some("shop")),
            ("Shop", Some("shop")),
            ("gatewy", Some("gateway")),
            ("shop-w", Some("shop-worker")),
            ("sho", Some("shop")),
            ("mailer", None),
            ("zz", None),
            ("", Some("a")),
        ] {
            assert_eq!(most_similar(name, names), expected, "{name}");
        }
        assert_eq!(most_similar("shop", ["shop"]), None);
    }
}
