//! Output of `cargo metadata` about the workspace, reduced to what the workshop asks: packages, where
//! they lie, whom they depend on and which examples they have.

use crate::shell::{Call, Failure};
use serde_json::Value;
use std::path::Path;

/// One package of the workspace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Directory relative to the workspace, with `/`.
    pub(crate) dir: String,
    /// Root files of the library and the programs, relative to the workspace.
    pub(crate) roots: Vec<String>,
    /// Names of the examples.
    pub(crate) examples: Vec<String>,
    /// Names of integration test targets.
    pub(crate) tests: Vec<String>,
    /// Names of packages it depends on in a normal or build way, with the dev-only ones left out.
    pub(crate) needs: Vec<String>,
    pub(crate) rust_version: Option<String>,
}

/// Reads the packages of the workspace at `root`. Resolves nothing, so it needs no network.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, Failure> {
    let text = Call::cargo()
        .words("metadata --no-deps --format-version 1")
        .dir(root)
        .stdout()?;
    parse(&text, root).ok_or_else(|| {
        Failure::new(
            "`cargo metadata` printed something unexpected",
            "compare the cargo version",
        )
    })
}

fn parse(text: &str, root: &Path) -> Option<Vec<Package>> {
    let value: Value = serde_json::from_str(text).ok()?;
    value["packages"]
        .as_array()?
        .iter()
        .map(|package| one(package, root))
        .collect()
}

fn one(value: &Value, root: &Path) -> Option<Package> {
    let relative = |path: &Value| -> Option<String> {
        let inside = Path::new(path.as_str()?).strip_prefix(root).ok()?;
        Some(inside.to_string_lossy().replace('\\', "/"))
    };
    let manifest = relative(&value["manifest_path"])?;
    let mut package = Package {
        name: value["name"].as_str()?.to_owned(),
        dir: manifest
            .strip_suffix("Cargo.toml")?
            .trim_end_matches('/')
            .to_owned(),
        rust_version: value["rust_version"].as_str().map(str::to_owned),
        ..Package::default()
    };
    for target in value["targets"].as_array()? {
        let is = |wanted: &str| {
            target["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind == wanted))
        };
        let name = target["name"].as_str()?.to_owned();
        if is("example") {
            package.examples.push(name);
        } else if is("test") {
            package.tests.push(name);
        } else if !is("bench") && !is("custom-build") {
            package.roots.push(relative(&target["src_path"])?);
        }
    }
    for dependency in value["dependencies"].as_array()? {
        if dependency["kind"].as_str() != Some("dev") {
            package.needs.push(dependency["name"].as_str()?.to_owned());
        }
    }
    Some(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_itself_is_understood() {
        let root = crate::shell::root().expect("tests run inside the workspace");
        let packages = packages(&root).expect("cargo metadata works");
        let own = packages
            .iter()
            .find(|package| package.name == "xtask")
            .expect("xtask is a member");
        assert_eq!(
            (own.dir.as_str(), own.roots.as_slice()),
            ("xtask", &["xtask/src/main.rs".to_owned()][..])
        );
        assert!(own.needs.contains(&"serde_json".to_owned()));
    }
}
