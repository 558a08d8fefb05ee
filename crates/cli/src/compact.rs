//! `logdrive compact`: segments are rewritten in full blocks.

use crate::args::CompactArgs;
use crate::error::CliError;
use crate::output::titled_note;
use crate::paint::{ColorChoice, Style};
use logdrive_drain::file::{Compacted, compact_segment};
use std::io::{self, Write};

/// Runs the command. `false`: a file was left as it is, which has been said.
pub(crate) fn run(args: &CompactArgs, color: ColorChoice) -> Result<bool, CliError> {
    let mut is_well = true;
    for path in &args.files {
        let shown = path.display();
        let trouble = match compact_segment(path, args.level) {
            Ok(Compacted::Done { before, after }) => {
                writeln!(io::stdout(), "{shown}: {before} bytes became {after}")?;
                continue;
            }
            Ok(Compacted::AsItIs) => {
                writeln!(io::stdout(), "{shown}: as it was")?;
                continue;
            }
            Ok(Compacted::Damaged) => {
                format!("{shown} is damaged and left as it is: logdrive cat says where, and shows the rest")
            }
            Ok(Compacted::InUse) => {
                format!("{shown} is written to by a process: rotated files can be compacted")
            }
            Ok(Compacted::NoSegment) => {
                format!("{shown} is no segment: logdrive import makes one of a text log")
            }
            Ok(_) => format!("{shown} was left as it is"),
            Err(error) => error.to_string(),
        };
        titled_note(color.for_stderr(), Style::Bad, "error", trouble);
        is_well = false;
    }
    Ok(is_well)
}
