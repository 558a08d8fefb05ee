// Formatting at the call: specs of parts of containers, and numbers and texts by them, as std::format shows them.
#ifndef LOGDRIVE_DETAIL_SPEC_HPP
#define LOGDRIVE_DETAIL_SPEC_HPP

#include <logdrive/detail/render.hpp>
#include <type_traits>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

// Part of a text, such as a spec: braces are resolved in it.
struct Part {
    const char *at;
    const char *end;
    bool eat(char one) noexcept {
        if (at == end || *at != one) return false;
        ++at;
        return true;
    }
    char peek() const noexcept { return at == end ? '\0' : *at; }
};

// What stands in a spec, in its order.
struct Spec {
    const char *fill = " ";
    uint8_t fill_bytes = 1;
    char align = 0;
    char sign = '-';
    bool alternate = false;
    bool zero = false;
    int width = 0;
    int precision = -1;
    char type = 0;
};

inline int read_count(Part &text) noexcept {
    int value = 0;
    while (text.peek() >= '0' && text.peek() <= '9' && value <= 1024) value = value * 10 + (*text.at++ - '0');
    return value > 1024 ? 1024 : value;
}

inline bool is_align(char one) noexcept { return one == '<' || one == '^' || one == '>'; }

inline void read_fill_and_align(Part &text, Spec &spec) noexcept {
    if (text.peek() == ':') return;
    const char *behind = text.at;
    while (behind < text.end && (behind == text.at || (*behind & 0xc0) == 0x80)) ++behind;
    if (behind < text.end && is_align(*behind)) {
        spec.fill = text.at;
        spec.fill_bytes = static_cast<uint8_t>(behind - text.at);
        spec.align = *behind;
        text.at = behind + 1;
    } else if (is_align(text.peek())) spec.align = *text.at++;
}

// A spec without its type.
inline Spec read_front(Part &text) noexcept {
    Spec spec;
    read_fill_and_align(text, spec);
    if (text.peek() == '+' || text.peek() == '-' || text.peek() == ' ') spec.sign = *text.at++;
    spec.alternate = text.eat('#');
    spec.zero = text.eat('0');
    spec.width = read_count(text);
    if (text.eat('.')) spec.precision = read_count(text);
    return spec;
}

inline Spec read_spec(Part text) noexcept {
    Spec spec = read_front(text);
    spec.type = text.peek();
    return spec;
}

// Characters of a text, up to the one at `most`; `bytes` becomes their length.
inline size_t count_characters(const char *text, size_t &bytes, size_t most) noexcept {
    size_t count = 0, at = 0;
    for (; at < bytes; ++at) {
        if ((text[at] & 0xc0) == 0x80) continue;
        if (count == most) break;
        ++count;
    }
    bytes = at;
    return count;
}

inline void fill(Out &out, const Spec &spec, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) out.append(spec.fill, spec.fill_bytes);
}

// A text in its width; `align` is that of its type.
inline void put_padded(Out &out, const char *text, size_t bytes, const Spec &spec, char align) noexcept {
    const size_t width = static_cast<size_t>(spec.width);
    size_t all = bytes;
    const size_t count = width == 0 ? 0 : count_characters(text, all, bytes);
    if (width <= count) return out.append(text, bytes);
    if (spec.align != 0) align = spec.align;
    const size_t room = width - count;
    const size_t before = align == '<' ? 0 : align == '>' ? room : room / 2;
    fill(out, spec, before);
    out.append(text, bytes);
    fill(out, spec, room - before);
}

// A number whose first bytes are sign and prefix: zeros go behind them.
inline void put_number(Out &out, const char *text, size_t bytes, size_t front, const Spec &spec, bool is_finite = true) noexcept {
    if (!spec.zero || spec.align != 0 || !is_finite) return put_padded(out, text, bytes, spec, '>');
    out.append(text, front);
    for (size_t i = bytes; i < static_cast<size_t>(spec.width); ++i) out.append('0');
    out.append(text + front, bytes - front);
}

// A text between quotes, escaped as {:?} does.
inline void put_quoted(Out &out, const char *text, size_t bytes, char quote) noexcept {
    out.append(quote);
    for (size_t i = 0; i < bytes; ++i) {
        const char one = text[i];
        const char *const escaped = one == '\n' ? "\\n" : one == '\t' ? "\\t" : one == '\r' ? "\\r" : one == '\\' ? "\\\\" : nullptr;
        if (escaped != nullptr) out.append(escaped, 2);
        else if (one == quote) out.append('\\'), out.append(one);
        else if (static_cast<unsigned char>(one) < 0x20 || one == 0x7f) out.print("\\u{%x}", static_cast<unsigned>(one));
        else out.append(one);
    }
    out.append(quote);
}

inline void put_text(Out &out, const char *text, size_t bytes, const Spec &spec) noexcept {
    if (spec.type == '?') {
        if (spec.width == 0) return put_quoted(out, text, bytes, '"');
        Out quoted;
        put_quoted(quoted, text, bytes, '"');
        return put_padded(out, quoted.data(), quoted.size(), spec, '<');
    }
    if (spec.precision >= 0) count_characters(text, bytes, static_cast<size_t>(spec.precision));
    put_padded(out, text, bytes, spec, '<');
}

inline size_t put_sign(char *text, bool is_negative, char sign) noexcept {
    if (is_negative) text[0] = '-';
    else if (sign == '+' || sign == ' ') text[0] = sign;
    else return 0;
    return 1;
}

inline void put_character(Out &out, uint32_t code, const Spec &spec) noexcept {
    char text[4];
    size_t bytes = 0;
    if (code < 0x80) text[bytes++] = static_cast<char>(code);
    else if (code < 0x800) text[bytes++] = static_cast<char>(0xc0 | code >> 6);
    else if (code < 0x10000) text[bytes++] = static_cast<char>(0xe0 | code >> 12);
    else text[bytes++] = static_cast<char>(0xf0 | code >> 18);
    if (code >= 0x10000) text[bytes++] = static_cast<char>(0x80 | (code >> 12 & 0x3f));
    if (code >= 0x800) text[bytes++] = static_cast<char>(0x80 | (code >> 6 & 0x3f));
    if (code >= 0x80) text[bytes++] = static_cast<char>(0x80 | (code & 0x3f));
    if (spec.type != '?') return put_padded(out, text, bytes, spec, '<');
    Out quoted;
    put_quoted(quoted, text, bytes, '\'');
    put_padded(out, quoted.data(), quoted.size(), spec, '<');
}

// `N` is the widest type of the number.
template <class N> void put_integer(Out &out, N value, bool is_negative, const Spec &spec) noexcept {
    if (spec.type == 'c') return put_character(out, static_cast<uint32_t>(value), spec);
    const bool is_large = spec.type == 'X' || spec.type == 'B';
    const unsigned base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' || spec.type == 'B' ? 2 : 10;
    const char *const figures = is_large ? "0123456789ABCDEF" : "0123456789abcdef";
    char text[136];
    char *at = text + sizeof text;
    const bool is_zero = value == 0;
    *--at = figures[static_cast<size_t>(value % base)];
    for (N rest = value / base; rest != 0; rest /= base) *--at = figures[static_cast<size_t>(rest % base)];
    char *const digits = at;
    if (spec.alternate && base != 10 && !(base == 8 && is_zero)) {
        if (base != 8) *--at = spec.type;
        *--at = '0';
    }
    char sign = 0;
    if (put_sign(&sign, is_negative, spec.sign) != 0) *--at = sign;
    const size_t front = static_cast<size_t>(digits - at);
    put_number(out, at, static_cast<size_t>(text + sizeof text - at), front, spec);
}

// A point where the locale has another mark.
inline size_t with_point(char *text) noexcept {
    size_t to = 0;
    bool was_mark = false;
    for (size_t from = 0; text[from] != 0; ++from) {
        const unsigned char one = static_cast<unsigned char>(text[from]);
        const bool is_kept = one < 0x80 && one != ',' && one != '\'';
        if (is_kept) text[to++] = static_cast<char>(one);
        else if (!was_mark) text[to++] = '.';
        was_mark = !is_kept;
    }
    text[to] = 0;
    return to;
}

// As few digits as give the same number, in `text`; with an exponent below 1e-4 and from 1e16 on, as fmt does.
inline size_t shortest(char *text, double value, bool is_float) noexcept {
    // So many digits survive the way through a double, or float: where they suffice, the shortest are these without zeros. Of the
    // smallest numbers, which have fewer, each count is tried.
    const bool is_subnormal = value < (is_float ? 1.17549436e-38 : 2.2250738585072014e-308);
    char made[40];
    for (int digits = is_subnormal ? 0 : is_float ? 5 : 14;; ++digits) {
        snprintf(made, sizeof made, "%.*e", digits, value);
        if (digits == 16 || (is_float ? strtof(made, nullptr) == static_cast<float>(value) : strtod(made, nullptr) == value)) break;
    }
    char *const mark = strchr(made, 'e');
    const int exponent = atoi(mark + 1);
    size_t digits = 0;
    for (const char *at = made; at < mark; ++at)
        if (*at >= '0' && *at <= '9') made[digits++] = *at;
    while (digits > 1 && made[digits - 1] == '0') --digits;
    size_t bytes = 0;
    const auto put = [&](char one) { text[bytes++] = one; };
    if (exponent < -4 || exponent >= 16) {
        put(made[0]);
        if (digits > 1) put('.');
        for (size_t i = 1; i < digits; ++i) put(made[i]);
        return bytes + static_cast<size_t>(snprintf(text + bytes, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent)));
    }
    for (int i = exponent < 0 ? exponent : 0; i < static_cast<int>(digits) || i <= exponent; ++i) {
        if (i == exponent + 1 && exponent >= 0) put('.');
        put(i < 0 || i >= static_cast<int>(digits) ? '0' : made[i]);
        if (i == exponent && exponent < 0) put('.');
    }
    return bytes;
}

inline void put_real(Out &out, double value, bool is_float, const Spec &given) noexcept {
    Spec spec = given;
    // Others are not for printf.
    if (spec.type != 0 && strchr("aAeEfFgG", spec.type) == nullptr) spec.type = 0;
    char text[1500];
    const bool is_negative = __builtin_signbit(value) != 0;
    const size_t front = put_sign(text, is_negative, spec.sign);
    if (is_negative) value = -value;
    const bool is_large = spec.type >= 'A' && spec.type <= 'G';
    if (!__builtin_isfinite(value)) {
        memcpy(text + front, value != value ? (is_large ? "NAN" : "nan") : is_large ? "INF" : "inf", 3);
        return put_number(out, text, front + 3, front, spec, false);
    }
    size_t bytes = 0;
    if (spec.type == 0 && spec.precision < 0) {
        bytes = shortest(text + front, value, is_float);
    } else if ((spec.type == 'a' || spec.type == 'A') && spec.precision < 0) {
        snprintf(text + front, sizeof text - front, is_large ? "%A" : "%a", value);
        bytes = with_point(text + front);
        // As std::to_chars does, without 0x.
        memmove(text + front, text + front + 2, bytes -= 2);
    } else {
        const char form[] = {'%', '#', '.', '*', spec.type == 0 ? 'g' : spec.type, '\0'};
        const char plain[] = {'%', '.', '*', form[4], '\0'};
        const int precision = spec.precision < 0 ? 6 : spec.precision;
        snprintf(text + front, sizeof text - front, spec.alternate ? form : plain, precision, value);
        bytes = with_point(text + front);
    }
    put_number(out, text, front + bytes, front, spec);
}

inline void put_pointer(Out &out, uintptr_t address, const Spec &spec) noexcept {
    Spec hexadecimal = spec;
    hexadecimal.type = 'x';
    hexadecimal.alternate = true;
    put_integer(out, static_cast<unsigned long long>(address), false, hexadecimal);
}

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
