//! Options of a forwarder, and the group of addresses that it may send to.

use super::spool::SpoolOptions;
use crate::TransportError;
use crate::address::Address;
use crate::hello::Format;
use crate::limits::OUTBOX_BYTES_MAX;
use crate::options::Options;
use crate::session::SplitRecords;
use crate::upstream::{BreakerOptions, Group, GroupOptions, MemberOptions};

/// Options of a forwarder.
#[derive(Debug, Clone)]
pub struct ForwardOptions {
    /// Session of the records: a number of its own, kept over restarts where records are sent again after them.
    pub session: u128,
    /// Rises when the numbering begins anew.
    pub epoch: u64,
    /// The number of the first record.
    pub next: u64,
    /// Number before which records may have been sent by earlier forwarders of the session: a collector that claims to
    /// have more is not believed. Without effect on what earlier sessions left in a spool, all of which is there. Default: not known, so that all claims are believed.
    pub sent_until: Option<u64>,
    /// Format of the records.
    pub format: Format,
    /// Cuts batches of typed records for another end that accepts shorter frames only. Default: none, and such an end is an error.
    pub split: Option<SplitRecords>,
    /// The process that they come from. Default: this one.
    pub pid: u32,
    /// The level of zstd; `None` sends as it is. Default: none.
    pub zstd_level: Option<i32>,
    /// Bytes in memory that nobody keeps yet, at most. Default: 16 MiB.
    pub queue_bytes: usize,
    /// Spool for batches while no collector takes them; without it they wait in memory. What earlier sessions left there is
    /// sent first, as theirs. The session must be a new one then.
    pub spool: Option<SpoolOptions>,
    /// Further addresses, with weights and roles of their own. Default: none.
    pub members: Vec<MemberOptions>,
    /// Which address is used where there are several; with [`Policy::Manual`](crate::upstream::Policy::Manual) the first
    /// that is no backup. Its circuit breaker never opens by default: pauses between attempts
    /// grow as it is. With health checks ([`GroupOptions::health`]) an unhealthy member is not tried, and records go back
    /// from a backup to a main member that is healthy again. Default: in turn, without health checks.
    pub group: GroupOptions,
    /// Tries again also where a failure does not pass by itself, such as a certificate that is refused: for programs that
    /// run on whatever happens to their logs. Default: no, it ends.
    pub persists: bool,
}

impl ForwardOptions {
    /// Lines of text of a new session.
    pub fn new(session: u128, epoch: u64) -> Self {
        Self {
            session,
            epoch,
            next: 0,
            sent_until: None,
            format: Format::Text,
            split: None,
            pid: std::process::id(),
            zstd_level: None,
            queue_bytes: OUTBOX_BYTES_MAX,
            spool: None,
            members: Vec::new(),
            group: GroupOptions {
                breaker: BreakerOptions {
                    failures: u32::MAX,
                    ..BreakerOptions::default()
                },
                ..GroupOptions::default()
            },
            persists: false,
        }
    }
}

/// All that records may be sent to.
pub(super) fn group_of(
    addresses: &[Address],
    options: &Options,
    forward: &ForwardOptions,
) -> Result<Group, TransportError> {
    let mut policy = forward.group.clone();
    if policy.seed == 0 {
        // Each session chooses by itself: with the same chance all would go to the same.
        policy.seed = forward.session as u64;
    }
    let mut group = Group::new("collectors", policy);
    let plain = addresses.iter().cloned().map(MemberOptions::new);
    let members: Vec<MemberOptions> = plain.chain(forward.members.iter().cloned()).collect();
    for member in &members {
        check_member(member, options)?;
        group.add(member.clone())?;
    }
    choose_first(&mut group, &members);
    Ok(group)
}

/// Chooses the first member that is no backup, where members are chosen by hand.
pub(super) fn choose_first(group: &mut Group, members: &[MemberOptions]) {
    if let Some(first) = members.iter().find(|member| !member.is_backup) {
        group.choose(&first.address);
    }
}

/// Returns whether records may be sent to a member.
pub(super) fn check_member(member: &MemberOptions, options: &Options) -> Result<(), TransportError> {
    member.address.check(options.insecure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Policy;

    fn member(text: &str, weight: u32) -> MemberOptions {
        let mut member = MemberOptions::new(text.parse().expect("an address"));
        member.weight = weight;
        member
    }

    #[test]
    fn sessions_choose_by_weight_each_for_itself() {
        let mut of_first = 0;
        for session in 1..=4_000 {
            let mut forward = ForwardOptions::new(session, 1);
            forward.group.policy = Policy::WeightedRandom;
            forward.members = vec![member("unix:///a", 3), member("unix:///b", 1)];
            let mut group = group_of(&[], &Options::default(), &forward).expect("sound");
            let id = group.pick(session as u64, 0, &[]).expect("one");
            of_first += u32::from(group.address(id).is_some_and(|to| to.to_string() == "unix:///a"));
        }
        assert!((2_850..3_150).contains(&of_first), "{of_first} of 4000");
    }
}
