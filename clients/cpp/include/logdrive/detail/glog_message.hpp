// The class behind everything in glog that is a stream: a message that is rendered at the call, goes to sinks, strings or
// the system's log as asked, and becomes a record.
#ifndef LOGDRIVE_DETAIL_GLOG_MESSAGE_HPP
#define LOGDRIVE_DETAIL_GLOG_MESSAGE_HPP

#include <logdrive/detail/glog_state.hpp>
#include <logdrive/detail/glog_stack.hpp>
#include <ctime>
#include <ostream>
#include <sstream>
#include <sys/syscall.h>
#include <sys/time.h>
#include <syslog.h>

namespace google {
inline namespace logdrive_glog {

enum PRIVATE_Counter { COUNTER };

// When a message was logged.
struct LogMessageTime {
    LogMessageTime() : LogMessageTime(0, 0) {
        struct timeval now;
        gettimeofday(&now, nullptr);
        *this = LogMessageTime(now.tv_sec, double(now.tv_sec) + double(now.tv_usec) * 1e-6);
        usecs_ = int32_t(now.tv_usec);
    }
    LogMessageTime(std::tm date) : time_struct_(date), timestamp_(std::mktime(&date)), usecs_(0), gmtoffset_(date.tm_gmtoff) {}
    LogMessageTime(std::time_t timestamp, WallTime now)
        : timestamp_(timestamp), usecs_(int32_t((now - double(timestamp)) * 1e6)), gmtoffset_(0) {
        if (internal::state().log_utc_time.value) gmtime_r(&timestamp, &time_struct_);
        else localtime_r(&timestamp, &time_struct_);
        gmtoffset_ = time_struct_.tm_gmtoff;
    }

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
    const std::tm &tm() const { return time_struct_; }

private:
    std::tm time_struct_;
    time_t timestamp_;
    int32_t usecs_;
    long int gmtoffset_;
};

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
                                const char *message, size_t message_len) {
        char front[256];
        const int length = snprintf(front, sizeof front, "%c%04d%02d%02d %02d:%02d:%02d.%06d %5ld %s:%d] ",
                                    LogSeverityNames[severity][0], 1900 + time.year(), 1 + time.month(), time.day(),
                                    time.hour(), (time.min)(), time.sec(), time.usec(), syscall(SYS_gettid), file, line);
        std::string text(front, size_t(length) < sizeof front ? size_t(length) : sizeof front - 1);
        return text.append(message, message_len);
    }
};

// What a prefix of the program's own is made of.
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

inline const char *base_name(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash == nullptr ? file : slash + 1;
}

inline constexpr uint8_t MESSAGE_KINDS[] = {::logdrive::detail::DISPLAY};
inline constexpr const char *MESSAGE_UNITS[] = {""};
inline constexpr uint8_t RECORD_LEVELS[NUM_SEVERITIES] = {2, 3, 4, 5};

// The front of a line that the program makes itself.
LOGDRIVE_COLD inline void put_prefix(const State &shared, ::logdrive::Out &out, const char *file, int line, int severity) {
    ::logdrive::OutBuffer<std::streambuf> buffer(out);
    std::ostream stream(&buffer);
    const LogMessageTime time;
    const int thread_id = int(syscall(SYS_gettid));
    const LogMessageInfo info(LogSeverityNames[severity], base_name(file), line, thread_id, time);
    shared.prefix(stream, info, shared.prefix_data);
    stream << ' ';
}

// A record of a statement that is rendered at the call.
inline void write_message(const char *file, int line, int severity, const char *text, size_t length) {
    ::logdrive::Out whole;
    const State &shared = state();
    if (LOGDRIVE_UNLIKELY(shared.has_prefix())) {
        put_prefix(shared, whole, file, line, severity);
        whole.append(text, length);
        text = whole.data();
        length = whole.size();
    }
    const ::logdrive::detail::Meta meta = {
        file, "", "", "", nullptr, MESSAGE_KINDS, MESSAGE_UNITS, uint32_t(line < 0 ? 0 : line), 1, RECORD_LEVELS[severity]};
    ::logdrive::detail::Site site;
    const auto describe = [](::logdrive::detail::Description &out, const ::logdrive::detail::Meta &of) {
        ::logdrive::detail::describe_shown(out, of, "{}", 2);
    };
    const logdrive_site *known = site.known(meta, describe);
    if (known == nullptr || !logdrive_admit(known)) return;
    using Text = ::logdrive::detail::Blob<::logdrive::detail::DISPLAY>;
    ::logdrive::detail::write_slowly<Text>(known, length + 4, Text{text, ::logdrive::detail::blob_length(length)});
}

inline void send_to_sinks(const char *file, int line, int severity, const LogMessageTime &time, const char *text,
                          size_t length) {
    State &shared = state();
    Lock lock(shared.sinks_mutex);
    for (size_t i = shared.sinks.size(); i-- > 0;)
        shared.sinks[i]->send(severity, file, base_name(file), line, time, text, length);
    for (size_t i = shared.sinks.size(); i-- > 0;) shared.sinks[i]->WaitTillSent();
}
inline void send_now(const char *file, int line, int severity, const char *text, size_t length) {
    send_to_sinks(file, line, severity, LogMessageTime(), text, length);
}

// The stream that LOG_EVERY_N's counter is found by: a place of its own in every stream, without type information.
inline int counter_index() {
    static const int index = std::ios_base::xalloc();
    return index;
}

}  // namespace internal

inline std::ostream &operator<<(std::ostream &out, const PRIVATE_Counter &) {
    return out << out.iword(internal::counter_index());
}

// For the time between a check that failed and its message.
struct CheckOpString {
    CheckOpString(std::string *str) : str_(str) {}
    operator bool() const { return __builtin_expect(str_ != nullptr, 0); }
    std::string *str_;
};

class LogMessage {
public:
    enum { kNoLogPrefix = -1 };

    class LogStream : public std::ostream {
    public:
        explicit LogStream(int64 counter) : std::ostream(nullptr), buffer_(out_) {
            rdbuf(&buffer_);
            set_ctr(counter);
        }
        int64 ctr() const { return const_cast<LogStream *>(this)->iword(internal::counter_index()); }
        void set_ctr(int64 counter) { iword(internal::counter_index()) = long(counter); }
        LogStream *self() const { return const_cast<LogStream *>(this); }
        size_t pcount() const { return out_.size(); }
        const char *str() const { return out_.data(); }

    private:
        ::logdrive::Out out_;
        ::logdrive::OutBuffer<std::streambuf> buffer_;
    };

    typedef void (LogMessage::*SendMethod)();
    static constexpr size_t kMaxLogMessageLen = 30000;

    LogMessage(const char *file, int line) : LogMessage(file, line, GLOG_INFO) {}
    LogMessage(const char *file, int line, LogSeverity severity)
        : LogMessage(file, line, severity, 0, &LogMessage::SendToLog) {}
    LogMessage(const char *file, int line, LogSeverity severity, int64 counter, SendMethod send)
        : file_(file), line_(line), severity_(severity < 0 ? 0 : severity > 3 ? 2 : severity), send_(send),
          errno_(errno), stream_(counter) {}
    LogMessage(const char *file, int line, LogSeverity severity, LogSink *sink, bool also_send_to_log)
        : LogMessage(file, line, severity, 0,
                     also_send_to_log ? &LogMessage::SendToSinkAndLog : &LogMessage::SendToSink) {
        sink_ = sink;
    }
    LogMessage(const char *file, int line, LogSeverity severity, std::vector<std::string> *outvec)
        : LogMessage(file, line, severity, 0, &LogMessage::SaveOrSendToLog) {
        outvec_ = outvec;
    }
    LogMessage(const char *file, int line, LogSeverity severity, std::string *message)
        : LogMessage(file, line, severity, 0, &LogMessage::WriteToStringAndLog) {
        message_ = message;
    }
    LogMessage(const char *file, int line, const CheckOpString &result) : LogMessage(file, line, GLOG_FATAL) {
        stream() << "Check failed: " << *result.str_ << " ";
    }
    ~LogMessage() { Flush(); }
    LogMessage(const LogMessage &) = delete;
    void operator=(const LogMessage &) = delete;

    std::ostream &stream() { return stream_; }
    int preserved_errno() const { return errno_; }
    const LogMessageTime &getLogMessageTime() const { return time_; }
    // INFO is not counted by its statements: it is what the running log has beyond the others.
    static int64 num_messages(int severity) {
        const internal::State &state = internal::state();
        if (severity != GLOG_INFO) return state.counted(severity);
        logdrive_stats_t stats = {};
        logdrive_stats(&stats);
        const int64 others = state.counted(GLOG_WARNING) + state.counted(GLOG_ERROR) + state.counted(GLOG_FATAL);
        return int64(stats.committed) > others ? int64(stats.committed) - others : 0;
    }

    void Flush() {
        if (done_) return;
        done_ = true;
        const int kept = errno;
        if (severity_ >= internal::state().least_severity()) {
            (this->*send_)();
            internal::state().count(severity_);
        }
        errno = kept;
        if (severity_ == GLOG_FATAL) end();
        errno = errno_;
    }

    void SendToLog() {
        internal::State &state = internal::state();
        internal::start_if_needed(state);
        state.note_logged(severity_);
        if (state.has_sinks()) internal::send_to_sinks(file_, line_, severity_, time_, text(), length());
        internal::write_message(file_, line_, severity_, text(), length());
    }
    void SendToSyslogAndLog() {
        static const int priorities[] = {LOG_INFO_, LOG_WARNING_, LOG_ERR_, LOG_EMERG_};
        ::syslog(LOG_USER_ | priorities[severity_], "%.*s", int(length()), text());
        SendToLog();
    }
    [[noreturn]] static void Fail() {
        if (internal::state().fail != nullptr) internal::state().fail();
        internal::print_stack(2, internal::write_to_stderr);
        if (internal::state().failure_handler) signal(SIGABRT, SIG_DFL);
        abort();
    }

private:
    // <syslog.h> defines macros of names that glog does not take from programs; these are their values.
    enum { LOG_EMERG_ = 0, LOG_ERR_ = 3, LOG_WARNING_ = 4, LOG_INFO_ = 6, LOG_USER_ = 8 };

    const char *text() const { return stream_.str(); }
    // A line break at the end is not the message's.
    size_t length() const {
        const size_t length = stream_.pcount();
        return length > 0 && text()[length - 1] == '\n' ? length - 1 : length;
    }
    void to_sink() {
        if (sink_ != nullptr) {
            sink_->send(severity_, file_, internal::base_name(file_), line_, time_, text(), length());
            sink_->WaitTillSent();
        }
    }
    void SendToSinkAndLog() {
        to_sink();
        SendToLog();
    }
    void SendToSink() { to_sink(); }
    void WriteToStringAndLog() {
        if (message_ != nullptr) message_->assign(text(), length());
        SendToLog();
    }
    void SaveOrSendToLog() {
        if (outvec_ != nullptr) outvec_->push_back(std::string(text(), length()));
        else SendToLog();
    }

    // Brings the log to the kernel, then ends the program as glog does.
    void end() {
        internal::State &state = internal::state();
        const size_t shortened = length() < sizeof state.fatal_message - 1 ? length() : sizeof state.fatal_message - 1;
        memcpy(state.fatal_message, text(), shortened);
        logdrive_flush();
        internal::write_to_stderr("*** Check failure stack trace: ***\n", 35);
        Fail();
    }

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
    LogMessageFatal(const char *file, int line) : LogMessage(file, line, GLOG_FATAL) {}
    LogMessageFatal(const char *file, int line, const CheckOpString &result) : LogMessage(file, line, result) {}
    [[noreturn]] ~LogMessageFatal() {
        Flush();
        Fail();
    }
};

inline std::string StrError(int err) {
    char text[128];
    return std::string(strerror_r(err, text, sizeof text));
}

class ErrnoLogMessage : public LogMessage {
public:
    using LogMessage::LogMessage;
    ~ErrnoLogMessage() { stream() << ": " << StrError(preserved_errno()) << " [" << preserved_errno() << "]"; }
};

class LogMessageVoidify {
public:
    LogMessageVoidify() {}
    // Lower than << and higher than ?:.
    void operator&(std::ostream &) {}
    template <class S> void operator&(S &&) {}
};

class NullStream : public std::ostream {
public:
    NullStream() : std::ostream(nullptr) {}
    NullStream(const char *, int, const CheckOpString &) : NullStream() {}
    NullStream &stream() { return *this; }
};
template <class T> inline NullStream &operator<<(NullStream &out, const T &) { return out; }

class NullStreamFatal : public NullStream {
public:
    NullStreamFatal() {}
    NullStreamFatal(const char *file, int line, const CheckOpString &result) : NullStream(file, line, result) {}
    [[noreturn]] ~NullStreamFatal() { _exit(EXIT_FAILURE); }
};

inline void LogAtLevel(int severity, const std::string &message) {
    LogMessage(__FILE__, __LINE__, severity).stream() << message;
}

}  // namespace logdrive_glog
}  // namespace google

#endif
