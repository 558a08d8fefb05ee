// Compile-time checks of a format string: the grammar of spec/record.md and nested widths, the number of arguments, and
// whether each placeholder's type fits its argument. The same reader takes formats apart at run time.
#ifndef LOGDRIVE_DETAIL_FORMAT_HPP
#define LOGDRIVE_DETAIL_FORMAT_HPP

#include <logdrive/detail/capture.hpp>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

enum class Fault { none, brace, few, unused, type, name, order, many, unloggable };

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
    kind &= 0x1f;
    // Of several kinds, such as the parts of a tuple.
    if (kind == 0) return true;
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

// Width or precision in braces: the text from `begin` to `end` stands for the value of an argument.
struct Nested {
    const char *begin;
    const char *end;
    size_t argument;
};
constexpr size_t NESTED_MAX = 4;

struct Placeholder {
    size_t argument = 0;
    // Its spec, empty without a colon.
    const char *spec = nullptr;
    const char *end = nullptr;
    Nested nested[NESTED_MAX] = {};
    size_t nested_count = 0;
};

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
    // An argument that is a width or precision.
    constexpr void use_as_count(size_t index) {
        if (use(index) && !(kinds[index] >= I8 && kinds[index] <= U64 && kinds[index] != I128)) fault = Fault::type;
    }
    // `12`, `1$`, `name$`, `{}`, `{1}`, `{name}` or nothing.
    constexpr bool width(Placeholder &found) {
        const char *const begin = at;
        if (*at == '{') {
            ++at;
            const size_t value = index();
            if (!eat('}') || found.nested_count == NESTED_MAX) fault = Fault::brace;
            if (fault != Fault::none) return true;
            use_as_count(value);
            found.nested[found.nested_count++] = {begin, at, value};
            return true;
        }
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
    constexpr void fill_and_align() {
        size_t fill = 1;
        while ((at[fill] & 0xc0) == 0x80) ++fill;
        if (*at != 0 && is_align(at[fill])) at += fill + 1;
        else if (is_align(*at)) ++at;
    }
    // A spec that the drain applies.
    constexpr void plain_spec(Placeholder &found) {
        char type = 0;
        bool has_precision = false;
        fill_and_align();
        const bool has_sign = *at == '+' || *at == '-';
        if (has_sign) ++at;
        eat('#');
        if (*at == '0' && at[1] != '$') ++at;
        width(found);
        if (eat('.')) {
            has_precision = true;
            if (!width(found)) fault = Fault::brace;
        }
        if (*at != '}' && *at != 0) type = *at++;
        if ((type == 'x' || type == 'X') && eat('?')) type = '?';
        if (fault == Fault::none && *at == '}' && !fits(kinds[found.argument], type, has_precision, has_sign)) fault = Fault::type;
    }
    // A spec that is applied at the call: levels of a range with colons between, the last one for its elements.
    constexpr void late_spec(Placeholder &found) {
        const uint8_t leaf = kinds[found.argument] & 0x1f;
        bool is_more = true, is_front = true;
        while (is_more) {
            char type = 0;
            bool has_precision = false;
            // As in C++, a colon is no fill here.
            if (*at != ':' && *at != '}') fill_and_align();
            const bool has_sign = *at == '+' || *at == '-' || *at == ' ';
            if (has_sign) ++at;
            eat('#');
            eat('0');
            width(found);
            if (eat('.')) {
                has_precision = true;
                if (!width(found)) fault = Fault::brace;
            }
            if (is_front && eat('n')) type = 0;
            else if (*at == '?' && at[1] == 's') at += 2;
            else if (*at != '}' && *at != ':' && *at != 0) type = *at++;
            is_more = eat(':');
            if (!is_more && (leaf == 0 || type == 's' || type == 'm')) return;
            if (!is_more && fault == Fault::none && *at == '}' && !fits_late(leaf, type, has_precision, has_sign)) fault = Fault::type;
        }
    }
    // Types that the drain does not know.
    constexpr bool fits_late(uint8_t leaf, char type, bool has_precision, bool has_sign) {
        if (type == 'B') type = 'b';
        if (type == 'G' || type == 'A') type = 'g';
        if (leaf >= I8 && leaf <= U128 && type == 'c') type = 'd';
        if (leaf == CHAR && type != 'c' && type != '?' && type != 0) leaf = I32;
        return fits(leaf, type, has_precision, has_sign);
    }
    // A spec of a formatter of the program: any text with its braces in pairs.
    constexpr void foreign_spec() {
        size_t depth = 0;
        for (; *at != 0; ++at) {
            if (*at == '{') ++depth;
            else if (*at == '}' && depth-- == 0) return;
        }
    }
    // Reads from behind the brace to behind the one that ends the placeholder.
    constexpr Placeholder placeholder() {
        Placeholder found;
        found.argument = index();
        if (!use(found.argument)) return found;
        found.spec = found.end = at;
        if (eat(':')) {
            found.spec = at;
            const uint8_t kind = kinds[found.argument];
            if ((kind & FOREIGN) != 0) foreign_spec();
            else if ((kind & LATE) != 0) late_spec(found);
            else plain_spec(found);
        }
        found.end = at;
        if (!eat('}')) fault = Fault::brace;
        return found;
    }

    constexpr Fault check() {
        if (count > 255) return Fault::many;
        for (size_t i = 0; i < count; ++i)
            if (kinds[i] == UNLOGGABLE) return Fault::unloggable;
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
