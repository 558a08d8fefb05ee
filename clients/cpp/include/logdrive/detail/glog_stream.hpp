// LOG(INFO) << a << b: each value is stored in an object of the thread as the record will have it; the statement's end copies
// all of them into the ring. Constant text is no value: it goes into the callsite's message, once. What only a stream can show
// (types with an operator<<, manipulators) makes the rest of the statement text, which is the record's last value.
//
// The object is a std::ostream for overload resolution: operators of the program are chosen as for any stream. Only for some
// types of the language and strings there is a better operator, a template that takes no conversions.
//
// A statement is identified by its shape: the kinds of its values, three bits each behind a bit that is 1, and the addresses of
// its constant texts. Where a statement has another shape than at its first call (an exception cut it short, or the
// compiler knows more of a text in one copy of an inline function than in another), it is another callsite. That a text
// is constant is looked at once, when the callsite is made.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_STREAM_HPP
#define LOGDRIVE_DETAIL_GLOG_STREAM_HPP

#include <logdrive/detail/glog_message.hpp>
#include <ostream>
#include <string_view>

// A handful of instructions each, which the compiler sees often. Without optimisation calls are smaller.
#if defined(__OPTIMIZE__)
#define LOGDRIVE_GLOG_INLINE_ LOGDRIVE_ALWAYS
#else
#define LOGDRIVE_GLOG_INLINE_ inline
#endif

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

namespace ld = ::logdrive::detail;

// Kinds of items of a statement. 0 is no item.
enum Item : uint64_t { item_literal = 1, item_text, item_int32, item_uint32, item_int64, item_uint64, item_real };
constexpr unsigned ITEM_BITS = 3;
constexpr uint64_t ITEM_MASK = 7;
// Items behind that many are rendered into one text, which is one more.
constexpr unsigned ITEMS_MAX = 20;
// Bytes of values; and of those what is kept for numbers and addresses of long texts behind the texts, for the zeros that
// fill up a record, and for blocks that are copied whole.
constexpr size_t NEAR_BYTES = 640;
constexpr size_t RESERVED_BYTES = 12 * ITEMS_MAX + 8 + 16;

// The shape of a statement without a value, and one that no statement has.
constexpr uint64_t EMPTY = 1;
constexpr uint64_t NO_SHAPE = ~uint64_t(0);

// A shape of a statement, with its callsite.
struct Variant {
    uint32_t claimed = 0;
    // Its place among those of the statement.
    uint32_t number = 0;
    uint64_t shape = NO_SHAPE;
    uint64_t literals = 0;
    ld::SiteWord site;
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

// A statement of the program, in one cache line. Its other shapes are kept for ever.
struct alignas(64) StreamSite {
    const char *file;
    int line;
    int severity;
    Variant usual;
    Variant *others;
};

// Types whose values are stored as they are. All others, and operators of the program, find std::ostream.
template <class T> struct Kept {};
template <class Value, Item ITEM> struct KeptAs {
    using Stored = Value;
    static constexpr Item item = ITEM;
};
template <> struct Kept<bool> : KeptAs<uint32_t, item_uint32> {};
template <> struct Kept<short> : KeptAs<int32_t, item_int32> {};
template <> struct Kept<unsigned short> : KeptAs<uint32_t, item_uint32> {};
template <> struct Kept<int> : KeptAs<int32_t, item_int32> {};
template <> struct Kept<unsigned> : KeptAs<uint32_t, item_uint32> {};
template <> struct Kept<long> : KeptAs<int64_t, item_int64> {};
template <> struct Kept<unsigned long> : KeptAs<uint64_t, item_uint64> {};
template <> struct Kept<long long> : KeptAs<int64_t, item_int64> {};
template <> struct Kept<unsigned long long> : KeptAs<uint64_t, item_uint64> {};
// As a stream does.
template <> struct Kept<float> : KeptAs<double, item_real> {};
template <> struct Kept<double> : KeptAs<double, item_real> {};
// Texts and addresses are texts.
template <> struct Kept<char> : KeptAs<char, item_text> {};
template <> struct Kept<char *> : KeptAs<const char *, item_text> {};
template <> struct Kept<const char *> : KeptAs<const char *, item_text> {};
template <> struct Kept<void *> : KeptAs<const void *, item_text> {};
template <> struct Kept<const void *> : KeptAs<const void *, item_text> {};
template <> struct Kept<std::string_view> : KeptAs<std::string_view, item_text> {};

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

class Stream;

// Buffer of a Stream: text that comes through std::ostream.
class StreamBuffer final : public std::streambuf {
public:
    explicit StreamBuffer(Stream &stream) noexcept : stream_(stream) {}

protected:
    int_type overflow(int_type one) override;
    std::streamsize xsputn(const char *text, std::streamsize length) override;
    void imbue(const std::locale &) override;

private:
    Stream &stream_;
};

// The stream of `LOG(...)`: a std::ostream whose << of common types stores values. An object is a thread's, for one statement after
// the other; a statement in an operand of another, or in a signal handler, has the next.
class Stream final : public std::ostream {
public:
    Stream() noexcept;
    ~Stream() override;
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;

    // An idle one of this thread; with a counter, one whose COUNTER is that. Then begin() it.
    static Stream &take(StreamSite *site) noexcept;
    static Stream &take_counted(StreamSite *site, int64 counter) noexcept;
    LOGDRIVE_ALWAYS static Stream &take_inline(StreamSite *site) noexcept {
        Stream *stream = __atomic_load_n(&idle(), __ATOMIC_RELAXED);
        if (LOGDRIVE_UNLIKELY(stream == nullptr)) stream = make_idle();
        __atomic_store_n(&idle(), stream->next_, __ATOMIC_RELAXED);
        // A handler that interrupts this before has given it back.
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        stream->site_ = site;
        return *stream;
    }
    // The compiler knows the shape from here on, and up to the first text the place of the next value. The bits are zero
    // already where there is no counter: with a store just before, the end of the statement reads them faster.
    LOGDRIVE_GLOG_INLINE_ void begin(bool is_counted = false) noexcept {
        shape_ = EMPTY;
        literals_ = 0;
        used_ = 0;
        bits_ = is_counted ? uint32_t(COUNTED) : 0;
    }
    // Makes the record, and the stream idle.
    void finish() noexcept;
    // One of this thread that makes no record.
    static Stream &discarding() noexcept;

    template <class Kept> LOGDRIVE_GLOG_INLINE_ Stream &number(typename Kept::Stored value) noexcept {
        if (LOGDRIVE_UNLIKELY(is_full())) return streamed(value);
        // For the compiler, a store at a place that it does not know may have changed both.
        const uint64_t shape = shape_;
        const uint32_t used = used_;
        __builtin_memcpy(near_ + used, &value, sizeof value);
        used_ = used + uint32_t(sizeof value);
        shape_ = shape << ITEM_BITS | Kept::item;
        return *this;
    }
    LOGDRIVE_GLOG_INLINE_ Stream &text(char value) noexcept {
        if (__builtin_constant_p(value) && value != 0) return literal(CHARACTERS.texts[static_cast<unsigned char>(value)]);
        return text(&value, 1);
    }
    LOGDRIVE_GLOG_INLINE_ Stream &text(const char *text) noexcept {
#if !defined(__clang__) && defined(__OPTIMIZE__)
        if (__builtin_constant_p(__builtin_strlen(text))) return literal(text);
#endif
        return pointed(text);
    }
    LOGDRIVE_GLOG_INLINE_ Stream &text(std::string_view value) noexcept { return text(value.data(), value.size()); }
    LOGDRIVE_GLOG_INLINE_ Stream &text(const char *text, size_t length) noexcept {
        if (LOGDRIVE_UNLIKELY(is_full())) return streamed(text, length);
        // For the compiler, a call may have changed it.
        const uint64_t shape = shape_;
        used_ = put_text(text, length);
        shape_ = shape << ITEM_BITS | item_text;
        return *this;
    }
    LOGDRIVE_GLOG_INLINE_ Stream &pointed(const char *text) noexcept {
        if (LOGDRIVE_UNLIKELY(is_full())) return streamed(text);
        const uint64_t shape = shape_;
        used_ = put_pointed(text);
        shape_ = shape << ITEM_BITS | item_text;
        return *this;
    }
    // An address, in the way of streams.
    Stream &text(const void *address) noexcept;
    LOGDRIVE_GLOG_INLINE_ Stream &literal(const char *text) noexcept {
        if (*text == 0) return *this;
        if (LOGDRIVE_UNLIKELY(is_full())) return streamed(text);
        texts_[items()] = text;
        shape_ = shape_ << ITEM_BITS | item_literal;
        // Not two addresses in one vector register.
        __asm__("" : "+r"(text));
        literals_ = literals_ * 3 + reinterpret_cast<uintptr_t>(text);
        return *this;
    }
    LOGDRIVE_GLOG_INLINE_ Stream &counter() noexcept { return number<Kept<long>>(counter_); }

    // From here on all is text that std::ostream makes.
    __attribute__((cold)) std::ostream &opened() noexcept;
    void put(const char *text, size_t length) noexcept;
    void note_locale() noexcept;
    // State that changes how values are shown.
    using std::ostream::fill;
    using std::ostream::flags;
    using std::ostream::precision;
    using std::ostream::put;
    using std::ostream::width;
    char fill(char one) { return opened().fill(one); }
    std::ios_base::fmtflags flags(std::ios_base::fmtflags all) { return opened().flags(all); }
    std::streamsize precision(std::streamsize digits) { return opened().precision(digits); }
    std::streamsize width(std::streamsize characters) { return opened().width(characters); }
    std::ios_base::fmtflags setf(std::ios_base::fmtflags some) { return opened().setf(some); }
    std::ios_base::fmtflags setf(std::ios_base::fmtflags some, std::ios_base::fmtflags of) { return opened().setf(some, of); }
    void unsetf(std::ios_base::fmtflags some) { opened().unsetf(some); }
    std::ios &copyfmt(const std::ios &from) { return opened().copyfmt(from); }

private:
    // The record has other text than the callsite; a text has memory of its own; std::ostream was used; so was a locale; the
    // message begins with the stack.
    enum : uint32_t { RENDERED = 1, FAR_TEXT = 2, OPENED = 4, COUNTED = 8, IMBUED = 16, TRACED = 32 };
    // Of a shape: full before its time.
    static constexpr uint64_t CLOSED = uint64_t(1) << 63;

    LOGDRIVE_ALWAYS static Stream *&idle() noexcept {
        static thread_local Stream *first __attribute__((tls_model("initial-exec"))) = nullptr;
        return first;
    }
    __attribute__((cold)) static Stream *make_idle() noexcept;
    static void end_thread(void *chunks) noexcept;
    LOGDRIVE_ALWAYS bool is_full() const noexcept { return shape_ >> (ITEM_BITS * ITEMS_MAX) != 0; }
    LOGDRIVE_ALWAYS unsigned items() const noexcept { return unsigned(63 - __builtin_clzll(shape_)) / ITEM_BITS; }
    // In the way of streams.
    __attribute__((cold)) Stream &streamed(int32_t value) noexcept;
    __attribute__((cold)) Stream &streamed(uint32_t value) noexcept;
    __attribute__((cold)) Stream &streamed(int64_t value) noexcept;
    __attribute__((cold)) Stream &streamed(uint64_t value) noexcept;
    __attribute__((cold)) Stream &streamed(double value) noexcept;
    __attribute__((cold)) Stream &streamed(const char *text) noexcept;
    __attribute__((cold)) Stream &streamed(const char *text, size_t length) noexcept;
    __attribute__((cold)) void note_counter(int64 counter) noexcept;

    // Places a text behind the values, but for the shape; returns the bytes of values then. Without memory a long text becomes empty.
    uint32_t put_text(const char *text, size_t length) noexcept;
    uint32_t put_pointed(const char *text) noexcept;
    uint32_t place_text(const char *text, size_t length) noexcept;
    void add_text(const char *text, size_t length) noexcept;
    __attribute__((cold)) uint32_t put_far(const char *text, uint32_t length) noexcept;
    template <class Use> void each(const Use &use) noexcept;
    void trim() noexcept;
    bool is_pristine() const noexcept;
    void make_pristine() noexcept;
    void finish_trimmed();
    void finish_whole();
    __attribute__((cold)) void finish_slowly();
    __attribute__((cold)) void finish_in_library();
    __attribute__((cold)) void finish_urgent();
    void make_idle_again() noexcept;
    void free_far_texts() noexcept;
    void end_text() noexcept;
    bool think(State &shared);
    void write_values(const logdrive_site *site) noexcept;
    void write_rendered() noexcept;
    void echo_values(const State &shared);
    __attribute__((cold)) void send_values(const State &shared) noexcept;
    Variant *find_variant() noexcept;
    const logdrive_site *registered(Variant &variant, bool &fits) noexcept;
    void show(::logdrive::Out &out) noexcept;

    Stream *next_ = nullptr;
    StreamSite *site_ = nullptr;
    int64 counter_ = 0;
    uint64_t shape_ = EMPTY;
    // Distinguishes constant texts from others.
    uint64_t literals_ = 0;
    // Bytes of values.
    uint32_t used_ = 0;
    uint32_t bits_ = 0;
    // The constant texts, each at its place among the items.
    const char *texts_[ITEMS_MAX];
    uint8_t near_[NEAR_BYTES];
    // Text behind the values.
    ::logdrive::Out tail_;
    StreamBuffer buffer_;
};

// With Clang, statements that take their stream without a call would be larger than glog's.
#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__)
#define LOGDRIVE_GLOG_TAKE_ Stream::take_inline
#else
#define LOGDRIVE_GLOG_TAKE_ Stream::take
#endif

// The temporary in front of stream(). It lives until the end of the statement.
class Statement {
public:
    LOGDRIVE_GLOG_INLINE_ explicit Statement(StreamSite *site) noexcept : stream_(LOGDRIVE_GLOG_TAKE_(site)) { stream_.begin(); }
    Statement(StreamSite *site, int64 counter) noexcept : stream_(Stream::take_counted(site, counter)) { stream_.begin(true); }
    LOGDRIVE_GLOG_INLINE_ ~Statement() { stream_.finish(); }
    Statement(const Statement &) = delete;
    Statement &operator=(const Statement &) = delete;
    LOGDRIVE_GLOG_INLINE_ Stream &stream() const noexcept { return stream_; }

private:
    Stream &stream_;
};

// For exactly these types, so that overload resolution finds for all others what it finds for a std::ostream. By value: a
// constant without a definition, a bit field and a field of a packed struct have no address.
template <class T, class Stored = typename Kept<T>::Stored>
LOGDRIVE_GLOG_INLINE_ Stream &operator<<(Stream &out, T value) noexcept {
    if constexpr (Kept<T>::item != item_text) return out.number<Kept<T>>(static_cast<Stored>(value));
    else return out.text(static_cast<Stored>(value));
}
template <class A>
LOGDRIVE_GLOG_INLINE_ Stream &operator<<(Stream &out, const std::basic_string<char, std::char_traits<char>, A> &value) noexcept {
    return out.text(value.data(), value.size());
}
LOGDRIVE_GLOG_INLINE_ Stream &operator<<(Stream &out, const PRIVATE_Counter &) noexcept { return out.counter(); }
#if defined(__clang__) && defined(__OPTIMIZE__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgcc-compat"
// The compiler chooses it for what is a literal in the source.
LOGDRIVE_GLOG_INLINE_ Stream &operator<<(Stream &out, const char *text) noexcept
    __attribute__((enable_if(__builtin_constant_p(text), "a literal"))) {
    return out.literal(text);
}
#pragma clang diagnostic pop
#endif
inline std::ostream &operator<<(Stream &out, std::nullptr_t) { return out.opened() << nullptr; }
// Those that a template may use on a stream of its own type, before it shows a number.
inline std::ostream &operator<<(Stream &out, std::ostream &(*manipulator)(std::ostream &)) { return out.opened() << manipulator; }
inline std::ostream &operator<<(Stream &out, std::ios_base &(*manipulator)(std::ios_base &)) { return out.opened() << manipulator; }
inline std::ostream &operator<<(Stream &out, std::ios &(*manipulator)(std::ios &)) { return out.opened() << manipulator; }

}  // namespace internal
}  // namespace logdrive_glog
}  // namespace google

#endif
