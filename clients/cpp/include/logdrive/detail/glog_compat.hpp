// Names of glog's header that programs use now and then: helpers, and parts of glog's insides that stand in its interface.
#ifndef LOGDRIVE_DETAIL_GLOG_COMPAT_HPP
#define LOGDRIVE_DETAIL_GLOG_COMPAT_HPP

#include <logdrive/detail/glog_check.hpp>
#include <logdrive/detail/glog_control.hpp>
#include <fcntl.h>

namespace google {
inline namespace logdrive_glog {

typedef std::string _Check_string;

// strerror_r() as POSIX has it, whichever the C library has: 0, or an error and an empty text.
inline int posix_strerror_r(int err, char *buf, size_t len) {
    if (buf == nullptr || len == 0) return -1;
    const std::string text = StrError(err);
    const size_t length = text.size() < len ? text.size() : len - 1;
    memcpy(buf, text.data(), length);
    buf[length] = 0;
    return 0;
}

namespace internal LOGDRIVE_HIDDEN {
inline void tell_of_truncation(const char *path) {
    ErrnoLogMessage(__FILE__, __LINE__, GLOG_ERROR, 0, &LogMessage::SendToLog).stream() << "Unable to truncate " << path;
}
}  // namespace internal

// Keeps the last `keep` bytes of a file that is longer than `limit`. Links are followed in /proc/self/fd only.
inline void TruncateLogFile(const char *path, uint64 limit, uint64 keep) {
    const bool is_descriptor = strncmp(path, "/proc/self/fd/", 14) == 0;
    const int file = open(path, O_RDWR | O_CLOEXEC | (is_descriptor ? 0 : O_NOFOLLOW));
    struct stat found;
    if (file == -1) {
        // The kernel refuses to write into a file beyond its limit.
        if (errno == EFBIG && truncate(path, 0) != 0) internal::tell_of_truncation(path);
        return;
    }
    if (fstat(file, &found) == 0 && S_ISREG(found.st_mode) && uint64(found.st_size) > limit && uint64(found.st_size) > keep) {
        off_t from = found.st_size - off_t(keep), to = 0;
        char block[8192];
        for (ssize_t length; (length = pread(file, block, sizeof block, from)) > 0; from += length, to += length)
            if (pwrite(file, block, size_t(length), to) != length) break;
        if (ftruncate(file, to) != 0) internal::tell_of_truncation(path);
    }
    close(file);
}
inline void TruncateStdoutStderr() {
    const uint64 limit = uint64(internal::state().max_log_size.value) << 20;
    TruncateLogFile("/proc/self/fd/1", limit, 1 << 20);
    TruncateLogFile("/proc/self/fd/2", limit, 1 << 20);
}

namespace base {
namespace internal {
inline LogSeverity NormalizeSeverity(LogSeverity s) { return s < GLOG_INFO ? GLOG_INFO : s > GLOG_FATAL ? GLOG_ERROR : s; }
}  // namespace internal

// `expr (V1 vs. V2)`
class CheckOpMessageBuilder {
public:
    explicit CheckOpMessageBuilder(const char *exprtext) { stream_ << exprtext << " ("; }
    std::ostream *ForVar1() { return &stream_; }
    std::ostream *ForVar2() {
        stream_ << " vs. ";
        return &stream_;
    }
    std::string *NewString() {
        stream_ << ")";
        return new std::string(stream_.str());
    }

private:
    std::ostringstream stream_;
};
}  // namespace base

}  // namespace logdrive_glog
}  // namespace google

namespace base_logging {
inline namespace logdrive_glog {

// A stream's buffer over memory of the caller's. What does not fit is left out; two bytes stay free.
class LogStreamBuf : public std::streambuf {
public:
    LogStreamBuf(char *buf, int len) { setp(buf, buf + len - 2); }
    int_type overflow(int_type ch) override { return ch; }
    size_t pcount() const { return static_cast<size_t>(pptr() - pbase()); }
    char *pbase() const { return std::streambuf::pbase(); }
};

}  // namespace logdrive_glog
}  // namespace base_logging

// The flags in the namespaces that gflags has for them.
namespace fLB {
using logdrive_glog_flags::FLAGS_alsologtostderr;
using logdrive_glog_flags::FLAGS_colorlogtostderr;
using logdrive_glog_flags::FLAGS_log_prefix;
using logdrive_glog_flags::FLAGS_log_utc_time;
using logdrive_glog_flags::FLAGS_logtostderr;
using logdrive_glog_flags::FLAGS_stop_logging_if_full_disk;
using logdrive_glog_flags::FLAGS_timestamp_in_logfile_name;
}  // namespace fLB
namespace fLI {
using logdrive_glog_flags::FLAGS_logbuflevel;
using logdrive_glog_flags::FLAGS_logbufsecs;
using logdrive_glog_flags::FLAGS_logfile_mode;
using logdrive_glog_flags::FLAGS_minloglevel;
using logdrive_glog_flags::FLAGS_stderrthreshold;
using logdrive_glog_flags::FLAGS_v;
}  // namespace fLI
namespace fLU {
using logdrive_glog_flags::FLAGS_max_log_size;
}
namespace fLS {
using logdrive_glog_flags::FLAGS_log_dir;
using logdrive_glog_flags::FLAGS_log_link;
using logdrive_glog_flags::FLAGS_vmodule;
}  // namespace fLS

#endif
