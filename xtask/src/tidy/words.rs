//! Words of the names of types and files, held against the glossary and a list of plain words.

use super::lexer::Kind;
use super::source::{is_in, test_lines};
use super::{Source, Tree};
use std::collections::{BTreeMap, BTreeSet};

const GLOSSARY: &str = "spec/glossary.md";
/// Plain words of English and of programming, which need no entry in the glossary.
const PLAIN: &str = "xtask/words.txt";
/// Home-made words for what the field has a word for, wherever they are listed.
const HOME_MADE: &str = "\
    alike: shared prefix; allowance: quota; board: control table; depot: buffer pool; door: listener; \
    doubt: suspect; dress: wrap; greet: handshake; hear: receive; helped: sidecar-drained; hook: waker; \
    intake: cursor; judge: classify; look: probe; met: established; news: event; \
    outgate: GSO-coalescing socket; outlet: sink buffer; patience: timeout, deadline; ration: quota; \
    rationing: quota; stranger: pre-handshake; supply: batch source; switchboard: control table; \
    talk: connection thread; talker: connection thread; tell: report; told: reported; \
    turns: merge queue; twin: sampled variant; unannounced: unreported; untold: unreported; \
    verdict: classification; who: owner; whose: selector; wish: request";

/// Words that neither list knows or that are home-made, each with the file and line of its first use.
pub(crate) fn unknown(tree: &Tree) -> BTreeMap<String, (String, u32)> {
    let known = known(tree);
    let mut unknown = BTreeMap::new();
    for file in tree.production() {
        let mut used = vec![(1, file_words(&file.path))];
        used.extend(type_words(file));
        for (line, words) in used {
            for word in words {
                let is_listed = forms(&word).any(|form| known.contains(form.as_str()));
                if advice(&word).is_some() || !is_listed {
                    unknown.entry(word).or_insert_with(|| (file.path.clone(), line));
                }
            }
        }
    }
    unknown
}

/// The field's word for a home-made one.
pub(crate) fn advice(word: &str) -> Option<&'static str> {
    let instead_of = |form: String| {
        let mut rows = HOME_MADE.split("; ").filter_map(|row| row.split_once(": "));
        rows.find(|(bad, _)| *bad == form).map(|(_, good)| good)
    };
    forms(word).find_map(instead_of)
}

/// Words of both lists.
fn known(tree: &Tree) -> BTreeSet<String> {
    let text = |path: &str| tree.file(path).map_or("", |file| file.text.as_str());
    let rows = text(GLOSSARY).lines().filter_map(|line| line.strip_prefix("| "));
    let terms = rows.filter_map(|row| row.split(" | ").next());
    let plain = text(PLAIN).lines().filter(|line| !line.starts_with('#'));
    let texts = terms.chain(plain);
    let words = texts.flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
    words.map(str::to_lowercase).collect()
}

/// A word as it stands, then without the endings of plurals and of verbs.
fn forms(word: &str) -> impl Iterator<Item = String> + '_ {
    const PLURALS: [(&str, &str); 4] = [("", ""), ("s", ""), ("es", ""), ("ies", "y")];
    let plurals = PLURALS.iter().map(|(ending, instead)| (*ending, *instead));
    let verbs = ["ed", "ing", "er", "ers"]
        .into_iter()
        .flat_map(|ending| [(ending, ""), (ending, "e")]);
    let endings = plurals.chain(verbs).filter_map(move |(ending, instead)| {
        let stem = word.strip_suffix(ending)?;
        (stem.len() > 1).then(|| format!("{stem}{instead}"))
    });
    // A doubled consonant: `dropped`, `mapping`.
    let doubled = ["ed", "ing", "er"].into_iter().filter_map(move |ending| {
        let stem = word.strip_suffix(ending)?;
        let mut last = stem.bytes().rev();
        let is_doubled = stem.len() > 2 && last.next() == last.next();
        is_doubled.then(|| stem[..stem.len() - 1].to_owned())
    });
    endings.chain(doubled)
}

/// Words of a file's name and of its folders below the crate's sources.
fn file_words(path: &str) -> Vec<String> {
    let inside = path.split_once("src/").map_or("", |(_, inside)| inside);
    let inside = inside.strip_suffix(".rs").unwrap_or(inside);
    inside
        .split(['/', '_', '.'])
        .filter(|word| !["", "lib", "main", "mod"].contains(word))
        .map(str::to_owned)
        .collect()
}

/// Words of the types that other files see, with their lines.
fn type_words(file: &Source) -> Vec<(u32, Vec<String>)> {
    const TYPES: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
    let code = file.code();
    let tests = test_lines(&code);
    let mut found = Vec::new();
    for (at, pair) in code.windows(2).enumerate() {
        let is_type = TYPES.iter().any(|word| pair[0].is(word)) && pair[1].kind == Kind::Name;
        let is_shown = at > 0 && (code[at - 1].is("pub") || code[at - 1].is(")"));
        if is_type && is_shown && !is_in(&tests, pair[1].line) {
            found.push((pair[1].line, camel_words(pair[1].text)));
        }
    }
    found
}

/// The words of a name in camel case: `HTTPServer2Log` is `http`, `server`, `2`, `log`.
fn camel_words(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        let after_small = at > 0 && !chars[at - 1].is_uppercase();
        let before_small = chars.get(at + 1).is_some_and(|next| next.is_lowercase());
        if at == 0 || c.is_uppercase() && (after_small || before_small) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_into_words() {
        assert_eq!(camel_words("LoadedTOMLOptions"), ["loaded", "toml", "options"]);
        assert_eq!(file_words("crates/ring/src/a/run_dir.rs"), ["a", "run", "dir"]);
    }

    #[test]
    fn plurals_and_verbs_are_known_by_their_stem() {
        let has = |word: &str, stem: &str| forms(word).any(|form| form == stem);
        assert!(has("entries", "entry") && has("dropped", "drop") && has("merging", "merge"));
        assert_eq!(advice("wishes"), Some("request"));
        assert_eq!(advice("record"), None);
    }
}
