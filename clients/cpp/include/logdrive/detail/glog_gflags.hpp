// The facade's flags beside gflags: DECLARE_bool(logtostderr) and its like, which programs have for glog's own variables, and
// the command line, with -DLOGDRIVE_GLOG_GFLAGS for the files of the program that include the facade (the CMake target
// logdrive::glog_gflags and the package logdrive-glog-gflags have it) or with LOGDRIVE_GLOG_DEFINE_GFLAGS() in one file.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_GFLAGS_HPP
#define LOGDRIVE_DETAIL_GLOG_GFLAGS_HPP

// glog's header brings gflags with it where that is installed. None of it is used here without the options above.
#if defined(__has_include) && !defined(LOGDRIVE_GLOG_NO_GFLAGS)
#if __has_include(<gflags/gflags.h>)
#include <gflags/gflags.h>
#endif
#endif
#include <logdrive/detail/glog_control.hpp>

// A flag that the facade has is declared already; others are as gflags has them.
#define LOGDRIVE_GLOG_OWN_v ~, 1
#define LOGDRIVE_GLOG_OWN_minloglevel ~, 1
#define LOGDRIVE_GLOG_OWN_stderrthreshold ~, 1
#define LOGDRIVE_GLOG_OWN_logbuflevel ~, 1
#define LOGDRIVE_GLOG_OWN_logbufsecs ~, 1
#define LOGDRIVE_GLOG_OWN_logfile_mode ~, 1
#define LOGDRIVE_GLOG_OWN_max_log_size ~, 1
#define LOGDRIVE_GLOG_OWN_logtostderr ~, 1
#define LOGDRIVE_GLOG_OWN_alsologtostderr ~, 1
#define LOGDRIVE_GLOG_OWN_colorlogtostderr ~, 1
#define LOGDRIVE_GLOG_OWN_logtostdout ~, 1
#define LOGDRIVE_GLOG_OWN_colorlogtostdout ~, 1
#define LOGDRIVE_GLOG_OWN_log_prefix ~, 1
#define LOGDRIVE_GLOG_OWN_log_year_in_prefix ~, 1
#define LOGDRIVE_GLOG_OWN_timestamp_in_logfile_name ~, 1
#define LOGDRIVE_GLOG_OWN_log_utc_time ~, 1
#define LOGDRIVE_GLOG_OWN_stop_logging_if_full_disk ~, 1
#define LOGDRIVE_GLOG_OWN_symbolize_stacktrace ~, 1
#define LOGDRIVE_GLOG_OWN_log_file_header ~, 1
#define LOGDRIVE_GLOG_OWN_drop_log_memory ~, 1
#define LOGDRIVE_GLOG_OWN_logcleansecs ~, 1
#define LOGDRIVE_GLOG_OWN_logemaillevel ~, 1
#define LOGDRIVE_GLOG_OWN_logmailer ~, 1
#define LOGDRIVE_GLOG_OWN_alsologtoemail ~, 1
#define LOGDRIVE_GLOG_OWN_log_dir ~, 1
#define LOGDRIVE_GLOG_OWN_log_link ~, 1
#define LOGDRIVE_GLOG_OWN_vmodule ~, 1
#define LOGDRIVE_GLOG_OWN_log_backtrace_at ~, 1
#define LOGDRIVE_GLOG_OWN_logdrive_full ~, 1
#define LOGDRIVE_GLOG_OWN_logdrive_run_dir ~, 1
#define LOGDRIVE_GLOG_OWN_logdrive_ring_bytes ~, 1
#define LOGDRIVE_GLOG_SECOND_(first, second, ...) second
#define LOGDRIVE_GLOG_IS_OWN_(...) LOGDRIVE_GLOG_SECOND_(__VA_ARGS__, 0, ~)
#define LOGDRIVE_GLOG_JOIN_(a, b) LOGDRIVE_GLOG_JOINED_(a, b)
#define LOGDRIVE_GLOG_JOINED_(a, b) a##b
#define LOGDRIVE_GLOG_DECLARE_1(space, type, name) static_assert(true, "")
#define LOGDRIVE_GLOG_DECLARE_0(space, type, name) \
    namespace space {                              \
    extern type FLAGS_##name;                      \
    }                                              \
    using space::FLAGS_##name
#define LOGDRIVE_GLOG_DECLARE_(is_own, space, type, name) \
    LOGDRIVE_GLOG_JOIN_(LOGDRIVE_GLOG_DECLARE_, LOGDRIVE_GLOG_IS_OWN_(is_own))(space, type, name)
#undef DECLARE_bool
#undef DECLARE_int32
#undef DECLARE_uint32
#undef DECLARE_string
#define DECLARE_bool(name) LOGDRIVE_GLOG_DECLARE_(LOGDRIVE_GLOG_OWN_##name, fLB, bool, name)
#define DECLARE_int32(name) LOGDRIVE_GLOG_DECLARE_(LOGDRIVE_GLOG_OWN_##name, fLI, ::google::int32, name)
#define DECLARE_uint32(name) LOGDRIVE_GLOG_DECLARE_(LOGDRIVE_GLOG_OWN_##name, fLU, ::google::uint32, name)
#define DECLARE_string(name) LOGDRIVE_GLOG_DECLARE_(LOGDRIVE_GLOG_OWN_##name, fLS, std::string &, name)

#if defined(GFLAGS_NAMESPACE)
namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

template <class Use> void each_option(const Use &use) {
    use(&FLAGS_v, "v", "Shows VLOG(m) of all files for m <= this");
    use(&FLAGS_minloglevel, "minloglevel", "Messages below this severity are not logged");
    use(&FLAGS_stderrthreshold, "stderrthreshold", "Messages of this severity and above go to standard error, too");
    use(&FLAGS_logbuflevel, "logbuflevel", "Below 0, INFO is written at once");
    use(&FLAGS_logbufsecs, "logbufsecs", "0 has lines written within a millisecond");
    use(&FLAGS_logfile_mode, "logfile_mode", "Permissions of log files");
    use(&FLAGS_max_log_size, "max_log_size", "MiB of a log file, then it is rotated");
    use(&FLAGS_logtostderr, "logtostderr", "Log to standard error instead of files");
    use(&FLAGS_alsologtostderr, "alsologtostderr", "Log to standard error and to files");
    use(&FLAGS_colorlogtostderr, "colorlogtostderr", "Read and without a meaning");
    use(&FLAGS_logtostdout, "logtostdout", "Log to standard output instead of files");
    use(&FLAGS_colorlogtostdout, "colorlogtostdout", "Read and without a meaning");
    use(&FLAGS_log_prefix, "log_prefix", "Lines begin with severity, time, thread and place");
    use(&FLAGS_log_year_in_prefix, "log_year_in_prefix", "The date has its year");
    use(&FLAGS_timestamp_in_logfile_name, "timestamp_in_logfile_name", "Names of log files end with time and process");
    use(&FLAGS_log_utc_time, "log_utc_time", "Times are of UTC");
    use(&FLAGS_stop_logging_if_full_disk, "stop_logging_if_full_disk", "Read and without a meaning");
    use(&FLAGS_symbolize_stacktrace, "symbolize_stacktrace", "Stacks have names");
    use(&FLAGS_log_file_header, "log_file_header", "A log file begins with a header");
    use(&FLAGS_drop_log_memory, "drop_log_memory", "Read and without a meaning");
    use(&FLAGS_logcleansecs, "logcleansecs", "Read and without a meaning");
    use(&FLAGS_logemaillevel, "logemaillevel", "Read and without a meaning");
    use(static_cast<std::string *>(&FLAGS_logmailer), "logmailer", "Read and without a meaning");
    use(static_cast<std::string *>(&FLAGS_alsologtoemail), "alsologtoemail", "Read and without a meaning");
    use(static_cast<std::string *>(&FLAGS_log_dir), "log_dir", "Directory of log files");
    use(static_cast<std::string *>(&FLAGS_log_link), "log_link", "Directory of the links to them");
    use(static_cast<std::string *>(&FLAGS_vmodule), "vmodule", "Verbose levels of files: name=level,pattern*=level");
    use(static_cast<std::string *>(&FLAGS_log_backtrace_at), "log_backtrace_at", "Messages of this place, FILE:LINE, come with the stack of their call");
    use(static_cast<std::string *>(&FLAGS_logdrive_full), "logdrive_full", "When a thread has logged faster than it is written: wait, drop or block");
    use(static_cast<std::string *>(&FLAGS_logdrive_run_dir), "logdrive_run_dir", "Where Logdrive keeps what is not written yet");
    use(static_cast<std::string *>(&FLAGS_logdrive_ring_bytes), "logdrive_ring_bytes", "Bytes that each thread has for what is not written yet");
}

inline void set_option(bool *value, const std::string &text) { *value = text == "true"; }
inline void set_option(std::string *value, const std::string &text) { *value = text; }
template <class N> inline void set_option(N *value, const std::string &text) {
    *value = static_cast<N>(strtoll(text.c_str(), nullptr, 0));
}

// Templates, so that files that do not use them do not compile them.
//
// Value that the command line set in a flag of this name that belongs to another library, such as a real glog.
template <class = void> void adopt_options() {
    each_option([](auto *value, const char *name, const char *) {
        ::GFLAGS_NAMESPACE::CommandLineFlagInfo known;
        if (::GFLAGS_NAMESPACE::GetCommandLineFlagInfo(name, &known) && !known.is_default && known.flag_ptr != value)
            set_option(value, known.current_value);
    });
}

// gflags asks these before it changes a flag, and then writes the same value: what depends on the flag knows it at once.
inline bool take_verbosity(const char *, int32 level) {
    state().v = level;
    return true;
}
inline bool take_least_severity(const char *, int32 severity) {
    state().minloglevel = severity;
    return true;
}
inline bool take_vmodule(const char *, const std::string &patterns) {
    state().vmodule = patterns;
    return true;
}

// gflags complains on standard error about a flag that it knows under another address: one of a real glog's.
template <class Value, class Take>
void watch_option(const char *name, Value *value, Take *take) {
    ::GFLAGS_NAMESPACE::CommandLineFlagInfo known;
    if (!::GFLAGS_NAMESPACE::GetCommandLineFlagInfo(name, &known) || known.flag_ptr != value) return;
    ::GFLAGS_NAMESPACE::RegisterFlagValidator(value, take);
}

// Makes the flags options of the command line. Parse it before InitGoogleLogging.
template <class = void> bool own_options() {
    each_option([](auto *value, const char *name, const char *help) {
        ::GFLAGS_NAMESPACE::CommandLineFlagInfo known;
        if (::GFLAGS_NAMESPACE::GetCommandLineFlagInfo(name, &known)) return;
        using Value = std::remove_pointer_t<decltype(value)>;
        ::GFLAGS_NAMESPACE::FlagRegisterer(name, help, "logdrive/glog.h", value, new Value(*value));
    });
    watch_option("v", &FLAGS_v, &take_verbosity);
    watch_option("minloglevel", &FLAGS_minloglevel, &take_least_severity);
    watch_option("vmodule", static_cast<std::string *>(&FLAGS_vmodule), &take_vmodule);
    pin_module(reinterpret_cast<void *>(&adopt_options<>));
    state().adopt = &adopt_options<>;
    return true;
}

}  // namespace internal
}  // namespace logdrive_glog
}  // namespace google

#define LOGDRIVE_GLOG_DEFINE_GFLAGS() \
    static const bool logdrive_glog_options = (::google::logdrive_glog::internal::own_options<>(), true)
#if defined(LOGDRIVE_GLOG_GFLAGS)
namespace logdrive_glog_flags LOGDRIVE_HIDDEN {
inline const bool are_options = ::google::logdrive_glog::internal::own_options<>();
}
#endif
#endif

#endif
