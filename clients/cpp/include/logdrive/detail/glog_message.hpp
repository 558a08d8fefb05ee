// The class behind everything in glog that is a stream: a message that is rendered at the call, goes to sinks, strings or
// the system's log as asked, and becomes a record.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_MESSAGE_HPP
#define LOGDRIVE_DETAIL_GLOG_MESSAGE_HPP

#include <logdrive/detail/glog_state.hpp>
#include <ctime>
#include <ostream>
#include <sstream>
#include <string.h>
#include <unistd.h>

namespace google {
inline namespace logdrive_glog {

enum PRIVATE_Counter { COUNTER };

// When a message was logged.
struct LogMessageTime {
    LogMessageTime();
    LogMessageTime(std::tm date);
    LogMessageTime(std::time_t timestamp, WallTime now);

    const time_t &timestamp() const { return timestamp_; }
    const int &sec() const { return time_struct_.tm_sec; }
    const int32_t &usec() const { return usecs_; }
    const int &(min)() const { return time_struct_.tm_min; }
    const int &hour() const { return time_struct_.tm_hour; }
    const int &day() const { return time_struct_.tm_mday; }
    const int &month() const { return time_struct_.tm_mon; }
    const int &year() const { return time_struct_.tm_year; }
    const int &dayOfWeek() const { return time_struct_.tm_wday; }
    const int &dayInYear() const { return time_struct_.tm_yday; }
    const int &dst() const { return time_struct_.tm_isdst; }
    const long int &gmtoff() const { return gmtoffset_; }
    std::chrono::seconds gmtoffset() const { return std::chrono::seconds(gmtoffset_); }
    std::chrono::system_clock::time_point when() const {
        return std::chrono::system_clock::from_time_t(timestamp_) + std::chrono::microseconds(usecs_);
    }
    const std::tm &tm() const { return time_struct_; }

private:
    std::tm time_struct_;
    time_t timestamp_;
    int32_t usecs_;
    long int gmtoffset_;
};

}  // namespace logdrive_glog

// Gets every message, at the call, in its thread.
class LogSink {
public:
    virtual ~LogSink() {}
    virtual void send(LogSeverity severity, const char *full_filename, const char *base_filename, int line,
                      const LogMessageTime &time, const char *message, size_t message_len) {
        send(severity, full_filename, base_filename, line, &time.tm(), message, message_len);
    }
    virtual void send(LogSeverity, const char *, const char *, int, const std::tm *, const char *, size_t) {}
    virtual void WaitTillSent() {}
    static std::string ToString(LogSeverity severity, const char *file, int line, const LogMessageTime &time,
                                const char *message, size_t message_len);
};

inline namespace logdrive_glog {

// Arguments of a custom prefix.
struct LogMessageInfo {
    LogMessageInfo(const char *const severity_, const char *const filename_, const int &line_number_, const int &thread_id_,
                   const LogMessageTime &time_)
        : severity(severity_), filename(filename_), line_number(line_number_), thread_id(thread_id_), time(time_) {}

    const char *const severity;
    const char *const filename;
    const int &line_number;
    const int &thread_id;
    const LogMessageTime &time;
};

namespace internal LOGDRIVE_HIDDEN {

class Stream;

inline const char *base_name(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash == nullptr ? file : slash + 1;
}

inline constexpr uint8_t RECORD_LEVELS[NUM_SEVERITIES] = {2, 3, 4, 5};

// Line number that marks a message without a prefix.
constexpr int NO_PREFIX = -1;

// Work of glog for a message besides its files: standard error or output have it, and files those that are urgent, when this
// returns. `has_front`: the text has the front of the line already.
__attribute__((cold)) LOGDRIVE_GLOG_FN_ void echo(const State &shared, const char *file, int line, int severity, const char *text,
                                                  size_t length, bool has_front);

// A record of a statement that is rendered at the call.
LOGDRIVE_GLOG_FN_ void write_message(const char *file, int line, int severity, const char *text, size_t length);
LOGDRIVE_GLOG_FN_ void send_to_sinks(const char *file, int line, int severity, const LogMessageTime &time, const char *text,
                                     size_t length);
LOGDRIVE_GLOG_FN_ void put_prefix(const State &shared, ::logdrive::Out &out, const char *file, int line, int severity);
// A whole line goes to the loggers of the program that have places of files.
LOGDRIVE_GLOG_FN_ void send_to_loggers(State &shared, int severity, const char *line, size_t length);
LOGDRIVE_GLOG_FN_ void send_now(const char *file, int line, int severity, const char *text, size_t length);

// The stream that LOG_EVERY_N's counter is found by: a place of its own in every stream, without type information.
LOGDRIVE_GLOG_FN_ int counter_index();

}  // namespace internal

LOGDRIVE_GLOG_FN_ std::ostream &operator<<(std::ostream &out, const PRIVATE_Counter &);

// For the time between a check that failed and its message.
struct CheckOpString {
    CheckOpString(std::string *str) : str_(str) {}
    operator bool() const { return __builtin_expect(str_ != nullptr, 0); }
    std::string *str_;
};

class LogMessage {
public:
    // For the line number: a message without the front of a line.
    enum { kNoLogPrefix = internal::NO_PREFIX };

    class LogStream : public std::ostream {
    public:
        explicit LogStream(int64 counter);
        ~LogStream() override;
        int64 ctr() const;
        void set_ctr(int64 counter);
        LogStream *self() const { return const_cast<LogStream *>(this); }
        size_t pcount() const { return out_.size(); }
        const char *pbase() const { return out_.data(); }
        ::logdrive::Out &out() { return out_; }
        const char *str() const { return out_.data(); }

    private:
        ::logdrive::Out out_;
        ::logdrive::OutBuffer<std::streambuf> buffer_;
    };

    typedef void (LogMessage::*SendMethod)();
    static constexpr size_t kMaxLogMessageLen = 30000;

    LogMessage(const char *file, int line);
    LogMessage(const char *file, int line, LogSeverity severity);
    LogMessage(const char *file, int line, LogSeverity severity, int64 counter, SendMethod send);
    LogMessage(const char *file, int line, LogSeverity severity, LogSink *sink, bool also_send_to_log);
    LogMessage(const char *file, int line, LogSeverity severity, std::vector<std::string> *outvec);
    LogMessage(const char *file, int line, LogSeverity severity, std::string *message);
    LogMessage(const char *file, int line, const CheckOpString &result);
    // A failure function may throw.
    ~LogMessage() noexcept(false);
    LogMessage(const LogMessage &) = delete;
    void operator=(const LogMessage &) = delete;

    std::ostream &stream() { return stream_; }
    int preserved_errno() const { return errno_; }
    const LogMessageTime &getLogMessageTime() const { return time_; }
    LogSeverity severity() const noexcept { return severity_; }
    int line() const noexcept { return line_; }
    pid_t thread_id() const noexcept;
    const char *fullname() const noexcept { return file_; }
    const char *basename() const noexcept { return internal::base_name(file_); }
    const LogMessageTime &time() const noexcept { return time_; }
    // INFO is not counted by its statements: it is what the logs of the process have beyond the others.
    static int64 num_messages(int severity);

    void Flush();
    void SendToLog();
    void SendToSyslogAndLog();
    [[noreturn]] static void Fail();

private:
    friend void internal::put_prefix(const internal::State &, ::logdrive::Out &, const char *, int, int);
    const char *text() const { return stream_.str(); }
    // A line break at the end is not the message's.
    size_t length() const;
    void to_sink();
    void SendToSinkAndLog();
    void SendToSink();
    void WriteToStringAndLog();
    void SaveOrSendToLog();
    // Brings the log to the kernel, then ends the program as glog does.
    void end();

    const char *file_;
    int line_;
    LogSeverity severity_;
    SendMethod send_;
    int errno_;
    bool done_ = false;
    LogSink *sink_ = nullptr;
    std::vector<std::string> *outvec_ = nullptr;
    std::string *message_ = nullptr;
    LogMessageTime time_;
    LogStream stream_;
};

class LogMessageFatal : public LogMessage {
public:
    LogMessageFatal(const char *file, int line);
    LogMessageFatal(const char *file, int line, const CheckOpString &result);
    [[noreturn]] ~LogMessageFatal() noexcept(false);
};

}  // namespace logdrive_glog
LOGDRIVE_GLOG_API_ std::string StrError(int err);
inline namespace logdrive_glog {

class ErrnoLogMessage : public LogMessage {
public:
    using LogMessage::LogMessage;
    ~ErrnoLogMessage() noexcept(false);
};

class LogMessageVoidify {
public:
    LogMessageVoidify() {}
    // Lower than << and higher than ?:.
    void operator&(std::ostream &) {}
};

class NullStream : public std::ostream {
public:
    NullStream() : std::ostream(nullptr) {}
    NullStream(const char *, int, const CheckOpString &) : NullStream() {}
    NullStream &stream() { return *this; }
    // For `(condition ? LOG(INFO) : LOG(ERROR)) << ...` where one of them is left out.
    operator internal::Stream &() const noexcept;
};
template <class T> inline NullStream &operator<<(NullStream &out, const T &) { return out; }

class NullStreamFatal : public NullStream {
public:
    NullStreamFatal() {}
    NullStreamFatal(const char *file, int line, const CheckOpString &result) : NullStream(file, line, result) {}
    [[noreturn]] ~NullStreamFatal() { _exit(EXIT_FAILURE); }
};

LOGDRIVE_GLOG_FN_ void LogAtLevel(int severity, const std::string &message);

}  // namespace logdrive_glog
}  // namespace google

#endif
