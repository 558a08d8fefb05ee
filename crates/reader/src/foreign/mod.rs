//! Lines of other programs: their times, their levels, the words in front of their messages, and the lines that belong
//! together.
//!
//! The module `head` asks here about lines that no layout of Logdrive wrote.

pub mod ansi;
pub(crate) mod bodies;
pub(crate) mod container;
pub(crate) mod heads;
pub(crate) mod joiner;
pub mod level;
pub(crate) mod parser;
mod pod;
mod record;
pub(crate) mod times;
pub(crate) mod trace;
pub(crate) mod words;

pub use joiner::{LineJoiner, is_level_behind, may_be_head, open_record};
pub use parser::{ForeignParser, last_state, plain_text};
pub use pod::PodContainer;
pub use record::{
    FOREIGN_CALLSITES_MAX, ForeignCallsites, ForeignRecord, ForeignValue, PAYLOAD_BYTES_MAX, dynamic_callsite,
};
pub use trace::JoinRule;
