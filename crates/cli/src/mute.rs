//! `logdrive mute`: a part of a running program is silent.

use crate::control_args::MuteArgs;
use crate::error::CliError;
use crate::live::{Edit, change_all, live_sessions};
use logdrive_backend::control::Action;

/// Runs the command.
pub(crate) fn run(args: &MuteArgs) -> Result<bool, CliError> {
    let live = live_sessions(&args.live)?;
    if args.off {
        return change_all(&live, &Edit::Remove(Action::Mute, &args.selectors), args.json);
    }
    let rules: Vec<_> = args
        .selectors
        .iter()
        .map(|selector| (Action::Mute, selector.clone()))
        .collect();
    change_all(&live, &Edit::Set(&rules, args.span.ns()), args.json)
}
