// Implementation of the functions of glog_compat.hpp.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_FILES_HPP
#define LOGDRIVE_DETAIL_GLOG_FILES_HPP

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace google {

LOGDRIVE_GLOG_API_ int posix_strerror_r(int err, char *buf, size_t len) {
    if (buf == nullptr || len == 0) return -1;
    const std::string text = StrError(err);
    const size_t length = text.size() < len ? text.size() : len - 1;
    memcpy(buf, text.data(), length);
    buf[length] = 0;
    return 0;
}

inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {
LOGDRIVE_GLOG_FN_ void tell_of_truncation(const char *path) {
    ErrnoLogMessage(__FILE__, __LINE__, GLOG_ERROR, 0, &LogMessage::SendToLog).stream() << "Unable to truncate " << path;
}
}  // namespace internal

LOGDRIVE_GLOG_FN_ bool InitVLOG3__(SiteFlag *site_flag, int32 *site_default, const char *fname, int32 verbose_level) {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    internal::read_vmodule(state);
    const std::string_view module = internal::module_of(fname);
    const internal::VModule *named = internal::pattern_of(state, module);
    if (named != nullptr) site_flag->level = named->level;
    return *(named != nullptr ? named->level : site_default) >= verbose_level;
}

LOGDRIVE_GLOG_FN_ void TruncateLogFile(const char *path, uint64 limit, uint64 keep) {
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
LOGDRIVE_GLOG_FN_ void TruncateStdoutStderr() {
    const uint64 limit = uint64(internal::state().max_log_size.value) << 20;
    TruncateLogFile("/proc/self/fd/1", limit, 1 << 20);
    TruncateLogFile("/proc/self/fd/2", limit, 1 << 20);
}

}  // namespace logdrive_glog
}  // namespace google

#endif
