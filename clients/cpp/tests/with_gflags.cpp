// The facade's flags as options of the command line, by gflags. `with_gflags --v=2 --minloglevel=1`
#include "check.hpp"
#include <gflags/gflags.h>
#include <glog/logging.h>

LOGDRIVE_GLOG_DEFINE_GFLAGS();

int main(int argc, char **argv) {
    check::Dir dir;
    gflags::ParseCommandLineFlags(&argc, &argv, true);
    EXPECT(FLAGS_v == 2);
    EXPECT(FLAGS_minloglevel == 1);
    gflags::SetCommandLineOption("log_dir", dir.path().c_str());
    FLAGS_logdrive_run_dir = dir / "run";
    google::InitGoogleLogging("gflagged");
    LOG(INFO) << "below";
    LOG(WARNING) << "above " << VLOG_IS_ON(2);
    google::ShutdownGoogleLogging();
    EXPECT(check::lines(check::read(dir / "gflagged.INFO")).size() == 4 + 1);
    return check::result();
}
