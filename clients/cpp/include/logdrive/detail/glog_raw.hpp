// RAW_LOG and RAW_CHECK of glog: a line to standard error with one write, for places that must not allocate or take a lock.
// It never reaches the log files, as with glog.
#ifndef LOGDRIVE_DETAIL_GLOG_RAW_HPP
#define LOGDRIVE_DETAIL_GLOG_RAW_HPP

#include <logdrive/glog.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

namespace google {
inline namespace logdrive_glog {

// Blocks as long as standard error does. May be called from a signal handler where vsnprintf may.
__attribute__((format(printf, 4, 5))) inline void RawLog__(LogSeverity severity, const char *file, int line,
                                                           const char *format, ...) {
    const internal::State &state = internal::state();
    const bool is_shown = state.logtostderr.value || state.alsologtostderr.value || !state.initialised ||
                          severity >= state.stderrthreshold.value;
    if (!is_shown && severity != GLOG_FATAL) return;
    char text[3000];
    struct timespec now;
    struct tm date;
    clock_gettime(CLOCK_REALTIME, &now);
    if (state.log_utc_time.value) gmtime_r(&now.tv_sec, &date);
    else localtime_r(&now.tv_sec, &date);
    const int front = snprintf(text, sizeof text, "%c%04d%02d%02d %02d:%02d:%02d.%06ld %5ld %s:%d] RAW: ",
                               LogSeverityNames[severity][0], 1900 + date.tm_year, 1 + date.tm_mon, date.tm_mday,
                               date.tm_hour, date.tm_min, date.tm_sec, now.tv_nsec / 1000, syscall(SYS_gettid),
                               internal::base_name(file), line);
    // Room for a message stays, whatever the file's name.
    const size_t room = sizeof text - 64;
    const size_t used = front < 0 ? 0 : size_t(front) < room ? size_t(front) : room;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text + used, sizeof text - 1 - used, format, arguments);
    va_end(arguments);
    size_t end = used + size_t(length < 0 ? 0 : length);
    if (length < 0 || end > sizeof text - 2) {
        // In glog's words.
        static const char too_long[] = "RAW_LOG ERROR: The Message was too long!";
        end = used + sizeof too_long - 1;
        memcpy(text + used, too_long, sizeof too_long - 1);
    }
    text[end++] = '\n';
    internal::write_to_stderr(text, end);
    if (severity == GLOG_FATAL) {
        logdrive_flush();
        LogMessage::Fail();
    }
}

}  // namespace logdrive_glog
}  // namespace google

#if GOOGLE_STRIP_LOG == 0
#define RAW_LOG_INFO(...) ::google::logdrive_glog::RawLog__(::google::logdrive_glog::GLOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#else
#define RAW_LOG_INFO(...) static_cast<void>(0)
#endif
#if GOOGLE_STRIP_LOG <= 1
#define RAW_LOG_WARNING(...) \
    ::google::logdrive_glog::RawLog__(::google::logdrive_glog::GLOG_WARNING, __FILE__, __LINE__, __VA_ARGS__)
#else
#define RAW_LOG_WARNING(...) static_cast<void>(0)
#endif
#if GOOGLE_STRIP_LOG <= 2
#define RAW_LOG_ERROR(...) ::google::logdrive_glog::RawLog__(::google::logdrive_glog::GLOG_ERROR, __FILE__, __LINE__, __VA_ARGS__)
#else
#define RAW_LOG_ERROR(...) static_cast<void>(0)
#endif
#if GOOGLE_STRIP_LOG <= 3
#define RAW_LOG_FATAL(...) ::google::logdrive_glog::RawLog__(::google::logdrive_glog::GLOG_FATAL, __FILE__, __LINE__, __VA_ARGS__)
#else
#define RAW_LOG_FATAL(...) _exit(EXIT_FAILURE)
#endif
#define RAW_LOG(severity, ...)       \
    do {                             \
        RAW_LOG_##severity(__VA_ARGS__); \
    } while (0)
#define RAW_VLOG(verboselevel, ...)                                  \
    do {                                                             \
        if (VLOG_IS_ON(verboselevel)) RAW_LOG_INFO(__VA_ARGS__);     \
    } while (0)
#define RAW_CHECK(condition, message)                                                         \
    do {                                                                                      \
        if (!(condition)) RAW_LOG(FATAL, "Check %s failed: %s", #condition, message);         \
    } while (0)
#ifndef NDEBUG
#define RAW_DLOG(severity, ...) RAW_LOG(severity, __VA_ARGS__)
#define RAW_DCHECK(condition, message) RAW_CHECK(condition, message)
#else
#define RAW_DLOG(severity, ...) while (false) RAW_LOG(severity, __VA_ARGS__)
#define RAW_DCHECK(condition, message) while (false) RAW_CHECK(condition, message)
#endif

#endif
