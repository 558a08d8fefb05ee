//! A group of members: who may be used now, and who is. No I/O and no clock: `now_ns` is an argument.

use super::breaker::{Breaker, BreakerOptions, BreakerState};
use super::policy::{Candidate, Policy, hash_of, rendezvous, round_robin, weighted_random};
use crate::TransportError;
use crate::address::Address;
use crate::limits::UPSTREAM_MEMBERS_MAX;
use std::time::Duration;

/// One member, as a configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberOptions {
    /// Address of the member.
    pub address: Address,
    /// Share of use compared to others; 0 takes it out. Default: 1.
    pub weight: u32,
    /// Used only while no main member can be. Default: no.
    pub is_backup: bool,
}

impl MemberOptions {
    /// A main member of weight 1.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            weight: 1,
            is_backup: false,
        }
    }
}

/// Options of health probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthOptions {
    /// Time between two probes of a member. Default: 5 s.
    pub every: Duration,
    /// Failed probes in a row that make a member unhealthy. Default: 2.
    pub failures: u32,
    /// Good probes in a row that make it healthy again. Default: 2.
    pub successes: u32,
}

impl Default for HealthOptions {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(5),
            failures: 2,
            successes: 2,
        }
    }
}

/// Options of a group of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOptions {
    /// Policy that chooses among the members that may be used. Default: in turn.
    pub policy: Policy,
    /// Circuit breaker of each member.
    pub breaker: BreakerOptions,
    /// Health probes; `None` makes none. Default: none.
    pub health: Option<HealthOptions>,
    /// Connections to one member at most. Default: 64.
    pub connections_max: usize,
    /// Seed of the random choice. Default: 0.
    pub seed: u64,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            breaker: BreakerOptions::default(),
            health: None,
            connections_max: 64,
            seed: 0,
        }
    }
}

/// A member's number in its group; none is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(u64);

/// State of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberState {
    /// Number in the group.
    pub id: MemberId,
    /// Options of the member.
    pub options: MemberOptions,
    /// State of its circuit breaker.
    pub breaker: BreakerState,
    /// Times that the breaker has opened.
    pub opened: u64,
    /// Result of the last probes: true until enough of them have failed.
    pub is_healthy: bool,
    /// Connections to the member now.
    pub connections: usize,
    /// Times that it was chosen.
    pub chosen: u64,
    /// Times that it succeeded.
    pub succeeded: u64,
    /// Times that it failed.
    pub failed: u64,
    /// Last failure in words; empty before the first.
    pub failure: String,
}

#[derive(Debug)]
struct Member {
    state: MemberState,
    breaker: Breaker,
    hash: u64,
    credit: i64,
    /// Probes in a row that contradict the present state.
    contrary_probes: u32,
}

/// Group of addresses that do the same.
///
/// ```
/// use logdrive_ship::upstream::{Group, GroupOptions, MemberOptions};
/// let mut group = Group::new("logs", GroupOptions::default());
/// for port in [7140, 7141] {
///     group.add(MemberOptions::new(format!("tcp://127.0.0.1:{port}").parse()?))?;
/// }
/// let first = group.pick(0, 0, &[]).unwrap();
/// assert_ne!(group.pick(0, 0, &[]), Some(first));
/// # Ok::<(), logdrive_ship::TransportError>(())
/// ```
#[derive(Debug)]
pub struct Group {
    name: String,
    options: GroupOptions,
    members: Vec<Member>,
    next_id: u64,
    random: fastrand::Rng,
    chosen: Option<MemberId>,
}

impl Group {
    /// A group without members.
    pub fn new(name: impl Into<String>, options: GroupOptions) -> Self {
        Self {
            name: name.into(),
            random: fastrand::Rng::with_seed(options.seed),
            options,
            members: Vec::new(),
            next_id: 1,
            chosen: None,
        }
    }

    /// Name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Options that it was made with.
    pub fn options(&self) -> &GroupOptions {
        &self.options
    }

    /// Adds a member; one with the same address takes the new description, and keeps its number and its past.
    ///
    /// # Errors
    /// Fails when there are 1,024 already.
    pub fn add(&mut self, options: MemberOptions) -> Result<MemberId, TransportError> {
        let same = |member: &&mut Member| member.state.options.address == options.address;
        if let Some(member) = self.members.iter_mut().find(same) {
            member.state.options = options;
            return Ok(member.state.id);
        }
        if self.members.len() >= UPSTREAM_MEMBERS_MAX {
            return Err(TransportError::Option {
                option: "members of an upstream",
                found: (self.members.len() + 1).to_string(),
                allowed: "at most 1024",
            });
        }
        let id = MemberId(self.next_id);
        self.next_id += 1;
        let breaker = Breaker::new(self.options.breaker);
        self.members.push(Member {
            hash: hash_of(options.address.to_string().as_bytes()),
            state: MemberState {
                id,
                options,
                breaker: breaker.state(),
                opened: 0,
                is_healthy: true,
                connections: 0,
                chosen: 0,
                succeeded: 0,
                failed: 0,
                failure: String::new(),
            },
            breaker,
            credit: 0,
            contrary_probes: 0,
        });
        Ok(id)
    }

    /// Removes a member; what is under way there comes to its end. `None` when there is none with this address.
    pub fn remove(&mut self, address: &Address) -> Option<MemberId> {
        let found = |member: &Member| member.state.options.address == *address;
        let index = self.members.iter().position(found)?;
        Some(self.members.remove(index).state.id)
    }

    /// With [`Policy::Manual`]: uses this member from now on, and backups while it cannot be used. `false` when there is
    /// none with this address.
    pub fn choose(&mut self, address: &Address) -> bool {
        let found = |member: &&Member| member.state.options.address == *address;
        let id = self.members.iter().find(found).map(|member| member.state.id);
        self.chosen = id.or(self.chosen);
        id.is_some()
    }

    /// Member that [`Group::choose`] chose.
    pub fn chosen(&self) -> Option<MemberId> {
        self.chosen
    }

    fn member(&mut self, id: MemberId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.state.id == id)
    }

    /// The address of a member.
    pub fn address(&self, id: MemberId) -> Option<&Address> {
        let member = self.members.iter().find(|member| member.state.id == id)?;
        Some(&member.state.options.address)
    }

    /// States of all members.
    pub fn members(&self) -> impl Iterator<Item = MemberState> {
        self.members.iter().map(|member| MemberState {
            breaker: member.breaker.state(),
            opened: member.breaker.opened,
            ..member.state.clone()
        })
    }

    /// Picks the member to use next, for a key where the policy uses it, and none of `except`. The caller reports
    /// the outcome: [`Group::succeeded`], [`Group::failed`] or [`Group::withdrawn`]. `None`: no member can be used now.
    pub fn pick(&mut self, key: u64, now_ns: u64, except: &[MemberId]) -> Option<MemberId> {
        let index = self
            .pick_of(false, key, now_ns, except)
            .or_else(|| self.pick_of(true, key, now_ns, except))?;
        let member = self.members.get_mut(index)?;
        member.breaker.pass();
        member.state.chosen += 1;
        Some(member.state.id)
    }

    fn pick_of(&mut self, is_backup: bool, key: u64, now_ns: u64, except: &[MemberId]) -> Option<usize> {
        let (policy, chosen) = (self.options.policy, self.chosen);
        let connections_max = self.options.connections_max;
        let replaces_chosen = is_backup
            && self
                .members
                .iter()
                .any(|member| Some(member.state.id) == chosen && !member.state.options.is_backup);
        let mut places = Vec::new();
        let mut candidates = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            let state = &member.state;
            let may = state.options.is_backup == is_backup
                && state.options.weight > 0
                && state.is_healthy
                && state.connections < connections_max
                && !except.contains(&state.id)
                && (policy != Policy::Manual
                    || replaces_chosen
                    || chosen.is_none_or(|chosen| chosen == state.id))
                && member.breaker.lets_pass(now_ns);
            if may {
                places.push(index);
                candidates.push(Candidate {
                    weight: state.options.weight,
                    hash: member.hash,
                    credit: &mut member.credit,
                });
            }
        }
        let found = match policy {
            Policy::WeightedRandom => weighted_random(&candidates, &mut self.random),
            Policy::RoundRobin => round_robin(&mut candidates),
            Policy::ConsistentHash => rendezvous(&candidates, key),
            // Before the first choice, the first.
            Policy::Manual => (!candidates.is_empty()).then_some(0),
        };
        places.get(found?).copied()
    }

    /// Reports that an attempt at a member succeeded.
    pub fn succeeded(&mut self, id: MemberId) {
        if let Some(member) = self.member(id) {
            member.breaker.succeeded();
            member.state.succeeded += 1;
        }
    }

    /// Reports that an attempt at a member failed, and why.
    pub fn failed(&mut self, id: MemberId, why: &str, now_ns: u64) {
        if let Some(member) = self.member(id) {
            member.breaker.failed(now_ns);
            member.state.failed += 1;
            why.clone_into(&mut member.state.failure);
        }
    }

    /// Reports that an attempt at a member was not made after all.
    pub fn withdrawn(&mut self, id: MemberId) {
        if let Some(member) = self.member(id) {
            member.breaker.withdrawn();
        }
    }

    /// Reports the result of a health probe.
    pub fn probed(&mut self, id: MemberId, is_healthy: bool) {
        let health = self.options.health.unwrap_or_default();
        let Some(member) = self.member(id) else { return };
        if is_healthy == member.state.is_healthy {
            member.contrary_probes = 0;
            return;
        }
        member.contrary_probes += 1;
        let enough = if is_healthy {
            health.successes
        } else {
            health.failures
        };
        if member.contrary_probes >= enough {
            member.state.is_healthy = is_healthy;
            member.contrary_probes = 0;
        }
    }

    /// Counts one connection to a member more, or one less.
    pub fn connected(&mut self, id: MemberId, is_more: bool) {
        if let Some(member) = self.member(id) {
            let connections = &mut member.state.connections;
            *connections = if is_more {
                *connections + 1
            } else {
                connections.saturating_sub(1)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const S: u64 = 1_000_000_000;

    fn address(port: u16) -> Address {
        format!("tcp://127.0.0.1:{port}").parse().expect("an address")
    }

    fn group(policy: Policy, weights: &[u32]) -> (Group, Vec<MemberId>) {
        let mut group = Group::new(
            "logs",
            GroupOptions {
                policy,
                breaker: BreakerOptions {
                    failures: 2,
                    open: Duration::from_secs(10),
                    ..BreakerOptions::default()
                },
                ..GroupOptions::default()
            },
        );
        let mut add = |(port, weight): (usize, &u32)| {
            let mut member = MemberOptions::new(address(port as u16 + 1));
            member.weight = *weight;
            group.add(member).expect("room")
        };
        let ids = weights.iter().enumerate().map(&mut add).collect();
        (group, ids)
    }

    fn counts(group: &mut Group, picks: u64) -> HashMap<MemberId, u64> {
        let mut counts = HashMap::new();
        for key in 0..picks {
            if let Some(id) = group.pick(key, 0, &[]) {
                group.succeeded(id);
                *counts.entry(id).or_default() += 1;
            }
        }
        counts
    }

    #[test]
    fn smooth_round_robin_mixes_as_nginx_does() {
        let (mut group, ids) = group(Policy::RoundRobin, &[5, 1, 1]);
        let order: Vec<usize> = (0..7)
            .map(|_| {
                let id = group.pick(0, 0, &[]).expect("one");
                ids.iter().position(|other| *other == id).expect("known")
            })
            .collect();
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn chance_and_hash_follow_the_weights() {
        for policy in [Policy::WeightedRandom, Policy::ConsistentHash] {
            let (mut group, ids) = group(policy, &[1, 2, 7, 0]);
            let counts = counts(&mut group, 100_000);
            for (id, share) in ids.iter().zip([0.1, 0.2, 0.7, 0.0]) {
                let found = counts.get(id).copied().unwrap_or(0) as f64 / 100_000.0;
                assert!((found - share).abs() < 0.01, "{policy:?}: {found} for {share}");
            }
        }
    }

    #[test]
    fn a_key_stays_where_it_is_unless_its_member_goes() {
        let (mut group, ids) = group(Policy::ConsistentHash, &[1; 5]);
        let before: Vec<_> = (0..10_000)
            .map(|key| group.pick(key, 0, &[]).expect("one"))
            .collect();
        group.remove(&address(3)).expect("there");
        let mut moved = 0;
        for (key, id) in before.iter().enumerate() {
            let after = group.pick(key as u64, 0, &[]).expect("one");
            assert!(after == *id || *id == ids[2], "key {key} moved without need");
            moved += usize::from(after != *id);
        }
        assert!((1_500..2_500).contains(&moved), "{moved}");
        group.add(MemberOptions::new(address(3))).expect("room");
        for (key, id) in before.iter().enumerate() {
            let after = group.pick(key as u64, 0, &[]).expect("one");
            assert_eq!(after == *id, *id != ids[2], "as it was, under a new number");
        }
    }

    #[test]
    fn backups_are_used_while_no_main_member_can_be() {
        let (mut group, ids) = group(Policy::RoundRobin, &[1, 1]);
        let mut backup = MemberOptions::new(address(9));
        backup.is_backup = true;
        let backup = group.add(backup).expect("room");
        assert!(!counts(&mut group, 10).contains_key(&backup));
        for id in &ids {
            group.failed(*id, "gone", 0);
            group.failed(*id, "gone", 0);
        }
        assert_eq!(group.pick(0, 9 * S, &[]), Some(backup));
        assert_eq!(
            group.pick(0, 10 * S - 1, &[]),
            Some(backup),
            "both breakers are open"
        );
        let probe = group.pick(0, 10 * S, &[]).expect("a main one");
        assert!(ids.contains(&probe));
        let other = group.pick(0, 10 * S, &[]).expect("the other main one");
        assert!(ids.contains(&other) && other != probe);
        assert_eq!(group.pick(0, 10 * S, &[]), Some(backup), "one probe each");
        group.succeeded(probe);
        assert_eq!(group.pick(0, 10 * S, &[]), Some(probe));
    }

    #[test]
    fn manual_uses_the_chosen_one_and_no_other() {
        let (mut group, ids) = group(Policy::Manual, &[1, 1]);
        assert_eq!(group.pick(0, 0, &[]), Some(ids[0]));
        assert!(group.choose(&address(2)) && !group.choose(&address(7)));
        assert_eq!(group.pick(0, 0, &[]), Some(ids[1]));
        group.failed(ids[1], "gone", 0);
        group.failed(ids[1], "gone", 0);
        assert_eq!(group.pick(0, 0, &[]), None);
        let mut backup = MemberOptions::new(address(9));
        backup.is_backup = true;
        let backup = group.add(backup).expect("room");
        assert_eq!(group.pick(0, 0, &[]), Some(backup), "in its place");
        assert!(group.choose(&address(1)));
        assert_eq!(group.pick(0, 0, &[]), Some(ids[0]));
        assert!(group.choose(&address(9)));
        assert_eq!(group.pick(0, 0, &[]), Some(backup), "a backup may be chosen, too");
        assert_eq!(group.pick(0, 0, &[backup]), None);
    }

    #[test]
    fn looks_limits_and_exceptions_keep_members_out() {
        let (mut group, ids) = group(Policy::RoundRobin, &[1, 1]);
        group.probed(ids[0], false);
        assert_eq!(counts(&mut group, 2).len(), 2, "one look is none");
        group.probed(ids[0], false);
        assert_eq!(counts(&mut group, 4).len(), 1);
        group.probed(ids[0], true);
        group.probed(ids[0], false);
        group.probed(ids[0], true);
        assert_eq!(counts(&mut group, 4).len(), 1, "two in a row");
        group.probed(ids[0], true);
        assert_eq!(counts(&mut group, 4).len(), 2);
        assert_eq!(group.pick(0, 0, &ids), None);
        for _ in 0..group.options().connections_max {
            group.connected(ids[1], true);
        }
        assert_eq!(counts(&mut group, 4).len(), 1);
        group.connected(ids[1], false);
        assert_eq!(counts(&mut group, 4).len(), 2);
    }
}
