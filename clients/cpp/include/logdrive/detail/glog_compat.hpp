// Names of glog's header that programs use now and then: helpers, and parts of glog's insides that stand in its interface.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_COMPAT_HPP
#define LOGDRIVE_DETAIL_GLOG_COMPAT_HPP

#include <logdrive/detail/glog_check.hpp>
#include <logdrive/detail/glog_control.hpp>

namespace google {

// strerror_r() as POSIX has it, whichever the C library has: 0, or an error and an empty text.
LOGDRIVE_GLOG_API_ int posix_strerror_r(int err, char *buf, size_t len);

inline namespace logdrive_glog {

typedef std::string _Check_string;

// A program with a VLOG_IS_ON of its own keeps the level of a file in these.
struct SiteFlag {
    int32 *level;
    const char *base_name;
    size_t base_len;
    SiteFlag *next;
};
// Returns true if a file's messages of this level are on. Where a pattern of --vmodule names the file, the level that it gives is
// kept in `site_flag`, so that later calls need no lookup; else `site_default` counts.
LOGDRIVE_GLOG_FN_ bool InitVLOG3__(SiteFlag *site_flag, int32 *site_default, const char *fname, int32 verbose_level);

// Keeps the last `keep` bytes of a file that is longer than `limit`. Links are followed in /proc/self/fd only.
LOGDRIVE_GLOG_FN_ void TruncateLogFile(const char *path, uint64 limit, uint64 keep);
LOGDRIVE_GLOG_FN_ void TruncateStdoutStderr();

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
