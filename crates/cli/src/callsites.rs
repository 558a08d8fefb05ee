//! `logdrive callsites`: which statements of running programs log how much.

use crate::control_args::CallsitesArgs;
use crate::error::CliError;
use crate::live::live_sessions;
use crate::output::{Output, note, put_json, safe};
use crate::paint::{ColorChoice, Paint, Style};
use crate::rates::{Rates, SeenSites, SiteRow};
use crate::table::{Side, Table, count_of};
use crate::top::cells::{SITE_COLUMNS, site_cells};
use crate::top::columns::Column;
use crate::watched_session::WatchedSession;
use serde::Serialize;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

/// A callsite as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct SiteLine<'a> {
    id: u32,
    level: &'static str,
    state: &'a str,
    /// Whether a rule of live control has set the state.
    by_rule: bool,
    #[serde(flatten)]
    rates: Rates,
    records: u64,
    bytes: u64,
    dropped: u64,
    sampled_out: u64,
    file: &'a str,
    line: u32,
    target: &'a str,
    message: &'a str,
}

impl<'a> SiteLine<'a> {
    pub(crate) fn new(row: &'a SiteRow) -> Self {
        let (site, totals, callsite) = (&row.site, row.site.totals, &row.site.callsite);
        Self {
            id: site.id,
            level: callsite.level.name(),
            state: &site.state,
            by_rule: site.by_rule,
            rates: row.rates,
            records: totals.records,
            bytes: totals.bytes,
            dropped: totals.dropped,
            sampled_out: totals.sampled_out,
            file: &callsite.file,
            line: callsite.line,
            target: callsite.target_or_module(),
            message: &callsite.message,
        }
    }
}

/// A callsite of one of several processes as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    app: &'a str,
    pid: u32,
    #[serde(flatten)]
    site: SiteLine<'a>,
}

/// Callsites of processes, by the paths of their sessions.
type Seen = HashMap<PathBuf, SeenSites>;

/// Looks at the callsites of a process.
fn look(seen: &mut Seen, session: &WatchedSession) -> Result<(), CliError> {
    let path = &session.at.path;
    let now = SeenSites::look(session, seen.get(path))?;
    seen.insert(path.clone(), now);
    Ok(())
}

/// Returns the callsites of these processes, by what is asked for.
fn rows_of<'a>(seen: &'a Seen, live: &'a [WatchedSession], args: &CallsitesArgs) -> Vec<Row<'a>> {
    let of_process = |session: &'a WatchedSession| {
        let rows = seen.get(&session.at.path).map(|seen| &seen.rows);
        rows.into_iter().flatten().map(move |row| (session, row))
    };
    let mut rows: Vec<Row<'a>> = live.iter().flat_map(of_process).collect();
    rows.sort_by(|(of_a, a), (of_b, b)| {
        let numbers = (of_a.pid, a.site.id).cmp(&(of_b.pid, b.site.id));
        a.compare(b, args.sort).then(numbers)
    });
    rows
}

/// A callsite and its process.
type Row<'a> = (&'a WatchedSession, &'a SiteRow);

/// Runs the command.
pub(crate) fn run(args: &CallsitesArgs, color: ColorChoice) -> Result<(), CliError> {
    let interval = Duration::from_nanos(args.interval);
    let mut output = Output::stdout()?;
    let mut live = live_sessions(&args.live)?;
    let mut seen = Seen::new();
    let clear = args.watch && !args.json && std::io::stdout().is_terminal();
    if clear {
        output.write_all(b"\x1b[2J")?;
    }
    loop {
        for session in &live {
            if !seen.contains_key(&session.at.path) {
                look(&mut seen, session)?;
            }
        }
        let began = seen.values().map(SeenSites::age).max();
        std::thread::sleep(interval.saturating_sub(began.unwrap_or_default()));
        live.iter().try_for_each(|session| look(&mut seen, session))?;
        let mut rows = rows_of(&seen, &live, args);
        let count = rows.len();
        if args.lines > 0 {
            rows.truncate(args.lines);
        }
        if clear {
            rows.truncate(screen_lines().saturating_sub(ABOVE_ROWS).max(1));
            let title = title_of(&live, count, rows.len(), args);
            let table = table_of(&rows, live.len() > 1);
            draw(&mut output, &title, &table, color.for_stdout())?;
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
        // A process that has ended takes no part any more; when all have, so does this command.
        live = match live_sessions(&args.live) {
            Err(CliError::NoRunningProcess { .. }) => {
                note(format!("{} has ended", args.live.name));
                return Ok(());
            }
            alive => alive?,
        };
        seen.retain(|path, _| live.iter().any(|session| session.at.path == *path));
    }
}

/// Returns the title of a screen that is drawn again and again.
fn title_of(live: &[WatchedSession], count: usize, shown: usize, args: &CallsitesArgs) -> String {
    let shown = match shown {
        shown if shown >= count => String::new(),
        shown => format!(", the first {shown} shown"),
    };
    format!(
        "{}: {}, {}{shown}, every {}; Ctrl-C ends",
        safe(&args.live.name),
        count_of(live.len() as u64, "process"),
        count_of(count as u64, "callsite"),
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

fn put(
    output: &mut Output,
    rows: &[Row<'_>],
    has_many: bool,
    args: &CallsitesArgs,
    paint: Paint,
) -> Result<(), CliError> {
    if args.json {
        return rows.iter().try_for_each(|(session, row)| {
            let (app, pid, site) = (&session.app, session.pid, SiteLine::new(row));
            put_json(output, &Line { app, pid, site })
        });
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

fn table_of(rows: &[Row<'_>], has_many: bool) -> Table {
    let mut headings: Vec<_> = SITE_COLUMNS.iter().map(Column::heading).collect();
    if has_many {
        headings.insert(0, ("PID", Side::Right));
    }
    let mut table = Table::new(headings);
    for (session, row) in rows {
        let mut cells = site_cells(row);
        if let Some((_, message)) = cells.last_mut() {
            *message = safe(&shorten(&row.site.callsite.message));
        }
        if has_many {
            cells.insert(0, (Style::Plain, session.pid.to_string()));
        }
        table.push(cells);
    }
    table
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

    #[test]
    fn long_messages_are_shortened_between_characters() {
        assert_eq!(shorten(&"é".repeat(60)).chars().count(), 60);
        let short = shorten(&"é".repeat(61));
        assert!(short.ends_with("é…") && short.chars().count() == 60, "{short}");
    }
}
