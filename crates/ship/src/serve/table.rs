//! The connections of one poller, each in a slot whose token its events bear.

use super::connection::ServerConnection;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;

/// Bits of a token that number the slot; those above are its generation.
const INDEX_BITS: u32 = 32;
const _: () = assert!(usize::BITS == 64, "a token holds a slot and its generation");
/// Generations stay below the tokens of listeners and of the waker.
const GENERATION_MASK: u32 = 0x7fff_ffff;

/// Place for one connection.
pub(super) struct Slot {
    pub(super) connection: Option<Box<ServerConnection>>,
    /// Rises with each connection in this slot, so that no late event or response reaches the next one.
    generation: u32,
    interest: Interest,
    /// The peer sends no more: bytes that are still there are followed by the end, without a further event.
    pub(super) is_read_closed: bool,
    /// The connection is in the list of those to be read in the next round.
    pub(super) is_unread: bool,
}

impl Slot {
    fn empty() -> Self {
        Self {
            connection: None,
            generation: 0,
            interest: Interest::READABLE,
            is_read_closed: false,
            is_unread: false,
        }
    }

    /// Makes the event loop watch for `interest`, and look at once whether it is there already.
    pub(super) fn set_interest(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        if interest == self.interest {
            return Ok(());
        }
        self.interest = interest;
        match self.connection.as_ref().and_then(|one| one.link.descriptor()) {
            Some(descriptor) => registry.reregister(&mut SourceFd(&descriptor.as_raw_fd()), token, interest),
            None => Ok(()),
        }
    }
}

/// Connections by slot, and the order in which those without a hello came.
#[derive(Default)]
pub(super) struct ConnectionTable {
    pub(super) slots: Vec<Slot>,
    free: Vec<usize>,
    /// Connections in the order in which they came, until a sweep finds that they are established.
    pre_handshake: VecDeque<Token>,
}

impl ConnectionTable {
    /// Slot of a token's connection; `None` when that is gone.
    pub(super) fn index_of(&self, token: Token) -> Option<usize> {
        let index = token.0 & ((1 << INDEX_BITS) - 1);
        let slot = self.slots.get(index)?;
        (slot.generation as usize == token.0 >> INDEX_BITS && slot.connection.is_some()).then_some(index)
    }

    /// Token of the connection in a slot.
    pub(super) fn token_of(&self, index: usize) -> Token {
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation);
        Token((generation as usize) << INDEX_BITS | index)
    }

    /// Connection in a slot.
    pub(super) fn connection(&mut self, index: usize) -> Option<&mut ServerConnection> {
        self.slots.get_mut(index)?.connection.as_deref_mut()
    }

    /// Gives a connection a slot and watches for what it sends; gives it back when the system refuses that.
    pub(super) fn insert(
        &mut self,
        registry: &Registry,
        connection: Box<ServerConnection>,
    ) -> Result<usize, Box<ServerConnection>> {
        let index = self.free.pop().unwrap_or(self.slots.len());
        if index == self.slots.len() {
            self.slots.push(Slot::empty());
        }
        let token = self.token_of(index);
        let is_registered = connection.link.descriptor().is_some_and(|descriptor| {
            let mut source = SourceFd(&descriptor.as_raw_fd());
            registry.register(&mut source, token, Interest::READABLE).is_ok()
        });
        let Some(slot) = self.slots.get_mut(index).filter(|_| is_registered) else {
            self.free.push(index);
            return Err(connection);
        };
        if !connection.session.is_established {
            self.pre_handshake.push_back(token);
        }
        slot.connection = Some(connection);
        slot.interest = Interest::READABLE;
        slot.is_read_closed = false;
        slot.is_unread = false;
        Ok(index)
    }

    /// Takes a connection out of its slot and out of the event loop.
    pub(super) fn remove(&mut self, registry: &Registry, index: usize) -> Option<Box<ServerConnection>> {
        let slot = self.slots.get_mut(index)?;
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MASK;
        if let Some(descriptor) = connection.link.descriptor() {
            // Closing it does the same.
            let _ = registry.deregister(&mut SourceFd(&descriptor.as_raw_fd()));
        }
        self.free.push(index);
        Some(connection)
    }

    /// The connection that has been here longest without a hello.
    pub(super) fn oldest_pre_handshake(&mut self) -> Option<usize> {
        while let Some(token) = self.pre_handshake.pop_front() {
            let index = self.index_of(token);
            let found = index.filter(|index| {
                self.connection(*index)
                    .is_some_and(|one| !one.session.is_established)
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Forgets the order of those that are established or gone.
    pub(super) fn prune_pre_handshake(&mut self) {
        let mut waiting = std::mem::take(&mut self.pre_handshake);
        waiting.retain(|token| {
            let index = self.index_of(*token);
            index.is_some_and(|index| {
                self.connection(index)
                    .is_some_and(|one| !one.session.is_established)
            })
        });
        self.pre_handshake = waiting;
    }
}
