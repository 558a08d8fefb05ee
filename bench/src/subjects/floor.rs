//! The floors: what a call costs that does nothing but the part in question.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::sync::Mutex;

use super::{Ended, Subject, Target};
use crate::{BenchError, Result, probe, warm};

/// A call that only reads the clock, as every logger with a time stamp must.
#[derive(Clone, Copy, Debug)]
pub struct ClockOnly;

impl Subject for ClockOnly {
    #[inline]
    fn line(&self, _text: &str) {
        black_box(probe::ticks());
    }

    #[inline]
    fn four(&self, _order: u64, _price: f64, _quantity: i32, _customer: &str) {
        black_box(probe::ticks());
    }

    fn finish(self) -> Result<Ended> {
        Ok(Ended::default())
    }
}

/// A buffered file behind a mutex: no time stamp, no formatting of a message.
#[derive(Debug)]
pub struct MutexBufWriter {
    file: Mutex<BufWriter<File>>,
}

impl MutexBufWriter {
    /// Opens the target.
    pub fn open(target: &Target) -> Result<MutexBufWriter> {
        let file = warm::open_in_place(&target.path)?;
        Ok(MutexBufWriter {
            file: Mutex::new(BufWriter::new(file)),
        })
    }

    fn with_file(&self, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) {
        let mut file = self.file.lock().expect("no writer panics");
        // A failed write shows in the count of lines.
        let _ = write(&mut file);
    }
}

impl Subject for MutexBufWriter {
    #[inline]
    fn line(&self, text: &str) {
        self.with_file(|file| {
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")
        });
    }

    #[inline]
    fn four(&self, order: u64, price: f64, quantity: i32, customer: &str) {
        self.with_file(|file| writeln!(file, "order {order} at {price:.2} x {quantity} for {customer}"));
    }

    fn finish(self) -> Result<Ended> {
        let mut file = self.file.into_inner().expect("no writer panics");
        file.flush()
            .map_err(|error| BenchError::subject("mutex-bufwriter", error))?;
        Ok(Ended::default())
    }
}
