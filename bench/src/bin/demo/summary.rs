//! The table of the runs.

use std::io::IsTerminal;

use console::Style;
use logdrive_bench::harness::table::aligned;

use logdrive_bench::logged::LoggedTransfer;

/// Row of the table: one run.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    title: &'static str,
    mb_per_s: Option<f64>,
    events_per_s: Option<f64>,
    log_bytes: u64,
    lost_lines: Option<u64>,
}

impl Row {
    /// A run that came to its end.
    pub(crate) fn of_run(title: &'static str, outcome: &LoggedTransfer) -> Row {
        let seconds = outcome.transfer.elapsed.as_secs_f64();
        Row {
            title,
            mb_per_s: Some(outcome.transfer.mb_per_s()),
            events_per_s: outcome.events.map(|events| events as f64 / seconds),
            log_bytes: outcome.log_bytes,
            lost_lines: outcome.events.map(|_| outcome.lost_events),
        }
    }

    /// A run that was killed, which has no rate.
    pub(crate) fn of_killed(title: &'static str, log_bytes: u64, lost_lines: u64) -> Row {
        Row {
            title,
            mb_per_s: None,
            events_per_s: None,
            log_bytes,
            lost_lines: Some(lost_lines),
        }
    }

    fn cells(&self, mb_per_s_off: Option<f64>) -> Vec<String> {
        let number = |value: Option<f64>, decimals: usize| {
            value.map_or("-".to_string(), |value| format!("{value:.decimals$}"))
        };
        let of_off = match (self.mb_per_s, mb_per_s_off) {
            (Some(own), Some(off)) if off > 0.0 => format!("{:.0} %", own / off * 100.0),
            _ => "-".to_string(),
        };
        let log_mb = (self.log_bytes > 0).then_some(self.log_bytes as f64 / 1e6);
        vec![
            self.title.to_string(),
            number(self.mb_per_s, 0),
            of_off,
            number(self.events_per_s, 0),
            number(log_mb, 0),
            self.lost_lines.map_or("-".to_string(), |lost| lost.to_string()),
        ]
    }
}

/// Prints the table; the first row is the run without logs.
pub(crate) fn print(rows: &[Row]) {
    let off = rows.first().and_then(|row| row.mb_per_s);
    let header = ["run", "MB/s", "of off", "events/s", "log MB", "lines lost"];
    let mut cells = vec![header.map(str::to_string).to_vec()];
    cells.extend(rows.iter().map(|row| row.cells(off)));
    let colours = std::io::stdout().is_terminal() && console::colors_enabled();
    for (number, line) in aligned(&cells, 1).into_iter().enumerate() {
        let style = match number {
            0 => Style::new().bold(),
            _ if cells[number][0].starts_with("logdrive") => Style::new().green(),
            _ => Style::new(),
        };
        println!("{}", style.force_styling(colours).apply_to(line));
    }
}
