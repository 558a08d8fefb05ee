// The end of a statement: its record goes into the ring, and with the first one its callsite to the library. For
// glog_stream.hpp.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_FINISH_HPP
#define LOGDRIVE_DETAIL_GLOG_FINISH_HPP

#include <logdrive/detail/glog_stack.hpp>
#include <logdrive/detail/site.hpp>
#include <errno.h>
#include <link.h>
#include <new>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

constexpr uint8_t KINDS[] = {0, 0, ld::STR, ld::I32, ld::U32, ld::I64, ld::U64, ld::F64};

// Callsites of one statement.
constexpr unsigned VARIANTS_MAX = 16;

// Returns true if a text can stand in a callsite's message.
LOGDRIVE_GLOG_FN_ bool is_utf8(const char *text, const char *end) noexcept {
    while (text != end) {
        const unsigned char first = static_cast<unsigned char>(*text++);
        if (first < 0x80) continue;
        const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        uint32_t code = first & (0x3fu >> more);
        for (int i = 0; i < more; ++i, ++text) {
            if (text == end || (*text & 0xc0) != 0x80) return false;
            code = code << 6 | (*text & 0x3fu);
        }
        const uint32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
        if (first < 0xc0 || first >= 0xf8 || code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
            return false;
    }
    return true;
}

// Returns 1 if an address lies in read-only memory of a module, 2 if in writable memory of one, else 0.
LOGDRIVE_GLOG_FN_ int look_at_module(struct dl_phdr_info *module, size_t, void *text) {
    for (unsigned i = 0; i < module->dlpi_phnum; ++i) {
        const ElfW(Phdr) &part = module->dlpi_phdr[i];
        const uintptr_t begin = module->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && reinterpret_cast<uintptr_t>(text) - begin < part.p_memsz)
            return (part.p_flags & PF_W) == 0 ? 1 : 2;
    }
    return 0;
}

// Returns true if a text that the compiler knew is constant: it may also be the current value of a variable.
LOGDRIVE_GLOG_FN_ bool is_constant(const char *text) noexcept {
    return dl_iterate_phdr(look_at_module, const_cast<char *>(text)) == 1;
}

LOGDRIVE_GLOG_FN_ bool thinks() noexcept { return __atomic_load_n(&this_module.thinks, __ATOMIC_RELAXED) != 0; }

LOGDRIVE_GLOG_FN_ unsigned count(uint64_t shape) noexcept {
    unsigned count = 0;
    for (; shape != EMPTY; shape >>= ITEM_BITS) ++count;
    return count;
}

// A text among the values: its length and its bytes, or its length with this bit and the address of its bytes.
constexpr uint32_t FAR = 0x80000000;
struct Text {
    uint32_t length;
    bool is_far;
    const char *bytes;

    explicit Text(const uint8_t *at) noexcept {
        memcpy(&length, at, sizeof length);
        is_far = (length & FAR) != 0;
        length &= ~FAR;
        bytes = reinterpret_cast<const char *>(at) + sizeof length;
        if (is_far) memcpy(&bytes, at + sizeof length, sizeof bytes);
    }
};
// Size of a value in the record.
LOGDRIVE_GLOG_FN_ size_t size_of(uint64_t item, const uint8_t *at) noexcept {
    if (item == item_literal) return 0;
    if (item == item_int32 || item == item_uint32) return 4;
    if (item != item_text) return 8;
    const Text text(at);
    return 4 + (text.is_far ? sizeof text.bytes : text.length);
}

// Constant text for a message, whose braces are doubled; whether it is UTF-8.
LOGDRIVE_GLOG_FN_ bool append_constant(::logdrive::Out &format, const char *text) noexcept {
    const char *at = text;
    for (; *at != 0; ++at) {
        if (*at == '{' || *at == '}') format.append(*at);
        format.append(*at);
    }
    return is_utf8(text, at);
}

// Streams of this module's threads: a thread has some pages of them, which end with it. Not by malloc(): a signal handler may
// have interrupted that, in an operand of a statement.
struct StreamChunk {
    static constexpr size_t BYTES = 8192;
    StreamChunk *next;
    size_t streams;
};
struct StreamChunks {
    pthread_key_t key;
    bool has_key;

    void (*end)(void *);

    explicit StreamChunks(void (*of_thread)(void *)) noexcept
        : has_key(pthread_key_create(&key, of_thread) == 0), end(of_thread) {}
    // The module is unloaded, or the program ends. What other threads have stays: they may be in a statement.
    ~StreamChunks() {
        if (!has_key) return;
        has_key = false;
        end(pthread_getspecific(key));
        pthread_key_delete(key);
    }
};

LOGDRIVE_GLOG_FN_ Stream *stream_of(StreamChunk *chunk, size_t number) noexcept {
    constexpr size_t FRONT = (sizeof(StreamChunk) + alignof(Stream) - 1) & ~(alignof(Stream) - 1);
    return reinterpret_cast<Stream *>(reinterpret_cast<char *>(chunk) + FRONT) + number;
}

LOGDRIVE_GLOG_FN_ Stream *Stream::make_idle() noexcept {
    static StreamChunks chunks(&Stream::end_thread);
    void *memory = mmap(nullptr, StreamChunk::BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return new Stream;
    StreamChunk *const chunk = new (memory) StreamChunk{nullptr, (StreamChunk::BYTES - 64) / sizeof(Stream)};
    for (size_t i = 0; i < chunk->streams; ++i) {
        Stream *const stream = new (stream_of(chunk, i)) Stream;
        stream->next_ = i + 1 < chunk->streams ? stream_of(chunk, i + 1) : nullptr;
    }
    if (chunks.has_key) {
        chunk->next = static_cast<StreamChunk *>(pthread_getspecific(chunks.key));
        pthread_setspecific(chunks.key, chunk);
    }
    return stream_of(chunk, 0);
}
// A destructor that logs afterwards makes new ones.
LOGDRIVE_GLOG_FN_ void Stream::end_thread(void *all) noexcept {
    __atomic_store_n(&idle(), static_cast<Stream *>(nullptr), __ATOMIC_RELAXED);
    for (StreamChunk *chunk = static_cast<StreamChunk *>(all); chunk != nullptr;) {
        for (size_t i = 0; i < chunk->streams; ++i) stream_of(chunk, i)->~Stream();
        StreamChunk *const next = chunk->next;
        munmap(chunk, StreamChunk::BYTES);
        chunk = next;
    }
}

LOGDRIVE_GLOG_FN_ Stream::Stream() noexcept : std::ostream(nullptr), buffer_(*this) { rdbuf(&buffer_); }
LOGDRIVE_GLOG_FN_ Stream::~Stream() {}

LOGDRIVE_GLOG_FN_ Stream &Stream::discarding() noexcept {
    static thread_local Stream none;
    none.free_far_texts();
    none.make_pristine();
    none.begin();
    return none;
}

LOGDRIVE_GLOG_CALL_ Stream &Stream::take(StreamSite *site) noexcept {
    return take_inline(site);
}
LOGDRIVE_GLOG_CALL_ Stream &Stream::take_counted(StreamSite *site, int64 counter) noexcept {
    Stream &stream = take(site);
    stream.note_counter(counter);
    return stream;
}

LOGDRIVE_GLOG_FN_ StreamBuffer::int_type StreamBuffer::overflow(int_type one) {
    const char text = traits_type::to_char_type(one);
    if (!traits_type::eq_int_type(one, traits_type::eof())) stream_.put(&text, 1);
    return traits_type::not_eof(one);
}
LOGDRIVE_GLOG_FN_ std::streamsize StreamBuffer::xsputn(const char *text, std::streamsize length) {
    stream_.put(text, size_t(length));
    return length;
}
LOGDRIVE_GLOG_FN_ void StreamBuffer::imbue(const std::locale &) { stream_.note_locale(); }

LOGDRIVE_GLOG_FN_ void Stream::put(const char *text, size_t length) noexcept {
    opened();
    tail_.append(text, length);
}
LOGDRIVE_GLOG_FN_ std::ostream &Stream::opened() noexcept {
    bits_ |= OPENED;
    shape_ |= CLOSED;
    return *this;
}
LOGDRIVE_GLOG_FN_ void Stream::note_locale() noexcept {
    opened();
    bits_ |= IMBUED;
}
LOGDRIVE_GLOG_FN_ void Stream::note_counter(int64 counter) noexcept {
    counter_ = counter;
    iword(counter_index()) = long(counter);
}

// As a stream is before its first use.
constexpr std::ios_base::fmtflags USUAL_FLAGS = std::ios_base::skipws | std::ios_base::dec;
LOGDRIVE_ALWAYS bool Stream::is_pristine() const noexcept {
    return (bits_ | unsigned(flags() ^ USUAL_FLAGS) | unsigned(exceptions()) | unsigned(rdstate())) == 0 &&
           (width() | (precision() ^ 6)) == 0;
}
LOGDRIVE_GLOG_FN_ void Stream::make_pristine() noexcept {
    if (rdbuf() != &buffer_) std::ios::rdbuf(&buffer_);
    exceptions(goodbit);
    clear();
    std::ostream::flags(USUAL_FLAGS);
    std::ostream::precision(6);
    std::ostream::width(0);
    std::ostream::fill(' ');
    tie(nullptr);
    if ((bits_ & IMBUED) != 0) imbue(std::locale());
    if ((bits_ & COUNTED) != 0) iword(counter_index()) = counter_ = 0;
    tail_.clear();
    bits_ = 0;
}

LOGDRIVE_ALWAYS uint32_t Stream::place_text(const char *text, size_t length_) noexcept {
    const uint32_t length = ld::blob_length(length_);
    if (LOGDRIVE_UNLIKELY(used_ + 4 + length + RESERVED_BYTES > NEAR_BYTES)) return put_far(text, length);
    return uint32_t(ld::copy(ld::store(near_ + used_, length), text, length) - near_);
}
// A text that has memory of its own.
LOGDRIVE_GLOG_FN_ uint32_t Stream::put_far(const char *text, uint32_t length) noexcept {
    char *const bytes = static_cast<char *>(malloc(length));
    if (bytes == nullptr) return uint32_t(ld::store(near_ + used_, uint32_t(0)) - near_);
    memcpy(bytes, text, length);
    bits_ |= FAR_TEXT;
    return uint32_t(ld::store(ld::store(near_ + used_, length | FAR), bytes) - near_);
}
LOGDRIVE_GLOG_CALL_ uint32_t Stream::put_text(const char *text, size_t length) noexcept { return place_text(text, length); }
LOGDRIVE_GLOG_CALL_ uint32_t Stream::put_pointed(const char *text) noexcept {
    if (LOGDRIVE_UNLIKELY(text == nullptr)) return put_text("(null)", 6);
    return place_text(text, strlen(text));
}
LOGDRIVE_GLOG_FN_ void Stream::add_text(const char *text, size_t length) noexcept {
    used_ = put_text(text, length);
    shape_ = shape_ << ITEM_BITS | item_text;
}
// An address, in the way of streams.
LOGDRIVE_GLOG_FN_ Stream &Stream::text(const void *address) noexcept {
    char shown[20];
    const int length = snprintf(shown, sizeof shown, address == nullptr ? "0" : "%p", address);
    return text(shown, size_t(length));
}
LOGDRIVE_GLOG_FN_ Stream &Stream::streamed(int32_t value) noexcept { return opened() << value, *this; }
LOGDRIVE_GLOG_FN_ Stream &Stream::streamed(uint32_t value) noexcept { return opened() << value, *this; }
LOGDRIVE_GLOG_FN_ Stream &Stream::streamed(int64_t value) noexcept { return opened() << value, *this; }
LOGDRIVE_GLOG_FN_ Stream &Stream::streamed(uint64_t value) noexcept { return opened() << value, *this; }
LOGDRIVE_GLOG_FN_ Stream &Stream::streamed(double value) noexcept { return opened() << value, *this; }
LOGDRIVE_GLOG_FN_ Stream &Stream::streamed(const char *text) noexcept {
    return opened() << (text == nullptr ? "(null)" : text), *this;
}
LOGDRIVE_GLOG_FN_ Stream &Stream::streamed(const char *text, size_t length) noexcept {
    return opened() << std::string_view(text, length), *this;
}

LOGDRIVE_ALWAYS void Stream::make_idle_again() noexcept {
    // A handler that interrupts this takes the next one.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    next_ = __atomic_load_n(&idle(), __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&idle(), this, __ATOMIC_RELAXED);
}

LOGDRIVE_ALWAYS void Stream::finish_whole() {
    const Variant &usual = site_->usual;
    // SYNC(control): the shape is set before the callsite is known.
    const ld::Entry *entry = usual.site.entry();
    const uint32_t control = __atomic_load_n(&entry->control, __ATOMIC_RELAXED);
    if (LOGDRIVE_UNLIKELY(!usual.is(shape_, literals_) || control != ld::ON || !is_pristine() || thinks()))
        return finish_slowly();
    ld::store(near_ + used_, uint64_t(0));
    if (LOGDRIVE_UNLIKELY(ld::write_padded(entry->id, near_, used_) == ld::Wrote::slowly)) return finish_in_library();
    if (LOGDRIVE_UNLIKELY(site_->severity != GLOG_INFO)) return finish_urgent();
    make_idle_again();
}
// The usual case ends in this function, which therefore saves no registers around later calls.
LOGDRIVE_GLOG_FN_ void Stream::finish() noexcept {
    const bool may_end_with_break = (shape_ & ITEM_MASK) == item_text && (near_[used_ - 1] == '\n' || near_[used_ - 1] == 0);
    if (LOGDRIVE_UNLIKELY(may_end_with_break) && bits_ == 0) return finish_trimmed();
    finish_whole();
}
LOGDRIVE_GLOG_FN_ void Stream::finish_trimmed() {
    trim();
    finish_whole();
}
LOGDRIVE_GLOG_FN_ void Stream::finish_in_library() {
    const int kept = errno;
    ld::write_encoded(__atomic_load_n(&site_->usual.site.site, __ATOMIC_ACQUIRE), near_, used_);
    errno = kept;
    if (site_->severity != GLOG_INFO) return finish_urgent();
    make_idle_again();
}
LOGDRIVE_GLOG_FN_ void Stream::finish_urgent() {
    state().count(site_->severity);
    echo_values(state());
    make_idle_again();
}
// Work besides the record, where there is any.
LOGDRIVE_GLOG_FN_ void Stream::echo_values(const State &shared) {
    const int severity = site_->severity;
    if (severity < shared.stderr_from() && severity < shared.flush_from() && !(shared.waits && shared.is_console())) return;
    ::logdrive::Out text;
    show(text);
    echo(shared, site_->file, site_->line, severity, text.data(), text.size(), false);
}

// Calls `use` with each item's kind, where its value is, and its text where it is a constant one.
template <class Use> void Stream::each(const Use &use) noexcept {
    const uint8_t *at = near_;
    const char *const *constant = texts_;
    for (unsigned left = count(shape_); left-- > 0;) {
        const uint64_t item = shape_ >> (ITEM_BITS * left) & ITEM_MASK;
        const size_t size = size_of(item, at);
        use(item, at, item == item_literal ? *constant : nullptr);
        ++constant;
        at += size;
    }
}

// A line break at the end is not the message's: where a text ends the statement, and others behind it are empty.
LOGDRIVE_GLOG_FN_ void Stream::trim() noexcept {
    uint8_t *last = nullptr;
    const char *constant = nullptr;
    each([&](uint64_t item, const uint8_t *at, const char *text) {
        if (item == item_text && Text(at).length == 0) return;
        last = item == item_text ? const_cast<uint8_t *>(at) : nullptr;
        constant = text;
    });
    if (constant != nullptr && constant[strlen(constant) - 1] == '\n') bits_ |= RENDERED;
    if (last == nullptr) return;
    const Text text(last);
    if (text.bytes[text.length - 1] != '\n') return;
    ld::store(last, (text.length - 1) | (text.is_far ? FAR : 0));
    if (text.is_far) return;
    memmove(last + 4 + text.length - 1, last + 4 + text.length, size_t(near_ + used_ - last) - 4 - text.length);
    --used_;
}

// The values as the library wants them: one behind the other.
LOGDRIVE_GLOG_FN_ void Stream::write_values(const logdrive_site *site) noexcept {
    if ((bits_ & FAR_TEXT) == 0) return ld::write_encoded(site, near_, used_);
    ld::Description values;
    each([&](uint64_t item, const uint8_t *at, const char *) {
        if (item != item_text) return values.put(at, size_of(item, at));
        const Text text(at);
        values.put(&text.length, sizeof text.length);
        values.put(text.bytes, text.length);
    });
    ld::write_encoded(site, values.data(), values.size());
}

// The first call, and all that is not as usual: the level is off or sampled, a sink listens, a stream, another shape.
LOGDRIVE_GLOG_FN_ void Stream::finish_slowly() {
    const int kept = errno;
    State &shared = state();
    if (bits_ != 0) end_text();
    if (!thinks() || think(shared)) {
        shared.note_logged(site_->severity);
        shared.count(site_->severity);
        const bool is_rendered = shared.has_prefix() || shared.uses_loggers() || (bits_ & RENDERED) != 0;
        Variant *const variant = is_rendered ? nullptr : find_variant();
        bool fits = variant != nullptr;
        const logdrive_site *known = fits ? registered(*variant, fits) : nullptr;
        // A callsite that the library does not take is a drop, which it has counted.
        if (!fits) write_rendered();
        else {
            const bool is_on = known != nullptr && logdrive_admit(known);
            if (is_on) write_values(known);
            if (is_on || !logdrive_is_running()) echo_values(shared);
        }
        // As with glog, sinks have it behind standard error.
        if (shared.has_sinks()) send_values(shared);
    }
    free_far_texts();
    if (!is_pristine()) make_pristine();
    errno = kept;
    make_idle_again();
}

LOGDRIVE_GLOG_FN_ void Stream::free_far_texts() noexcept {
    if ((bits_ & FAR_TEXT) == 0) return;
    shape_ &= ~CLOSED;
    each([](uint64_t item, const uint8_t *at, const char *) {
        if (item == item_text && Text(at).is_far) free(const_cast<char *>(Text(at).bytes));
    });
}

// Text behind the values is one more value, in front of the end of the message.
LOGDRIVE_GLOG_FN_ void Stream::end_text() noexcept {
    shape_ &= ~CLOSED;
    if (tail_.size() > 0) add_text(tail_.data(), tail_.size());
    trim();
}

// Returns true if the call goes on: checks minloglevel, starts the logger.
LOGDRIVE_GLOG_FN_ bool Stream::think(State &shared) {
    if (site_->severity < shared.least_severity()) return false;
    start_if_needed(shared);
    // A message with a stack is text as a whole.
    if (shared.wants_stack(site_->file, site_->line)) bits_ |= RENDERED | TRACED;
    return true;
}

LOGDRIVE_GLOG_FN_ void Stream::send_values(const State &shared) noexcept {
    ::logdrive::Out text;
    show(text);
    shared.sender(site_->file, site_->line, site_->severity, text.data(), text.size());
}

LOGDRIVE_GLOG_FN_ void Stream::write_rendered() noexcept {
    ::logdrive::Out text;
    show(text);
    write_message(site_->file, site_->line, site_->severity, text.data(), text.size());
}

// The statement's callsite of this shape; null where there are too many. Two threads may make the same one at once,
// which is one for the library.
LOGDRIVE_GLOG_FN_ Variant *Stream::find_variant() noexcept {
    Variant &usual = site_->usual;
    uint32_t unclaimed = 0;
    if (__atomic_compare_exchange_n(&usual.claimed, &unclaimed, 1u, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        usual.set(shape_, literals_);
        return &usual;
    }
    if (usual.is(shape_, literals_)) return &usual;
    // SYNC(others): a variant is whole before it is in the list.
    Variant *first = __atomic_load_n(&site_->others, __ATOMIC_ACQUIRE);
    for (Variant *other = first; other != nullptr; other = other->next)
        if (other->is(shape_, literals_)) return other;
    if (first != nullptr && first->number >= VARIANTS_MAX) return nullptr;
    Variant *const fresh = new (std::nothrow) Variant;
    if (fresh == nullptr) return nullptr;
    fresh->set(shape_, literals_);
    do {
        fresh->next = first;
        fresh->number = first == nullptr ? 1 : first->number + 1;
    } while (!__atomic_compare_exchange_n(&site_->others, &first, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return fresh;
}

// The callsite, whose message has constant texts and `{}`; floating-point numbers are shown as streams do, `{:g}`. Null
// where a message cannot be such, and then it does not fit, or where the library does not take it.
LOGDRIVE_GLOG_FN_ const logdrive_site *Stream::registered(Variant &variant, bool &fits) noexcept {
    const void *known = __atomic_load_n(&variant.site.site, __ATOMIC_ACQUIRE);
    if (known != &ld::no_site) return static_cast<const logdrive_site *>(known);
    ::logdrive::Out format;
    uint8_t kinds[ITEMS_MAX + 1];
    uint8_t count = 0;
    each([&](uint64_t item, const uint8_t *, const char *text) {
        if (item == item_literal) fits = is_constant(text) && append_constant(format, text) && fits;
        else kinds[count++] = KINDS[item], format.append(item == item_real ? "{:g}" : "{}");
    });
    const bool ends_with_constant = shape_ != EMPTY && (shape_ & ITEM_MASK) == item_literal;
    const size_t length = format.size() - (ends_with_constant && format.data()[format.size() - 1] == '\n');
    fits = fits && length <= ld::MESSAGE_BYTES_MAX;
    if (!fits) return nullptr;
    const ld::Meta meta = {site_->file, "", "", "", nullptr, kinds, nullptr, uint32_t(site_->line), count,
                           RECORD_LEVELS[site_->severity]};
    const auto describe = [&](ld::Description &out, const ld::Meta &of) {
        ld::describe_shown(out, of, format.data(), length);
    };
    return ld::known(variant.site, meta, describe);
}

// The message as a stream would have it.
LOGDRIVE_GLOG_FN_ void Stream::show(::logdrive::Out &out) noexcept {
    if ((bits_ & TRACED) != 0) put_stack(out);
    each([&](uint64_t item, const uint8_t *at, const char *text) {
        uint32_t half;
        uint64_t word;
        double real;
        memcpy(&half, at, sizeof half);
        memcpy(&word, at, sizeof word);
        memcpy(&real, at, sizeof real);
        switch (item) {
        case item_literal: out.append(text); break;
        case item_text: out.append(Text(at).bytes, Text(at).length); break;
        case item_int32: out.print("%d", int32_t(half)); break;
        case item_uint32: out.print("%u", half); break;
        case item_int64: out.print("%lld", static_cast<long long>(word)); break;
        case item_uint64: out.print("%llu", static_cast<unsigned long long>(word)); break;
        default: out.print("%g", real);
        }
    });
    if ((shape_ & ITEM_MASK) == item_literal || (bits_ & RENDERED) != 0) out.trim('\n');
}

}  // namespace internal

LOGDRIVE_GLOG_FN_ NullStream::operator internal::Stream &() const noexcept { return internal::Stream::discarding(); }

}  // namespace logdrive_glog
}  // namespace google

#endif
