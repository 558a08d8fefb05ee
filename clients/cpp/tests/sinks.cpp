// Sinks of the program and of containers, loggers with sinks of their own, flight recorders, and where each of them ends.
#define LOGDRIVE_TARGET "shop"
#include "check.hpp"
#include <atomic>
#include <logdrive/logdrive.hpp>
#include <csignal>
#include <mutex>
#include <sys/wait.h>
#include <thread>

void log_of_net(int value);
void log_of_quic(int value);

namespace {

// Lines as they come, with the threads that brought them.
struct Collect {
    std::mutex lock;
    std::string text;
    std::vector<std::thread::id> threads;
    bool is_failing = false;
    int flushes = 0;

    void operator()(const char *lines, size_t bytes) {
        const std::lock_guard<std::mutex> held(lock);
        LOGDRIVE_ERROR("a sink's own call");
        if (logdrive::flush() || logdrive::dump() || logdrive_stop() == LOGDRIVE_OK) ++flushes;
        if (is_failing) throw 1;
        text.append(lines, bytes);
        threads.push_back(std::this_thread::get_id());
    }
    std::string taken() {
        const std::lock_guard<std::mutex> held(lock);
        return text;
    }
};

void prepare(logdrive::Options &options, const check::Dir &dir) {
    options.set("run_dir", (dir / "run").c_str()).set("use_env", "no").set("full", "block");
}

uint64_t dropped_of_sink(uint32_t sink) {
    logdrive_sink_stats_t stats;
    EXPECT(logdrive_sink_stats(sink, &stats) == LOGDRIVE_OK);
    return stats.dropped;
}

void callbacks() {
    check::Dir dir;
    Collect all, failing;
    failing.is_failing = true;
    logdrive::Options options("cpp-sinks");
    prepare(options, dir);
    options.callback(all).layout("pattern {level} {message}{fields}").callback(failing).min_level("error");
    auto logger = logdrive::start(options);
    EXPECT_TEXT(logger.error(), "");
    LOGDRIVE_INFO("first {}", 1);
    LOGDRIVE_WARN("two\nlines", logdrive::kv("n", 2));
    EXPECT(logdrive::flush());
    EXPECT_TEXT(all.taken(), "INFO first 1\nWARN two\\nlines n=2\n");
    // Those below its level.
    EXPECT(dropped_of_sink(1) == 2);
    LOGDRIVE_ERROR("third");
    EXPECT(logdrive::flush());
    EXPECT(dropped_of_sink(1) >= 3);
    for (int i = 0; i < 100000; ++i) LOGDRIVE_INFO("many {}", i);
    EXPECT(logdrive::flush());
    const std::vector<std::string> lines = check::lines(all.taken());
    size_t many = 0;
    for (const std::string &line : lines) many += line == "INFO many " + std::to_string(many);
    EXPECT(many == 100000);
    EXPECT(all.taken().find("a sink's own call") == std::string::npos);
    for (const std::thread::id &thread : all.threads) EXPECT(thread == all.threads.front() && thread != std::this_thread::get_id());
    EXPECT(all.flushes == 0 && failing.flushes == 0);
    // The child of a fork has its own: what it logs is not in the parent's.
    const pid_t child = fork();
    if (child == 0) {
        LOGDRIVE_INFO("of the child");
        logdrive::flush();
        const bool is_here = all.taken().find("INFO of the child\n") != std::string::npos;
        _exit(is_here ? 7 : 8);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    EXPECT(logdrive::flush() && all.taken().find("of the child") == std::string::npos);
}

// A sink that blocks holds up nobody else; it gets its lines when it goes on.
void a_sink_that_blocks() {
    check::Dir dir;
    Collect blocked;
    const std::string path = dir / "free.log";
    logdrive::Options options("cpp-blocks");
    prepare(options, dir);
    options.callback(blocked).layout("pattern {message}").file(path.c_str()).layout("pattern {message}");
    auto logger = logdrive::start(options);
    EXPECT_TEXT(logger.error(), "");
    {
        const std::lock_guard<std::mutex> held(blocked.lock);
        for (int i = 0; i < 1000; ++i) LOGDRIVE_INFO("line {}", i);
        const uint64_t begin = logdrive::detail::monotonic_ns();
        size_t lines = 0;
        while (lines < 1000 && logdrive::detail::monotonic_ns() - begin < 60000000000u) {
            std::this_thread::yield();
            lines = check::lines(check::read(path)).size();
        }
        EXPECT(lines == 1000);
    }
    EXPECT(logdrive::flush());
    EXPECT(check::lines(blocked.taken()).size() == 1000);
}

void several_loggers() {
    check::Dir dir;
    {
        logdrive::Options options("cpp-loggers");
        prepare(options, dir);
        const char *const layout = "pattern {target} {message}";
        options.file((dir / "net.log").c_str()).layout(layout).only("net");
        options.file((dir / "rest.log").c_str()).layout(layout).except("net");
        options.file((dir / "quic.log").c_str()).layout(layout).only("net::quic").min_level("warn");
        options.file((dir / "all.log").c_str()).layout(layout);
        auto logger = logdrive::start(options);
        EXPECT_TEXT(logger.error(), "");
        for (int i = 0; i < 1000; ++i) {
            LOGDRIVE_INFO("sold {}", i);
            log_of_net(i);
            log_of_quic(i);
        }
        LOGDRIVE_WARN_TO("net::quic", "from {}", "here");
    }
    const auto count = [&](const char *name) { return check::lines(check::read(dir / name)).size(); };
    EXPECT_TEXT(check::lines(check::read(dir / "net.log"))[1], "net::quic lost 0");
    EXPECT_TEXT(check::lines(check::read(dir / "rest.log"))[999], "shop sold 999");
    EXPECT_TEXT(check::lines(check::read(dir / "quic.log")).back(), "net::quic from here");
    EXPECT(count("net.log") == 2001 && count("rest.log") == 1000 && count("quic.log") == 1001 && count("all.log") == 3001);
    logdrive::Options wrong("cpp-loggers");
    wrong.only("net");
    EXPECT(wrong.code() == LOGDRIVE_ERROR_ARGUMENT);
}

// Segments beside text: `logdrive cat` shows the same lines, where LOGDRIVE_BIN names the command.
void segments() {
    check::Dir dir;
    const std::string text = dir / "shop.log", segment = dir / "shop.segment";
    {
        logdrive::Options options("cpp-segments");
        prepare(options, dir);
        options.file(text.c_str()).file(segment.c_str()).segments();
        auto logger = logdrive::start(options);
        EXPECT_TEXT(logger.error(), "");
        for (int i = 0; i < 5000; ++i) {
            LOGDRIVE_INFO("order {} filled at {}", i, i * 0.25, logdrive::kv("customer", "acme-ltd"));
            if (i % 100 == 0) LOGDRIVE_WARN("two\nlines {}", "here", logdrive::kv("n", -i));
        }
    }
    const std::string lines = check::read(text), blocks = check::read(segment);
    EXPECT(check::lines(lines).size() == 5050);
    EXPECT(blocks.compare(0, 7, "\xd7LDseg\r") == 0 && blocks.size() * 6 < lines.size());
    const char *const command = getenv("LOGDRIVE_BIN");
    if (command == nullptr) {
        std::puts("segments are not read back: LOGDRIVE_BIN is not set");
    } else {
        const std::string shown = dir / "shown.log";
        const std::string call = std::string(command) + " cat --no-merge " + segment + " > " + shown;
        EXPECT(std::system(call.c_str()) == 0);
        EXPECT(check::read(shown) == lines);
    }
    logdrive::Options wrong("cpp-segments");
    prepare(wrong, dir);
    wrong.console(logdrive::Console::out).segments();
    auto refused = logdrive::start(wrong);
    EXPECT(std::string(refused.error()).find("the layout segments is for files") != std::string::npos);
}

// What a killed program left is recovered into the sinks that its targets have.
void loggers_of_a_killed_program() {
    check::Dir dir;
    const auto log = [&](bool is_killed) {
        logdrive::Options options("cpp-killed");
        prepare(options, dir);
        options.file((dir / "net.log").c_str()).layout("pattern {message}").only("net");
        options.file((dir / "rest.log").c_str()).layout("pattern {message}").except("net");
        auto logger = logdrive::start(options);
        EXPECT_TEXT(logger.error(), "");
        for (int i = 0; is_killed && i < 1000; ++i) {
            LOGDRIVE_INFO("sold {}", i);
            log_of_net(i);
        }
        if (is_killed) raise(SIGKILL);
        EXPECT(logdrive::flush());
    };
    const pid_t child = fork();
    if (child == 0) {
        log(true);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status));
    log(false);
    const auto count = [&](const char *name, const char *word) {
        int found = 0;
        for (const std::string &line : check::lines(check::read(dir / name))) found += line.rfind(word, 0) == 0;
        return found;
    };
    EXPECT(count("net.log", "sent ") == 1000 && count("net.log", "sold ") == 0);
    EXPECT(count("rest.log", "sold ") == 1000 && count("rest.log", "sent ") == 0);
}

void flight_recorder() {
    check::Dir dir;
    const std::string path = dir / "kept.log";
    logdrive::Options options("cpp-keep");
    prepare(options, dir);
    options.file(path.c_str()).layout("pattern {message}").min_level("info").keep("1 MiB").keep_trigger("off");
    options.keep_trigger_at("net").keep_pause("0s").keep_on_crash(false).keep_before("10min");
    auto logger = logdrive::start(options);
    EXPECT_TEXT(logger.error(), "");
    const auto has = [&](const char *text) { return check::read(path).find(text) != std::string::npos; };
    LOGDRIVE_DEBUG("only in memory {}", 1);
    LOGDRIVE_INFO("in the file");
    EXPECT(logdrive::flush() && has("in the file") && !has("only in memory"));
    EXPECT(logdrive::dump() && has("only in memory 1"));
    LOGDRIVE_DEBUG("forgotten");
    EXPECT(logdrive::flush());
    const uint64_t begin = logdrive::detail::monotonic_ns();
    while (logdrive::detail::monotonic_ns() - begin < 20000000) std::this_thread::yield();
    EXPECT(logdrive::dump_last(1) && !has("forgotten"));
    LOGDRIVE_DEBUG("remembered");
    EXPECT(logdrive::dump_last(600000) && has("remembered") && !has("forgotten"));
    LOGDRIVE_DEBUG("before what goes wrong");
    LOGDRIVE_ERROR("no trigger");
    EXPECT(logdrive::flush() && has("no trigger") && !has("before what goes wrong"));
    log_of_net(1);
    EXPECT(logdrive::flush() && has("before what goes wrong"));
    logdrive::Options wrong("cpp-keep");
    wrong.keep("1 KiB");
    EXPECT(wrong.code() == LOGDRIVE_ERROR_ARGUMENT);
}

// What a container's runtime reads from the program's standard output and standard error.
std::string console(logdrive::Console which, bool is_json) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], which == logdrive::Console::out ? 1 : 2);
        close(ends[0]), close(ends[1]);
        {
            check::Dir dir;
            logdrive::Options options("cpp-console");
            prepare(options, dir);
            options.console(which).min_level("info");
            if (is_json) options.json();
            auto logger = logdrive::start(options);
            LOGDRIVE_DEBUG("not shown");
            LOGDRIVE_INFO("sold {}", "screws", logdrive::kv("left", 3));
        }
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char part[4096];
    for (ssize_t bytes; (bytes = read(ends[0], part, sizeof part)) > 0;) text.append(part, size_t(bytes));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return text;
}

void consoles() {
    for (const logdrive::Console which : {logdrive::Console::out, logdrive::Console::error}) {
        const std::string text = console(which, false), json = console(which, true);
        EXPECT(check::lines(text).size() == 1 && check::lines(json).size() == 1);
        EXPECT_TEXT(text.size() < 20 ? text : text.substr(text.size() - 20), " sold screws left=3\n");
        EXPECT(json.front() == '{' && json.find("\"left\":3") != std::string::npos && json.find("sold screws") != std::string::npos);
        EXPECT(text.find('\033') == std::string::npos);
    }
}

}  // namespace

int main() {
    consoles();
    callbacks();
    a_sink_that_blocks();
    several_loggers();
    segments();
    loggers_of_a_killed_program();
    flight_recorder();
    return check::result();
}
