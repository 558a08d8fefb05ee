//! The manual page logdrive.toml(5), made of the same tables as everything else.

use super::load::DEFAULT_PATH;
use super::sections::{ABOUT, ABOUT_PAGE, SECTIONS, Section, Without};
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use logdrive_drain::schema::{Kind, Row};

/// The name of the page.
pub(crate) const NAME: &str = "logdrive.toml";

/// Examples: what people want most often.
const EXAMPLES: [(&str, &str); 5] = [
    (
        "Errors of all applications in one more file",
        "[[sink]]\nname = \"main\"\npath = \"/var/log/logdrive/{app}.log\"\n\n\
         [[sink]]\nname = \"errors\"\npath = \"/var/log/logdrive/errors.log\"\n\n\
         [[route]]\nlevel = \"error\"\nsinks = [\"errors\"]\ncontinue = true\n\n\
         [[route]]\nsinks = [\"main\"]",
    ),
    (
        "One application as JSON, kept for 30 days",
        "[[sink]]\nname = \"main\"\npath = \"/var/log/logdrive/{app}.log\"\n\n\
         [[sink]]\nname = \"shop\"\npath = \"/var/log/logdrive/shop.json\"\nlayout = \"json\"\n\
         rotate_every = \"daily\"\nkeep_files = \"off\"\nkeep_age = \"30d\"\n\n\
         [[route]]\napp = \"shop\"\nsinks = [\"shop\"]\n\n\
         [[route]]\nsinks = [\"main\"]",
    ),
    (
        "Debug records only when an error comes, of the 30 seconds before it",
        "[[sink]]\nname = \"main\"\npath = \"/var/log/logdrive/{app}.log\"\nmin_level = \"info\"\n\n\
         [[level]]\nrules = \"debug\"\n\n\
         [[recorder]]\nlevel = \"debug\"\nbefore = \"30s\"",
    ),
    (
        "Two collectors by weight, and one that is used while neither is well",
        "[[ship]]\nname = \"central\"\npolicy = \"weighted_random\"\nhealth_every = \"5s\"\nbreaker_failures = 3\n\
         spool = \"/var/spool/logdrive/central\"\ntls_authorities = \"/etc/logdrive/authority.pem\"\n\n\
         [[ship.to]]\naddress = \"quic://one.example.org:7140\"\nweight = 3\n\n\
         [[ship.to]]\naddress = \"tls://two.example.org:7140\"\n\n\
         [[ship.to]]\naddress = \"tls://spare.example.org:7140\"\nbackup = true",
    ),
    (
        "A user who may not fill the disk",
        "[[limits.user]]\nuser = \"nobody\"\nprocesses = 20\nrecords_per_second = 10000\n\
         disk_bytes_per_day = \"1 GiB\"\n\n\
         [[limits.user]]\nuser = \"*\"\nprocesses = 256",
    ),
];

/// The page.
pub(crate) fn page() -> String {
    let mut roff = Roff::new();
    roff.control(
        "TH",
        [NAME, "5", "", concat!("logdrive ", env!("CARGO_PKG_VERSION")), ""],
    );
    // Names of keys and values are not to be broken, nor blanks to be stretched.
    roff.control("nh", []);
    roff.control("ad", ["l"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{NAME} - the configuration of logdrive agent"))]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([italic(DEFAULT_PATH)]);
    roff.control("SH", ["DESCRIPTION"]);
    for paragraph in [ABOUT_PAGE].into_iter().chain(ABOUT) {
        put_paragraph(&mut roff, paragraph);
    }
    for section in SECTIONS {
        put_section(&mut roff, section);
    }
    roff.control("SH", ["EXAMPLES"]);
    for (title, text) in EXAMPLES {
        put_paragraph(&mut roff, &format!("{title}:"));
        roff.control("nf", []);
        roff.text(
            text.lines()
                .map(|line| roman(format!("    {line}\n")))
                .collect::<Vec<Inline>>(),
        );
        roff.control("fi", []);
    }
    roff.control("SH", ["FILES"]);
    roff.control("TP", []);
    roff.text([italic(DEFAULT_PATH)]);
    roff.text([roman(
        "What logdrive agent reads unless told otherwise. Only its owner may be able to write to it.",
    )]);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("logdrive-agent"),
        roman("(1), "),
        bold("logdrive-config"),
        roman("(1)"),
    ]);
    roff.render()
}

fn put_paragraph(roff: &mut Roff, text: &str) {
    roff.control("PP", []);
    roff.text([roman(text)]);
}

fn put_section(roff: &mut Roff, section: &Section) {
    roff.control("SH", [section.header().as_str()]);
    for paragraph in section.help {
        put_paragraph(roff, paragraph);
    }
    for row in section.rows() {
        put_key(roff, section, row);
    }
}

fn put_key(roff: &mut Roff, section: &Section, row: &Row) {
    let (value, note) = match section.without(row) {
        Without::Default(value) => (roman(value), None),
        Without::Required(example) => (italic(example), Some("  (required)".to_owned())),
        Without::Unset(without, example) => (italic(example), Some(format!("  (without it: {without})"))),
    };
    roff.control("TP", []);
    let title = [bold(row.name), roman(" = "), value];
    roff.text(title.into_iter().chain(note.map(roman)).collect::<Vec<Inline>>());
    roff.text([roman(row.help())]);
    for (word, meaning) in row.words {
        roff.control("RS", []);
        roff.control("TP", ["10"]);
        roff.text([bold(*word)]);
        roff.text([roman(*meaning)]);
        roff.control("RE", []);
    }
    if !matches!(row.kind, Kind::Word) {
        roff.control("RS", []);
        roff.control("PP", []);
        roff.text([roman(format!("Allowed: {}.", row.allowed()))]);
        roff.control("RE", []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::parse;
    use crate::config::testing::Island;

    #[test]
    fn every_key_is_on_the_page() {
        let page = page();
        assert!(page.contains(".TH logdrive.toml 5"), "{page}");
        for section in SECTIONS {
            assert!(page.contains(&section.header()), "{}", section.name);
            for row in section.rows() {
                assert!(page.contains(&format!("\\fB{}\\fR", row.name)), "{}", row.name);
            }
        }
    }

    #[test]
    fn the_examples_are_sound() {
        for (title, text) in EXAMPLES {
            let text = text.replace("\"nobody\"", "\"www-data\"");
            let config = parse(&text, &Island).unwrap_or_else(|problems| panic!("{title}: {problems:#?}"));
            assert_eq!(config.notes(), Vec::<String>::new(), "{title}");
        }
    }
}
