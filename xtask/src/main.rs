//! The workshop: `cargo xtask COMMAND` is the one way to run, test, check and measure Logdrive.
//!
//! This file holds the list of commands and hands over to the module that does the work. A program
//! that a command needs and this machine lacks is named, with how to get it.

#![forbid(unsafe_code)]

mod args;
mod ci;
mod cpp;
mod dependencies;
mod dist;
mod engines;
mod faults;
mod go;
mod lab;
mod lines;
mod metadata;
mod paint;
mod programs;
mod rivals;
mod run;
mod shell;
mod steps;
mod suite;
mod tidy;
mod vectors;
mod wild;

use shell::{Failure, Outcome};
use std::process::ExitCode;

/// One command of the workshop.
struct Entry {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    example: &'static str,
    run: fn(&[String]) -> Outcome,
}

/// Commands from rows of a name, the function, the usage, an example, and what the command does.
macro_rules! entries {
    ($($name:literal $run:path, $usage:literal, $example:literal, $about:literal;)*) => {
        &[$(Entry { name: $name, usage: $usage, about: $about, example: $example, run: $run }),*]
    };
}

const ENTRIES: &[Entry] = entries! {
    "demo" run::demo, "demo [ARGS]", "cargo xtask demo",
        "a QUIC transfer that logs every event, in three ways, then killed and recovered";
    "test" suite::run, "test [FILTER]", "cargo xtask test rotation",
        "all tests of all languages, with the examples";
    "bench" run::bench, "bench NAME [--json] [--quick]", "cargo xtask bench glog --only logdrive,write",
        "one workload against its rivals: glog, callsite, compile, uds, net, ship, quic, fprintf, hang, agent, run, recorder, \
         segments, search (of --records N); or `scorecard`, the ratios of all of them to bare floors";
    "crash" run::crash, "crash [--agent | --collector | --mode NAME] [--cycles N] [--seed S]", "cargo xtask crash --mode chain --cycles 100",
        "kill logging programs, an agent, or collectors and their senders, at random moments; count what is lost; modes: \
         plain, rotate, processes, shared, chain, drop, oom";
    "faults" faults::run, "faults [--only NAME] [--language NAME] [--quick] [--json] [--list]",
        "cargo xtask faults --only 'disk full'",
        "programs in Rust, C++ and Go log under every fault of disks, memory, limits and ends; a table of what the log explains";
    "engines" engines::run, "engines [--only NAME] [--records N] [--cycles N] [--quick] [--keep] [--seed S] [--program FILE]",
        "cargo xtask engines --only kafka --quick",
        "real Kafka and other engines from package registries, killed and halted with sender and collector; count what they have";
    "ci" ci::run, "ci [--only STEP,...] [--list]", "cargo xtask ci --only fmt,clippy,tidy",
        "everything that a change has to pass, step by step";
    "tidy" tidy::run, "tidy [--rules]", "cargo xtask tidy",
        "the project's own rules: shape, names, floors, unsafe, links, pages";
    "lines" lines::run, "lines [--json] [--circles] [--types] [--docs] [--words]", "cargo xtask lines --circles",
        "figures of each crate: lines, public items, doc comments, circles of imports";
    "dependencies" dependencies::run, "dependencies [--advisories DIR]", "cargo xtask dependencies",
        "licences, bans and sources of all packages (cargo-deny), and known vulnerabilities";
    "dist" dist::run, "dist [--static]", "cargo xtask dist",
        "what is passed on: the command, stripped, with its debug information in a file of its own, or without libraries (musl); \
         packages for C++";
    "wild" wild::run, "wild [PROGRAM] [--source DIR]", "cargo xtask wild glog",
        "programs that were written for glog, unchanged, with glog and with the facade; fetches Debian's sources; minutes";
    "vectors" vectors::run, "vectors", "cargo xtask vectors",
        "the shared test vectors, run in every language and counted";
    "fuzz" lab::fuzz, "fuzz [TARGET] [--seconds N]", "cargo xtask fuzz --seconds 60",
        "feed the parsers hostile bytes (needs nightly and cargo-fuzz)";
    "hostile" lab::hostile, "hostile [--mutations N] [--seed S] [--plain]", "cargo xtask hostile --mutations 100_000_000",
        "a process rewrites its session while an agent drains it (nightly, for its address sanitizer)";
    "loom" lab::loom, "loom [FILTER]", "cargo xtask loom",
        "the ring under every interleaving that loom can reach; fails too where an ordering is not needed";
    "miri" lab::miri, "miri [FILTER]", "cargo xtask miri",
        "wire and ring (no files, signals, processes) under an interpreter that sees undefined behaviour (nightly)";
    "aarch64" lab::aarch64, "aarch64 [FILTER]", "cargo xtask aarch64",
        "the tests for 64-bit Arm, run by qemu-user";
};

fn main() -> ExitCode {
    let all: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&all) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}: {failure}", paint::bad("error"));
            if !failure.advice.is_empty() {
                eprintln!("      {}", failure.advice);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(all: &[String]) -> Outcome {
    let help_is_wanted = |word: &str| matches!(word, "help" | "--help" | "-h");
    let Some((name, rest)) = all.split_first().filter(|(name, _)| !help_is_wanted(name)) else {
        print!("{}", help());
        return Ok(());
    };
    let Some(entry) = ENTRIES.iter().find(|entry| entry.name == name) else {
        return Err(Failure::usage(format!(
            "`{name}` is not a command of the workshop"
        )));
    };
    // The workloads' own help says more.
    if let [word] = rest
        && matches!(word.as_str(), "--help" | "-h")
        && entry.name != "bench"
    {
        let Entry {
            about,
            usage,
            example,
            ..
        } = entry;
        println!("{about}\n\nUsage: cargo xtask {usage}\nExample: {example}");
        if entry.name == "lines" {
            println!("\n{}", lines::RULE);
        }
        return Ok(());
    }
    (entry.run)(rest)
}

fn help() -> String {
    let width = ENTRIES.iter().map(|entry| entry.usage.len()).max().unwrap_or(0);
    let mut text =
        String::from("Usage: cargo xtask COMMAND\n\nTo see what Logdrive does, and that it works:\n");
    for (at, entry) in ENTRIES.iter().enumerate() {
        if at == 2 {
            text.push_str("\nTo change it:\n");
        }
        text.push_str(&format!("  {:width$}  {}\n", entry.usage, entry.about));
    }
    text.push_str("\nExamples:\n");
    for entry in ENTRIES {
        text.push_str(&format!("  {}\n", entry.example));
    }
    text
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn help_names_every_command_with_an_example() {
        let text = help();
        for entry in ENTRIES {
            assert!(
                text.contains(entry.usage) && text.contains(entry.about),
                "{} is missing",
                entry.name
            );
            assert!(
                entry.example.starts_with(&format!("cargo xtask {}", entry.name)),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn an_unknown_command_says_where_the_list_is() {
        let failure = dispatch(&["tset".to_owned()]).expect_err("there is no such command");
        assert!(failure.advice.contains("cargo xtask help"), "{}", failure.advice);
    }
}
