//! Libraries of Java, by Maven.

use super::server::write;
use crate::shell::{Call, Failure, Tool};
use std::path::{Path, PathBuf};

pub(super) const MAVEN: Tool = Tool {
    name: "Maven",
    probe: &["mvn", "--version"],
    how: "apt-get install maven (Debian, Ubuntu)",
};

/// Copies artifacts, as GROUP:NAME:VERSION, with all that they need into a directory, and returns it.
pub(super) fn libraries(tools: &Path, artifacts: &[&str]) -> Result<PathBuf, Failure> {
    let (done, libraries) = (tools.join("libraries.done"), tools.join("libraries"));
    if done.exists() {
        return Ok(libraries);
    }
    let dependency = |artifact: &&str| {
        let parts: Vec<&str> = artifact.split(':').collect();
        let [group, name, version] = parts[..] else {
            return String::new();
        };
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>\
             <version>{version}</version></dependency>\n"
        )
    };
    let dependencies: String = artifacts.iter().map(dependency).collect();
    let pom = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\n\
         <groupId>engines</groupId><artifactId>engines</artifactId><version>1</version>\n\
         <dependencies>\n{dependencies}</dependencies></project>\n"
    );
    write(&tools.join("pom.xml"), &pom)?;
    Call::new("mvn")
        .words("-q -B dependency:copy-dependencies -DincludeScope=runtime")
        .arg(format!("-DoutputDirectory={}", libraries.display()))
        .dir(tools)
        .run()?;
    write(&done, "")?;
    Ok(libraries)
}
