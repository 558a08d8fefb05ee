// The native API of Logdrive for C++: a program with loggers that have sinks of their own, a console for a container, a sink of
// the program, a flight recorder, and values of many types. `native DIRECTORY` logs there.
#define LOGDRIVE_TARGET "shop"
#include <logdrive/logdrive.hpp>

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

struct Money {
    long cents;
};
std::ostream &operator<<(std::ostream &out, const Money &money) { return out << money.cents / 100 << " EUR"; }

// A thread of the library calls it with whole lines.
struct CountErrors {
    size_t bytes = 0;
    void operator()(const char *, size_t length) { bytes += length; }
};

int main(int count, char **arguments) {
    const std::string directory = count > 1 ? arguments[1] : ".";
    CountErrors errors;  // Before the logger: it has to stay until the logger has ended.
    logdrive::Options options("native");
    options.set("run_dir", (directory + "/run").c_str());
    options.file((directory + "/native.log").c_str()).except("net").min_level("info");
    options.file((directory + "/net.log").c_str()).only("net").with("rotate_bytes", "64 MiB");
    options.console(logdrive::Console::out).json().min_level("warn");
    options.callback(errors).min_level("error");
    options.keep("4 MiB");
    auto logger = logdrive::start(options);
    if (!logger) return fprintf(stderr, "%s\n", logger.error()), 1;

    const std::string format = "{1} items, {0} boxes";
    LOGDRIVE_INFO("order {} at {:.2f}", 7, 9.5);
    LOGDRIVE_WARN("stock is low", logdrive::kv("item", "screw"), logdrive::kv("left", 3));
    LOGDRIVE_INFO("{} {::02x} {}", std::map<std::string, int>{{"a", 1}}, std::vector<int>{10, 11}, std::optional<int>(3));
    LOGDRIVE_INFO("{:>10}|{:{}}|", Money{1200}, "left", 8);
    LOGDRIVE_INFO_RUNTIME(format, 2, 30);
    LOGDRIVE_DEBUG("only in memory, until an error or a dump");
    return logdrive::dump() ? 0 : 1;
}
