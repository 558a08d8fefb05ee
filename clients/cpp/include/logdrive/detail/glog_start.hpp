// Start of the logger from the flags, and the effects of changed flags: for glog_state.hpp.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_START_HPP
#define LOGDRIVE_DETAIL_GLOG_START_HPP

#include <logdrive/detail/glog_cleaner.hpp>
#include <errno.h>
#include <new>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

LOGDRIVE_GLOG_FN_ State::State() {
    make_locks();
    read_environment();
    waits = logdrive_full == "block";
}

LOGDRIVE_GLOG_FN_ void State::make_locks() {
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &recursive);
    pthread_mutex_init(&sinks_mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

LOGDRIVE_GLOG_FN_ void State::read_environment() {
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
                  {"GLOG_symbolize_stacktrace", symbolize_stacktrace}, {"GLOG_log_file_header", log_file_header}};
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

// Has this module's word kept like the state's, until the module is unloaded. Its calls after that, in destructors of other
// statics, look at the state themselves.
struct ModuleInList {
    ModuleInList() {
        State &shared = *this_module.state;
        Lock lock(shared.mutex);
        this_module.next = shared.modules;
        shared.modules = &this_module;
        __atomic_store_n(&this_module.thinks, shared.thinks, __ATOMIC_RELAXED);
    }
    ~ModuleInList() {
        State &shared = *this_module.state;
        Lock lock(shared.mutex);
        for (Module **at = &shared.modules; *at != nullptr; at = &(*at)->next)
            if (*at == &this_module) {
                *at = this_module.next;
                break;
            }
        __atomic_store_n(&this_module.thinks, 1u, __ATOMIC_RELAXED);
    }
};

LOGDRIVE_GLOG_FN_ State *find_state() {
    // The first word is the state of the start: 0 not begun, 1 in progress, 2 done.
    struct Area {
        uint32_t made;
        alignas(16) char state[sizeof(State)];
    };
    char name[48];
    // The number rises when what lies there changes.
    snprintf(name, sizeof name, "google::logdrive_glog 5 %zu", sizeof(State));
    Area *area = static_cast<Area *>(logdrive_shared(name, sizeof(Area)));
    if (area == nullptr) abort();
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(&area->made, &expected, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        new (area->state) State();
        __atomic_store_n(&area->made, 2u, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&area->made, __ATOMIC_ACQUIRE) != 2) usleep(100);
    State *state = reinterpret_cast<State *>(area->state);
    __atomic_store_n(&this_module.state, state, __ATOMIC_RELEASE);
    static ModuleInList in_list;
    return state;
}

LOGDRIVE_GLOG_FN_ State &state_of_flags() { return state(); }

// The word that all calls read, computed from the flags.
LOGDRIVE_GLOG_FN_ void refresh_thinks(State &state) {
    const bool listened = state.has_sinks() || state.has_callback() || state.uses_loggers();
    state.waits = state.logdrive_full == "block";
    const bool echoes = state.waits && (state.is_console() || state.stderr_from() <= GLOG_INFO || state.flush_from() <= GLOG_INFO);
    const bool traces = !state.log_backtrace_at.empty();
    const bool thinks = traces || !state.running || state.waiting || state.minloglevel.value > 0 || listened || echoes;
    __atomic_store_n(&state.thinks, uint32_t(thinks), __ATOMIC_RELEASE);
    for (Module *module = state.modules; module != nullptr; module = module->next)
        __atomic_store_n(&module->thinks, uint32_t(thinks), __ATOMIC_RELAXED);
}

// Called when a flag has changed.
LOGDRIVE_GLOG_FN_ void changed(State &state, const void *flag) {
    Lock lock(state.mutex);
    refresh_thinks(state);
    read_vmodule(state);
    // Levels are no options of the running logger.
    if (flag == static_cast<const void *>(&state.v.value) || flag == static_cast<const void *>(&state.minloglevel.value)) return;
    if (state.running && !state.waiting) restart_if_changed(state);
}

// Not std::to_string(): it has a table that all modules share, for which a plug-in would never be unloaded.
LOGDRIVE_GLOG_FN_ std::string decimal(uint64 number) {
    char text[24];
    return std::string(text, size_t(snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(number))));
}

LOGDRIVE_GLOG_FN_ std::string host_name() {
    struct utsname name;
    return uname(&name) == 0 ? name.nodename : "(unknown)";
}

LOGDRIVE_GLOG_FN_ std::string user_name() {
    if (const char *user = getenv("USER")) return user;
    struct passwd entry, *found = nullptr;
    char buffer[1024];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr) return found->pw_name;
    return "invalid-user";
}

LOGDRIVE_GLOG_FN_ std::string directory(const State &state) {
    if (!state.log_dir.empty()) return state.log_dir;
    for (const char *name : {"TEST_TMPDIR", "TMPDIR", "TMP"}) {
        struct stat found;
        const char *dir = getenv(name);
        if (dir != nullptr && stat(dir, &found) == 0 && S_ISDIR(found.st_mode)) return dir;
    }
    return "/tmp";
}

LOGDRIVE_GLOG_FN_ std::string program_name(const State &state) { return state.program.empty() ? "UNKNOWN" : state.program; }

LOGDRIVE_GLOG_FN_ std::string time_text(const State &state, const char *format) {
    char text[64];
    const time_t now = time(nullptr);
    struct tm date;
    if (state.log_utc_time.value) gmtime_r(&now, &date);
    else localtime_r(&now, &date);
    return std::string(text, strftime(text, sizeof text, format, &date));
}

// `PROGRAM.HOST.USER.log.INFO.` or the base of SetLogDestination.
LOGDRIVE_GLOG_FN_ std::string file_base(const State &state, int severity) {
    if (state.chosen[severity]) return state.base[severity];
    return directory(state) + "/" + program_name(state) + "." + host_name() + "." + user_name() + ".log." +
           LogSeverityNames[severity] + ".";
}

// The base with time and process behind it.
LOGDRIVE_GLOG_FN_ std::string file_name(const State &state, int severity) {
    std::string name = file_base(state, severity);
    if (state.timestamp_in_logfile_name.value) name += state.name_time + "." + decimal(uint64(getpid()));
    return name + state.extension;
}

LOGDRIVE_GLOG_FN_ std::string file_header(const State &state) {
    return "Log file created at: " + time_text(state, "%Y/%m/%d %H:%M:%S") + "\nRunning on machine: " + host_name() +
           "\nRunning duration (h:mm:ss): 0:00:00\nLog line format: [IWEF]" +
           (state.log_year_in_prefix.value ? "yyyymmdd" : "mmdd") + " hh:mm:ss.uuuuuu threadid file:line] msg\n";
}

constexpr const char *const LEVELS[NUM_SEVERITIES] = {"info", "warn", "error", "fatal"};

// Records of the running log.
LOGDRIVE_GLOG_FN_ int64 committed() {
    logdrive_stats_t stats = {};
    return logdrive_stats(&stats) == LOGDRIVE_OK ? int64(stats.committed) : 0;
}

// Options as a list of words, so that two of them can be compared.
struct Settings {
    logdrive_options *options;
    std::string all;
    // The first option that was refused: its name and value, and what it may be. Its default holds instead.
    std::string refused;
    bool has_sink = false;
    explicit Settings(const char *app) : options(logdrive_options_new(app)) {}
    ~Settings() { logdrive_options_free(options); }
    void set(const char *key, const std::string &value) {
        check(logdrive_options_set(options, key, value.c_str()), key, value);
        all += std::string(key) + "=" + value + "\n";
    }
    void sink(const std::string &target) {
        has_sink = true;
        check(logdrive_options_add_sink(options, target.c_str()), "sink", target);
        all += target + "\n";
    }
    // Ignore what changes with time.
    void with(const char *key, const std::string &value, bool counts = true) {
        check(logdrive_options_set_sink(options, key, value.c_str()), key, value);
        if (counts) all += std::string(key) + "=" + value + "\n";
    }
    // Starts the logger of a state, or exchanges the one that runs. Errors go to standard error.
    void start(State &state) const {
        if (!refused.empty()) fprintf(stderr, "logdrive: cannot set %s\n", refused.c_str());
        if (state.running) state.committed_before += committed();
        const int code = state.running ? logdrive_restart(options) : logdrive_start(options);
        if (code != LOGDRIVE_OK && code != LOGDRIVE_ERROR_RUNNING)
            fprintf(stderr, "logdrive: cannot start logging: %s\n", logdrive_last_error());
        state.running = true;
    }

private:
    void check(int code, const char *key, const std::string &value) {
        if (code != LOGDRIVE_OK && refused.empty())
            refused = std::string(key) + " to \"" + value + "\": " + logdrive_last_error();
    }
};

// Targets of what is given to files as loggers.
constexpr const char *const LOGGER_TARGETS[NUM_SEVERITIES] = {"glog::INFO", "glog::WARNING", "glog::ERROR", "glog::FATAL"};

LOGDRIVE_GLOG_FN_ void add_console(Settings &settings, const char *target, const char *level,
                        const std::string &layout) {
    settings.sink(target);
    settings.with("layout", layout);
    settings.with("min_level", level);
    settings.with("flush_every", "10ms");
    for (const char *of_logger : LOGGER_TARGETS) settings.with("except", of_logger);
    settings.with("flush_level", "warn");
}

// A file whose place a logger of the program has taken gets the lines that are given to that logger, and no statements.
LOGDRIVE_GLOG_FN_ void select_lines(Settings &settings, const State &state, int severity) {
    if (!state.uses_loggers()) return;
    if (state.loggers[severity] != nullptr) return settings.with("only", LOGGER_TARGETS[severity]);
    for (int other = 0; other < NUM_SEVERITIES; ++other)
        if (other != severity) settings.with("except", LOGGER_TARGETS[other]);
}

LOGDRIVE_GLOG_FN_ void add_files(Settings &settings, State &state, const std::string &layout) {
    for (int severity = 0; severity < NUM_SEVERITIES; ++severity) {
        if (state.chosen[severity] && state.base[severity].empty()) continue;
        const std::string name = file_name(state, severity);
        settings.sink("file:" + name);
        settings.with("layout", layout);
        settings.with("min_level", LEVELS[severity]);
        select_lines(settings, state, severity);
        settings.with("open_late", "yes");
        settings.with("trust_directory", "yes");
        // Its time is no reason for another start.
        settings.all += state.log_file_header.value ? "header\n" : "";
        if (state.log_file_header.value) settings.with("header", file_header(state), false);
        char mode[16];
        snprintf(mode, sizeof mode, "%o", unsigned(state.logfile_mode.value | 0600) & 0777);
        settings.with("mode", mode);
        if (state.max_log_size.value > 0)
            settings.with("rotate_bytes", decimal(uint64(state.max_log_size.value) << 20));
        if (state.keep_seconds > 0) settings.with("keep_age", decimal(uint64(state.keep_seconds)) + "s");
        if (state.logbufsecs.value == 0) settings.with("flush_every", "1ms");
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

LOGDRIVE_GLOG_FN_ void fill(Settings &settings, State &state) {
    settings.set("full", state.logdrive_full);
    if (state.logdrive_full == "block") settings.set("overflow", "hold");
    if (!state.logdrive_run_dir.empty()) settings.set("run_dir", state.logdrive_run_dir);
    if (!state.logdrive_ring_bytes.empty()) settings.set("ring_bytes", state.logdrive_ring_bytes);
    settings.set("note_signals", "no");
    settings.set("terminal", "no");
    // A prefix of the program's own is a part of the message.
    const bool has_prefix = state.log_prefix.value && !state.has_prefix();
    std::string layout = has_prefix ? "glog-raw" : "pattern {raw_message}";
    if (has_prefix && !state.log_year_in_prefix.value)
        layout = "pattern {level:1}{time:%m%d %H:%M:%S.%6f} {thread_id:>5} {file}:{line}] {raw_message}";
    if (!state.log_utc_time.value) layout.insert(0, "local ");
    const int to_stderr = state.stderrthreshold.value;
    if (state.logdrive_full == "block" && state.is_console()) {
        // The calls write it. The records are for tools that watch the program.
        settings.sink("discard");
    } else if (!state.initialised || state.logtostderr.value) {
        add_console(settings, "stderr", "info", layout);
    } else if (state.logtostdout.value) {
        add_console(settings, "stdout", "info", layout);
    } else {
        add_files(settings, state, layout);
        const int from = state.alsologtostderr.value ? 0 : to_stderr < 0 ? 0 : to_stderr;
        if (from < NUM_SEVERITIES && state.logdrive_full != "block") add_console(settings, "stderr", LEVELS[from], layout);
        // Without files, the library would choose one.
        if (!settings.has_sink) settings.sink("discard");
    }
}

// Old files go when logging starts, and when files or the cleaner are set; those of this process by rotation, too.
LOGDRIVE_GLOG_FN_ void clean_old_files(const State &state) {
    if (state.keep_seconds < 0 || state.is_console() || !state.timestamp_in_logfile_name.value) return;
    for (int severity = 0; severity < NUM_SEVERITIES; ++severity)
        if (!state.chosen[severity] || !state.base[severity].empty())
            clean_files(file_base(state, severity), state.extension, state.keep_seconds, file_name(state, severity));
}

// Starts the logger from the flags, or exchanges it where they have changed. Callers hold the mutex.
LOGDRIVE_GLOG_FN_ void start_now(State &state) {
    if (state.name_time.empty()) state.name_time = time_text(state, "%Y%m%d-%H%M%S");
    const std::string app = state.program.empty() ? program_invocation_short_name : state.program;
    Settings settings(app.c_str());
    fill(settings, state);
    if (state.running && settings.all == state.started_with) return;
    settings.start(state);
    state.started_with = settings.all;
    clean_old_files(state);
}

// Before InitGoogleLogging, all goes to standard error.
LOGDRIVE_GLOG_FN_ void start_early(State &state) {
    Settings settings(program_invocation_short_name);
    settings.set("full", state.logdrive_full);
    if (!state.logdrive_run_dir.empty()) settings.set("run_dir", state.logdrive_run_dir);
    if (!state.logdrive_ring_bytes.empty()) settings.set("ring_bytes", state.logdrive_ring_bytes);
    settings.set("note_signals", "no");
    settings.set("terminal", "no");
    if (state.logdrive_full == "block") settings.sink("discard");
    else add_console(settings, "stderr", "info", state.log_utc_time.value ? "glog-raw" : "local glog-raw");
    settings.start(state);
}

LOGDRIVE_GLOG_FN_ void restart_if_changed(State &state) {
    Lock lock(state.mutex);
    if (state.running && state.starter != nullptr) state.starter(state);
}

// With the first call; and again after ShutdownGoogleLogging.
LOGDRIVE_GLOG_FN_ void start_if_needed(State &state) {
    if (__atomic_load_n(&state.thinks, __ATOMIC_ACQUIRE) == 0) return;
    Lock lock(state.mutex);
    if (state.waiting) {
        state.waiting = false;
        refresh_thinks(state);
        return restart_if_changed(state);
    }
    if (state.running) return;
    if (!state.initialised && !state.told_early && !state.logtostderr.value) {
        state.told_early = true;
        static const char text[] = "WARNING: Logging before InitGoogleLogging() is written to STDERR\n";
        fputs(text, stderr);
    }
    if (state.starter != nullptr) state.starter(state);
    else start_early(state);
    refresh_thinks(state);
}

// `*` and `?` as in file names.
LOGDRIVE_GLOG_FN_ bool matches(const char *pattern, const char *pattern_end, const char *text, const char *text_end) {
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

// The first pattern that fits.
LOGDRIVE_GLOG_FN_ const VModule *pattern_of(const State &state, std::string_view name) {
    for (const VModule &module : state.vmodules) {
        const char *pattern = module.pattern.c_str();
        if (matches(pattern, pattern + module.pattern.size(), name.data(), name.data() + name.size())) return &module;
    }
    return nullptr;
}

// A file's statements go by its name without directory and ending.
LOGDRIVE_GLOG_FN_ std::string_view module_of(const char *file) {
    const char *slash = strrchr(file, '/');
    const char *begin = slash == nullptr ? file : slash + 1;
    const char *dot = strchr(begin, '.');
    const char *end = dot == nullptr ? begin + strlen(begin) : dot;
    if (end - begin > 4 && memcmp(end - 4, "-inl", 4) == 0) end -= 4;
    return std::string_view(begin, size_t(end - begin));
}

LOGDRIVE_GLOG_FN_ void refresh_level(State &state, VSite &site) {
    if (site.of_pattern == nullptr) {
        const VModule *named = pattern_of(state, module_of(site.file));
        if (named != nullptr) site.of_pattern = named->level;
    }
    __atomic_store_n(&site.level, site.of_pattern != nullptr ? *site.of_pattern : state.v.value, __ATOMIC_RELAXED);
}

LOGDRIVE_GLOG_FN_ void refresh_levels(State &state) {
    for (VSites *module = state.vsites; module != nullptr; module = module->next)
        for (VSite *site = module->first; site != nullptr; site = site->next) refresh_level(state, *site);
}

// Reads --vmodule where it has changed, and gives each statement its level.
LOGDRIVE_GLOG_FN_ void read_vmodule(State &state) {
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
    // Levels added by SetVLOGLevel stay behind.
    fresh.insert(fresh.end(), state.vmodules.begin(), state.vmodules.end());
    state.vmodules.swap(fresh);
    for (VSites *module = state.vsites; module != nullptr; module = module->next)
        for (VSite *site = module->first; site != nullptr; site = site->next) site->of_pattern = nullptr;
    refresh_levels(state);
}

LOGDRIVE_GLOG_FN_ VSites::VSites() {
    State &shared = state();
    Lock lock(shared.mutex);
    next = shared.vsites;
    shared.vsites = this;
}
LOGDRIVE_GLOG_FN_ VSites::~VSites() {
    State &shared = state();
    Lock lock(shared.mutex);
    for (VSites **at = &shared.vsites; *at != nullptr; at = &(*at)->next)
        if (*at == this) {
            *at = next;
            break;
        }
}

LOGDRIVE_GLOG_FN_ bool VSite::find(const char *in_file, int verbose) {
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

}  // namespace logdrive_glog

LOGDRIVE_GLOG_API_ int SetVLOGLevel(const char *module_pattern, int log_level) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    internal::read_vmodule(state);
    int before = state.v.value;
    bool is_known = false;
    const char *const end = module_pattern + strlen(module_pattern);
    for (internal::VModule &module : state.vmodules) {
        const char *const pattern = module.pattern.c_str();
        const bool is_same = module.pattern == module_pattern;
        // As with glog, what another pattern names already has that one's level.
        if (!is_same && (is_known || !internal::matches(pattern, pattern + module.pattern.size(), module_pattern, end))) continue;
        if (!is_known) before = *module.level;
        is_known = true;
        if (is_same) __atomic_store_n(module.level, log_level, __ATOMIC_RELAXED);
    }
    if (!is_known) state.vmodules.insert(state.vmodules.begin(), {module_pattern, new int32(log_level)});
    internal::refresh_levels(state);
    return before;
}

}  // namespace google

#endif
