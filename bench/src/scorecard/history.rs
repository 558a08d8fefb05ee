//! Ratios of earlier commits, and a drawing of them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::rows::{ROWS, Row};
use crate::harness::machine::MachineFacts;
use crate::{BenchError, Result};

/// Commits that the drawing shows.
const SHOWN_MAX: usize = 60;
const PANEL: (u32, u32) = (260, 150);
const COLUMNS: u32 = 4;

/// One run of all rows.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    commit: String,
    date: String,
    cpu: String,
    /// Median ratio to the floor, by row.
    ratios: BTreeMap<String, f64>,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Adds a run to the history, and draws it again.
///
/// # Errors
/// Fails when a file cannot be read or written, or holds something else.
pub(super) fn add<'a>(facts: &MachineFacts, ratios: impl Iterator<Item = (&'a str, f64)>) -> Result<()> {
    let round = |ratio: f64| (ratio * 1e4).round() / 1e4;
    let entry = Entry {
        commit: facts.commit.clone(),
        date: facts.date.clone(),
        cpu: facts.cpu.clone(),
        ratios: ratios
            .map(|(name, ratio)| (name.to_owned(), round(ratio)))
            .collect(),
    };
    let path = directory().join("history.jsonl");
    append(&path, &entry)?;
    draw(&directory().join("history.svg"), &read(&path)?)
}

fn append(path: &Path, entry: &Entry) -> Result<()> {
    let line = format!("{}\n", serde_json::to_string(entry)?);
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(BenchError::io("write", path))
}

fn read(path: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path).map_err(BenchError::io("read", path))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// A panel for each row: the ratio of each commit, and the goal as a line across.
fn draw(path: &Path, entries: &[Entry]) -> Result<()> {
    let entries = entries
        .get(entries.len().saturating_sub(SHOWN_MAX)..)
        .unwrap_or(&[]);
    let lines = (ROWS.len() as u32).div_ceil(COLUMNS);
    let area = SVGBackend::new(path, (PANEL.0 * COLUMNS, PANEL.1 * lines)).into_drawing_area();
    let failed =
        |error: &dyn std::fmt::Display| BenchError::new(format!("cannot draw {}: {error}", path.display()));
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    for (row, panel) in ROWS
        .iter()
        .zip(area.split_evenly((lines as usize, COLUMNS as usize)))
    {
        draw_row(&panel, row, entries).map_err(|error| failed(&error))?;
    }
    area.present().map_err(|error| failed(&error))
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_row(
    panel: &Panel<'_>,
    row: &Row,
    entries: &[Entry],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let ratios = entries.iter().enumerate();
    let ratios = ratios.filter_map(|(at, entry)| Some((at as f64, *entry.ratios.get(row.name)?)));
    let points: Vec<(f64, f64)> = ratios.collect();
    let highest = points.iter().map(|point| point.1).fold(row.goal, f64::max);
    let last = entries.len().saturating_sub(1).max(1) as f64;
    let mut chart = ChartBuilder::on(panel)
        .caption(format!("{} (goal {})", row.name, row.goal), ("sans-serif", 13))
        .margin(6)
        .y_label_area_size(32)
        .x_label_area_size(4)
        .build_cartesian_2d(0.0..last, 0.0..highest * 1.15)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(4)
        .draw()?;
    chart.draw_series(LineSeries::new([(0.0, row.goal), (last, row.goal)], GREEN))?;
    chart.draw_series(LineSeries::new(points.iter().copied(), BLUE))?;
    let mark = |point: &(f64, f64)| Circle::new(*point, 2, BLUE.filled());
    chart.draw_series(points.iter().map(mark))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_read_back_and_drawn_with_a_panel_for_each_row() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        for (commit, ratio) in [("a", 1.5), ("b", 1.2)] {
            let entry = Entry {
                commit: commit.to_owned(),
                date: "2026-11-21T12:00:00Z".to_owned(),
                cpu: "x".to_owned(),
                ratios: BTreeMap::from([("call".to_owned(), ratio)]),
            };
            append(&path, &entry).unwrap();
        }
        let entries = read(&path).unwrap();
        assert_eq!(
            (entries[0].ratios["call"], entries[1].commit.as_str()),
            (1.5, "b")
        );
        let drawing = directory.path().join("history.svg");
        draw(&drawing, &entries).unwrap();
        let svg = std::fs::read_to_string(&drawing).unwrap();
        assert!(
            ROWS.iter()
                .all(|row| svg.contains(&format!("{} (goal", row.name)))
        );
        assert_eq!(svg.matches("<circle").count(), 2);
    }
}
