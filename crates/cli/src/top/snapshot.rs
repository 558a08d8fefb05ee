//! Snapshots of one moment, without a screen: as text, or as JSON for machines.

use super::args::TopArgs;
use super::cells::{PROCESS_COLUMNS, SITE_COLUMNS, process_cells, site_cells};
use super::columns::{Cell, Column};
use super::model::{Model, sort_sites};
use super::rates::{ProcessRow, Rates, SiteRow, of_sites};
use super::sample::Sites;
use super::source::Source;
use crate::error::CliError;
use crate::instant::now_unix_ns;
use crate::output::{Output, note, put_json, safe};
use crate::paint::{ColorChoice, Paint, Style};

use crate::table::Table;
use logdrive_reader::iso_text;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
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
    fill: f64,
    records: u64,
    bytes: u64,
    dropped: u64,
    sampled_out: u64,
    pending: u64,
    failed_writes: u64,
    panics: u32,
    log: &'a str,
    damage: Option<&'a str>,
    rules: usize,
    callsite_count: u32,
    callsites: Vec<SiteLine<'a>>,
}

/// A callsite as JSON.
#[derive(Debug, Serialize)]
struct SiteLine<'a> {
    id: u32,
    level: &'static str,
    state: &'a str,
    by_rule: bool,
    records_per_s: f64,
    bytes_per_s: f64,
    drops_per_s: f64,
    sampled_out_per_s: f64,
    records: u64,
    bytes: u64,
    dropped: u64,
    sampled_out: u64,
    target: &'a str,
    file: &'a str,
    line: u32,
    message: &'a str,
}

/// The callsites of processes, by the keys of their sessions.
type Seen = HashMap<String, Sites>;

/// Prints as many snapshots as are asked for.
pub(super) fn run(args: &TopArgs, source: &mut Source, color: ColorChoice) -> Result<(), CliError> {
    let mut output = Output::stdout()?;
    let mut model = Model::new(args.interval, args.sort, args.filter.as_deref().unwrap_or(""));
    model.places = source.places();
    model.take(source.look());
    let mut before = sites_of(&model, source);
    for number in 0..args.count.unwrap_or(1) {
        std::thread::sleep(Duration::from_nanos(args.interval));
        model.take(source.look());
        let now = sites_of(&model, source);
        let blocks = blocks(&model, &before, &now, args.lines);
        if args.json {
            put_json(&mut output, &line(args, &model, &blocks))?;
        } else {
            if number > 0 {
                output.write_all(b"\n")?;
            }
            put_text(&mut output, &model, &blocks, color.for_stdout())?;
        }
        output.flush()?;
        before = now;
    }
    Ok(())
}

fn sites_of(model: &Model, source: &Source) -> Seen {
    let keys = model.processes().map(|row| row.process.key.clone());
    keys.filter_map(|key| Some((key.clone(), source.sites(&key)?)))
        .collect()
}

/// A process with its loudest callsites.
struct Block<'a> {
    row: &'a ProcessRow,
    sites: Vec<SiteRow>,
    rules: usize,
}

fn blocks<'a>(model: &'a Model, before: &Seen, now: &Seen, most: usize) -> Vec<Block<'a>> {
    let block = |row: &'a ProcessRow| {
        let key = &row.process.key;
        let seen = now.get(key).cloned().unwrap_or_default();
        let rules = seen.rules.len();
        let mut sites = of_sites(before.get(key), seen);
        sort_sites(&mut sites);
        if most > 0 {
            sites.truncate(most);
        }
        Block { row, sites, rules }
    };
    model.processes().map(block).collect()
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
    let ProcessRow { process, rates } = block.row;
    ProcessLine {
        app: &process.app,
        pid: process.pid,
        via: process.via.name(),
        state: process.life.name(),
        age_s: process.age_s,
        rings: process.rings,
        rings_in_use: process.rings_in_use,
        rates: *rates,
        fill: process.fill,
        records: process.committed,
        bytes: process.bytes,
        dropped: process.dropped,
        sampled_out: process.sampled_out,
        pending: process.pending,
        failed_writes: process.errors,
        panics: process.panics,
        log: &process.place,
        damage: process.damage.as_deref(),
        rules: block.rules,
        callsite_count: process.callsites,
        callsites: block.sites.iter().map(site_line).collect(),
    }
}

fn site_line(row: &SiteRow) -> SiteLine<'_> {
    let (site, rates) = (&row.site, &row.rates);
    SiteLine {
        id: site.id,
        level: site.callsite.level.name(),
        state: &site.state,
        by_rule: site.by_rule,
        records_per_s: rates.records_per_s,
        bytes_per_s: rates.bytes_per_s,
        drops_per_s: rates.drops_per_s,
        sampled_out_per_s: rates.sampled_out_per_s,
        records: site.totals.records,
        bytes: site.totals.bytes,
        dropped: site.totals.dropped,
        sampled_out: site.totals.sampled_out,
        target: site.callsite.target_or_module(),
        file: &site.callsite.file,
        line: site.callsite.line,
        message: &site.callsite.message,
    }
}

fn put_text(output: &mut Output, model: &Model, blocks: &[Block<'_>], paint: Paint) -> Result<(), CliError> {
    for trouble in &model.troubles {
        note(safe(trouble));
    }
    if blocks.is_empty() {
        note(&match model.process_count() {
            0 => format!(
                "no program logs with Logdrive; looked at {}",
                model.places.join(", ")
            ),
            count => format!("none of {count} processes contains {:?}", model.process_filter),
        });
        return Ok(());
    }
    let rows = blocks.iter().map(|block| process_cells(block.row));
    output.write_all(table(&PROCESS_COLUMNS, rows).text(paint).as_bytes())?;
    for block in blocks.iter().filter(|block| !block.sites.is_empty()) {
        let process = &block.row.process;
        let title = format!("{} {}", process.app, process.pid);
        writeln!(output, "\n{}", paint.the(Style::Title, title))?;
        let rows = block.sites.iter().map(site_cells);
        output.write_all(table(&SITE_COLUMNS, rows).text(paint).as_bytes())?;
    }
    Ok(())
}

fn table(columns: &[Column], rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    let headings: Vec<_> = columns.iter().map(|column| (column.title, column.side)).collect();
    let mut table = Table::new(headings);
    for cells in rows {
        table.push(cells);
    }
    table
}
