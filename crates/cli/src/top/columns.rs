//! Columns: which of them fit into a width, and text that is cut or padded to one.

use crate::paint::{Paint, Style};
use crate::table::{Cell, Side};
use ratatui::text::{Line, Span};

/// A column of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(super) title: &'static str,
    pub(super) side: Side,
    /// Characters that it needs.
    pub(super) width: usize,
    /// The higher, the sooner it is left out.
    pub(super) rank: u8,
    /// Whether it takes what is left.
    pub(super) grows: bool,
    /// Characters that it is given besides, where there are plenty: names are cut where there are not.
    pub(super) more: usize,
}

impl Column {
    pub(super) const fn new(title: &'static str, side: Side, width: usize, rank: u8) -> Self {
        Self {
            title,
            side,
            width,
            rank,
            grows: false,
            more: 0,
        }
    }

    /// Its title and the side of its cells.
    pub(crate) const fn heading(&self) -> (&'static str, Side) {
        (self.title, self.side)
    }

    /// The same, with up to so many characters more on a wide screen.
    pub(super) const fn up_to(self, width: usize) -> Self {
        Self {
            more: width.saturating_sub(self.width),
            ..self
        }
    }

    pub(super) const fn growing(title: &'static str, width: usize, rank: u8) -> Self {
        Self {
            grows: true,
            ..Self::new(title, Side::Left, width, rank)
        }
    }
}

/// Characters between two columns.
const GAP: usize = 1;

/// The widths of the columns that fit, 0 for those that do not: the lowest ranks first, in a tie the left ones.
pub(super) fn fit_columns(columns: &[Column], width: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|at| columns.get(*at).map_or(u8::MAX, |column| column.rank));
    let mut widths = vec![0; columns.len()];
    let mut left = width + GAP;
    for at in order {
        let Some(column) = columns.get(at) else { continue };
        let needed = column.width + GAP;
        if needed > left {
            // What is less important does not take its place: the list would look different at every width.
            break;
        }
        left -= needed;
        if let Some(place) = widths.get_mut(at) {
            *place = column.width;
        }
    }
    for (column, width) in columns.iter().zip(&mut widths).filter(|(_, width)| **width > 0) {
        // The other half is for the column that grows.
        let more = column.more.min(left / 2);
        *width += more;
        left -= more;
    }
    let growing = columns.iter().position(|column| column.grows);
    if let Some(place) = growing
        .and_then(|at| widths.get_mut(at))
        .filter(|width| **width > 0)
    {
        *place += left;
    }
    widths
}

/// One line of a list.
pub(super) fn line_of(columns: &[Column], widths: &[usize], cells: &[Cell], palette: Paint) -> Line<'static> {
    let mut spans = Vec::new();
    for ((column, width), (style, text)) in columns.iter().zip(widths).zip(cells) {
        if *width == 0 {
            continue;
        }
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        spans.push(Span::styled(
            fit(text, *width, column.side),
            palette.style(*style),
        ));
    }
    Line::from(spans)
}

/// The line of headings.
pub(super) fn head_of(columns: &[Column], widths: &[usize], palette: Paint) -> Line<'static> {
    let cells: Vec<Cell> = columns
        .iter()
        .map(|column| (Style::Title, column.title.to_owned()))
        .collect();
    line_of(columns, widths, &cells, palette)
}

/// Text that takes exactly so many places of a screen.
pub(crate) fn fit(text: &str, width: usize, side: Side) -> String {
    let text = cut(text, width);
    let missing = " ".repeat(width.saturating_sub(Span::raw(text.as_str()).width()));
    match side {
        Side::Left => text + &missing,
        Side::Right => missing + &text,
    }
}

/// The front of a text, with a mark where some of it is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut front = String::new();
    let mut taken = 0;
    for letter in text.chars() {
        let wide = Span::raw(letter.to_string()).width();
        if taken + wide + 1 > width {
            break;
        }
        taken += wide;
        front.push(letter);
    }
    if width > 0 {
        front.push('…');
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::new("APP", Side::Left, 8, 0),
        Column::new("PID", Side::Right, 5, 2),
        Column::new("RATE", Side::Right, 6, 1),
        Column::growing("LOG", 10, 3),
    ];

    #[test]
    fn what_matters_least_goes_first_and_one_takes_what_is_left() {
        assert_eq!(fit_columns(&COLUMNS, 40), [8, 5, 6, 18]);
        assert_eq!(fit_columns(&COLUMNS, 32), [8, 5, 6, 10]);
        assert_eq!(fit_columns(&COLUMNS, 31), [8, 5, 6, 0]);
        assert_eq!(fit_columns(&COLUMNS, 15), [8, 0, 6, 0]);
        assert_eq!(fit_columns(&COLUMNS, 8), [8, 0, 0, 0]);
        assert_eq!(fit_columns(&COLUMNS, 3), [0, 0, 0, 0]);
    }

    #[test]
    fn a_name_gets_more_where_there_is_plenty() {
        let columns = COLUMNS.map(|column| match column.title {
            "APP" => column.up_to(20),
            _ => column,
        });
        assert_eq!(fit_columns(&columns, 32), [8, 5, 6, 10]);
        assert_eq!(fit_columns(&columns, 40), [12, 5, 6, 14]);
        assert_eq!(fit_columns(&columns, 100), [20, 5, 6, 66]);
    }

    #[test]
    fn text_takes_its_width_exactly_also_where_letters_are_wide() {
        assert_eq!(fit("shop", 6, Side::Left), "shop  ");
        assert_eq!(fit("shop", 6, Side::Right), "  shop");
        assert_eq!(fit("shopping", 6, Side::Left), "shopp…");
        assert_eq!(fit("日本語", 5, Side::Left), "日本…");
        assert_eq!(fit("日本語", 4, Side::Left), "日… ");
        assert_eq!(fit("x", 0, Side::Left), "");
    }
}
