// The functions of glog that set up, flush and end logging, and the counters of LOG_EVERY_N and its like.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_CONTROL_HPP
#define LOGDRIVE_DETAIL_GLOG_CONTROL_HPP

#include <logdrive/detail/glog_message.hpp>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {
using Writer = void (*)(const char *, size_t);
LOGDRIVE_GLOG_FN_ void write_to_stderr(const char *text, size_t length);
// A module whose code all others use from now on stays.
LOGDRIVE_GLOG_FN_ void pin_module(void *code);
LOGDRIVE_GLOG_FN_ void flush_loggers(State &state, int severity);
LOGDRIVE_GLOG_FN_ void end_loggers(State &state);
}  // namespace internal

}  // namespace logdrive_glog

// The name of the program: files are named by it. Starts logging to files; before, all goes to standard error.
LOGDRIVE_GLOG_API_ void InitGoogleLogging(const char *argv0);
// Lines begin with what `prefix_callback` puts, at the call and in its thread; each statement then costs what a stream costs.
LOGDRIVE_GLOG_API_ void InitGoogleLogging(const char *argv0, CustomPrefixCallback prefix_callback,
                                         void *prefix_callback_data = nullptr);
// The same with what a message tells of itself.
LOGDRIVE_GLOG_API_ void InstallPrefixFormatter(PrefixFormatterCallback callback, void *data = nullptr);
LOGDRIVE_GLOG_API_ bool IsGoogleLoggingInitialized();
// Brings everything to the files and ends logging. Calls behind it start it again, to standard error.
LOGDRIVE_GLOG_API_ void ShutdownGoogleLogging();

// Everything is flushed, whatever its severity. Returns when it is with the kernel.
LOGDRIVE_GLOG_API_ void FlushLogFiles(LogSeverity);
LOGDRIVE_GLOG_API_ void FlushLogFilesUnsafe(LogSeverity);

LOGDRIVE_GLOG_API_ void SetLogDestination(LogSeverity severity, const char *base_filename);
LOGDRIVE_GLOG_API_ void SetLogSymlink(LogSeverity severity, const char *symlink_basename);
LOGDRIVE_GLOG_API_ void SetLogFilenameExtension(const char *filename_extension);
LOGDRIVE_GLOG_API_ void SetStderrLogging(LogSeverity min_severity);
LOGDRIVE_GLOG_API_ void LogToStderr();
LOGDRIVE_HIDDEN inline void SetApplicationFingerprint(const std::string &) {}

LOGDRIVE_GLOG_API_ void AddLogSink(LogSink *destination);
LOGDRIVE_GLOG_API_ void RemoveLogSink(LogSink *destination);

// Directories of files without a destination. Recomputed by TestOnly_ClearLoggingDirectoriesList().
LOGDRIVE_GLOG_API_ const std::vector<std::string> &GetLoggingDirectories();
LOGDRIVE_GLOG_API_ void TestOnly_ClearLoggingDirectoriesList();
LOGDRIVE_GLOG_API_ void GetExistingTempDirectories(std::vector<std::string> *list);

LOGDRIVE_GLOG_API_ void ReprintFatalMessage();

// Files of the program are removed once they were last written so long ago, also those of its earlier processes: now, with each
// start, and when a file is rotated.
LOGDRIVE_GLOG_API_ void EnableLogCleaner(unsigned int overdue_days);
LOGDRIVE_GLOG_API_ void EnableLogCleaner(const std::chrono::minutes &overdue);
LOGDRIVE_GLOG_API_ void DisableLogCleaner();

// Prints signal and stack, brings the log to the kernel, and lets the signal take its course.
LOGDRIVE_GLOG_API_ void InstallFailureSignalHandler();
LOGDRIVE_GLOG_API_ void InstallFailureWriter(void (*writer)(const char *data, size_t size));
// Returns the one before; null stands for abort().
LOGDRIVE_GLOG_API_ logging_fail_func_t InstallFailureFunction(logging_fail_func_t fail);

inline namespace logdrive_glog {
inline namespace glog_internal_namespace_ {
LOGDRIVE_GLOG_FN_ bool IsFailureSignalHandlerInstalled();
}  // namespace glog_internal_namespace_

namespace base {
// The place of one severity's file, for a class of the program that takes the lines of that severity and above. It overrides one
// of the two functions.
class Logger {
public:
    virtual ~Logger() {}
    virtual void Write(bool force_flush, time_t timestamp, const char *message, size_t message_len) {
        Write(force_flush, std::chrono::system_clock::from_time_t(timestamp), message, message_len);
    }
    virtual void Write(bool force_flush, const std::chrono::system_clock::time_point &timestamp, const char *message,
                       size_t message_len) {
        Write(force_flush, std::chrono::system_clock::to_time_t(timestamp), message, message_len);
    }
    virtual void Flush() = 0;
    virtual uint32 LogSize() = 0;
};

// The logger at the place of a severity: the file itself, or one of the program.
LOGDRIVE_GLOG_FN_ Logger *GetLogger(LogSeverity level);
// Has `logger` take the lines of this place. ShutdownGoogleLogging() deletes it, if it is still there. While any logger is set, and
// after GetLogger(), a statement costs what a stream costs.
LOGDRIVE_GLOG_FN_ void SetLogger(LogSeverity level, Logger *logger);
}  // namespace base

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
