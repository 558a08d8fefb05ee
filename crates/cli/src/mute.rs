//! `logdrive mute`: a part of a running program is silent.

use crate::control_args::MuteArgs;
use crate::edit::{Edit, change_all};
use crate::error::CliError;
use logdrive_drain::control::{Action, RuleKind};

/// Runs the command.
pub(crate) fn run(args: &MuteArgs) -> Result<bool, CliError> {
    let selectors = args.selectors.clone();
    let edit = match args.off {
        true => Edit::Remove(RuleKind::Mute, selectors),
        false => {
            let mutes = selectors.into_iter().map(|selector| (Action::Mute, selector));
            Edit::Set(mutes.collect(), args.span.ns())
        }
    };
    change_all(&args.live, &edit, args.json, None)
}
