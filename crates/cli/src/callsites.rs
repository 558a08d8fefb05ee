//! `logdrive callsites`: which statements of running programs log how much.

use crate::control_args::{CallsitesArgs, SortBy};
use crate::error::CliError;
use crate::live::{Live, live_sessions};
use crate::output::{Output, note, put_json, safe};
use crate::paint::{ColorChoice, Paint, Style};

use crate::table::{Side, Table, bytes_text, count_text};
use logdrive_drain::control::{Action, Rule, is_off, selects};
use logdrive_ring::control::{ControlEntry, EVERY, KeyField, KeyedLimit, PER_KEY, PER_SECOND};
use logdrive_ring::limits::CALLSITES_MAX;
use logdrive_ring::{CallsiteTotals, SessionReader};
use logdrive_wire::Callsite;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A callsite with what it did in the interval.
#[derive(Debug, Serialize)]
struct Row {
    app: String,
    pid: u32,
    id: u32,
    level: &'static str,
    state: String,
    /// Whether a rule of live control has set the state.
    by_rule: bool,
    records_per_s: f64,
    bytes_per_s: f64,
    drops_per_s: f64,
    sampled_out_per_s: f64,
    records: u64,
    bytes: u64,
    dropped: u64,
    sampled_out: u64,
    file: String,
    line: u32,
    target: String,
    message: String,
}

/// Runs the command.
pub(crate) fn run(args: &CallsitesArgs, color: ColorChoice) -> Result<(), CliError> {
    let interval = Duration::from_nanos(args.interval);
    let mut output = Output::stdout()?;
    let mut live = live_sessions(&args.live)?;
    let mut before: Vec<Totals> = live.iter().map(Totals::of).collect();
    let clear = args.watch && !args.json && std::io::stdout().is_terminal();
    if clear {
        output.write_all(b"\x1b[2J")?;
    }
    loop {
        std::thread::sleep(
            interval.saturating_sub(before.first().map_or(Duration::ZERO, |t| t.at.elapsed())),
        );
        let now: Vec<Totals> = live.iter().map(Totals::of).collect();
        let mut rows = Vec::new();
        for ((session, before), now) in live.iter().zip(&before).zip(&now) {
            rows.extend(rows_of(session, before, now)?);
        }
        let count = rows.len();
        sort(&mut rows, args.sort);
        if args.lines > 0 {
            rows.truncate(args.lines);
        }
        if clear {
            rows.truncate(screen_lines().saturating_sub(ABOVE_ROWS).max(1));
            let title = title_of(&live, count, rows.len(), args);
            draw(
                &mut output,
                &title,
                &table_of(&rows, live.len() > 1),
                color.for_stdout(),
            )?;
        } else {
            put(&mut output, &rows, live.len() > 1, args, color.for_stdout())?;
        }
        output.flush()?;
        if !args.watch {
            if count > rows.len() && !args.json {
                note(format!("{count} callsites, {} shown; -n 0 shows all", rows.len()));
            }
            return Ok(());
        }
        before = now;
        // A process that has ended takes no part any more; when all have, so does this command.
        match live_sessions(&args.live) {
            Ok(alive) => keep_alive(&mut live, &mut before, alive),
            Err(CliError::NoRunningProcess { .. }) => {
                note(format!("{} has ended", args.live.name));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the title of a screen that is drawn again and again.
fn title_of(live: &[Live], count: usize, shown: usize, args: &CallsitesArgs) -> String {
    let shown = match shown {
        shown if shown >= count => String::new(),
        shown => format!(", the first {shown} shown"),
    };
    format!(
        "{}: {}, {}{shown}, every {}; Ctrl-C ends",
        safe(&args.live.name),
        match live.len() {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        },
        match count {
            1 => "1 callsite".to_owned(),
            count => format!("{count} callsites"),
        },
        interval_text(args.interval)
    )
}

/// Lines of a screen that are not rows: title, empty line, headings, and the one that the cursor is on.
const ABOVE_ROWS: usize = 4;

/// Lines of the terminal; where it does not say, those of most.
fn screen_lines() -> usize {
    ratatui::crossterm::terminal::size().map_or(24, |(_, lines)| usize::from(lines))
}

/// Draws over what was drawn before, so that nothing flickers. What is longer than the screen is wide is cut by the
/// terminal.
fn draw(output: &mut Output, title: &str, table: &Table, paint: Paint) -> Result<(), CliError> {
    let text = table.text(paint);
    let title = paint.the(Style::Dim, title).to_string();
    output.write_all(b"\x1b[?7l\x1b[H")?;
    for line in [title.as_str(), ""].into_iter().chain(text.lines()) {
        write!(output, "{line}\x1b[K\r\n")?;
    }
    Ok(output.write_all(b"\x1b[J\x1b[?7h")?)
}

/// `500 ms`, `2 s`
fn interval_text(ns: u64) -> String {
    let ms = ns / 1_000_000;
    match ms % 1_000 {
        0 => format!("{} s", ms / 1_000),
        _ => format!("{ms} ms"),
    }
}

/// Counts of a session at one moment.
#[derive(Debug)]
struct Totals {
    at: Instant,
    of: Vec<CallsiteTotals>,
}

impl Totals {
    fn of(session: &Live) -> Self {
        // What another process says is taken for no more than there can be.
        let count = session
            .session
            .header()
            .callsite_count()
            .min(CALLSITES_MAX as u32);
        Self {
            at: Instant::now(),
            of: (0..count).map(|id| totals_of(&session.session, id)).collect(),
        }
    }

    fn totals(&self, id: u32) -> CallsiteTotals {
        self.of.get(id as usize).copied().unwrap_or_default()
    }
}

/// Takes over which processes live, and keeps what is known of those that lived before.
fn keep_alive(live: &mut Vec<Live>, before: &mut Vec<Totals>, alive: Vec<Live>) {
    let mut known: Vec<(std::path::PathBuf, Totals)> = live
        .drain(..)
        .map(|session| session.path)
        .zip(before.drain(..))
        .collect();
    for session in alive {
        let place = known.iter().position(|(path, _)| *path == session.path);
        before.push(match place {
            Some(place) => known.swap_remove(place).1,
            None => Totals::of(&session),
        });
        live.push(session);
    }
}

fn rows_of(session: &Live, before: &Totals, now: &Totals) -> Result<Vec<Row>, CliError> {
    let seconds = (now.at - before.at).as_secs_f64().max(1e-9);
    // What cannot be read does not hold either.
    let rules = rules_of(&session.session);
    let rows = session.callsites()?.into_iter().filter_map(|(id, callsite)| {
        let entry = session.session.control(id)?;
        let with_sampled_variant = |totals: &Totals| {
            sum(
                totals.totals(id),
                totals.totals(entry.sampled_variant()),
                entry.sampled_variant() != 0 && entry.sampled_variant() != id,
            )
        };
        let (before, now) = (with_sampled_variant(before), with_sampled_variant(now));
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let (state, by_rule) = state_of(entry, &callsite, &rules);
        Some(Row {
            app: session.app.clone(),
            pid: session.pid,
            id,
            level: callsite.level.name(),
            state,
            by_rule,
            records_per_s: rate(before.records, now.records),
            bytes_per_s: rate(before.bytes, now.bytes),
            drops_per_s: rate(before.dropped, now.dropped),
            sampled_out_per_s: rate(before.sampled_out, now.sampled_out),
            records: now.records,
            bytes: now.bytes,
            dropped: now.dropped,
            sampled_out: now.sampled_out,
            target: callsite.target_or_module().to_owned(),
            file: callsite.file,
            line: callsite.line,
            message: callsite.message,
        })
    });
    Ok(rows.collect())
}

/// A callsite and the one under which its kept records go.
fn sum(own: CallsiteTotals, sampled_variant: CallsiteTotals, has_sampled_variant: bool) -> CallsiteTotals {
    if !has_sampled_variant {
        return own;
    }
    CallsiteTotals {
        records: own.records.saturating_add(sampled_variant.records),
        bytes: own.bytes.saturating_add(sampled_variant.bytes),
        ..own
    }
}

/// Returns the counts of a callsite together with those of its sampled variant.
pub(crate) fn with_sampled_variant(session: &SessionReader, id: u32, sampled_variant: u32) -> CallsiteTotals {
    let has_sampled_variant = sampled_variant != 0 && sampled_variant != id;
    let of_variant = if has_sampled_variant {
        totals_of(session, sampled_variant)
    } else {
        CallsiteTotals::default()
    };
    sum(totals_of(session, id), of_variant, has_sampled_variant)
}

/// Returns the counts of a callsite; zeros where the session has no such counts.
pub(crate) fn totals_of(session: &SessionReader, id: u32) -> CallsiteTotals {
    session
        .counts(id)
        .map(|counts| counts.totals())
        .unwrap_or_default()
}

/// The rules in force; none where they cannot be read, which do not hold either.
pub(crate) fn rules_of(session: &SessionReader) -> Vec<Rule> {
    let read = session.rules().and_then(|rules| rules.read());
    read.map_or(Vec::new(), |(_, rules)| rules)
}

/// The state in words, and whether a rule made it.
pub(crate) fn state_of(entry: &ControlEntry, callsite: &Callsite, rules: &[Rule]) -> (String, bool) {
    let (id, base, switch) = (entry.id(), entry.base(), entry.switch());
    let (control, parameter) = (switch.control, switch.parameter);
    let text = match control {
        EVERY => format!("1 of {parameter}"),
        PER_SECOND => format!("{parameter}/s"),
        PER_KEY => {
            let limit = KeyedLimit::of(parameter);
            let key = match limit.key {
                KeyField::Index(index) => callsite
                    .fields
                    .get(usize::from(index))
                    .map(|field| field.name.clone()),
                KeyField::Named(_) => rules.iter().find_map(|rule| match &rule.action {
                    Action::PerKey { field, .. } if KeyedLimit::named(field) == limit.key => {
                        Some(field.clone())
                    }
                    _ => None,
                }),
            };
            format!(
                "{}/s per {}",
                limit.per_second,
                safe(key.as_deref().unwrap_or("key"))
            )
        }
        word if is_off(word) => {
            let is_mute = |rule: &Rule| rule.action == Action::Mute && selects(&rule.selector, id, callsite);
            return match (rules.iter().any(is_mute), is_off(base)) {
                (true, _) => ("muted".to_owned(), true),
                (false, is_off_anyway) => ("off".to_owned(), !is_off_anyway),
            };
        }
        _ => return ("on".to_owned(), is_off(base)),
    };
    (text, true)
}

fn sort(rows: &mut [Row], by: SortBy) {
    rows.sort_by(|a, b| {
        let loudest = match by {
            SortBy::Records => b.records_per_s.total_cmp(&a.records_per_s),
            SortBy::Bytes => b.bytes_per_s.total_cmp(&a.bytes_per_s),
            SortBy::Drops => b.drops_per_s.total_cmp(&a.drops_per_s),
            SortBy::Sampled => b.sampled_out_per_s.total_cmp(&a.sampled_out_per_s),
            SortBy::Id => std::cmp::Ordering::Equal,
        };
        let most = match by {
            SortBy::Records => b.records.cmp(&a.records),
            SortBy::Bytes => b.bytes.cmp(&a.bytes),
            SortBy::Drops => b.dropped.cmp(&a.dropped),
            SortBy::Sampled => b.sampled_out.cmp(&a.sampled_out),
            SortBy::Id => std::cmp::Ordering::Equal,
        };
        loudest.then(most).then((a.pid, a.id).cmp(&(b.pid, b.id)))
    });
}

fn put(
    output: &mut Output,
    rows: &[Row],
    has_many: bool,
    args: &CallsitesArgs,
    paint: Paint,
) -> Result<(), CliError> {
    if args.json {
        for row in rows {
            put_json(output, row)?;
        }
        return Ok(());
    }
    if rows.is_empty() {
        note(format!("{} has called no log statement so far", args.live.name));
        return Ok(());
    }
    output.write_all(table_of(rows, has_many).text(paint).as_bytes())?;
    if args.watch {
        output.write_all(b"\n")?;
    }
    Ok(())
}

fn table_of(rows: &[Row], has_many: bool) -> Table {
    let mut headings = vec![
        ("ID", Side::Right),
        ("LEVEL", Side::Left),
        ("STATE", Side::Left),
        ("RECORDS/S", Side::Right),
        ("BYTES/S", Side::Right),
        ("DROPS/S", Side::Right),
        ("SAMPLED/S", Side::Right),
        ("RECORDS", Side::Right),
        ("WHERE", Side::Left),
        ("MESSAGE", Side::Left),
    ];
    if has_many {
        headings.insert(0, ("PID", Side::Right));
    }
    let mut table = Table::new(headings);
    for row in rows {
        let mut cells = vec![
            (Style::Plain, row.id.to_string()),
            (level_style(row.level), row.level.to_owned()),
            state_cell(row),
            (Style::Plain, rate_text(row.records_per_s)),
            (Style::Plain, bytes_text(row.bytes_per_s as u64)),
            (doubt(row.drops_per_s), rate_text(row.drops_per_s)),
            (Style::Plain, rate_text(row.sampled_out_per_s)),
            (Style::Plain, count_text(row.records)),
            (Style::Dim, place_of(row)),
            (Style::Plain, safe(&shorten(&row.message))),
        ];
        if has_many {
            cells.insert(0, (Style::Plain, row.pid.to_string()));
        }
        table.push(cells);
    }
    table
}

pub(crate) fn level_style(name: &str) -> Style {
    name.parse().map_or(Style::Plain, Style::Level)
}

fn doubt(rate: f64) -> Style {
    if rate > 0.0 { Style::Doubt } else { Style::Plain }
}

fn state_cell(row: &Row) -> (Style, String) {
    let style = match row.state.as_str() {
        "on" => Style::Good,
        "off" => Style::Dim,
        _ => Style::Doubt,
    };
    let is_plain = matches!(row.state.as_str(), "on" | "off");
    let text = if row.by_rule && is_plain {
        format!("{} by rule", row.state)
    } else {
        row.state.clone()
    };
    (style, text)
}

/// Few are shown as they are: one in ten seconds is not none.
pub(crate) fn rate_text(rate: f64) -> String {
    if rate == 0.0 || rate >= 9.95 {
        count_text(rate.round() as u64)
    } else {
        format!("{rate:.1}")
    }
}

fn place_of(row: &Row) -> String {
    let file = row.file.rsplit('/').next().unwrap_or("");
    if file.is_empty() {
        safe(&row.target)
    } else {
        safe(&format!("{file}:{}", row.line))
    }
}

/// The front of a message, as far as a line of a table goes.
fn shorten(message: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    if message.chars().count() <= CHARACTERS_MAX {
        return message.to_owned();
    }
    let front: String = message.chars().take(CHARACTERS_MAX - 1).collect();
    front + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u32, records_per_s: f64, bytes: u64) -> Row {
        Row {
            app: "shop".into(),
            pid: 1,
            id,
            level: "INFO",
            state: "on".into(),
            by_rule: false,
            records_per_s,
            bytes_per_s: 0.0,
            drops_per_s: 0.0,
            sampled_out_per_s: 0.0,
            records: 0,
            bytes,
            dropped: 0,
            sampled_out: 0,
            file: String::new(),
            line: 0,
            target: String::new(),
            message: String::new(),
        }
    }

    #[test]
    fn the_loudest_come_first_and_the_rest_by_what_they_ever_did() {
        let mut rows = [row(3, 1.0, 9), row(2, 5.0, 1), row(1, 0.0, 9), row(4, 5.0, 2)];
        let ids = |rows: &[Row]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
        sort(&mut rows, SortBy::Records);
        assert_eq!(ids(&rows), [2, 4, 3, 1]);
        sort(&mut rows, SortBy::Bytes);
        assert_eq!(ids(&rows), [1, 3, 4, 2]);
        sort(&mut rows, SortBy::Id);
        assert_eq!(ids(&rows), [1, 2, 3, 4]);
    }

    #[test]
    fn few_records_a_second_are_not_none() {
        assert_eq!(
            [0.0, 0.1, 9.94, 12.4, 12_345.0].map(rate_text),
            ["0", "0.1", "9.9", "12", "12,345"]
        );
    }

    #[test]
    fn long_messages_are_shortened_between_characters() {
        assert_eq!(shorten(&"é".repeat(60)).chars().count(), 60);
        let short = shorten(&"é".repeat(61));
        assert!(short.ends_with("é…") && short.chars().count() == 60, "{short}");
    }
}
