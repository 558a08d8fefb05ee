//! Summary of a configuration: of each table the options that matter most and those that are not at their defaults, as a
//! file would have them, so that a reader can check that it is as intended.

use super::sections::{
    AGENT, APP, LEVEL, PROCESS, RECORDER, ROUTE, SHIP, SINK, Section, TOTAL, USER, value_of,
};
use crate::paint::{Paint, Style};
use logdrive_agent::config::{AgentConfig, SinkConfig};
use logdrive_drain::Target;
use logdrive_drain::schema::{Options, parts};

/// The summary.
pub(crate) fn text(config: &AgentConfig, paint: Paint) -> String {
    let is_ship = |sink: &&SinkConfig| matches!(sink.options.target, Target::Ship(_));
    let (ships, sinks): (Vec<_>, Vec<_>) = config.sinks.iter().partition(is_ship);
    let limits = &config.limits;
    let mut out = String::new();
    put(&mut out, paint, &AGENT, [config]);
    put(&mut out, paint, &SINK, sinks);
    put(&mut out, paint, &SHIP, ships);
    put(&mut out, paint, &ROUTE, &config.routes);
    put(&mut out, paint, &TOTAL, [&limits.total]);
    put(&mut out, paint, &PROCESS, [&limits.process]);
    put(&mut out, paint, &USER, &limits.users);
    put(&mut out, paint, &APP, &limits.apps);
    put(&mut out, paint, &RECORDER, &config.recorders);
    put(&mut out, paint, &LEVEL, &config.levels);
    out
}

fn put<'a, T: Options + 'a>(
    out: &mut String,
    paint: Paint,
    section: &Section,
    entries: impl IntoIterator<Item = &'a T>,
) {
    let default = (section.options)();
    for entry in entries {
        let blank = if out.is_empty() { "" } else { "\n" };
        out.push_str(&format!("{blank}{}\n", paint.the(Style::Title, section.header())));
        let rows = parts(entry).into_iter().flat_map(|part| part.rows());
        for row in rows.filter(|row| section.has(row)) {
            let value = value_of(entry, row.name);
            if !section.summary.contains(&row.name) && value == value_of(&*default, row.name) {
                continue;
            }
            let off = row.off.then(|| "\"off\"".to_owned());
            if let Some(shown) = value.map(|value| row.show(&value)).or(off) {
                out.push_str(&format!("{} = {shown}\n", row.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::init;
    use crate::config::parse::parse;
    use crate::config::testing::Island;
    use logdrive_agent::config::Places;

    #[test]
    fn the_summary_means_the_configuration() {
        let default = init::text(&Places::system());
        let uncommented = default.lines().map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => format!("{key}\n"),
            _ => format!("{line}\n"),
        });
        for text in [default.clone(), uncommented.collect()] {
            let config = parse(&text, &Island).expect("sound");
            let summary = super::text(&config, Paint { on: false });
            let read = parse(&summary, &Island).unwrap_or_else(|problems| panic!("{problems:#?}\n{summary}"));
            assert_eq!(read, config, "{summary}");
        }
    }
}
