//! The levels that processes begin with: rules of live control, put into a session before its process has it, and
//! changed by a reload where no tool has changed them.

use crate::config::{LevelRule, Process, level_of};
use logdrive_drain::control::{self, Rule, kind_of};
use logdrive_ring::{HostedSession, RingError};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The rules for the process of a session.
fn rule_for<'a>(levels: &'a [LevelRule], session: &HostedSession) -> Option<&'a LevelRule> {
    let process = Process::from(session);
    level_of(levels, &process)
}

/// Puts rules into a new session. Before its process has it, so that they hold for its first record.
pub(crate) fn apply_initial(levels: &[LevelRule], session: &HostedSession) -> Result<(), RingError> {
    let Some(rule) = rule_for(levels, session) else {
        return Ok(());
    };
    change(session, None, Some(rule))
}

/// Takes away what the old rule put into a session and is still there, and puts in what the new one says, where nobody
/// has said anything else about the same callsites.
fn change(
    session: &HostedSession,
    old: Option<&LevelRule>,
    new: Option<&LevelRule>,
) -> Result<(), RingError> {
    let pairs = |rule: Option<&LevelRule>| rule.map(|rule| rule.rules.clone()).unwrap_or_default();
    let (old, new) = (pairs(old), pairs(new));
    if old.iter().all(|pair| new.contains(pair)) && has_all(session, &new) {
        return Ok(());
    }
    control::change(session, |rules, now_unix_ns| {
        let is_ours = |rule: &Rule| {
            rule.until_unix_ns == 0
                && old
                    .iter()
                    .any(|(action, selector)| rule.action == *action && rule.selector == *selector)
        };
        rules.retain(|rule| !is_ours(rule));
        let kind = |rule: &Rule| (rule.selector.clone(), kind_of(&rule.action));
        let notices: Vec<_> = rules.iter().map(kind).collect();
        for (action, selector) in new {
            if !notices.contains(&(selector.clone(), kind_of(&action))) {
                control::put_rule(rules, action, selector, 0, now_unix_ns);
            }
        }
    })
    .map(drop)
}

/// Returns whether a session has these rules already, so that it can be left alone.
fn has_all(session: &HostedSession, wanted: &[(control::Action, control::Selector)]) -> bool {
    let Ok((_, rules)) = session.rules().and_then(|rules| rules.read()) else {
        return false;
    };
    wanted.iter().all(|(action, selector)| {
        rules
            .iter()
            .any(|rule| rule.selector == *selector && kind_of(&rule.action) == kind_of(action))
    })
}

/// Changes the rules of sessions that processes have. In a thread of its own: a process that holds the lock of its rules
/// delays no other process. Failures are reported through `notices`.
pub(crate) fn change_running(
    sessions: Vec<Arc<HostedSession>>,
    old: Vec<LevelRule>,
    new: Vec<LevelRule>,
    notices: Sender<String>,
) {
    let is_affected =
        |session: &Arc<HostedSession>| rule_for(&old, session).is_some() || rule_for(&new, session).is_some();
    let sessions: Vec<_> = sessions.into_iter().filter(is_affected).collect();
    if sessions.is_empty() {
        return;
    }
    let failed = notices.clone();
    let work = move || {
        for session in sessions {
            if let Err(error) = change(&session, rule_for(&old, &session), rule_for(&new, &session)) {
                // The receiver has ended, and with it the agent.
                let _ = notices.send(format!(
                    "the levels of process {} of {} stay as they are: {error}",
                    session.peer().pid,
                    session.app()
                ));
            }
        }
    };
    let started = std::thread::Builder::new()
        .name("logdrive-levels".to_owned())
        .spawn(work);
    if let Err(cause) = started {
        // As above.
        let _ = failed.send(format!(
            "the levels of running processes stay as they are: {cause}"
        ));
    }
}
