//! The spans that the calling thread has entered, with the bytes of their scopes, so that an event copies bytes only.
//!
//! The scope of a span is that of its parent and its own bytes behind it. A span that is entered inside of its parent
//! shares the parent's bytes; any other brings its ancestors' along.

use super::spans::{self, SpanKey};
use crate::dynamic::limits::SCOPE_BYTES_MAX;
use logdrive_wire::limits::SCOPE_DEPTH_MAX;
use std::cell::RefCell;
use tracing_core::Metadata;

thread_local! {
    static CONTEXT: RefCell<Context> = const { RefCell::new(Context::NEW) };
}

#[derive(Debug)]
struct Context {
    /// In the order in which they were entered.
    entered: Vec<Entered>,
    /// The scopes of all of them.
    scopes: Vec<u8>,
    /// The state of the spans' fields that the scopes show.
    epoch: u64,
    made: Made,
}

/// The span that the thread made last: it is mostly entered next, and then needs no look at the shared places.
#[derive(Debug)]
struct Made {
    key: SpanKey,
    metadata: Option<&'static Metadata<'static>>,
    parent: SpanKey,
    bytes: Vec<u8>,
    /// The state of the spans' fields then.
    epoch: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entered {
    key: SpanKey,
    metadata: &'static Metadata<'static>,
    /// Where its scope lies.
    start: usize,
    end: usize,
    /// Spans in it.
    depth: usize,
}

/// Opens a span. Without a parent of its own it lies in the calling thread's innermost one.
#[inline]
pub(super) fn open(metadata: &'static Metadata<'static>, parent: Option<SpanKey>, bytes: &[u8]) -> SpanKey {
    with(|context| {
        let current = context
            .entered
            .last()
            .map_or(SpanKey::NONE, |entered| entered.key);
        let parent = parent.unwrap_or(current);
        let epoch = spans::epoch();
        let key = spans::open(metadata, parent, bytes);
        let made = &mut context.made;
        made.key = key;
        made.metadata = Some(metadata);
        made.parent = parent;
        made.epoch = epoch;
        made.bytes.clear();
        made.bytes.extend_from_slice(bytes);
        key
    })
    .unwrap_or_else(|| spans::open(metadata, parent.unwrap_or(SpanKey::NONE), bytes))
}

/// The calling thread is inside of the span from now on. Does nothing for a span that has been closed.
#[inline]
pub(super) fn enter(key: SpanKey) {
    with(|context| {
        if context.entered.is_empty() {
            context.epoch = spans::epoch();
        }
        context.push(key);
    });
}

/// The calling thread is not inside of the span any more, whatever else it has entered since.
#[inline]
pub(super) fn exit(key: SpanKey) {
    with(|context| {
        if let Some(at) = context.entered.iter().rposition(|entered| entered.key == key) {
            context.entered.remove(at);
            // Where it was not the innermost, its bytes stay until those above it go.
            let end = context.entered.last().map_or(0, |entered| entered.end);
            if at == context.entered.len() {
                context.scopes.truncate(end);
            }
        }
    });
}

/// The innermost span that the calling thread is inside of.
#[inline]
pub(super) fn current() -> Option<(SpanKey, &'static Metadata<'static>)> {
    with(|context| {
        context
            .entered
            .last()
            .map(|entered| (entered.key, entered.metadata))
    })
    .flatten()
}

/// Shows the scope of the calling thread's innermost span; empty outside of all spans. `look` runs no foreign code.
#[inline]
pub(super) fn with_current_scope(look: impl Fn(&[u8])) {
    let shown = with(|context| look(context.current_scope()));
    // A signal handler that interrupted one of the functions here, or a thread that is ending.
    if shown.is_none() {
        look(&[]);
    }
}

/// Shows the scope of any span. `look` runs no foreign code.
pub(super) fn with_scope_of(key: SpanKey, look: impl Fn(&[u8])) {
    let shown = with(|context| {
        // Behind the others, for a moment.
        let start = context.scopes.len();
        append_scope(key, &mut context.scopes);
        look(context.scopes.get(start..).unwrap_or(&[]));
        context.scopes.truncate(start);
    });
    if shown.is_none() {
        look(&[]);
    }
}

/// Appends the scope of any span; tells how many spans it has.
fn append_scope(key: SpanKey, out: &mut Vec<u8>) -> usize {
    let mut chain = [SpanKey::NONE; SCOPE_DEPTH_MAX];
    let mut depth = 0;
    let mut at = key;
    // The innermost spans say most where there are too many.
    for place in &mut chain {
        match spans::with(at, |span| span.parent) {
            Some(parent) => {
                *place = at;
                at = parent;
                depth += 1;
            }
            None => break,
        }
    }
    let start = out.len();
    for key in chain.iter().take(depth).rev() {
        spans::with(*key, |span| {
            if out.len() - start + span.bytes.len() <= SCOPE_BYTES_MAX {
                out.extend_from_slice(&span.bytes);
            }
        });
    }
    depth
}

#[inline]
fn with<R>(work: impl FnOnce(&mut Context) -> R) -> Option<R> {
    CONTEXT
        .try_with(|context| {
            context
                .try_borrow_mut()
                .ok()
                .map(|mut context| work(&mut context))
        })
        .ok()
        .flatten()
}

impl Context {
    const NEW: Context = Context {
        entered: Vec::new(),
        scopes: Vec::new(),
        epoch: 0,
        made: Made {
            key: SpanKey::NONE,
            metadata: None,
            parent: SpanKey::NONE,
            bytes: Vec::new(),
            epoch: 0,
        },
    };

    #[inline]
    fn current_scope(&mut self) -> &[u8] {
        if self.entered.is_empty() {
            return &[];
        }
        if self.epoch != spans::epoch() {
            self.renew();
        }
        self.entered
            .last()
            .and_then(|last| self.scopes.get(last.start..last.end))
            .unwrap_or(&[])
    }

    #[inline]
    fn push(&mut self, key: SpanKey) {
        let above = self.entered.last().copied();
        if let Some(entered) = self.append(key, above) {
            self.entered.push(entered);
        }
    }

    /// Appends a span's scope; if `above` is its parent, behind that one's bytes, which are the last of all.
    #[inline]
    fn append(&mut self, key: SpanKey, above: Option<Entered>) -> Option<Entered> {
        let (scopes, made) = (&mut self.scopes, &self.made);
        let (metadata, shared) = if made.key == key && made.epoch == spans::epoch() {
            (made.metadata, append_own(scopes, made.parent, &made.bytes, above))
        } else {
            spans::with(key, |span| {
                (span.metadata, append_own(scopes, span.parent, &span.bytes, above))
            })?
        };
        let (start, depth) = match shared {
            Some((start, depth)) => (start, depth + 1),
            None => (self.scopes.len(), append_scope(key, &mut self.scopes)),
        };
        Some(Entered {
            key,
            metadata: metadata?,
            start,
            end: self.scopes.len(),
            depth,
        })
    }

    /// Makes all scopes anew, after fields of some span have changed.
    #[cold]
    fn renew(&mut self) {
        // Before the fields are read, so that no change after it is missed.
        self.epoch = spans::epoch();
        self.scopes.clear();
        let mut above = None;
        for at in 0..self.entered.len() {
            let Some(earlier) = self.entered.get(at).copied() else {
                break;
            };
            let end = self.scopes.len();
            // A span that was closed while it was entered shows nothing any more.
            let entered = self.append(earlier.key, above).unwrap_or(Entered {
                start: end,
                end,
                depth: 0,
                ..earlier
            });
            if let Some(place) = self.entered.get_mut(at) {
                *place = entered;
            }
            above = Some(entered);
        }
    }
}

/// Appends a span's own bytes where that makes its scope: behind its parent's, or where it has none. Gives the scope's
/// start, and how many spans were in it before.
#[inline]
fn append_own(
    scopes: &mut Vec<u8>,
    parent: SpanKey,
    bytes: &[u8],
    above: Option<Entered>,
) -> Option<(usize, usize)> {
    let (start, depth) = match above {
        Some(above) if above.key == parent => (above.start, above.depth),
        _ if parent == SpanKey::NONE => (scopes.len(), 0),
        _ => return None,
    };
    if depth >= SCOPE_DEPTH_MAX || scopes.len() - start + bytes.len() > SCOPE_BYTES_MAX {
        return None;
    }
    scopes.extend_from_slice(bytes);
    Some((start, depth))
}
