// Texts of containers, maps, pairs, tuples and optionals, made at the call as std::format of C++23 and fmt show them:
// [1, 2], {"a": 1}, (1, "two"), optional(3). Texts and characters in them are quoted, unless a spec says otherwise.
#ifndef LOGDRIVE_DETAIL_CONTAINERS_HPP
#define LOGDRIVE_DETAIL_CONTAINERS_HPP

#include <logdrive/detail/spec.hpp>
#include <logdrive/detail/traits.hpp>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

// Elements of a container that are shown.
constexpr size_t ELEMENTS_MAX = 1000;
// Bytes of a text behind which no element is begun: the mark and the count of those that are left out fit behind it.
constexpr size_t TEXT_BYTES_MAX = RECORD_BYTES_MAX - 6 * 1024;

// Calls code of the program; an exception of it becomes a part of the text.
template <class Call> void guarded(Out &out, const Call &call) noexcept {
#if defined(__cpp_exceptions)
    try {
        call();
    } catch (...) {
        out.append("<exception>");
    }
#else
    (void)out;
    call();
#endif
}

template <class T> void show(Out &out, const T &value, Part spec, bool is_quoted);

// Code of the program gives a text; the spec is that of a text.
template <class Call> void show_text_of(Out &out, Part text, const Call &call) noexcept {
    const Spec spec = read_spec(text);
    if (spec.width == 0 && spec.precision < 0 && spec.type != '?') return guarded(out, [&] { call(out); });
    Out inner;
    guarded(inner, [&] { call(inner); });
    put_text(out, inner.data(), inner.size(), spec);
}

template <class T> void show_number(Out &out, const T &value, Part text, bool is_quoted) noexcept {
    Spec spec = read_spec(text);
    if constexpr (std::is_enum<T>::value) {
        show_number(out, static_cast<std::underlying_type_t<T>>(value), text, is_quoted);
    } else if constexpr (std::is_same<T, bool>::value) {
        if (spec.type == 0 || spec.type == 's' || spec.type == '?') {
            spec.type = 0;
            return put_text(out, value ? "true" : "false", value ? 4 : 5, spec);
        }
        put_integer(out, static_cast<unsigned>(value), false, spec);
    } else if constexpr (std::is_floating_point<T>::value) {
        put_real(out, static_cast<double>(value), std::is_same<T, float>::value, spec);
    } else if constexpr (IsCharacter<T>::value) {
        if (spec.type == 0 && is_quoted) spec.type = '?';
        const auto code = static_cast<uint32_t>(static_cast<std::make_unsigned_t<T>>(value));
        if (spec.type == 0 || spec.type == 'c' || spec.type == '?') put_character(out, code, spec);
        else put_integer(out, code, false, spec);
    } else {
        using Wide = std::conditional_t<(sizeof(T) > 8), Uint128, unsigned long long>;
        const bool is_negative = value < T(0);
        const Wide wide = static_cast<Wide>(value);
        put_integer(out, is_negative ? Wide(0) - wide : wide, is_negative, spec);
    }
}

template <class T> void show_text(Out &out, const T &value, Part text, bool is_quoted) noexcept {
    Spec spec = read_spec(text);
    if (spec.type == 0 && is_quoted) spec.type = '?';
    if constexpr (IsCString<T>::value) {
        const char *const shown = value == nullptr ? "(null)" : value;
        put_text(out, shown, strlen(shown), spec);
    } else put_text(out, value.data(), value.size(), spec);
}

template <class T> void show_duration(Out &out, const T &value, Part text) {
    using Unit = typename UnitOf<T::period::num, T::period::den>::type;
    show(out, value.count(), text, false);
    if constexpr (!std::is_void<Unit>::value) out.append(Unit::name);
    else if constexpr (T::period::den == 1) out.print("[%lld]s", static_cast<long long>(T::period::num));
    else out.print("[%lld/%lld]s", static_cast<long long>(T::period::num), static_cast<long long>(T::period::den));
}

// Spec of a range or a tuple: what is about the whole, and what is about its elements.
struct RangeSpec {
    Spec whole;
    bool has_brackets = true;
    // `m`, `s` or `?`; 0 without any.
    char type = 0;
    bool has_element = false;
    Part element = {nullptr, nullptr};
};
inline RangeSpec read_range_spec(Part text) noexcept {
    RangeSpec spec;
    read_fill_and_align(text, spec.whole);
    spec.whole.width = read_count(text);
    spec.has_brackets = !text.eat('n');
    if (text.peek() != ':') spec.type = text.peek();
    while (text.at < text.end && *text.at != ':') ++text.at;
    spec.has_element = text.eat(':');
    spec.element = text;
    return spec;
}

// `body` in the width of the spec.
template <class Body> void show_in_width(Out &out, const Spec &spec, const Body &body) {
    if (spec.width == 0) return body(out);
    Out inner;
    body(inner);
    put_padded(out, inner.data(), inner.size(), spec, '<');
}

template <class T, size_t... I>
void show_parts(Out &out, const T &value, const RangeSpec &spec, bool is_pair_of_map, std::index_sequence<I...>) {
    using std::get;
    const bool is_open = spec.has_brackets && !is_pair_of_map && spec.type != 'm';
    const char *const between = is_pair_of_map || spec.type == 'm' ? ": " : ", ";
    if (is_open) out.append('(');
    ((out.append(I == 0 ? "" : between), show(out, get<I>(value), Part{nullptr, nullptr}, true)), ...);
    if (is_open) out.append(')');
}
template <class T> void show_tuple(Out &out, const T &value, const RangeSpec &spec, bool is_pair_of_map) {
    constexpr auto parts = std::make_index_sequence<std::tuple_size<T>::value>();
    show_in_width(out, spec.whole, [&](Out &to) { show_parts(to, value, spec, is_pair_of_map, parts); });
}

// Elements from `at` on as text, for {:s}.
template <class T> void show_characters(Out &out, const T &value, char type) {
    Out text;
    for (const auto &one : value) {
        if constexpr (std::is_same<Plain<decltype(one)>, char>::value) text.append(one);
    }
    Spec spec;
    spec.type = type == '?' ? '?' : '\0';
    put_text(out, text.data(), text.size(), spec);
}

template <class T> void show_elements(Out &out, T &value, const RangeSpec &spec) {
    constexpr bool has_keys = IsMap<std::remove_const_t<T>>::value;
    constexpr bool is_set = IsSet<std::remove_const_t<T>>::value;
    if (spec.has_brackets) out.append(has_keys || is_set ? '{' : '[');
    size_t count = 0, left_out = 0;
    for (const auto &element : value) {
        if (left_out != 0 || count == ELEMENTS_MAX || out.size() > TEXT_BYTES_MAX) {
            ++left_out;
            continue;
        }
        if (count++ > 0) out.append(", ");
        if constexpr (has_keys) show_tuple(out, element, read_range_spec(spec.element), true);
        else show(out, static_cast<const Plain<decltype(element)> &>(element), spec.element, !spec.has_element);
    }
    if (left_out != 0) out.print(", … %zu more", left_out);
    if (spec.has_brackets) out.append(has_keys || is_set ? '}' : ']');
}

template <class T> void show_range(Out &out, const T &value, Part text) {
    const RangeSpec spec = read_range_spec(text);
    show_in_width(out, spec.whole, [&](Out &to) {
        if (spec.type == 's' || spec.type == '?') {
            if constexpr (IsRange<T>::value) show_characters(to, value, spec.type);
        } else if constexpr (IsView<T>::value) {
            T copied = value;
            show_elements(to, copied, spec);
        } else show_elements(to, value, spec);
    });
}

template <class T> void show_optional(Out &out, const T &value, Part text) {
    if (!value.has_value()) return out.append("none");
    out.append("optional(");
    show(out, static_cast<const Plain<decltype(*value)> &>(*value), text, true);
    out.append(')');
}

// A type that has a formatter. One that the formatter refuses is shown with no spec, in the width of a text.
template <class T> void show_by_formatter(Out &out, const T &value, Part text) noexcept {
    using By = std::conditional_t<ByStd<T>::value, ByStd<T>, ByFmt<T>>;
#if defined(__cpp_exceptions)
    const size_t before = out.size();
    try {
        return By::format(out, value, text.at, static_cast<size_t>(text.end - text.at));
    } catch (...) {
        out.cut(before);
    }
    show_text_of(out, text, [&](Out &to) { By::format(to, value, nullptr, 0); });
#else
    By::format(out, value, text.at, static_cast<size_t>(text.end - text.at));
#endif
}

// A value by its spec; texts and characters are quoted where the spec names no type.
template <class T> void show(Out &out, const T &value, Part spec, bool is_quoted) {
    constexpr Way way = way_of<T>();
    if constexpr (way == Way::render) show_text_of(out, spec, [&](Out &to) { Render<T>::render(to, value); });
    else if constexpr (way == Way::number) show_number(out, value, spec, is_quoted);
    else if constexpr (way == Way::text) show_text(out, value, spec, is_quoted);
    else if constexpr (way == Way::formatter) show_by_formatter(out, value, spec);
    else if constexpr (way == Way::optional) show_optional(out, value, spec);
    else if constexpr (way == Way::duration) show_duration(out, value, spec);
    else if constexpr (way == Way::time) show_text_of(out, spec, [&](Out &to) { show_time(to, value); });
    else if constexpr (way == Way::stream) show_text_of(out, spec, [&](Out &to) { render_by_stream(to, value); });
    else if constexpr (way == Way::range || way == Way::bytes) show_range(out, value, spec);
    else if constexpr (way == Way::tuple) show_tuple(out, value, read_range_spec(spec), false);
    else if constexpr (IsSmart<T>::value) put_pointer(out, reinterpret_cast<uintptr_t>(value.get()), read_spec(spec));
    else if constexpr (std::is_null_pointer<T>::value) put_pointer(out, 0, read_spec(spec));
    else if constexpr (way == Way::pointer) put_pointer(out, reinterpret_cast<uintptr_t>(value), read_spec(spec));
}

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
