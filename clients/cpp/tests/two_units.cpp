// The headers in two translation units of one program, in one of them twice, and each alone.
#include <logdrive/logdrive.hpp>
#include <logdrive/logdrive.hpp>
#include <glog/logging.h>

#include "check.hpp"

int other_unit(int value);
inline int shared(int value) {
    LOGDRIVE_INFO("shared {}", value);
    LOG(INFO) << "shared " << value;
    return value;
}
int first_unit(int value) { return shared(value); }

int main() {
    check::Dir dir;
    FLAGS_log_dir = dir.path();
    FLAGS_logdrive_run_dir = dir / "run";
    google::InitGoogleLogging("two_units");
    first_unit(1);
    EXPECT(other_unit(2) == 2);
    google::FlushLogFiles(google::INFO);
    // Both front ends write the same log, from InitGoogleLogging on; the file begins with four lines of glog's.
    const std::vector<std::string> lines = check::lines(check::read(dir / "two_units.INFO"));
    EXPECT(lines.size() == 4 + 4);
    google::ShutdownGoogleLogging();
    return check::result();
}
