//! Rules that the project does not keep everywhere yet. Each has a ceiling on its breaches in all crates together,
//! which may only fall; a breach that moves from one crate to another changes nothing.

use super::{Report, Tree, words as vocabulary};

/// Breaches that are still allowed, by rule. Lower a number when tidy says so; never raise one.
pub(super) const CEILINGS: [(&str, usize); 4] = [("circles", 0), ("docs", 23), ("structs", 0), ("words", 54)];
/// Per cent of doc comments that may open with a question word, since some sentence is best so.
const ASKING_PERCENT: usize = 3;

/// Breaches of one rule.
struct Measure {
    count: usize,
    /// File and line of the first one.
    first: Option<(String, u32)>,
    /// Name of what is counted.
    what: &'static str,
    advice: &'static str,
}

pub(super) fn circles(tree: &Tree, report: &mut Report) {
    let circles = tree.circles();
    let first = circles.iter().filter_map(|circle| circle.files.first()).next();
    let measure = Measure {
        count: circles.iter().map(|circle| circle.files.len()).sum(),
        first: first.map(|file| (tree.path(*file).to_owned(), 1)),
        what: "files that import each other in a circle",
        advice: "move what both need to a file below them; `cargo xtask lines --circles` shows what ties them",
    };
    judge(tree, report, measure);
}

pub(super) fn structs(tree: &Tree, report: &mut Report) {
    let large = tree.large_types();
    let first = large
        .iter()
        .next()
        .map(|((file, _), size)| (tree.path(*file).to_owned(), size.line));
    let measure = Measure {
        count: large.len(),
        first,
        what: "types with more than 15 fields or 30 methods",
        advice: "split each into parts with names of their own; `cargo xtask lines --types` shows them",
    };
    judge(tree, report, measure);
}

pub(super) fn docs(tree: &Tree, report: &mut Report) {
    let (mut all, mut asking) = (0, Vec::new());
    for (file, line, is_asking) in tree.doc_comments() {
        all += 1;
        if is_asking {
            asking.push((file.to_owned(), line));
        }
    }
    if asking.len() * 100 <= all * ASKING_PERCENT {
        return;
    }
    let measure = Measure {
        count: asking.len(),
        first: asking.into_iter().next(),
        what: "doc comments that open with What, How, Where, Who or Whose",
        advice: "open with a noun or a verb; `cargo xtask lines --docs` shows them",
    };
    judge(tree, report, measure);
}

pub(super) fn words(tree: &Tree, report: &mut Report) {
    let unknown = vocabulary::unknown(tree);
    let measure = Measure {
        count: unknown.len(),
        first: unknown.values().next().cloned(),
        what: "words in names of types and files that the glossary lacks",
        advice: "use the field's word, or add the noun to spec/glossary.md, a plain word to xtask/words.txt; \
                 `cargo xtask lines --words` shows them",
    };
    judge(tree, report, measure);
}

/// Reports a count above the ceiling, and notes one below.
fn judge(tree: &Tree, report: &mut Report, measure: Measure) {
    let ceiling = tree.ceiling(report.rule);
    let (count, what, advice) = (measure.count, measure.what, measure.advice);
    if count > ceiling {
        let (file, line) = measure.first.unwrap_or_default();
        report.add_at(
            &file,
            line,
            format!("{count} {what}, {ceiling} are allowed; {advice}"),
        );
    } else if count < ceiling {
        report.notes.push(format!(
            "{count} {what}: the ceiling of `{}` can fall from {ceiling} to {count} in xtask/src/tidy/ratchet.rs",
            report.rule
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::tidy::{Tree, assert_finds, assert_passes, check_one, rule};

    const LIB: &str = "crates/ring/src/lib.rs";

    #[test]
    fn a_circle_of_imports_is_found() {
        let files = |b: &'static str| {
            [
                (LIB, "mod a;\nmod b;\n"),
                ("crates/ring/src/a.rs", "use crate::b::B;\npub struct A;\n"),
                ("crates/ring/src/b.rs", b),
            ]
        };
        assert_finds(
            "circles",
            &files("use super::a::A;\npub struct B;\n"),
            "crates/ring/src/a.rs:1: 2 files",
        );
        assert_passes("circles", &files("pub struct B;\n"));
    }

    #[test]
    fn a_struct_with_16_fields_or_31_methods_is_found() {
        let fields = |count: usize| {
            let fields: String = (0..count).map(|at| format!("f{at}: u8,\n")).collect();
            format!("struct S {{\n{fields}}}\n")
        };
        assert_finds(
            "structs",
            &[(LIB, &fields(16))],
            "crates/ring/src/lib.rs:1: 1 types",
        );
        assert_passes("structs", &[(LIB, &fields(15))]);
        let methods = |count: usize| format!("enum E {{}}\nimpl E {{\n{}}}\n", "fn a() {}\n".repeat(count));
        assert_finds(
            "structs",
            &[(LIB, &methods(31))],
            "crates/ring/src/lib.rs:1: 1 types",
        );
        assert_passes("structs", &[(LIB, &methods(30))]);
    }

    #[test]
    fn rows_of_data_may_have_many_fields() {
        let fields: String = (0..20).map(|at| format!("f{at}: u8,\n")).collect();
        for attribute in ["derive(Debug, Serialize)", "derive(clap::Args)", "repr(C)"] {
            let text = format!("#[{attribute}]\n/// X.\npub struct S {{\n{fields}}}\n");
            assert_passes("structs", &[(LIB, &text)]);
        }
    }

    #[test]
    fn doc_comments_that_ask_are_found_above_their_share() {
        let telling = "/// Number of records.\nconst N: u8 = 1;\n";
        let text = |count: usize| format!("{}/// How many.\nfn a() {{}}\n", telling.repeat(count));
        assert_finds(
            "docs",
            &[(LIB, &text(30))],
            "crates/ring/src/lib.rs:61: 1 doc comments",
        );
        assert_passes("docs", &[(LIB, &text(33))]);
    }

    #[test]
    fn a_word_that_no_list_knows_is_found() {
        let glossary = (
            "spec/glossary.md",
            "| term | meaning |\n|---|---|\n| ring, ring buffer | x |\n| twin | x |\n",
        );
        let words = ("xtask/words.txt", "# Plain words.\nof line\n");
        assert_passes(
            "words",
            &[
                glossary,
                words,
                (LIB, "pub struct LinesOfRings;\npub(crate) enum Buffer {}\n"),
            ],
        );
        assert_finds(
            "words",
            &[glossary, words, (LIB, "\npub struct RingPatience;\n")],
            "crates/ring/src/lib.rs:2: 1 words",
        );
        assert_finds(
            "words",
            &[glossary, words, (LIB, ""), ("crates/ring/src/twin.rs", "")],
            "crates/ring/src/twin.rs:1: 1 words",
        );
    }

    #[test]
    fn a_count_below_its_ceiling_is_noted_and_no_finding() {
        let mut tree = Tree::of(&[(LIB, "mod a;\n")]);
        tree.ceilings.insert("circles", 2);
        let report = check_one(&tree, rule("circles"));
        assert!(report.findings.is_empty());
        assert!(
            report.notes[0].contains("can fall from 2 to 0"),
            "{:?}",
            report.notes
        );
    }
}
