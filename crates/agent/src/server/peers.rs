//! Peers of a server: their connections and sessions, and what they get of what they ask for.

use super::connections::Connections;
use super::descriptor_closer::DescriptorCloser;
use super::event::{End, Event};
use super::options::ServerOptions;
use super::sessions::Sessions;
use logdrive_drain::ClientProcess;

/// Processes and tools, as far as their messages reach.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) options: ServerOptions,
    pub(super) connections: Connections,
    pub(super) sessions: Sessions,
    pub(super) descriptor_closer: DescriptorCloser,
    /// Events for the owner of the server.
    pub(super) events: Vec<Event>,
    pub(super) joined: u64,
    pub(super) adopted: u64,
}

impl Peers {
    /// Forgets a session that has ended, and reports its end to the owner.
    pub(super) fn end_session(&mut self, session: u64, end: Option<End>) {
        let Some(end) = end else { return };
        if let Some(served) = self.sessions.remove(session) {
            if let Some(key) = served.connection {
                self.connections.close(key);
            }
            let session = served.session;
            self.events.push(Event::Left { session, end });
        }
    }

    /// Reports the ends of processes whose sessions are over to the owner.
    pub(super) fn report_ended(&mut self, ended: impl IntoIterator<Item = (ClientProcess, String)>) {
        let events = ended.into_iter();
        let events = events.map(|(client, text)| Event::Ended { client, text });
        self.events.extend(events);
    }
}
