//! A group of members: who may be used now, and who is. No I/O and no clock: `now_ns` is an argument.

use super::breaker::{Breaker, BreakerOptions, BreakerState};
use super::policy::{Candidate, Policy, hash_of, mix, rendezvous, round_robin, weighted_random};
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
    /// Used only while no main member can be; with a group, while no main member of that can. Default: no.
    pub is_backup: bool,
    /// Group of members that stand in for each other: the share of a main member that cannot be used goes to the others of
    /// its group, and to the group's backups when none of its main members can be used. Default: none, its share goes to
    /// all.
    pub group: Option<u32>,
    /// Connections to this member at most, in the place of the group's.
    pub connections_max: Option<usize>,
    /// Time limits of this member, in the place of those of all.
    pub timeouts: MemberTimeouts,
}

/// Time limits of one member; `None` where those of all hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberTimeouts {
    /// For making a connection.
    pub connect: Option<Duration>,
    /// For a response.
    pub response: Option<Duration>,
}

impl MemberOptions {
    /// A main member of weight 1.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            weight: 1,
            is_backup: false,
            group: None,
            connections_max: None,
            timeouts: MemberTimeouts::default(),
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
    /// Tries members whose breakers are open while those of all are, in the place of failing: some may be back. Default: no;
    /// `UpstreamOptions` of `logdrive-messaging`: yes.
    pub restores: bool,
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
            restores: false,
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

/// A member that may be used, and the one in whose place: itself, but where it stands in.
struct Place {
    user: usize,
    share_of: usize,
}

/// Use of members whose breakers are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breakers {
    Obeyed,
    Ignored,
}

/// Names one of the members that can be used by its index.
pub type Choose<'a> = dyn FnMut(&[&MemberOptions]) -> Option<usize> + 'a;

#[derive(Debug)]
struct Member {
    state: MemberState,
    breaker: Breaker,
    hash: u64,
    credit: i64,
    /// Probes in a row that contradict the present state.
    contrary_probes: u32,
}

impl Member {
    fn has_room(&self, connections_max: usize) -> bool {
        let most = self.state.options.connections_max.unwrap_or(connections_max);
        self.state.connections < most
    }
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

    /// Options of a member.
    pub fn member_options(&self, id: MemberId) -> Option<&MemberOptions> {
        let member = self.members.iter().find(|member| member.state.id == id)?;
        Some(&member.state.options)
    }

    /// Returns whether a member has as many connections as it may.
    pub fn is_full(&self, id: MemberId) -> bool {
        let member = self.members.iter().find(|member| member.state.id == id);
        member.is_some_and(|member| !member.has_room(self.options.connections_max))
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
        self.pick_by(key, now_ns, except, &mut |_| None)
    }

    /// As [`Group::pick`]; of the members that can be used `choose` names one by its index. The policy chooses where it names
    /// none.
    pub fn pick_by(
        &mut self,
        key: u64,
        now_ns: u64,
        except: &[MemberId],
        choose: &mut Choose<'_>,
    ) -> Option<MemberId> {
        let mut tiers = vec![(false, Breakers::Obeyed), (true, Breakers::Obeyed)];
        if self.options.restores {
            tiers.extend([(false, Breakers::Ignored), (true, Breakers::Ignored)]);
        }
        let index = tiers.into_iter().find_map(|(is_backup, breakers)| {
            let places = self.places(is_backup, breakers, key, now_ns, except);
            self.choose_among(&places, key, choose)
        })?;
        let member = self.members.get_mut(index)?;
        member.breaker.pass();
        member.state.chosen += 1;
        Some(member.state.id)
    }

    /// Members that may be used now, each with the one whose share it takes.
    fn places(
        &self,
        is_backup: bool,
        breakers: Breakers,
        key: u64,
        now_ns: u64,
        except: &[MemberId],
    ) -> Vec<Place> {
        let (policy, chosen) = (self.options.policy, self.chosen);
        let replaces_chosen = is_backup
            && self
                .members
                .iter()
                .any(|member| Some(member.state.id) == chosen && !member.state.options.is_backup);
        let is_usable = |member: &Member| {
            member.state.options.weight > 0
                && member.state.is_healthy
                && member.has_room(self.options.connections_max)
                && !except.contains(&member.state.id)
                && (breakers == Breakers::Ignored || member.breaker.lets_pass(now_ns))
        };
        let share_of = |(index, member): (usize, &Member)| {
            let state = &member.state;
            let has_share = state.options.is_backup == is_backup
                && state.options.weight > 0
                && (policy != Policy::Manual
                    || replaces_chosen
                    || chosen.is_none_or(|chosen| chosen == state.id));
            if !has_share {
                return None;
            }
            let user = match is_usable(member) {
                true => Some(index),
                false => self.stand_in(state.options.group?, key, is_usable),
            };
            Some(Place {
                user: user?,
                share_of: index,
            })
        };
        self.members.iter().enumerate().filter_map(share_of).collect()
    }

    /// The member of a group that takes the share of one that cannot be used: a main one, else a backup.
    fn stand_in(&self, group: u32, key: u64, is_usable: impl Fn(&Member) -> bool) -> Option<usize> {
        let members = self.members.iter().enumerate();
        let usable =
            members.filter(|(_, member)| member.state.options.group == Some(group) && is_usable(member));
        let order = |(_, member): &(usize, &Member)| {
            let state = &member.state;
            let last = match self.options.policy {
                // The same one for the same key.
                Policy::ConsistentHash => mix(key ^ member.hash),
                // The one that has been used least, for its weight.
                _ => state.chosen / u64::from(state.options.weight.max(1)),
            };
            (state.options.is_backup, last)
        };
        usable.min_by_key(order).map(|(index, _)| index)
    }

    fn choose_among(&mut self, places: &[Place], key: u64, choose: &mut Choose<'_>) -> Option<usize> {
        if places.is_empty() {
            return None;
        }
        let options = |place: &Place| Some(&self.members.get(place.user)?.state.options);
        let offered: Vec<&MemberOptions> = places.iter().filter_map(options).collect();
        if let Some(place) = choose(&offered).and_then(|index| places.get(index)) {
            return Some(place.user);
        }
        let mut candidates = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            // Both are in the order of the members.
            if places.iter().any(|place| place.share_of == index) {
                candidates.push(Candidate {
                    weight: member.state.options.weight,
                    hash: member.hash,
                    credit: &mut member.credit,
                });
            }
        }
        let found = match self.options.policy {
            Policy::WeightedRandom => weighted_random(&candidates, &mut self.random),
            Policy::RoundRobin => round_robin(&mut candidates),
            Policy::ConsistentHash => rendezvous(&candidates, key),
            // Before the first choice, the first.
            Policy::Manual => Some(0),
        };
        places.get(found?).map(|place| place.user)
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

    #[test]
    fn while_all_breakers_are_open_members_are_tried_again() {
        let (mut group, ids) = group(Policy::RoundRobin, &[1, 1]);
        for id in &ids {
            group.failed(*id, "gone", 0);
            group.failed(*id, "gone", 0);
        }
        assert_eq!(group.pick(0, 0, &[]), None);
        group.options.restores = true;
        let tried = group.pick(0, 0, &[]).expect("one of them");
        let other = group.pick(0, 0, &[tried]).expect("the other one");
        assert_ne!(tried, other);
        group.failed(tried, "gone", 0);
        group.succeeded(other);
        for _ in 0..4 {
            assert_eq!(
                group.pick(0, 0, &[]),
                Some(other),
                "one is back: the open one stays open"
            );
        }
        assert_eq!(group.pick(0, 0, &ids), None, "but none that this call has tried");
        group.probed(other, false);
        group.probed(other, false);
        assert_eq!(group.pick(0, 0, &[]), Some(tried), "nor one that probes find ill");
    }

    /// Two groups of a main and a backup each, and a main member without a group.
    fn grouped(policy: Policy) -> (Group, Vec<MemberId>) {
        let (mut group, mut ids) = group(policy, &[2]);
        for (port, number, is_backup) in [(11, 1, false), (12, 1, true), (21, 2, false), (22, 2, true)] {
            let options = MemberOptions {
                group: Some(number),
                is_backup,
                ..MemberOptions::new(address(port))
            };
            ids.push(group.add(options).expect("room"));
        }
        (group, ids)
    }

    #[test]
    fn the_share_of_a_member_goes_to_the_backup_of_its_group() {
        let (mut group, ids) = grouped(Policy::RoundRobin);
        let of = |counts: &HashMap<MemberId, u64>| {
            ids.iter()
                .map(|id| counts.get(id).copied().unwrap_or(0))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&counts(&mut group, 40)), [20, 10, 0, 10, 0]);
        group.failed(ids[1], "gone", 0);
        group.failed(ids[1], "gone", 0);
        assert_eq!(
            of(&counts(&mut group, 40)),
            [20, 0, 10, 10, 0],
            "its backup has its share"
        );
        group.failed(ids[2], "gone", 0);
        group.failed(ids[2], "gone", 0);
        let left = of(&counts(&mut group, 30));
        assert_eq!(
            left,
            [20, 0, 0, 10, 0],
            "a group without any leaves its share to all"
        );
        group.probed(ids[0], false);
        group.probed(ids[0], false);
        assert_eq!(
            of(&counts(&mut group, 10)),
            [0, 0, 0, 10, 0],
            "without a group, too"
        );
    }

    #[test]
    fn the_keys_of_a_member_go_to_the_backup_of_its_group_and_no_others_move() {
        let (mut group, ids) = grouped(Policy::ConsistentHash);
        let keys = |group: &mut Group| -> Vec<MemberId> {
            (0..2_000)
                .map(|key| group.pick(key, 0, &[]).expect("one"))
                .collect()
        };
        let before = keys(&mut group);
        group.failed(ids[3], "gone", 0);
        group.failed(ids[3], "gone", 0);
        let after = keys(&mut group);
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after);
        assert!(moved.clone().count() > 300);
        assert!(
            moved
                .clone()
                .all(|(before, after)| (*before, *after) == (ids[3], ids[4]))
        );
    }

    #[test]
    fn a_function_chooses_among_those_that_can_be_used() {
        let (mut group, ids) = group(Policy::RoundRobin, &[1, 1, 1]);
        let mut last = |members: &[&MemberOptions]| members.len().checked_sub(1);
        assert_eq!(group.pick_by(0, 0, &[], &mut last), Some(ids[2]));
        assert_eq!(
            group.pick_by(0, 0, &[ids[2]], &mut last),
            Some(ids[1]),
            "of those that are left"
        );
        let found = (0..3).map(|_| group.pick_by(0, 0, &[], &mut |_| Some(99)));
        let mut found: Vec<_> = found.collect();
        found.sort();
        assert_eq!(
            found,
            ids.iter().copied().map(Some).collect::<Vec<_>>(),
            "one that is not there is none"
        );
    }

    #[test]
    fn a_member_has_a_limit_of_its_own() {
        let (mut group, ids) = group(Policy::RoundRobin, &[1, 1]);
        let options = MemberOptions {
            connections_max: Some(1),
            ..MemberOptions::new(address(1))
        };
        assert_eq!(group.add(options).expect("known"), ids[0]);
        group.connected(ids[0], true);
        assert!(group.is_full(ids[0]) && !group.is_full(ids[1]));
        assert_eq!(counts(&mut group, 4).len(), 1);
    }
}
