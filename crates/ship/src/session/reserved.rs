//! Space for a message or a reply in the ring that it is read from.

use super::outbox::{Deferral, DeferredReply};
use logdrive_ring::{InPlace, PipeWriter, Reservation};

/// Bytes that are written where they will be read: in the ring, as long as there is room. For a reply to a request that
/// lies in a ring, and for a message, see `Batch::push_in_place` of `logdrive-messaging`.
///
/// ```
/// use logdrive_ship::session::{InPlace, Reserved};
/// let mut reply = Reserved::new();
/// reply.extend_from_slice(b"as ");
/// reply.extend_in_place(InPlace::from(&b"asked"[..]));
/// assert_eq!(reply.len(), 8);
/// ```
#[derive(Debug, Default)]
pub struct Reserved<'a> {
    reservation: Option<Reservation<'a>>,
    /// Bytes in front of the reservation's, for a header.
    head_bytes: usize,
    /// All of them, once they are more than the ring takes at the moment.
    spill: Vec<u8>,
    pub(super) deferral: Option<Deferral<'a>>,
}

impl<'a> Reserved<'a> {
    /// Bytes that are in no ring.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins behind room for a header; in no ring when that has no room.
    pub fn begin<const HEAD: usize>(writer: &'a mut PipeWriter) -> Self {
        let bytes_max = writer.piece_bytes_max();
        let mut reservation = writer.reserve(bytes_max);
        let has_room = reservation
            .as_mut()
            .is_some_and(|reservation| reservation.extend(&[0; HEAD]));
        Self {
            reservation: reservation.filter(|_| has_room),
            head_bytes: HEAD,
            spill: Vec::new(),
            deferral: None,
        }
    }

    /// Takes the right to answer later, as [`ReplyBuffer::defer`](super::ReplyBuffer::defer) does.
    ///
    /// # Errors
    /// As there.
    pub fn defer(&mut self) -> Result<DeferredReply, String> {
        self.deferral.ok_or("this request is answered at once")?.take()
    }

    /// Appends bytes. Allocates where the ring has no room.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.extend_in_place(InPlace::from(bytes));
    }

    /// As [`Reserved::extend_from_slice`], of bytes that lie in a ring.
    #[inline]
    pub fn extend_in_place(&mut self, bytes: InPlace<'_>) {
        let is_in = self
            .reservation
            .as_mut()
            .is_some_and(|reservation| reservation.extend_in_place(bytes));
        if !is_in {
            self.move_to_spill(bytes);
        }
    }

    #[cold]
    fn move_to_spill(&mut self, bytes: InPlace<'_>) {
        if let Some(reservation) = self.reservation.take() {
            let all = reservation.in_place();
            let written = all.slice(self.head_bytes, all.len().saturating_sub(self.head_bytes));
            written.unwrap_or(all).append_to(&mut self.spill);
        }
        bytes.append_to(&mut self.spill);
    }

    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        match &self.reservation {
            Some(reservation) => reservation.in_place().len().saturating_sub(self.head_bytes),
            None => self.spill.len(),
        }
    }

    /// Returns whether nothing has been appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes what lies in a ring visible behind this header, and gives none; or gives the bytes that lie in no ring.
    pub fn finish(mut self, head: &[u8]) -> Option<Vec<u8>> {
        match self.reservation.take() {
            Some(mut reservation) => {
                reservation.put(0, head);
                reservation.commit();
                None
            }
            None => Some(self.spill),
        }
    }
}
