// Values made of others, as std::format of C++23 and fmt show them: ranges, maps, tuples, optionals, types with formatters;
// specs of their elements, widths of streamed types, widths in arguments. What a record has no room for is cut and counted.
#include "check.hpp"
#include <array>
#include <chrono>
#include <deque>
#include <fmt/ranges.h>
#include <forward_list>
#include <list>
#include <logdrive/logdrive.hpp>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>
#if __cplusplus >= 202002L
#include <ranges>
#include <span>
#endif

// Of this thread.
static thread_local size_t allocations = 0;
static thread_local bool is_counting = false;
extern "C" void *__libc_malloc(size_t);
extern "C" void *malloc(size_t bytes) {
    if (is_counting) ++allocations;
    return __libc_malloc(bytes);
}

namespace app {
struct Point {
    int x, y;
};
struct Streamed {
    int value;
};
std::ostream &operator<<(std::ostream &out, const Streamed &one) { return out << '#' << one.value; }
struct Thrower {};
std::ostream &operator<<(std::ostream &, const Thrower &) { throw 1; }
struct Money {
    long cents;
};
enum class Color { red, green };
struct Secret {
    std::vector<int> all;
    auto begin() const { return all.begin(); }
    auto end() const { return all.end(); }
};
}  // namespace app

template <> struct fmt::formatter<app::Point> {
    bool is_hex = false;
    constexpr auto parse(format_parse_context &context) {
        auto at = context.begin();
        if (at != context.end() && *at == 'x') is_hex = true, ++at;
        return at;
    }
    template <class C> auto format(const app::Point &point, C &context) const {
        return is_hex ? fmt::format_to(context.out(), "<{:x};{:x}>", point.x, point.y)
                      : fmt::format_to(context.out(), "<{};{}>", point.x, point.y);
    }
};
template <> struct fmt::formatter<app::Color> : fmt::formatter<fmt::string_view> {
    template <class C> auto format(app::Color color, C &context) const {
        return fmt::formatter<fmt::string_view>::format(color == app::Color::red ? "red" : "green", context);
    }
};
template <> struct logdrive::Render<app::Money> {
    static void render(Out &out, const app::Money &money) { out.print("%ld.%02ld", money.cents / 100, money.cents % 100); }
};

namespace {

std::vector<std::string> expected;
int evaluated = 0;

// The same call of fmt says what is expected.
#define SAME(...)                                                \
    do {                                                         \
        LOGDRIVE_INFO(__VA_ARGS__);                              \
        expected.push_back(fmt::format(__VA_ARGS__));            \
    } while (false)
#define GIVES(line, ...)                                         \
    do {                                                         \
        LOGDRIVE_INFO(__VA_ARGS__);                              \
        expected.push_back(line);                                \
    } while (false)

void as_fmt_shows_them() {
    const std::vector<int> numbers{1, -2, 30};
    const std::vector<std::string> texts{"a", "b c", "d\"e\\", "tab\t"};
    SAME("{}", numbers);
    SAME("{}", std::vector<int>());
    SAME("{} and {}", texts, std::set<char>{'q', '\n'});
    SAME("{}", std::map<std::string, int>{{"x", 1}, {"y", 2}});
    SAME("{} {}", std::make_tuple(1, "two", 3.5, 'c', true), std::make_pair(std::string("k"), 2u));
    SAME("{}", std::vector<std::vector<int>>{{1, 2}, {}, {3}});
    SAME("{} {}", std::deque<bool>{true, false}, std::list<std::pair<int, char>>{{1, 'x'}});
    SAME("{}", std::array<double, 8>{{0.1, 2.0, 1e6, 1e16, 123456789.125, 1e-4, 1e-5, -0.0}});
    SAME("{}", std::vector<float>{0.1f, 3.4e38f});
    SAME("{::02x} {:n} {:n:#x}", numbers, numbers, std::vector<unsigned>{1, 255});
    SAME("{::.2f} {::+} {::>6} {::*^5}", std::vector<double>{1, 2.345}, numbers, numbers, numbers);
    SAME("{:::03}", std::vector<std::vector<int>>{{1, 2}, {3}});
    SAME("{::b} {::#o} {::X} {::d}", std::vector<int>{5}, std::vector<int>{8}, std::vector<int>{255}, std::vector<char>{'a'});
    SAME("{::e} {::.3g} {::08.3f}", std::vector<double>{1.5}, std::vector<double>{12345.678}, std::vector<double>{-1.5});
    SAME("{} {}", app::Point{1, 2}, app::Color::green);
    SAME("{:x} {:>8}|", app::Point{16, 255}, app::Color::red);
    SAME("{} {::x}", std::vector<app::Point>{{1, 2}, {3, 4}}, std::vector<app::Point>{{17, 18}});
    SAME("{}", std::map<int, app::Point>{{1, {2, 3}}});
    SAME("{:{}}|{:<{}}|{:.{}f}|{:{}.{}f}|{}", 7, 5, "ab", 4, 3.14159, 2, 2.71828, 8, 3, "end");
    SAME("{0:{1}}|{0:>{1}}|{1}", 7, 4);
    SAME("{::{}}", numbers, 4);
}

void as_the_standard_says() {
    const int array[] = {1, 2, 3};
    GIVES("[1, 2, 3]", "{}", array);
    GIVES("optional(3) none optional(\"x\")", "{} {} {}", std::optional<int>(3), std::optional<int>(), std::optional<std::string>("x"));
    GIVES("[optional(1), none]", "{}", std::vector<std::optional<int>>{1, {}});
    GIVES("optional([1])", "{}", std::optional<std::vector<int>>(std::vector<int>{1}));
    GIVES("optional(0x1f)", "{:#x}", std::optional<int>(31));
    GIVES("{1: [\"a\"], 2: []}", "{}", std::map<int, std::vector<std::string>>{{1, {"a"}}, {2, {}}});
    GIVES("[a, b]", "{::}", std::vector<std::string>{"a", "b"});
    GIVES("[1]     |  [1]|[1]**|", "{:8}|{:>5}|{:*<5}|", std::vector<int>{1}, std::vector<int>{1}, std::vector<int>{1});
    GIVES("abc \"abc\"", "{:s} {:?s}", std::vector<char>{'a', 'b', 'c'}, std::vector<char>{'a', 'b', 'c'});
    GIVES("(15ms, 2s) [1, 2]", "{} {}", std::make_tuple(std::chrono::milliseconds(15), std::chrono::seconds(2)), std::forward_list<int>{1, 2});
    GIVES("               #7|#8  |  10.50| #9 ", "{:>17}|{:<4}|{:>7}|{:^4}", app::Streamed{7}, app::Streamed{8}, app::Money{1050}, app::Streamed{9});
    GIVES("[   #1, 0.05] [#2]", "[{:>5}, {}] {}", app::Streamed{1}, app::Money{5}, std::vector<app::Streamed>{{2}});
    GIVES("[ #1, #22]", "{::>3}", std::vector<app::Streamed>{{1}, {22}});
    GIVES("<exception> [<exception>]", "{} {}", app::Thrower(), std::vector<app::Thrower>(1));
    GIVES("width   1 of 9", "width {:{w}} of {n}", 1, logdrive::kv("w", 3), logdrive::kv("n", 9));
    GIVES("named all=\"[1, 2]\" maybe=3", "named", logdrive::kv("all", std::vector<int>{1, 2}), logdrive::kv("maybe", std::optional<int>(3)),
          logdrive::kv("none", std::optional<int>()));
#if __cplusplus >= 202002L && (!defined(__clang__) || __clang_major__ >= 16)
    std::vector<int> odd{1, 2, 3, 4};
    GIVES("[2, 3]", "{}", std::span<const int>(odd).subspan(1, 2));
    GIVES("[2, 4]", "{}", odd | std::views::filter([](int one) { return one % 2 == 0; }));
#endif
}

void formats_at_run_time() {
    const std::string translated = "{1} von {0}";
    const char *const nested = "[{:>{}}] {::02x}";
    const auto shown = [](const std::string &format, auto... values) { LOGDRIVE_INFO_RUNTIME(format, values...); };
    for (int i = 0; i < 2; ++i) {
        LOGDRIVE_INFO_RUNTIME(translated, 7, "acht");
        expected.push_back("acht von 7");
        LOGDRIVE_WARN_RUNTIME(nested, 5, 4, std::vector<int>{10, 11});
        expected.push_back("[   5] [0a, 0b]");
        LOGDRIVE_INFO_RUNTIME(std::string("{:.1f} left"), 2.25, logdrive::kv("item", "screw"));
        expected.push_back("2.2 left item=screw");
        LOGDRIVE_ERROR_RUNTIME("none");
        expected.push_back("none");
        LOGDRIVE_INFO_RUNTIME(std::string("bad {:d} } "), translated, logdrive::kv("n", 3));
        expected.push_back("bad {:d} }  translated=\"{1} von {0}\" n=3");
        LOGDRIVE_DEBUG_RUNTIME(std::string("few {} {}"), i);
        expected.push_back("few {} {} i=" + std::to_string(i));
        LOGDRIVE_TRACE_RUNTIME((++evaluated, translated), 1, 2);
    }
    EXPECT(evaluated == 1);
    for (int i = 0; i < 70; ++i) {
        shown("format " + std::to_string(i) + " of {}", 70);
        expected.push_back(i < 64 ? "format " + std::to_string(i) + " of 70" : "format " + std::to_string(i) + " of {} values...=70");
    }
}

// The layout of the file escapes backslashes.
std::string in_a_line(const std::string &text) {
    std::string line;
    for (const char one : text) line += one == '\\' ? std::string("\\\\") : std::string(1, one);
    return line;
}

void cuts() {
    LOGDRIVE_INFO("{}", std::vector<int>(5000, 1));
    LOGDRIVE_INFO("{}", std::vector<std::string>(200, std::string(1000, 'x')));
}

void without_allocation() {
    std::array<int, 64> numbers;
    numbers.fill(1234567);
    const std::map<int, std::pair<int, double>> map{{1, {2, 0.5}}, {3, {4, 1e300}}};
    for (int i = 0; i < 2; ++i) {
        is_counting = i == 1;
        LOGDRIVE_INFO("{} {}", numbers, map);
        LOGDRIVE_INFO("{} {:>{}}", std::optional<int>(1), std::make_tuple(1, 'x'), 20);
    }
    is_counting = false;
    EXPECT_TEXT(std::to_string(allocations), "0");
}

}  // namespace

int main() {
    check::Dir dir;
    const std::string path = dir / "values.log";
    {
        logdrive::Options options("cpp-values");
        options.set("run_dir", (dir / "run").c_str()).set("use_env", "no").set("full", "block").file(path.c_str());
        auto logger = logdrive::start(options.with("layout", "pattern {message}{fields}"));
        EXPECT_TEXT(logger.error(), "");
        as_fmt_shows_them();
        as_the_standard_says();
        formats_at_run_time();
        cuts();
        without_allocation();
    }
    const std::vector<std::string> found = check::lines(check::read(path));
    EXPECT(found.size() == expected.size() + 6);
    for (size_t i = 0; i < expected.size() && i < found.size(); ++i) EXPECT_TEXT(found[i], in_a_line(expected[i]));
    if (found.size() > expected.size() + 1) {
        const std::string &many = found[expected.size()], &large = found[expected.size() + 1];
        EXPECT(many.size() > 3000 && many.size() < 3100);
        EXPECT_TEXT(many.substr(many.size() - 20), "1, 1, … 4000 more]");
        EXPECT(large.size() > 59000 && large.size() < 65536);
        EXPECT_TEXT(large.substr(large.size() - 22), "xxxxxx\", … 140 more]");
    }
    return check::result();
}
