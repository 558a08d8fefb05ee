// End of a message: its time, its sinks, its record, and the end of the program, for glog_message.hpp.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_SEND_HPP
#define LOGDRIVE_DETAIL_GLOG_SEND_HPP

#include <logdrive/detail/glog_stack.hpp>
#include <logdrive/detail/site.hpp>
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <syslog.h>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {
// <syslog.h> defines macros of names that programs may have; these are their values.
enum { SYSLOG_EMERG_ = 0, SYSLOG_ERR_ = 3, SYSLOG_WARNING_ = 4, SYSLOG_INFO_ = 6, SYSLOG_USER_ = 8 };
}  // namespace internal
LOGDRIVE_GLOG_FN_ LogMessageTime::LogMessageTime() : LogMessageTime(0, 0) {
    struct timeval now;
    gettimeofday(&now, nullptr);
    *this = LogMessageTime(now.tv_sec, double(now.tv_sec) + double(now.tv_usec) * 1e-6);
    usecs_ = int32_t(now.tv_usec);
}
LOGDRIVE_GLOG_FN_ LogMessageTime::LogMessageTime(std::tm date)
    : time_struct_(date), timestamp_(std::mktime(&date)), usecs_(0), gmtoffset_(date.tm_gmtoff) {}
LOGDRIVE_GLOG_FN_ LogMessageTime::LogMessageTime(std::time_t timestamp, WallTime now)
    : timestamp_(timestamp), usecs_(int32_t((now - double(timestamp)) * 1e6)), gmtoffset_(0) {
    if (internal::state().log_utc_time.value) gmtime_r(&timestamp, &time_struct_);
    else localtime_r(&timestamp, &time_struct_);
    gmtoffset_ = time_struct_.tm_gmtoff;
}

}  // namespace logdrive_glog

LOGDRIVE_GLOG_FN_ std::string LogSink::ToString(LogSeverity severity, const char *file, int line, const LogMessageTime &time,
                                                const char *message, size_t message_len) {
    char front[256];
    const int length = snprintf(front, sizeof front, "%c%04d%02d%02d %02d:%02d:%02d.%06d %5ld %s:%d] ",
                                LogSeverityNames[severity][0], 1900 + time.year(), 1 + time.month(), time.day(),
                                time.hour(), (time.min)(), time.sec(), time.usec(), syscall(SYS_gettid), file, line);
    std::string text(front, size_t(length) < sizeof front ? size_t(length) : sizeof front - 1);
    return text.append(message, message_len);
}

inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

LOGDRIVE_GLOG_FN_ bool State::wants_stack(const char *file, int line) const {
    if (LOGDRIVE_LIKELY(log_backtrace_at.empty())) return false;
    const std::string_view place = log_backtrace_at;
    const size_t colon = place.rfind(':');
    return colon != std::string_view::npos && place.substr(0, colon) == base_name(file) &&
           atoi(log_backtrace_at.c_str() + colon + 1) == line;
}

inline constexpr uint8_t MESSAGE_KINDS[] = {::logdrive::detail::DISPLAY};
inline constexpr const char *MESSAGE_UNITS[] = {""};

// The front of a line as glog has it.
LOGDRIVE_GLOG_FN_ void put_front(const State &shared, ::logdrive::Out &out, const char *file, int line, int severity) {
    const LogMessageTime time;
    out.append(LogSeverityNames[severity][0]);
    if (shared.log_year_in_prefix.value) out.print("%04d", 1900 + time.year());
    out.print("%02d%02d %02d:%02d:%02d.%06d %5ld ", 1 + time.month(), time.day(), time.hour(), (time.min)(), time.sec(),
              time.usec(), syscall(SYS_gettid));
    out.append(base_name(file));
    out.print(":%d] ", line);
}

// The front of a line in a message: the program makes it itself, or loggers of the program want it.
LOGDRIVE_GLOG_FN_ void put_prefix(const State &shared, ::logdrive::Out &out, const char *file, int line, int severity) {
    if (!shared.has_callback()) return put_front(shared, out, file, line, severity);
    ::logdrive::OutBuffer<std::streambuf> buffer(out);
    std::ostream stream(&buffer);
    stream.fill('0');
    if (shared.formatter != nullptr) {
        LogMessage about(file, line, severity);
        // It only tells of itself.
        about.done_ = true;
        shared.formatter(stream, about, shared.prefix_data);
    } else {
        const LogMessageTime time;
        const int thread_id = int(syscall(SYS_gettid));
        const LogMessageInfo info(LogSeverityNames[severity], base_name(file), line, thread_id, time);
        shared.prefix(stream, info, shared.prefix_data);
    }
    stream << ' ';
}

LOGDRIVE_GLOG_FN_ bool is_colour_terminal(int descriptor) {
    const char *term = getenv("TERM");
    if (term == nullptr || isatty(descriptor) == 0) return false;
    for (const char *known : {"xterm", "xterm-color", "xterm-256color", "screen-256color", "konsole", "konsole-16color",
                              "konsole-256color", "screen", "linux", "cygwin"})
        if (strcmp(term, known) == 0) return true;
    return false;
}

// One line at once. Standard error has no buffer, standard output that of the program.
LOGDRIVE_GLOG_FN_ void write_console(const State &shared, int descriptor, int severity, const char *text, size_t length) {
    const bool is_stderr = descriptor == STDERR_FILENO;
    const bool wants_colour = is_stderr ? shared.colorlogtostderr.value : shared.colorlogtostdout.value;
    ::logdrive::Out line;
    if (wants_colour && severity != GLOG_INFO && is_colour_terminal(descriptor)) {
        line.append(severity == GLOG_WARNING ? "\033[0;33m" : "\033[0;31m");
        line.append(text, length);
        line.append("\033[m");
        text = line.data(), length = line.size();
    }
    if (is_stderr) write_to_stderr(text, length);
    else fwrite(text, 1, length, stdout);
}

LOGDRIVE_GLOG_FN_ void echo(const State &shared, const char *file, int line, int severity, const char *text, size_t length,
                            bool has_front) {
    const int kept = errno;
    const bool is_stderr = severity >= shared.stderr_from();
    if (is_stderr || (shared.waits && shared.is_console())) {
        ::logdrive::Out whole;
        if (shared.log_prefix.value && !has_front && line != NO_PREFIX) put_front(shared, whole, file, line, severity);
        const size_t room = ::logdrive::detail::RECORD_BYTES_MAX - whole.size() - 1;
        whole.append(text, length < room ? length : room);
        whole.append('\n');
        write_console(shared, is_stderr ? STDERR_FILENO : STDOUT_FILENO, severity, whole.data(), whole.size());
    }
    if (severity >= shared.flush_from()) logdrive_flush();
    errno = kept;
}

LOGDRIVE_GLOG_FN_ void write_message(const char *file, int line, int severity, const char *text, size_t length) {
    ::logdrive::Out whole;
    State &shared = state();
    const bool has_front = shared.has_prefix() && line != NO_PREFIX;
    if (LOGDRIVE_UNLIKELY(has_front)) {
        shared.prefixer(shared, whole, file, line, severity);
        whole.append(text, length);
        text = whole.data();
        length = whole.size();
    }
    if (shared.uses_loggers() && !shared.is_console()) send_to_loggers(shared, severity, text, length);
    const ::logdrive::detail::Meta meta = {
        file, "", "", "", nullptr, MESSAGE_KINDS, MESSAGE_UNITS, uint32_t(line), 1, RECORD_LEVELS[severity]};
    ::logdrive::detail::SiteWord site;
    const auto describe = [](::logdrive::detail::Description &out, const ::logdrive::detail::Meta &of) {
        ::logdrive::detail::describe_shown(out, of, "{}", 2);
    };
    const logdrive_site *known = ::logdrive::detail::known(site, meta, describe);
    const bool is_on = known != nullptr && logdrive_admit(known);
    using Text = ::logdrive::detail::Blob<::logdrive::detail::DISPLAY>;
    if (is_on) ::logdrive::detail::write_slowly<Text>(known, length + 4, Text{text, ::logdrive::detail::blob_length(length)});
    if (is_on || !logdrive_is_running()) echo(shared, file, line, severity, text, length, has_front);
}

LOGDRIVE_GLOG_FN_ void send_to_loggers(State &shared, int severity, const char *text, size_t length) {
    std::string line(text, length);
    line += '\n';
    SinkLock lock(shared.sinks_mutex);
    for (int place = severity; place >= 0; --place)
        if (shared.loggers[place] != nullptr)
            shared.loggers[place]->Write(severity > shared.logbuflevel.value, std::chrono::system_clock::now(), line.data(), line.size());
}

LOGDRIVE_GLOG_FN_ void send_to_sinks(const char *file, int line, int severity, const LogMessageTime &time, const char *text,
                          size_t length) {
    State &shared = state();
    SinkLock lock(shared.sinks_mutex);
    for (size_t i = shared.sinks.size(); i-- > 0;)
        shared.sinks[i]->send(severity, file, base_name(file), line, time, text, length);
    for (size_t i = shared.sinks.size(); i-- > 0;) shared.sinks[i]->WaitTillSent();
}
LOGDRIVE_GLOG_FN_ void send_now(const char *file, int line, int severity, const char *text, size_t length) {
    send_to_sinks(file, line, severity, LogMessageTime(), text, length);
}

LOGDRIVE_GLOG_FN_ int counter_index() {
    static const int index = std::ios_base::xalloc();
    return index;
}

}  // namespace internal

LOGDRIVE_GLOG_FN_ std::ostream &operator<<(std::ostream &out, const PRIVATE_Counter &) {
    return out << out.iword(internal::counter_index());
}

LOGDRIVE_GLOG_FN_ LogMessage::LogStream::LogStream(int64 counter) : std::ostream(nullptr), buffer_(out_) {
    rdbuf(&buffer_);
    set_ctr(counter);
}
LOGDRIVE_GLOG_FN_ LogMessage::LogStream::~LogStream() {}
LOGDRIVE_GLOG_FN_ int64 LogMessage::LogStream::ctr() const {
    return const_cast<LogStream *>(this)->iword(internal::counter_index());
}
LOGDRIVE_GLOG_FN_ void LogMessage::LogStream::set_ctr(int64 counter) { iword(internal::counter_index()) = long(counter); }

LOGDRIVE_GLOG_FN_ LogMessage::LogMessage(const char *file, int line) : LogMessage(file, line, GLOG_INFO) {}
LOGDRIVE_GLOG_FN_ LogMessage::LogMessage(const char *file, int line, LogSeverity severity)
    : LogMessage(file, line, severity, 0, &LogMessage::SendToLog) {}
LOGDRIVE_GLOG_FN_ LogMessage::LogMessage(const char *file, int line, LogSeverity severity, int64 counter, SendMethod send)
    : file_(file), line_(line), severity_(severity < 0 ? 0 : severity > 3 ? 2 : severity), send_(send),
      errno_(errno), stream_(counter) {
    if (internal::state().wants_stack(file, line)) internal::put_stack(stream_.out());
}
LOGDRIVE_GLOG_FN_ LogMessage::LogMessage(const char *file, int line, LogSeverity severity, LogSink *sink, bool also_send_to_log)
    : LogMessage(file, line, severity, 0,
                 also_send_to_log ? &LogMessage::SendToSinkAndLog : &LogMessage::SendToSink) {
    sink_ = sink;
}
LOGDRIVE_GLOG_FN_ LogMessage::LogMessage(const char *file, int line, LogSeverity severity, std::vector<std::string> *outvec)
    : LogMessage(file, line, severity, 0, &LogMessage::SaveOrSendToLog) {
    outvec_ = outvec;
}
LOGDRIVE_GLOG_FN_ LogMessage::LogMessage(const char *file, int line, LogSeverity severity, std::string *message)
    : LogMessage(file, line, severity, 0, &LogMessage::WriteToStringAndLog) {
    message_ = message;
}
LOGDRIVE_GLOG_FN_ LogMessage::LogMessage(const char *file, int line, const CheckOpString &result) : LogMessage(file, line, GLOG_FATAL) {
    stream() << "Check failed: " << *result.str_ << " ";
}
LOGDRIVE_GLOG_FN_ LogMessage::~LogMessage() noexcept(false) { Flush(); }
LOGDRIVE_GLOG_FN_ pid_t LogMessage::thread_id() const noexcept { return pid_t(syscall(SYS_gettid)); }
LOGDRIVE_GLOG_FN_ int64 LogMessage::num_messages(int severity) {
    const internal::State &state = internal::state();
    if (severity != GLOG_INFO) return state.counted(severity);
    const int64 others = state.counted(GLOG_WARNING) + state.counted(GLOG_ERROR) + state.counted(GLOG_FATAL);
    const int64 all = state.committed_before + internal::committed() + __atomic_load_n(&state.unlogged, __ATOMIC_RELAXED);
    return all > others ? all - others : 0;
}

LOGDRIVE_GLOG_FN_ void LogMessage::Flush() {
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

LOGDRIVE_GLOG_FN_ void LogMessage::SendToLog() {
    internal::State &state = internal::state();
    internal::start_if_needed(state);
    state.note_logged(severity_);
    internal::write_message(file_, line_, severity_, text(), length());
    // As with glog, sinks have it behind standard error.
    if (state.has_sinks()) internal::send_to_sinks(file_, line_, severity_, time_, text(), length());
}
LOGDRIVE_GLOG_FN_ void LogMessage::SendToSyslogAndLog() {
    static const int priorities[] = {internal::SYSLOG_INFO_, internal::SYSLOG_WARNING_, internal::SYSLOG_ERR_,
                                     internal::SYSLOG_EMERG_};
    ::syslog(internal::SYSLOG_USER_ | priorities[severity_], "%.*s", int(length()), text());
    SendToLog();
}
[[noreturn]] LOGDRIVE_GLOG_FN_ void LogMessage::Fail() {
    if (internal::state().fail != nullptr) internal::state().fail();
    internal::print_stack(2, internal::write_to_stderr);
    if (internal::state().failure_handler) signal(SIGABRT, SIG_DFL);
    abort();
}

LOGDRIVE_GLOG_FN_ size_t LogMessage::length() const {
    const size_t length = stream_.pcount();
    return length > 0 && text()[length - 1] == '\n' ? length - 1 : length;
}
LOGDRIVE_GLOG_FN_ void LogMessage::to_sink() {
    if (sink_ != nullptr) {
        sink_->send(severity_, file_, internal::base_name(file_), line_, time_, text(), length());
        sink_->WaitTillSent();
    }
}
LOGDRIVE_GLOG_FN_ void LogMessage::SendToSinkAndLog() {
    to_sink();
    SendToLog();
}
LOGDRIVE_GLOG_FN_ void LogMessage::SendToSink() {
    to_sink();
    internal::state().count_unlogged();
}
LOGDRIVE_GLOG_FN_ void LogMessage::WriteToStringAndLog() {
    if (message_ != nullptr) message_->assign(text(), length());
    SendToLog();
}
LOGDRIVE_GLOG_FN_ void LogMessage::SaveOrSendToLog() {
    if (outvec_ == nullptr) return SendToLog();
    outvec_->push_back(std::string(text(), length()));
    internal::state().count_unlogged();
}

LOGDRIVE_GLOG_FN_ void LogMessage::end() {
    internal::State &state = internal::state();
    const size_t shortened = length() < sizeof state.fatal_message - 1 ? length() : sizeof state.fatal_message - 1;
    memcpy(state.fatal_message, text(), shortened);
    logdrive_flush();
    internal::write_to_stderr("*** Check failure stack trace: ***\n", 35);
    Fail();
}


LOGDRIVE_GLOG_FN_ LogMessageFatal::LogMessageFatal(const char *file, int line) : LogMessage(file, line, GLOG_FATAL) {}
LOGDRIVE_GLOG_FN_ LogMessageFatal::LogMessageFatal(const char *file, int line, const CheckOpString &result)
    : LogMessage(file, line, result) {}
LOGDRIVE_GLOG_FN_ LogMessageFatal::~LogMessageFatal() noexcept(false) {
    Flush();
    Fail();
}

}  // namespace logdrive_glog
LOGDRIVE_GLOG_API_ std::string StrError(int err) {
    char text[128];
    return std::string(strerror_r(err, text, sizeof text));
}
inline namespace logdrive_glog {
LOGDRIVE_GLOG_FN_ ErrnoLogMessage::~ErrnoLogMessage() noexcept(false) {
    stream() << ": " << StrError(preserved_errno()) << " [" << preserved_errno() << "]";
}
LOGDRIVE_GLOG_FN_ void LogAtLevel(int severity, const std::string &message) {
    LogMessage(__FILE__, __LINE__, severity).stream() << message;
}

}  // namespace logdrive_glog
}  // namespace google

#endif
