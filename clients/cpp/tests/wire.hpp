// A reader of records and callsites by spec/record.md, for the test that judges what the headers write.
#ifndef LOGDRIVE_TESTS_WIRE_HPP
#define LOGDRIVE_TESTS_WIRE_HPP

#include <logdrive/detail/site.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace wire {

// The family of an error, as the vectors name it.
struct Error {
    const char *family;
};

inline bool is_utf8(const std::string &text) {
    for (size_t at = 0; at < text.size();) {
        const auto byte = [&](size_t i) { return at + i < text.size() ? uint8_t(text[at + i]) : uint8_t(0); };
        const uint8_t first = byte(0);
        const size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
        if (length == 0) return false;
        uint32_t code = length == 1 ? first : first & (0x7f >> length);
        for (size_t i = 1; i < length; ++i) {
            if ((byte(i) & 0xc0) != 0x80) return false;
            code = code << 6 | (byte(i) & 0x3f);
        }
        const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
        at += length;
    }
    return true;
}

class Cursor {
public:
    explicit Cursor(const std::string &bytes) : bytes_(bytes) {}
    size_t left() const { return bytes_.size() - offset_; }
    std::string take(size_t length) {
        if (length > left()) throw Error{"truncated"};
        offset_ += length;
        return bytes_.substr(offset_ - length, length);
    }
    template <class N> N number() {
        N value;
        memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string text() {
        const std::string text = take(number<uint16_t>());
        if (!is_utf8(text)) throw Error{"not_utf8"};
        return text;
    }

private:
    std::string bytes_;
    size_t offset_ = 0;
};

struct Header {
    uint32_t length_bytes, callsite_id;
    uint64_t time_ticks;
    explicit Header(const std::string &bytes) {
        Cursor cursor(bytes);
        length_bytes = cursor.number<uint32_t>();
        callsite_id = cursor.number<uint32_t>();
        time_ticks = cursor.number<uint64_t>();
        if (length_bytes < 16 || length_bytes > 65536 || length_bytes % 8 != 0) throw Error{"limit"};
    }
};

// A kind's code, checked.
inline uint8_t kind_of(uint8_t code) {
    const uint8_t plain = code & 0x7f;
    const bool has_optional = plain != 20 && plain != 21 && plain != 22;
    if (plain < 1 || plain > 22 || (code & 0x80 && !has_optional)) throw Error{"unknown"};
    return code;
}

// A value: its bytes without presence byte and length; whether it is there.
struct Value {
    uint8_t kind;
    bool present;
    std::string bytes;
    bool operator==(const Value &other) const {
        return kind == other.kind && present == other.present && bytes == other.bytes;
    }
};

inline size_t fixed_bytes(uint8_t plain) {
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 4, 8, 4, 0, 0, 0, 0, 8, 0, 0, 0};
    return sizes[plain];
}
inline bool is_blob(uint8_t plain) { return (plain >= 15 && plain <= 18) || plain == 21 || plain == 22; }

inline Value read_value(uint8_t kind, Cursor &cursor) {
    const uint8_t plain = kind & 0x7f;
    Value value{kind, plain != 20, ""};
    if (kind & 0x80) {
        const uint8_t presence = cursor.number<uint8_t>();
        if (presence > 1) throw Error{"limit"};
        value.present = presence == 1;
        if (!value.present) return value;
    }
    value.bytes = cursor.take(is_blob(plain) ? cursor.number<uint32_t>() : fixed_bytes(plain));
    if (plain == 1 && uint8_t(value.bytes[0]) > 1) throw Error{"limit"};
    if (plain == 14) {
        uint32_t code;
        memcpy(&code, value.bytes.data(), 4);
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) throw Error{"limit"};
    }
    return value;
}

struct Named {
    bool is_inline;
    uint8_t index;
    std::string key;
    Value value;
};

// The next value of a dynamic record; false at its end.
inline bool next_value(Cursor &cursor, Named &out) {
    if (cursor.left() == 0) return false;
    const uint8_t tag = cursor.number<uint8_t>();
    if (tag == 0) return false;
    const uint8_t kind = kind_of(tag);
    out.index = cursor.number<uint8_t>();
    out.is_inline = out.index == 0xff;
    out.key = out.is_inline ? cursor.text() : "";
    out.value = read_value(kind, cursor);
    return true;
}

struct Span {
    std::string name, fields;
};

// The next span of a scope, the `depth`-th from 1 on; false at its end.
inline bool next_span(Cursor &cursor, size_t depth, Span &out) {
    if (cursor.left() == 0) return false;
    if (depth > 64) throw Error{"limit"};
    out.name = cursor.text();
    out.fields = cursor.take(cursor.number<uint16_t>());
    return true;
}

struct Field {
    std::string name;
    uint8_t kind;
    bool argument;
};

struct Callsite {
    uint8_t level = 0;
    bool dynamic = false;
    uint32_t line = 0;
    std::string file, module, target, message;
    std::vector<Field> fields;

    static std::string text(Cursor &cursor, size_t most) {
        const std::string text = cursor.text();
        if (text.size() > most) throw Error{"limit"};
        return text;
    }
    static Callsite read(const std::string &bytes) {
        if (bytes.size() > 65536) throw Error{"limit"};
        Cursor cursor(bytes);
        Callsite site;
        site.level = cursor.number<uint8_t>();
        if (site.level > 5) throw Error{"unknown"};
        const uint8_t flags = cursor.number<uint8_t>();
        if (flags > 1) throw Error{"unknown"};
        site.dynamic = flags == 1;
        const uint16_t count = cursor.number<uint16_t>();
        if (count > 255) throw Error{"limit"};
        site.line = cursor.number<uint32_t>();
        site.file = text(cursor, 1024);
        site.module = text(cursor, 1024);
        site.target = text(cursor, 1024);
        site.message = text(cursor, 16384);
        for (uint16_t i = 0; i < count; ++i) {
            Field field;
            field.kind = kind_of(cursor.number<uint8_t>());
            const uint8_t argument = cursor.number<uint8_t>();
            if (argument > 1) throw Error{"unknown"};
            field.argument = argument == 1;
            field.name = text(cursor, 1024);
            site.fields.push_back(field);
        }
        if (cursor.left() != 0) throw Error{"limit"};
        return site;
    }
};

}  // namespace wire

#endif
