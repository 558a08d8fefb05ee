// State of the glog facade, one for each process: flags, destinations, sinks, verbose levels. It lies in memory that all
// modules share, so that a plug-in sets the same flags as the program.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_STATE_HPP
#define LOGDRIVE_DETAIL_GLOG_STATE_HPP

#include <logdrive/detail/render.hpp>
#include <logdrive/detail/ring.hpp>
#include <iosfwd>
#include <pthread.h>
#include <string>
#include <string_view>
#include <vector>

// With LOGDRIVE_GLOG_LIBRARY, what is not in the way of a call is compiled once, in the library logdrive_glog, and each file
// has only its declarations. Without, every file that needs it compiles it, and needs no library but logdrive_c.
#if defined(LOGDRIVE_GLOG_LIBRARY)
#define LOGDRIVE_GLOG_FN_
#else
#define LOGDRIVE_GLOG_FN_ inline
#endif
// The same for what every call uses: at none of them is its code.
#define LOGDRIVE_GLOG_CALL_ __attribute__((noinline)) LOGDRIVE_GLOG_FN_

// Names that programs declare by themselves lie in namespace google itself. Hidden, so that none is one of a real libglog's.
#define LOGDRIVE_GLOG_API_ __attribute__((visibility("hidden"))) LOGDRIVE_GLOG_FN_

#ifndef GLOG_EXPORT
#define GLOG_EXPORT
#endif
#ifndef GLOG_NO_EXPORT
#define GLOG_NO_EXPORT
#endif
#ifndef GLOG_DEPRECATED
#define GLOG_DEPRECATED __attribute__((deprecated))
#endif
#if defined(__linux__) && !defined(GLOG_OS_LINUX)
#define GLOG_OS_LINUX
#endif

// An inline namespace of its own: none of the names is one of the real libglog's, so that both can be in one process.
namespace google {
class LogSink;
inline namespace logdrive_glog {

typedef int32_t int32;
typedef uint32_t uint32;
typedef int64_t int64;
typedef uint64_t uint64;
typedef double WallTime;
typedef int LogSeverity;

const int GLOG_INFO = 0, GLOG_WARNING = 1, GLOG_ERROR = 2, GLOG_FATAL = 3, NUM_SEVERITIES = 4;
#ifndef GLOG_NO_ABBREVIATED_SEVERITIES
#ifdef ERROR
#error ERROR macro is defined. Define GLOG_NO_ABBREVIATED_SEVERITIES before including logging.h. See the document for detail.
#endif
const int INFO = GLOG_INFO, WARNING = GLOG_WARNING, ERROR = GLOG_ERROR, FATAL = GLOG_FATAL;
#endif

constexpr const char *const LogSeverityNames[NUM_SEVERITIES] = {"INFO", "WARNING", "ERROR", "FATAL"};
inline const char *GetLogSeverityName(LogSeverity severity) { return LogSeverityNames[severity]; }

struct LogMessageInfo;
typedef void (*CustomPrefixCallback)(std::ostream &s, const LogMessageInfo &l, void *data);
class LogMessage;
typedef void (*PrefixFormatterCallback)(std::ostream &s, const LogMessage &message, void *data);
namespace base {
class Logger;
}

typedef void (*logging_fail_func_t)() __attribute__((noreturn));

namespace internal LOGDRIVE_HIDDEN {

struct State;
// Called when a flag has changed. For levels it does not allocate: RAW_LOG's callers may set them.
LOGDRIVE_GLOG_FN_ void changed(State &state, const void *flag = nullptr);
LOGDRIVE_GLOG_FN_ void restart_if_changed(State &state);
LOGDRIVE_GLOG_FN_ void read_vmodule(State &state);
__attribute__((cold)) LOGDRIVE_GLOG_FN_ State *find_state();
LOGDRIVE_GLOG_FN_ std::string directory(const State &state);
LOGDRIVE_GLOG_FN_ void start_now(State &state);
__attribute__((cold)) LOGDRIVE_GLOG_FN_ void start_if_needed(State &state);
struct VModule;
LOGDRIVE_GLOG_FN_ const VModule *pattern_of(const State &state, std::string_view name);
LOGDRIVE_GLOG_FN_ std::string_view module_of(const char *file);
LOGDRIVE_GLOG_FN_ int64 committed();
inline State &state();

// A flag with a callback when it is set, so that what depends on it is recomputed.
template <class T> struct Flag {
    T value;
    operator const T &() const { return value; }
    Flag &operator=(const T &fresh) {
        T copy = fresh;
        __atomic_store(&value, &copy, __ATOMIC_RELAXED);
        changed(state(), this);
        return *this;
    }
    T *operator&() { return &value; }
};

struct StringFlag : std::string {
    using std::string::string;
    template <class T> StringFlag &operator=(const T &fresh) {
        std::string::operator=(fresh);
        changed(state());
        return *this;
    }
};

// The level of the files that a pattern of --vmodule names.
struct VModule {
    std::string pattern;
    int32 *level;
};

// Every level is below that of a statement whose file is not known yet, so that it looks.
inline constexpr int32 NOT_KNOWN_YET = 0x7fffffff;

// A VLOG statement, which has a copy of its file's level. Off, it costs a load and a comparison.
struct VSite {
    int32 level = NOT_KNOWN_YET;
    const char *file = nullptr;
    // Level of the pattern that was the first to name its file; it stays with that.
    const int32 *of_pattern = nullptr;
    VSite *next = nullptr;

    LOGDRIVE_ALWAYS bool is_on(const char *in_file, int verbose) {
        const int32 known = __atomic_load_n(&level, __ATOMIC_RELAXED);
        if (LOGDRIVE_LIKELY(known < verbose)) return false;
        return known != NOT_KNOWN_YET || find(in_file, verbose);
    }
    __attribute__((cold)) bool find(const char *in_file, int verbose);
};

// The VLOG statements of one module that were reached. A module that is unloaded takes its own out of the list.
struct VSites {
    VSite *first = nullptr;
    VSites *next = nullptr;

    VSites();
    ~VSites();
    VSites(const VSites &) = delete;
    VSites &operator=(const VSites &) = delete;
};

// State of one module, so that a call reads nothing else.
struct Module {
    // True if a call does more than write its record: a copy of the state's word.
    uint32_t thinks = 1;
    // The state, once it is known.
    State *state = nullptr;
    Module *next = nullptr;
};
inline Module this_module;

// Signals of the thread wait, so that no handler that logs finds the state half changed.
class Lock {
public:
    explicit Lock(pthread_mutex_t &mutex) : held_(logdrive_hold_signals()), mutex_(mutex) { pthread_mutex_lock(&mutex_); }
    ~Lock() {
        pthread_mutex_unlock(&mutex_);
        logdrive_release_signals(held_);
    }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

private:
    uint64_t held_;
    pthread_mutex_t &mutex_;
};

// The same while sinks of the program take a message, which may last: a handler that logs meanwhile gives them its own.
class SinkLock {
public:
    explicit SinkLock(pthread_mutex_t &mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
    ~SinkLock() { pthread_mutex_unlock(&mutex_); }
    SinkLock(const SinkLock &) = delete;
    SinkLock &operator=(const SinkLock &) = delete;

private:
    pthread_mutex_t &mutex_;
};

struct State {
    // True if a call does more than write its record. Each module has a copy, which its calls read.
    uint32_t thinks = 1;
    Module *modules = nullptr;
    Flag<int32> v{0};
    Flag<int32> minloglevel{0};
    Flag<bool> logtostderr{false}, alsologtostderr{false}, colorlogtostderr{false}, logtostdout{false},
        colorlogtostdout{false}, log_prefix{true}, log_year_in_prefix{true}, timestamp_in_logfile_name{true},
        stop_logging_if_full_disk{false}, log_utc_time{false}, symbolize_stacktrace{true}, log_file_header{true},
        drop_log_memory{true};
    Flag<int32> stderrthreshold{GLOG_ERROR}, logbuflevel{0}, logbufsecs{30}, logfile_mode{0664}, logcleansecs{300},
        logemaillevel{999};
    Flag<uint32> max_log_size{1800};
    StringFlag log_dir, log_link, vmodule, log_backtrace_at, logmailer, alsologtoemail;
    StringFlag logdrive_full{"block"}, logdrive_run_dir, logdrive_ring_bytes;

    pthread_mutex_t mutex;
    pthread_mutex_t sinks_mutex;
    bool initialised = false;
    bool running = false;
    // Started by InitGoogleLogging, so that no call waits for the start; and nothing was logged yet. What changes until
    // then is looked at with the first call.
    bool waiting = false;
    bool watches_forks = false;
    // Starts the logger from the flags, once InitGoogleLogging has been called. Most files of a program only log: they
    // need not compile it.
    void (*starter)(State &) = nullptr;
    // Takes over what the command line has set, where gflags is used.
    void (*adopt)() = nullptr;
    // Gives a message to the sinks, once there are any.
    void (*sender)(const char *file, int line, int severity, const char *text, size_t length) = nullptr;
    bool stopped = false;
    std::string program, extension;
    // Set by SetLogDestination; `chosen` is true if it was called.
    std::string base[NUM_SEVERITIES], symlink[NUM_SEVERITIES];
    bool chosen[NUM_SEVERITIES] = {}, linked[NUM_SEVERITIES] = {};
    // Options of the running logger, and the part of file names that is constant for the process.
    std::string started_with, name_time;
    std::vector<std::string> directories;
    std::vector<VModule> vmodules;
    std::string vmodules_of;
    VSites *vsites = nullptr;
    // Of `sinks_mutex`; whether there are any can be read without it.
    std::vector<LogSink *> sinks;
    size_t sink_count = 0;
    // Makes the front of a line, in the thread that logs: one of them, or neither.
    CustomPrefixCallback prefix = nullptr;
    PrefixFormatterCallback formatter = nullptr;
    void *prefix_data = nullptr;
    void (*prefixer)(const State &, ::logdrive::Out &out, const char *file, int line, int severity) = nullptr;
    // Of `sinks_mutex`: the files as loggers, and those of the program that have their places. With any of them, messages are
    // made at the call.
    base::Logger *file_loggers[NUM_SEVERITIES] = {}, *loggers[NUM_SEVERITIES] = {};
    bool has_loggers = false;
    int64 messages[NUM_SEVERITIES] = {};
    // Messages that were no records, such as those for strings; and records of logs before the running one.
    int64 unlogged = 0, committed_before = 0;
    // True once a statement of this severity was reached, so that files may be open.
    bool logged[NUM_SEVERITIES] = {};
    logging_fail_func_t fail = nullptr;
    void (*failure_writer)(const char *, size_t) = nullptr;
    bool failure_handler = false;
    // From EnableLogCleaner; below 0 without one.
    int64 keep_seconds = -1;
    bool told_early = false;
    // True if `logdrive_full` is "block": a call waits where one of glog's does, also for standard error and urgent lines.
    bool waits = true;
    int rescue = -1;
    char fatal_message[256] = {};

    bool has_sinks() const { return __atomic_load_n(&sink_count, __ATOMIC_ACQUIRE) != 0; }
    bool has_callback() const {
        return __atomic_load_n(&prefix, __ATOMIC_ACQUIRE) != nullptr || __atomic_load_n(&formatter, __ATOMIC_ACQUIRE) != nullptr;
    }
    bool uses_loggers() const { return __atomic_load_n(&has_loggers, __ATOMIC_ACQUIRE); }
    void use_loggers(bool are_used) { __atomic_store_n(&has_loggers, are_used, __ATOMIC_RELEASE); }
    // True if messages of this place come with the stack of their call.
    bool wants_stack(const char *file, int line) const;
    // True if a message has the front of its line in it.
    bool has_prefix() const { return log_prefix.value && (has_callback() || uses_loggers()); }
    int32 least_severity() const { return __atomic_load_n(&minloglevel.value, __ATOMIC_RELAXED); }
    void count(int severity) { __atomic_fetch_add(&messages[severity], 1, __ATOMIC_RELAXED); }
    void count_unlogged(int64 messages = 1) { __atomic_fetch_add(&unlogged, messages, __ATOMIC_RELAXED); }
    int64 counted(int severity) const { return __atomic_load_n(&messages[severity], __ATOMIC_RELAXED); }
    // Severities from which a call writes its line to standard error itself, and from which it waits until the files have it.
    int stderr_from() const {
        if (!waits) return NUM_SEVERITIES;
        if (is_console()) return logtostdout.value ? stderrthreshold.value : 0;
        return alsologtostderr.value ? 0 : stderrthreshold.value;
    }
    int flush_from() const { return waits && !is_console() ? logbuflevel.value + 1 : int(NUM_SEVERITIES); }
    // True if nothing goes to files.
    bool is_console() const { return !initialised || logtostderr.value || logtostdout.value; }
    void note_logged(int severity) { __atomic_store_n(&logged[severity], true, __ATOMIC_RELAXED); }

    State();
    void make_locks();
    // The environment sets the defaults of flags, as with glog.
    void read_environment();
};

inline State &state() {
    State *state = __atomic_load_n(&this_module.state, __ATOMIC_ACQUIRE);
    return LOGDRIVE_LIKELY(state != nullptr) ? *state : *find_state();
}

// The same for the flags of a file. It always gives the same, so that what is not used need not be initialised.
LOGDRIVE_GLOG_FN_ State &state_of_flags() __attribute__((const));

}  // namespace internal
}  // namespace logdrive_glog

LOGDRIVE_GLOG_API_ int SetVLOGLevel(const char *module_pattern, int log_level);

}  // namespace google

// The flags. Programs set them; with gflags, LOGDRIVE_GLOG_DEFINE_GFLAGS() makes them options of the command line.
// References of each file's own: the compiler leaves out what the file does not name.
#define LOGDRIVE_GLOG_FLAG_(name) \
    __attribute__((unused)) static auto &FLAGS_##name = ::google::logdrive_glog::internal::state_of_flags().name
namespace logdrive_glog_flags LOGDRIVE_HIDDEN {
LOGDRIVE_GLOG_FLAG_(v);
LOGDRIVE_GLOG_FLAG_(vmodule);
LOGDRIVE_GLOG_FLAG_(minloglevel);
LOGDRIVE_GLOG_FLAG_(logtostderr);
LOGDRIVE_GLOG_FLAG_(alsologtostderr);
LOGDRIVE_GLOG_FLAG_(colorlogtostderr);
LOGDRIVE_GLOG_FLAG_(logtostdout);
LOGDRIVE_GLOG_FLAG_(colorlogtostdout);
LOGDRIVE_GLOG_FLAG_(stderrthreshold);
LOGDRIVE_GLOG_FLAG_(log_prefix);
LOGDRIVE_GLOG_FLAG_(log_year_in_prefix);
LOGDRIVE_GLOG_FLAG_(timestamp_in_logfile_name);
LOGDRIVE_GLOG_FLAG_(logbuflevel);
LOGDRIVE_GLOG_FLAG_(logbufsecs);
LOGDRIVE_GLOG_FLAG_(logfile_mode);
LOGDRIVE_GLOG_FLAG_(log_dir);
LOGDRIVE_GLOG_FLAG_(log_link);
LOGDRIVE_GLOG_FLAG_(max_log_size);
LOGDRIVE_GLOG_FLAG_(stop_logging_if_full_disk);
LOGDRIVE_GLOG_FLAG_(log_utc_time);
LOGDRIVE_GLOG_FLAG_(log_backtrace_at);
LOGDRIVE_GLOG_FLAG_(symbolize_stacktrace);
LOGDRIVE_GLOG_FLAG_(log_file_header);
LOGDRIVE_GLOG_FLAG_(drop_log_memory);
LOGDRIVE_GLOG_FLAG_(logcleansecs);
LOGDRIVE_GLOG_FLAG_(logemaillevel);
LOGDRIVE_GLOG_FLAG_(logmailer);
LOGDRIVE_GLOG_FLAG_(alsologtoemail);
LOGDRIVE_GLOG_FLAG_(logdrive_full);
LOGDRIVE_GLOG_FLAG_(logdrive_run_dir);
LOGDRIVE_GLOG_FLAG_(logdrive_ring_bytes);
}  // namespace logdrive_glog_flags
using namespace logdrive_glog_flags;

#endif
