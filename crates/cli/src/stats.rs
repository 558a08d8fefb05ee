//! `logdrive stats`: the numbers of sessions, and whether they add up.

use crate::args::StatsArgs;
use crate::error::CliError;
use crate::instant::age_text;
use crate::output::{Output, note, put_json, safe};
use crate::paint::{ColorChoice, Paint, Style};
use crate::session_finder::SessionFinder;
use crate::sessions::{read, select, state_cell};
use crate::table::{bytes_text, count_text};
use crate::watched_session::{Session, State};
use logdrive_drain::{RecoverableSink, SessionNumbers, SinkStats, Stats, metrics};
use logdrive_reader::iso_text;
use logdrive_ring::DropReason;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A session as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    app: &'a str,
    pid: u32,
    state: State,
    started: Option<String>,
    path: &'a Path,
    agent: Option<&'a Path>,
    damage: Option<&'a str>,
    signal: Option<u32>,
    panics: u32,
    rings: u32,
    rings_in_use: u32,
    rings_unreadable: u64,
    callsites: u32,
    calls: u64,
    committed: u64,
    disabled: u64,
    sampled_out: u64,
    dropped: u64,
    dropped_by_reason: BTreeMap<&'static str, u64>,
    records_cut: u64,
    in_rings: u64,
    sinks: Vec<SinkLine>,
}

/// A sink as JSON.
#[derive(Debug, Serialize)]
struct SinkLine {
    file: Option<PathBuf>,
    layout: Option<String>,
    min_level: Option<&'static str>,
    written: u64,
    written_bytes: u64,
    dropped: u64,
    dropped_by_reason: BTreeMap<&'static str, u64>,
    pending: u64,
    errors: u64,
    last_error: Option<String>,
    adds_up: bool,
}

/// Runs the command.
pub(crate) fn run(args: &StatsArgs, color: ColorChoice) -> Result<(), CliError> {
    let mut finder = SessionFinder::of(&args.run_dir, &args.agent)?;
    for name in &args.sessions {
        finder.look_at_agent_of(Path::new(name));
    }
    let sessions = read(finder.find()?, &mut finder);
    let sessions = select(sessions, &args.sessions, &mut finder)?;
    for silence in finder.silences() {
        note(&silence);
    }
    let mut output = Output::stdout()?;
    if args.prometheus {
        output.write_all(metrics(&numbers_of(&sessions)).as_bytes())?;
        return Ok(output.flush()?);
    }
    if sessions.is_empty() && !args.json {
        note(format!("no sessions in {}", finder.text()));
    }
    let paint = color.for_stdout();
    for (number, session) in sessions.iter().enumerate() {
        if args.json {
            put_json(&mut output, &json_line(session))?;
            continue;
        }
        let gap = if number > 0 { "\n" } else { "" };
        write!(output, "{gap}{}", text_of(session, paint))?;
    }
    if args.sessions.is_empty() {
        put_agents(&mut output, &mut finder, args.json, paint)?;
    }
    Ok(output.flush()?)
}

/// Numbers that an agent reports of itself, as JSON.
#[derive(Debug, Serialize)]
struct AgentLine<'a> {
    agent: &'a Path,
    stats: Vec<&'a str>,
}

/// The numbers of the agents, which they tell root and their own users.
fn put_agents(
    output: &mut Output,
    finder: &mut SessionFinder,
    json: bool,
    paint: Paint,
) -> Result<(), CliError> {
    for (socket, text) in finder.agent_stats() {
        if json {
            let stats = text.lines().collect();
            let line = AgentLine {
                agent: &socket,
                stats,
            };
            put_json(output, &line)?;
            continue;
        }
        writeln!(
            output,
            "\n{}  {}",
            paint.the(Style::Title, "agent"),
            paint.the(Style::Dim, socket.display())
        )?;
        for line in text.lines() {
            writeln!(output, "  {}", safe(line))?;
        }
    }
    Ok(())
}

/// Returns the numbers of the sessions that can be read.
fn numbers_of(sessions: &[Session]) -> Vec<SessionNumbers> {
    let readable = sessions.iter().filter(|session| session.state != State::Damaged);
    readable
        .map(|session| SessionNumbers {
            app: session.app.clone(),
            pid: session.pid,
            is_alive: session.state == State::Alive,
            stats: session.stats.clone(),
        })
        .collect()
}

/// Calls: there is no counter of its own, because a call counts itself under what became of it.
fn calls(stats: &Stats) -> u64 {
    let parts = [
        stats.committed,
        stats.dropped_calls(),
        stats.disabled,
        stats.sampled_out,
    ];
    parts.into_iter().fold(0, u64::saturating_add)
}

/// Returns the records that a sink accounts for.
fn accounted(sink: &SinkStats) -> u64 {
    let parts = [sink.counts.written_records, sink.dropped(), sink.pending];
    parts.into_iter().fold(0, u64::saturating_add)
}

fn reasons(stats: &Stats) -> impl Iterator<Item = (DropReason, u64)> + '_ {
    let counts = DropReason::ALL.into_iter().zip(stats.dropped);
    counts.filter(|(_, count)| *count > 0)
}

fn json_line(session: &Session) -> Line<'_> {
    let stats = &session.stats;
    let described = |index: usize| session.sinks.get(index);
    Line {
        app: &session.app,
        pid: session.pid,
        state: session.state,
        started: (session.start_unix_ns != 0).then(|| iso_text(session.start_unix_ns)),
        path: &session.at.path,
        agent: session.at.agent(),
        damage: session.damage.as_deref(),
        signal: session.signal,
        panics: session.panics,
        rings: stats.rings.0,
        rings_in_use: stats.rings.1,
        rings_unreadable: stats.quarantined,
        callsites: stats.callsites,
        calls: calls(stats),
        committed: stats.committed,
        disabled: stats.disabled,
        sampled_out: stats.sampled_out,
        dropped: stats.dropped_calls(),
        dropped_by_reason: reasons(stats)
            .map(|(reason, count)| (reason.name(), count))
            .collect(),
        records_cut: stats.cut,
        in_rings: stats.in_rings,
        sinks: stats
            .sinks
            .iter()
            .enumerate()
            .map(|(index, sink)| sink_line(sink, described(index), stats.committed))
            .collect(),
    }
}

fn sink_line(sink: &SinkStats, described: Option<&RecoverableSink>, committed: u64) -> SinkLine {
    SinkLine {
        file: described.and_then(|sink| Some(sink.file.as_ref()?.path.clone())),
        layout: described.map(|sink| sink.layout.to_text()),
        min_level: described.map(|sink| sink.min_level.name()),
        written: sink.counts.written_records,
        written_bytes: sink.counts.written_bytes,
        dropped: sink.dropped(),
        dropped_by_reason: sink.dropped_by_reason().collect(),
        pending: sink.pending,
        errors: sink.counts.errors,
        last_error: last_error(sink),
        adds_up: accounted(sink) == committed,
    }
}

/// Returns the system's error of the last write, if that failed.
fn last_error(sink: &SinkStats) -> Option<String> {
    let code = i32::try_from(sink.counts.last_error)
        .ok()
        .filter(|code| *code != 0)?;
    Some(std::io::Error::from_raw_os_error(code).to_string())
}

fn text_of(session: &Session, paint: Paint) -> String {
    let (style, state) = state_cell(session.state);
    let mut text = format!(
        "{}  process {}  {}",
        paint.the(Style::Title, &session.app),
        session.pid,
        paint.the(style, state)
    );
    if let Some(age) = session.age_seconds() {
        text.push_str(&format!("  began {} ago", age_text(age)));
    }
    text.push('\n');
    let mut lines = Lines { text, paint };
    lines.put("session", paint.the(Style::Dim, session.at.path.display()));
    if let Some(damage) = &session.damage {
        lines.put("damage", paint.the(Style::Bad, damage));
        return lines.text;
    }
    put_process(&mut lines, session);
    put_calls(&mut lines, &session.stats);
    let keep = session.stats.keep;
    if keep.kept > 0 {
        let [kept, written, forgotten, held] =
            [keep.kept, keep.written, keep.forgotten, keep.held()].map(count_text);
        lines.put(
            "recorder",
            format!("{kept} kept = {written} written + {forgotten} forgotten + {held} in memory"),
        );
    }
    for (index, sink) in session.stats.sinks.iter().enumerate() {
        put_sink(&mut lines, session, index, sink);
    }
    if session.at.entry.is_some() {
        // The numbers of an agent's sinks are those of all its sessions.
        let in_rings = count_text(session.stats.in_rings);
        lines.put("pending", format!("{in_rings} in rings"));
        for file in session.files() {
            lines.put("file", safe(&file.to_string_lossy()));
        }
    }
    lines.text
}

/// Lines of a name and what there is to say about it.
struct Lines {
    text: String,
    paint: Paint,
}

impl Lines {
    fn put(&mut self, name: &str, what: impl Display) {
        let padded = format!("{name:<10}");
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "  {} {what}", self.paint.the(Style::Key, padded));
    }

    /// Puts how many were dropped for a reason.
    fn put_reason(&mut self, count: u64, reason: &str) {
        self.put("", format!("{} dropped: {reason}", count_text(count)));
    }

    /// `3 dropped`, as part of a sum.
    fn dropped(&self, count: u64) -> impl Display + use<> {
        let text = format!("{} dropped", count_text(count));
        self.paint.the(Style::warning_if(count > 0), text)
    }
}

fn put_process(lines: &mut Lines, session: &Session) {
    let (stats, paint) = (&session.stats, lines.paint);
    let (made, in_use) = stats.rings;
    let when = match session.state {
        State::Alive => "log now",
        _ => "logged to the end",
    };
    lines.put("threads", format!("{in_use} {when}, {made} rings made"));
    if stats.quarantined > 0 {
        let text = format!("{} rings cannot be read", count_text(stats.quarantined));
        lines.put("damage", paint.the(Style::Bad, text));
    }
    lines.put("callsites", count_text(u64::from(stats.callsites)));
    if let Some(signal) = session.signal {
        lines.put("ended by", paint.the(Style::Bad, format!("signal {signal}")));
    }
    if session.panics > 0 {
        lines.put("panics", paint.the(Style::Warning, session.panics));
    }
}

fn put_calls(lines: &mut Lines, stats: &Stats) {
    let [calls, committed, disabled, sampled_out] =
        [calls(stats), stats.committed, stats.disabled, stats.sampled_out].map(count_text);
    let dropped = lines.dropped(stats.dropped_calls());
    lines.put(
        "calls",
        format!(
            "{calls} = {committed} committed + {dropped} + {disabled} disabled + {sampled_out} sampled out"
        ),
    );
    for (reason, count) in reasons(stats) {
        lines.put_reason(count, reason.text());
    }
    if stats.cut > 0 {
        let cut = count_text(stats.cut);
        lines.put("", format!("{cut} committed with values cut to the limit"));
    }
}

fn put_sink(lines: &mut Lines, session: &Session, index: usize, sink: &SinkStats) {
    let paint = lines.paint;
    let name = session.sinks.get(index).map(|described| {
        let target = match &described.file {
            Some(file) => safe(&file.path.to_string_lossy()),
            None => "not a file".to_owned(),
        };
        let (layout, level) = (described.layout.to_text(), described.min_level.name());
        format!("{target} ({layout}, from {level})")
    });
    lines.put(
        &format!("sink {}", index + 1),
        name.as_deref().unwrap_or("unknown"),
    );
    let difference = i128::from(session.stats.committed) - i128::from(accounted(sink));
    let verdict = match (difference, session.state) {
        (0, _) => paint.the(Style::Good, "adds up".to_owned()),
        (_, State::Alive) => paint.the(
            Style::Dim,
            format!("{difference:+} at this moment: it logs while it is looked at"),
        ),
        _ => paint.the(Style::Bad, format!("does not add up: {difference:+}")),
    };
    let [committed, written, pending] =
        [session.stats.committed, sink.counts.written_records, sink.pending].map(count_text);
    let dropped = lines.dropped(sink.dropped());
    lines.put(
        "",
        format!("{committed} committed = {written} written + {dropped} + {pending} pending   {verdict}"),
    );
    for (reason, count) in sink.dropped_by_reason() {
        lines.put_reason(count, sink_reason(reason));
    }
    let errors = match sink.counts.errors {
        0 => paint.the(Style::Plain, "no failed writes".to_owned()),
        count => paint.the(Style::Warning, format!("{} failed writes", count_text(count))),
    };
    let bytes = bytes_text(sink.counts.written_bytes);
    lines.put("", format!("{bytes} written, {errors}"));
    if let Some(error) = last_error(sink) {
        let text = format!("the last write failed: {error}");
        lines.put("", paint.the(Style::Bad, text));
    }
}

/// A sink's reason in words.
fn sink_reason(name: &str) -> &str {
    match name {
        "overflow" => "its buffers were full, the target is too slow or hangs",
        "gone" => "its target is gone for good",
        "below_level" => "below the sink's level, as asked for",
        "unknown_callsite" => "of an unknown callsite",
        other => other,
    }
}
