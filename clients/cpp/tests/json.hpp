// JSON as the shared vectors use it: read whole, looked up by key and index.
#ifndef LOGDRIVE_TESTS_JSON_HPP
#define LOGDRIVE_TESTS_JSON_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace json {

struct Value {
    enum Type { null, boolean, number, string, array, object } type = null;
    bool truth = false;
    // Numbers keep their digits: some have 64 bits.
    std::string text;
    std::vector<Value> items;
    std::map<std::string, Value> members;

    bool has(const std::string &key) const { return members.count(key) != 0; }
    const Value &operator[](const std::string &key) const {
        static const Value none;
        const auto found = members.find(key);
        return found == members.end() ? none : found->second;
    }
    const Value &operator[](size_t index) const { return items.at(index); }
    uint64_t unsigned_number() const { return std::strtoull(text.c_str(), nullptr, 10); }
    long long signed_number() const { return std::strtoll(text.c_str(), nullptr, 10); }
};

class Parser {
public:
    explicit Parser(const std::string &text) : text_(text) {}
    Value parse() { return value(); }

private:
    [[noreturn]] void fail() { throw std::runtime_error("not JSON at byte " + std::to_string(at_)); }
    char peek() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
        if (at_ >= text_.size()) fail();
        return text_[at_];
    }
    void expect(char wanted) {
        if (peek() != wanted) fail();
        ++at_;
    }
    bool word(const char *wanted) {
        const std::string all = wanted;
        if (text_.compare(at_, all.size(), all) != 0) return false;
        at_ += all.size();
        return true;
    }
    Value value() {
        Value found;
        const char first = peek();
        if (first == '{') {
            found.type = Value::object;
            ++at_;
            while (peek() != '}') {
                const std::string key = text();
                expect(':');
                found.members[key] = value();
                if (peek() == ',') ++at_;
            }
            ++at_;
        } else if (first == '[') {
            found.type = Value::array;
            ++at_;
            while (peek() != ']') {
                found.items.push_back(value());
                if (peek() == ',') ++at_;
            }
            ++at_;
        } else if (first == '"') {
            found.type = Value::string;
            found.text = text();
        } else if (word("true")) {
            found.type = Value::boolean;
            found.truth = true;
        } else if (word("false")) {
            found.type = Value::boolean;
        } else if (!word("null")) {
            found.type = Value::number;
            while (at_ < text_.size() && std::string("+-.eE0123456789").find(text_[at_]) != std::string::npos) found.text += text_[at_++];
            if (found.text.empty()) fail();
        }
        return found;
    }
    static void put(std::string &out, uint32_t code) {
        if (code < 0x80) out += char(code);
        else if (code < 0x800) out += {char(0xc0 | code >> 6), char(0x80 | (code & 63))};
        else if (code < 0x10000) out += {char(0xe0 | code >> 12), char(0x80 | (code >> 6 & 63)), char(0x80 | (code & 63))};
        else out += {char(0xf0 | code >> 18), char(0x80 | (code >> 12 & 63)), char(0x80 | (code >> 6 & 63)), char(0x80 | (code & 63))};
    }
    uint32_t unit() {
        const uint32_t code = uint32_t(std::strtoul(text_.substr(at_, 4).c_str(), nullptr, 16));
        at_ += 4;
        return code;
    }
    std::string text() {
        expect('"');
        std::string out;
        while (at_ < text_.size() && text_[at_] != '"') {
            if (text_[at_] != '\\') {
                out += text_[at_++];
                continue;
            }
            const char kind = text_.at(at_ + 1);
            at_ += 2;
            if (kind == 'u') {
                uint32_t code = unit();
                if (code >= 0xd800 && code < 0xdc00) {
                    at_ += 2;
                    code = 0x10000 + ((code - 0xd800) << 10) + (unit() - 0xdc00);
                }
                put(out, code);
            } else {
                const size_t known = std::string("nrtbf").find(kind);
                out += known == std::string::npos ? kind : "\n\r\t\b\f"[known];
            }
        }
        ++at_;
        return out;
    }

    const std::string &text_;
    size_t at_ = 0;
};

}  // namespace json

#endif
