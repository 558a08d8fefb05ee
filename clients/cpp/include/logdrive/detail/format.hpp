// Compile-time checks of a format string: the grammar of spec/record.md, the number of arguments, and whether each
// placeholder's type fits its argument.
#ifndef LOGDRIVE_DETAIL_FORMAT_HPP
#define LOGDRIVE_DETAIL_FORMAT_HPP

#include <logdrive/detail/capture.hpp>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

enum class Fault { none, brace, few, unused, type, name, order, many };

struct View {
    const char *data;
    size_t size;
};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) || (c & 0x80) != 0;
}
constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }
constexpr bool equal(View a, View b) {
    if (a.size != b.size) return false;
    for (size_t i = 0; i < a.size; ++i)
        if (a.data[i] != b.data[i]) return false;
    return true;
}

// The end of the argument that begins at `at` in the source of a call.
constexpr const char *end_of_argument(const char *at) {
    int depth = 0;
    for (; *at != 0; ++at) {
        if (*at == '"' || *at == '\'') {
            const char quote = *at++;
            for (; *at != 0 && *at != quote; ++at)
                if (*at == '\\' && at[1] != 0) ++at;
            if (*at == 0) return at;
        } else if (*at == '(' || *at == '[' || *at == '{') {
            ++depth;
        } else if (*at == ')' || *at == ']' || *at == '}') {
            --depth;
        } else if (*at == ',' && depth == 0) {
            return at;
        }
    }
    return at;
}

// The source of argument `index`; the format is number 0.
constexpr View argument(const char *source, size_t index) {
    const char *at = source;
    for (size_t i = 0;; ++i) {
        const char *end = end_of_argument(at);
        if (i == index) {
            while (is_space(*at)) ++at;
            return {at, size_t(end - at)};
        }
        if (*end == 0) return {end, 0};
        at = end + 1;
    }
}

// The name of an argument that is `kv("name", ...)`; otherwise empty.
constexpr View name_of(View source) {
    const char *at = source.data;
    const char *end = at + source.size;
    if (source.size > 2 && at[0] == ':' && at[1] == ':') at += 2;
    const char prefix[] = "logdrive::";
    size_t matched = 0;
    while (matched < 10 && at + matched < end && at[matched] == prefix[matched]) ++matched;
    if (matched == 10) at += 10;
    if (end - at < 6 || at[0] != 'k' || at[1] != 'v') return {end, 0};
    at += 2;
    while (at < end && is_space(*at)) ++at;
    if (at == end || *at++ != '(') return {end, 0};
    while (at < end && is_space(*at)) ++at;
    if (at == end || *at++ != '"') return {end, 0};
    const char *name = at;
    while (at < end && *at != '"') ++at;
    return {name, size_t(at - name)};
}

// Returns true if a placeholder's type and spec fit a kind.
constexpr bool fits(uint8_t kind, char type, bool has_precision, bool has_sign) {
    kind &= 0x7f;
    const bool is_integer = kind >= I8 && kind <= U128;
    const bool is_float = kind == F32 || kind == F64;
    const bool is_text = kind == STR || kind == DISPLAY || kind == DEBUG;
    if (has_precision && !is_float && !is_text) return false;
    if (has_sign && !is_integer && !is_float) return false;
    switch (type) {
    case 0: case '?': return true;
    case 'd': return is_integer || kind == BOOL;
    case 'x': case 'X': return is_integer || kind == BYTES || kind == POINTER;
    case 'o': case 'b': return is_integer;
    case 'e': case 'E': return is_float || is_integer;
    case 'f': case 'F': case 'g': case 'a': return is_float;
    case 's': return is_text || kind == BOOL || kind == BYTES;
    case 'c': return kind == CHAR;
    case 'p': return kind == POINTER;
    default: return false;
    }
}

struct Checker {
    const char *at;
    const uint8_t *kinds;
    size_t count;
    const char *source;
    bool used[256] = {};
    size_t next = 0;
    Fault fault = Fault::none;

    constexpr bool eat(char expected) {
        if (*at != expected) return false;
        ++at;
        return true;
    }
    constexpr size_t number() {
        size_t value = 0;
        while (is_digit(*at) && value <= 1024) value = value * 10 + size_t(*at++ - '0');
        if (value > 1024) fault = Fault::brace;
        return value;
    }
    // The index of an argument by its name.
    constexpr size_t named() {
        const char *begin = at;
        while (is_word(*at)) ++at;
        const View name = {begin, size_t(at - begin)};
        for (size_t i = 0; i < count; ++i)
            if (equal(name_of(argument(source, i + 1)), name)) return i;
        fault = Fault::name;
        return 0;
    }
    constexpr size_t index() {
        if (is_digit(*at)) return number();
        if (is_word(*at)) return named();
        return next++;
    }
    constexpr bool use(size_t index) {
        if (index >= count) {
            if (fault == Fault::none) fault = Fault::few;
            return false;
        }
        used[index] = true;
        return true;
    }
    // `12`, `1$`, `name$` or nothing.
    constexpr bool width() {
        if (is_digit(*at)) {
            const size_t value = number();
            if (eat('$')) use(value);
            return true;
        }
        const char *end = at;
        while (is_word(*end)) ++end;
        if (end == at || *end != '$') return false;
        use(named());
        ++at;
        return true;
    }
    constexpr bool is_align(char c) { return c == '<' || c == '^' || c == '>'; }

    constexpr void placeholder() {
        const size_t argument = index();
        if (!use(argument)) return;
        char type = 0;
        bool has_precision = false, has_sign = false;
        if (eat(':')) {
            size_t fill = 1;
            while ((at[fill] & 0xc0) == 0x80) ++fill;
            if (*at != 0 && is_align(at[fill])) at += fill + 1;
            else if (is_align(*at)) ++at;
            has_sign = *at == '+' || *at == '-';
            if (has_sign) ++at;
            eat('#');
            if (*at == '0' && at[1] != '$') ++at;
            width();
            if (eat('.')) {
                has_precision = true;
                if (!width()) fault = Fault::brace;
            }
            if (*at != '}' && *at != 0) type = *at++;
            if ((type == 'x' || type == 'X') && eat('?')) type = '?';
        }
        if (!eat('}')) fault = Fault::brace;
        else if (fault == Fault::none && !fits(kinds[argument], type, has_precision, has_sign)) fault = Fault::type;
    }

    constexpr Fault check() {
        if (count > 255) return Fault::many;
        while (*at != 0 && fault == Fault::none) {
            const char c = *at++;
            if (c == '{' && !eat('{')) placeholder();
            else if (c == '}' && !eat('}')) fault = Fault::brace;
        }
        if (fault != Fault::none) return fault;
        bool after_named = false;
        for (size_t i = 0; i < count; ++i) {
            const bool is_named = name_of(argument(source, i + 1)).size != 0;
            if (!is_named && after_named) return Fault::order;
            if (!is_named && !used[i]) return Fault::unused;
            after_named = is_named;
        }
        return Fault::none;
    }
};

constexpr Fault check(const char *format, const char *source, const uint8_t *kinds, size_t count) {
    Checker checker{format, kinds, count, source};
    return checker.check();
}

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
