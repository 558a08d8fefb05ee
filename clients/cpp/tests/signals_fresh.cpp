// A signal handler whose statements are all new interrupts a thread whose statements are all new: each call is a record or
// a counted drop, and none waits for the call that it has interrupted. With this library's macros and with glog's.
#include "check.hpp"
#include <logdrive/glog.h>
#include <logdrive/logdrive.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <thread>
#include <utility>

namespace {

constexpr size_t STATEMENTS = 400;

// One statement for each number and caller.
template <int Caller, size_t Number> void call() {
    if (Number % 2 == 0) LOGDRIVE_INFO("caller {} statement {}", Caller, Number);
    else LOG(INFO) << "caller " << Caller << " statement " << Number;
}

using Call = void (*)();
template <int Caller, size_t... Number> Call of(size_t number, std::index_sequence<Number...>) {
    static constexpr Call calls[] = {call<Caller, Number>...};
    return calls[number % sizeof...(Number)];
}
template <int Caller> void call_number(size_t number) { of<Caller>(number, std::make_index_sequence<STATEMENTS>())(); }

std::atomic<size_t> handled{0};
void handler(int) { call_number<1>(handled.fetch_add(1, std::memory_order_relaxed)); }

}  // namespace

int main(int, char **argv) {
    check::Dir dir;
    FLAGS_logdrive_run_dir = dir / "run";
    FLAGS_logdrive_full = "block";
    FLAGS_log_dir = dir.path();
    google::InitGoogleLogging(argv[0]);
    LOG(INFO) << "started";
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    std::atomic<bool> stop{false};
    const pthread_t self = pthread_self();
    std::thread sender([&] {
        size_t seen = 0;
        auto since = std::chrono::steady_clock::now();
        while (!stop) {
            pthread_kill(self, SIGUSR1);
            std::this_thread::yield();
            if (handled != seen) seen = handled, since = std::chrono::steady_clock::now();
            if (std::chrono::steady_clock::now() - since > std::chrono::seconds(30)) {
                fprintf(stderr, "no signal is handled any more after %zu: the thread waits for itself\n", seen);
                abort();
            }
        }
    });
    size_t calls = 1;
    for (size_t number = 0; handled < 5 * STATEMENTS || number < 5 * STATEMENTS; ++number, ++calls) call_number<0>(number);
    stop = true;
    sender.join();
    EXPECT(logdrive::flush());
    logdrive_stats_t stats;
    EXPECT(logdrive_stats(&stats) == LOGDRIVE_OK);
    uint64_t dropped = 0;
    for (const uint64_t count : stats.dropped) dropped += count;
    EXPECT_TEXT(std::to_string(stats.committed + dropped), std::to_string(uint64_t(calls) + handled.load()));
    for (int reason = 0; reason < LOGDRIVE_DROP_COUNT; ++reason)
        if (reason != LOGDRIVE_DROP_REENTRANT)
            EXPECT_TEXT(std::to_string(reason) + ":" + std::to_string(stats.dropped[reason]), std::to_string(reason) + ":0");
    google::ShutdownGoogleLogging();
    return check::result();
}
