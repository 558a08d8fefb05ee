//! Standard output: a line of JSON for each record, as container runtimes collect them.

use crate::batch::EngineBatch;
use crate::engine::Engine;
use crate::error::Refusal;
use std::io::Write;

/// Standard output.
#[derive(Debug, Default)]
pub(crate) struct Stdout {
    lines: Vec<u8>,
}

impl Engine for Stdout {
    fn deliver(&mut self, batch: &mut EngineBatch<'_>) -> Result<(), Refusal> {
        self.lines.clear();
        batch.each(&mut |record| {
            record.put_json(&mut self.lines);
            self.lines.push(b'\n');
        });
        let mut out = std::io::stdout().lock();
        let written = out.write_all(&self.lines).and_then(|()| out.flush());
        written.map_err(|cause| Refusal::Retry {
            why: format!("standard output: {cause}"),
            after: None,
        })
    }
}
