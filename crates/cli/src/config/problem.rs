//! Errors in a configuration, reported with the place, the key, what was found and what is allowed.

use crate::limits::{CONFIG_PROBLEMS_MAX, EXCERPT_CHARACTERS_MAX};
use crate::paint::{Paint, Style};
use logdrive_reader::put_safe;
use std::fmt::Write;
use std::ops::Range;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Place in the text, in bytes; `None` for the file itself.
    pub(crate) span: Option<Range<usize>>,
    /// Which key, with its table: `sink.rotate_bytes`. Empty for a mistake of syntax.
    pub(crate) key: String,
    /// Description of what was found.
    pub(crate) found: String,
    /// Values that are allowed.
    pub(crate) allowed: Option<String>,
    /// Advice: the word that was probably meant, or what to do.
    pub(crate) help: Option<String>,
}

impl Problem {
    /// A problem at a place.
    pub(crate) fn at(span: Range<usize>, key: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            span: Some(span),
            key: key.into(),
            found: found.into(),
            allowed: None,
            help: None,
        }
    }

    /// A problem of the file.
    pub(crate) fn of_file(found: impl Into<String>) -> Self {
        Self {
            span: None,
            ..Self::at(0..0, "", found)
        }
    }

    /// The same with what is allowed.
    pub(crate) fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = Some(allowed.into());
        self
    }

    /// The same with what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// All problems as text, each with the line that it is about.
pub(crate) fn report(problems: &[Problem], name: &str, text: &str, paint: Paint) -> String {
    let mut out = String::new();
    for problem in problems.iter().take(CONFIG_PROBLEMS_MAX) {
        put_problem(&mut out, problem, &safe(name), text, paint);
    }
    let more = problems.len().saturating_sub(CONFIG_PROBLEMS_MAX);
    if more > 0 {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "... and {more} more\n");
    }
    out
}

fn put_problem(out: &mut String, problem: &Problem, name: &str, text: &str, paint: Paint) {
    let found = problem.span.clone().map(|span| Place::of(text, span));
    let place = found
        .as_ref()
        .map_or_else(String::new, |place| format!(":{}:{}", place.line, place.column));
    let key = match problem.key.as_str() {
        "" => String::new(),
        key => format!("{}: ", paint.the(Style::Title, safe(key))),
    };
    let _ = writeln!(
        out,
        "{} {} {key}{}",
        paint.the(Style::File, format!("{name}{place}:")),
        paint.the(Style::Bad, "error:"),
        safe(&problem.found)
    );
    if let Some(place) = &found {
        place.put(out, paint);
    }
    for (title, what) in [("allowed", &problem.allowed), ("help", &problem.help)] {
        if let Some(what) = what {
            let title = paint.the(Style::Good, format!("{title}:"));
            let _ = writeln!(out, "  {title} {}", safe(what));
        }
    }
    out.push('\n');
}

/// Foreign text that a terminal takes for nothing else, on one line.
fn safe(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    put_safe(&mut bytes, text.replace('\t', " ").as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A place in a text, with its line cut to what fits on a screen.
struct Place {
    line: usize,
    column: usize,
    /// The line in three parts: before, what is meant, and behind.
    parts: [String; 3],
}

impl Place {
    fn of(text: &str, span: Range<usize>) -> Self {
        let start = boundary(text, span.start);
        let (before, from) = text.split_at(start);
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let before = before.get(line_start..).unwrap_or_default();
        let rest = from.split('\n').next().unwrap_or_default();
        let rest = rest.strip_suffix('\r').unwrap_or(rest);
        let length = boundary(rest, span.end.saturating_sub(start));
        let (meant, behind) = rest.split_at(length);
        let width_left = EXCERPT_CHARACTERS_MAX
            .saturating_sub(meant.chars().count())
            .max(EXCERPT_CHARACTERS_MAX / 4);
        Self {
            line,
            column: before.chars().count() + 1,
            parts: [
                safe(&last_characters(
                    before,
                    width_left.min(EXCERPT_CHARACTERS_MAX / 2),
                )),
                safe(&first_characters(meant, EXCERPT_CHARACTERS_MAX)),
                safe(&first_characters(behind, width_left / 2)),
            ],
        }
    }

    fn put(&self, out: &mut String, paint: Paint) {
        let [before, meant, behind] = &self.parts;
        let line = self.line.to_string();
        let gutter = " ".repeat(line.len());
        let bar = paint.the(Style::Dim, "|");
        let number = paint.the(Style::Dim, line);
        let _ = writeln!(out, "  {number} {bar} {before}{meant}{behind}");
        let carets = "^".repeat(meant.chars().count().max(1));
        let indent = " ".repeat(before.chars().count());
        let _ = writeln!(out, "  {gutter} {bar} {indent}{}", paint.the(Style::Bad, carets));
    }
}

/// The nearest place at or before this one where a character begins.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn first_characters(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn last_characters(text: &str, most: usize) -> String {
    let count = text.chars().count();
    match count > most {
        true => format!("...{}", text.chars().skip(count - most).collect::<String>()),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Paint = Paint { on: false };

    fn shown(text: &str, span: Range<usize>) -> String {
        report(&[Problem::at(span, "a.b", "is wrong")], "x.toml", text, PLAIN)
    }

    #[test]
    fn the_line_is_shown_with_the_place_marked() {
        assert_eq!(
            shown("[a]\r\nb = 'ä'\r\n", 9..13),
            "x.toml:2:5: error: a.b: is wrong\n  2 | b = 'ä'\n    |     ^^^\n\n"
        );
        assert_eq!(
            shown("b =", 3..3),
            "x.toml:1:4: error: a.b: is wrong\n  1 | b =\n    |    ^\n\n"
        );
    }

    #[test]
    fn places_outside_of_the_text_and_inside_of_characters_do_no_harm() {
        for (start, end) in [
            (0, 0),
            (5, 3),
            (1, 2),
            (99, 100),
            (usize::MAX, usize::MAX),
            (0, 99),
        ] {
            assert!(shown("ä\n", start..end).contains("is wrong"), "{start}..{end}");
        }
        assert!(shown("", 0..0).starts_with("x.toml:1:1: "));
    }

    #[test]
    fn long_lines_are_cut_and_controls_are_shown() {
        let text = format!("{}\x1b[31m{}", "x".repeat(500), "y".repeat(500));
        let shown = shown(&text, 500..505);
        assert!(shown.lines().all(|line| line.chars().count() < 200), "{shown}");
        assert!(!shown.contains('\x1b'), "{shown}");
        assert!(shown.contains("x.toml:1:501:"), "{shown}");
    }

    #[test]
    fn a_flood_of_problems_is_cut() {
        let many = vec![Problem::of_file("is wrong"); CONFIG_PROBLEMS_MAX + 7];
        assert!(report(&many, "x.toml", "", PLAIN).ends_with("... and 7 more\n\n"));
    }
}
