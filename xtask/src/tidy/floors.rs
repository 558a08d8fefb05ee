//! The rule about floors: a crate depends on crates of lower floors only, as ARCHITECTURE.md draws
//! them. Dependencies of tests alone are free.

use super::{Report, Tree};
use crate::metadata::Package;

/// Floors by package, from the bytes up.
const FLOORS: &[(&str, u8)] = &[
    ("logdrive-wire", 0),
    ("logdrive-ring", 0),
    ("logdrive-query", 1),
    ("logdrive-store", 1),
    ("logdrive-ship", 1),
    ("logdrive-messaging", 2),
    ("logdrive-drain", 2),
    ("logdrive-agent", 3),
    ("logdrive-reader", 3),
    ("logdrive-collector", 3),
    ("logdrive-engines", 3),
    ("logdrive-macros", 4),
    ("logdrive", 4),
    ("logdrive-capi", 4),
    ("logdrive-cli", 4),
];
/// Arrows within one floor, each with its reason to be: the macros are the front end's own half, the
/// C ABI is the front end for others, and agent, collector and engines take foreign lines apart as the reader does.
const SIDEWAYS: &[(&str, &str)] = &[
    ("logdrive", "logdrive-macros"),
    ("logdrive-capi", "logdrive"),
    ("logdrive-agent", "logdrive-reader"),
    ("logdrive-collector", "logdrive-reader"),
    ("logdrive-engines", "logdrive-reader"),
];
/// Packages that may use all others and that none may use.
const WORKSHOP: &[&str] = &["xtask", "logdrive-bench", "logdrive-fuzz", "logdrive-testkit"];

fn floor(name: &str) -> Option<u8> {
    let found = FLOORS.iter().find(|(known, _)| *known == name);
    found.map(|(_, floor)| *floor)
}

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.packages {
        let manifest = format!("{}/Cargo.toml", package.dir);
        if WORKSHOP.contains(&package.name.as_str()) {
            continue;
        }
        let Some(own) = floor(&package.name) else {
            let advice = "give it one in xtask/src/tidy/floors.rs and in ARCHITECTURE.md";
            report.add_at(&manifest, 1, format!("`{}` has no floor; {advice}", package.name));
            continue;
        };
        for need in &package.needs {
            if let Some(what) = complaint(package, own, need) {
                let advice = "turn the arrow round, or move the piece that both need down";
                report.add_at(
                    &manifest,
                    line_of(tree, &manifest, need),
                    format!("{what}; {advice}"),
                );
            }
        }
        check_page(tree, package, report);
    }
}

fn complaint(package: &Package, own: u8, need: &str) -> Option<String> {
    let name = &package.name;
    if WORKSHOP.contains(&need) {
        return Some(format!(
            "`{name}` depends on `{need}`, which belongs to the workshop"
        ));
    }
    let below = floor(need)?;
    let sideways = SIDEWAYS.contains(&(name.as_str(), need));
    (below >= own && !sideways)
        .then(|| format!("`{name}` (floor {own}) depends on `{need}` (floor {below}); arrows point down"))
}

fn line_of(tree: &Tree, manifest: &str, need: &str) -> u32 {
    let lines = tree.file(manifest).map(|file| file.lines());
    lines
        .and_then(|mut lines| lines.find(|(_, line)| line.starts_with(need)))
        .map_or(1, |(at, _)| at)
}

/// The page that a reader opens first has to name every crate.
fn check_page(tree: &Tree, package: &Package, report: &mut Report) {
    let Some(page) = tree.file("ARCHITECTURE.md") else {
        return;
    };
    let short = package.name.strip_prefix("logdrive-").unwrap_or(&package.name);
    let named = [package.dir.as_str(), package.name.as_str(), &format!("`{short}`")]
        .iter()
        .any(|name| page.text.contains(name));
    if !named {
        let advice = "say there what it holds and on which floor it stands";
        report.add_at(
            &page.path,
            1,
            format!("`{}` is not mentioned; {advice}", package.name),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    fn found(name: &str, needs: &[&str]) -> Vec<String> {
        let mut tree = Tree::of(&[(
            "c/Cargo.toml",
            "[dependencies]\nserde = \"1\"\nlogdrive-ring = \"1\"\n",
        )]);
        let needs = needs.iter().map(|need| (*need).to_owned()).collect();
        tree.packages = vec![Package {
            name: name.to_owned(),
            dir: "c".to_owned(),
            needs,
            ..Package::default()
        }];
        findings_of("floors", &tree)
    }

    #[test]
    fn arrows_up_and_sideways_are_found() {
        assert!(found("logdrive-wire", &["serde", "logdrive-ring"])[0].starts_with("c/Cargo.toml:3: "));
        assert_eq!(found("logdrive-ring", &["logdrive-wire"]).len(), 1);
        assert_eq!(found("logdrive-drain", &["logdrive"]).len(), 1);
        assert_eq!(found("logdrive-cli", &["logdrive-bench"]).len(), 1);
    }

    #[test]
    fn arrows_down_and_listed_ones_pass() {
        assert!(found("logdrive", &["logdrive-drain", "logdrive-macros", "libc"]).is_empty());
        assert!(found("logdrive-bench", &["logdrive", "logdrive-cli"]).is_empty());
    }

    #[test]
    fn a_crate_without_a_floor_or_a_mention_is_found() {
        assert_eq!(found("logdrive-new", &[]).len(), 1);
        let mut tree = Tree::of(&[("ARCHITECTURE.md", "`wire` holds the bytes\n")]);
        let package = |name: &str| Package {
            name: name.into(),
            dir: format!("crates/{name}x"),
            ..Package::default()
        };
        tree.packages = vec![package("logdrive-wire"), package("logdrive-ring")];
        let found = findings_of("floors", &tree);
        assert!(
            found.len() == 1 && found[0].contains("`logdrive-ring` is not mentioned"),
            "{found:#?}"
        );
    }
}
