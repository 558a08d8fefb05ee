// The functions of glog that set up, flush and end logging, and the counters of LOG_EVERY_N and its like.
#ifndef LOGDRIVE_DETAIL_GLOG_CONTROL_HPP
#define LOGDRIVE_DETAIL_GLOG_CONTROL_HPP

#include <logdrive/detail/glog_message.hpp>

namespace google {
inline namespace logdrive_glog {

// The name of the program: files are named by it. Starts logging to files; before, all goes to standard error.
inline void InitGoogleLogging(const char *argv0) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.program = internal::base_name(argv0);
    state.initialised = true;
    if (state.running) internal::start_now(state);
    internal::changed(state);
}

inline bool IsGoogleLoggingInitialized() { return internal::state().initialised; }

// Brings everything to the files and ends logging. Calls behind it start it again, to standard error.
inline void ShutdownGoogleLogging() {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.initialised = false;
    state.told_early = true;
    if (state.running) logdrive_stop();
    state.running = false;
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
        if (state.logged[above]) return;
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
    }
    internal::changed(state);
}
inline void RemoveLogSink(LogSink *destination) {
    internal::State &state = internal::state();
    {
        internal::Lock lock(state.sinks_mutex);
        for (size_t i = state.sinks.size(); i-- > 0;)
            if (state.sinks[i] == destination) state.sinks.erase(state.sinks.begin() + std::ptrdiff_t(i));
    }
    internal::changed(state);
}

inline std::vector<std::string> GetLoggingDirectories() { return {internal::directory(internal::state())}; }
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

// With gflags: `LOGDRIVE_GLOG_DEFINE_GFLAGS();` in one file of the program makes the flags options of its command line.
#define LOGDRIVE_GLOG_REGISTER_(type, name)                                                                       \
    static ::GFLAGS_NAMESPACE::FlagRegisterer logdrive_flag_##name(#name, "as glog's flag", __FILE__,               \
                                                                   &FLAGS_##name.value, new type(FLAGS_##name.value))
#define LOGDRIVE_GLOG_REGISTER_TEXT_(name)                                                                          \
    static ::GFLAGS_NAMESPACE::FlagRegisterer logdrive_flag_##name(                                                 \
        #name, "as glog's flag", __FILE__, static_cast<std::string *>(&FLAGS_##name), new std::string(FLAGS_##name))
#define LOGDRIVE_GLOG_DEFINE_GFLAGS()                        \
    LOGDRIVE_GLOG_REGISTER_(::google::int32, v);             \
    LOGDRIVE_GLOG_REGISTER_(::google::int32, minloglevel);   \
    LOGDRIVE_GLOG_REGISTER_(::google::int32, stderrthreshold); \
    LOGDRIVE_GLOG_REGISTER_(::google::int32, logbuflevel);   \
    LOGDRIVE_GLOG_REGISTER_(::google::int32, logbufsecs);    \
    LOGDRIVE_GLOG_REGISTER_(::google::int32, logfile_mode);  \
    LOGDRIVE_GLOG_REGISTER_(::google::uint32, max_log_size); \
    LOGDRIVE_GLOG_REGISTER_(bool, logtostderr);              \
    LOGDRIVE_GLOG_REGISTER_(bool, alsologtostderr);          \
    LOGDRIVE_GLOG_REGISTER_(bool, colorlogtostderr);         \
    LOGDRIVE_GLOG_REGISTER_(bool, logtostdout);              \
    LOGDRIVE_GLOG_REGISTER_(bool, log_prefix);               \
    LOGDRIVE_GLOG_REGISTER_(bool, log_utc_time);             \
    LOGDRIVE_GLOG_REGISTER_(bool, stop_logging_if_full_disk); \
    LOGDRIVE_GLOG_REGISTER_TEXT_(log_dir);                   \
    LOGDRIVE_GLOG_REGISTER_TEXT_(log_link);                  \
    LOGDRIVE_GLOG_REGISTER_TEXT_(vmodule);                   \
    LOGDRIVE_GLOG_REGISTER_TEXT_(logdrive_full)

#endif
