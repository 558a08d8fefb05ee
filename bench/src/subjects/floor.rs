//! The floors: what a call costs that does nothing but the part in question.

use std::cell::Cell;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::sync::Mutex;

use super::{Ended, Subject, Target};
use crate::{Result, probe, warm};

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
}

/// The words of a megabyte, as long as a thread's ring in the workloads.
const KEPT_WORDS: usize = 1 << 17;

thread_local! {
    static KEPT: [Cell<u64>; KEPT_WORDS] = const { [const { Cell::new(0) }; KEPT_WORDS] };
    static KEPT_AT: Cell<usize> = const { Cell::new(0) };
}

/// A call that reads the clock and stores its values without a reader: seven words
/// into memory of the thread's own, and a position. No reader on the other
/// core, no levels, no limit: less than this no logger can do.
#[derive(Clone, Copy, Debug)]
pub struct Stores;

impl Stores {
    #[inline]
    fn store<const WORDS: usize>(words: [u64; WORDS]) {
        let at = KEPT_AT.get();
        KEPT.with(|kept| {
            for (index, word) in words.into_iter().enumerate() {
                kept[(at + index) % KEPT_WORDS].set(word);
            }
        });
        KEPT_AT.set(at.wrapping_add(WORDS));
    }
}

/// Eight bytes of a string as a word; 0 where it has fewer.
#[inline]
fn word(bytes: Option<&[u8; 8]>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Subject for Stores {
    #[inline]
    fn line(&self, text: &str) {
        let first = word(text.as_bytes().first_chunk());
        Stores::store([1, probe::ticks(), text.len() as u64, first]);
    }

    #[inline]
    fn four(&self, order: u64, price: f64, quantity: i32, customer: &str) {
        let text = customer.as_bytes();
        let (first, last) = (word(text.first_chunk()), word(text.last_chunk()));
        let lengths = (quantity as u32 as u64) << 32 | text.len() as u64;
        Stores::store([1, probe::ticks(), order, price.to_bits(), lengths, first, last]);
    }
}

/// A call that reads the clock and formats its message into bytes on the
/// stack, without a reader. `log` hands its loggers a message that only `std` can
/// turn into text: less than this none of them can do.
#[derive(Clone, Copy, Debug)]
pub struct StdFmt;

/// Bytes that a message may take; no message of a workload is longer.
const MESSAGE_BYTES: usize = 256;

struct OnStack {
    bytes: [u8; MESSAGE_BYTES],
    length: usize,
}

impl std::fmt::Write for OnStack {
    #[inline]
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl StdFmt {
    #[inline]
    fn format(message: std::fmt::Arguments<'_>) {
        let mut text = OnStack {
            bytes: [0; MESSAGE_BYTES],
            length: 0,
        };
        black_box(probe::ticks());
        // A message that is too long is cut, which changes nothing here.
        let _ = std::fmt::Write::write_fmt(&mut text, black_box(message));
        black_box(&text.bytes);
    }
}

impl Subject for StdFmt {
    #[inline]
    fn line(&self, text: &str) {
        StdFmt::format(format_args!("{text}"));
    }

    #[inline]
    fn four(&self, order: u64, price: f64, quantity: i32, customer: &str) {
        StdFmt::format(format_args!(
            "order {order} at {price:.2} x {quantity} for {customer}"
        ));
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
        file.flush()?;
        Ok(Ended::default())
    }
}
