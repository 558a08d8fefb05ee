// A library that uses the real glog, for a program that uses the facade.
#include <glog/logging.h>

void log_with_glog(const char *dir);
void log_with_glog(const char *dir) {
    FLAGS_log_dir = dir;
    FLAGS_logtostderr = false;
    google::InitGoogleLogging("real");
    LOG(INFO) << "from the real glog " << 1;
    VLOG(2) << "not verbose there";
    LOG(WARNING) << "a warning of glog's";
    google::FlushLogFiles(google::INFO);
}
