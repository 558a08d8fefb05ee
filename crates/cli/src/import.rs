//! `logdrive import`: text logs of any program become a segment.

use crate::args::ImportArgs;
use crate::error::CliError;
use logdrive_reader::{Input, LogFile, each_text_line};
use logdrive_store::SegmentWriter;
use std::fs::File;
use std::io;

/// Runs the command.
pub(crate) fn run(args: &ImportArgs) -> Result<bool, CliError> {
    let cannot_write = |cause: io::Error| CliError::Write {
        path: args.out.clone(),
        cause,
    };
    // A segment that is there is never written over.
    let file = File::create_new(&args.out).map_err(cannot_write)?;
    let mut writer = SegmentWriter::new(file).fill_blocks();
    let parts = args.files.iter().cloned().map(LogFile::alone).collect();
    each_text_line(&mut Input::new(parts), |line| {
        writer
            .line(line.level, line.unix_ns, line.bytes)
            .map_err(cannot_write)
    })?;
    writer.flush().map_err(cannot_write)?;
    Ok(true)
}
