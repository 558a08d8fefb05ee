// LOG(INFO) << a << b: each value is stored on the stack as the record will have it; the statement's end copies all of them
// into the ring. Constant text is no value: it goes into the callsite's message, once. What only a stream can show (types
// with an operator<<, manipulators) makes the rest of the statement a stream, whose text is the record's last value.
//
// A statement is identified by its shape: the kinds of its values, three bits each behind a bit that is 1, and the addresses of
// its constant texts. Where a statement has another shape than at its first call (an exception cut it short, or the
// compiler knows more of a text in one copy of an inline function than in another), it is another callsite. That a text
// is constant is looked at once, when the callsite is made.
//
// All that a statement has is in one object on the stack, and a << is a handful of instructions without a template: it is
// what the compiler sees most often.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_STREAM_HPP
#define LOGDRIVE_DETAIL_GLOG_STREAM_HPP

#include <logdrive/detail/glog_message.hpp>
#include <string_view>
#include <type_traits>

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

template <class T> struct IsString : std::false_type {};
template <class A> struct IsString<std::basic_string<char, std::char_traits<char>, A>> : std::true_type {};
template <> struct IsString<std::basic_string_view<char>> : std::true_type {};

template <class T>
struct IsOneChar : std::integral_constant<bool, std::is_same<T, char>::value || std::is_same<T, signed char>::value ||
                                                    std::is_same<T, unsigned char>::value> {};
template <class T>
struct IsCharPointer
    : std::integral_constant<bool, std::is_pointer<std::decay_t<T>>::value &&
                                       IsOneChar<std::remove_cv_t<std::remove_pointer_t<std::decay_t<T>>>>::value> {};
template <class T>
struct IsDataPointer
    : std::integral_constant<bool, std::is_pointer<std::decay_t<T>>::value && !IsCharPointer<T>::value &&
                                       !std::is_function<std::remove_pointer_t<std::decay_t<T>>>::value &&
                                       !std::is_volatile<std::remove_pointer_t<std::decay_t<T>>>::value> {};

// Rarely used state.
struct Rare {
    // Text behind the last value; that of the stream, where there is one.
    ::logdrive::Out own;
    ::logdrive::Out *tail = nullptr;
    std::ostream *stream = nullptr;
    // The message cannot stand in a callsite: its constant end has a line break that is not the message's.
    bool is_rendered = false;

    ~Rare() { delete stream; }
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

// The temporary that LOG(...) creates in front of its stream(). It lives until the end of the statement and holds the
// captured values. Values put into it through a reference are streamed.
class Stream {
public:
    LOGDRIVE_ALWAYS explicit Stream(StreamSite *site, int64 counter = 0) noexcept : site_(site), counter_(counter) {}
    LOGDRIVE_ALWAYS ~Stream() { finish(); }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    LOGDRIVE_ALWAYS Stream &&stream() noexcept { return static_cast<Stream &&>(*this); }

#define LOGDRIVE_GLOG_NUMBER_(type, item, stored)                  \
    LOGDRIVE_ALWAYS Stream &&operator<<(type value) && noexcept {  \
        const stored kept = static_cast<stored>(value);            \
        if (LOGDRIVE_UNLIKELY(is_full())) return full(item, kept); \
        shape_ = shape_ << ITEM_BITS | (item);                     \
        __builtin_memcpy(near_ + used_, &kept, sizeof kept);       \
        used_ += sizeof kept;                                      \
        return static_cast<Stream &&>(*this);                      \
    }
    LOGDRIVE_GLOG_NUMBER_(bool, item_uint32, uint32_t)
    LOGDRIVE_GLOG_NUMBER_(short, item_int32, int32_t)
    LOGDRIVE_GLOG_NUMBER_(unsigned short, item_uint32, uint32_t)
    LOGDRIVE_GLOG_NUMBER_(int, item_int32, int32_t)
    LOGDRIVE_GLOG_NUMBER_(unsigned, item_uint32, uint32_t)
    LOGDRIVE_GLOG_NUMBER_(long, item_int64, int64_t)
    LOGDRIVE_GLOG_NUMBER_(unsigned long, item_uint64, uint64_t)
    LOGDRIVE_GLOG_NUMBER_(long long, item_int64, int64_t)
    LOGDRIVE_GLOG_NUMBER_(unsigned long long, item_uint64, uint64_t)
    // As a stream does.
    LOGDRIVE_GLOG_NUMBER_(float, item_real, double)
    LOGDRIVE_GLOG_NUMBER_(double, item_real, double)
#undef LOGDRIVE_GLOG_NUMBER_
    LOGDRIVE_ALWAYS Stream &&operator<<(const PRIVATE_Counter &) && noexcept {
        return static_cast<Stream &&>(*this) << counter_;
    }
    // A character is a byte of text, whatever it is part of.
    LOGDRIVE_ALWAYS Stream &&operator<<(char value) && noexcept {
        if (__builtin_constant_p(value) && value != 0) return literal(CHARACTERS.texts[static_cast<unsigned char>(value)]);
        return character(value);
    }
    LOGDRIVE_ALWAYS Stream &&operator<<(signed char value) && noexcept { return static_cast<Stream &&>(*this) << char(value); }
    LOGDRIVE_ALWAYS Stream &&operator<<(unsigned char value) && noexcept { return static_cast<Stream &&>(*this) << char(value); }
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgcc-compat"
    // The compiler chooses it for what is a literal in the source.
    LOGDRIVE_ALWAYS Stream &&operator<<(const char *text) &&
        noexcept __attribute__((enable_if(__builtin_constant_p(text), "a literal"))) {
        return literal(text);
    }
#pragma clang diagnostic pop
#endif
    LOGDRIVE_ALWAYS Stream &&operator<<(const char *text) && noexcept {
#if !defined(__clang__)
        if (__builtin_constant_p(__builtin_strlen(text))) return literal(text);
#endif
        return pointed(text);
    }
    LOGDRIVE_ALWAYS Stream &&operator<<(const std::string &value) && noexcept { return text(value.data(), value.size()); }
    LOGDRIVE_ALWAYS Stream &&operator<<(std::string_view value) && noexcept { return text(value.data(), value.size()); }
    // Arrays and pointers that may change, other pointers, strings of another kind; all else is shown by a stream.
    template <class T> LOGDRIVE_ALWAYS decltype(auto) operator<<(const T &value) && {
        if constexpr (IsCharPointer<T>::value) {
            const auto *pointer = value;
            return pointed(reinterpret_cast<const char *>(pointer));
        } else if constexpr (IsString<T>::value) return text(value.data(), value.size());
        else if constexpr (IsDataPointer<T>::value) return address(value);
        else return opened() << value;
    }
    std::ostream &operator<<(std::ostream &(*manipulator)(std::ostream &)) { return opened() << manipulator; }
    std::ostream &operator<<(std::ios_base &(*manipulator)(std::ios_base &)) { return opened() << manipulator; }
    std::ostream &operator<<(std::ios &(*manipulator)(std::ios &)) { return opened() << manipulator; }
    // Of an lvalue, such as a reference that was bound to it: all is a stream.
    template <class T> std::ostream &operator<<(const T &value) & { return opened() << value; }
    operator std::ostream &() { return opened(); }

private:
    LOGDRIVE_ALWAYS bool is_full() const noexcept { return shape_ >> (ITEM_BITS * ITEMS_MAX) != 0; }

    // Values behind the last that a record has room for, in the way of streams.
    __attribute__((cold)) Stream &&full(Item, double value) noexcept;
    __attribute__((cold)) Stream &&full(Item item, int64_t value) noexcept;
    __attribute__((cold)) Stream &&full(const char *text, size_t length) noexcept;
    LOGDRIVE_ALWAYS Stream &&full(Item item, int32_t value) noexcept { return full(item, int64_t(value)); }
    LOGDRIVE_ALWAYS Stream &&full(Item item, uint32_t value) noexcept { return full(item, int64_t(value)); }
    LOGDRIVE_ALWAYS Stream &&full(Item item, uint64_t value) noexcept { return full(item, int64_t(value)); }
    LOGDRIVE_ALWAYS Stream &&literal(const char *text) noexcept {
        if (*text == 0) return static_cast<Stream &&>(*this);
        if (LOGDRIVE_UNLIKELY(is_full())) return full(text, strlen(text));
        shape_ = shape_ << ITEM_BITS | item_literal;
        texts_[constants_++] = text;
        return static_cast<Stream &&>(*this);
    }
    // Without memory a long text becomes empty.
    Stream &&text(const char *text, size_t length) noexcept;
    Stream &&pointed(const char *text) noexcept;
    Stream &&character(char value) noexcept;
    // An address, in the way of streams.
    __attribute__((cold)) Stream &&address(const void *address) noexcept;
    // A stream behind what there is.
    __attribute__((cold)) std::ostream &opened();
    void finish();

    void put_text(const char *text, size_t length) noexcept;
    bool put_far(const char *text, uint32_t length) noexcept;
    ::logdrive::Out *tail() noexcept;
    uint64_t literals() const noexcept;
    template <class Use> void each(const Use &use) noexcept;
    void trim() noexcept;
    Rare *rare() noexcept;
    void finish_slowly();
    void end_stream() noexcept;
    bool think(State &shared);
    void write_values(const logdrive_site *site) noexcept;
    void write_rendered() noexcept;
    Variant *find_variant() noexcept;
    const logdrive_site *registered(Variant &variant) noexcept;
    void show(::logdrive::Out &out) noexcept;

    StreamSite *site_;
    int64 counter_;
    Rare *rare_ = nullptr;
    uint64_t shape_ = EMPTY;
    // Bytes of values, and how many constant texts there are.
    uint32_t used_ = 0;
    uint32_t constants_ = 0;
    const char *texts_[ITEMS_MAX];
    uint8_t near_[NEAR_BYTES];
};

}  // namespace internal
}  // namespace logdrive_glog
}  // namespace google

#endif
