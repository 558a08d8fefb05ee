// Encoding of a call's values into the bytes of a record (spec/record.md): the static type decides the kind; how
// many bytes it takes is known before the ring is touched.
#ifndef LOGDRIVE_DETAIL_CAPTURE_HPP
#define LOGDRIVE_DETAIL_CAPTURE_HPP

#include <logdrive/detail/ring.hpp>
#include <logdrive/detail/render.hpp>
#include <iosfwd>
#include <type_traits>
#include <utility>

namespace logdrive {
inline namespace v0 {

// Bytes that are shown as such, in hexadecimal with {:x}: logdrive::bytes(data, size).
struct Bytes {
    const void *data;
    size_t size;
};
inline Bytes bytes(const void *data, size_t size) noexcept { return {data, size}; }

// A field with a name: logdrive::kv("order_id", id). The name must be a literal.
template <class T> struct KeyValue {
    const T &value;
};
template <class T> LOGDRIVE_ALWAYS KeyValue<T> kv(const char *, const T &value) noexcept { return {value}; }

namespace detail LOGDRIVE_HIDDEN {

enum Kind : uint8_t {
    BOOL = 1, I8, I16, I32, I64, I128, U8, U16, U32, U64, U128, F32, F64, CHAR, STR, BYTES, DISPLAY, DEBUG, POINTER,
    NONE, OPTIONAL = 0x80
};

constexpr const char *NO_UNIT = "";

template <uint8_t KIND, class N> struct Number {
    static constexpr uint8_t kind = KIND;
    static constexpr const char *unit = NO_UNIT;
    N value;
    LOGDRIVE_ALWAYS size_t size() const noexcept { return sizeof(N); }
    LOGDRIVE_ALWAYS uint8_t *put(uint8_t *at) const noexcept { return store(at, value); }
};

template <uint8_t KIND> struct Blob {
    static constexpr uint8_t kind = KIND;
    static constexpr const char *unit = NO_UNIT;
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
template <class T, class = void> struct Rendered {
    static constexpr uint8_t kind = DISPLAY;
    static constexpr const char *unit = NO_UNIT;
    Out out;
    LOGDRIVE_ALWAYS size_t size() const noexcept { return 4 + size_t(blob_length(out.size())); }
    LOGDRIVE_ALWAYS uint8_t *put(uint8_t *at) const noexcept {
        const uint32_t length = blob_length(out.size());
        return copy(store(at, length), out.data(), length);
    }
};

template <class C> struct Maybe {
    static constexpr uint8_t kind = C::kind | OPTIONAL;
    static constexpr const char *unit = C::unit;
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
    static constexpr const char *unit = UNIT::name;
};

template <class...> using Void = void;
template <class T> using Plain = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T> struct IsKeyValue : std::false_type {};
template <class T> struct IsKeyValue<KeyValue<T>> : std::true_type {};

template <class T, class = void> struct HasRender : std::false_type {};
template <class T> struct HasRender<T, Void<decltype(sizeof(Render<T>))>> : std::true_type {};

template <class T, class = void> struct IsText : std::false_type {};
template <class T>
struct IsText<T, Void<typename T::value_type, decltype(std::declval<const T &>().data()),
                      decltype(std::declval<const T &>().size())>>
    : std::integral_constant<bool, std::is_same<Plain<typename T::value_type>, char>::value> {};

template <class T, class = void> struct IsBytes : std::false_type {};
template <class T>
struct IsBytes<T, Void<typename T::value_type, decltype(std::declval<const T &>().data()),
                       decltype(std::declval<const T &>().size())>>
    : std::integral_constant<bool, sizeof(typename T::value_type) == 1 &&
                                       !std::is_same<Plain<typename T::value_type>, char>::value &&
                                       !std::is_same<Plain<typename T::value_type>, bool>::value> {};

template <class T, class = void> struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<T, Void<typename T::value_type, decltype(std::declval<const T &>().has_value()),
                          decltype(*std::declval<const T &>())>> : std::true_type {};

template <class T, class = void> struct IsDuration : std::false_type {};
template <class T>
struct IsDuration<T, Void<typename T::rep, typename T::period, decltype(std::declval<const T &>().count())>>
    : std::true_type {};

template <class T, class = void> struct IsTimePoint : std::false_type {};
template <class T>
struct IsTimePoint<T, Void<typename T::clock, typename T::duration,
                           decltype(std::declval<const T &>().time_since_epoch())>> : std::true_type {};

template <class T, class = void> struct IsStreamed : std::false_type {};
template <class T>
struct IsStreamed<T, Void<decltype(std::declval<std::ostream &>() << std::declval<const T &>())>> : std::true_type {};

// Shared and unique pointers.
template <class T, class = void> struct IsSmart : std::false_type {};
template <class T>
struct IsSmart<T, Void<typename T::element_type, decltype(std::declval<const T &>().get())>>
    : std::is_pointer<decltype(std::declval<const T &>().get())> {};

template <class T, class = void> struct IsRange : std::false_type {};
template <class T>
struct IsRange<T, Void<decltype(std::declval<const T &>().begin() != std::declval<const T &>().end()),
                       decltype(*std::declval<const T &>().begin())>> : std::true_type {};
// Maps are shown with keys.
template <class T, class = void> struct IsMap : std::false_type {};
template <class T> struct IsMap<T, Void<typename T::key_type, typename T::mapped_type>> : IsRange<T> {};
// std::pair, std::tuple and what has as many parts as they.
template <class T, class = void> struct IsTuple : std::false_type {};
template <class T> struct IsTuple<T, Void<decltype(std::tuple_size<T>::value)>> : std::true_type {};

template <class T> constexpr uint8_t integer_kind() {
    constexpr bool is_signed = T(-1) < T(0);
    return sizeof(T) == 1   ? (is_signed ? I8 : U8)
           : sizeof(T) == 2 ? (is_signed ? I16 : U16)
           : sizeof(T) == 4 ? (is_signed ? I32 : U32)
           : sizeof(T) == 8 ? (is_signed ? I64 : U64)
                            : (is_signed ? I128 : U128);
}

template <class T> struct IsInteger : std::is_integral<T> {};
#if defined(__SIZEOF_INT128__)
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;
template <> struct IsInteger<Int128> : std::true_type {};
template <> struct IsInteger<Uint128> : std::true_type {};
#endif

// Scoped enums may have an operator<<; unscoped ones are numbers, as for streams.
template <class T, bool IS_ENUM = std::is_enum<T>::value> struct IsNumberEnum : std::false_type {};
template <class T>
struct IsNumberEnum<T, true>
    : std::integral_constant<bool, std::is_convertible<T, long long>::value || !IsStreamed<T>::value> {};

template <class T>
struct IsCharacter : std::integral_constant<bool, std::is_same<T, char>::value || std::is_same<T, wchar_t>::value ||
                                                      std::is_same<T, char16_t>::value ||
                                                      std::is_same<T, char32_t>::value> {};

// A Unicode scalar value; whatever is none becomes the mark for that.
LOGDRIVE_ALWAYS Number<CHAR, uint32_t> character(uint32_t code) noexcept {
    const bool is_scalar = code < 0xd800 || (code > 0xdfff && code <= 0x10ffff);
    return {is_scalar ? code : 0xfffd};
}

struct UnitNs { static constexpr const char *name = "ns"; };
struct UnitUs { static constexpr const char *name = "us"; };
struct UnitMs { static constexpr const char *name = "ms"; };
struct UnitS { static constexpr const char *name = "s"; };
struct UnitMin { static constexpr const char *name = "min"; };
struct UnitH { static constexpr const char *name = "h"; };

template <long long NUM, long long DEN> struct UnitOf { using type = void; };
template <> struct UnitOf<1, 1000000000> { using type = UnitNs; };
template <> struct UnitOf<1, 1000000> { using type = UnitUs; };
template <> struct UnitOf<1, 1000> { using type = UnitMs; };
template <> struct UnitOf<1, 1> { using type = UnitS; };
template <> struct UnitOf<60, 1> { using type = UnitMin; };
template <> struct UnitOf<3600, 1> { using type = UnitH; };

template <class T> LOGDRIVE_ALWAYS auto capture(const T &value);

// Elements of a container that are shown.
constexpr size_t ELEMENTS_MAX = 1000;

inline void render_quoted(Out &out, const char *data, size_t length) noexcept {
    out.append('"');
    for (size_t i = 0; i < length; ++i) {
        if (data[i] == '"' || data[i] == '\\') out.append('\\');
        out.append(data[i]);
    }
    out.append('"');
}
// As few digits as give the same number.
inline void render_real(Out &out, double value) noexcept {
    char text[32];
    for (int digits = 6; digits <= 17; ++digits) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, nullptr) == value) break;
    }
    out.append(text);
}

template <class T> void render_part(Out &out, const T &value);
template <class T, size_t... I> void render_parts(Out &out, const T &value, std::index_sequence<I...>) {
    using std::get;
    out.append('(');
    ((out.append(I == 0 ? "" : ", "), render_part(out, get<I>(value))), ...);
    out.append(')');
}
template <class T> void render_range(Out &out, const T &value) {
    const bool has_keys = IsMap<T>::value;
    out.append(has_keys ? '{' : '[');
    size_t count = 0;
    for (const auto &element : value) {
        if (count > 0) out.append(", ");
        if (count++ == ELEMENTS_MAX) {
            out.append("…");
            break;
        }
        if constexpr (IsMap<T>::value) {
            render_part(out, element.first);
            out.append(": ");
            render_part(out, element.second);
        } else render_part(out, element);
    }
    out.append(has_keys ? '}' : ']');
}
// A part of a container: texts are quoted.
template <class T> LOGDRIVE_COLD void render_part(Out &out, const T &value) {
    using U = std::decay_t<T>;
    if constexpr (HasRender<T>::value) Render<T>::render(out, value);
    else if constexpr (std::is_same<T, bool>::value) out.append(value ? "true" : "false");
    else if constexpr (std::is_same<T, char>::value) out.print("'%c'", value);
    else if constexpr (std::is_floating_point<T>::value) render_real(out, static_cast<double>(value));
    else if constexpr (std::is_integral<T>::value && std::is_signed<T>::value) out.print("%lld", static_cast<long long>(value));
    else if constexpr (std::is_integral<T>::value) out.print("%llu", static_cast<unsigned long long>(value));
    else if constexpr (std::is_same<U, char *>::value || std::is_same<U, const char *>::value)
        render_quoted(out, value == nullptr ? "(null)" : value, strlen(value == nullptr ? "(null)" : value));
    else if constexpr (IsText<T>::value) render_quoted(out, value.data(), value.size());
    else if constexpr (std::is_pointer<U>::value) out.print("0x%llx", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(value)));
    else if constexpr (IsNumberEnum<T>::value) render_part(out, static_cast<std::underlying_type_t<T>>(value));
    else if constexpr (IsOptional<T>::value) {
        if (value.has_value()) render_part(out, *value);
        else out.append("none");
    } else if constexpr (IsStreamed<T>::value) render_by_stream(out, value);
    else if constexpr (IsRange<T>::value) render_range(out, value);
    else if constexpr (IsTuple<T>::value) render_parts(out, value, std::make_index_sequence<std::tuple_size<T>::value>());
    else static_assert(IsStreamed<T>::value, "logdrive: this type cannot be logged: give it an operator<<, or specialise logdrive::Render");
}

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

template <class T> LOGDRIVE_ALWAYS auto capture_object(const T &value) {
    if constexpr (IsText<T>::value) {
        return text(value.data(), value.size());
    } else if constexpr (IsOptional<T>::value) {
        using C = decltype(capture(*value));
        return value.has_value() ? Maybe<C>{true, capture(*value)} : Maybe<C>{false, C{}};
    } else if constexpr (IsDuration<T>::value) {
        return capture_duration(value);
    } else if constexpr (IsTimePoint<T>::value) {
        using Period = typename T::duration::period;
        Rendered<T> rendered;
        render_time(rendered.out, static_cast<long double>(value.time_since_epoch().count()) *
                                      static_cast<long double>(Period::num) / static_cast<long double>(Period::den));
        return rendered;
    } else if constexpr (IsStreamed<T>::value) {
        Rendered<T> rendered;
        render_by_stream(rendered.out, value);
        return rendered;
    } else if constexpr (IsBytes<T>::value) {
        return Blob<BYTES>{value.data(), blob_length(value.size())};
    } else if constexpr (IsSmart<T>::value) {
        return Number<POINTER, uint64_t>{reinterpret_cast<uintptr_t>(value.get())};
    } else if constexpr (IsRange<T>::value || IsTuple<T>::value) {
        Rendered<T> rendered;
        render_part(rendered.out, value);
        return rendered;
    } else {
        static_assert(IsStreamed<T>::value,
                      "logdrive: this type cannot be logged: give it an operator<<, or specialise logdrive::Render");
        return 0;
    }
}

template <class T> LOGDRIVE_ALWAYS auto capture(const T &value) {
    using U = std::decay_t<T>;
    if constexpr (IsKeyValue<T>::value) {
        return capture(value.value);
    } else if constexpr (HasRender<T>::value) {
        Rendered<T> rendered;
        Render<T>::render(rendered.out, value);
        return rendered;
    } else if constexpr (std::is_same<T, Bytes>::value) {
        return Blob<BYTES>{value.data, blob_length(value.size)};
    } else if constexpr (std::is_same<T, bool>::value) {
        return Number<BOOL, uint8_t>{uint8_t(value)};
    } else if constexpr (IsCharacter<T>::value) {
        return character(static_cast<uint32_t>(static_cast<std::make_unsigned_t<T>>(value)));
    } else if constexpr (IsInteger<T>::value) {
        return Number<integer_kind<T>(), T>{value};
    } else if constexpr (std::is_same<T, float>::value) {
        return Number<F32, float>{value};
    } else if constexpr (std::is_floating_point<T>::value) {
        return Number<F64, double>{static_cast<double>(value)};
    } else if constexpr (std::is_same<U, char *>::value || std::is_same<U, const char *>::value) {
        return text(value);
    } else if constexpr (std::is_null_pointer<T>::value) {
        return Number<POINTER, uint64_t>{0};
    } else if constexpr (std::is_pointer<U>::value) {
        return Number<POINTER, uint64_t>{reinterpret_cast<uintptr_t>(static_cast<U>(value))};
    } else if constexpr (IsNumberEnum<T>::value) {
        return capture(static_cast<std::underlying_type_t<T>>(value));
    } else {
        return capture_object(value);
    }
}

// The kinds of a call's values: what a callsite registers before the first value exists.
template <class... C> struct Kinds {
    static constexpr size_t count = sizeof...(C);
    static constexpr uint8_t kinds[sizeof...(C) + 1] = {C::kind..., 0};
    static constexpr const char *units[sizeof...(C) + 1] = {C::unit..., NO_UNIT};
};

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
