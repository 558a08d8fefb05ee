// The facade and the real glog in one process: each has its own state and its own files, and no symbol of one is taken for
// the other's.
#include "check.hpp"
#include <glog/logging.h>

#include <dlfcn.h>

void log_with_glog(const char *dir);

int main(int argc, char **argv) {
    check::Dir dir;
    // The real library has defined the options: what they are set to is the facade's as well.
    gflags::ParseCommandLineFlags(&argc, &argv, true);
    std::filesystem::create_directory(dir / "real");
    std::filesystem::create_directory(dir / "facade");
    FLAGS_log_dir = dir / "facade";
    FLAGS_logdrive_run_dir = dir / "run";
    EXPECT(FLAGS_v == 0);
    google::InitGoogleLogging("facade");
    EXPECT(FLAGS_v == 1);
    LOG(INFO) << "from the facade " << 1;
    log_with_glog((dir / "real").c_str());
    VLOG(1) << "verbose here";
    LOG(WARNING) << "a warning of the facade's";
    google::ShutdownGoogleLogging();
    const std::string facade = check::read(dir / "facade/facade.INFO"), real = check::read(dir / "real/real.INFO");
    EXPECT(check::lines(facade).size() == 4 + 3);
    EXPECT(check::lines(real).size() == 4 + 2);
    EXPECT(facade.find("glog's") == std::string::npos && facade.find("real") == std::string::npos);
    EXPECT(real.find("facade's") == std::string::npos);
    EXPECT(!std::filesystem::exists(dir / "facade/real.INFO"));
    EXPECT(FLAGS_log_dir == dir / "facade");
    // The program itself defines nothing that the real library's symbols could be.
    EXPECT(dlsym(RTLD_DEFAULT, "_ZN6google10LogMessageC1EPKci") != nullptr);
    return check::result();
}
