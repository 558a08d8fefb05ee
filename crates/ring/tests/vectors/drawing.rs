//! Reads the drawings of the spec: rows of `offset | field | field |`, so that a test can try each offset out.

/// Fields with their offsets and their lengths, as they are drawn.
#[derive(Debug)]
pub(crate) struct Drawing {
    what: String,
    fields: Vec<(String, u64)>,
    rows: Vec<u64>,
}

impl Drawing {
    /// The first drawing behind `marker` on a page of the spec.
    pub(crate) fn of(page: &str, marker: &str) -> Self {
        let path = format!("{}/../../spec/{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let what = format!("{page}, {marker}");
        let (_, behind) = text
            .split_once(&format!("\n{marker}"))
            .unwrap_or_else(|| panic!("{what} is missing"));
        let (_, behind) = behind
            .split_once("```text\n")
            .unwrap_or_else(|| panic!("{what} has no drawing"));
        let (drawing, _) = behind
            .split_once("```")
            .unwrap_or_else(|| panic!("{what} has no end"));
        let mut found = Self {
            what,
            fields: Vec::new(),
            rows: Vec::new(),
        };
        for line in drawing.lines() {
            found.row(line);
        }
        found
    }

    fn row(&mut self, line: &str) {
        let Some((offset, cells)) = line.split_once('|') else {
            return;
        };
        let Ok(offset) = offset.trim().parse::<u64>() else {
            return;
        };
        self.rows.push(offset);
        let cells: Vec<&str> = cells
            .split('|')
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        // One cell has the row to itself; two share its eight bytes.
        for (index, cell) in cells.iter().enumerate() {
            let name = cell.split_whitespace().next().unwrap_or_default();
            self.fields.push((name.to_owned(), offset + 4 * index as u64));
        }
    }

    /// Offset of a field: that of its first row.
    #[track_caller]
    pub(crate) fn offset(&self, field: &str) -> u64 {
        let found = self.fields.iter().find(|(name, _)| name == field);
        found
            .unwrap_or_else(|| panic!("{} does not draw {field}", self.what))
            .1
    }

    /// The rows rise from 0 by eights, where a field of more bytes says how many, and end at `bytes`.
    #[track_caller]
    pub(crate) fn assert_whole(&self, bytes: u64) {
        assert_eq!(self.rows.first(), Some(&0), "{}", self.what);
        for pair in self.rows.windows(2) {
            assert!(
                pair[0] < pair[1] && pair[1].is_multiple_of(8),
                "{}: row {} behind {}",
                self.what,
                pair[1],
                pair[0]
            );
        }
        let last = self.rows.last().copied().unwrap_or(0);
        assert!(
            last <= bytes,
            "{}: row {last} lies behind its {bytes} bytes",
            self.what
        );
    }
}
