// A signal handler that logs: outside of a call it is a record, inside of one a counted drop; never a torn record and
// never a hang. What was logged, dropped and reported agrees to the last call.
#include "check.hpp"
#include <logdrive/logdrive.hpp>

#include <atomic>
#include <csignal>
#include <pthread.h>
#include <thread>

namespace {

std::atomic<long> handled{0};
void handler(int) {
    handled.fetch_add(1, std::memory_order_relaxed);
    LOGDRIVE_INFO("from the handler {}", 1);
}

}  // namespace

int main() {
    check::Dir dir;
    logdrive::Options options("cpp-signals");
    options.set("run_dir", (dir / "run").c_str()).set("use_env", "no").set("full", "block");
    auto logger = logdrive::start(options.file((dir / "s.log").c_str()).with("layout", "pattern {message}"));
    EXPECT(bool(logger));
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, nullptr);
    std::atomic<bool> stop{false};
    const pthread_t self = pthread_self();
    std::thread sender([&] {
        while (!stop) {
            pthread_kill(self, SIGUSR1);
            std::this_thread::yield();
        }
    });
    long calls = 0;
    while (handled.load() < 20000) LOGDRIVE_INFO("from the program {}", calls++);
    stop = true;
    sender.join();
    EXPECT(logdrive::flush());
    logdrive_stats_t stats;
    EXPECT(logdrive_stats(&stats) == LOGDRIVE_OK);
    uint64_t dropped = 0;
    for (const uint64_t count : stats.dropped) dropped += count;
    for (int reason = 0; reason < LOGDRIVE_DROP_COUNT; ++reason)
        if (reason != LOGDRIVE_DROP_REENTRANT) EXPECT_TEXT(std::to_string(reason) + ":" + std::to_string(stats.dropped[reason]),
                                                           std::to_string(reason) + ":0");
    EXPECT_TEXT(std::to_string(stats.committed + dropped), std::to_string(uint64_t(calls) + uint64_t(handled.load())));
    long own = 0;
    for (const std::string &line : check::lines(check::read(dir / "s.log"))) {
        if (line == "from the program " + std::to_string(own)) ++own;
        else EXPECT(line == "from the handler 1" || line.find(" records dropped: ") != std::string::npos);
    }
    EXPECT(own == calls);
    return check::result();
}
