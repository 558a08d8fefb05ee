// Traits of the types that can be logged: which of the ways to show a value fits a type.
#ifndef LOGDRIVE_DETAIL_TRAITS_HPP
#define LOGDRIVE_DETAIL_TRAITS_HPP

#include <logdrive/detail/render.hpp>
#include <cstddef>
#include <iosfwd>
#include <iterator>
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

template <class...> using Void = void;
template <class T> using Plain = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T> struct IsKeyValue : std::false_type {};
template <class T> struct IsKeyValue<KeyValue<T>> : std::true_type {};

// Whether a formatter of fmt, or of the standard library, shows the type: detail/formatters.hpp knows.
template <class T, class = void> struct ByFmt : std::false_type {};
template <class T, class = void> struct ByStd : std::false_type {};

template <class T, class = void> struct HasRender : std::false_type {};
template <class T> struct HasRender<T, Void<decltype(sizeof(Render<T>))>> : std::true_type {};

// Characters in a row that are a text: a vector of characters is none.
template <class T, class = void> struct HasTraits : std::false_type {};
template <class T> struct HasTraits<T, Void<typename T::traits_type>> : std::true_type {};
template <class T, class = void> struct HasCString : std::false_type {};
template <class T> struct HasCString<T, Void<decltype(std::declval<const T &>().c_str())>> : std::true_type {};
template <class T, class = void> struct IsStringView : std::false_type {};
template <class T> struct IsStringView<T, Void<decltype(std::declval<T &>().remove_prefix(size_t(1)))>> : std::true_type {};
template <class T, class = void> struct IsText : std::false_type {};
template <class T>
struct IsText<T, Void<typename T::value_type, decltype(std::declval<const T &>().data()),
                      decltype(std::declval<const T &>().size())>>
    : std::integral_constant<bool, std::is_same<Plain<typename T::value_type>, char>::value &&
                                       (HasTraits<T>::value || HasCString<T>::value || IsStringView<T>::value)> {};

template <class T, class = void> struct IsBytes : std::false_type {};
template <class T>
struct IsBytes<T, Void<typename T::value_type, decltype(std::declval<const T &>().data()),
                       decltype(std::declval<const T &>().size())>>
    : std::integral_constant<bool, sizeof(typename T::value_type) == 1 &&
                                       (std::is_integral<typename T::value_type>::value ||
                                        std::is_same<Plain<typename T::value_type>, std::byte>::value) &&
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
template <class T, size_t N> struct IsRange<T[N]> : std::true_type {};
// Views that change where they are read, such as std::views::filter, are read as copies.
template <class T, class = void> struct IsView : std::false_type {};
template <class T>
struct IsView<T, Void<decltype(std::declval<T &>().begin() != std::declval<T &>().end()), decltype(*std::declval<T &>().begin())>>
    : std::integral_constant<bool, !IsRange<T>::value && std::is_copy_constructible<T>::value> {};
// Maps are shown with keys, sets with the braces of maps.
template <class T, class = void> struct IsMap : std::false_type {};
template <class T> struct IsMap<T, Void<typename T::key_type, typename T::mapped_type>> : IsRange<T> {};
template <class T, class = void> struct IsSet : std::false_type {};
template <class T> struct IsSet<T, Void<typename T::key_type>> : IsRange<T> {};
// std::pair, std::tuple and what has as many parts as they.
template <class T, class = void> struct IsTuple : std::false_type {};
template <class T> struct IsTuple<T, Void<decltype(std::tuple_size<T>::value)>> : std::true_type {};

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


template <class T> struct IsCString : std::integral_constant<bool, std::is_same<std::decay_t<T>, char *>::value || std::is_same<std::decay_t<T>, const char *>::value> {};

// Units that have a name.
struct UnitNs {
    static constexpr const char *name = "ns";
    static constexpr uint8_t number = 1;
};
struct UnitUs {
    static constexpr const char *name = "us";
    static constexpr uint8_t number = 2;
};
struct UnitMs {
    static constexpr const char *name = "ms";
    static constexpr uint8_t number = 3;
};
struct UnitS {
    static constexpr const char *name = "s";
    static constexpr uint8_t number = 4;
};
struct UnitMin {
    static constexpr const char *name = "min";
    static constexpr uint8_t number = 5;
};
struct UnitH {
    static constexpr const char *name = "h";
    static constexpr uint8_t number = 6;
};

template <long long NUM, long long DEN> struct UnitOf { using type = void; };
template <> struct UnitOf<1, 1000000000> { using type = UnitNs; };
template <> struct UnitOf<1, 1000000> { using type = UnitUs; };
template <> struct UnitOf<1, 1000> { using type = UnitMs; };
template <> struct UnitOf<1, 1> { using type = UnitS; };
template <> struct UnitOf<60, 1> { using type = UnitMin; };
template <> struct UnitOf<3600, 1> { using type = UnitH; };

template <class T> void show_time(Out &out, const T &value) noexcept {
    using Period = typename T::duration::period;
    render_time(out, static_cast<long double>(value.time_since_epoch().count()) * static_cast<long double>(Period::num) /
                         static_cast<long double>(Period::den));
}

// Ways to show a type, in the order in which they are asked for.
enum class Way { render, number, text, formatter, optional, duration, time, stream, bytes, pointer, range, tuple, none };

template <class T> constexpr Way way_of() {
    if constexpr (HasRender<T>::value) return Way::render;
    else if constexpr (std::is_arithmetic<T>::value || IsInteger<T>::value) return Way::number;
    else if constexpr (IsCString<T>::value || IsText<T>::value) return Way::text;
    else if constexpr (std::is_pointer<T>::value || std::is_null_pointer<T>::value || std::is_function<T>::value) return Way::pointer;
    else if constexpr (std::is_array<T>::value) return Way::range;
    else if constexpr (ByFmt<T>::value || ByStd<T>::value) return Way::formatter;
    else if constexpr (IsNumberEnum<T>::value) return Way::number;
    else if constexpr (IsOptional<T>::value) return Way::optional;
    else if constexpr (IsDuration<T>::value) return Way::duration;
    else if constexpr (IsTimePoint<T>::value) return Way::time;
    else if constexpr (IsStreamed<T>::value) return Way::stream;
    else if constexpr (IsBytes<T>::value) return Way::bytes;
    else if constexpr (IsSmart<T>::value) return Way::pointer;
    else if constexpr (IsRange<T>::value || IsView<T>::value) return Way::range;
    else if constexpr (IsTuple<T>::value) return Way::tuple;
    else return Way::none;
}

template <class T> using Element = Plain<decltype(*std::begin(std::declval<T &>()))>;

template <class T, class = void> struct IsLoggable;
template <class T, class I> struct AreLoggable;
template <class T, size_t... I> struct AreLoggable<T, std::index_sequence<I...>>
    : std::integral_constant<bool, (IsLoggable<Plain<std::tuple_element_t<I, T>>>::value && ...)> {};

template <class T> constexpr bool is_loggable() {
    constexpr Way way = way_of<T>();
    if constexpr (way == Way::optional) return IsLoggable<Plain<decltype(*std::declval<const T &>())>>::value;
    else if constexpr (way == Way::range && std::is_array<T>::value) return IsLoggable<Plain<std::remove_extent_t<T>>>::value;
    else if constexpr (way == Way::range && IsView<T>::value) return IsLoggable<Element<T>>::value;
    else if constexpr (way == Way::range) return IsLoggable<Element<const T>>::value;
    else if constexpr (way == Way::tuple) return AreLoggable<T, std::make_index_sequence<std::tuple_size<T>::value>>::value;
    else return way != Way::none;
}
// Whether a type and all its parts can be shown. A struct, so that a type is asked about once.
template <class T, class> struct IsLoggable : std::integral_constant<bool, is_loggable<T>()> {};

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
