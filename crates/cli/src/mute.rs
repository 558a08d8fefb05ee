//! `logdrive mute`: a part of a running program is silent.

use crate::control_args::MuteArgs;
use crate::error::CliError;
use crate::live::{Edit, change_all};
use logdrive_drain::control::Action;

/// Runs the command.
pub(crate) fn run(args: &MuteArgs) -> Result<bool, CliError> {
    if args.off {
        let edit = Edit::Remove(Action::Mute, &args.selectors);
        return change_all(&args.live, &edit, args.json, None);
    }
    let rules: Vec<_> = args
        .selectors
        .iter()
        .map(|selector| (Action::Mute, selector.clone()))
        .collect();
    change_all(&args.live, &Edit::Set(&rules, args.span.ns()), args.json, None)
}
