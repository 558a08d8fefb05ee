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
mod checksum;
pub mod clock;
mod consumer;
#[cfg(not(loom))]
pub mod control;
mod drop_reason;
mod epoch_cells;
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
mod backtrace;
#[cfg(not(loom))]
mod buffers;
#[cfg(not(loom))]
mod callsite_entries;
#[cfg(not(loom))]
mod counts;
#[cfg(not(loom))]
mod end_notes;
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
#[cfg(not(loom))]
mod memory_kills;
#[cfg(not(loom))]
pub mod ordinary_end;
#[cfg(not(loom))]
mod own_file;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
mod peer;
#[cfg(not(loom))]
mod process_identity;
#[cfg(not(loom))]
pub mod rules;
#[cfg(not(loom))]
mod session;
#[cfg(not(loom))]
mod session_account;
#[cfg(not(loom))]
mod session_header;
#[cfg(not(loom))]
pub mod signals;
#[cfg(not(loom))]
mod sink_account;
#[cfg(not(loom))]
mod static_cell;
#[cfg(not(loom))]
pub mod thread_counts;
#[cfg(not(loom))]
mod thread_sanitizer;
#[cfg(not(loom))]
mod user;

pub use {
    clock::{Calibration, Calibrator, ClockSource},
    consumer::Consumer,
    drop_reason::{DropReason, FullPolicy},
    error::RingError,
    header::RingState,
    in_place::InPlace,
    producer::{Admission, Producer},
    record_writer::RecordWriter,
    ring::{Ring, RingCounts, capacity_for},
    waker::DrainWaker,
};

#[cfg(not(loom))]
pub use {
    buffers::damage::{
        BufferDamage, REPLACED_BUFFERS_NAME, damage_told, mend_buffers, note_damage_told, replace_buffers,
    },
    buffers::unfinished::{UnfinishedWrite, unfinished_writes},
    buffers::{Adopted, BUFFER_BYTES_MIN, Buffer, Buffers, FileLocation, Journal, SINKS_MAX, open_buffers},
    counts::{CallsiteCounters, CallsiteCounts, CallsiteTotals},
    end_notes::EndNotes,
    files::{
        FoundSession, default_run_dir, excess_set_aside, file_part, find_sessions, is_gone, is_set_aside,
        remove_left_overs, remove_set_aside, set_aside_path,
    },
    follower::{FollowerRead, RingFollower},
    keep_file::{CHUNK_BYTES, KeepCounts, KeepFile, KeepPositions},
    memory_kills::OutOfMemory,
    own_file::{FileId, Opened, OwnFile},
    pipe::{PipeWriter, Reservation},
    session::reader::{DamageNotes, SessionReader, set_aside},
    session::writer::{SessionOptions, SessionWriter},
    session_account::SessionAccount,
    session_header::{SessionHeader, SessionIdentity, SessionTotals},
    sink_account::{SINK_DROP_REASONS, SinkCounts, SinkDrops},
    static_cell::StaticCell,
    thread_sanitizer::Unseen,
    user::{User, user_id},
    waker::AgentConnection,
};

#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub use {
    memory_file::{MemoryId, is_memory_file},
    peer::{Exit, Peer, exit_of, is_privileged},
    process_identity::boot,
    session::hosted::{HostedOptions, HostedSession},
    session::memory_files::MemoryFiles,
    session::writer::joined::SessionDescriptors,
    sys::{close_inherited, inherited_descriptors},
};

#[cfg(all(not(any(target_os = "linux", target_os = "android")), not(loom)))]
pub use session::no_agent::{HostedOptions, HostedSession, Peer};

#[cfg(loom)]
pub use sync::{ENDS, WEAKENED};
