// Encoding of a call's values into the bytes of a record (spec/record.md): the static type decides the kind; how
// many bytes it takes is known before the ring is touched.
#ifndef LOGDRIVE_DETAIL_CAPTURE_HPP
#define LOGDRIVE_DETAIL_CAPTURE_HPP

#include <logdrive/detail/containers.hpp>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

enum Kind : uint8_t {
    BOOL = 1, I8, I16, I32, I64, I128, U8, U16, U32, U64, U128, F32, F64, CHAR, STR, BYTES, DISPLAY, DEBUG, POINTER,
    NONE, OPTIONAL = 0x80
};

// Marks of kinds in this program; on the wire these are DISPLAY. Their spec is applied at the call. Below the mark stands the
// kind of the elements, or 0 for several.
constexpr uint8_t LATE = 0x20;
// The spec is one of a formatter of the program.
constexpr uint8_t FOREIGN = 0x40;
// A type that cannot be logged.
constexpr uint8_t UNLOGGABLE = 0;

constexpr uint8_t wire_kind(uint8_t kind) { return (kind & (LATE | FOREIGN)) != 0 ? uint8_t(DISPLAY | (kind & OPTIONAL)) : kind; }

// Units of durations, by their numbers.
constexpr uint8_t NO_UNIT = 0;
constexpr const char *const UNITS[] = {"", "ns", "us", "ms", "s", "min", "h"};

template <uint8_t KIND, class N> struct Number {
    static constexpr uint8_t kind = KIND;
    static constexpr uint8_t unit = NO_UNIT;
    N value;
    LOGDRIVE_ALWAYS size_t size() const noexcept { return sizeof(N); }
    LOGDRIVE_ALWAYS uint8_t *put(uint8_t *at) const noexcept { return store(at, value); }
};

template <uint8_t KIND> struct Blob {
    static constexpr uint8_t kind = KIND;
    static constexpr uint8_t unit = NO_UNIT;
    const void *data;
    uint32_t length;
    LOGDRIVE_ALWAYS size_t size() const noexcept { return 4 + size_t(length); }
    LOGDRIVE_ALWAYS uint8_t *put(uint8_t *at) const noexcept { return copy(store(at, length), data, length); }
};

LOGDRIVE_ALWAYS Blob<STR> text(const char *data, size_t length) noexcept { return {data, blob_length(length)}; }
LOGDRIVE_ALWAYS Blob<STR> text(const char *data) noexcept {
    return data == nullptr ? text("(null)", 6) : text(data, strlen(data));
}

// Text that was made at the call.
// A text that the program's code makes at the call. The drain applies the spec.
struct Rendered {
    static constexpr uint8_t kind = STR;
    static constexpr uint8_t unit = NO_UNIT;
    Out out;
    template <class Call> explicit Rendered(const Call &call) { guarded(out, [&] { call(out); }); }
    size_t size() const noexcept { return 4 + size_t(blob_length(out.size())); }
    uint8_t *put(uint8_t *at) const noexcept {
        const uint32_t length = blob_length(out.size());
        return copy(store(at, length), out.data(), length);
    }
};

// A text whose spec is applied at the call. Up to NEAR_BYTES are not allocated.
template <uint8_t LEAF> struct Late {
    static constexpr uint8_t kind = LATE | LEAF;
    static constexpr uint8_t unit = NO_UNIT;
    static constexpr size_t NEAR_BYTES = 2000;
    char near_[NEAR_BYTES];
    Out out;
    template <class T> Late(const T &value, Part spec) noexcept : out(near_, NEAR_BYTES) {
        guarded(out, [&] { show(out, value, spec, false); });
    }
    Late(const Late &) = delete;
    Late &operator=(const Late &) = delete;
    size_t size() const noexcept { return 4 + out.size(); }
    uint8_t *put(uint8_t *at) const noexcept { return copy(store(at, uint32_t(out.size())), out.data(), out.size()); }
};

template <class C> struct Maybe {
    static constexpr uint8_t kind = C::kind | OPTIONAL;
    static constexpr uint8_t unit = C::unit;
    bool present;
    C value;
    LOGDRIVE_ALWAYS size_t size() const noexcept { return present ? 1 + value.size() : 1; }
    LOGDRIVE_ALWAYS uint8_t *put(uint8_t *at) const noexcept {
        *at++ = present;
        return present ? value.put(at) : at;
    }
};

// A number with a unit, which the callsite knows.
template <class N, class UNIT> struct Duration : N {
    static constexpr uint8_t unit = UNIT::number;
};

template <class T> constexpr uint8_t integer_kind() {
    constexpr bool is_signed = T(-1) < T(0);
    return sizeof(T) == 1   ? (is_signed ? I8 : U8)
           : sizeof(T) == 2 ? (is_signed ? I16 : U16)
           : sizeof(T) == 4 ? (is_signed ? I32 : U32)
           : sizeof(T) == 8 ? (is_signed ? I64 : U64)
                            : (is_signed ? I128 : U128);
}

// A Unicode scalar value; whatever is none becomes the mark for that.
LOGDRIVE_ALWAYS Number<CHAR, uint32_t> character(uint32_t code) noexcept {
    const bool is_scalar = code < 0xd800 || (code > 0xdfff && code <= 0x10ffff);
    return {is_scalar ? code : 0xfffd};
}

template <class T> LOGDRIVE_ALWAYS auto capture(const T &value);

template <class T> LOGDRIVE_ALWAYS auto capture_duration(const T &value) {
    using Count = decltype(value.count());
    using Unit = typename UnitOf<T::period::num, T::period::den>::type;
    if constexpr (std::is_void<Unit>::value) {
        using Seconds = Duration<Number<F64, double>, UnitS>;
        const double count = static_cast<double>(value.count());
        return Seconds{{count * static_cast<double>(T::period::num) / static_cast<double>(T::period::den)}};
    } else if constexpr (std::is_floating_point<Count>::value) {
        return Duration<Number<F64, double>, Unit>{{static_cast<double>(value.count())}};
    } else {
        return Duration<Number<I64, int64_t>, Unit>{{static_cast<int64_t>(value.count())}};
    }
}

template <class T> LOGDRIVE_ALWAYS auto capture_number(const T &value) {
    if constexpr (std::is_enum<T>::value) {
        return capture(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_same<T, bool>::value) {
        return Number<BOOL, uint8_t>{uint8_t(value)};
    } else if constexpr (IsCharacter<T>::value) {
        return character(static_cast<uint32_t>(static_cast<std::make_unsigned_t<T>>(value)));
    } else if constexpr (IsInteger<T>::value) {
        return Number<integer_kind<T>(), T>{value};
    } else if constexpr (std::is_same<T, float>::value) {
        return Number<F32, float>{value};
    } else {
        return Number<F64, double>{static_cast<double>(value)};
    }
}

template <class T> LOGDRIVE_ALWAYS auto capture_pointer(const T &value) {
    if constexpr (IsSmart<T>::value) return Number<POINTER, uint64_t>{reinterpret_cast<uintptr_t>(value.get())};
    else if constexpr (std::is_null_pointer<T>::value) return Number<POINTER, uint64_t>{0};
    else return Number<POINTER, uint64_t>{reinterpret_cast<uintptr_t>(static_cast<std::decay_t<T>>(value))};
}

// Kind of the elements at the bottom of ranges; 0 for several.
template <class T> constexpr uint8_t leaf_of() {
    constexpr Way way = way_of<T>();
    if constexpr (way == Way::optional) return leaf_of<Plain<decltype(*std::declval<const T &>())>>();
    else if constexpr (way == Way::range && IsMap<T>::value) return 0;
    else if constexpr (way == Way::range && std::is_array<T>::value) return leaf_of<Plain<std::remove_extent_t<T>>>();
    else if constexpr (way == Way::range && IsView<T>::value) return leaf_of<Element<T>>();
    else if constexpr (way == Way::range || way == Way::bytes) return leaf_of<Element<const T>>();
    else if constexpr (way == Way::number || way == Way::text) return decltype(capture(std::declval<const T &>()))::kind;
    else if constexpr (way == Way::pointer) return POINTER;
    else if constexpr (way == Way::formatter) return FOREIGN;
    else if constexpr (way == Way::stream || way == Way::render || way == Way::time) return STR;
    else return 0;
}

// Whether a value is made a text with its spec at the call. A named optional of a plain value keeps its type.
template <class T> constexpr bool is_late() {
    constexpr Way way = way_of<T>();
    if constexpr (!IsLoggable<T>::value) return false;
    else return way == Way::range || way == Way::tuple || way == Way::optional || way == Way::formatter;
}
template <class T> struct IsLate : std::integral_constant<bool, is_late<T>()> {};
template <class T> constexpr bool is_plain_optional() {
    if constexpr (way_of<T>() == Way::optional) {
        constexpr Way inner = way_of<Plain<decltype(*std::declval<const T &>())>>();
        return inner == Way::number || inner == Way::text || inner == Way::pointer || inner == Way::bytes || inner == Way::duration;
    } else return false;
}
template <class T> struct IsLate<KeyValue<T>> : std::integral_constant<bool, is_late<T>() && !is_plain_optional<T>()> {};

template <class T> LOGDRIVE_ALWAYS auto capture_late(const T &value, Part spec) {
    if constexpr (IsKeyValue<T>::value) return capture_late(value.value, spec);
    else return Late<leaf_of<T>()>(value, spec);
}

template <class T> LOGDRIVE_ALWAYS auto capture(const T &value) {
    constexpr Way way = way_of<T>();
    if constexpr (IsKeyValue<T>::value) {
        using V = Plain<decltype(value.value)>;
        if constexpr (is_plain_optional<V>()) {
            using C = decltype(capture(*value.value));
            return value.value.has_value() ? Maybe<C>{true, capture(*value.value)} : Maybe<C>{false, C{}};
        } else return capture(value.value);
    } else if constexpr (std::is_same<T, Bytes>::value) {
        return Blob<BYTES>{value.data, blob_length(value.size)};
    } else if constexpr (IsLate<T>::value) {
        return capture_late(value, Part{nullptr, nullptr});
    } else if constexpr (way == Way::number) {
        return capture_number(value);
    } else if constexpr (way == Way::text) {
        if constexpr (IsCString<T>::value) return text(static_cast<const char *>(value));
        else return text(value.data(), value.size());
    } else if constexpr (way == Way::pointer) {
        return capture_pointer(value);
    } else if constexpr (way == Way::duration) {
        return capture_duration(value);
    } else if constexpr (way == Way::bytes) {
        return Blob<BYTES>{value.data(), blob_length(value.size())};
    } else if constexpr (way == Way::render) {
        return Rendered([&](Out &out) { Render<T>::render(out, value); });
    } else if constexpr (way == Way::time) {
        return Rendered([&](Out &out) { show_time(out, value); });
    } else if constexpr (way == Way::stream) {
        return Rendered([&](Out &out) { render_by_stream(out, value); });
    } else {
        return Number<UNLOGGABLE, uint8_t>{0};
    }
}

// The kinds of a call's values: what a callsite registers before the first value exists. The shape is their count, the kinds,
// then the units: bytes without addresses, which the loader would have to fill in.
template <class... C> struct Kinds {
    static constexpr size_t count = sizeof...(C);
    static constexpr uint8_t shape[2 * sizeof...(C) + 1] = {uint8_t(sizeof...(C)), C::kind..., C::unit...};
};

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
