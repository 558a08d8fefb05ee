//! Snapshots of one moment, without a screen: as text, or as JSON for machines.

use super::args::TopArgs;
use super::cells::{PROCESS_COLUMNS, SITE_COLUMNS, process_cells, site_cells};
use super::columns::Column;
use super::model::Model;
use super::source::Source;
use crate::callsites::SiteLine;
use crate::control_args::SortBy;
use crate::error::CliError;
use crate::instant::now_unix_ns;
use crate::output::{Output, note, put_json, safe};
use crate::paint::{ColorChoice, Paint, Style};
use crate::rates::{ProcessRow, Rates, SeenSites, SiteRow};
use crate::table::{Cell, Table};
use logdrive_reader::iso_text;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// A snapshot as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    at: String,
    interval_s: f64,
    processes: Vec<ProcessLine<'a>>,
    troubles: &'a [String],
}

/// A process as JSON.
#[derive(Debug, Serialize)]
struct ProcessLine<'a> {
    app: &'a str,
    pid: u32,
    via: &'static str,
    state: &'static str,
    age_s: Option<u64>,
    rings: u32,
    rings_in_use: u32,
    #[serde(flatten)]
    rates: Rates,
    lag_s: Option<f64>,
    fill: f64,
    records: u64,
    bytes: u64,
    dropped: u64,
    sampled_out: u64,
    pending: u64,
    failed_writes: u64,
    panics: u32,
    log: String,
    damage: Option<&'a str>,
    rules: usize,
    callsite_count: u32,
    callsites: Vec<SiteLine<'a>>,
}

/// Callsites of processes, by the paths of their sessions.
type Seen = HashMap<PathBuf, SeenSites>;

/// Prints as many snapshots as are asked for.
pub(super) fn run(args: &TopArgs, source: &mut Source, color: ColorChoice) -> Result<(), CliError> {
    let mut output = Output::stdout()?;
    let mut model = Model::new(args.interval, args.sort, args.filter.as_deref().unwrap_or(""));
    model.places = source.places();
    model.take(source.look());
    let mut seen = sites_of(&model, source, &Seen::new());
    for number in 0..args.count.unwrap_or(1) {
        std::thread::sleep(Duration::from_nanos(args.interval));
        model.take(source.look());
        seen = sites_of(&model, source, &seen);
        let blocks = blocks(&model, &seen, args.lines);
        if args.json {
            put_json(&mut output, &line(args, &model, &blocks))?;
        } else {
            if number > 0 {
                output.write_all(b"\n")?;
            }
            put_text(&mut output, &model, &blocks, color.for_stdout())?;
        }
        output.flush()?;
    }
    Ok(())
}

fn sites_of(model: &Model, source: &Source, before: &Seen) -> Seen {
    let look = |row: &ProcessRow| {
        let path = &row.session.at.path;
        let seen = SeenSites::look(source.session(path)?, before.get(path)).ok()?;
        Some((path.clone(), seen))
    };
    model.processes.shown().filter_map(look).collect()
}

/// A process with its loudest callsites.
struct Block<'a> {
    row: &'a ProcessRow,
    sites: Vec<&'a SiteRow>,
    rules: usize,
}

fn blocks<'a>(model: &'a Model, seen: &'a Seen, most: usize) -> Vec<Block<'a>> {
    let block = |row: &'a ProcessRow| {
        let seen = seen.get(&row.session.at.path);
        let mut sites: Vec<&SiteRow> = seen.iter().flat_map(|seen| &seen.rows).collect();
        sites.sort_by(|a, b| a.compare(b, SortBy::Records).then(a.site.id.cmp(&b.site.id)));
        if most > 0 {
            sites.truncate(most);
        }
        let rules = seen.map_or(0, |seen| seen.rules);
        Block { row, sites, rules }
    };
    model.processes.shown().map(block).collect()
}

fn line<'a>(args: &TopArgs, model: &'a Model, blocks: &'a [Block<'a>]) -> Line<'a> {
    Line {
        at: iso_text(now_unix_ns()),
        interval_s: args.interval as f64 / 1e9,
        processes: blocks.iter().map(process_line).collect(),
        troubles: &model.troubles,
    }
}

fn process_line<'a>(block: &'a Block<'a>) -> ProcessLine<'a> {
    let (row, session) = (block.row, &block.row.session);
    let stats = &session.stats;
    ProcessLine {
        app: &session.app,
        pid: session.pid,
        via: session.via(),
        state: session.state_at_agent().name(),
        age_s: session.age_seconds(),
        rings: stats.rings.0,
        rings_in_use: stats.rings.1,
        rates: row.rates,
        lag_s: row.lag_s,
        fill: session.fill,
        records: stats.committed,
        bytes: session.bytes,
        dropped: session.dropped(),
        sampled_out: stats.sampled_out,
        pending: stats.pending(),
        failed_writes: session.failed_writes(),
        panics: session.panics,
        log: session.place(),
        damage: session.damage.as_deref(),
        rules: block.rules,
        callsite_count: session.callsite_count(),
        callsites: block.sites.iter().map(|row| SiteLine::new(row)).collect(),
    }
}

fn put_text(output: &mut Output, model: &Model, blocks: &[Block<'_>], paint: Paint) -> Result<(), CliError> {
    for trouble in &model.troubles {
        note(safe(trouble));
    }
    if blocks.is_empty() {
        note(&match model.processes.rows.len() {
            0 => format!(
                "no program logs with Logdrive; looked at {}",
                model.places.join(", ")
            ),
            count => format!("none of {count} processes contains {:?}", model.processes.filter),
        });
        return Ok(());
    }
    let rows = blocks.iter().map(|block| process_cells(block.row));
    output.write_all(table(&PROCESS_COLUMNS, rows).text(paint).as_bytes())?;
    for block in blocks.iter().filter(|block| !block.sites.is_empty()) {
        let session = &block.row.session;
        let title = format!("{} {}", session.app, session.pid);
        writeln!(output, "\n{}", paint.the(Style::Title, title))?;
        let rows = block.sites.iter().map(|row| site_cells(row));
        output.write_all(table(&SITE_COLUMNS, rows).text(paint).as_bytes())?;
    }
    Ok(())
}

fn table(columns: &[Column], rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    let headings: Vec<_> = columns.iter().map(Column::heading).collect();
    let mut table = Table::new(headings);
    for cells in rows {
        table.push(cells);
    }
    table
}
