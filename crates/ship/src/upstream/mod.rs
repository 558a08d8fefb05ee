//! Upstreams: named groups of addresses that do the same, and which of them is used next.
//!
//! [`Group`] decides, without I/O and without a clock: weights, main and backup, a [circuit breaker](BreakerOptions) for each
//! member, health checks, limits. [`Upstream`] does: it keeps connections, asks, sends, tries another member, and looks after
//! members that failed.

mod breaker;
mod group;
mod one_way;
mod policy;
mod pool;

pub use breaker::{BreakerOptions, BreakerState};
pub use group::{Group, GroupOptions, HealthOptions, MemberId, MemberOptions, MemberState};
pub use policy::Policy;
pub use pool::{Upstream, UpstreamOptions};
