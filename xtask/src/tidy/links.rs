//! The rule about links: a link from one page of the project to a file, folder or heading of it leads
//! somewhere. Links to the world outside are not followed.

use super::{Report, Source, Tree};

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for page in tree.files().iter().filter(|file| file.extension() == "md") {
        for (line, target) in links(&page.text) {
            if let Some(what) = complaint(tree, page, target) {
                report.add(page, line, format!("{what}; mend the link"));
            }
        }
    }
}

fn complaint(tree: &Tree, page: &Source, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    if path.starts_with('/') {
        return Some(format!("the link `{target}` is absolute"));
    }
    let dir = page.path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let resolved = if path.is_empty() {
        Some(page.path.clone())
    } else {
        resolve(dir, path)
    };
    let Some(resolved) = resolved.filter(|resolved| tree.holds(resolved)) else {
        return Some(format!("the link `{target}` leads nowhere"));
    };
    let goal = tree
        .file(&resolved)
        .filter(|file| !heading.is_empty() && file.extension() == "md")?;
    (!anchors(&goal.text).iter().any(|anchor| anchor == heading))
        .then(|| format!("{resolved} has no heading `#{heading}`"))
}

/// `path` seen from `dir`, without dots; nothing when it leaves the project.
fn resolve(dir: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of `[text](target)` and `[name]: target`, with their lines.
fn links(text: &str) -> Vec<(u32, &str)> {
    let mut found = Vec::new();
    for (at, line) in prose(text) {
        // Pieces at even places lie outside `code`.
        for piece in line.split('`').step_by(2) {
            for rest in piece.split("](").skip(1) {
                let target = rest.split([')', ' ']).next().unwrap_or(rest);
                found.push((at, target.trim_matches(['<', '>'])));
            }
        }
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition {
            found.push((
                at,
                target
                    .split(' ')
                    .next()
                    .unwrap_or(target)
                    .trim_matches(['<', '>']),
            ));
        }
        // A link whose text is code, such as [`a`](b), is cut at the backticks: its target follows.
        if line.contains("`](") {
            for rest in line.split("`](").skip(1) {
                found.push((at, rest.split([')', ' ']).next().unwrap_or(rest)));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Anchors of the headings, as the usual renderers make them: lower case, blanks to hyphens, other
/// marks dropped, `-1` and so on after repeated ones.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let plain: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = found.iter().filter(|anchor| **anchor == plain).count();
        found.push(if before == 0 {
            plain
        } else {
            format!("{plain}-{before}")
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{assert_finds, assert_passes};

    const SPEC: (&str, &str) = (
        "spec/ring.md",
        "# The ring\n## Full ring, and `wait`\n[up](../README.md)\n",
    );

    #[test]
    fn dead_links_are_found() {
        assert_finds("links", &[("README.md", "\n[a](gone.md)\n")], "README.md:2:");
        assert_finds("links", &[("README.md", "[a]: gone.md\n")], "README.md:1:");
        assert_finds("links", &[("README.md", "[`a`](gone.md)\n")], "README.md:1:");
        assert_finds("links", &[("docs/a.md", "[a](../../b.md)\n")], "docs/a.md:1:");
        assert_finds(
            "links",
            &[SPEC, ("README.md", "[a](spec/ring.md#empty)\n")],
            "README.md:1: spec/ring.md has no heading",
        );
    }

    #[test]
    fn live_links_pass() {
        let text = "[a](spec/ring.md#full-ring-and-wait) [b](spec/) ![c](https://a.org/x) [d](#here)\n# Here\n`[e](gone)`\n```\n[f](gone)\n```\n";
        assert_passes("links", &[SPEC, ("README.md", text)]);
    }

    #[test]
    fn repeated_headings_get_numbers() {
        assert_eq!(anchors("# A b\n## A b\n# C, d!\n"), ["a-b", "a-b-1", "c-d"]);
    }
}
