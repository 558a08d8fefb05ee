//! Groups of addresses that do the same, and which member is used next: weights, main and backup, a
//! [circuit breaker](BreakerOptions) for each member, health probes, connection limits. No I/O and no clock.

mod breaker;
mod group;
mod policy;

pub use breaker::{BreakerOptions, BreakerState};
pub use group::{
    Choose, Group, GroupOptions, HealthOptions, MemberId, MemberOptions, MemberState, MemberTimeouts,
};
pub use policy::Policy;
