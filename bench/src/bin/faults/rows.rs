//! Rows of the table. Each has a fault as steps, programs in some languages, and an end; the log has to explain every call.

use crate::language::Language;
use crate::program_end::End;
use crate::row::{ALL, CPP, OWN_DRAIN, RUST, Row, row};
use crate::stage::Stage;
use crate::{damage, rigs};
use nix::sys::signal::Signal;

const KILL: End = End::Signal(Signal::SIGKILL);
const TERM: End = End::Signal(Signal::SIGTERM);
const MIB: u64 = 1 << 20;
/// Calls that fill the output buffers of a sink.
const MUCH: &str = "records=200000 full=drop overflow=drop";

/// All rows, in the order of the table.
pub(crate) fn all() -> Vec<Row> {
    [
        ends(),
        containers(),
        memory(),
        bursts(),
        limits(),
        full_and_hanging_disks(),
        failing_disks(),
        files(),
        segments(),
        sessions(),
        spools(),
        messages(),
        neighbours(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Ends of programs on a machine without faults.
fn ends() -> Vec<Row> {
    let mut rows = vec![
        row("end: the logger is stopped", ALL, End::Orderly),
        row("end: return without a stop", ALL, End::Own("return")),
        row("end: exit(3)", ALL, End::Own("exit")),
        row("end: quick_exit(3)", CPP, End::Own("quick_exit")),
        row("end: _exit(3)", OWN_DRAIN, End::Own("_exit")),
        row("end: abort", OWN_DRAIN, End::Own("abort")),
        row("end: panic", ALL, End::Own("panic")),
        row("end: segmentation fault", OWN_DRAIN, End::Own("segv")),
        row("end: exec", ALL, End::Own("exec")),
        row("end: SIGKILL", ALL, KILL),
    ];
    for (name, signal) in [
        ("end: SIGTERM", Signal::SIGTERM),
        ("end: SIGINT", Signal::SIGINT),
        ("end: SIGHUP", Signal::SIGHUP),
    ] {
        rows.push(row(name, ALL, End::Signal(signal)));
    }
    rows.into_iter().map(Row::names_end).collect()
}

/// A `/dev/shm` that ends with the program, as that of a container does.
fn containers() -> Vec<Row> {
    let private = |name, end| {
        row(name, OWN_DRAIN, end)
            .plan("records=25 pause_us=200")
            .setup(|stage| rigs::shm(stage, 64 * MIB))
            .dead(damage::lose_shm)
    };
    vec![
        private("container: the logger is stopped", End::Orderly),
        private("container: exit(3)", End::Own("exit")),
        private("container: SIGTERM", TERM),
        private("container: SIGINT", End::Signal(Signal::SIGINT)),
        row("container: SIGKILL, run_dir on a volume", ALL, KILL)
            .setup(|stage| rigs::limit_by_root(stage, "pids=1 shm=65536")),
    ]
}

/// Little memory for rings.
fn memory() -> Vec<Row> {
    vec![
        row("/dev/shm of 1 MiB", ALL, End::Orderly).setup(|stage| rigs::shm(stage, MIB)),
        row("/dev/shm of 4 MiB", ALL, End::Orderly).setup(|stage| rigs::shm(stage, 4 * MIB)),
        row("/dev/shm of 14 MiB", ALL, End::Orderly).setup(|stage| rigs::shm(stage, 14 * MIB)),
        row("/dev/shm of 64 MiB, 300 threads", OWN_DRAIN, End::Orderly)
            .plan("threads=300 records=20 pause_us=1000")
            .setup(|stage| rigs::shm(stage, 64 * MIB)),
        row(
            "/dev/shm of 64 MiB, 8 processes of 100 threads",
            ALL,
            End::Orderly,
        )
        .processes(8)
        .plan("threads=100 records=10 pause_us=2000")
        .setup(|stage| rigs::shm(stage, 64 * MIB)),
        row("1,000 threads", OWN_DRAIN, End::Orderly)
            .plan("threads=1000 records=20 pause_us=20000")
            .slow(),
        row("out of memory", ALL, End::Own("eat"))
            .names_end()
            .setup(|stage| rigs::memory_group(stage, 96 * MIB)),
    ]
}

/// Limits of resources and rights.
fn limits() -> Vec<Row> {
    vec![
        row("limit: 256 KiB of a file", OWN_DRAIN, End::Orderly)
            .setup(|stage| rigs::limit(stage, "fsize=262144")),
        row("limit: 32 descriptors", OWN_DRAIN, End::Orderly)
            .plan("threads=40 records=50")
            .setup(|stage| rigs::limit(stage, "nofile=32")),
        row("limit: 200 MiB of addresses", RUST, End::Orderly)
            .plan("threads=4 records=50")
            .setup(|stage| rigs::limit(stage, "as=209715200")),
        row("limit: no /dev in a chroot", OWN_DRAIN, End::Orderly).setup(rigs::chroot),
        row("limit: no locked memory", ALL, End::Orderly).setup(|stage| rigs::limit(stage, "memlock=0")),
    ]
}

/// Disks that are full, hang or are slow.
fn full_and_hanging_disks() -> Vec<Row> {
    vec![
        row("disk full, then freed", OWN_DRAIN, End::Orderly)
            .plan(MUCH)
            .setup(|stage| rigs::log_disk(stage, 64 * MIB))
            .half(rigs::fill_disk)
            .done(rigs::free_disk),
        row("disk full, SIGKILL, then freed", ALL, KILL)
            .plan(MUCH)
            .setup(|stage| rigs::log_disk(stage, 64 * MIB))
            .half(rigs::fill_disk)
            .dead(rigs::free_disk),
        row("disk hangs, then answers", OWN_DRAIN, End::Orderly)
            .plan(MUCH)
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "hang"))
            .done(|stage| rigs::tell_disk(stage, "go")),
        row("disk hangs, buffers hold, rings drop", OWN_DRAIN, End::Orderly)
            .plan("records=200000 full=drop overflow=hold")
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "hang"))
            .done(|stage| rigs::tell_disk(stage, "go")),
        row("disk hangs, another log goes on", RUST, End::Orderly)
            .setup(|stage| {
                let other = stage.dir.join("other.log");
                stage.plan(&format!("also={}", other.display()));
                rigs::faulty_disk(stage)
            })
            .half(|stage| rigs::tell_disk(stage, "hang"))
            .done(damage::wait_for_other_log),
        row(
            "disk hangs, buffers drop, warnings have room",
            OWN_DRAIN,
            End::Orderly,
        )
        .plan("records=200000 full=drop overflow=drop warn_every=200")
        .setup(rigs::faulty_disk)
        .half(|stage| rigs::tell_disk(stage, "hang"))
        .done(|stage| rigs::tell_disk(stage, "go")),
        row(
            "disk is slow, with a flight recorder, SIGSEGV",
            RUST,
            End::Own("segv"),
        )
        .plan("keep=8388608 warn_every=100 full=drop")
        .names_end()
        .setup(rigs::faulty_disk)
        .half(|stage| rigs::tell_disk(stage, "slow"))
        .dead(|stage| rigs::tell_disk(stage, "go")),
        row("disk full at the start, then freed", OWN_DRAIN, End::Orderly)
            .setup(|stage| {
                rigs::log_disk(stage, 64 * MIB)?;
                rigs::fill_disk(stage)
            })
            .half(rigs::free_disk),
        row("disk hangs, SIGKILL, then answers", OWN_DRAIN, KILL)
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "hang"))
            .done(damage::kill_while_hanging),
        row("disk hangs, 5 programs killed, then answers", OWN_DRAIN, KILL)
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "hang"))
            .done(damage::kill_while_hanging)
            .dead(|stage| damage::start_while_hanging(stage, 4)),
    ]
}

/// Disks that fail, and those that lose what was not synced.
fn failing_disks() -> Vec<Row> {
    vec![
        row("disk fails with EIO, then works", OWN_DRAIN, End::Orderly)
            .plan(MUCH)
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "eio"))
            .done(|stage| rigs::tell_disk(stage, "go")),
        row(
            "disk fails with EIO at the start, then works",
            OWN_DRAIN,
            End::Orderly,
        )
        .setup(|stage| damage::faulty_disk_that(stage, "eio"))
        .half(|stage| rigs::tell_disk(stage, "go")),
        row(
            "disk fails with EIO while nothing is logged",
            OWN_DRAIN,
            End::Orderly,
        )
        .setup(rigs::faulty_disk)
        .half(damage::fail_while_idle),
        row("disk fails with ENOSPC, SIGKILL, then works", OWN_DRAIN, KILL)
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "enospc"))
            .dead(|stage| rigs::tell_disk(stage, "go")),
        row("disk shortens writes", OWN_DRAIN, End::Orderly)
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "shorten")),
        row("power cut after sync, with rotation", OWN_DRAIN, KILL)
            .plan("sync=1 rotate=65536")
            .synced()
            .setup(|stage| damage::faulty_disk_that(stage, "forget"))
            .dead(|stage| rigs::read_store(stage, true)),
        row("power cut after sync, ext4", OWN_DRAIN, KILL)
            .plan("sync=1 rotate=65536")
            .synced()
            .setup(|stage| rigs::ext4(stage, 16 * MIB))
            .half(rigs::cut_power)
            .dead(rigs::read_copy),
    ]
}

/// Other programs at the log's files.
fn files() -> Vec<Row> {
    vec![
        row("log renamed by others", ALL, End::Orderly).half(damage::rename_log),
        row("log deleted by others", ALL, End::Orderly)
            .second_half()
            .half(damage::delete_log),
        row("log copied and truncated by others", ALL, End::Orderly).half(damage::copy_and_truncate),
        row(
            "log copied and truncated under a slow write",
            OWN_DRAIN,
            End::Orderly,
        )
        .setup(rigs::faulty_disk)
        .half(|stage| rigs::tell_disk(stage, "slow"))
        .done(damage::copy_and_truncate_in_line)
        .dead(damage::end_copy_with_a_line),
        row("rotation and compression, SIGKILL", OWN_DRAIN, KILL)
            .plan("rotate=65536 compress=zstd")
            // A compression that was cut short leaves both files to the next start.
            .dead(Stage::run_another),
    ]
}

/// Logs of segments.
fn segments() -> Vec<Row> {
    vec![
        row("segments, SIGKILL", RUST, KILL).plan("layout=segments records=20000"),
        row("segments, rotation and compaction, SIGKILL", RUST, KILL)
            .plan("layout=segments rotate=32768 records=40000")
            // A compaction that was cut short leaves its file to the next start.
            .dead(Stage::run_another),
        row("segments, recoverer killed", RUST, KILL)
            .plan("layout=segments records=20000")
            .dead(|stage| damage::kill_recoverers(stage, 5)),
        row("segments, a bit flips", RUST, End::Orderly)
            .plan("layout=segments rotate=32768 full=block records=40000")
            .damages(1)
            .dead(damage::flip_in_segment),
        row("segments, disk full, then freed", RUST, End::Orderly)
            .plan("layout=segments records=200000 full=drop overflow=drop")
            .setup(|stage| rigs::log_disk(stage, 64 * MIB))
            .half(rigs::fill_disk)
            .done(rigs::free_disk),
        row("segments, disk full, SIGKILL, then freed", RUST, KILL)
            .plan("layout=segments records=200000 full=drop overflow=drop")
            .setup(|stage| rigs::log_disk(stage, 64 * MIB))
            .half(rigs::fill_disk)
            .dead(rigs::free_disk),
        row("segments, disk shortens writes", RUST, End::Orderly)
            .plan("layout=segments")
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "shorten")),
        row("segments, power cut after sync, ext4", RUST, KILL)
            .plan("layout=segments sync=1 rotate=65536")
            .synced()
            .setup(|stage| rigs::ext4(stage, 16 * MIB))
            .half(rigs::cut_power)
            .dead(rigs::read_copy),
    ]
}

/// Bursts of calls that nothing slows.
fn bursts() -> Vec<Row> {
    vec![
        row("burst, full rings drop", ALL, KILL).plan("full=drop ring=65536 records=50000"),
        row("burst, full rings drop, warnings have room", OWN_DRAIN, KILL)
            .plan("full=drop ring=65536 records=50000 warn_every=100"),
        row("burst, in the order of times", RUST, End::Orderly)
            .plan("full=block threads=8 records=20000 order=1"),
        row("burst, full rings wait", ALL, End::Orderly).plan("ring=65536 records=50000"),
        row("burst, full rings block", ALL, KILL).plan("full=block ring=65536 records=50000"),
    ]
}

/// Harm to the session of a program that was killed while its disk hung, so that it holds records.
fn sessions() -> Vec<Row> {
    let harmed = |name, harm| {
        row(name, OWN_DRAIN, KILL)
            .setup(rigs::faulty_disk)
            .half(|stage| rigs::tell_disk(stage, "hang"))
            .done(damage::kill_while_hanging)
            .dead(harm)
    };
    vec![
        harmed("session: a bit of the identity flips", |stage| {
            damage::flip(stage, "session", 41)
        }),
        harmed("session: the magic flips", |stage| {
            damage::flip(stage, "session", 1)
        }),
        harmed("session: a page of the header is zeroed", |stage| {
            damage::zero_page(stage, "session", 0)
        }),
    ]
}

/// Spools of programs whose collector is away.
fn spools() -> Vec<Row> {
    let spool = |name, end| {
        row(name, RUST, end)
            .plan("pause_us=100")
            .setup(rigs::spooling_collector)
            .half(rigs::end_collector)
    };
    let kept = |name, step| spool(name, KILL).done(damage::wait_for_spool).dead(step);
    // The line about the collector that is away may be among what is lost.
    let harmed = |name, harm| kept(name, harm).lost_notices(1);
    vec![
        spool("spool: the collector comes back", End::Orderly).done(rigs::start_collector_of_text),
        kept("spool: SIGKILL, then the next start", damage::send_spool),
        harmed("spool: a bit flips", damage::flip_in_spool),
        harmed("spool: a file is cut short", damage::cut_spool),
        harmed("spool: a file is gone", damage::lose_spool),
        spool("spool: disk full, then the collector comes back", End::Orderly)
            .setup(rigs::full_spool)
            .half(rigs::end_collector_and_fill_spool)
            .done(rigs::start_collector_of_text),
        spool("spool: disk full, then freed, SIGKILL", KILL)
            .setup(rigs::full_spool)
            .half(rigs::end_collector_and_fill_spool)
            .done(|stage| {
                rigs::free_spool(stage)?;
                damage::wait_for_spool(stage)
            })
            .dead(damage::send_spool),
        spool("spool: disk full, SIGKILL", KILL)
            .setup(rigs::full_spool)
            .half(rigs::end_collector_and_fill_spool)
            .dead(|stage| {
                rigs::free_spool(stage)?;
                damage::send_spool(stage)
            }),
    ]
}

/// Requests in the place of log calls.
fn messages() -> Vec<Row> {
    let row = |name| row(name, RUST, End::Orderly).plan("threads=4 records=400");
    vec![
        // A request behind one that panics may find its connection ended.
        row("messages: handlers panic")
            .setup(|stage| rigs::messages(stage, "unix", &["panic_every=50"]))
            .dead(|stage| rigs::check_answers(stage, 2 * 4 * 400 / 50)),
        // Of each thread, those that find the connection ended, or nobody who listens, until the next server does.
        row("messages: server stops under load, then the next one")
            .setup(|stage| rigs::messages(stage, "unix", &["stop_after=300"]))
            .dead(|stage| rigs::check_answers(stage, 4 * 200)),
        row("messages: server killed, then the next one, shared memory")
            .setup(|stage| rigs::messages(stage, "shm", &[]))
            .half(|stage| rigs::start_server(stage, "shm", &[]))
            .dead(|stage| rigs::check_failures(stage, 4)),
        row("messages: server killed, then the next one, Unix socket")
            .setup(|stage| rigs::messages(stage, "unix", &[]))
            .half(|stage| rigs::start_server(stage, "unix", &[]))
            .dead(|stage| rigs::check_failures(stage, 4)),
        row("messages: server has 40 descriptors")
            .plan("threads=60 records=20")
            .setup(|stage| rigs::messages(stage, "unix", &["nofile=40"]))
            .dead(|stage| rigs::check_answers(stage, 0)),
    ]
}

/// Processes beside the program.
fn neighbours() -> Vec<Row> {
    vec![
        row("8 processes, one log, SIGKILL", ALL, KILL)
            .processes(8)
            .plan("records=300"),
        row("recoverer killed", OWN_DRAIN, KILL)
            .plan("records=20000")
            .dead(|stage| damage::kill_recoverers(stage, 5)),
        row("sidecar killed", &[Language::Go], KILL).half(damage::kill_sidecars),
        row("setuid after the start", ALL, End::Orderly)
            .plan("act=setuid fresh=1")
            .setup(|stage| rigs::limit_by_root(stage, "")),
        row("setuid, prepared by run_as", OWN_DRAIN, End::Orderly)
            .plan("rotate=65536 full=block")
            .setup(rigs::become_user),
        row("setuid, prepared by run_as, SIGKILL", OWN_DRAIN, KILL)
            .plan("rotate=65536 full=block")
            .setup(rigs::become_user)
            .dead(Stage::run_another),
        row("descriptors closed, then recover", OWN_DRAIN, KILL)
            .plan("act=close records=8000 pause_us=10")
            .done(damage::recover_living),
        row("signal handler logs", CPP, KILL).plan("act=handler full=block records=20000"),
        row("signal handler forks", CPP, KILL)
            .plan("act=fork full=block records=6000 interrupt_us=1000")
            .done(damage::forget_logs_of_children),
        row("forked child logs and calls _exit", CPP, End::Orderly).plan("act=child_exit"),
        row("forked child logs and calls exec", CPP, End::Orderly).plan("act=child_exec"),
        row("forked child logs and calls _exit, agent", CPP, End::Orderly)
            .plan("act=child_exit")
            .setup(rigs::agent),
        row("forked child logs and calls exec, agent", CPP, End::Orderly)
            .plan("act=child_exec")
            .setup(rigs::agent),
        row("slow reader of standard error", OWN_DRAIN, End::Orderly)
            .plan("log= slow_reader=1 records=20000"),
        row("SIGKILL, then the next start", ALL, KILL).dead(Stage::run_another),
        row("collector away, then the logger is stopped", RUST, End::Orderly)
            .setup(rigs::collector)
            .half(rigs::end_collector)
            .done(rigs::start_collector),
        row("collector away, SIGKILL, then it is back", RUST, KILL)
            .setup(rigs::collector)
            .half(rigs::end_collector)
            .dead(rigs::start_collector),
        row(
            "collector with --sync, syncs fail, then a power cut",
            RUST,
            End::Orderly,
        )
        .setup(rigs::syncing_collector)
        .half(|stage| rigs::tell_disk(stage, "fail_syncs"))
        .done(rigs::mend_syncs)
        .dead(rigs::cut_collector),
        row("agent, SIGKILL", ALL, KILL).setup(rigs::agent),
        row("agent, the logger is stopped", ALL, End::Orderly).setup(rigs::agent),
        row("agent, setuid after the start", ALL, End::Orderly)
            .plan("act=setuid fresh=1")
            .setup(|stage| {
                rigs::limit_by_root(stage, "")?;
                rigs::agent(stage)
            }),
        row("agent killed, then the next one", ALL, KILL)
            .setup(rigs::agent)
            .half(rigs::next_agent),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = include_str!("../../../../README.md");
    const PROMISES: &str = include_str!("../../../FAULTS.md");

    /// Cells of the rows of a table with so many columns, without its titles.
    fn cells(text: &str, columns: usize) -> Vec<Vec<&str>> {
        let rows = text
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
        let rows = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
        rows.filter(|row| row.len() == columns && !row[0].starts_with("promise"))
            .collect()
    }

    fn parts(cell: &str) -> Vec<&str> {
        cell.split('`').skip(1).step_by(2).collect()
    }

    #[test]
    fn every_promise_of_readme_names_rows_and_every_row_shows_a_promise() {
        let rows = all();
        let promises = cells(PROMISES, 3);
        for promise in &promises {
            let parts = parts(promise[2]);
            assert!(!parts.is_empty(), "{promise:?} names no row");
            for part in parts {
                assert!(
                    rows.iter().any(|row| row.name.contains(part)),
                    "{part:?} is no row"
                );
            }
        }
        let named: Vec<_> = promises.iter().flat_map(|promise| parts(promise[2])).collect();
        for row in &rows {
            assert!(
                named.iter().any(|part| row.name.contains(part)),
                "no promise names {:?}",
                row.name
            );
        }
    }

    #[test]
    fn the_promises_are_those_of_readme() {
        let (_, guarantees) = README.split_once("## Guarantees").expect("the guarantees");
        let (guarantees, _) = guarantees.split_once("\n## ").expect("what follows");
        let of_readme: Vec<_> = cells(guarantees, 2).into_iter().map(|row| row[0]).collect();
        let mut of_rows: Vec<_> = cells(PROMISES, 3).into_iter().map(|row| row[0]).collect();
        of_rows.dedup();
        assert_eq!(of_rows, of_readme);
    }
}
