//! `compile`: how long the compiler takes for a file with 200 log calls.
//!
//! Each file holds 40 functions with five calls each, of twenty shapes, as a
//! file of a program has them; a rival's file holds the same calls. Every time
//! is that of a compiler that starts anew, without precompiled headers. The
//! floor is `none`: the same functions without a call and without a header.
//! The cost to a user in each file is the time above that. `logdrive-cpp` is to
//! be compared with `spdlog`, `logdrive-cpp-glog` with `glog`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::harness::{About, Case, Job, Measure, Metric, Samples, Scale, Workload, runs};
use crate::{BenchError, Result, usage};

const FUNCTIONS: usize = 40;
const CALLS_A_FUNCTION: usize = 5;
const FULL_TRIALS: u64 = 3;
const QUICK_TRIALS: u64 = 1;
const NONE: &str = "none";

/// A subject, what its file includes, and how to get it where it is missing.
struct Kind {
    subject: &'static str,
    include: &'static str,
    package: &'static str,
}

impl Kind {
    const fn new(subject: &'static str, include: &'static str, package: &'static str) -> Kind {
        Kind {
            subject,
            include,
            package,
        }
    }
}

const KINDS: [Kind; 5] = [
    Kind::new(NONE, "string", ""),
    Kind::new("spdlog", "spdlog/spdlog.h", "libspdlog-dev"),
    Kind::new("logdrive-cpp", "logdrive/logdrive.hpp", ""),
    Kind::new("glog", "glog/logging.h", "libgoogle-glog-dev"),
    Kind::new("logdrive-cpp-glog", "glog/logging.h", ""),
];

/// Format and arguments of a call; a stream shows the same.
const SHAPES: [(&str, &[&str]); 20] = [
    ("order {} price {}", &["i", "x"]),
    ("user {} logged in from {}", &["s", "t"]),
    ("done", &[]),
    ("x {} y {} z {}", &["i", "i + 1", "i + 2"]),
    ("value {} of {}", &["x", "s"]),
    ("cannot open {}: {}", &["s", "i"]),
    ("sent {} bytes in {} ms", &["u", "x"]),
    ("connection {} closed", &["u"]),
    ("retry {} of {} for {}", &["i", "i + 3", "s"]),
    ("cache hit rate {}", &["x"]),
    ("session {} state {} -> {}", &["u", "i", "i + 1"]),
    ("{}", &["s"]),
    ("loss {} after {} steps", &["x", "u"]),
    ("peer {} speaks version {}", &["t", "i"]),
    ("queue length {} of {}", &["u", "u + 1"]),
    ("{} took {} s", &["t", "x"]),
    ("leader {} term {} index {}", &["s", "u", "u + 2"]),
    ("enabled {}", &["i > 0"]),
    ("reading {} at {} with {}", &["s", "u", "t"]),
    ("a {} b {} c {} d {}", &["i", "x", "s", "u"]),
];

const METRICS: &[Metric] = &[
    Metric::new("wall_s", "s", 2),
    Metric::new("cpu_s", "s", 2),
    Metric::new("object_kib", "KiB", 0),
];

/// The workload.
pub struct Compile;

impl Workload for Compile {
    fn about(&self) -> About {
        About::new("compile", METRICS).with_floor("cpu_s", NONE)
    }

    fn title(&self, _scale: Scale) -> String {
        let (compiler, calls) = (compiler(), FUNCTIONS * CALLS_A_FUNCTION);
        format!("{compiler} compiles a file with {calls} log calls, -O2")
    }

    fn cases(&self, scale: Scale) -> Vec<Case> {
        let trials = scale.pick(FULL_TRIALS, QUICK_TRIALS);
        KINDS
            .iter()
            .map(|kind| Case::new(kind.subject).setting("trials", trials))
            .collect()
    }

    /// Leaves out what cannot be compiled here, and says how to get it.
    fn prepare(&self, _: Scale, cases: &mut Vec<Case>, _: Measure<'_>) -> Result<()> {
        let has_compiler = Command::new(compiler())
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !has_compiler {
            cases.clear();
            eprintln!(
                "  left out: everything; {} is missing: apt-get install g++",
                compiler()
            );
            return Ok(());
        }
        let dir = runs::scratch_dir()?;
        let mut kept = Vec::new();
        for kind in &KINDS {
            let source = dir.join(format!("compile-trial-{}.cpp", std::process::id()));
            write(&source, &format!("#include <{}>\n", kind.include))?;
            let compiles = compile(kind, &source, &["-fsyntax-only"])?.0;
            let _ = std::fs::remove_file(&source); // It is of no use to anybody.
            if compiles {
                kept.push(kind.subject);
            } else {
                eprintln!("  left out: {}; apt-get install {}", kind.subject, kind.package);
            }
        }
        cases.retain(|case| kept.contains(&case.subject));
        Ok(())
    }

    fn measure(&self, job: &Job) -> Result<Samples> {
        let kind = KINDS.iter().find(|kind| kind.subject == job.subject);
        let kind =
            kind.ok_or_else(|| BenchError::subject(&job.subject, "is not a subject of this workload"))?;
        let stem = runs::scratch_dir()?.join(format!("compile-{}", std::process::id()));
        let (source, object) = (stem.with_extension("cpp"), stem.with_extension("o"));
        write(&source, &file(kind))?;
        let output = object.to_string_lossy().into_owned();
        let mut trials = Vec::new();
        for _ in 0..job.number("trials").max(1) {
            let (compiles, wall_s, cpu_s) = compile(kind, &source, &["-c", "-o", &output])?;
            if !compiles {
                return Err(BenchError::subject(&job.subject, "its file does not compile"));
            }
            trials.push((wall_s, cpu_s));
        }
        let object_bytes = std::fs::metadata(&object)?.len();
        for path in [&source, &object] {
            std::fs::remove_file(path).map_err(BenchError::io("remove", path))?;
        }
        Ok(Samples::default()
            .with("wall_s", median(trials.iter().map(|trial| trial.0)))
            .with("cpu_s", median(trials.iter().map(|trial| trial.1)))
            .with("object_kib", object_bytes as f64 / 1024.0))
    }
}

fn compiler() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(BenchError::io("write", path))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Returns whether the file compiles, and the wall and processor time of that.
fn compile(kind: &Kind, source: &Path, how: &[&str]) -> Result<(bool, f64, f64)> {
    let program = compiler();
    let cpu_s = usage::children_cpu_s();
    let start = Instant::now();
    let mut command = Command::new(&program);
    if how == ["-fsyntax-only"] {
        command.stderr(Stdio::null());
    }
    let status = command
        .args(["-std=c++17", "-O2", "-DNDEBUG"])
        .args(flags(kind.subject))
        .args(how)
        .arg(source)
        .stdin(Stdio::null())
        .status()
        .map_err(BenchError::io("start", Path::new(&program)))?;
    let wall_s = start.elapsed().as_secs_f64();
    Ok((status.success(), wall_s, usage::children_cpu_s() - cpu_s))
}

/// Folders of the headers; a rival's options are those of its own package, which links its compiled library.
fn flags(subject: &str) -> Vec<String> {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/cpp");
    let include = |dir: &str| format!("-I{}", client.join(dir).display());
    match subject {
        "logdrive-cpp" => vec![include("include")],
        // As its package has it, too.
        "logdrive-cpp-glog" => {
            vec![
                include("glog-include"),
                include("include"),
                "-DLOGDRIVE_GLOG_LIBRARY".to_owned(),
            ]
        }
        "spdlog" => package_flags("spdlog"),
        "glog" => package_flags("libglog"),
        _ => Vec::new(),
    }
}

/// Output of pkg-config; nothing where it does not know the package.
fn package_flags(package: &str) -> Vec<String> {
    let output = Command::new("pkg-config")
        .args(["--cflags", package])
        .stderr(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// The file of a subject.
fn file(kind: &Kind) -> String {
    let mut text = format!("#include <{}>\n#include <string>\n", kind.include);
    let mut shapes = SHAPES.iter().cycle();
    for function in 0..FUNCTIONS {
        let head = format!(
            "void f{function}(int i, double x, const std::string &s, const char *t, unsigned long u)"
        );
        let unused = "    (void)i, (void)x, (void)s, (void)t, (void)u;";
        text.push_str(&format!("{head};\n{head} {{\n{unused}\n"));
        for _ in 0..CALLS_A_FUNCTION {
            if let Some((format, values)) = shapes.next() {
                text.push_str(&call(kind.subject, format, values));
            }
        }
        text.push_str("}\n");
    }
    text
}

fn call(subject: &str, format: &str, values: &[&str]) -> String {
    match subject {
        "glog" | "logdrive-cpp-glog" => {
            let mut text = "    LOG(INFO)".to_owned();
            let mut values = values.iter();
            for (index, part) in format.split("{}").enumerate() {
                if index > 0 {
                    text.push_str(&format!(" << ({})", values.next().unwrap_or(&"0")));
                }
                if !part.is_empty() {
                    text.push_str(&format!(" << \"{part}\""));
                }
            }
            text + ";\n"
        }
        NONE => String::new(),
        _ => {
            let name = if subject == "spdlog" {
                "SPDLOG_INFO"
            } else {
                "LOGDRIVE_INFO"
            };
            let values: String = values.iter().map(|value| format!(", {value}")).collect();
            format!("    {name}(\"{format}\"{values});\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_shows_what_the_format_shows() {
        assert_eq!(
            call("glog", "a {} b {}", &["i", "x"]),
            "    LOG(INFO) << \"a \" << (i) << \" b \" << (x);\n"
        );
        assert_eq!(call("glog", "{}", &["s"]), "    LOG(INFO) << (s);\n");
        assert_eq!(call("spdlog", "{} y", &["s"]), "    SPDLOG_INFO(\"{} y\", s);\n");
    }

    #[test]
    fn every_file_has_200_calls_and_as_many_values_as_its_formats_show() {
        for kind in KINDS.iter().filter(|kind| kind.subject != NONE) {
            let calls = file(kind)
                .lines()
                .filter(|line| line.starts_with("    ") && !line.contains("(void)"))
                .count();
            assert_eq!(calls, 200, "{}", kind.subject);
        }
        assert!(
            SHAPES
                .iter()
                .all(|(format, values)| format.matches("{}").count() == values.len())
        );
    }
}
