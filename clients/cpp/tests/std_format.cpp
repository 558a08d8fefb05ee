// Types that std::formatter shows, alone and in containers, where the standard library has <format>.
#include <format>
#include <logdrive/logdrive.hpp>

#include "check.hpp"

struct Point {
    int x, y;
};
template <> struct std::formatter<Point, char> {
    bool is_hex = false;
    constexpr auto parse(auto &context) {
        auto at = context.begin();
        if (at != context.end() && *at == 'x') is_hex = true, ++at;
        return at;
    }
    auto format(const Point &point, auto &context) const {
        return is_hex ? std::format_to(context.out(), "<{:x};{:x}>", point.x, point.y)
                      : std::format_to(context.out(), "<{};{}>", point.x, point.y);
    }
};

int main() {
    check::Dir dir;
    const std::string path = dir / "format.log";
    {
        logdrive::Options options("cpp-std-format");
        options.set("run_dir", (dir / "run").c_str()).set("use_env", "no").file(path.c_str()).layout("pattern {message}");
        auto logger = logdrive::start(options);
        EXPECT_TEXT(logger.error(), "");
        LOGDRIVE_INFO("{} {:x} {} {::x}", Point{1, 2}, Point{16, 255}, std::vector<Point>{{1, 2}}, std::vector<Point>{{17, 18}});
        // What the formatter refuses is the width of a text.
        LOGDRIVE_INFO("{:>9}|", Point{3, 4});
        LOGDRIVE_INFO("{} {}", std::string("text"), std::vector<int>{1});
    }
    EXPECT_TEXT(check::read(path), "<1;2> <10;ff> [<1;2>] [<11;12>]\n    <3;4>|\ntext [1]\n");
    return check::result();
}
