// Start and end of the logger: its options and sinks, flushes and dumps.
#ifndef LOGDRIVE_DETAIL_OPTIONS_HPP
#define LOGDRIVE_DETAIL_OPTIONS_HPP

#include <logdrive/detail/render.hpp>

namespace logdrive {
inline namespace v0 {

// Standard output or standard error; a thread of the library writes, so that a slow reader blocks no call.
enum class Console { out, error };

// Options of a logger; see logdrive.h for the keys of set() and with(). start() returns the first mistake. Setters of a sink are
// about the one that was added last. Allocates; not for several threads at once.
class LOGDRIVE_HIDDEN Options {
public:
    explicit Options(const char *app) noexcept : options_(logdrive_options_new(app)) { note(options_ != nullptr ? 0 : -1); }
    ~Options() { logdrive_options_free(options_); }
    Options(const Options &) = delete;
    Options &operator=(const Options &) = delete;

    Options &set(const char *key, const char *value) noexcept { return note(logdrive_options_set(options_, key, value)); }

    // "file:PATH", "stdout", "stderr" or "discard"; at most 16 sinks.
    Options &sink(const char *target) noexcept { return note(logdrive_options_add_sink(options_, target)); }
    Options &file(const char *path) noexcept {
        Out target;
        target.append("file:");
        target.append(path);
        target.append('\0');
        return sink(target.data());
    }
    // Coloured text where it is a terminal, unless NO_COLOR is set; json() for what collects the lines of a container.
    Options &console(Console console) noexcept { return sink(console == Console::out ? "stdout" : "stderr"); }
    // A sink of the program: anything that is called with (const char *lines, size_t bytes), such as a lambda in main. It has to
    // stay until the logger has ended. A thread of the library calls it, never two calls at a time, with one or more whole
    // lines, each with a line feed at its end. It may block: other sinks go on, and its lines wait in buffers of 8 MiB; then
    // `overflow` decides. Lines of a call that throws are counted as dropped. Its own log calls are dropped and counted; flush(),
    // dump(), start and stop fail in it. Records of a killed program do not come to it: add a file for them. With an agent it is
    // not called. The child of a fork that logs has a logger of its own, which calls it in the child.
    template <class Sink> Options &callback(Sink &sink) noexcept {
        const logdrive_write_lines write = [](void *context, const char *lines, size_t bytes) -> int {
#if defined(__cpp_exceptions)
            try {
                (*static_cast<Sink *>(context))(lines, bytes);
                return 0;
            } catch (...) {
                return -1;
            }
#else
            (*static_cast<Sink *>(context))(lines, bytes);
            return 0;
#endif
        };
        return note(logdrive_options_add_callback(options_, write, const_cast<void *>(static_cast<const void *>(&sink))));
    }

    // An option of the sink that was added last.
    Options &with(const char *key, const char *value) noexcept {
        return note(logdrive_options_set_sink(options_, key, value));
    }
    // "text" (default), "json", "logfmt", "glog", "segments" or "pattern ...".
    Options &layout(const char *layout) noexcept { return with("layout", layout); }
    Options &text() noexcept { return layout("text"); }
    Options &json() noexcept { return layout("json"); }
    // Of a file: compressed blocks of typed records in place of lines, which `logdrive cat` shows.
    Options &segments() noexcept { return layout("segments"); }
    // "trace" (default) to "fatal".
    Options &min_level(const char *level) noexcept { return with("min_level", level); }
    // Only records of this target and of those below it, "net" with "net::quic"; or none of them. May be called several times.
    Options &only(const char *target) noexcept { return with("only", target); }
    Options &except(const char *target) noexcept { return with("except", target); }

    // A flight recorder of a size such as "4 MiB", 1 MiB at least: records that the filter passes and that are below the level
    // of all sinks stay in memory, in binary, until an error, a crash, `logdrive dump` or dump() has them written.
    Options &keep(const char *bytes) noexcept { return set("keep_bytes", bytes); }
    // Level from which on a record has them written, or "off". Default: "error".
    Options &keep_trigger(const char *level) noexcept { return set("keep_trigger", level); }
    // A statement, "net.cpp:42", a file or a target whose records have them written. May be called several times.
    Options &keep_trigger_at(const char *place) noexcept { return set("keep_trigger_at", place); }
    // Writes only records of this time before a trigger, such as "30s", and forgets the others. Default: "off", all.
    Options &keep_before(const char *time) noexcept { return set("keep_before", time); }
    // Shortest time between two dumps that records trigger. Default: "10s".
    Options &keep_pause(const char *time) noexcept { return set("keep_pause", time); }
    // Whether a recovery writes what a killed program kept. Default: true.
    Options &keep_on_crash(bool is_on) noexcept { return set("keep_on_crash", is_on ? "yes" : "no"); }

    int code() const noexcept { return code_; }
    const logdrive_options *raw() const noexcept { return options_; }

private:
    Options &note(int code) noexcept {
        if (code_ == 0) code_ = code;
        return *this;
    }

    logdrive_options *options_;
    int code_ = 0;
};

// A running logger: its end drains what was committed.
class LOGDRIVE_HIDDEN Logger {
public:
    explicit Logger(int code) noexcept : code_(code) {}
    ~Logger() {
        if (code_ == 0) logdrive_stop();
    }
    Logger(const Logger &) = delete;
    Logger &operator=(const Logger &) = delete;

    // LOGDRIVE_OK, or the error of the start; error() is its message.
    int code() const noexcept { return code_; }
    explicit operator bool() const noexcept { return code_ == 0; }
    const char *error() const noexcept { return code_ == 0 ? "" : logdrive_last_error(); }

private:
    int code_;
};

// Starts the logger of this process. Keep the result in main. Blocks for some milliseconds.
[[nodiscard]] inline Logger start(const Options &options) noexcept {
    return Logger(options.code() != 0 ? options.code() : logdrive_start(options.raw()));
}

// Waits until the kernel has all records committed before; gives up after five seconds without progress.
inline bool flush() noexcept { return logdrive_flush() == LOGDRIVE_OK; }

// Writes the records of the flight recorder, or those of the last milliseconds, and forgets them. Waits as flush() does.
inline bool dump() noexcept { return logdrive_dump() == LOGDRIVE_OK; }
inline bool dump_last(uint64_t milliseconds) noexcept { return logdrive_dump_last(milliseconds) == LOGDRIVE_OK; }

}  // namespace v0
}  // namespace logdrive

#endif
