// The facade's flags as options of the command line, by gflags. `with_gflags --v=2 --minloglevel=1`
#include "check.hpp"
#include <gflags/gflags.h>
#include <glog/logging.h>

// Declarations that programs write for glog's own variables, and a flag of this program.
DECLARE_bool(logtostderr);
DECLARE_int32(v);
DECLARE_uint32(max_log_size);
DECLARE_string(log_dir);
DECLARE_string(greeting);
DEFINE_string(greeting, "hello", "a flag of the program");

int main(int argc, char **argv) {
    check::Dir dir;
    gflags::ParseCommandLineFlags(&argc, &argv, true);
    EXPECT(FLAGS_v == 2);
    EXPECT(FLAGS_minloglevel == 1);
    EXPECT(FLAGS_greeting == "hello" && !FLAGS_logtostderr && FLAGS_max_log_size == 1800);
    std::string value;
    EXPECT(gflags::GetCommandLineOption("vmodule", &value) && value.empty());
    gflags::SetCommandLineOption("log_dir", dir.path().c_str());
    FLAGS_logdrive_run_dir = dir / "run";
    google::InitGoogleLogging("gflagged");
    LOG(INFO) << "below";
    LOG(WARNING) << "above " << VLOG_IS_ON(2);
    // A flag that gflags sets while the program runs takes effect at once, also in statements that were reached before.
    for (int level = 3; level < 6; ++level) {
        EXPECT(VLOG_IS_ON(level) == (level == 2));
        gflags::SetCommandLineOption("v", std::to_string(level).c_str());
        EXPECT(VLOG_IS_ON(level) && !VLOG_IS_ON(level + 1));
        gflags::SetCommandLineOption("v", "2");
    }
    gflags::SetCommandLineOption("vmodule", "with_gf*=7");
    EXPECT(VLOG_IS_ON(7) && !VLOG_IS_ON(8));
    gflags::SetCommandLineOption("minloglevel", "2");
    LOG(WARNING) << "below now";
    google::ShutdownGoogleLogging();
    EXPECT(check::lines(check::read(dir / "gflagged.INFO")).size() == 4 + 1);
    return check::result();
}
