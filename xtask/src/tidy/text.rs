//! Rules about plain text: blanks and line breaks, traces of one machine, and the lock file.

use super::{Report, Tree};

/// Files whose blanks are checked.
const CLEAN: [&str; 3] = ["rs", "md", "toml"];
/// Languages whose samples in a page need tabs.
const TABBED: [&str; 4] = ["go", "make", "makefile", "diff"];
/// Folders that exist on some machine only. Kept without slashes, so that this file passes.
const MACHINE_FOLDERS: [&str; 4] = ["work", "root", "home", "Users"];
/// Settings that turn a build to another registry.
const REGISTRY_SETTINGS: &str = "[source. [registries replace-with GOPROXY= CARGO_REGISTRIES_";

pub(super) fn whitespace(tree: &Tree, report: &mut Report) {
    let files = tree.files().iter();
    for file in files.filter(|file| CLEAN.contains(&file.extension())) {
        let (mut fence, mut last) = (None, 1);
        for (at, line) in file.lines() {
            last = at;
            if let Some(info) = line
                .trim_start()
                .strip_prefix("```")
                .filter(|_| file.extension() == "md")
            {
                fence = fence.is_none().then(|| info.trim());
            }
            if line.ends_with([' ', '\t', '\r']) {
                report.add(file, at, "blanks at the end of the line; take them off");
            }
            if line.contains('\t') && !fence.is_some_and(|info| TABBED.contains(&info)) {
                report.add(file, at, "a tab; use spaces");
            }
        }
        if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
            report.add(file, last, "the file does not end in one line break; end it so");
        }
    }
}

pub(super) fn machine(tree: &Tree, report: &mut Report) {
    let folders: Vec<String> = MACHINE_FOLDERS.iter().map(|name| format!("/{name}/")).collect();
    let files = tree.files().iter();
    for file in files.filter(|file| file.path != "xtask/src/tidy/text.rs") {
        let comparable = !file.is_rust() && file.path != "Cargo.lock";
        for (at, line) in file.lines() {
            if let Some(folder) = folders.iter().find(|folder| holds_path(line, folder)) {
                let advice = "name it from the project's folder, by a variable or with a neutral example";
                report.add(file, at, format!("`{folder}` is a path of one machine; {advice}"));
            }
            let mut settings = REGISTRY_SETTINGS.split(' ');
            if let Some(setting) = settings.find(|setting| comparable && line.contains(setting)) {
                let advice = "leave that to each user's own settings";
                report.add(file, at, format!("`{setting}` chooses a registry; {advice}"));
            }
        }
    }
}

/// Returns whether an absolute path through `folder` stands in the line; `src/home/x` and a URL are none.
fn holds_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-})*~/$".contains(c))
    })
}

pub(super) fn lock(tree: &Tree, report: &mut Report) {
    if !tree.lock_is_tracked {
        report.add_at("Cargo.lock", 1, "it is not tracked; git add Cargo.lock");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{assert_finds, assert_passes, findings_of};

    #[test]
    fn blanks_and_tabs_are_found() {
        assert_finds("whitespace", &[("a.rs", "a\nb \n")], "a.rs:2:");
        assert_finds("whitespace", &[("a.toml", "\ta\n")], "a.toml:1: a tab");
        assert_finds("whitespace", &[("a.md", "a\nb")], "a.md:2: the file does not end");
        assert_finds(
            "whitespace",
            &[("a.md", "a\n\n")],
            "a.md:2: the file does not end",
        );
        assert_passes("whitespace", &[("a.md", "```go\n\ta\n```\n"), ("a.go", "\ta \n")]);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_finds("machine", &[("a.md", &format!("see /{folder}/x\n"))], "a.md:1:");
        }
        assert_passes(
            "machine",
            &[("a.md", "src/home/a ./work/b https://a.org/home/ ~/work/\n")],
        );
    }

    #[test]
    fn a_private_registry_is_found() {
        assert_finds(
            "machine",
            &[(".cargo/config.toml", "[source.crates-io]\n")],
            ".cargo/config.toml:1:",
        );
    }

    #[test]
    fn an_untracked_lock_file_is_found() {
        let tree = Tree {
            lock_is_tracked: false,
            ..Tree::of(&[])
        };
        assert_eq!(
            findings_of("lock", &tree),
            ["Cargo.lock:1: it is not tracked; git add Cargo.lock [lock]"]
        );
    }
}
