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

const ENTRIES: &[Entry] = &[
    Entry {
        name: "demo",
        usage: "demo [ARGS]",
        about: "a QUIC transfer that logs every event, in three ways, then killed and recovered",
        example: "cargo xtask demo",
        run: run::demo,
    },
    Entry {
        name: "test",
        usage: "test [FILTER]",
        about: "all tests of all languages, with the examples",
        example: "cargo xtask test rotation",
        run: suite::run,
    },
    Entry {
        name: "bench",
        usage: "bench NAME [--json] [--quick]",
        about: "one workload against its rivals: glog, callsite, compile, uds, net, ship, quic, fprintf, hang, agent, run, recorder",
        example: "cargo xtask bench glog --only logdrive,write",
        run: run::bench,
    },
    Entry {
        name: "crash",
        usage: "crash [--agent | --collector] [--cycles N] [--seed S]",
        about: "kill a logging program, an agent, or collectors and their senders, at random moments; count what is lost",
        example: "cargo xtask crash --cycles 100",
        run: run::crash,
    },
    Entry {
        name: "ci",
        usage: "ci [--only STEP,...] [--list]",
        about: "everything that a change has to pass, step by step",
        example: "cargo xtask ci --only fmt,clippy,tidy",
        run: ci::run,
    },
    Entry {
        name: "tidy",
        usage: "tidy [--rules]",
        about: "the project's own rules: shape, names, floors, unsafe, links, pages",
        example: "cargo xtask tidy",
        run: tidy::run,
    },
    Entry {
        name: "lines",
        usage: "lines [--json] [--circles] [--types] [--docs] [--words]",
        about: "figures of each crate: lines, public items, doc comments, circles of imports",
        example: "cargo xtask lines --circles",
        run: lines::run,
    },
    Entry {
        name: "dependencies",
        usage: "dependencies [--advisories DIR]",
        about: "licences, bans and sources of all packages (cargo-deny), and known vulnerabilities",
        example: "cargo xtask dependencies",
        run: dependencies::run,
    },
    Entry {
        name: "dist",
        usage: "dist",
        about: "the command as it is passed on: stripped, with its debug information in a file of its own",
        example: "cargo xtask dist",
        run: dist::run,
    },
    Entry {
        name: "vectors",
        usage: "vectors",
        about: "the shared test vectors, run in every language and counted",
        example: "cargo xtask vectors",
        run: vectors::run,
    },
    Entry {
        name: "fuzz",
        usage: "fuzz [TARGET] [--seconds N]",
        about: "feed the parsers hostile bytes (needs nightly and cargo-fuzz)",
        example: "cargo xtask fuzz --seconds 60",
        run: lab::fuzz,
    },
    Entry {
        name: "hostile",
        usage: "hostile [--mutations N] [--seed S] [--plain]",
        about: "a process rewrites its session while an agent drains it (nightly, for its address sanitizer)",
        example: "cargo xtask hostile --mutations 100_000_000",
        run: lab::hostile,
    },
    Entry {
        name: "loom",
        usage: "loom [FILTER]",
        about: "the ring under every interleaving that loom can reach; fails too where an ordering is not needed",
        example: "cargo xtask loom",
        run: lab::loom,
    },
    Entry {
        name: "miri",
        usage: "miri [FILTER]",
        about: "wire and ring (no files, signals, processes) under an interpreter that sees undefined behaviour (nightly)",
        example: "cargo xtask miri",
        run: lab::miri,
    },
    Entry {
        name: "aarch64",
        usage: "aarch64 [FILTER]",
        about: "the tests for 64-bit Arm, run by qemu-user",
        example: "cargo xtask aarch64",
        run: lab::aarch64,
    },
];

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
    let Some((name, rest)) = all.split_first() else {
        print!("{}", help());
        return Ok(());
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return Ok(());
    }
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
        println!(
            "{}\n\nUsage: cargo xtask {}\nExample: {}",
            entry.about, entry.usage, entry.example
        );
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
