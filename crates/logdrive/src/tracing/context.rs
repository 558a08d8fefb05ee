//! The spans that the calling thread has entered, with the bytes of their scopes, so that an event copies bytes only.
//!
//! The scope of a span is that of its parent and its own bytes behind it. A span that is entered inside of its parent
//! shares the parent's bytes; any other brings its ancestors' along.

use super::spans::{self, Span, SpanKey};
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

/// The span that the thread made last: it is mostly entered next, and then needs nothing of the shared places.
#[derive(Debug)]
struct Made {
    key: SpanKey,
    metadata: Option<&'static Metadata<'static>>,
    parent: SpanKey,
    /// The spans around it, and its own bytes behind them.
    bytes: Vec<u8>,
    around_bytes: usize,
    depth: usize,
    /// The state of the spans' fields then.
    epoch: u64,
    is_held: bool,
    holds_parent: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entered {
    key: SpanKey,
    metadata: &'static Metadata<'static>,
    /// Offset at which its scope begins.
    start: usize,
    end: usize,
    /// Number of spans in the scope.
    depth: usize,
    /// True if spans in it hold it.
    is_held: bool,
}

/// Opens a span. Without a parent of its own it lies in the calling thread's innermost one.
#[inline]
pub(super) fn open(
    metadata: &'static Metadata<'static>,
    parent: Option<SpanKey>,
    own: &[u8],
    may_change: bool,
) -> SpanKey {
    with(|context| context.open(metadata, parent, own, may_change)).unwrap_or(SpanKey::NONE)
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
        append_scope(key, SCOPE_DEPTH_MAX, &mut context.scopes);
        look(context.scopes.get(start..).unwrap_or(&[]));
        context.scopes.truncate(start);
    });
    if shown.is_none() {
        look(&[]);
    }
}

/// Appends the scope of any span, as it is now; returns its number of spans, `depth_max` at most. The innermost ones
/// say most where there are too many.
fn append_scope(key: SpanKey, depth_max: usize, out: &mut Vec<u8>) -> usize {
    let mut chain = [SpanKey::NONE; SCOPE_DEPTH_MAX];
    let mut depth = 0usize;
    let mut at = key;
    for place in chain.iter_mut().take(depth_max) {
        let Some(parent) = spans::parent_of(at) else { break };
        *place = at;
        at = parent;
        depth += 1;
    }
    let start = out.len();
    let fits = |out: &Vec<u8>, bytes: &[u8]| out.len() - start + bytes.len() <= SCOPE_BYTES_MAX;
    let mut outer = 0;
    if at != SpanKey::NONE
        && let Some(outermost) = chain.get(depth.wrapping_sub(1))
    {
        // Its parent has gone: what stood around it when it was made.
        spans::read(*outermost, |span| {
            if depth + span.depth - 1 <= depth_max && fits(out, span.around) {
                out.extend_from_slice(span.around);
                outer = span.depth - 1;
            }
        });
    }
    for key in chain.iter().take(depth).rev() {
        spans::read(*key, |span| {
            if fits(out, span.own) {
                out.extend_from_slice(span.own);
            }
        });
    }
    depth + outer
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
            around_bytes: 0,
            depth: 1,
            epoch: 0,
            is_held: false,
            holds_parent: false,
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

    fn open(
        &mut self,
        metadata: &'static Metadata<'static>,
        parent: Option<SpanKey>,
        own: &[u8],
        may_change: bool,
    ) -> SpanKey {
        let epoch = spans::epoch();
        if self.epoch != epoch {
            self.renew();
        }
        let parent_is_held = self.surround(parent);
        let made = &mut self.made;
        if made.depth > SCOPE_DEPTH_MAX || made.bytes.len() + own.len() > SCOPE_BYTES_MAX {
            made.bytes.clear();
            made.depth = append_scope(made.parent, SCOPE_DEPTH_MAX - 1, &mut made.bytes) + 1;
        }
        made.around_bytes = made.bytes.len();
        if made.bytes.len() + own.len() <= SCOPE_BYTES_MAX {
            made.bytes.extend_from_slice(own);
        }
        made.epoch = epoch;
        made.metadata = Some(metadata);
        made.holds_parent = parent_is_held && spans::share(made.parent);
        made.is_held = may_change || made.holds_parent;
        made.key = spans::open(metadata, made.span(), &made.bytes);
        made.key
    }

    /// Finds what stands around a new span; returns whether its parent is to be held.
    fn surround(&mut self, parent: Option<SpanKey>) -> bool {
        let made = &mut self.made;
        made.bytes.clear();
        made.depth = 1;
        made.parent = parent.unwrap_or(SpanKey::NONE);
        match (parent, self.entered.last()) {
            (None, Some(above)) => {
                made.parent = above.key;
                made.depth = above.depth + 1;
                let around = self.scopes.get(above.start..above.end);
                made.bytes.extend_from_slice(around.unwrap_or(&[]));
                above.is_held
            }
            (None | Some(SpanKey::NONE), _) => false,
            (Some(parent), _) => {
                made.depth = append_scope(parent, SCOPE_DEPTH_MAX, &mut made.bytes) + 1;
                spans::read(parent, |span| span.is_held).unwrap_or(false)
            }
        }
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
        let (metadata, is_held, laid) = if made.key == key && made.epoch == spans::epoch() {
            (made.metadata, made.is_held, lay(scopes, made.span(), above))
        } else {
            let metadata = spans::metadata_of(key);
            spans::read(key, |span| (metadata, span.is_held, lay(scopes, span, above)))?
        };
        let (start, depth) = match laid {
            Some(laid) => laid,
            None => {
                let start = self.scopes.len();
                (start, append_scope(key, SCOPE_DEPTH_MAX, &mut self.scopes))
            }
        };
        Some(Entered {
            key,
            metadata: metadata?,
            start,
            end: self.scopes.len(),
            depth,
            is_held,
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

/// Appends what a span adds to the spans above, where it lies in the innermost of them; else all of it, where nothing
/// has changed since it was made. Gives the scope's start, and how many spans are in it.
#[inline]
fn lay(scopes: &mut Vec<u8>, span: Span<'_>, above: Option<Entered>) -> Option<(usize, usize)> {
    if let Some(above) = above
        && above.key == span.parent
        && above.depth < SCOPE_DEPTH_MAX
        && scopes.len() - above.start + span.own.len() <= SCOPE_BYTES_MAX
    {
        scopes.extend_from_slice(span.own);
        return Some((above.start, above.depth + 1));
    }
    if span.parent != SpanKey::NONE && span.epoch != spans::epoch() {
        return None;
    }
    let start = scopes.len();
    scopes.extend_from_slice(span.around);
    scopes.extend_from_slice(span.own);
    Some((start, span.depth))
}

impl Made {
    #[inline]
    fn span(&self) -> Span<'_> {
        let (around, own) = self.bytes.split_at_checked(self.around_bytes).unwrap_or_default();
        Span {
            parent: self.parent,
            around,
            own,
            depth: self.depth,
            epoch: self.epoch,
            is_held: self.is_held,
            holds_parent: self.holds_parent,
        }
    }
}
