//! Shared memory of Logdrive: the ring of one thread, the session of one process, and the output buffers.
//!
//! A ring carries opaque bytes from one thread to a drain that may be in another process. What a producer has
//! committed lies in shared memory and survives a SIGKILL of the program. This crate does not know what a record
//! means; it knows lengths and positions. `spec/ring.md` and `spec/session.md` draw the bytes.
//!
//! Only this crate (and the few modules that ARCHITECTURE.md lists) holds `unsafe` code.
// A model has no system below it, so that most of the crate has no use there.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(loom, allow(dead_code, unused_imports))]

#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub mod channel;
pub mod clock;
mod consumer;
#[cfg(not(loom))]
pub mod control;
mod drop_reason;
mod error;
mod header;
mod in_place;
pub mod limits;
#[cfg(not(loom))]
mod pipe;
mod producer;
mod record_writer;
mod ring;
mod sync;
mod sys;
mod waker;

#[cfg(not(loom))]
mod buffers;
#[cfg(not(loom))]
mod counts;
#[cfg(not(loom))]
mod files;
#[cfg(not(loom))]
mod follower;
#[cfg(not(loom))]
mod keep_file;
#[cfg(not(loom))]
pub mod local;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
mod memory_file;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
mod peer;
#[cfg(not(loom))]
mod raw;
#[cfg(not(loom))]
pub mod rules;
#[cfg(not(loom))]
mod session;
#[cfg(not(loom))]
mod session_header;
#[cfg(not(loom))]
pub mod signals;
#[cfg(not(loom))]
mod static_cell;
#[cfg(not(loom))]
pub mod thread_counts;

#[cfg(not(loom))]
pub use buffers::{
    BUFFER_BYTES_MIN, BUFFERS_MAX, Buffer, Buffers, CONFIG_BYTES_MAX, FileLocation, Journal, SINKS_MAX,
    SinkCounts,
};
pub use clock::{Calibration, Calibrator, ClockSource};
pub use consumer::Consumer;
#[cfg(not(loom))]
pub use counts::{CallsiteCounters, CallsiteCounts, CallsiteTotals};
pub use drop_reason::{DropReason, FullPolicy};
pub use error::RingError;
#[cfg(not(loom))]
pub use files::{FoundSession, default_run_dir, file_part, find_sessions};
#[cfg(not(loom))]
pub use follower::{FollowerRead, RingFollower};
pub use in_place::InPlace;
#[cfg(not(loom))]
pub use keep_file::{CHUNK_BYTES, KeepCounts, KeepFile, KeepPositions, KeepToucher};
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub use memory_file::{MemoryId, is_memory_file};
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub use peer::{Exit, Peer, exit_of, is_privileged};
#[cfg(not(loom))]
pub use pipe::{PipeWriter, Reservation};
pub use producer::{Admission, Producer};
#[cfg(not(loom))]
#[doc(hidden)]
pub use raw::RawMemory;
pub use record_writer::RecordWriter;
pub use ring::{DrainWaker, RING_HEADER_BYTES, Ring, RingHeader, RingState, capacity_for, record_bytes_max};
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub use session::MemoryFiles;
#[cfg(all(not(any(target_os = "linux", target_os = "android")), not(loom)))]
pub use session::Peer;
#[cfg(not(loom))]
pub use session::{
    HostedOptions, HostedSession, SessionMemory, SessionOptions, SessionReader, SessionWriter,
};
#[cfg(not(loom))]
pub use session_header::SessionHeader;
#[cfg(not(loom))]
pub use static_cell::StaticCell;
#[cfg(loom)]
pub use sync::{ENDS, WEAKENED};
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub use sys::close_inherited;
pub use sys::user_id;
#[cfg(not(loom))]
pub use waker::AgentConnection;
