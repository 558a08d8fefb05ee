// glog's logging.h on top of Logdrive: the same macros and calls, without its lock and without waiting for the disk.
// Include <logdrive/glog.h>, or put the directory glog-include in front of the search path and leave <glog/logging.h> as
// it is. MIGRATION.md lists the differences, with reasons.
#ifndef LOGDRIVE_GLOG_H
#define LOGDRIVE_GLOG_H
// glog's own header, included later, would declare the same macros.
#define GLOG_LOGGING_H

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <inttypes.h>
#include <iosfwd>
#include <ostream>
#include <sstream>
#include <string>
#include <sys/types.h>
#include <vector>

#include <logdrive/detail/glog_state.hpp>
#include <logdrive/detail/glog_message.hpp>
#include <logdrive/detail/glog_stream.hpp>
#include <logdrive/detail/glog_check.hpp>
#include <logdrive/detail/glog_control.hpp>
#include <logdrive/detail/glog_compat.hpp>
#include <logdrive/detail/glog_gflags.hpp>
#if !defined(LOGDRIVE_GLOG_LIBRARY)
#include <logdrive/detail/glog_library.hpp>
#endif

#ifndef GOOGLE_STRIP_LOG
#define GOOGLE_STRIP_LOG 0
#endif
#ifndef GOOGLE_PREDICT_BRANCH_NOT_TAKEN
#define GOOGLE_PREDICT_BRANCH_NOT_TAKEN(x) (__builtin_expect(x, 0))
#endif
#ifndef GOOGLE_PREDICT_FALSE
#define GOOGLE_PREDICT_FALSE(x) (__builtin_expect(x, 0))
#endif
#ifndef GOOGLE_PREDICT_TRUE
#define GOOGLE_PREDICT_TRUE(x) (__builtin_expect(!!(x), 1))
#endif

namespace google {
inline namespace logdrive_glog {
#ifdef NDEBUG
#define DFATAL_LEVEL ERROR
#define IF_DEBUG_MODE(x)
enum { DEBUG_MODE = 0 };
#else
#define DFATAL_LEVEL FATAL
#define IF_DEBUG_MODE(x) x
enum { DEBUG_MODE = 1 };
#endif
}  // namespace logdrive_glog
}  // namespace google

// A statement's static, and the temporary that takes its values.
// In a lambda, which may stand outside of functions, too; without optimisation it would be a function for each call.
#define LOGDRIVE_GLOG_SITE_(severity)                                                                               \
    []() __attribute__((always_inline)) {                                                                           \
        static ::google::logdrive_glog::internal::StreamSite logdrive_site_ = {__FILE__, __LINE__, severity, {}, {}}; \
        return &logdrive_site_;                                                                                     \
    }()
#define LOGDRIVE_GLOG_BEGIN_(severity) \
    ::google::logdrive_glog::internal::Statement(LOGDRIVE_GLOG_SITE_(::google::logdrive_glog::GLOG_##severity))
#define LOGDRIVE_GLOG_COUNT_(severity, counter) \
    ::google::logdrive_glog::internal::Statement(LOGDRIVE_GLOG_SITE_(::google::logdrive_glog::GLOG_##severity), counter)
#define LOGDRIVE_GLOG_MESSAGE_(severity, ...) \
    ::google::logdrive_glog::LogMessage(__FILE__, __LINE__, ::google::logdrive_glog::GLOG_##severity, __VA_ARGS__)
#define LOGDRIVE_GLOG_TO_LOG_(counter) counter, &::google::logdrive_glog::LogMessage::SendToLog
#define LOGDRIVE_GLOG_TO_SYSLOG_(counter) counter, &::google::logdrive_glog::LogMessage::SendToSyslogAndLog

// As with glog, LOG(X) is COMPACT_GOOGLE_LOG_X.stream(), and so on: programs use them by these names, and add their own.
#if GOOGLE_STRIP_LOG == 0
#define COMPACT_GOOGLE_LOG_INFO LOGDRIVE_GLOG_BEGIN_(INFO)
#define LOG_TO_STRING_INFO(message) LOGDRIVE_GLOG_MESSAGE_(INFO, message)
#else
#define COMPACT_GOOGLE_LOG_INFO ::google::logdrive_glog::NullStream()
#define LOG_TO_STRING_INFO(message) ::google::logdrive_glog::NullStream()
#endif
#if GOOGLE_STRIP_LOG <= 1
#define COMPACT_GOOGLE_LOG_WARNING LOGDRIVE_GLOG_BEGIN_(WARNING)
#define LOG_TO_STRING_WARNING(message) LOGDRIVE_GLOG_MESSAGE_(WARNING, message)
#else
#define COMPACT_GOOGLE_LOG_WARNING ::google::logdrive_glog::NullStream()
#define LOG_TO_STRING_WARNING(message) ::google::logdrive_glog::NullStream()
#endif
#if GOOGLE_STRIP_LOG <= 2
#define COMPACT_GOOGLE_LOG_ERROR LOGDRIVE_GLOG_BEGIN_(ERROR)
#define LOG_TO_STRING_ERROR(message) LOGDRIVE_GLOG_MESSAGE_(ERROR, message)
#else
#define COMPACT_GOOGLE_LOG_ERROR ::google::logdrive_glog::NullStream()
#define LOG_TO_STRING_ERROR(message) ::google::logdrive_glog::NullStream()
#endif
#if GOOGLE_STRIP_LOG <= 3
#define COMPACT_GOOGLE_LOG_FATAL ::google::logdrive_glog::LogMessageFatal(__FILE__, __LINE__)
#define LOG_TO_STRING_FATAL(message) LOGDRIVE_GLOG_MESSAGE_(FATAL, message)
#else
#define COMPACT_GOOGLE_LOG_FATAL ::google::logdrive_glog::NullStreamFatal()
#define LOG_TO_STRING_FATAL(message) ::google::logdrive_glog::NullStreamFatal()
#endif

#if defined(NDEBUG) && !defined(DCHECK_ALWAYS_ON)
#define DCHECK_IS_ON() 0
#else
#define DCHECK_IS_ON() 1
#endif
#if !DCHECK_IS_ON()
#define COMPACT_GOOGLE_LOG_DFATAL COMPACT_GOOGLE_LOG_ERROR
#define GLOG_DFATAL GLOG_ERROR
#else
#define COMPACT_GOOGLE_LOG_DFATAL \
    ::google::logdrive_glog::LogMessage(__FILE__, __LINE__, ::google::logdrive_glog::GLOG_FATAL)
#define GLOG_DFATAL GLOG_FATAL
#endif

#define GOOGLE_LOG_INFO(counter) LOGDRIVE_GLOG_COUNT_(INFO, counter)
#define GOOGLE_LOG_WARNING(counter) LOGDRIVE_GLOG_COUNT_(WARNING, counter)
#define GOOGLE_LOG_ERROR(counter) LOGDRIVE_GLOG_COUNT_(ERROR, counter)
#define GOOGLE_LOG_FATAL(counter) LOGDRIVE_GLOG_MESSAGE_(FATAL, LOGDRIVE_GLOG_TO_LOG_(counter))
#define GOOGLE_LOG_DFATAL(counter) LOGDRIVE_GLOG_MESSAGE_(DFATAL, LOGDRIVE_GLOG_TO_LOG_(counter))
#define SYSLOG_INFO(counter) LOGDRIVE_GLOG_MESSAGE_(INFO, LOGDRIVE_GLOG_TO_SYSLOG_(counter))
#define SYSLOG_WARNING(counter) LOGDRIVE_GLOG_MESSAGE_(WARNING, LOGDRIVE_GLOG_TO_SYSLOG_(counter))
#define SYSLOG_ERROR(counter) LOGDRIVE_GLOG_MESSAGE_(ERROR, LOGDRIVE_GLOG_TO_SYSLOG_(counter))
#define SYSLOG_FATAL(counter) LOGDRIVE_GLOG_MESSAGE_(FATAL, LOGDRIVE_GLOG_TO_SYSLOG_(counter))
#define SYSLOG_DFATAL(counter) LOGDRIVE_GLOG_MESSAGE_(DFATAL, LOGDRIVE_GLOG_TO_SYSLOG_(counter))
#ifdef GLOG_NO_ABBREVIATED_SEVERITIES
// For systems whose headers define ERROR to be 0.
#define COMPACT_GOOGLE_LOG_0 COMPACT_GOOGLE_LOG_ERROR
#define GOOGLE_LOG_0(counter) GOOGLE_LOG_ERROR(counter)
#define SYSLOG_0(counter) SYSLOG_ERROR(counter)
#define LOG_TO_STRING_0(message) LOG_TO_STRING_ERROR(message)
#define GLOG_0 GLOG_ERROR
#endif

#define LOG(severity) COMPACT_GOOGLE_LOG_##severity.stream()
#define SYSLOG(severity) SYSLOG_##severity(0).stream()
#define LOG_AT_LEVEL(severity) ::google::logdrive_glog::LogMessage(__FILE__, __LINE__, severity).stream()

#define LOG_TO_SINK(sink, severity) \
    LOGDRIVE_GLOG_MESSAGE_(severity, static_cast<::google::LogSink *>(sink), true).stream()
#define LOG_TO_SINK_BUT_NOT_TO_LOGFILE(sink, severity) \
    LOGDRIVE_GLOG_MESSAGE_(severity, static_cast<::google::LogSink *>(sink), false).stream()
#define LOG_TO_STRING(severity, message) LOG_TO_STRING_##severity(static_cast<std::string *>(message)).stream()
#define LOG_STRING(severity, outvec) LOG_TO_STRING_##severity(static_cast<std::vector<std::string> *>(outvec)).stream()

#define LOG_IF(severity, condition) \
    static_cast<void>(0), !(condition) ? (void)0 : ::google::logdrive_glog::LogMessageVoidify() & LOG(severity)
#define SYSLOG_IF(severity, condition) \
    static_cast<void>(0), !(condition) ? (void)0 : ::google::logdrive_glog::LogMessageVoidify() & SYSLOG(severity)

#define GOOGLE_PLOG(severity, counter)                                                                    \
    ::google::logdrive_glog::ErrnoLogMessage(__FILE__, __LINE__, ::google::logdrive_glog::GLOG_##severity, \
                                             LOGDRIVE_GLOG_TO_LOG_(counter))
#define PLOG(severity) GOOGLE_PLOG(severity, 0).stream()
#define PLOG_IF(severity, condition) \
    static_cast<void>(0), !(condition) ? (void)0 : ::google::logdrive_glog::LogMessageVoidify() & PLOG(severity)
#define PCHECK(condition) PLOG_IF(FATAL, GOOGLE_PREDICT_BRANCH_NOT_TAKEN(!(condition))) << "Check failed: " #condition " "
#define CHECK_ERR(invocation) PLOG_IF(FATAL, GOOGLE_PREDICT_BRANCH_NOT_TAKEN((invocation) == -1)) << #invocation

#define LOG_ASSERT(condition) LOG_IF(FATAL, !(condition)) << "Assert failed: " #condition
#define SYSLOG_ASSERT(condition) SYSLOG_IF(FATAL, !(condition)) << "Assert failed: " #condition

#define CHECK(condition) \
    LOG_IF(FATAL, GOOGLE_PREDICT_BRANCH_NOT_TAKEN(!(condition))) << "Check failed: " #condition " "
#if GOOGLE_STRIP_LOG <= 3
#define LOGDRIVE_GLOG_FATAL_ ::google::logdrive_glog::LogMessageFatal
#else
#define LOGDRIVE_GLOG_FATAL_ ::google::logdrive_glog::NullStreamFatal
#endif
#define CHECK_OP_LOG(name, op, val1, val2, log)                                                        \
    while (::google::logdrive_glog::CheckOpString _result = ::google::logdrive_glog::Check##name##Impl( \
               ::google::logdrive_glog::GetReferenceableValue(val1),                                   \
               ::google::logdrive_glog::GetReferenceableValue(val2), #val1 " " #op " " #val2))         \
    log(__FILE__, __LINE__, _result).stream()
#define CHECK_OP(name, op, val1, val2) CHECK_OP_LOG(name, op, val1, val2, LOGDRIVE_GLOG_FATAL_)
#define CHECK_EQ(val1, val2) CHECK_OP(_EQ, ==, val1, val2)
#define CHECK_NE(val1, val2) CHECK_OP(_NE, !=, val1, val2)
#define CHECK_LE(val1, val2) CHECK_OP(_LE, <=, val1, val2)
#define CHECK_LT(val1, val2) CHECK_OP(_LT, <, val1, val2)
#define CHECK_GE(val1, val2) CHECK_OP(_GE, >=, val1, val2)
#define CHECK_GT(val1, val2) CHECK_OP(_GT, >, val1, val2)
#define CHECK_NOTNULL(val) \
    ::google::logdrive_glog::CheckNotNull(__FILE__, __LINE__, "'" #val "' Must be non NULL", (val))
#define CHECK_STROP(func, op, expected, s1, s2)                                                                        \
    while (::google::logdrive_glog::CheckOpString _result =                                                            \
               ::google::logdrive_glog::Check##func##expected##Impl((s1), (s2), #s1 " " #op " " #s2))                  \
    LOG(FATAL) << *_result.str_
#define CHECK_STREQ(s1, s2) CHECK_STROP(strcmp, ==, true, s1, s2)
#define CHECK_STRNE(s1, s2) CHECK_STROP(strcmp, !=, false, s1, s2)
#define CHECK_STRCASEEQ(s1, s2) CHECK_STROP(strcasecmp, ==, true, s1, s2)
#define CHECK_STRCASENE(s1, s2) CHECK_STROP(strcasecmp, !=, false, s1, s2)
#define CHECK_INDEX(I, A) CHECK(I < (sizeof(A) / sizeof(A[0])))
#define CHECK_BOUND(B, A) CHECK(B <= (sizeof(A) / sizeof(A[0])))
#define CHECK_DOUBLE_EQ(val1, val2)                    \
    do {                                               \
        CHECK_LE((val1), (val2) + 0.000000000000001L); \
        CHECK_GE((val1), (val2)-0.000000000000001L);   \
    } while (0)
#define CHECK_NEAR(val1, val2, margin)       \
    do {                                     \
        CHECK_LE((val1), (val2) + (margin)); \
        CHECK_GE((val1), (val2) - (margin)); \
    } while (0)

// Like glog's, these declare their counters beside the statement.
#define LOG_EVERY_N_VARNAME(base, line) LOG_EVERY_N_VARNAME_CONCAT(base, line)
#define LOG_EVERY_N_VARNAME_CONCAT(base, line) base##line
#define LOG_OCCURRENCES LOG_EVERY_N_VARNAME(occurrences_, __LINE__)
#define LOGDRIVE_GLOG_COUNTER_ static ::google::logdrive_glog::internal::Occurrences LOG_OCCURRENCES

#define LOG_EVERY_N(severity, n) \
    LOGDRIVE_GLOG_COUNTER_;      \
    if (LOG_OCCURRENCES.every(n)) LOGDRIVE_GLOG_COUNTED_(severity)
#define LOG_IF_EVERY_N(severity, condition, n) \
    LOGDRIVE_GLOG_COUNTER_;                    \
    if (LOG_OCCURRENCES.every_if(condition, n)) LOGDRIVE_GLOG_COUNTED_(severity)
#define LOG_FIRST_N(severity, n) \
    LOGDRIVE_GLOG_COUNTER_;      \
    if (LOG_OCCURRENCES.first(n)) LOGDRIVE_GLOG_COUNTED_(severity)
#define LOG_EVERY_T(severity, seconds) \
    LOGDRIVE_GLOG_COUNTER_;            \
    if (LOG_OCCURRENCES.every_seconds(seconds)) LOG(severity)
#define PLOG_EVERY_N(severity, n) \
    LOGDRIVE_GLOG_COUNTER_;       \
    if (LOG_OCCURRENCES.every(n)) GOOGLE_PLOG(severity, LOG_OCCURRENCES.count()).stream()
#define SYSLOG_EVERY_N(severity, n) \
    LOGDRIVE_GLOG_COUNTER_;         \
    if (LOG_OCCURRENCES.every(n)) LOGDRIVE_GLOG_SYSLOG_COUNTED_(severity)
#define LOGDRIVE_GLOG_COUNTED_(severity) GOOGLE_LOG_##severity(LOG_OCCURRENCES.count()).stream()
#define LOGDRIVE_GLOG_SYSLOG_COUNTED_(severity) SYSLOG_##severity(LOG_OCCURRENCES.count()).stream()

#define VLOG_IS_ON(verboselevel)                                         \
    []() __attribute__((always_inline)) {                                \
        static ::google::logdrive_glog::internal::VSite logdrive_vsite_; \
        return &logdrive_vsite_;                                         \
    }()->is_on(__FILE__, (verboselevel))
#define VLOG(verboselevel) LOG_IF(INFO, VLOG_IS_ON(verboselevel))
#define VLOG_IF(verboselevel, condition) LOG_IF(INFO, (condition) && VLOG_IS_ON(verboselevel))
#define VLOG_EVERY_N(verboselevel, n) LOG_IF_EVERY_N(INFO, VLOG_IS_ON(verboselevel), n)
#define VLOG_IF_EVERY_N(verboselevel, condition, n) LOG_IF_EVERY_N(INFO, (condition) && VLOG_IS_ON(verboselevel), n)

#if DCHECK_IS_ON()
#define DLOG(severity) LOG(severity)
#define DVLOG(verboselevel) VLOG(verboselevel)
#define DLOG_IF(severity, condition) LOG_IF(severity, condition)
#define DLOG_EVERY_N(severity, n) LOG_EVERY_N(severity, n)
#define DLOG_IF_EVERY_N(severity, condition, n) LOG_IF_EVERY_N(severity, condition, n)
#define DLOG_ASSERT(condition) LOG_ASSERT(condition)
#define DCHECK(condition) CHECK(condition)
#define DCHECK_EQ(val1, val2) CHECK_EQ(val1, val2)
#define DCHECK_NE(val1, val2) CHECK_NE(val1, val2)
#define DCHECK_LE(val1, val2) CHECK_LE(val1, val2)
#define DCHECK_LT(val1, val2) CHECK_LT(val1, val2)
#define DCHECK_GE(val1, val2) CHECK_GE(val1, val2)
#define DCHECK_GT(val1, val2) CHECK_GT(val1, val2)
#define DCHECK_NOTNULL(val) CHECK_NOTNULL(val)
#define DCHECK_STREQ(str1, str2) CHECK_STREQ(str1, str2)
#define DCHECK_STRCASEEQ(str1, str2) CHECK_STRCASEEQ(str1, str2)
#define DCHECK_STRNE(str1, str2) CHECK_STRNE(str1, str2)
#define DCHECK_STRCASENE(str1, str2) CHECK_STRCASENE(str1, str2)
#else
#define LOGDRIVE_GLOG_OFF_(severity) \
    static_cast<void>(0), true ? (void)0 : ::google::logdrive_glog::LogMessageVoidify() & LOG(severity)
#define DLOG(severity) LOGDRIVE_GLOG_OFF_(severity)
#define DVLOG(verboselevel) \
    static_cast<void>(0), (true || !VLOG_IS_ON(verboselevel)) ? (void)0 : ::google::logdrive_glog::LogMessageVoidify() & LOG(INFO)
#define DLOG_IF(severity, condition) \
    static_cast<void>(0), (true || !(condition)) ? (void)0 : ::google::logdrive_glog::LogMessageVoidify() & LOG(severity)
#define DLOG_EVERY_N(severity, n) LOGDRIVE_GLOG_OFF_(severity)
#define DLOG_IF_EVERY_N(severity, condition, n) DLOG_IF(severity, condition)
#define DLOG_ASSERT(condition) static_cast<void>(0), true ? (void)0 : LOG_ASSERT(condition)
#define DCHECK(condition) while (false) CHECK(condition)
#define DCHECK_EQ(val1, val2) while (false) CHECK_EQ(val1, val2)
#define DCHECK_NE(val1, val2) while (false) CHECK_NE(val1, val2)
#define DCHECK_LE(val1, val2) while (false) CHECK_LE(val1, val2)
#define DCHECK_LT(val1, val2) while (false) CHECK_LT(val1, val2)
#define DCHECK_GE(val1, val2) while (false) CHECK_GE(val1, val2)
#define DCHECK_GT(val1, val2) while (false) CHECK_GT(val1, val2)
#define DCHECK_NOTNULL(val) (val)
#define DCHECK_STREQ(str1, str2) while (false) CHECK_STREQ(str1, str2)
#define DCHECK_STRCASEEQ(str1, str2) while (false) CHECK_STRCASEEQ(str1, str2)
#define DCHECK_STRNE(str1, str2) while (false) CHECK_STRNE(str1, str2)
#define DCHECK_STRCASENE(str1, str2) while (false) CHECK_STRCASENE(str1, str2)
#endif

#endif
