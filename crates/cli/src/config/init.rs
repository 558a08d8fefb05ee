//! The commented default: every key with what holds without it, what is allowed, and why it is so.

use super::sections::{ABOUT, ABOUT_DEFAULT, SECTIONS, Section, Without};
use logdrive_agent::config::Places;
use logdrive_drain::schema::{Kind, Row};
use std::fmt::Write;

/// Columns of a comment.
const WIDTH: usize = 98;

/// Columns in which a list of words with their meanings is written as a paragraph.
const INDENT: &str = "  ";

/// The text, for an agent at these places.
pub(crate) fn text(places: &Places) -> String {
    let mut out = String::new();
    put_paragraphs(&mut out, &[ABOUT_DEFAULT, ABOUT[0], ABOUT[1]]);
    for section in SECTIONS {
        put_section(&mut out, section, places);
    }
    out
}

/// The text of a command's configuration, which is one table without a header.
pub(crate) fn flat_text(about: &str, section: &Section) -> String {
    let mut out = String::new();
    put_paragraphs(&mut out, &[about]);
    for row in section.rows() {
        put_key(&mut out, section, row, &Places::system());
    }
    out
}

fn put_section(out: &mut String, section: &Section, places: &Places) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(out, "\n# {}", "-".repeat(WIDTH - 2));
    put_paragraphs(out, section.help);
    let mark = if section.is_example { "#" } else { "" };
    let _ = writeln!(out, "\n{mark}{}", section.header());
    for row in section.rows() {
        put_key(out, section, row, places);
    }
}

fn put_paragraphs(out: &mut String, paragraphs: &[&str]) {
    for (index, paragraph) in paragraphs.iter().enumerate() {
        if index > 0 {
            out.push_str("#\n");
        }
        put_comment(out, "", paragraph);
    }
}

fn put_key(out: &mut String, section: &Section, row: &Row, places: &Places) {
    out.push('\n');
    put_comment(out, "", row.help());
    for (word, meaning) in row.words {
        put_comment(out, INDENT, &format!("\"{word}\": {meaning}"));
    }
    if !matches!(row.kind, Kind::Word) {
        let indent = if row.words.is_empty() { "" } else { INDENT };
        put_comment(out, indent, &format!("Allowed: {}.", row.allowed()));
    }
    let shown = section.shown.iter().find(|(name, _)| *name == row.name);
    let (value, is_given) = match (shown, section.without(row)) {
        (Some((_, text)), _) => ((*text).to_owned(), true),
        (None, Without::Required(text)) => (text.to_owned(), true),
        (None, Without::Default(text)) => (text, !section.name.is_empty()),
        (None, Without::Unset(without, text)) => {
            put_comment(out, "", &format!("Without it: {without}."));
            (text.to_owned(), false)
        }
    };
    let mark = if is_given && !section.is_example { "" } else { "#" };
    let _ = writeln!(out, "{mark}{} = {}", row.name, at_places(&value, places));
}

/// A value with the places of the agent that it is for.
fn at_places(text: &str, places: &Places) -> String {
    let system = Places::system();
    let moved = [
        (&system.socket, &places.socket),
        (&system.run_dir, &places.run_dir),
        (&system.log_dir, &places.log_dir),
    ];
    for (from, to) in moved {
        let front = format!("\"{}", from.display());
        if let Some(rest) = text.strip_prefix(&front) {
            let to = to
                .display()
                .to_string()
                .replace('\\', "\\\\")
                .replace('"', "\\\"");
            return format!("\"{to}{rest}");
        }
    }
    text.to_owned()
}

fn put_comment(out: &mut String, indent: &str, text: &str) {
    for line in wrapped(text, WIDTH - 2 - indent.len()) {
        let _ = writeln!(out, "# {indent}{line}");
    }
}

/// Text in lines of at most so many characters, broken at blanks.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::parse;
    use crate::config::testing::Island;
    use logdrive_agent::config::AgentConfig;

    #[test]
    fn the_default_text_means_the_default() {
        let config = parse(&text(&Places::system()), &Island).expect("no problem");
        assert_eq!(config, AgentConfig::default());
        assert_eq!(parse("", &Island).expect("no problem"), AgentConfig::default());
    }

    #[test]
    fn the_text_for_a_user_means_the_default_of_that_user() {
        let places = Places::of_user("/run/user/1000".as_ref(), "/srv/ali\"ce/st\\ate".as_ref());
        let config = parse(&text(&places), &Island).expect("no problem");
        assert_eq!(config, AgentConfig::at(&places));
    }

    #[test]
    fn what_is_commented_out_can_be_put_in() {
        let mut given = String::new();
        for line in text(&Places::system()).lines() {
            let is_key = line.starts_with('#') && !line.starts_with("# ") && line.len() > 1;
            given.push_str(if is_key { &line[1..] } else { line });
            given.push('\n');
        }
        let config = parse(&given, &Island).unwrap_or_else(|problems| panic!("{problems:#?}"));
        assert_eq!(
            (
                config.recorders.len(),
                config.levels.len(),
                config.limits.apps.len()
            ),
            (1, 1, 1)
        );
    }

    #[test]
    fn lines_fit_on_a_screen() {
        let text = text(&Places::system());
        let long = text.lines().find(|line| line.chars().count() > WIDTH);
        assert_eq!(long, None);
        assert!(text.lines().count() < 700);
    }
}
