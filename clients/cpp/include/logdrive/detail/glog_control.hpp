// The functions of glog that set up, flush and end logging, and the counters of LOG_EVERY_N and its like.
#ifndef LOGDRIVE_DETAIL_GLOG_CONTROL_HPP
#define LOGDRIVE_DETAIL_GLOG_CONTROL_HPP

#include <logdrive/detail/glog_message.hpp>

namespace google {
inline namespace logdrive_glog {

namespace internal LOGDRIVE_HIDDEN {
// A module whose code all others use from now on stays.
inline void pin_module(void *code) {
    Dl_info found;
    if (dladdr(code, &found) == 0 || found.dli_fname == nullptr) return;
    // The program itself has no such name, and stays anyway.
    if (void *module = dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) dlclose(module);
}

// A program that goes on in a child, such as a daemon, before it has logged anything: neither has a logger then, and the one
// that logs starts its own.
inline void before_fork() {
    State &shared = state();
    pthread_mutex_lock(&shared.sinks_mutex);
    pthread_mutex_lock(&shared.mutex);
    if (!shared.waiting) return;
    logdrive_stop();
    shared.running = shared.waiting = false;
    changed(shared);
}
inline void after_fork() {
    pthread_mutex_unlock(&state().mutex);
    pthread_mutex_unlock(&state().sinks_mutex);
}
// The child's thread has another number, so that it cannot give back what its parent has locked.
inline void after_fork_in_child() { state().make_locks(); }

inline void watch_forks(State &shared) {
    if (shared.watches_forks) return;
    shared.watches_forks = true;
    pin_module(reinterpret_cast<void *>(&before_fork));
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
}  // namespace internal

// The name of the program: files are named by it. Starts logging to files; before, all goes to standard error.
inline void InitGoogleLogging(const char *argv0) {
    const int kept = errno;
    internal::State &state = internal::state();
    if (state.adopt != nullptr) state.adopt();
    internal::Lock lock(state.mutex);
    internal::watch_forks(state);
    state.program = internal::base_name(argv0);
    state.initialised = true;
    if (state.starter == nullptr) internal::pin_module(reinterpret_cast<void *>(&internal::start_now));
    state.starter = &internal::start_now;
    if (!state.running) state.waiting = true;
    internal::start_now(state);
    internal::changed(state);
    errno = kept;
}
// Lines begin with what `prefix_callback` puts, at the call and in its thread; each statement then costs what a stream costs.
inline void InitGoogleLogging(const char *argv0, CustomPrefixCallback prefix_callback, void *prefix_callback_data = nullptr) {
    internal::State &state = internal::state();
    state.prefix_data = prefix_callback_data;
    __atomic_store_n(&state.prefix, prefix_callback, __ATOMIC_RELEASE);
    InitGoogleLogging(argv0);
}

inline bool IsGoogleLoggingInitialized() { return internal::state().initialised; }

// Brings everything to the files and ends logging. Calls behind it start it again, to standard error.
inline void ShutdownGoogleLogging() {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.initialised = false;
    state.told_early = true;
    if (state.running) logdrive_stop();
    state.running = state.waiting = false;
    internal::changed(state);
}

// Everything is flushed, whatever its severity. Returns when it is with the kernel.
inline void FlushLogFiles(LogSeverity) { logdrive_flush(); }
inline void FlushLogFilesUnsafe(LogSeverity) { internal::rescue_log(internal::state().rescue); }

inline void SetLogDestination(LogSeverity severity, const char *base_filename) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.base[severity] = base_filename;
    state.chosen[severity] = true;
    internal::changed(state);
}
inline void SetLogSymlink(LogSeverity severity, const char *symlink_basename) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.symlink[severity] = symlink_basename;
    state.linked[severity] = true;
    // A file that is open keeps its link, as with glog.
    for (int above = severity; above < NUM_SEVERITIES; ++above)
        if (__atomic_load_n(&state.logged[above], __ATOMIC_RELAXED)) return;
    internal::changed(state);
}
inline void SetLogFilenameExtension(const char *filename_extension) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.extension = filename_extension;
    internal::changed(state);
}
inline void SetStderrLogging(LogSeverity min_severity) { FLAGS_stderrthreshold = min_severity; }
inline void LogToStderr() {
    FLAGS_logtostderr = true;
}
inline void SetApplicationFingerprint(const std::string &) {}

inline void AddLogSink(LogSink *destination) {
    internal::State &state = internal::state();
    {
        internal::Lock lock(state.sinks_mutex);
        state.sinks.push_back(destination);
        if (state.sender == nullptr) internal::pin_module(reinterpret_cast<void *>(&internal::send_now));
        state.sender = &internal::send_now;
        __atomic_store_n(&state.sink_count, state.sinks.size(), __ATOMIC_RELEASE);
    }
    internal::changed(state);
}
inline void RemoveLogSink(LogSink *destination) {
    internal::State &state = internal::state();
    {
        internal::Lock lock(state.sinks_mutex);
        for (size_t i = state.sinks.size(); i-- > 0;)
            if (state.sinks[i] == destination) state.sinks.erase(state.sinks.begin() + std::ptrdiff_t(i));
        __atomic_store_n(&state.sink_count, state.sinks.size(), __ATOMIC_RELEASE);
    }
    internal::changed(state);
}

// Where files go without a destination of their own. Made anew by TestOnly_ClearLoggingDirectoriesList().
inline const std::vector<std::string> &GetLoggingDirectories() {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    if (state.directories.empty()) state.directories.push_back(internal::directory(state));
    return state.directories;
}
inline void TestOnly_ClearLoggingDirectoriesList() { internal::state().directories.clear(); }
inline void GetExistingTempDirectories(std::vector<std::string> *list) { *list = GetLoggingDirectories(); }

inline void ReprintFatalMessage() {
    const internal::State &state = internal::state();
    if (state.fatal_message[0] == 0) return;
    internal::write_to_stderr(state.fatal_message, strlen(state.fatal_message));
    internal::write_to_stderr("\n", 1);
}

// Rotated files are removed once they are so old; the running logger keeps its own rules until it is started again.
inline void EnableLogCleaner(unsigned int overdue_days) {
    internal::state().keep_days = overdue_days;
    internal::changed(internal::state());
}
inline void DisableLogCleaner() { EnableLogCleaner(0); }

namespace internal LOGDRIVE_HIDDEN {

// Calls of one statement, counted as glog counts them.
struct Occurrences {
    int occurrences = 0;
    int modulo = 0;
    int64 last_ns = 0;

    int count() const { return __atomic_load_n(&occurrences, __ATOMIC_RELAXED); }
    bool every(int n) {
        __atomic_add_fetch(&occurrences, 1, __ATOMIC_RELAXED);
        if (__atomic_add_fetch(&modulo, 1, __ATOMIC_RELAXED) > n) __atomic_sub_fetch(&modulo, n, __ATOMIC_RELAXED);
        return __atomic_load_n(&modulo, __ATOMIC_RELAXED) == 1;
    }
    bool every_if(bool condition, int n) {
        __atomic_add_fetch(&occurrences, 1, __ATOMIC_RELAXED);
        if (!condition) return false;
        if (__atomic_add_fetch(&modulo, 1, __ATOMIC_RELAXED) >= n) __atomic_sub_fetch(&modulo, n, __ATOMIC_RELAXED);
        return __atomic_load_n(&modulo, __ATOMIC_RELAXED) == 1 % n;
    }
    bool first(int n) {
        if (count() <= n) __atomic_add_fetch(&occurrences, 1, __ATOMIC_RELAXED);
        return count() <= n;
    }
    bool every_seconds(double seconds) {
        const int64 now = int64(::logdrive::detail::monotonic_ns());
        const int64 last = __atomic_load_n(&last_ns, __ATOMIC_RELAXED);
        if (double(now - last) <= seconds * 1e9) return false;
        __atomic_store_n(&last_ns, now, __ATOMIC_RELAXED);
        return true;
    }
};

}  // namespace internal
}  // namespace logdrive_glog
}  // namespace google

#endif
