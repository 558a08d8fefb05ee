//! `spdlog-rs`, with a file alone and behind its thread pool.
//!
//! As its authors advise: the compile-time level `release-level-info`, the
//! default formatter, the default buffer and the default queue of 8,192. Its
//! `FileSink` can only empty a file or append to it; the sink here is the same
//! thing, a buffered file behind its mutex, on a file opened in place.

use std::fs::File;
use std::io::BufWriter;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spdlog::ThreadPool;
use spdlog::error::ErrorHandler;
use spdlog::sink::{AsyncPoolSink, OverflowPolicy, Sink, WriteSink};

use super::{Ended, Full, Subject, Target};
use crate::{BenchError, Result, warm};

/// The default of the version that is measured, written down because its
/// documentation says that it may change.
const QUEUE_RECORDS: usize = 8_192;

type BufferedSink = WriteSink<BufWriter<File>>;

/// A logger of `spdlog-rs`.
pub struct SpdlogRs {
    // In this order they must go: the logger holds the pool's sender, and the
    // pool holds the file until its last task is done.
    logger: Arc<spdlog::Logger>,
    pool: Option<Arc<ThreadPool>>,
    file: Arc<BufferedSink>,
    dropped: Arc<AtomicU64>,
}

impl SpdlogRs {
    /// The calling thread formats and writes, under a mutex.
    pub fn sync(target: &Target) -> Result<SpdlogRs> {
        let file = file_sink(target)?;
        SpdlogRs::build(file.clone(), None, file)
    }

    /// The calling thread hands the record to a pool of one thread.
    pub fn pooled(target: &Target) -> Result<SpdlogRs> {
        let file = file_sink(target)?;
        let capacity = NonZeroUsize::new(QUEUE_RECORDS).unwrap_or(NonZeroUsize::MIN);
        let pool = ThreadPool::builder()
            .capacity(capacity)
            .build_arc()
            .map_err(failed)?;
        let overflow = match target.full {
            Full::Drop => OverflowPolicy::DropIncoming,
            Full::Wait | Full::Block => OverflowPolicy::Block,
        };
        let sink = AsyncPoolSink::builder()
            .sink(file.clone())
            .thread_pool(pool.clone())
            .overflow_policy(overflow)
            .build_arc()
            .map_err(failed)?;
        SpdlogRs::build(sink, Some(pool), file)
    }

    fn build(
        sink: Arc<dyn Sink>,
        pool: Option<Arc<ThreadPool>>,
        file: Arc<BufferedSink>,
    ) -> Result<SpdlogRs> {
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = dropped.clone();
        let logger = spdlog::Logger::builder()
            .sink(sink)
            .error_handler(ErrorHandler::new(move |_| {
                // Relaxed: the count is read after all callers have been joined.
                counter.fetch_add(1, Ordering::Relaxed);
            }))
            .build_arc()
            .map_err(failed)?;
        Ok(SpdlogRs {
            logger,
            pool,
            file,
            dropped,
        })
    }
}

fn file_sink(target: &Target) -> Result<Arc<BufferedSink>> {
    WriteSink::builder()
        .target(BufWriter::new(warm::open_in_place(&target.path)?))
        .build_arc()
        .map_err(failed)
}

fn failed(error: spdlog::Error) -> BenchError {
    BenchError::subject("spdlog-rs", error)
}

impl Subject for SpdlogRs {
    #[inline]
    fn line(&self, text: &str) {
        spdlog::info!(logger: self.logger, "{}", text);
    }

    #[inline]
    fn four(&self, order: u64, price: f64, quantity: i32, customer: &str) {
        spdlog::info!(
            logger: self.logger,
            "order {} at {:.2} x {} for {}", order, price, quantity, customer
        );
    }

    fn finish(self) -> Result<Ended> {
        drop(self.logger);
        // The last owner of a pool joins its thread, which first does all that
        // is queued.
        drop(self.pool);
        self.file.flush().map_err(failed)?;
        Ok(Ended {
            // Relaxed: all callers have been joined before.
            dropped_counted: self.dropped.load(Ordering::Relaxed),
        })
    }
}
