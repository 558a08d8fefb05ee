//! The rule about `unsafe`: it stands in the ring crate and in the files that ARCHITECTURE.md lists
//! under "Where unsafe is", and every other crate forbids it.

use super::{Report, Tree};
use crate::metadata::Package;

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "where unsafe is";
/// The crate that may hold `unsafe` anywhere.
const RING: &str = "crates/ring";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let listed = listed(tree, report);
    for file in tree.rust().filter(|file| !is_covered(&file.path, &listed)) {
        if let Some(token) = file.code().iter().find(|token| token.is("unsafe")) {
            let advice = "or a listed module, or list the file in";
            let text =
                format!("`unsafe` outside its places; move it to {RING} {advice} {PAGE} and say why there");
            report.add_at(&file.path, token.line, text);
        }
    }
    for package in &tree.packages {
        check_roots(tree, package, &listed, report);
    }
}

/// A path of the list, with the line that names it.
type Listed = Vec<(u32, String)>;

fn is_covered(path: &str, listed: &Listed) -> bool {
    lies_under(path, RING) || listed.iter().any(|(_, place)| lies_under(path, place))
}

/// Returns whether `path` is that place, or inside of it.
fn lies_under(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix(place.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Every root file forbids `unsafe`; where the crate has a listed module, it denies it, so that the
/// module can allow it for itself. A crate that is listed as a whole is left alone.
fn check_roots(tree: &Tree, package: &Package, listed: &Listed, report: &mut Report) {
    if is_covered(&package.dir, listed) {
        return;
    }
    let inside = format!("{}/", package.dir);
    let has_listed = listed
        .iter()
        .any(|(_, place)| place.starts_with(&inside) && !place.contains("/tests/"));
    for root in &package.roots {
        let Some(file) = tree.file(root) else { continue };
        let has = |wanted: &str| file.text.lines().any(|line| line.trim() == wanted);
        let (forbid, deny) = ("#![forbid(unsafe_code)]", "#![deny(unsafe_code)]");
        if has(forbid) || has_listed && has(deny) {
            continue;
        }
        let wanted = if has_listed { deny } else { forbid };
        let advice = "add it below the opening paragraph";
        report.add_at(root, 1, format!("the crate root lacks `{wanted}`; {advice}"));
    }
}

/// Reads the list, and checks that each place on it exists and still needs to be there.
fn listed(tree: &Tree, report: &mut Report) -> Listed {
    let Some(page) = tree.file(PAGE) else {
        let advice = format!("write it, with a section \"{HEADING}\"");
        report.add_at(PAGE, 1, format!("the page is missing; {advice}"));
        return Vec::new();
    };
    let heading =
        |line: &str| line.starts_with('#') && line.to_lowercase().replace('`', "").contains(HEADING);
    if !page.text.lines().any(heading) {
        let advice = format!("add a section \"{HEADING}\" with a list of paths in backticks");
        report.add_at(PAGE, 1, format!("nothing says where `unsafe` is; {advice}"));
    }
    let section = page
        .lines()
        .skip_while(|(_, line)| !heading(line))
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('#'));
    let mut places = Listed::new();
    for (at, line) in section.filter(|(_, line)| line.trim_start().starts_with(['-', '*'])) {
        let quoted = line.split('`').skip(1).step_by(2).filter(|text| is_path(text));
        places.extend(quoted.map(|text| (at, text.to_owned())));
    }
    for (line, place) in &places {
        check_place(tree, *line, place, report);
    }
    places
}

fn is_path(text: &str) -> bool {
    text.contains('/') && !text.starts_with('/') && !text.contains([' ', ':', '*'])
}

fn check_place(tree: &Tree, line: u32, place: &str, report: &mut Report) {
    if !tree.holds(place) {
        report.add_at(
            PAGE,
            line,
            format!("`{place}` does not exist; take it off the list"),
        );
        return;
    }
    let mut inside = tree.rust().filter(|file| lies_under(&file.path, place));
    if !inside.any(|file| file.code().iter().any(|token| token.is("unsafe"))) {
        report.add_at(
            PAGE,
            line,
            format!("`{place}` holds no `unsafe`; take it off the list"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{assert_finds, assert_passes, findings_of};

    const LIST: &str = "# A\n## Where `unsafe` is\n- `crates/ring`: all\n- `crates/drain/src/sys.rs`: `libc::pwrite` on `/dev/x`\n## B\n- `c/d`\n";
    const SYS: (&str, &str) = ("crates/drain/src/sys.rs", "fn a() { unsafe { b() } }\n");
    const RING: (&str, &str) = ("crates/ring/src/lib.rs", "fn a() { unsafe { b() } }\n");

    #[test]
    fn unsafe_is_found_unless_listed() {
        assert_passes("unsafe", &[(PAGE, LIST), SYS, RING]);
        let stray = ("crates/cli/src/main.rs", "// unsafe\nfn a() { unsafe { b() } }\n");
        assert_finds(
            "unsafe",
            &[(PAGE, LIST), SYS, RING, stray],
            "crates/cli/src/main.rs:2:",
        );
    }

    #[test]
    fn a_list_that_no_longer_fits_is_found() {
        assert_finds(
            "unsafe",
            &[(PAGE, LIST), RING],
            "ARCHITECTURE.md:4: `crates/drain/src/sys.rs` does not exist",
        );
        let safe = ("crates/drain/src/sys.rs", "fn a() {}\n");
        assert_finds(
            "unsafe",
            &[(PAGE, LIST), RING, safe],
            "ARCHITECTURE.md:4: `crates/drain/src/sys.rs` holds no",
        );
        assert_finds("unsafe", &[(PAGE, "# A\n")], "ARCHITECTURE.md:1: nothing says");
        assert_finds("unsafe", &[], "ARCHITECTURE.md:1: the page is missing");
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_is_found() {
        let package = |dir: &str| Package {
            dir: dir.into(),
            roots: vec![format!("{dir}/src/lib.rs")],
            ..Package::default()
        };
        let mut tree = Tree::of(&[
            (PAGE, LIST),
            SYS,
            RING,
            ("crates/wire/src/lib.rs", "//! X.\n"),
            ("crates/drain/src/lib.rs", "//! X.\n#![deny(unsafe_code)]\n"),
            ("crates/cli/src/lib.rs", "//! X.\n#![forbid(unsafe_code)]\n"),
        ]);
        tree.packages = ["crates/wire", "crates/drain", "crates/cli", "crates/ring"]
            .map(package)
            .into();
        let found = findings_of("unsafe", &tree);
        assert!(
            found.len() == 1 && found[0].starts_with("crates/wire/src/lib.rs:1: the crate root lacks"),
            "{found:#?}"
        );
    }
}
