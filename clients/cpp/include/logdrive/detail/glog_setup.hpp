// Implementation of the functions of glog_control.hpp.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_SETUP_HPP
#define LOGDRIVE_DETAIL_GLOG_SETUP_HPP

#include <logdrive/detail/glog_stack.hpp>
#include <logdrive/detail/glog_start.hpp>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

namespace google {
inline namespace logdrive_glog {

namespace internal LOGDRIVE_HIDDEN {
LOGDRIVE_GLOG_FN_ void pin_module(void *code) {
    Dl_info found;
    if (dladdr(code, &found) == 0 || found.dli_fname == nullptr) return;
    // The program itself has no such name, and stays anyway.
    if (void *module = dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) dlclose(module);
}

// A program that goes on in a child, such as a daemon, before it has logged anything: neither has a logger then, and the one
// that logs starts its own.
LOGDRIVE_GLOG_FN_ void before_fork() {
    State &shared = state();
    pthread_mutex_lock(&shared.sinks_mutex);
    pthread_mutex_lock(&shared.mutex);
    if (!shared.waiting) return;
    logdrive_stop();
    shared.running = shared.waiting = false;
    changed(shared);
}
LOGDRIVE_GLOG_FN_ void after_fork() {
    pthread_mutex_unlock(&state().mutex);
    pthread_mutex_unlock(&state().sinks_mutex);
}
// The child's thread has another number, so that it cannot give back what its parent has locked.
LOGDRIVE_GLOG_FN_ void after_fork_in_child() { state().make_locks(); }

LOGDRIVE_GLOG_FN_ void pin_prefixer(State &shared) {
    if (shared.prefixer == nullptr) pin_module(reinterpret_cast<void *>(&put_prefix));
    shared.prefixer = &put_prefix;
}

LOGDRIVE_GLOG_FN_ void watch_forks(State &shared) {
    if (shared.watches_forks) return;
    shared.watches_forks = true;
    pin_module(reinterpret_cast<void *>(&before_fork));
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
}  // namespace internal

}  // namespace logdrive_glog

LOGDRIVE_GLOG_API_ void InitGoogleLogging(const char *argv0) {
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
LOGDRIVE_GLOG_API_ void InitGoogleLogging(const char *argv0, CustomPrefixCallback prefix_callback, void *prefix_callback_data) {
    internal::State &state = internal::state();
    state.prefix_data = prefix_callback_data;
    internal::pin_prefixer(state);
    // Set before the first use.
    __atomic_store_n(&state.prefix, prefix_callback, __ATOMIC_RELEASE);
    InitGoogleLogging(argv0);
}

LOGDRIVE_GLOG_API_ void InstallPrefixFormatter(PrefixFormatterCallback callback, void *data) {
    internal::State &state = internal::state();
    state.prefix_data = data;
    internal::pin_prefixer(state);
    __atomic_store_n(&state.formatter, callback, __ATOMIC_RELEASE);
    internal::changed(state);
}

LOGDRIVE_GLOG_API_ bool IsGoogleLoggingInitialized() { return internal::state().initialised; }

LOGDRIVE_GLOG_API_ void ShutdownGoogleLogging() {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.initialised = false;
    state.told_early = true;
    if (state.running) {
        state.committed_before += internal::committed();
        logdrive_stop();
    }
    state.running = state.waiting = false;
    internal::end_loggers(state);
    internal::changed(state);
}

LOGDRIVE_GLOG_API_ void FlushLogFiles(LogSeverity severity) {
    internal::State &state = internal::state();
    if (state.uses_loggers()) internal::flush_loggers(state, severity);
    logdrive_flush();
}
LOGDRIVE_GLOG_API_ void FlushLogFilesUnsafe(LogSeverity) { internal::rescue_log(internal::state().rescue); }

LOGDRIVE_GLOG_API_ void SetLogDestination(LogSeverity severity, const char *base_filename) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.base[severity] = base_filename;
    state.chosen[severity] = true;
    internal::changed(state);
}
LOGDRIVE_GLOG_API_ void SetLogSymlink(LogSeverity severity, const char *symlink_basename) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.symlink[severity] = symlink_basename;
    state.linked[severity] = true;
    // A file that is open keeps its link, as with glog.
    for (int above = severity; above < NUM_SEVERITIES; ++above)
        if (__atomic_load_n(&state.logged[above], __ATOMIC_RELAXED)) return;
    internal::changed(state);
}
LOGDRIVE_GLOG_API_ void SetLogFilenameExtension(const char *filename_extension) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    state.extension = filename_extension;
    internal::changed(state);
}
LOGDRIVE_GLOG_API_ void SetStderrLogging(LogSeverity min_severity) { FLAGS_stderrthreshold = min_severity; }
LOGDRIVE_GLOG_API_ void LogToStderr() {
    SetStderrLogging(0);
    for (int severity = 0; severity < NUM_SEVERITIES; ++severity) SetLogDestination(severity, "");
}

LOGDRIVE_GLOG_API_ void AddLogSink(LogSink *destination) {
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
LOGDRIVE_GLOG_API_ void RemoveLogSink(LogSink *destination) {
    internal::State &state = internal::state();
    {
        internal::Lock lock(state.sinks_mutex);
        for (size_t i = state.sinks.size(); i-- > 0;)
            if (state.sinks[i] == destination) state.sinks.erase(state.sinks.begin() + std::ptrdiff_t(i));
        __atomic_store_n(&state.sink_count, state.sinks.size(), __ATOMIC_RELEASE);
    }
    internal::changed(state);
}

LOGDRIVE_GLOG_API_ const std::vector<std::string> &GetLoggingDirectories() {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    if (state.directories.empty()) state.directories.push_back(internal::directory(state));
    return state.directories;
}
LOGDRIVE_GLOG_API_ void TestOnly_ClearLoggingDirectoriesList() { internal::state().directories.clear(); }
LOGDRIVE_GLOG_API_ void GetExistingTempDirectories(std::vector<std::string> *list) { *list = GetLoggingDirectories(); }

LOGDRIVE_GLOG_API_ void ReprintFatalMessage() {
    const internal::State &state = internal::state();
    if (state.fatal_message[0] == 0) return;
    internal::write_to_stderr(state.fatal_message, strlen(state.fatal_message));
    internal::write_to_stderr("\n", 1);
}

inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {
LOGDRIVE_GLOG_FN_ void set_cleaner(int64 keep_seconds) {
    State &shared = state();
    Lock lock(shared.mutex);
    shared.keep_seconds = keep_seconds;
    changed(shared);
    if (shared.running && !shared.waiting) clean_old_files(shared);
}
}  // namespace internal
}  // namespace logdrive_glog

LOGDRIVE_GLOG_API_ void EnableLogCleaner(unsigned int overdue_days) { internal::set_cleaner(int64(overdue_days) * 24 * 60 * 60); }
LOGDRIVE_GLOG_API_ void EnableLogCleaner(const std::chrono::minutes &overdue) {
    internal::set_cleaner(overdue.count() < 0 ? 0 : int64(overdue.count()) * 60);
}
LOGDRIVE_GLOG_API_ void DisableLogCleaner() { internal::set_cleaner(-1); }

}  // namespace google

#endif
