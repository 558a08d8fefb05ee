// The shared vectors. What the headers write is judged by a reader that knows nothing of them: values and callsites are
// written again to the same bytes, positions of a ring are those of the ring's own code, and the grammar that the compiler
// checks is that of the spec. `vectors DIRECTORY`; one line for each file says how many cases were run.
#include "check.hpp"
#include "json.hpp"
#include "ring_model.hpp"
#include "wire.hpp"

#include <functional>

namespace {

namespace ld = logdrive::detail;
using Case = std::function<void(const json::Value &, const std::string &)>;

std::string directory;

void expect(bool ok, const std::string &name, const std::string &what) {
    check::that(ok, what.c_str(), __FILE__, __LINE__, name);
}

int each(const json::Value &file, const char *list, const Case &run) {
    const std::vector<json::Value> &cases = file[list].items;
    expect(!cases.empty(), list, "a list of cases is missing");
    for (const json::Value &one : cases) {
        const std::string name = std::string(list) + ": " + one["name"].text;
        try {
            run(one, name);
        } catch (const wire::Error &error) {
            expect(false, name + ": " + error.family, "a case that is good is refused");
        }
    }
    return int(cases.size());
}

// A case that has to be refused, for the reason that it names.
Case refused(const std::function<void(const json::Value &)> &read) {
    return [read](const json::Value &one, const std::string &name) {
        try {
            read(one);
        } catch (const wire::Error &error) {
            return expect(one["error"].text == error.family, name + ": " + error.family, "another error was expected");
        }
        expect(false, name, "a case that is bad is taken");
    };
}

void report(const char *file, int valid, int invalid) {
    std::printf("vectors: %s: %d valid, %d invalid\n", file, valid, invalid);
}

// `GROUP GROUP*N`
std::string bytes(const json::Value &hex) {
    std::string all;
    std::istringstream groups(hex.text);
    for (std::string group; groups >> group;) {
        const size_t star = group.find('*');
        const int times = star == std::string::npos ? 1 : std::atoi(group.c_str() + star + 1);
        std::string once;
        for (size_t at = 0; at + 1 < group.size() && at < star; at += 2)
            once += char(std::strtoul(group.substr(at, 2).c_str(), nullptr, 16));
        for (int i = 0; i < times; ++i) all += once;
    }
    return all;
}

std::string text(const json::Value &value) {
    if (value.type == json::Value::string) return value.text;
    std::string all;
    for (uint64_t i = 0; i < value["times"].unsigned_number(); ++i) all += value["text"].text;
    return all;
}

uint8_t kind(const json::Value &name) {
    static const char *const NAMES[] = {"",    "bool", "i8",   "i16", "i32",  "i64", "i128",  "u8",      "u16",   "u32",     "u64",  "u128",
                                        "f32", "f64",  "char", "str", "bytes", "display", "debug", "pointer", "none", "scope", "message"};
    const bool optional = !name.text.empty() && name.text.back() == '?';
    const std::string plain = optional ? name.text.substr(0, name.text.size() - 1) : name.text;
    for (uint8_t code = 1; code <= 22; ++code)
        if (plain == NAMES[code]) return uint8_t(code | (optional ? 0x80 : 0));
    return 0;
}

template <class C> std::string written(const C &value) {
    std::string out(value.size(), '\0');
    value.put(reinterpret_cast<uint8_t *>(&out[0]));
    return out;
}
template <uint8_t KIND, class N> std::string number(N value) { return written(ld::Number<KIND, N>{value}); }

ld::Int128 wide(const std::string &digits) {
    ld::Uint128 value = 0;
    for (const char digit : digits)
        if (digit != '-') value = value * 10 + unsigned(digit - '0');
    return ld::Int128(digits[0] == '-' ? -value : value);
}

// Bytes that the headers write for a value of a kind.
std::string encoded(uint8_t code, const json::Value &value) {
    if (code & 0x80) {
        if (value.type == json::Value::null) return written(ld::Maybe<ld::Number<ld::U8, uint8_t>>{false, {0}});
        return std::string(1, '\1') + encoded(code & 0x7f, value);
    }
    const std::string blob = value.has("utf8") ? value["utf8"].text : bytes(value["hex"]);
    const uint64_t bits = std::strtoull(value["bits"].text.c_str(), nullptr, 16);
    switch (code) {
    case ld::BOOL: return written(ld::capture(value.truth));
    case ld::I8: return written(ld::capture(int8_t(value.signed_number())));
    case ld::I16: return written(ld::capture(int16_t(value.signed_number())));
    case ld::I32: return written(ld::capture(int32_t(value.signed_number())));
    case ld::I64: return written(ld::capture(int64_t(value.signed_number())));
    case ld::I128: return written(ld::capture(wide(value.text)));
    case ld::U8: return written(ld::capture(uint8_t(value.unsigned_number())));
    case ld::U16: return written(ld::capture(uint16_t(value.unsigned_number())));
    case ld::U32: return written(ld::capture(uint32_t(value.unsigned_number())));
    case ld::U64: return written(ld::capture(uint64_t(value.unsigned_number())));
    case ld::U128: return written(ld::capture(ld::Uint128(wide(value.text))));
    case ld::F32: return number<ld::F32, uint32_t>(uint32_t(bits));
    case ld::F64: return number<ld::F64, uint64_t>(bits);
    case ld::CHAR: {
        uint32_t scalar = 0;
        const uint8_t first = uint8_t(value.text[0]);
        const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        scalar = length == 1 ? first : first & (0x7fu >> length);
        for (size_t i = 1; i < length; ++i) scalar = scalar << 6 | (uint8_t(value.text[i]) & 0x3f);
        return written(ld::capture(char32_t(scalar)));
    }
    case ld::POINTER: return number<ld::POINTER, uint64_t>(value.unsigned_number());
    case ld::NONE: return "";
    case ld::STR: return written(ld::capture(blob));
    case ld::BYTES: return written(ld::capture(logdrive::bytes(blob.data(), blob.size())));
    default: return written(ld::Blob<ld::DISPLAY>{blob.data(), uint32_t(blob.size())});
    }
}

void same(const wire::Value &found, uint8_t code, const json::Value &expected, const std::string &name) {
    const std::string wanted = encoded(code, expected);
    wire::Cursor cursor(wanted);
    expect(found == wire::read_value(code, cursor), name, "another value");
}

void same_fields(wire::Cursor cursor, const json::Value &fields, const std::string &name) {
    wire::Named named;
    size_t count = 0;
    for (; wire::next_value(cursor, named); ++count) {
        if (count >= fields.items.size()) return expect(false, name, "a field too many");
        const json::Value &wanted = fields[count];
        if (named.is_inline) expect(wanted["key"].text == named.key, name, "another key");
        else expect(wanted["index"].unsigned_number() == named.index, name, "another index");
        same(named.value, kind(wanted["kind"]), wanted["value"], name);
    }
    expect(count == fields.items.size(), name, "fields are missing");
}

void records(const json::Value &file) {
    int valid = each(file, "headers", [](const json::Value &one, const std::string &name) {
        const wire::Header header(bytes(one["hex"]));
        expect(header.length_bytes == one["length_bytes"].unsigned_number(), name, "length_bytes");
        expect(header.callsite_id == one["callsite_id"].unsigned_number(), name, "callsite_id");
        expect(header.time_ticks == one["time_ticks"].unsigned_number(), name, "time_ticks");
    });
    valid += each(file, "values", [](const json::Value &one, const std::string &name) {
        const std::string all = bytes(one["hex"]);
        wire::Cursor cursor(all);
        std::string again;
        for (size_t i = 0; i < one["kinds"].items.size(); ++i) {
            const uint8_t code = kind(one["kinds"][i]);
            same(wire::read_value(code, cursor), code, one["values"][i], name);
            again += encoded(code, one["values"][i]);
        }
        expect(all.compare(0, again.size(), again) == 0, name, "the headers write other bytes");
    });
    valid += each(file, "dynamic", [](const json::Value &one, const std::string &name) {
        same_fields(wire::Cursor(bytes(one["hex"])), one["fields"], name);
    });
    valid += each(file, "scopes", [](const json::Value &one, const std::string &name) {
        wire::Cursor cursor(bytes(one["hex"]));
        wire::Span span;
        size_t count = 0;
        for (; wire::next_span(cursor, count + 1, span); ++count) {
            expect(one["spans"][count]["name"].text == span.name, name, "another span");
            same_fields(wire::Cursor(span.fields), one["spans"][count]["fields"], name);
        }
        expect(count == one["spans"].items.size(), name, "spans are missing");
    });
    int invalid = each(file, "invalid_headers", refused([](const json::Value &one) { wire::Header(bytes(one["hex"])); }));
    invalid += each(file, "invalid_kinds",
                    refused([](const json::Value &one) { wire::kind_of(uint8_t(one["code"].unsigned_number())); }));
    invalid += each(file, "invalid_values", refused([](const json::Value &one) {
                        wire::Cursor cursor(bytes(one["hex"]));
                        for (const json::Value &name : one["kinds"].items) wire::read_value(kind(name), cursor);
                    }));
    invalid += each(file, "invalid_dynamic", refused([](const json::Value &one) {
                        wire::Cursor cursor(bytes(one["hex"]));
                        wire::Named named;
                        for (size_t i = 0; i <= one["fields"].items.size(); ++i) wire::next_value(cursor, named);
                    }));
    invalid += each(file, "invalid_scopes", refused([](const json::Value &one) {
                        wire::Cursor cursor(bytes(one["hex"]));
                        wire::Span span;
                        for (size_t i = 0; i <= one["good_spans"].unsigned_number(); ++i) wire::next_span(cursor, i + 1, span);
                    }));
    report("record.json", valid, invalid);
}

// The callsite of a case as the headers describe one.
std::string described(const json::Value &site) {
    static const char *const LEVELS[] = {"trace", "debug", "info", "warn", "error", "fatal"};
    ld::Description out;
    uint8_t level = 0;
    while (site["level"].text != LEVELS[level]) ++level;
    const uint32_t line = uint32_t(site["line"].unsigned_number());
    out.byte(level);
    out.byte(site["dynamic"].truth);
    out.half(site["fields"].items.size());
    out.put(&line, 4);
    for (const char *part : {"file", "module", "target"}) out.text(text(site[part]).data(), text(site[part]).size(), ld::NAME_BYTES_MAX);
    out.text(text(site["message"]).data(), text(site["message"]).size(), ld::MESSAGE_BYTES_MAX);
    for (const json::Value &field : site["fields"].items) {
        out.byte(kind(field["kind"]));
        out.byte(field["argument"].truth);
        out.text(text(field["name"]).data(), text(field["name"]).size(), ld::NAME_BYTES_MAX);
    }
    return std::string(reinterpret_cast<const char *>(out.data()), out.size());
}

void callsites(const json::Value &file) {
    const int valid = each(file, "valid", [](const json::Value &one, const std::string &name) {
        const std::string all = bytes(one["hex"]);
        const wire::Callsite site = wire::Callsite::read(all);
        expect(described(one["callsite"]) == all, name, "the headers describe it by other bytes");
        expect(site.message == text(one["callsite"]["message"]) && site.fields.size() == one["callsite"]["fields"].items.size(),
               name, "another callsite");
        for (size_t length = 0; length < all.size(); length += 1 + all.size() / 200) {
            const char *family = "none";
            try {
                wire::Callsite::read(all.substr(0, length));
            } catch (const wire::Error &error) {
                family = error.family;
            }
            expect(family == std::string("truncated"), name, "a cut is not noticed");
        }
    });
    const int invalid = each(file, "invalid", refused([](const json::Value &one) { wire::Callsite::read(bytes(one["hex"])); }));
    report("callsite.json", valid, invalid);
}

// Returns true if the compile-time check accepts a format for a kind of argument.
bool is_template(const json::Value &one) {
    std::string source = "\"format\"";
    for (const json::Value &name : one["fields"].items) source += ", kv(\"" + name.text + "\", 0)";
    // A width in braces is C++'s own: the headers write `1$` for it.
    if (one["name"].text == "nested placeholders") return false;
    for (const uint8_t code : {ld::I64, ld::F64, ld::STR, ld::CHAR, ld::POINTER}) {
        const std::vector<uint8_t> kinds(255, code);
        const ld::Fault fault = ld::check(one["text"].text.c_str(), source.c_str(), kinds.data(), kinds.size());
        if (fault != ld::Fault::brace && fault != ld::Fault::name && fault != ld::Fault::type) return true;
    }
    return false;
}

void templates(const json::Value &file) {
    const int valid = each(file, "valid", [](const json::Value &one, const std::string &name) {
        expect(is_template(one), name + ": " + one["text"].text, "a format that is good is refused");
    });
    const int invalid = each(file, "invalid", [](const json::Value &one, const std::string &name) {
        expect(!is_template(one), name + ": " + one["text"].text, "a format that is bad is taken");
    });
    report("template.json", valid, invalid);
}

void clocks(const json::Value &file) {
    const int valid = each(file, "valid", [](const json::Value &one, const std::string &name) {
        const int64_t delta = int64_t(one["ticks"].unsigned_number() - one["base_ticks"].unsigned_number());
        const ld::Int128 product = ld::Int128(delta) * ld::Int128(one["ns_per_tick_q32"].unsigned_number());
        const uint64_t found = one["base_unix_ns"].unsigned_number() + uint64_t(product >> 32);
        expect(found == one["unix_ns"].unsigned_number(), name, "another time");
    });
    report("clock.json", valid, 0);
}

// The checksum of spec/session.md: FNV-1a with 64 bits, and its fold to 16.
namespace checksum {

uint64_t of(const std::string &all) {
    uint64_t sum = 0xcbf29ce484222325;
    for (const char one : all) sum = (sum ^ uint8_t(one)) * 0x100000001b3;
    return sum;
}

uint64_t folded(uint64_t sum) { return (sum ^ sum >> 16 ^ sum >> 32 ^ sum >> 48) & 0xffff; }

std::string word(uint64_t number) { return std::string(reinterpret_cast<const char *>(&number), 8); }

std::string half(uint32_t number) { return std::string(reinterpret_cast<const char *>(&number), 4); }

}  // namespace checksum

void tables(const json::Value &file) {
    const Case table = [](const json::Value &one, const std::string &name) {
        std::string all = bytes(one["hex"]);
        all.resize(std::min<uint64_t>(all.size(), one["table_bytes"].unsigned_number()));
        size_t at = 0, count = 0;
        while (at < all.size() && all.size() - at > 8) {
            uint32_t length;
            uint16_t id, found;
            memcpy(&length, &all[at], 4);
            memcpy(&id, &all[at + 4], 2);
            memcpy(&found, &all[at + 6], 2);
            if (length == 0 || length > all.size() - at - 8 ||
                found != checksum::folded(checksum::of(checksum::half(length) + checksum::half(id) + all.substr(at + 8, length)))) {
                at += 8;
                continue;
            }
            if (count >= one["entries"].items.size()) return expect(false, name, "an entry too many");
            const json::Value &entry = one["entries"][count++];
            expect(entry["id"].unsigned_number() == id && entry["text"].text == all.substr(at + 8, length), name, "another entry");
            at = std::min(all.size(), at + (8 + size_t(length) + 7) / 8 * 8);
        }
        expect(count == one["entries"].items.size(), name, "entries are missing");
    };
    const int valid = each(file, "tables", table);
    int invalid = each(file, "damaged_tables", table);
    // The header is read by the library, through recovery of a session that is damaged so.
    invalid += each(file, "invalid_headers", [](const json::Value &one, const std::string &name) {
        expect(model::damaged_session_keeps_its_line(one["patches"].items.size(), [&](size_t i) {
            return model::Patch{one["patches"][i]["offset"].unsigned_number(), bytes(one["patches"][i]["hex"])};
        }), name, "a damaged session loses its line");
    });
    report("session.json", valid, invalid);
}

void rings(const json::Value &file) {
    int valid = each(file, "sequences", [](const json::Value &one, const std::string &name) {
        model::Ring ring(one["capacity"].unsigned_number(), one["start"].unsigned_number());
        for (const json::Value &step : one["steps"].items) {
            if (step.has("push")) {
                bool committed = false;
                for (uint64_t i = 0; i < (step.has("times") ? step["times"].unsigned_number() : 1); ++i) {
                    ring.gaps.clear();
                    committed = ring.push(step["push"].unsigned_number(), step["urgent"].truth);
                }
                expect(committed == (step["got"].text == "committed"), name, "another result");
                if (committed)
                    expect((ring.committed() - step["push"].unsigned_number()) % ring.capacity == step["offset"].unsigned_number(), name,
                           "another place");
                expect(ring.gaps.size() == step["gaps"].items.size(), name, "other gaps");
                for (size_t i = 0; i < ring.gaps.size() && i < step["gaps"].items.size(); ++i)
                    expect(ring.gaps[i].reason == step["gaps"][i]["reason"].text &&
                               ring.gaps[i].count == step["gaps"][i]["count"].unsigned_number() &&
                               ring.gaps[i].offset == step["gaps"][i]["offset"].unsigned_number() &&
                               ring.gaps[i].length == step["gaps"][i]["length_bytes"].unsigned_number(),
                           name, "another gap");
            } else if (step.has("consume")) {
                expect(ring.committed() - ring.consumed == step["pending"].unsigned_number(), name, "other bytes are pending");
                ring.consumed += step["consume"].unsigned_number();
                expect(ring.consumed == step["consumed"].unsigned_number(), name, "another position is consumed");
            } else {
                ring.attach();
            }
            if (step.has("committed")) expect(ring.committed() == step["committed"].unsigned_number(), name, "another position");
        }
        expect(ring.word(ld::RECORDS) == one["records"].unsigned_number(), name, "another number of records");
        for (size_t reason = 0; reason < LOGDRIVE_DROP_COUNT; ++reason) {
            expect(ring.word(ld::DROPPED + 8 * reason) == one["dropped"][model::REASONS[reason].name].unsigned_number(), name, "other drops");
            expect(ring.word(ld::UNREPORTED + 8 * reason) == one["unreported"][model::REASONS[reason].name].unsigned_number(), name,
                   "other drops are untold");
        }
    });
    const auto pending = [](const json::Value &one) {
        const uint64_t consumed = one["consumed"].unsigned_number(), bytes = one["committed"].unsigned_number() - consumed;
        if (bytes > one["capacity"].unsigned_number() || bytes % 8 != 0 || consumed % 8 != 0) throw wire::Error{"committed position"};
        return bytes;
    };
    valid += each(file, "positions", [&](const json::Value &one, const std::string &name) {
        expect(pending(one) == one["pending"].unsigned_number(), name, "other bytes are pending");
    });
    const auto header = [](const json::Value &one) {
        std::string head = model::Ring(65536, 0).head();
        for (const json::Value &patch : one["patches"].items)
            head.replace(patch["offset"].unsigned_number(), bytes(patch["hex"]).size(), bytes(patch["hex"]));
        model::check_header(one["file_bytes"].unsigned_number(), head);
    };
    valid += each(file, "headers", [&](const json::Value &one, const std::string &) { header(one); });
    valid += each(file, "resume", [](const json::Value &one, const std::string &name) {
        uint64_t newest = 0, position = one["consumed"].unsigned_number();
        for (const json::Value &cell : one["cells"].items) {
            const uint64_t word = cell["word"].unsigned_number(), epoch = word & ((uint64_t{1} << 48) - 1);
            if (word != 0 && word >> 48 != checksum::folded(checksum::of(checksum::word(epoch) + checksum::word(cell["position"].unsigned_number())))) continue;
            if (epoch == 0 || epoch > one["epoch"].unsigned_number() || epoch <= newest) continue;
            newest = epoch;
            const uint64_t drained = cell["position"].unsigned_number();
            position = int64_t(drained - one["consumed"].unsigned_number()) > 0 ? drained : one["consumed"].unsigned_number();
        }
        expect(position == one["position"].unsigned_number(), name + ": " + std::to_string(position), "another place to go on");
    });
    int invalid = each(file, "invalid_positions", refused([&](const json::Value &one) { pending(one); }));
    invalid += each(file, "invalid_headers", refused(header));
    report("ring.json", valid, invalid);
}

// Every option of a sink that programs may set has the name, and takes the value, that the other languages have.
void options(const json::Value &file) {
    logdrive_options *const all = logdrive_options_new("vectors");
    expect(logdrive_options_add_sink(all, "file:/var/log/shop.log") == 0, "a sink", logdrive_last_error());
    const int valid = each(file, "valid", [&](const json::Value &one, const std::string &name) {
        const int status = logdrive_options_set_sink(all, one["name"].text.c_str(), one["value"].text.c_str());
        expect((status == 0) == one["program"].truth, name, logdrive_last_error());
    });
    logdrive_options_free(all);
    report("options.json", valid, 0);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const auto load = [&](const char *name) {
        const std::string text = check::read(std::string(argv[1]) + "/" + name);
        return json::Parser(text).parse();
    };
    records(load("record.json"));
    callsites(load("callsite.json"));
    templates(load("template.json"));
    clocks(load("clock.json"));
    rings(load("ring.json"));
    tables(load("session.json"));
    options(load("options.json"));
    return check::result();
}
