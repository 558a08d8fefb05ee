// The program in C++ that logs by the plan of bench/src/bin/faults: each thread makes half of its calls, says so, waits for
// the word to go on, makes the rest, and the program ends as it is told. Words are KEY=VALUE; plan.rs lists them.
#include <logdrive/logdrive.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

std::map<std::string, std::string> plan;

std::string text(const char *key) {
    const auto found = plan.find(key);
    return found == plan.end() ? std::string() : found->second;
}

uint64_t number(const char *key, uint64_t otherwise) {
    const std::string value = text(key);
    return value.empty() ? otherwise : std::strtoull(value.c_str(), nullptr, 10);
}

// Notes of calls, which outlive the process.
int notes = -1;
// Calls of signal handlers.
std::atomic<uint64_t> handled{0};
// Children that handlers have forked.
std::atomic<uint64_t> forked{0};
pid_t parent = 0;
thread_local bool is_logging = false;

uint64_t checksum(uint64_t program, uint64_t thread, uint64_t at) {
    return ((program << 48 ^ thread << 32 ^ at) + 1) * 0x9e3779b97f4a7c15u;
}

// Notes of a thread, as those of notes.rs.
struct Noted {
    uint64_t calls = 0, worst_ns = 0, first_ns = 0, own_ns = 0;
};

void note(uint64_t thread, const Noted &noted) {
    const uint64_t slot[4] = {noted.calls, noted.worst_ns, noted.first_ns, noted.own_ns};
    if (pwrite(notes, slot, sizeof slot, off_t(thread * sizeof slot)) == ssize_t(sizeof slot)) return;
    if (getpid() != parent) _exit(0);
    std::abort();
}

// Times that the kernel has taken the processor from this thread.
long times_taken() {
    struct rusage usage = {};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

struct Calls {
    uint64_t program, thread, pause_us, warn_every;
    Noted noted = {};

    // Makes calls from a thread that has made none before, or goes on with them.
    void make(uint64_t from, uint64_t to, bool is_first) {
        using Clock = std::chrono::steady_clock;
        is_logging = true;
        for (uint64_t at = from; at < to; ++at) {
            const uint64_t sum = checksum(program, thread, at);
            const long before = times_taken();
            const auto begin = Clock::now();
            if (warn_every > 0 && at % warn_every == warn_every - 1)
                LOGDRIVE_WARN("F p{} t{} n{} c{} end", program, thread, at, sum);
            else
                LOGDRIVE_INFO("F p{} t{} n{} c{} end", program, thread, at, sum);
            const uint64_t took = uint64_t(std::chrono::nanoseconds(Clock::now() - begin).count());
            if (getpid() != parent) _exit(0);
            noted.calls = at + 1;
            uint64_t &longest = is_first && at == from ? noted.first_ns : noted.worst_ns;
            longest = std::max(longest, took);
            if (&longest != &noted.first_ns && times_taken() == before) noted.own_ns = std::max(noted.own_ns, took);
            note(thread, noted);
            if (pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
        }
        is_logging = false;
    }
};

// All threads and `main` meet here.
class Barrier {
public:
    explicit Barrier(uint64_t threads) : threads_(threads) {}
    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        const uint64_t turn = turn_;
        if (++here_ == threads_) {
            here_ = 0;
            ++turn_;
            all_.notify_all();
            return;
        }
        all_.wait(lock, [&] { return turn_ != turn; });
    }

private:
    std::mutex mutex_;
    std::condition_variable all_;
    uint64_t threads_, here_ = 0, turn_ = 0;
};

void say(const char *line) {
    std::printf("\n%s\n", line);
    std::fflush(stdout);
}

void wait_for_input() {
    char line[64];
    if (std::fgets(line, sizeof line, stdin) == nullptr) _exit(4);
}

[[noreturn]] void pause_forever() {
    for (;;) pause();
}

// The last signal may come when the main thread has seen the end of all calls, so that each is noted here. Handlers of
// several threads may note at once: each goes on until its note is the last count.
void log_in_handler(int) {
    const uint64_t at = handled.fetch_add(1), thread = number("threads", 1);
    for (uint64_t noted = 0; noted != handled.load();) {
        noted = handled.load();
        note(thread, Noted{noted, 0, 0, 0});
    }
    LOGDRIVE_INFO("F p{} t{} n{} c{} end", uint64_t(0), thread, at, checksum(0, thread, at));
}

// The child returns into the call that was interrupted, and ends behind it. It closes the notes: it may stand just before
// a note, which would replace a later one of the parent.
void fork_in_handler(int) {
    if (!is_logging || getpid() != parent) return;
    const pid_t child = fork();
    if (child > 0) forked.fetch_add(1);
    if (child == 0) {
        close(notes);
        alarm(5);
    }
}

// Interrupts calls while they are made; returns when the flag is set.
void interrupt(const std::atomic<bool> &is_over) {
    while (!is_over.load()) {
        kill(parent, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::microseconds(number("interrupt_us", 200)));
    }
}

// Every child has to have ended by itself.
void check_children() {
    uint64_t failed = 0;
    int status = 0;
    for (uint64_t child = 0; child < forked.load(); ++child) failed += wait(&status) < 0 || !WIFEXITED(status);
    if (failed == 0) return;
    std::fprintf(stderr, "%llu of %llu children died of a signal\n", static_cast<unsigned long long>(failed),
                 static_cast<unsigned long long>(forked.load()));
    _exit(6);
}

// A child logs as a thread of its own number and ends at once, as a child of a daemon does that starts another program.
void log_in_child(bool executes) {
    const pid_t child = fork();
    if (child == 0) {
        parent = getpid();
        Calls own{number("program", 0), number("threads", 1), 0};
        own.make(0, number("records", 100), true);
        if (executes) execlp("true", "true", static_cast<char *>(nullptr));
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        std::fprintf(stderr, "the child ended with %d\n", status);
        _exit(6);
    }
}

void at_half() {
    const bool is_synced = number("sync", 0) == 0 || logdrive_sync() == LOGDRIVE_OK;
    const std::string act = text("act");
    if (act == "setuid" && setuid(65534) != 0) std::abort();
    if (act == "close") {
        for (int descriptor = 3; descriptor < 1024; ++descriptor) close(descriptor);
        notes = open(text("notes").c_str(), O_WRONLY | O_CLOEXEC);
    }
    if (act == "child_exit" || act == "child_exec") log_in_child(act == "child_exec");
    if (act == "handler" || act == "fork") {
        struct sigaction action = {};
        action.sa_handler = act == "fork" ? fork_in_handler : log_in_handler;
        action.sa_flags = SA_RESTART;
        sigaction(SIGUSR1, &action, nullptr);
        sigset_t blocked;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    }
    say(is_synced ? "half synced" : "half");
    wait_for_input();
}

int finish(std::unique_ptr<logdrive::Logger> logger) {
    const std::string end = text("end");
    if (end == "stop") logger.reset();
    else static_cast<void>(logger.release());
    if (end == "exit") std::exit(3);
    if (end == "quick_exit") std::quick_exit(3);
    if (end == "_exit") _exit(3);
    if (end == "abort") std::abort();
    if (end == "panic") throw std::runtime_error("as told");
    if (end == "segv") raise(SIGSEGV);
    if (end == "exec") execlp("true", "true", static_cast<char *>(nullptr));
    if (end == "eat")
        for (;;) std::memset(std::malloc(1 << 20), 1, 1 << 20);
    if (end == "wait") pause_forever();
    return 0;
}

std::unique_ptr<logdrive::Logger> start() {
    const std::string log = text("log"), full = text("full"), app = text("app");
    logdrive::Options options(app.c_str());
    options.set("use_env", "no").set("full", full.empty() ? "wait" : full.c_str());
    if (log.empty()) options.sink("stderr");
    else options.file(log.c_str());
    const char *of_sink[][2] = {{"rotate", "rotate_bytes"}, {"compress", "compress"}, {"overflow", "overflow"}};
    for (const auto &pair : of_sink)
        if (!text(pair[0]).empty()) options.with(pair[1], text(pair[0]).c_str());
    const char *of_logger[][2] = {{"run", "run_dir"}, {"ring", "ring_bytes"}, {"agent", "agent"}, {"run_as", "run_as"}};
    for (const auto &pair : of_logger)
        if (!text(pair[0]).empty()) options.set(pair[1], text(pair[0]).c_str());
    auto logger = std::make_unique<logdrive::Logger>(options.code() != 0 ? options.code() : logdrive_start(options.raw()));
    if (*logger) return logger;
    std::fprintf(stderr, "%s\n", logger->error());
    _exit(2);
}

}  // namespace

int main(int argc, char **argv) {
    for (int at = 1; at < argc; ++at) {
        const char *sign = std::strchr(argv[at], '=');
        if (sign != nullptr) plan[std::string(argv[at], size_t(sign - argv[at]))] = sign + 1;
    }
    auto logger = start();
    const uint64_t threads = number("threads", 1), records = number("records", 100);
    const bool is_fresh = number("fresh", 0) == 1;
    notes = open(text("notes").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    parent = getpid();
    Barrier barrier(threads + 1);
    const auto calls = [](uint64_t thread) { return Calls{number("program", 0), thread, number("pause_us", 0), number("warn_every", 0), {}}; };
    for (uint64_t thread = 0; thread < threads; ++thread)
        std::thread([&, thread] {
            Calls own = calls(thread);
            own.make(0, records / 2, true);
            barrier.wait();
            if (is_fresh) return;
            barrier.wait();
            own.make(records / 2, records, false);
            barrier.wait();
            pause_forever();
        }).detach();
    barrier.wait();
    at_half();
    for (uint64_t thread = 0; is_fresh && thread < threads; ++thread)
        std::thread([&, thread] {
            Calls own = calls(thread);
            barrier.wait();
            own.make(records / 2, records, true);
            barrier.wait();
            pause_forever();
        }).detach();
    barrier.wait();
    std::atomic<bool> is_over{text("act") != "handler" && text("act") != "fork"};
    std::thread interrupter([&] { interrupt(is_over); });
    barrier.wait();
    is_over.store(true);
    interrupter.join();
    check_children();
    say("done");
    wait_for_input();
    return finish(std::move(logger));
}
