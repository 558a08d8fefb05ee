// Lines in the file for every kind of value, formats, names, levels, limits.
#include "check.hpp"
#include <logdrive/logdrive.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

namespace {

enum Unscoped { RED, GREEN };
enum class Scoped : unsigned char { one = 1, two };
struct Point {
    int x, y;
};
std::ostream &operator<<(std::ostream &out, const Point &point) { return out << '(' << point.x << ", " << point.y << ')'; }
struct Money {
    long cents;
};
int evaluated = 0;
int evaluate() { return ++evaluated; }

}  // namespace

template <> struct logdrive::Render<Money> {
    static void render(Out &out, const Money &money) { out.print("%ld.%02ld EUR", money.cents / 100, money.cents % 100); }
};

namespace {

void values() {
    const std::string name = "widget";
    const std::string_view part = std::string_view(name).substr(0, 3);
    const char *null = nullptr;
    char array[8] = "array";
    LOGDRIVE_INFO("order {} at {:.2f}", 7, 9.5);
    LOGDRIVE_INFO("{} {} {} {} {}", int8_t(-1), uint8_t(2), short(-3), 4ull, -5ll);
    LOGDRIVE_INFO("{} {} {}", std::numeric_limits<int64_t>::min(), std::numeric_limits<uint64_t>::max(), true);
    LOGDRIVE_INFO("{} {} {:.3e} {:g}", 0.1f, 1e300, 12345.678, 1e-7);
    LOGDRIVE_INFO("{} {} {}", 'c', U'\u00e9', wchar_t(0x20ac));
    LOGDRIVE_INFO("{} {} {} {}", name, part, "literal", array);
    LOGDRIVE_INFO("{} {}", null, static_cast<const void *>(nullptr));
    LOGDRIVE_INFO("{} {:x}", logdrive::bytes("ab", 2), std::array<unsigned char, 2>{{0xab, 0x01}});
    LOGDRIVE_INFO("{} {} {}", GREEN, Scoped::two, std::optional<int>(3));
    LOGDRIVE_INFO("{} {:?}", std::optional<int>(), std::optional<std::string>("x"));
    LOGDRIVE_INFO("{} {} {}", std::chrono::milliseconds(15), std::chrono::duration<double>(0.5), std::chrono::minutes(2));
    LOGDRIVE_INFO("{}", std::chrono::system_clock::time_point(std::chrono::seconds(1500000000)));
    LOGDRIVE_INFO("{} {}", Point{1, 2}, Money{1050});
    LOGDRIVE_INFO("{1} {0} {{}} {0:>4}|{0:<4}|{0:^4}|{0:04}|{0:+}|{0:#x}", 7, "a");
}

void containers() {
    LOGDRIVE_INFO("{} {}", std::vector<int>{1, 2, 3}, std::vector<std::string>{"a", "b c"});
    LOGDRIVE_INFO("{} {}", std::map<std::string, double>{{"x", 0.1}, {"y", 2}}, std::set<char>{'q'});
    LOGDRIVE_INFO("{} {}", std::make_pair(1, "two"), std::make_tuple(true, 2.5, std::optional<int>(), Money{1050}));
    LOGDRIVE_INFO("{}", std::vector<std::vector<Scoped>>{{Scoped::two}, {}});
    LOGDRIVE_INFO("fields", logdrive::kv("all", std::array<int, 2>{{4, 5}}));
}

void names() {
    LOGDRIVE_WARN("stock is low", logdrive::kv("item", "a b"), logdrive::kv("left", 3));
    LOGDRIVE_INFO("{id} of {}", 9, logdrive::kv("id", 7));
    LOGDRIVE_INFO("took", logdrive::kv("time", std::chrono::microseconds(12)));
    LOGDRIVE_INFO("no arguments");
}

void limits() {
    for (int i = 0; i < 10; ++i) LOGDRIVE_INFO_EVERY_N(4, "every {}", i);
    for (int i = 0; i < 3; ++i) LOGDRIVE_INFO_ONCE("once {}", i);
    for (int i = 0; i < 3; ++i) LOGDRIVE_INFO_IF(i == 1, "if {}", i);
    for (int i = 0; i < 3; ++i) LOGDRIVE_INFO_EVERY_MS(600000, "every ms {}", i);
    LOGDRIVE_TRACE("off {}", evaluate());
    LOGDRIVE_ERROR("error");
    LOGDRIVE_FATAL("fatal {}", 1);
    LOGDRIVE_INFO("long {}", std::string(100000, 'x'));
    LOGDRIVE_INFO("escaped {}", "a\nb");
}

const char *const EXPECTED[] = {
    "INFO order 7 at 9.50",
    "INFO -1 2 -3 4 -5",
    "INFO -9223372036854775808 18446744073709551615 true",
    "INFO 0.1 1" /* and 300 zeros */,
    "INFO c \u00e9 \u20ac",
    "INFO widget wid literal array",
    "INFO (null) 0x0",
    "INFO ab ab01",
    "INFO 1 2 optional(3)",
    "INFO none optional(\"x\")",
    "INFO 15ms 0.5s 2min",
    "INFO 2017-07-14T02:40:00.000000000Z",
    "INFO (1, 2) 10.50 EUR",
    "INFO a 7 {}    7|7   | 7  |0007|+7|0x7",
    "WARN stock is low item=\"a b\" left=3",
    "INFO 7 of 9",
    "INFO took time_us=12",
    "INFO no arguments",
    "INFO every 0",
    "INFO every 4",
    "INFO every 8",
    "INFO once 0",
    "INFO if 1",
    "INFO every ms 0",
    "ERROR error",
    "FATAL fatal 1",
    "INFO long xxx",
    "INFO escaped a\\nb",
    "INFO [1, 2, 3] [\"a\", \"b c\"]",
    "INFO {\"x\": 0.1, \"y\": 2} {'q'}",
    "INFO (1, \"two\") (true, 2.5, none, 10.50 EUR)",
    "INFO [[2], []]",
    "INFO fields all=\"[4, 5]\"",
};

}  // namespace

int main() {
    check::Dir dir;
    const std::string path = dir / "basic.log";
    {
        logdrive::Options options("cpp-basic");
        options.set("run_dir", (dir / "run").c_str()).set("use_env", "no").file(path.c_str());
        auto logger = logdrive::start(options.with("layout", "pattern {level} {message}{fields}"));
        EXPECT_TEXT(logger.error(), "");
        values();
        names();
        limits();
        containers();
        std::thread([] { LOGDRIVE_INFO("from a thread"); }).join();
        EXPECT(logdrive::flush());
        logdrive_stats_t stats;
        EXPECT(logdrive_stats(&stats) == LOGDRIVE_OK);
        EXPECT(stats.committed == sizeof EXPECTED / sizeof *EXPECTED + 1);
        EXPECT(stats.cut == 1);
        EXPECT(stats.rings >= 2 && stats.rings_attached == 1);
        EXPECT(logdrive_start(options.raw()) == LOGDRIVE_ERROR_RUNNING);
    }
    EXPECT(evaluated == 0);
    const std::vector<std::string> found = check::lines(check::read(path));
    const size_t count = sizeof EXPECTED / sizeof *EXPECTED;
    EXPECT(found.size() == count + 1);
    for (size_t i = 0; i < count && i < found.size(); ++i) {
        const bool is_front = i == 3 || i == 26;
        EXPECT_TEXT(is_front ? found[i].substr(0, std::string(EXPECTED[i]).size()) : found[i], EXPECTED[i]);
    }
    EXPECT_TEXT(found.empty() ? "" : found.back(), "INFO from a thread");
    EXPECT(found.size() > 26 && found[26].size() > 60000 && found[26].substr(found[26].size() - 3) == "\u2026");
    // Behind the end of a logger, calls are dropped, and a second one starts afresh.
    LOGDRIVE_INFO("between");
    {
        logdrive::Options options("cpp-basic");
        options.set("run_dir", (dir / "run").c_str()).set("use_env", "no").file(path.c_str());
        auto logger = logdrive::start(options.with("layout", "pattern {message}"));
        EXPECT(bool(logger));
        names();
        EXPECT(logdrive_set_filter("warn") == LOGDRIVE_OK);
        names();
    }
    const std::vector<std::string> again = check::lines(check::read(path));
    EXPECT(again.size() == count + 1 + 5);
    EXPECT(std::filesystem::is_empty(dir / "run"));
    return check::result();
}
