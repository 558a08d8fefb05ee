// Removal of old log files, also of earlier processes: EnableLogCleaner(), for glog_start.hpp.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_CLEANER_HPP
#define LOGDRIVE_DETAIL_GLOG_CLEANER_HPP

#include <logdrive/detail/glog_state.hpp>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

// Returns true for `20261121-123456.417`, the time and process in the name of a file.
LOGDRIVE_GLOG_FN_ bool is_time_and_process(const char *text, size_t length) noexcept {
    constexpr size_t TIME_BYTES = 15;
    if (length <= TIME_BYTES + 1) return false;
    for (size_t i = 0; i < length; ++i) {
        const bool is_right = i == 8 ? text[i] == '-' : i == TIME_BYTES ? text[i] == '.' : text[i] >= '0' && text[i] <= '9';
        if (!is_right) return false;
    }
    return true;
}

// Removes files whose names are `base`, a time and process, and `extension`, and that were last written longer ago. Not `current`.
LOGDRIVE_GLOG_FN_ void clean_files(const std::string &base, const std::string &extension, int64 keep_seconds,
                                   const std::string &current) {
    const size_t slash = base.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : base.substr(0, slash + 1);
    const std::string front = slash == std::string::npos ? base : base.substr(slash + 1);
    DIR *const all = opendir(directory.c_str());
    if (all == nullptr) return;
    const time_t now = time(nullptr);
    while (const struct dirent *const entry = readdir(all)) {
        const std::string_view name = entry->d_name;
        if (name.size() < front.size() + extension.size() || name.substr(0, front.size()) != front) continue;
        if (name.substr(name.size() - extension.size()) != extension) continue;
        if (!is_time_and_process(name.data() + front.size(), name.size() - front.size() - extension.size())) continue;
        struct stat found;
        const bool is_old = fstatat(dirfd(all), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found.st_mode) &&
                            difftime(now, found.st_mtime) > double(keep_seconds);
        if (is_old && current.compare(slash == std::string::npos ? 0 : slash + 1, std::string::npos, entry->d_name) != 0)
            unlinkat(dirfd(all), entry->d_name, 0);
    }
    closedir(all);
}

}  // namespace internal
}  // namespace logdrive_glog
}  // namespace google

#endif
