//! `cargo xtask dist`: the command as it is passed on, without debug information, which lies in a file of its own, and the packages
//! for C and C++.

use crate::args::{Args, Form};
use crate::paint;
use crate::shell::{CMAKE, CXX, Call, Failure, MUSL_CC, OBJCOPY, Outcome, first_missing, root};
use std::path::Path;

/// Places the command and its debug information in `target/dist`. A debugger, and the backtrace of a panic, find the
/// second file where it lies beside the first. With `--static` the command needs no libraries, for containers without any,
/// and lies in a directory of its target's name; packages are not made.
pub(crate) fn run(args: &[String]) -> Outcome {
    let form = Form {
        switches: &["static"],
        ..Form::default()
    };
    let is_static = Args::read(args, &form)?.switch("static");
    OBJCOPY.require()?;
    let root = root()?;
    let (mut built, mut dist) = (
        crate::shell::target_dir(&root)?,
        crate::shell::target_dir(&root)?.join("dist"),
    );
    let mut build = Call::cargo()
        .words("build --release --locked --package logdrive-cli --bins")
        .dir(&root);
    if is_static {
        let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        MUSL_CC.require()?;
        require_std(&target)?;
        build = build.args(["--target", &target]);
        built.push(&target);
        dist.push(&target);
    }
    build.run()?;
    std::fs::create_dir_all(&dist)
        .map_err(|cause| Failure::new(format!("{} cannot be made: {cause}", dist.display()), ""))?;
    split(&built.join("release/logdrive"), &dist)?;
    for name in ["logdrive", "logdrive.debug"] {
        let path = dist.join(name);
        let bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
        println!("{}: {:.1} MB", path.display(), bytes as f64 / 1e6);
    }
    match is_static {
        true => Ok(()),
        false => packages(&root, &built, &dist),
    }
}

/// Places packages of the libraries and headers in `dist`: an archive for builds that have them as a part, one of an installation,
/// and a Debian package.
fn packages(root: &Path, target: &Path, dist: &Path) -> Outcome {
    if let Some(tool) = first_missing(&[&CMAKE, &CXX]) {
        eprintln!(
            "{}: packages for C++: {}",
            paint::faint("left out"),
            tool.missing()
        );
        return Ok(());
    }
    let build = target.join("cpp-dist");
    let (build, dist) = (build.to_string_lossy(), dist.to_string_lossy());
    let cmake = |words: &[&str]| Call::new("cmake").args(words).dir(root).run();
    let options = ["-DCMAKE_BUILD_TYPE=Release", "-DLOGDRIVE_TESTS=OFF"];
    cmake(&["-S", "clients/cpp", "-B", &build, options[0], options[1]])?;
    cmake(&["--build", &build, "--target", "all", "logdrive_release"])?;
    Call::new("cpack")
        .args(["--config", &format!("{build}/CPackConfig.cmake"), "-B", &dist])
        .dir(root)
        .run()?;
    let archives = format!("cp {build}/release/*.tar.gz {dist}/");
    Call::new("sh").args(["-c", &archives]).dir(root).run()
}

/// Fails with advice where Rust's own libraries for a target are missing.
fn require_std(target: &str) -> Outcome {
    let place = Call::new("rustc")
        .words("--print target-libdir --target")
        .arg(target)
        .stdout()?;
    match Path::new(place.trim()).is_dir() {
        true => Ok(()),
        false => Err(Failure::new(
            format!("Rust's libraries for {target} are missing"),
            format!("rustup target add {target}"),
        )),
    }
}

/// Splits the program `built` into one without debug information and one with nothing else, both in `dist`.
fn split(built: &Path, dist: &Path) -> Outcome {
    let built = built.to_string_lossy();
    let objcopy = |words: &str| Call::new("objcopy").words(words).dir(dist);
    objcopy("--only-keep-debug --compress-debug-sections=zlib")
        .args([&built, "logdrive.debug"])
        .run()?;
    objcopy("--strip-all --add-gnu-debuglink=logdrive.debug")
        .args([&built, "logdrive"])
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_debug_information_still_runs_and_names_the_other_file() {
        if !OBJCOPY.present() {
            return;
        }
        let dist = std::env::temp_dir().join(format!("logdrive-dist-{}", std::process::id()));
        std::fs::create_dir_all(&dist).expect("the temporary directory is writable");
        let own = std::env::current_exe().expect("a test is a program");
        split(&own, &dist).expect("objcopy splits the program");
        let bytes = std::fs::read(dist.join("logdrive")).expect("the program");
        let full_bytes = std::fs::metadata(&own).expect("the test").len();
        assert!((bytes.len() as u64) < full_bytes / 2);
        assert!(bytes.windows(14).any(|part| part == b"logdrive.debug"));
        assert!(Call::new(dist.join("logdrive")).arg("--list").succeeds());
        std::fs::remove_dir_all(&dist).expect("the directory is ours");
    }
}
