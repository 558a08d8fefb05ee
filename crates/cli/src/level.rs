//! `logdrive level`: levels of running programs, and the rules that hold.

use crate::control_args::LevelArgs;
use crate::edit::{Edit, RulesLine, change_all};
use crate::error::CliError;
use crate::instant::{age_text, now_unix_ns};
use crate::live::live_sessions;
use crate::output::{Output, note, put_json, safe};
use crate::paint::{ColorChoice, Style};
use crate::table::{Side, Table};
use crate::watched_session::WatchedSession;
use logdrive_drain::control::{Rule, describe_action, describe_selector, selects};
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &LevelArgs, color: ColorChoice) -> Result<bool, CliError> {
    if args.reset {
        return change_all(&args.live, &Edit::Reset, args.json, None);
    }
    if args.directives.is_empty() {
        let live = live_sessions(&args.live)?;
        return list(&live, args.json, color).map(|()| true);
    }
    let edit = Edit::Set(args.directives.clone(), args.span.ns());
    change_all(&args.live, &edit, args.json, None)
}

fn list(live: &[WatchedSession], json: bool, color: ColorChoice) -> Result<(), CliError> {
    let now_unix_ns = now_unix_ns();
    let mut output = Output::stdout()?;
    let mut table = Table::new([
        ("APP", Side::Left),
        ("PID", Side::Right),
        ("CALLSITES", Side::Right),
        ("ENDS IN", Side::Right),
        ("SELECTOR", Side::Left),
        ("RULE", Side::Left),
    ]);
    let mut count = 0;
    for session in live {
        let (_, mut rules) = session
            .view
            .rules()
            .and_then(|rules| rules.read())
            .map_err(|cause| session.cannot(cause))?;
        rules.retain(|rule| rule.holds(now_unix_ns));
        count += rules.len();
        if json {
            put_json(&mut output, &RulesLine::new(session, &rules))?;
            continue;
        }
        for rule in &rules {
            push(&mut table, session, rule, now_unix_ns)?;
        }
    }
    if json {
        return Ok(output.flush()?);
    }
    if count == 0 {
        let titles: Vec<String> = live.iter().map(WatchedSession::title).collect();
        note(format!(
            "no rules in {}: the program's own filter decides",
            titles.join(", ")
        ));
        return Ok(());
    }
    output.write_all(table.text(color.for_stdout()).as_bytes())?;
    Ok(output.flush()?)
}

fn push(table: &mut Table, session: &WatchedSession, rule: &Rule, now_unix_ns: u64) -> Result<(), CliError> {
    let callsites = session.callsites()?;
    let selected = callsites
        .iter()
        .filter(|(id, callsite)| selects(&rule.selector, *id, callsite));
    let ends = match rule.until_unix_ns {
        0 => "-".to_owned(),
        until => age_text(until.saturating_sub(now_unix_ns).div_ceil(1_000_000_000)),
    };
    table.push([
        (Style::Title, session.app.clone()),
        (Style::Plain, session.pid.to_string()),
        (Style::Plain, selected.count().to_string()),
        (Style::Plain, ends),
        (Style::Key, safe(&describe_selector(&rule.selector))),
        (Style::Plain, safe(&describe_action(&rule.action))),
    ]);
    Ok(())
}
