//! Connections to the members of a group, and the thread that maintains them.

use super::chooser::{Chooser, Wanted};
use super::member_sender::CachedSender;
use crate::client::loses_connection;
use crate::{Client, Sender};
use logdrive_ship::limits::UPSTREAM_TICK_MS;
use logdrive_ship::upstream::{BreakerState, Group, GroupOptions, MemberId, MemberOptions, MemberState};
use logdrive_ship::{Address, Options, Timeouts, TransportError};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Options of an upstream. Time limits of connections are those of [`Options`]: `timeouts.connect`, `timeouts.response`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamOptions {
    /// Choice of members. By default those whose breakers are open are tried while all others cannot be used, too.
    pub group: GroupOptions,
    /// Connections to each member that are made ahead. Default: 0.
    pub connections_ahead: usize,
    /// A connection that was idle for so long is closed. Default: 20 s, less than a server waits.
    pub idle_timeout: Duration,
    /// Number of other members that are tried. What is tried again may have been done already. Default: 1.
    pub retries: u32,
}

impl Default for UpstreamOptions {
    fn default() -> Self {
        Self {
            group: GroupOptions {
                restores: true,
                ..GroupOptions::default()
            },
            connections_ahead: 0,
            idle_timeout: Duration::from_secs(20),
            retries: 1,
        }
    }
}

/// Operation on a connection.
type Operation<'a> = dyn FnMut(&mut Client) -> Result<(), TransportError> + 'a;

/// Returns whether the connection is as good as before: it went well, or the fault is not the member's.
fn is_answer(result: &Result<(), TransportError>) -> bool {
    matches!(
        result,
        Ok(()) | Err(TransportError::Failed(_) | TransportError::TooLong { .. })
    )
}

#[derive(Debug)]
struct Idle {
    client: Client,
    since: Instant,
}

#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) group: Group,
    idle: HashMap<MemberId, Vec<Idle>>,
    /// Senders of messages one way, for each member that is used so.
    pub(super) senders: HashMap<MemberId, CachedSender>,
    probed_at: HashMap<MemberId, Instant>,
    chooser: Chooser,
    ends: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<PoolState>,
    /// A connection has become free, a member has come, or it ends.
    changed: Condvar,
    pub(super) transport: Options,
    pub(super) options: UpstreamOptions,
    /// Messages that went one way and are lost with their connection.
    pub(super) lost: Arc<AtomicU64>,
    began: Instant,
}

/// A named group of addresses that do the same: answer requests ([`Upstream::call`]), take messages one way with an
/// acknowledgement ([`Upstream::deliver`]) or without one ([`Upstream::send`]). Any number of threads may use it at
/// once.
///
/// ```no_run
/// use logdrive_ship::Options;
/// use logdrive_messaging::{Upstream, UpstreamOptions};
/// use logdrive_ship::upstream::MemberOptions;
/// let members = ["tcp://127.0.0.1:7140", "tcp://127.0.0.1:7141"];
/// let upstream = Upstream::start("rates", UpstreamOptions::default(), &Options::default())?;
/// for member in members {
///     upstream.add(MemberOptions::new(member.parse()?))?;
/// }
/// let mut reply = Vec::new();
/// upstream.call(0, b"EUR", &mut reply)?;
/// upstream.deliver(0, &["EUR 1.0870"])?;
/// upstream.send(0, b"EUR 1.0871")?;
/// upstream.flush()?;
/// # Ok::<(), logdrive_ship::TransportError>(())
/// ```
#[derive(Debug)]
pub struct Upstream {
    pub(super) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, PoolState> {
        // A thread that panicked has left whole lists.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Picks a member, with what `pick` finds for it. Waits while all members have as many connections as they may.
    pub(super) fn acquire<T>(
        &self,
        tried: &[MemberId],
        mut pick: impl FnMut(&mut PoolState, u64) -> Option<T>,
    ) -> Result<T, TransportError> {
        let end = Instant::now() + self.transport.timeouts.response;
        let mut inner = self.lock();
        loop {
            if let Some(found) = pick(&mut inner, self.now_ns()) {
                return Ok(found);
            }
            let mut members = inner.group.members();
            let is_full = members.any(|member| inner.group.is_full(member.id) && !tried.contains(&member.id));
            drop(members);
            let left = end.saturating_duration_since(Instant::now());
            if !is_full || left.is_zero() || inner.ends {
                let last = inner.unavailable_reason(is_full);
                return Err(TransportError::NoMember { last });
            }
            let waited = self.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes the threads that wait for room.
    pub(super) fn notify_room(&self) {
        self.changed.notify_all();
    }

    /// A connection has served, or is gone.
    pub(super) fn return_connection(&self, id: MemberId, client: Option<Client>) {
        let mut inner = self.lock();
        match client.filter(|_| inner.group.address(id).is_some() && !inner.ends) {
            Some(client) => inner.idle.entry(id).or_default().push(Idle {
                client,
                since: Instant::now(),
            }),
            None => inner.group.connected(id, false),
        }
        drop(inner);
        self.notify_room();
    }

    /// Time limits of a member.
    fn timeouts_for(&self, id: MemberId) -> Timeouts {
        let mut timeouts = self.transport.timeouts.clone();
        if let Some(member) = self.lock().group.member_options(id) {
            let own = member.timeouts;
            timeouts.connect = own.connect.unwrap_or(timeouts.connect);
            timeouts.response = own.response.unwrap_or(timeouts.response);
        }
        timeouts
    }

    /// Options of connections to a member.
    pub(super) fn options_for(&self, id: MemberId) -> Options {
        Options {
            timeouts: self.timeouts_for(id),
            ..self.transport.clone()
        }
    }

    /// Connects. What it takes is taken off the time for the response.
    fn connect(&self, id: MemberId, address: &Address, end: Instant) -> Result<Client, TransportError> {
        let mut transport = self.options_for(id);
        let timeouts = &mut transport.timeouts;
        timeouts.connect = timeouts
            .connect
            .min(end.saturating_duration_since(Instant::now()));
        match Client::connect(address, &transport) {
            Ok(client) => {
                let mut client = client.without_reconnect();
                client.set_response_timeout(end.saturating_duration_since(Instant::now()));
                Ok(client)
            }
            Err(error) => {
                self.return_connection(id, None);
                Err(error)
            }
        }
    }

    /// Does something with a connection to a member, and puts it back where it can be used again. The time for a response
    /// covers the connection, where one has to be made.
    fn attempt_once(
        &self,
        id: MemberId,
        address: &Address,
        idle: Option<Client>,
        operation: &mut Operation<'_>,
    ) -> Result<(), TransportError> {
        let was_idle = idle.is_some();
        let response = self.timeouts_for(id).response;
        let end = Instant::now() + response;
        let mut client = match idle {
            Some(client) => client,
            None => self.connect(id, address, end)?,
        };
        let mut result = operation(&mut client);
        if was_idle && result.as_ref().is_err_and(loses_connection) {
            // A connection that was closed while idle says nothing about the member.
            drop(client);
            client = self.connect(id, address, end)?;
            result = operation(&mut client);
        }
        client.set_response_timeout(response);
        self.return_connection(id, is_answer(&result).then_some(client));
        result
    }

    /// Does something with a member; where it cannot be reached, or is lost, or takes too long, with another one.
    fn with_retries(&self, wanted: Wanted<'_>, operation: &mut Operation<'_>) -> Result<(), TransportError> {
        let mut tried = Vec::new();
        loop {
            let (id, address, idle) =
                self.acquire(&tried, |inner, now_ns| inner.acquire_idle(wanted, now_ns, &tried))?;
            let result = self.attempt_once(id, &address, idle, operation);
            if is_answer(&result) {
                self.lock().group.succeeded(id);
                return result;
            }
            if let Err(TransportError::OneWay { .. }) = result {
                // No request was sent: the member's state does not change.
                self.lock().group.withdrawn(id);
                return result;
            }
            if let Err(error) = &result {
                self.member_failed(id, error);
            }
            tried.push(id);
            if tried.len() > self.options.retries as usize {
                return result;
            }
        }
    }

    /// Notes that an attempt at a member failed.
    pub(super) fn member_failed(&self, id: MemberId, error: &TransportError) {
        let now_ns = self.now_ns();
        self.lock().group.failed(id, &error.to_string(), now_ns);
    }

    /// Probes members, closes what is idle, connects ahead.
    fn maintain(&self) {
        let mut due = Vec::new();
        let mut inner = self.lock();
        let now = Instant::now();
        inner.close_idle(now, self.options.idle_timeout);
        let silent = inner.remove_idle_senders(now, self.options.idle_timeout);
        let members: Vec<MemberState> = inner.group.members().collect();
        for member in members {
            let idle = inner.idle.get(&member.id).map_or(0, Vec::len);
            let needs_connection = idle < self.options.connections_ahead
                && !matches!(member.options.address, Address::Udp(_))
                && member.is_healthy
                && !inner.group.is_full(member.id)
                && matches!(member.breaker, BreakerState::Closed { failures: 0 });
            let is_probe_due = self.options.group.health.is_some_and(|health| {
                let probed_at = inner.probed_at.get(&member.id);
                probed_at.is_none_or(|at| now.duration_since(*at) >= health.every)
            });
            if needs_connection || is_probe_due {
                inner.probed_at.insert(member.id, now);
                inner.group.connected(member.id, true);
                due.push((member.id, member.options.address, needs_connection, is_probe_due));
            }
        }
        drop(inner);
        // They send what they have, without holding anybody up.
        drop(silent);
        self.notify_room();
        for (id, address, keeps, is_probe) in due {
            let made = probe(&address, &self.options_for(id));
            match &made {
                Err(error) if !is_probe => self.member_failed(id, error),
                made if is_probe => self.lock().group.probed(id, made.is_ok()),
                _ => {}
            }
            self.return_connection(id, made.ok().flatten().filter(|_| keeps));
        }
    }
}

/// Connects, which is all that a look takes. Datagrams have no connection to be kept.
fn probe(address: &Address, transport: &Options) -> Result<Option<Client>, TransportError> {
    if let Address::Udp(_) = address {
        let at_once = Options {
            linger: Duration::ZERO,
            ..transport.clone()
        };
        return Sender::connect_once(address, &at_once).map(|_| None);
    }
    Client::connect(address, transport).map(|client| Some(client.without_reconnect()))
}

impl PoolState {
    fn acquire_idle(
        &mut self,
        wanted: Wanted<'_>,
        now_ns: u64,
        tried: &[MemberId],
    ) -> Option<(MemberId, Address, Option<Client>)> {
        // One that is free needs no further connection, so that the limit is not asked.
        let free: Vec<MemberId> = self.idle_members().collect();
        let id = self.pick_beside(&free, wanted, now_ns, tried)?;
        let client = self.idle.get_mut(&id).and_then(Vec::pop).map(|idle| idle.client);
        if client.is_none() {
            self.group.connected(id, true);
        }
        let address = self.group.address(id)?.clone();
        Some((id, address, client))
    }

    /// Chooses among the members with these as if each of them had a connection less.
    pub(super) fn pick_beside(
        &mut self,
        free: &[MemberId],
        wanted: Wanted<'_>,
        now_ns: u64,
        tried: &[MemberId],
    ) -> Option<MemberId> {
        for id in free {
            self.group.connected(*id, false);
        }
        let chooser = &self.chooser;
        let mut choose = |members: &[&MemberOptions]| chooser.choose(wanted, members);
        let picked = self.group.pick_by(wanted.key, now_ns, tried, &mut choose);
        for id in free {
            self.group.connected(*id, true);
        }
        picked
    }

    /// Closes an idle connection of a member, to make room for another. Dropping it says goodbye.
    pub(super) fn take_free(&mut self, id: MemberId) -> Option<Client> {
        let idle = self.idle.get_mut(&id).and_then(Vec::pop)?;
        self.group.connected(id, false);
        Some(idle.client)
    }

    pub(super) fn idle_members(&self) -> impl Iterator<Item = MemberId> {
        let idle = self.idle.iter().filter(|(_, idle)| !idle.is_empty());
        idle.map(|(id, _)| *id)
    }

    pub(super) fn unavailable_reason(&self, is_full: bool) -> String {
        if is_full {
            return "all connections were in use for too long".to_owned();
        }
        let mut members = self.group.members().peekable();
        if members.peek().is_none() {
            return format!("{} has no members", self.group.name());
        }
        let told = members.filter(|member| !member.failure.is_empty());
        let last = told.map(|member| member.failure).last();
        last.unwrap_or_else(|| "all members are given up for a while".to_owned())
    }

    fn close_idle(&mut self, now: Instant, idle_timeout: Duration) {
        let group = &mut self.group;
        for (id, idle) in &mut self.idle {
            let is_gone = group.address(*id).is_none();
            idle.retain(|one| {
                let stays = !is_gone && now.duration_since(one.since) < idle_timeout;
                if !stays {
                    group.connected(*id, false);
                }
                stays
            });
        }
        self.idle.retain(|_, idle| !idle.is_empty());
    }
}

impl Upstream {
    /// Starts one without members, with a thread that maintains connections.
    ///
    /// # Errors
    /// Fails when an option is out of bounds, or the thread cannot be started.
    pub fn start(name: &str, options: UpstreamOptions, transport: &Options) -> Result<Self, TransportError> {
        transport.check()?;
        let shared = Arc::new(Shared {
            inner: Mutex::new(PoolState {
                group: Group::new(name, options.group.clone()),
                idle: HashMap::new(),
                senders: HashMap::new(),
                probed_at: HashMap::new(),
                chooser: Chooser::default(),
                ends: false,
            }),
            changed: Condvar::new(),
            transport: transport.clone(),
            options,
            lost: Arc::default(),
            began: Instant::now(),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("logdrive-upstream".to_owned())
            .spawn(move || {
                let tick = Duration::from_millis(UPSTREAM_TICK_MS);
                loop {
                    own.maintain();
                    let inner = own.lock();
                    let waited = own.changed.wait_timeout_while(inner, tick, |inner| !inner.ends);
                    if waited.unwrap_or_else(PoisonError::into_inner).0.ends {
                        return;
                    }
                }
            })
            .map_err(TransportError::system("start a thread"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Adds a member, or changes the one with this address, while it runs.
    ///
    /// # Errors
    /// Fails when it may not be used, or there are too many.
    pub fn add(&self, member: MemberOptions) -> Result<(), TransportError> {
        member.address.check(self.shared.transport.insecure)?;
        self.shared.lock().group.add(member)?;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Removes a member while it runs; requests that are under way there are answered. `false` when there is none.
    pub fn remove(&self, address: &Address) -> bool {
        let mut inner = self.shared.lock();
        let Some(id) = inner.group.remove(address) else {
            return false;
        };
        inner.probed_at.remove(&id);
        let gone = (inner.idle.remove(&id), inner.senders.remove(&id));
        drop(inner);
        // They say goodbye without holding anybody up.
        drop(gone);
        true
    }

    /// Lets a function choose the member of each request, by its key and its bytes, of those that can be used: it gives an
    /// index, or `None` for the policy's choice. It is called with the group locked, so it is quick and uses no upstream;
    /// one that panics chooses none.
    ///
    /// ```no_run
    /// # use logdrive_messaging::{Upstream, UpstreamOptions};
    /// # let upstream = Upstream::start("rates", UpstreamOptions::default(), &logdrive_ship::Options::default())?;
    /// upstream.choose_by(|_, request, members| match request {
    ///     [b'E', ..] => members.iter().position(|member| member.weight > 1),
    ///     _ => None,
    /// });
    /// # Ok::<(), logdrive_ship::TransportError>(())
    /// ```
    pub fn choose_by(
        &self,
        choice: impl Fn(u64, &[u8], &[&MemberOptions]) -> Option<usize> + Send + 'static,
    ) {
        self.shared.lock().chooser = Chooser::new(choice);
    }

    /// See [`Group::choose`].
    pub fn choose(&self, address: &Address) -> bool {
        self.shared.lock().group.choose(address)
    }

    /// States of the members.
    pub fn members(&self) -> Vec<MemberState> {
        self.shared.lock().group.members().collect()
    }

    /// Asks a member, and appends its answer. Blocks until it is there; where a member cannot be reached, or is lost, or
    /// takes too long, another one is asked.
    ///
    /// # Errors
    /// Fails when no member could answer, or the service said that it failed.
    pub fn call(&self, key: u64, body: &[u8], reply: &mut Vec<u8>) -> Result<(), TransportError> {
        let start = reply.len();
        let wanted = Wanted { key, request: body };
        self.shared.with_retries(wanted, &mut |client| {
            reply.truncate(start);
            reply.extend_from_slice(client.call(body)?);
            Ok(())
        })
    }

    /// Sends messages one way to one member, and blocks until its service has taken all of them; see
    /// [`Client::deliver`]. On failure all of them go to another member, so that some may arrive twice.
    ///
    /// # Errors
    /// Fails when no member has acknowledged them, or one of them is too long.
    pub fn deliver<M: AsRef<[u8]>>(&self, key: u64, messages: &[M]) -> Result<(), TransportError> {
        let wanted = Wanted::of(key, messages);
        self.shared
            .with_retries(wanted, &mut |client| client.deliver(messages))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, it has said so itself.
            let _ = thread.join();
        }
    }
}
