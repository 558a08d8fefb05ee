// Loggers of the program at the places of log files: base::SetLogger() and its like, for glog_control.hpp.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_LOGGERS_HPP
#define LOGDRIVE_DETAIL_GLOG_LOGGERS_HPP

#include <logdrive/detail/glog_send.hpp>
#include <logdrive/detail/glog_setup.hpp>
#include <logdrive/detail/glog_start.hpp>
#include <logdrive/detail/site.hpp>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

// The file of one severity. What it is given goes to that file only.
class FileLogger final : public base::Logger {
public:
    explicit FileLogger(int severity) : severity_(severity) {}
    using base::Logger::Write;
    void Write(bool force_flush, time_t, const char *message, size_t message_len) override {
        if (message_len > 0 && message[message_len - 1] == '\n') --message_len;
        const ::logdrive::detail::Meta meta = {
            "", "", LOGGER_TARGETS[severity_], "", nullptr, MESSAGE_KINDS, MESSAGE_UNITS, 0, 1, RECORD_LEVELS[severity_]};
        ::logdrive::detail::SiteWord site;
        const auto describe = [](::logdrive::detail::Description &out, const ::logdrive::detail::Meta &of) {
            ::logdrive::detail::describe_shown(out, of, "{}", 2);
        };
        const logdrive_site *known = ::logdrive::detail::known(site, meta, describe);
        using Text = ::logdrive::detail::Blob<::logdrive::detail::DISPLAY>;
        const uint32_t length = ::logdrive::detail::blob_length(message_len);
        if (known != nullptr && logdrive_admit(known)) {
            ::logdrive::detail::write_slowly<Text>(known, size_t(length) + 4, Text{message, length});
            // It is no message of its own.
            state().count_unlogged(-1);
        }
        if (force_flush) logdrive_flush();
    }
    void Flush() override { logdrive_flush(); }
    uint32 LogSize() override {
        struct stat found;
        return stat(file_name(state(), severity_).c_str(), &found) == 0 ? uint32(found.st_size) : 0;
    }

private:
    const int severity_;
};

LOGDRIVE_GLOG_FN_ base::Logger *file_logger(State &state, int severity) {
    if (state.file_loggers[severity] == nullptr) {
        pin_module(reinterpret_cast<void *>(&file_logger));
        state.file_loggers[severity] = new FileLogger(severity);
    }
    return state.file_loggers[severity];
}

LOGDRIVE_GLOG_FN_ void flush_loggers(State &state, int severity) {
    SinkLock lock(state.sinks_mutex);
    for (int place = severity < 0 ? 0 : severity; place < NUM_SEVERITIES; ++place)
        if (state.loggers[place] != nullptr) state.loggers[place]->Flush();
}

// They are the library's since SetLogger().
LOGDRIVE_GLOG_FN_ void end_loggers(State &state) {
    base::Logger *ended[NUM_SEVERITIES];
    {
        SinkLock lock(state.sinks_mutex);
        for (int place = 0; place < NUM_SEVERITIES; ++place) {
            ended[place] = state.loggers[place];
            state.loggers[place] = nullptr;
        }
        state.use_loggers(false);
    }
    for (base::Logger *logger : ended) delete logger;
}

}  // namespace internal

namespace base {
LOGDRIVE_GLOG_FN_ Logger *GetLogger(LogSeverity level) {
    ::google::logdrive_glog::internal::State &state = ::google::logdrive_glog::internal::state();
    Logger *found;
    {
        ::google::logdrive_glog::internal::SinkLock lock(state.sinks_mutex);
        ::google::logdrive_glog::internal::pin_prefixer(state);
        found = state.loggers[level];
        if (found == nullptr) found = ::google::logdrive_glog::internal::file_logger(state, level);
        if (state.uses_loggers()) return found;
        state.use_loggers(true);
    }
    ::google::logdrive_glog::internal::changed(state);
    return found;
}
LOGDRIVE_GLOG_FN_ void SetLogger(LogSeverity level, Logger *logger) {
    ::google::logdrive_glog::internal::State &state = ::google::logdrive_glog::internal::state();
    {
        ::google::logdrive_glog::internal::SinkLock lock(state.sinks_mutex);
        ::google::logdrive_glog::internal::pin_prefixer(state);
        state.loggers[level] = logger == state.file_loggers[level] ? nullptr : logger;
        state.use_loggers(true);
    }
    ::google::logdrive_glog::internal::changed(state);
}
}  // namespace base

}  // namespace logdrive_glog
}  // namespace google

#endif
