// The callsite of a log statement: a static that learns, with the first call, where its control word is.
#ifndef LOGDRIVE_DETAIL_SITE_HPP
#define LOGDRIVE_DETAIL_SITE_HPP

#include <logdrive/detail/format.hpp>
#include <errno.h>
#include <stdio.h>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

// Description of a log statement of another front end; source and units may be null.
struct Meta {
    const char *file;
    const char *module;
    const char *target;
    const char *format;
    const char *source;
    const uint8_t *kinds;
    const char *const *units;
    uint32_t line;
    uint8_t count;
    uint8_t level;
};

// Signals of the thread wait, so that no handler that logs interrupts an allocation.
class SignalsHeld {
public:
    SignalsHeld() noexcept : held_(logdrive_hold_signals()) {}
    ~SignalsHeld() { logdrive_release_signals(held_); }
    SignalsHeld(const SignalsHeld &) = delete;
    SignalsHeld &operator=(const SignalsHeld &) = delete;

private:
    uint64_t held_;
};

// Bytes that grow, for descriptions.
class Description {
public:
    ~Description() { free(data_); }
    const uint8_t *data() const noexcept { return data_; }
    size_t size() const noexcept { return size_; }

    void put(const void *bytes, size_t length) noexcept {
        if (size_ + length > capacity_) {
            const size_t capacity = (size_ + length) * 2 + 256;
            void *fresh = realloc(data_, capacity);
            if (fresh == nullptr) return;
            data_ = static_cast<uint8_t *>(fresh);
            capacity_ = capacity;
        }
        if (length != 0) memcpy(data_ + size_, bytes, length);
        size_ += length;
    }
    void byte(unsigned value) noexcept {
        const uint8_t one = static_cast<uint8_t>(value);
        put(&one, 1);
    }
    void half(size_t value) noexcept {
        const uint16_t two = static_cast<uint16_t>(value);
        put(&two, 2);
    }
    // Text with its length in front; what is longer is cut, between characters.
    void text(const char *data, size_t length, size_t most) noexcept {
        if (length > most) {
            length = most;
            while (length > 0 && (data[length] & 0xc0) == 0x80) --length;
        }
        half(length);
        put(data, length);
    }
    // Stores a length at a place that was put as 0 before.
    void patch(size_t at, size_t length) noexcept {
        const uint16_t two = static_cast<uint16_t>(length);
        if (at + 2 <= size_) memcpy(data_ + at, &two, 2);
    }

private:
    uint8_t *data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

constexpr size_t NAME_BYTES_MAX = 1024;
constexpr size_t MESSAGE_BYTES_MAX = 16384;

// Compile-time description of a log statement of logdrive.hpp. Few addresses, because the loader fills in each. Behind it lies
// its shape, see StatementOf.
struct Statement {
    // File, a zero, target.
    const char *place;
    // Null where the source shows the same between quotes.
    const char *literal;
    // The source of format and arguments, in which the names of fields stand.
    const char *source;
    uint32_t line;
    uint8_t level;
    uint8_t unused[3];

    // The number of values, their kinds, then their units.
    const uint8_t *shape() const noexcept { return reinterpret_cast<const uint8_t *>(this + 1); }
    size_t count() const noexcept { return shape()[0]; }
    const uint8_t *kinds() const noexcept { return shape() + 1; }
    const char *unit(size_t index) const noexcept { return UNITS[kinds()[count() + index]]; }
    const char *target() const noexcept { return place + strlen(place) + 1; }
};

template <size_t N> struct StatementOf {
    Statement statement;
    uint8_t shape[N];
};

// Whether the source of a call begins with this text between quotes.
constexpr bool is_in_source(const char *format, const char *source) {
    if (*source++ != '"') return false;
    for (; *format != 0 && *format != '"' && *format != '\\' && *format == *source; ++format) ++source;
    return *format == 0 && *source == '"' && (source[1] == 0 || source[1] == ',');
}

// Whether the format is read at each call.
template <size_t N> constexpr bool has_late(const uint8_t (&shape)[N]) {
    for (size_t i = 0; i < shape[0]; ++i)
        if (wire_kind(shape[1 + i]) != shape[1 + i]) return true;
    return false;
}

template <size_t N>
constexpr StatementOf<N> describe_call(const char *place, const char *format, const char *source, uint32_t line, uint8_t level,
                                       const uint8_t (&shape)[N]) {
    const bool is_found = format != nullptr && !has_late(shape) && is_in_source(format, source);
    StatementOf<N> all = {{place, is_found ? nullptr : format, source, line, level, {}}, {}};
    for (size_t i = 0; i < N; ++i) all.shape[i] = shape[i];
    return all;
}

// A placeholder as the drain reads it: a width in braces is `1$`, and a spec that was applied at the call is left out.
inline void describe_placeholder(Description &out, const Statement &statement, const Placeholder &found, const char *begin,
                                 size_t &next) noexcept {
    const bool is_auto = *begin == ':' || *begin == '}';
    char digits[24];
    if (!is_auto) {
        const char *end = begin;
        while (*end != ':' && *end != '}') ++end;
        out.put(begin, size_t(end - begin));
    } else if (found.argument != next++) {
        // The drain counts only placeholders without an argument, not widths.
        out.put(digits, size_t(snprintf(digits, sizeof digits, "%zu", found.argument)));
    }
    if (found.spec == found.end || wire_kind(statement.kinds()[found.argument]) != statement.kinds()[found.argument]) return;
    out.put(":", 1);
    const char *from = found.spec;
    for (size_t i = 0; i < found.nested_count; ++i) {
        out.put(from, size_t(found.nested[i].begin - from));
        out.put(digits, size_t(snprintf(digits, sizeof digits, "%zu$", found.nested[i].argument)));
        from = found.nested[i].end;
    }
    out.put(from, size_t(found.end - from));
}

// The message with the units behind the placeholders of durations, and which fields it shows.
inline void describe_message(Description &out, const Statement &statement, const char *format, bool *shown) noexcept {
    const size_t start = out.size();
    out.half(0);
    Checker reader{format, statement.kinds(), statement.count(), statement.source};
    size_t next = 0;
    while (*reader.at != 0 && out.size() - start < MESSAGE_BYTES_MAX - 64) {
        const char *from = reader.at;
        const char c = *reader.at++;
        if (c != '{' || reader.eat('{')) {
            out.put(from, 1);
            if (c == '{') out.put(from, 1);
            continue;
        }
        const char *inner = reader.at;
        const Placeholder found = reader.placeholder();
        if (reader.fault != Fault::none) break;
        out.put("{", 1);
        describe_placeholder(out, statement, found, inner, next);
        out.put("}", 1);
        shown[found.argument] = true;
        for (size_t i = 0; i < found.nested_count; ++i) shown[found.nested[i].argument] = true;
        const char *const unit = statement.unit(found.argument);
        out.put(unit, strlen(unit));
    }
    out.patch(start, out.size() - start - 2);
}

inline void describe_field(Description &out, const Statement &statement, size_t index, bool is_shown) noexcept {
    out.byte(wire_kind(statement.kinds()[index]));
    out.byte(is_shown ? 1 : 0);
    const View source = argument(statement.source, index + 1);
    View name = name_of(source);
    // A name that is no literal: the argument as it stands in the source.
    if (name.size == 0 && !is_shown) name = source;
    const char *unit = statement.unit(index);
    const size_t unit_length = strlen(unit);
    const size_t length = name.size < NAME_BYTES_MAX - 16 ? name.size : NAME_BYTES_MAX - 16;
    if (unit_length == 0 || length == 0) {
        out.text(name.data, length, NAME_BYTES_MAX);
        return;
    }
    out.half(length + 1 + unit_length);
    out.put(name.data, length);
    out.byte('_');
    out.put(unit, unit_length);
}

// The bytes of spec/record.md, section Callsite: what stands before the message.
inline void describe_place(Description &out, const Meta &meta) noexcept {
    out.byte(meta.level);
    out.byte(0);
    out.half(meta.count);
    out.put(&meta.line, 4);
    out.text(meta.file, strlen(meta.file), NAME_BYTES_MAX);
    out.text(meta.module, strlen(meta.module), NAME_BYTES_MAX);
    out.text(meta.target, strlen(meta.target), NAME_BYTES_MAX);
}

// A callsite with a format.
inline void describe_with(Description &out, const Statement &statement, const char *format) noexcept {
    const Meta meta = {statement.place, "", statement.target(), format, statement.source, statement.kinds(), nullptr,
                       statement.line, uint8_t(statement.count()), statement.level};
    describe_place(out, meta);
    bool shown[256] = {};
    describe_message(out, statement, format, shown);
    for (size_t i = 0; i < statement.count(); ++i) describe_field(out, statement, i, shown[i]);
}
inline void describe(Description &out, const Statement &statement) noexcept {
    if (statement.literal != nullptr) return describe_with(out, statement, statement.literal);
    const char *const end = strchr(statement.source + 1, '"');
    Out format;
    format.append(statement.source + 1, size_t(end - statement.source - 1));
    format.append('\0');
    describe_with(out, statement, format.data());
}

// A callsite whose message shows all values, and whose fields have no names.
inline void describe_shown(Description &out, const Meta &meta, const char *message, size_t length) noexcept {
    describe_place(out, meta);
    out.text(message, length, MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < meta.count; ++i) {
        out.byte(meta.kinds[i]);
        out.byte(1);
        out.half(0);
    }
}

// Decision for a call: 0 when the callsite is off, SLOWLY when the library decides, else the callsite's id.
using Ticket = uint32_t;
constexpr Ticket SLOWLY = 0xffffffff;

// The library's callsite, registered with what `describe` puts.
template <class M, class Describe> const logdrive_site *known(SiteWord &site, const M &meta, const Describe &describe) noexcept {
    const void *kept = __atomic_load_n(&site.site, __ATOMIC_ACQUIRE);
    if (kept == &no_site) {
        const SignalsHeld held;
        Description description;
        describe(description, meta);
        kept = logdrive_callsite(description.data(), description.size());
        if (kept != nullptr) __atomic_store_n(&site.site, kept, __ATOMIC_RELEASE);
    }
    return static_cast<const logdrive_site *>(kept);
}

struct Site : SiteWord {
    LOGDRIVE_ALWAYS Ticket ticket(const Statement &statement) noexcept {
        const Entry *found = entry();
        const uint32_t control = __atomic_load_n(&found->control, __ATOMIC_RELAXED);
        if (LOGDRIVE_LIKELY(control == ON)) return __atomic_load_n(&found->id, __ATOMIC_RELAXED);
        if (control == OFF) return 0;
        return ticket_slowly(statement);
    }

    // Registers the callsite; samples.
    LOGDRIVE_COLD Ticket ticket_slowly(const Statement &statement) noexcept {
        const int kept_errno = errno;
        const logdrive_site *kept = known(*this, statement, describe);
        const Ticket ticket = kept != nullptr && logdrive_admit(kept) ? SLOWLY : 0;
        errno = kept_errno;
        return ticket;
    }
};

// The values, encoded, to the library. It finds a ring, waits, cuts or counts.
LOGDRIVE_COLD inline void write_encoded(const void *site, const uint8_t *values, size_t bytes) noexcept {
    if (site == &no_site) return;
    logdrive_write(static_cast<const logdrive_site *>(site), values, bytes);
    PlaceSlot &slot = place_slot();
    if (slot.place == nullptr) slot.place = static_cast<Place *>(logdrive_place());
}

// Values go to functions of their own as copies where that is possible: a value whose address is given away has to be in
// memory, in the fast way as well.
template <class C> using Pass = std::conditional_t<std::is_trivially_copyable<C>::value, C, const C &>;

// Memory for the values of a record, with eight zeros behind them.
class Encoded {
public:
    explicit Encoded(size_t bytes) noexcept
        : data(bytes + 8 <= sizeof near_ ? near_ : static_cast<uint8_t *>(malloc(bytes + 8))), errno_(errno) {
        if (data != nullptr) memset(data + bytes, 0, 8);
    }
    ~Encoded() {
        if (data != near_) free(data);
        errno = errno_;
    }
    Encoded(const Encoded &) = delete;
    Encoded &operator=(const Encoded &) = delete;

    uint8_t *const data;

private:
    int errno_;
    uint8_t near_[2560];
};

template <class C> LOGDRIVE_COLD uint8_t *put_apart(const C &value, uint8_t *at) noexcept { return value.put(at); }

template <class... C> LOGDRIVE_COLD void write_slowly(const void *site, size_t bytes, Pass<C>... values) noexcept {
    const Encoded encoded(bytes);
    uint8_t *at = encoded.data;
    if (at == nullptr) return;
    ((at = put_apart<C>(values, at)), ...);
    write_encoded(site, encoded.data, bytes);
}

#if defined(__OPTIMIZE__)
template <class... C> LOGDRIVE_ALWAYS void write_values(Site &site, Ticket ticket, const C &...values) noexcept {
    const size_t bytes = (size_t(0) + ... + values.size());
    Wrote wrote = Wrote::slowly;
    if (LOGDRIVE_LIKELY(ticket != SLOWLY))
        wrote = write_record(ticket, bytes, [&](uint8_t *at) LOGDRIVE_LAMBDA {
            ((at = values.put(at)), ...);
            (void)at;
        });
    if (LOGDRIVE_UNLIKELY(wrote == Wrote::slowly))
        write_slowly<C...>(__atomic_load_n(&site.site, __ATOMIC_ACQUIRE), bytes, values...);
}
#else
inline void send(Site &site, Ticket ticket, const uint8_t *values, size_t bytes) noexcept {
    if (ticket != SLOWLY && write_padded(ticket, values, bytes) != Wrote::slowly) return;
    write_encoded(__atomic_load_n(&site.site, __ATOMIC_ACQUIRE), values, bytes);
}
// One way for all lists of types, so that little code is made for each.
template <class... C> void write_values(Site &site, Ticket ticket, const C &...values) noexcept {
    const size_t bytes = (size_t(0) + ... + values.size());
    const Encoded encoded(bytes);
    uint8_t *at = encoded.data;
    if (at == nullptr) return;
    ((at = values.put(at)), ...);
    send(site, ticket, encoded.data, bytes);
}
#endif

// Specs of the values that are made texts at the call, with the values of nested widths in them.
struct LateSpec {
    char text[60];
    uint8_t size;
    Part part() const noexcept { return {text, text + size}; }
};

inline void put_spec(LateSpec &spec, const char *from, size_t length) noexcept {
    if (length > sizeof spec.text - spec.size) length = sizeof spec.text - spec.size;
    memcpy(spec.text + spec.size, from, length);
    spec.size = static_cast<uint8_t>(spec.size + length);
}

// Reads a format at the call; the first placeholder of a value counts.
LOGDRIVE_COLD inline void read_specs(LateSpec *specs, const Statement &statement, const char *format, const uint16_t *widths) noexcept {
    for (size_t i = 0; i < statement.count(); ++i) specs[i].size = 0;
    Checker reader{format, statement.kinds(), statement.count(), statement.source};
    while (*reader.at != 0) {
        if (*reader.at++ != '{' || reader.eat('{')) continue;
        const Placeholder found = reader.placeholder();
        if (reader.fault != Fault::none) return;
        LateSpec &spec = specs[found.argument];
        if (spec.size != 0) continue;
        const char *from = found.spec;
        for (size_t i = 0; i < found.nested_count; ++i) {
            char digits[8];
            put_spec(spec, from, size_t(found.nested[i].begin - from));
            put_spec(spec, digits, size_t(snprintf(digits, sizeof digits, "%u", unsigned(widths[found.nested[i].argument]))));
            from = found.nested[i].end;
        }
        put_spec(spec, from, size_t(found.end - from));
    }
}

// A value as a width or precision.
template <class T> uint16_t width_of(const T &value) noexcept {
    if constexpr (IsKeyValue<T>::value) return width_of(value.value);
    else if constexpr (std::is_same<T, bool>::value || !std::is_integral<T>::value) return 0;
    else if (value < T(0)) return 0;
    else return static_cast<unsigned long long>(value) > 1024 ? uint16_t(1024) : static_cast<uint16_t>(value);
}

template <class T> LOGDRIVE_ALWAYS auto capture_with(const T &value, const LateSpec &spec) {
    if constexpr (IsLate<T>::value) return capture_late(value, spec.part());
    else return capture(value);
}

// A call with values that are made texts. One function for each list of types: its memory is not the caller's.
template <class... T, size_t... I>
__attribute__((noinline)) void write_late(Site &site, Ticket ticket, const Statement &statement, std::index_sequence<I...>,
                                          const T &...values) noexcept {
    const int kept = errno;
    LateSpec specs[sizeof...(T)];
    const uint16_t widths[] = {width_of(values)...};
    read_specs(specs, statement, statement.literal, widths);
    write_values(site, ticket, capture_with(values, specs[I])...);
    errno = kept;
}

template <class... T>
LOGDRIVE_ALWAYS void write(Site &site, Ticket ticket, const Statement &statement, const char *, const T &...values) {
    if constexpr ((IsLate<T>::value || ...)) {
        write_late(site, ticket, statement, std::make_index_sequence<sizeof...(T)>(), values...);
    } else {
        (void)statement;
        write_values(site, ticket, capture(values)...);
    }
}

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
