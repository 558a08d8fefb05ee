//! `logdrive sample`: a part of what a statement logs is kept, the rest is counted.

use crate::control_args::SampleArgs;
use crate::edit::{Edit, change_all};
use crate::error::CliError;
use crate::watched_session::WatchedSession;
use logdrive_drain::control::{Action, RuleKind, can_be_key, selects};
use std::collections::BTreeSet;

/// Runs the command.
pub(crate) fn run(args: &SampleArgs) -> Result<bool, CliError> {
    let action = match (args.every, args.per_second, &args.per_key) {
        (Some(calls), _, _) => Action::Every(calls),
        (_, Some(per_second), Some(field)) => Action::PerKey {
            field: field.clone(),
            per_second,
        },
        (_, Some(calls), None) => Action::PerSecond(calls),
        // Only --off is left.
        _ => {
            let edit = Edit::Remove(RuleKind::Sample, vec![args.callsite.clone()]);
            return change_all(&args.live, &edit, args.json, None);
        }
    };
    let edit = Edit::Set(vec![(action, args.callsite.clone())], args.span.ns());
    match &args.per_key {
        None => change_all(&args.live, &edit, args.json, None),
        Some(field) => {
            let check = |session: &WatchedSession| refuse_unknown_field(session, args, field);
            change_all(&args.live, &edit, args.json, Some(&check))
        }
    }
}

/// A rule that none of the callsites can follow is a mistake. Those that come later may.
fn refuse_unknown_field(session: &WatchedSession, args: &SampleArgs, field: &str) -> Result<(), CliError> {
    let callsites = session.callsites()?;
    let selected: Vec<_> = callsites
        .iter()
        .filter(|(id, callsite)| selects(&args.callsite, *id, callsite))
        .map(|(_, callsite)| callsite)
        .collect();
    if selected.is_empty() || selected.iter().any(|callsite| can_be_key(callsite, field)) {
        return Ok(());
    }
    let names: BTreeSet<&str> = selected
        .iter()
        .flat_map(|callsite| &callsite.fields)
        .map(|field| field.name.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    Err(CliError::NoSuchField {
        process: session.title(),
        field: field.to_owned(),
        hint: match names.as_slice() {
            [] => "; it has no fields with names".to_owned(),
            names => format!("; there are {}", names.join(", ")),
        },
    })
}
