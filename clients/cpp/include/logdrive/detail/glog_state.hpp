// What the glog facade keeps once for a process: flags, destinations, sinks, verbose levels; and how a logger is started
// from them. It lies in memory that all modules share, so that a plug-in sets the same flags as the program.
#ifndef LOGDRIVE_DETAIL_GLOG_STATE_HPP
#define LOGDRIVE_DETAIL_GLOG_STATE_HPP

#include <logdrive/detail/site.hpp>
#include <errno.h>
#include <iosfwd>
#include <new>
#include <pthread.h>
#include <pwd.h>
#include <string>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <vector>

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

class LogSink;
struct LogMessageInfo;
typedef void (*CustomPrefixCallback)(std::ostream &s, const LogMessageInfo &l, void *data);

typedef void (*logging_fail_func_t)() __attribute__((noreturn));

namespace internal LOGDRIVE_HIDDEN {

struct State;
inline void changed(State &state);
inline void restart_if_changed(State &state);
inline void read_vmodule(State &state);
inline State &state();

// A flag that tells when it is set, so that what depends on it is made anew.
template <class T> struct Flag {
    T value;
    operator const T &() const { return value; }
    Flag &operator=(const T &fresh) {
        T copy = fresh;
        __atomic_store(&value, &copy, __ATOMIC_RELAXED);
        changed(state());
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

class Lock {
public:
    explicit Lock(pthread_mutex_t &mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
    ~Lock() { pthread_mutex_unlock(&mutex_); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

private:
    pthread_mutex_t &mutex_;
};

struct State {
    // Whether a call has more to do than to write its record: read by every call.
    uint32_t thinks = 1;
    Flag<int32> v{0};
    Flag<int32> minloglevel{0};
    Flag<bool> logtostderr{false}, alsologtostderr{false}, colorlogtostderr{false}, logtostdout{false},
        colorlogtostdout{false}, log_prefix{true}, log_year_in_prefix{true}, timestamp_in_logfile_name{true},
        stop_logging_if_full_disk{false}, log_utc_time{false}, symbolize_stacktrace{true};
    Flag<int32> stderrthreshold{GLOG_ERROR}, logbuflevel{0}, logbufsecs{30}, logfile_mode{0664};
    Flag<uint32> max_log_size{1800};
    StringFlag log_dir, log_link, vmodule, log_backtrace_at;
    StringFlag logdrive_full{"wait"}, logdrive_run_dir, logdrive_ring_bytes;

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
    // As set by SetLogDestination; `chosen` says whether it was.
    std::string base[NUM_SEVERITIES], symlink[NUM_SEVERITIES];
    bool chosen[NUM_SEVERITIES] = {}, linked[NUM_SEVERITIES] = {};
    // What the running logger was started with, and the part of file names that stays for the process.
    std::string started_with, name_time;
    std::vector<std::string> directories;
    std::vector<VModule> vmodules;
    std::string vmodules_of;
    VSites *vsites = nullptr;
    // Of `sinks_mutex`; whether there are any can be read without it.
    std::vector<LogSink *> sinks;
    size_t sink_count = 0;
    // Makes the front of a line, in the thread that logs.
    CustomPrefixCallback prefix = nullptr;
    void *prefix_data = nullptr;
    int64 messages[NUM_SEVERITIES] = {};
    // Whether a statement of this severity has been reached, so that files may be open.
    bool logged[NUM_SEVERITIES] = {};
    logging_fail_func_t fail = nullptr;
    void (*failure_writer)(const char *, size_t) = nullptr;
    bool failure_handler = false;
    unsigned keep_days = 0;
    bool told_early = false;
    int rescue = -1;
    char fatal_message[256] = {};

    bool has_sinks() const { return __atomic_load_n(&sink_count, __ATOMIC_ACQUIRE) != 0; }
    bool has_prefix() const { return __atomic_load_n(&prefix, __ATOMIC_ACQUIRE) != nullptr && log_prefix.value; }
    int32 least_severity() const { return __atomic_load_n(&minloglevel.value, __ATOMIC_RELAXED); }
    void count(int severity) { __atomic_fetch_add(&messages[severity], 1, __ATOMIC_RELAXED); }
    int64 counted(int severity) const { return __atomic_load_n(&messages[severity], __ATOMIC_RELAXED); }
    void note_logged(int severity) { __atomic_store_n(&logged[severity], true, __ATOMIC_RELAXED); }

    State() {
        make_locks();
        read_environment();
    }

    void make_locks() {
        pthread_mutexattr_t recursive;
        pthread_mutexattr_init(&recursive);
        pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&mutex, &recursive);
        pthread_mutex_init(&sinks_mutex, &recursive);
        pthread_mutexattr_destroy(&recursive);
    }

    // The environment sets the defaults of flags, as with glog.
    void read_environment() {
        const struct {
            const char *name;
            Flag<int32> &flag;
        } numbers[] = {{"GLOG_v", v}, {"GLOG_minloglevel", minloglevel}, {"GLOG_stderrthreshold", stderrthreshold},
                       {"GLOG_logbuflevel", logbuflevel}, {"GLOG_logbufsecs", logbufsecs},
                       {"GLOG_logfile_mode", logfile_mode}};
        for (const auto &number : numbers)
            if (const char *text = getenv(number.name)) number.flag.value = int32(strtol(text, nullptr, 0));
        if (const char *size = getenv("GLOG_max_log_size")) max_log_size.value = uint32(strtoul(size, nullptr, 0));
        const struct {
            const char *name;
            Flag<bool> &flag;
        } truths[] = {{"GLOG_logtostderr", logtostderr}, {"GLOG_logtostdout", logtostdout},
                      {"GLOG_alsologtostderr", alsologtostderr}, {"GLOG_colorlogtostderr", colorlogtostderr},
                      {"GLOG_colorlogtostdout", colorlogtostdout}, {"GLOG_log_prefix", log_prefix},
                      {"GLOG_log_year_in_prefix", log_year_in_prefix},
                      {"GLOG_timestamp_in_logfile_name", timestamp_in_logfile_name},
                      {"GLOG_stop_logging_if_full_disk", stop_logging_if_full_disk}, {"GLOG_log_utc_time", log_utc_time},
                      {"GLOG_symbolize_stacktrace", symbolize_stacktrace}};
        for (const auto &truth : truths)
            if (const char *text = getenv(truth.name)) truth.flag.value = *text == 0 || memchr("tTyY1", *text, 5) != nullptr;
        const struct {
            const char *name;
            StringFlag &flag;
        } texts[] = {{"TEST_TMPDIR", log_dir}, {"GOOGLE_LOG_DIR", log_dir}, {"GLOG_log_dir", log_dir},
                     {"GLOG_log_link", log_link}, {"GLOG_log_backtrace_at", log_backtrace_at}, {"GLOG_vmodule", vmodule},
                     {"GLOG_logdrive_full", logdrive_full}, {"GLOG_logdrive_run_dir", logdrive_run_dir},
                     {"GLOG_logdrive_ring_bytes", logdrive_ring_bytes}};
        for (const auto &text : texts)
            if (const char *found = getenv(text.name)) text.flag.assign(found);
    }
};

// The state of this module, once it is known.
inline State *known_state = nullptr;

LOGDRIVE_COLD inline State *find_state() {
    // The first word says how far it is: 0 nobody, 1 somebody makes it, 2 made.
    struct Area {
        uint32_t made;
        alignas(16) char state[sizeof(State)];
    };
    char name[48];
    // The number rises when what lies there changes.
    snprintf(name, sizeof name, "google::logdrive_glog 2 %zu", sizeof(State));
    Area *area = static_cast<Area *>(logdrive_shared(name, sizeof(Area)));
    if (area == nullptr) abort();
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(&area->made, &expected, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        new (area->state) State();
        __atomic_store_n(&area->made, 2u, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&area->made, __ATOMIC_ACQUIRE) != 2) usleep(100);
    State *state = reinterpret_cast<State *>(area->state);
    __atomic_store_n(&known_state, state, __ATOMIC_RELEASE);
    return state;
}

inline State &state() {
    State *state = __atomic_load_n(&known_state, __ATOMIC_ACQUIRE);
    return LOGDRIVE_LIKELY(state != nullptr) ? *state : *find_state();
}

// The same for the flags of a file. It always gives the same, so that what is not used need not be initialised.
__attribute__((const, noinline)) inline State &state_of_flags() { return state(); }

// What the calls read, made of the flags.
inline void changed(State &state) {
    Lock lock(state.mutex);
    const bool listened = state.has_sinks() || state.has_prefix();
    const bool thinks = !state.running || state.waiting || state.minloglevel.value > 0 || listened;
    __atomic_store_n(&state.thinks, uint32_t(thinks), __ATOMIC_RELEASE);
    read_vmodule(state);
    if (state.running && !state.waiting) restart_if_changed(state);
}

inline std::string host_name() {
    struct utsname name;
    return uname(&name) == 0 ? name.nodename : "(unknown)";
}

inline std::string user_name() {
    if (const char *user = getenv("USER")) return user;
    struct passwd entry, *found = nullptr;
    char buffer[1024];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr) return found->pw_name;
    return "invalid-user";
}

inline std::string directory(const State &state) {
    if (!state.log_dir.empty()) return state.log_dir;
    for (const char *name : {"TEST_TMPDIR", "TMPDIR", "TMP"}) {
        struct stat found;
        const char *dir = getenv(name);
        if (dir != nullptr && stat(dir, &found) == 0 && S_ISDIR(found.st_mode)) return dir;
    }
    return "/tmp";
}

inline std::string program_name(const State &state) { return state.program.empty() ? "UNKNOWN" : state.program; }

inline std::string time_text(const State &state, const char *format) {
    char text[64];
    const time_t now = time(nullptr);
    struct tm date;
    if (state.log_utc_time.value) gmtime_r(&now, &date);
    else localtime_r(&now, &date);
    return std::string(text, strftime(text, sizeof text, format, &date));
}

// `PROGRAM.HOST.USER.log.INFO.` or what SetLogDestination said, with time and process behind it.
inline std::string file_name(const State &state, int severity) {
    std::string name = state.chosen[severity] ? state.base[severity]
                                              : directory(state) + "/" + program_name(state) + "." + host_name() + "." +
                                                    user_name() + ".log." + LogSeverityNames[severity] + ".";
    name += state.extension;
    if (state.timestamp_in_logfile_name.value) name += state.name_time + "." + std::to_string(getpid());
    return name;
}

inline std::string file_header(const State &state) {
    return "Log file created at: " + time_text(state, "%Y/%m/%d %H:%M:%S") + "\nRunning on machine: " + host_name() +
           "\nRunning duration (h:mm:ss): 0:00:00\nLog line format: [IWEF]" +
           (state.log_year_in_prefix.value ? "yyyymmdd" : "mmdd") + " hh:mm:ss.uuuuuu threadid file:line] msg\n";
}

constexpr const char *LEVELS[NUM_SEVERITIES] = {"info", "warn", "error", "fatal"};

// Options as a list of words, so that two of them can be compared.
struct Settings {
    logdrive_options *options;
    std::string all;
    explicit Settings(const char *app) : options(logdrive_options_new(app)) {}
    ~Settings() { logdrive_options_free(options); }
    void set(const char *key, const std::string &value) {
        logdrive_options_set(options, key, value.c_str());
        all += std::string(key) + "=" + value + "\n";
    }
    void sink(const std::string &target) {
        logdrive_options_add_sink(options, target.c_str());
        all += target + "\n";
    }
    // What changes with the time must not make a difference.
    void with(const char *key, const std::string &value, bool counts = true) {
        logdrive_options_set_sink(options, key, value.c_str());
        if (counts) all += std::string(key) + "=" + value + "\n";
    }
};

inline void add_console(Settings &settings, const char *target, const char *level,
                        const std::string &layout) {
    settings.sink(target);
    settings.with("layout", layout);
    settings.with("min_level", level);
    settings.with("flush_every_ms", "10");
    settings.with("flush_level", "warn");
}

inline void add_files(Settings &settings, State &state, const std::string &layout) {
    for (int severity = 0; severity < NUM_SEVERITIES; ++severity) {
        if (state.chosen[severity] && state.base[severity].empty()) continue;
        const std::string name = file_name(state, severity);
        settings.sink("file:" + name);
        settings.with("layout", layout);
        settings.with("min_level", LEVELS[severity]);
        settings.with("open_late", "yes");
        settings.with("trust_directory", "yes");
        settings.with("header", file_header(state), false);
        char mode[16];
        snprintf(mode, sizeof mode, "%o", unsigned(state.logfile_mode.value | 0600) & 0777);
        settings.with("mode", mode);
        if (state.max_log_size.value > 0)
            settings.with("rotate_bytes", std::to_string(uint64(state.max_log_size.value) << 20));
        if (state.keep_days > 0) settings.with("keep_age_s", std::to_string(uint64(state.keep_days) * 86400));
        if (state.logbufsecs.value == 0) settings.with("flush_every_ms", "1");
        settings.with("flush_level", "warn");
        const std::string link = state.linked[severity] ? state.symlink[severity] : program_name(state);
        if (!link.empty()) {
            const size_t slash = name.rfind('/');
            const std::string dir = state.log_link.empty()
                                        ? (slash == std::string::npos ? "." : name.substr(0, slash))
                                        : std::string(state.log_link);
            settings.with("newest_link", dir + "/" + link + "." + LogSeverityNames[severity]);
        }
        if (severity == 0 && state.logbuflevel.value < 0) settings.with("flush_level", "info");
    }
}

inline void fill(Settings &settings, State &state) {
    settings.set("full", state.logdrive_full);
    if (state.logdrive_full == "block") settings.set("overflow", "hold");
    if (!state.logdrive_run_dir.empty()) settings.set("run_dir", state.logdrive_run_dir);
    if (!state.logdrive_ring_bytes.empty()) settings.set("ring_bytes", state.logdrive_ring_bytes);
    settings.set("note_signals", "no");
    // A prefix of the program's own is a part of the message.
    const bool has_prefix = state.log_prefix.value && state.prefix == nullptr;
    std::string layout = has_prefix ? "glog-raw" : "pattern {raw_message}";
    if (has_prefix && !state.log_year_in_prefix.value)
        layout = "pattern {level:1}{time:%m%d %H:%M:%S.%6f} {thread_id:>5} {file}:{line}] {raw_message}";
    if (!state.log_utc_time.value) layout.insert(0, "local ");
    const int to_stderr = state.stderrthreshold.value;
    if (!state.initialised || state.logtostderr.value) {
        add_console(settings, "stderr", "info", layout);
    } else if (state.logtostdout.value) {
        add_console(settings, "stdout", "info", layout);
    } else {
        add_files(settings, state, layout);
        const int from = state.alsologtostderr.value ? 0 : to_stderr < 0 ? 0 : to_stderr;
        if (from < NUM_SEVERITIES) add_console(settings, "stderr", LEVELS[from], layout);
    }
}

// Starts the logger from the flags, or exchanges it where they have changed. Callers hold the mutex.
inline void start_now(State &state) {
    if (state.name_time.empty()) state.name_time = time_text(state, "%Y%m%d-%H%M%S");
    const std::string app = state.program.empty() ? program_invocation_short_name : state.program;
    Settings settings(app.c_str());
    fill(settings, state);
    if (state.running && settings.all == state.started_with) return;
    const int code = state.running ? logdrive_restart(settings.options) : logdrive_start(settings.options);
    if (code != LOGDRIVE_OK && code != LOGDRIVE_ERROR_RUNNING)
        fprintf(stderr, "logdrive: cannot start logging: %s\n", logdrive_last_error());
    state.running = true;
    state.started_with = settings.all;
}

// Before InitGoogleLogging, all goes to standard error.
LOGDRIVE_COLD inline void start_early(State &state) {
    logdrive_options *options = logdrive_options_new(program_invocation_short_name);
    logdrive_options_set(options, "full", state.logdrive_full.c_str());
    if (!state.logdrive_run_dir.empty()) logdrive_options_set(options, "run_dir", state.logdrive_run_dir.c_str());
    logdrive_options_set(options, "note_signals", "no");
    logdrive_options_add_sink(options, "stderr");
    logdrive_options_set_sink(options, "layout", state.log_utc_time.value ? "glog-raw" : "local glog-raw");
    logdrive_options_set_sink(options, "flush_every_ms", "10");
    logdrive_options_set_sink(options, "flush_level", "warn");
    const int code = state.running ? logdrive_restart(options) : logdrive_start(options);
    if (code != LOGDRIVE_OK && code != LOGDRIVE_ERROR_RUNNING)
        fprintf(stderr, "logdrive: cannot start logging: %s\n", logdrive_last_error());
    logdrive_options_free(options);
    state.running = true;
}

inline void restart_if_changed(State &state) {
    Lock lock(state.mutex);
    if (state.running && state.starter != nullptr) state.starter(state);
}

// With the first call; and again after ShutdownGoogleLogging.
LOGDRIVE_COLD inline void start_if_needed(State &state) {
    if (__atomic_load_n(&state.thinks, __ATOMIC_ACQUIRE) == 0) return;
    Lock lock(state.mutex);
    if (state.waiting) {
        state.waiting = false;
        return changed(state);
    }
    if (state.running) return;
    if (!state.initialised && !state.told_early && !state.logtostderr.value) {
        state.told_early = true;
        static const char text[] = "WARNING: Logging before InitGoogleLogging() is written to STDERR\n";
        fputs(text, stderr);
    }
    if (state.starter != nullptr) state.starter(state);
    else start_early(state);
    changed(state);
}

// `*` and `?` as in file names.
inline bool matches(const char *pattern, const char *pattern_end, const char *text, const char *text_end) {
    while (pattern != pattern_end) {
        if (*pattern == '*') {
            for (const char *rest = text; rest <= text_end; ++rest)
                if (matches(pattern + 1, pattern_end, rest, text_end)) return true;
            return false;
        }
        if (text == text_end || (*pattern != '?' && *pattern != *text)) return false;
        ++pattern, ++text;
    }
    return text == text_end;
}

// The level of the first pattern that fits, else FLAGS_v.
inline const int32 *level_of(State &state, const std::string &name) {
    for (const VModule &module : state.vmodules) {
        const char *pattern = module.pattern.c_str();
        if (matches(pattern, pattern + module.pattern.size(), name.data(), name.data() + name.size())) return module.level;
    }
    return &state.v.value;
}

// A file's statements go by its name without directory and ending.
inline std::string module_of(const char *file) {
    const char *slash = strrchr(file, '/');
    const char *begin = slash == nullptr ? file : slash + 1;
    const char *dot = strchr(begin, '.');
    const char *end = dot == nullptr ? begin + strlen(begin) : dot;
    if (end - begin > 4 && memcmp(end - 4, "-inl", 4) == 0) end -= 4;
    return std::string(begin, end);
}

inline void refresh_level(State &state, VSite &site) {
    __atomic_store_n(&site.level, *level_of(state, module_of(site.file)), __ATOMIC_RELAXED);
}

inline void refresh_levels(State &state) {
    for (VSites *module = state.vsites; module != nullptr; module = module->next)
        for (VSite *site = module->first; site != nullptr; site = site->next) refresh_level(state, *site);
}

// Reads --vmodule where it has changed, and gives each statement its level.
inline void read_vmodule(State &state) {
    Lock lock(state.mutex);
    if (state.vmodules_of == state.vmodule) return refresh_levels(state);
    state.vmodules_of = state.vmodule;
    std::vector<VModule> fresh;
    const char *at = state.vmodules_of.c_str();
    while (const char *equals = strchr(at, '=')) {
        fresh.push_back({std::string(at, equals), new int32(int32(atoi(equals + 1)))});
        const char *comma = strchr(equals, ',');
        if (comma == nullptr) break;
        at = comma + 1;
    }
    // What SetVLOGLevel has added stays behind.
    fresh.insert(fresh.end(), state.vmodules.begin(), state.vmodules.end());
    state.vmodules.swap(fresh);
    refresh_levels(state);
}

inline VSites::VSites() {
    State &shared = state();
    Lock lock(shared.mutex);
    next = shared.vsites;
    shared.vsites = this;
}
inline VSites::~VSites() {
    State &shared = state();
    Lock lock(shared.mutex);
    for (VSites **at = &shared.vsites; *at != nullptr; at = &(*at)->next)
        if (*at == this) {
            *at = next;
            break;
        }
}

LOGDRIVE_COLD inline bool VSite::find(const char *in_file, int verbose) {
    State &shared = state();
    Lock lock(shared.mutex);
    static VSites sites;
    if (file == nullptr) {
        file = in_file;
        next = sites.first;
        sites.first = this;
        read_vmodule(shared);
        refresh_level(shared, *this);
    }
    return level >= verbose;
}

}  // namespace internal

inline int SetVLOGLevel(const char *module_pattern, int log_level) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    internal::read_vmodule(state);
    int before = state.v.value;
    bool is_known = false;
    for (internal::VModule &module : state.vmodules)
        if (module.pattern == module_pattern) {
            if (!is_known) before = *module.level;
            is_known = true;
            __atomic_store_n(module.level, log_level, __ATOMIC_RELAXED);
        }
    if (!is_known) state.vmodules.push_back({module_pattern, new int32(log_level)});
    internal::refresh_levels(state);
    return before;
}

}  // namespace logdrive_glog
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
LOGDRIVE_GLOG_FLAG_(logdrive_full);
LOGDRIVE_GLOG_FLAG_(logdrive_run_dir);
LOGDRIVE_GLOG_FLAG_(logdrive_ring_bytes);
}  // namespace logdrive_glog_flags
using namespace logdrive_glog_flags;

#endif
