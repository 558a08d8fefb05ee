// Inner functions of glog that its tests name beside its interface, for those that run with the facade.
#include <logdrive/glog.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace google {

// Called for a failed check, by which the tests go on behind one.
void (*g_logging_fail_func)() = &abort;

inline namespace glog_internal_namespace_ {
const char *const_basename(const char *path);
const char *const_basename(const char *path) { return internal::base_name(path); }

bool SafeFNMatch_(const char *pattern, size_t pattern_length, const char *text, size_t length);
bool SafeFNMatch_(const char *pattern, size_t pattern_length, const char *text, size_t length) {
    return internal::matches(pattern, pattern + pattern_length, text, text + length);
}
}  // namespace glog_internal_namespace_

void GetExistingTempDirectories(std::vector<std::string> &list);
void GetExistingTempDirectories(std::vector<std::string> &list) { GetExistingTempDirectories(&list); }

}  // namespace google

namespace {
[[noreturn]] void fail() {
    google::g_logging_fail_func();
    abort();
}
const bool is_installed = (google::InstallFailureFunction(&fail), true);
}  // namespace
