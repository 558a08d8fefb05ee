// The loops of the workloads `glog`, `callsite` and `hang` for loggers of C++, as bench/src/workloads has them for Rust. Each
// subject is a program of its own, because the macros of two loggers do not go together:
//
//     PROGRAM glog     path=FILE full=block lines=N message_bytes=N
//     PROGRAM callsite path=FILE full=block threads=N bursts=N batches=N
//     PROGRAM hang     path=FILE full=drop before_ms=N hang_ms=N after_ms=N
//
// prints a metric and its value a line. A subject is a struct with `start(path, full)`, `line(text)`, `four(...)` and
// `finish()`, which returns when all is with the kernel and gives the calls that the logger says it has dropped.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace bench {

using Steady = std::chrono::steady_clock;
using Args = std::map<std::string, std::string>;

inline uint64_t ticks() { return __builtin_ia32_rdtsc(); }
inline double seconds_since(Steady::time_point start) {
    return std::chrono::duration<double>(Steady::now() - start).count();
}
inline uint64_t number(const Args &args, const char *key) { return std::strtoull(args.at(key).c_str(), nullptr, 10); }
inline void report(const char *metric, double value) { std::printf("%s %.9g\n", metric, value); }

inline double cpu_s() {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}
inline double peak_rss_mib() {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return double(usage.ru_maxrss) / 1024;
}

inline double ns_per_tick() {
    const auto start = Steady::now();
    const uint64_t first = ticks();
    while (seconds_since(start) < 0.02) {}
    return seconds_since(start) * 1e9 / double(ticks() - first);
}

// Threads that begin together.
class Gate {
public:
    explicit Gate(unsigned threads) : missing_(threads) {}
    void pass() {
        --missing_;
        while (missing_ > 0) std::this_thread::yield();
    }

private:
    std::atomic<int> missing_;
};

template <class S> void glog(S &subject, const Args &args) {
    constexpr unsigned THREADS = 12;
    const uint64_t lines = number(args, "lines") / THREADS;
    const std::string filler = "filled by the matching engine, quantity and price agreed. ";
    std::string message = "order ";
    while (message.size() < number(args, "message_bytes")) message += filler;
    message.resize(number(args, "message_bytes"));
    Gate gate(THREADS + 1);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < THREADS; ++i)
        threads.emplace_back([&] {
            gate.pass();
            for (uint64_t line = 0; line < lines; ++line) subject.line(message);
        });
    gate.pass();
    const double cpu = cpu_s();
    const auto start = Steady::now();
    for (std::thread &thread : threads) thread.join();
    subject.finish();
    report("wall_s", seconds_since(start));
    report("cpu_s", cpu_s() - cpu);
    report("peak_rss_mib", peak_rss_mib());
}

inline const char *const CUSTOMERS[] = {"acme-ltd",     "globex-42",     "initech-uk",     "umbrella-de",
                                        "soylent-corp", "hooli-limited", "stark-industry", "wayne-holdings7"};
template <class S> __attribute__((always_inline)) inline void call(S &subject, uint64_t number) {
    subject.four(number, double(number) * 0.25, int(number), CUSTOMERS[number % 8]);
}
inline uint64_t hidden(uint64_t value) {
    __asm__ __volatile__("" : "+r"(value));
    return value;
}
template <class S> __attribute__((noinline)) uint64_t burst(S &subject, uint64_t number, int calls) {
    number = hidden(number);
    const uint64_t start = ticks();
    for (int i = 0; i < calls; ++i) call(subject, number + uint64_t(i));
    return ticks() - start;
}
template <class S> __attribute__((noinline)) void one_by_one(S &subject, uint64_t number, std::vector<uint64_t> &times) {
    number = hidden(number);
    // Not into the vector, whose pages come with their first use.
    uint64_t own[20];
    uint64_t last = ticks();
    for (int i = 0; i < 20; ++i) {
        call(subject, number + uint64_t(i));
        const uint64_t now = ticks();
        own[i] = now - last;
        last = now;
    }
    times.insert(times.end(), own, own + 20);
}

struct Measured {
    std::vector<uint64_t> bursts, calls, tight;
};

template <class S> void callsite_thread(S &subject, const Args &args, double tick_ns, Measured &out) {
    const uint64_t busy = uint64_t(1e6 / tick_ns);
    const auto stay_busy = [&] {
        for (const uint64_t end = ticks() + busy; ticks() < end;) __builtin_ia32_pause();
    };
    std::vector<uint64_t> warm;
    for (uint64_t i = 0; i < 50; ++i) {
        burst(subject, i, 20);
        one_by_one(subject, i, warm);
        stay_busy();
    }
    out.bursts.reserve(number(args, "bursts"));
    out.calls.reserve(number(args, "bursts") * 20);
    for (uint64_t i = 0; i < number(args, "bursts"); ++i) {
        if (i % 2 == 0) out.bursts.push_back(burst(subject, i, 20));
        else one_by_one(subject, i, out.calls);
        stay_busy();
    }
    for (uint64_t i = 0; i < number(args, "batches"); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        out.tight.push_back(burst(subject, 0, 1000));
    }
}

inline double quantile(std::vector<uint64_t> &values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const size_t rank = size_t(double(values.size()) * share + 0.999999);
    return double(values[std::min(values.size(), std::max<size_t>(rank, 1)) - 1]);
}

template <class S> void callsite(S &subject, const Args &args) {
    const double tick_ns = ns_per_tick();
    std::vector<Measured> measured(number(args, "threads"));
    std::vector<std::thread> threads;
    for (Measured &one : measured) threads.emplace_back([&] { callsite_thread(subject, args, tick_ns, one); });
    for (std::thread &thread : threads) thread.join();
    subject.finish();
    Measured all;
    for (const Measured &one : measured) {
        all.bursts.insert(all.bursts.end(), one.bursts.begin(), one.bursts.end());
        all.calls.insert(all.calls.end(), one.calls.begin(), one.calls.end());
        all.tight.insert(all.tight.end(), one.tight.begin(), one.tight.end());
    }
    report("mean20_p50_ns", quantile(all.bursts, 0.5) * tick_ns / 20);
    report("mean20_p99_ns", quantile(all.bursts, 0.99) * tick_ns / 20);
    report("call_p99_ns", quantile(all.calls, 0.99) * tick_ns);
    report("call_p999_ns", quantile(all.calls, 0.999) * tick_ns);
    report("call_max_ns", quantile(all.calls, 1) * tick_ns);
    report("tight_ns", quantile(all.tight, 0.5) * tick_ns / 1000);
}

// Four threads, twenty calls a millisecond each, through `before`, the hang, and `after`.
template <class S> void hang(S &subject, const Args &args) {
    constexpr unsigned THREADS = 4;
    constexpr int CALLS_A_TICK = 20;
    const uint64_t length_ms = number(args, "before_ms") + number(args, "hang_ms") + number(args, "after_ms");
    const double tick_ns = ns_per_tick();
    const auto start = Steady::now();
    std::vector<std::vector<uint64_t>> times(THREADS);
    std::vector<uint64_t> worst(THREADS), worst_at_ms(THREADS);
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < THREADS; ++thread)
        threads.emplace_back([&, thread] {
            std::vector<uint64_t> &own = times[thread];
            own.reserve(length_ms * CALLS_A_TICK);
            for (uint64_t ms = 0; ms < length_ms; ++ms) {
                std::this_thread::sleep_until(start + std::chrono::milliseconds(ms));
                for (int i = 0; i < CALLS_A_TICK; ++i) {
                    const uint64_t before = ticks();
                    subject.line("producer " + std::to_string(thread) + " logs at a steady rate, come what may");
                    own.push_back(ticks() - before);
                    if (own.back() > worst[thread]) worst[thread] = own.back(), worst_at_ms[thread] = ms;
                }
                if (Steady::now() > start + std::chrono::milliseconds(length_ms)) break;
            }
        });
    for (std::thread &thread : threads) thread.join();
    const uint64_t dropped = subject.finish();
    std::vector<uint64_t> all;
    for (const auto &own : times) all.insert(all.end(), own.begin(), own.end());
    uint64_t first = 0;
    for (const auto &own : times) first = std::max(first, own.empty() ? 0 : own.front());
    const auto worst_thread = std::max_element(worst.begin(), worst.end()) - worst.begin();
    report("calls", double(all.size()));
    report("first_call_ms", double(first) * tick_ns / 1e6);
    report("worst_at_ms", double(worst_at_ms[size_t(worst_thread)]));
    report("p50_call_us", quantile(all, 0.5) * tick_ns / 1e3);
    report("p99_call_us", quantile(all, 0.99) * tick_ns / 1e3);
    report("p999_call_us", quantile(all, 0.999) * tick_ns / 1e3);
    report("worst_call_ms", quantile(all, 1) * tick_ns / 1e6);
    report("calls_over_1_ms",
           double(std::count_if(all.begin(), all.end(), [&](uint64_t time) { return double(time) * tick_ns > 1e6; })));
    report("peak_rss_mib", peak_rss_mib());
    report("dropped_counted", double(dropped));
}

template <class S> int run(int argc, char **argv) {
    if (argc < 2) return 2;
    Args args;
    for (int i = 2; i < argc; ++i) {
        const std::string text = argv[i];
        const size_t equals = text.find('=');
        if (equals != std::string::npos) args[text.substr(0, equals)] = text.substr(equals + 1);
    }
    S subject;
    if (!subject.start(args["path"], args["full"])) return 3;
    const std::string workload = argv[1];
    if (workload == "glog") glog(subject, args);
    else if (workload == "callsite") callsite(subject, args);
    else if (workload == "hang") hang(subject, args);
    else return 2;
    return 0;
}

}  // namespace bench
