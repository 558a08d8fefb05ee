// LOG(INFO) << a << b: each value is stored on the stack as the record will have it; the statement's end copies all of them
// into the ring. Constant text is no value: it goes into the callsite's message, once. What only a stream can show (types
// with an operator<<, manipulators) makes the rest of the statement a stream, whose text is the record's last value.
//
// A statement is told by its shape: the kinds of its values, three bits each, which the compiler knows, and the addresses
// of its constant texts. Where a statement has another shape than at its first call (an exception cut it short, or the
// compiler knows more of a text in one copy of an inline function than in another), it is another callsite. That a text
// is constant is looked at once, when the callsite is made.
#ifndef LOGDRIVE_DETAIL_GLOG_STREAM_HPP
#define LOGDRIVE_DETAIL_GLOG_STREAM_HPP

#include <logdrive/detail/glog_message.hpp>
#include <link.h>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

namespace ld = ::logdrive::detail;

// What stands in a statement. No bits are nothing.
enum Item : uint64_t { item_literal = 1, item_text, item_int32, item_uint32, item_int64, item_uint64, item_real };
constexpr unsigned ITEM_BITS = 3;
constexpr uint64_t ITEM_MASK = 7;
// Items behind that many are rendered into one text, which is one more.
constexpr unsigned ITEMS_MAX = 20;
constexpr uint8_t KINDS[] = {0, 0, ld::STR, ld::I32, ld::U32, ld::I64, ld::U64, ld::F64};

// Bytes of values that take no memory of their own; and of those what is kept for numbers behind texts, for the zeros that
// fill up a record, and for blocks that are copied whole.
constexpr size_t NEAR_BYTES = 528;
constexpr size_t RESERVED_BYTES = 8 * ITEMS_MAX + 8 + 16;

// No statement has this shape.
constexpr uint64_t NO_SHAPE = ~uint64_t(0);

// Callsites of one statement.
constexpr unsigned VARIANTS_MAX = 16;

// Whether a text can stand in a callsite's message.
inline bool is_utf8(const char *text, const char *end) noexcept {
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

// Whether an address lies in memory of a module that nobody writes to: 1, and 2 where it is written to.
inline int look_at_module(struct dl_phdr_info *module, size_t, void *text) {
    for (unsigned i = 0; i < module->dlpi_phnum; ++i) {
        const ElfW(Phdr) &part = module->dlpi_phdr[i];
        const uintptr_t begin = module->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && reinterpret_cast<uintptr_t>(text) - begin < part.p_memsz)
            return (part.p_flags & PF_W) == 0 ? 1 : 2;
    }
    return 0;
}

// Whether a text that the compiler knew is the same for ever: it may also have seen what a variable held just then.
inline bool is_constant(const char *text) noexcept { return dl_iterate_phdr(look_at_module, const_cast<char *>(text)) == 1; }

// A shape of a statement, with its callsite.
struct Variant {
    uint32_t claimed = 0;
    // Its place among those of the statement.
    uint32_t number = 0;
    uint64_t shape = NO_SHAPE;
    uint64_t literals = 0;
    ld::Site site;
    Variant *next = nullptr;

    bool is(uint64_t a_shape, uint64_t of_literals) const noexcept {
        // SYNC(variant): the addresses are stored before the shape.
        return __atomic_load_n(&shape, __ATOMIC_ACQUIRE) == a_shape &&
               __atomic_load_n(&literals, __ATOMIC_RELAXED) == of_literals;
    }
    void set(uint64_t a_shape, uint64_t of_literals) noexcept {
        __atomic_store_n(&literals, of_literals, __ATOMIC_RELAXED);
        // SYNC(variant)
        __atomic_store_n(&shape, a_shape, __ATOMIC_RELEASE);
    }
};

// A statement of the program. Its other shapes are kept for ever.
struct StreamSite {
    const char *file;
    int line;
    int severity;
    Variant usual;
    Variant *others;
};

template <class T> struct IsString : std::false_type {};
template <class A> struct IsString<std::basic_string<char, std::char_traits<char>, A>> : std::true_type {};
template <> struct IsString<std::basic_string_view<char>> : std::true_type {};

template <class T>
struct IsOneChar : std::integral_constant<bool, std::is_same<T, char>::value || std::is_same<T, signed char>::value ||
                                                    std::is_same<T, unsigned char>::value> {};
template <class T>
struct IsCharPointer
    : std::integral_constant<bool, std::is_pointer<std::decay_t<T>>::value &&
                                       IsOneChar<ld::Plain<std::remove_pointer_t<std::decay_t<T>>>>::value> {};
template <class T>
struct IsDataPointer
    : std::integral_constant<bool, std::is_pointer<std::decay_t<T>>::value && !IsCharPointer<T>::value &&
                                       !std::is_function<std::remove_pointer_t<std::decay_t<T>>>::value &&
                                       !std::is_volatile<std::remove_pointer_t<std::decay_t<T>>>::value> {};

// What few statements need.
struct Rare {
    LogMessage::LogStream *stream = nullptr;
    // Where the values are, once there are too many bytes of them.
    uint8_t *bytes = nullptr;
    size_t capacity = 0;
    // The message cannot stand in a callsite: its constant end has a line break that is not the message's.
    bool is_rendered = false;

    ~Rare() {
        delete stream;
        free(bytes);
    }
};

// What a call has captured.
class Captured {
public:
    Captured(const Captured &) = delete;
    Captured &operator=(const Captured &) = delete;

    // What a text takes. Where there is no memory for a long one, it is empty.
    LOGDRIVE_CALLED uint8_t *text(uint8_t *at, const char *text, size_t length_) noexcept {
        uint32_t length = ld::blob_length(length_);
        if (LOGDRIVE_UNLIKELY(left(at) < RESERVED_BYTES + 4 + length) && !grow(at, length)) length = 0;
        return ld::copy(ld::store(at, length), text, length);
    }
    LOGDRIVE_CALLED uint8_t *text(uint8_t *at, const char *text) noexcept {
        return text == nullptr ? this->text(at, "(null)", 6) : this->text(at, text, strlen(text));
    }
    // A character is a byte of text, whatever it is part of.
    LOGDRIVE_CALLED uint8_t *character(uint8_t *at, char value) noexcept { return text(at, &value, 1); }
    // An address, in the way of streams.
    LOGDRIVE_COLD uint8_t *address(uint8_t *at, const void *address) noexcept {
        char text[20];
        const int length = snprintf(text, sizeof text, address == nullptr ? "0" : "%p", address);
        return this->text(at, text, size_t(length));
    }
    LOGDRIVE_COLD std::ostream &stream() {
        if (rare_ == nullptr) rare_ = new Rare;
        if (rare_->stream == nullptr) rare_->stream = new LogMessage::LogStream(counter_);
        return *rare_->stream;
    }
    template <class T> LOGDRIVE_COLD void streamed(const T &value) { stream() << value; }

    LOGDRIVE_ALWAYS int64 counter() const noexcept { return counter_; }
    LOGDRIVE_ALWAYS uint8_t *near_bytes() noexcept { return near_; }
    LOGDRIVE_ALWAYS void literal(unsigned index, const char *text) noexcept { texts_[index] = text; }
    // What there is so far: a statement may end at any place, with an exception.
    LOGDRIVE_ALWAYS void note(uint64_t shape, uint64_t literals, uint8_t *end) noexcept {
        shape_ = shape;
        literals_ = literals;
        end_ = end;
    }

protected:
    LOGDRIVE_ALWAYS Captured(StreamSite *site, int64 counter) noexcept : site_(site), counter_(counter) {}
    ~Captured() = default;

    LOGDRIVE_CALLED void finish() {
        if (LOGDRIVE_UNLIKELY((shape_ & ITEM_MASK) == item_text && (end_[-1] == '\n' || end_[-1] == 0))) trim();
        const Variant &usual = site_->usual;
        // SYNC(control): the shape is set before the callsite is known.
        const ld::Entry *entry = usual.site.entry();
        const uint32_t control = __atomic_load_n(&entry->control, __ATOMIC_RELAXED);
        if (LOGDRIVE_UNLIKELY(!usual.is(shape_, literals_) || control != ld::ON || rare_ != nullptr || thinks()))
            return finish_slowly();
        const size_t bytes = size_t(end_ - near_);
        ld::store(end_, uint64_t(0));
        if (LOGDRIVE_UNLIKELY(ld::write_padded(entry->id, near_, bytes) == ld::Wrote::slowly)) write_slowly(usual);
        if (LOGDRIVE_UNLIKELY(site_->severity != GLOG_INFO)) state().count(site_->severity);
    }

private:
    uint8_t *begin() noexcept { return rare_ != nullptr && rare_->bytes != nullptr ? rare_->bytes : near_; }

    // Bytes from here to the end of the memory.
    LOGDRIVE_ALWAYS size_t left(const uint8_t *at) noexcept {
        if (LOGDRIVE_UNLIKELY(rare_ != nullptr && rare_->bytes != nullptr)) return size_t(rare_->bytes + rare_->capacity - at);
        return size_t(near_ + NEAR_BYTES - at);
    }

    // Gets memory for so much more, and moves what there is.
    LOGDRIVE_COLD bool grow(uint8_t *&at, size_t bytes) noexcept {
        if (rare() == nullptr) return false;
        uint8_t *const old = begin();
        const size_t used = size_t(at - old);
        const size_t capacity = 2 * (used + bytes) + 4 + RESERVED_BYTES;
        uint8_t *const fresh = static_cast<uint8_t *>(malloc(capacity));
        if (fresh == nullptr) return false;
        memcpy(fresh, old, used);
        free(rare_->bytes);
        rare_->bytes = fresh;
        rare_->capacity = capacity;
        at = fresh + used;
        return true;
    }

    static bool thinks() noexcept {
        const State *state = __atomic_load_n(&known_state, __ATOMIC_ACQUIRE);
        return state == nullptr || __atomic_load_n(&state->thinks, __ATOMIC_RELAXED) != 0;
    }

    static unsigned count(uint64_t shape) noexcept {
        unsigned count = 0;
        for (; shape != 0; shape >>= ITEM_BITS) ++count;
        return count;
    }

    // Calls `use` with each item's index and kind, and where its value is.
    template <class Use> void each(const Use &use) noexcept {
        const uint8_t *at = begin();
        const unsigned items = count(shape_);
        for (unsigned i = 0; i < items; ++i) {
            const uint64_t item = shape_ >> (ITEM_BITS * (items - 1 - i)) & ITEM_MASK;
            use(i, item, at);
            at += item == item_literal ? 0 : item == item_text ? 4 + text_length(at) : item == item_int32 || item == item_uint32 ? 4 : 8;
        }
    }
    static uint32_t text_length(const uint8_t *at) noexcept {
        uint32_t length;
        memcpy(&length, at, 4);
        return length;
    }

    // A line break at the end is not the message's: where a text ends the statement, and others behind it are empty.
    LOGDRIVE_COLD void trim() noexcept {
        uint8_t *last = nullptr;
        uint32_t length = 0;
        const char *constant = nullptr;
        each([&](unsigned index, uint64_t item, const uint8_t *at) {
            if (item == item_text && text_length(at) == 0) return;
            last = item == item_text ? const_cast<uint8_t *>(at) : nullptr;
            length = last == nullptr ? 0 : text_length(last);
            constant = item == item_literal ? texts_[index] : nullptr;
        });
        if (constant != nullptr && constant[strlen(constant) - 1] == '\n' && rare() != nullptr) rare_->is_rendered = true;
        if (last == nullptr || last[4 + length - 1] != '\n') return;
        ld::store(last, length - 1);
        memmove(last + 4 + length - 1, last + 4 + length, size_t(end_ - last) - 4 - length);
        --end_;
    }

    Rare *rare() noexcept {
        if (rare_ == nullptr) rare_ = new (std::nothrow) Rare;
        return rare_;
    }

    // A full ring, a long record.
    LOGDRIVE_COLD void write_slowly(const Variant &variant) noexcept {
        const int kept = errno;
        ld::write_encoded(__atomic_load_n(&variant.site.site, __ATOMIC_ACQUIRE), begin(), size_t(end_ - begin()));
        errno = kept;
    }

    // The first call, and all that is not as usual: the level is off or sampled, a sink listens, a stream, another shape.
    LOGDRIVE_COLD void finish_slowly() {
        const int kept = errno;
        State &shared = state();
        end_stream();
        if (!thinks() || think(shared)) {
            shared.note_logged(site_->severity);
            shared.count(site_->severity);
            const bool is_rendered = shared.has_prefix() || (rare_ != nullptr && rare_->is_rendered);
            Variant *const variant = is_rendered ? nullptr : find_variant();
            const logdrive_site *known = variant != nullptr ? registered(*variant) : nullptr;
            if (known == nullptr) write_rendered();
            else if (logdrive_admit(known)) ld::write_encoded(known, begin(), size_t(end_ - begin()));
        }
        delete rare_;
        errno = kept;
    }

    // What was streamed is one text more.
    void end_stream() noexcept {
        if (rare_ == nullptr || rare_->stream == nullptr) return;
        const LogMessage::LogStream &stream = *rare_->stream;
        end_ = text(end_, stream.str(), stream.pcount());
        shape_ = shape_ << ITEM_BITS | item_text;
        trim();
    }

    // Whether the call goes on: minloglevel, the start, sinks.
    bool think(State &shared) {
        if (site_->severity < shared.least_severity()) return false;
        start_if_needed(shared);
        if (!shared.has_sinks()) return true;
        ::logdrive::Out text;
        show(text);
        shared.sender(site_->file, site_->line, site_->severity, text.data(), text.size());
        return true;
    }

    void write_rendered() noexcept {
        ::logdrive::Out text;
        show(text);
        write_message(site_->file, site_->line, site_->severity, text.data(), text.size());
    }

    // The statement's callsite of this shape; null where there are too many. Two threads may make the same one at once,
    // which is one for the library.
    Variant *find_variant() noexcept {
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
    // where a message cannot be such.
    const logdrive_site *registered(Variant &variant) noexcept {
        const void *known = __atomic_load_n(&variant.site.site, __ATOMIC_ACQUIRE);
        if (known != &ld::no_site) return static_cast<const logdrive_site *>(known);
        ::logdrive::Out format;
        uint8_t kinds[ITEMS_MAX + 1];
        uint8_t count = 0;
        bool fits = true;
        each([&](unsigned index, uint64_t item, const uint8_t *) {
            if (item == item_literal) fits = is_constant(texts_[index]) && append_constant(format, texts_[index]) && fits;
            else kinds[count++] = KINDS[item], format.append(item == item_real ? "{:g}" : "{}");
        });
        const bool ends_with_constant = (shape_ & ITEM_MASK) == item_literal;
        const size_t length = format.size() - (ends_with_constant && format.data()[format.size() - 1] == '\n');
        if (!fits || length > ld::MESSAGE_BYTES_MAX) return nullptr;
        return variant.site.known({site_->file, "", "", "", nullptr, kinds, nullptr, uint32_t(site_->line), count,
                                   RECORD_LEVELS[site_->severity]},
                                  [&](ld::Description &out, const ld::Meta &meta) {
                                      ld::describe_shown(out, meta, format.data(), length);
                                  });
    }

    // Constant text for a message, whose braces are doubled; whether it is UTF-8.
    static bool append_constant(::logdrive::Out &format, const char *text) noexcept {
        const char *at = text;
        for (; *at != 0; ++at) {
            if (*at == '{' || *at == '}') format.append(*at);
            format.append(*at);
        }
        return is_utf8(text, at);
    }

    // The message as a stream would have it.
    void show(::logdrive::Out &out) noexcept {
        each([&](unsigned index, uint64_t item, const uint8_t *at) {
            uint32_t half;
            uint64_t word;
            double real;
            memcpy(&half, at, sizeof half);
            memcpy(&word, at, sizeof word);
            memcpy(&real, at, sizeof real);
            switch (item) {
            case item_literal: out.append(texts_[index]); break;
            case item_text: out.append(reinterpret_cast<const char *>(at) + 4, half); break;
            case item_int32: out.print("%d", int32_t(half)); break;
            case item_uint32: out.print("%u", half); break;
            case item_int64: out.print("%lld", static_cast<long long>(word)); break;
            case item_uint64: out.print("%llu", static_cast<unsigned long long>(word)); break;
            default: out.print("%g", real);
            }
        });
        if ((shape_ & ITEM_MASK) == item_literal || (rare_ != nullptr && rare_->is_rendered)) out.trim('\n');
    }

    StreamSite *site_;
    int64 counter_;
    Rare *rare_ = nullptr;
    uint64_t shape_ = 0;
    uint64_t literals_ = 0;
    uint8_t *end_ = near_;
    const char *texts_[ITEMS_MAX];
    uint8_t near_[NEAR_BYTES];
};

// Texts of one character, whose addresses are as constant as those of literals.
struct Characters {
    char texts[256][2];
};
constexpr Characters make_characters() {
    Characters all = {};
    for (int i = 0; i < 256; ++i) all.texts[i][0] = char(i);
    return all;
}
inline constexpr Characters CHARACTERS = make_characters();

// Where a statement stands: what the next << goes behind. Passed on by value, so that the compiler has it in registers, and
// most of it as constants.
class Next {
public:
    LOGDRIVE_ALWAYS explicit Next(Captured &captured) noexcept : captured_(&captured), at_(captured.near_bytes()) {}

    template <class T> LOGDRIVE_ALWAYS decltype(auto) operator<<(const T &value) && {
        if constexpr (std::is_same<T, bool>::value) return number<item_uint32>(uint32_t(value));
        else if constexpr (IsOneChar<T>::value) return character(char(value));
        else if constexpr (IsCharPointer<T>::value) {
            // Arrays that may change, and pointers that may: a literal comes to the operator below.
            const auto *pointer = value;
            return text(reinterpret_cast<const char *>(pointer));
        } else if constexpr (std::is_same<T, short>::value || std::is_same<T, int>::value)
            return number<item_int32>(int32_t(value));
        else if constexpr (std::is_same<T, unsigned short>::value || std::is_same<T, unsigned>::value)
            return number<item_uint32>(uint32_t(value));
        else if constexpr (std::is_same<T, long>::value || std::is_same<T, long long>::value)
            return number<item_int64>(int64_t(value));
        else if constexpr (std::is_same<T, unsigned long>::value || std::is_same<T, unsigned long long>::value)
            return number<item_uint64>(uint64_t(value));
        else if constexpr (std::is_same<T, float>::value || std::is_same<T, double>::value)
            // As streams do with both.
            return number<item_real>(double(value));
        else if constexpr (std::is_same<T, PRIVATE_Counter>::value) return number<item_int64>(int64_t(captured_->counter()));
        else if constexpr (IsString<T>::value) return text(value.data(), value.size());
        else if constexpr (IsDataPointer<T>::value) return address(value);
        else return captured_->stream() << value;
    }
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgcc-compat"
    // The compiler chooses it for what is a literal in the source.
    LOGDRIVE_ALWAYS Next operator<<(const char *text) && __attribute__((enable_if(__builtin_constant_p(text), "a literal"))) {
        return literal(text);
    }
#pragma clang diagnostic pop
#endif
    LOGDRIVE_ALWAYS Next operator<<(const char *text) && {
#if !defined(__clang__)
        if (__builtin_constant_p(__builtin_strlen(text))) return literal(text);
#endif
        return this->text(text);
    }
    std::ostream &operator<<(std::ostream &(*manipulator)(std::ostream &)) { return captured_->stream() << manipulator; }
    std::ostream &operator<<(std::ios_base &(*manipulator)(std::ios_base &)) { return captured_->stream() << manipulator; }
    std::ostream &operator<<(std::ios &(*manipulator)(std::ios &)) { return captured_->stream() << manipulator; }
    // Of an lvalue, such as a reference that was bound to it: all is a stream.
    template <class T> std::ostream &operator<<(const T &value) & { return captured_->stream() << value; }
    operator std::ostream &() { return captured_->stream(); }

private:
    LOGDRIVE_ALWAYS Next(Captured *captured, uint8_t *at, uint64_t shape, uint64_t literals, unsigned count) noexcept
        : captured_(captured), at_(at), shape_(shape), literals_(literals), count_(count) {
        captured_->note(shape, literals, at);
    }
    LOGDRIVE_ALWAYS bool is_full() const noexcept { return LOGDRIVE_UNLIKELY(count_ >= ITEMS_MAX); }
    template <class T> LOGDRIVE_ALWAYS Next full(const T &value) {
        captured_->streamed(value);
        return *this;
    }
    LOGDRIVE_ALWAYS Next next(uint64_t item, uint8_t *at) noexcept {
        return Next(captured_, at, shape_ << ITEM_BITS | item, literals_, count_ + 1);
    }

    template <uint64_t ITEM, class N> LOGDRIVE_ALWAYS Next number(N value) {
        if (is_full()) return full(value);
        return next(ITEM, ld::store(at_, value));
    }
    LOGDRIVE_ALWAYS Next literal(const char *text) {
        if (is_full()) return full(text);
        if (*text == 0) return *this;
        captured_->literal(count_, text);
        const uint64_t literals = literals_ * 3 + reinterpret_cast<uintptr_t>(text);
        return Next(captured_, at_, shape_ << ITEM_BITS | item_literal, literals, count_ + 1);
    }
    LOGDRIVE_ALWAYS Next text(const char *text) {
        if (is_full()) return full(text);
        return next(item_text, captured_->text(at_, text));
    }
    LOGDRIVE_ALWAYS Next text(const char *text, size_t length) {
        if (is_full()) return full(std::string_view(text, length));
        return next(item_text, captured_->text(at_, text, length));
    }
    LOGDRIVE_ALWAYS Next character(char value) {
        if (is_full()) return full(value);
        if (__builtin_constant_p(value) && value != 0) return literal(CHARACTERS.texts[static_cast<unsigned char>(value)]);
        return next(item_text, captured_->character(at_, value));
    }
    LOGDRIVE_ALWAYS Next address(const void *address) {
        if (is_full()) return full(address);
        return next(item_text, captured_->address(at_, address));
    }

    Captured *captured_;
    uint8_t *at_;
    uint64_t shape_ = 0;
    uint64_t literals_ = 0;
    unsigned count_ = 0;
};

// What LOG(...) has in front of its stream(): a temporary that lives until the end of its statement.
class Stream : public Captured {
public:
    LOGDRIVE_ALWAYS explicit Stream(StreamSite *site, int64 counter = 0) noexcept : Captured(site, counter) {}
    LOGDRIVE_ALWAYS ~Stream() { finish(); }
    LOGDRIVE_ALWAYS Next stream() noexcept { return Next(*this); }
};

}  // namespace internal
}  // namespace logdrive_glog
}  // namespace google

#endif
