// What flags, environment and destinations of glog do; --vmodule; threads that log while the options change.
#include "check.hpp"
#include <logdrive/glog.h>

#include <atomic>
#include <thread>

namespace {

std::string own_lines(const std::string &path) {
    std::string text;
    for (const std::string &line : check::lines(check::read(path))) {
        const size_t at = line.find("] ");
        text += (at == std::string::npos || line[0] == 'L' ? "" : line.substr(at + 2) + ";");
    }
    return text;
}

void vmodule() {
    FLAGS_vmodule = "nothing=9,glog_fl*=3";
    EXPECT(VLOG_IS_ON(3));
    EXPECT(!VLOG_IS_ON(4));
    EXPECT(google::SetVLOGLevel("glog_fl*", 1) == 3);
    EXPECT(VLOG_IS_ON(1) && !VLOG_IS_ON(2));
    FLAGS_vmodule = "glog_flag?=2,glog_flags=7";
    EXPECT(VLOG_IS_ON(2) && !VLOG_IS_ON(3));
    FLAGS_vmodule = "";
}

void levels(const check::Dir &dir) {
    LOG(INFO) << "info";
    LOG(ERROR) << "error";
    google::FlushLogFiles(google::INFO);
    EXPECT_TEXT(own_lines(dir / "flags.INFO"), "info;error;");
    EXPECT_TEXT(own_lines(dir / "flags.WARNING"), "error;");
    EXPECT_TEXT(own_lines(dir / "flags.ERROR"), "error;");
    EXPECT(!std::filesystem::exists(dir / "flags.FATAL"));
    google::SetLogSymlink(google::INFO, "linked");
    EXPECT(!std::filesystem::exists(dir / "linked.INFO"));
    google::SetLogDestination(google::INFO, (dir / "own.").c_str());
    google::SetLogDestination(google::WARNING, "");
    LOG(WARNING) << "elsewhere";
    google::FlushLogFiles(google::INFO);
    EXPECT_TEXT(own_lines(dir / "flags.INFO"), "info;error;");
    EXPECT_TEXT(own_lines(dir / "flags.WARNING"), "error;");
    EXPECT_TEXT(own_lines(dir / "linked.INFO"), "elsewhere;");
}

// Nothing is lost while the logger is exchanged under threads that log.
void changes(const check::Dir &dir) {
    std::atomic<bool> stop{false};
    std::atomic<int> logged{0};
    std::thread thread([&] {
        while (!stop) LOG(INFO) << "change " << logged++;
    });
    for (int i = 0; i < 5; ++i) {
        const int before = logged;
        while (logged < before + 100) std::this_thread::yield();
        FLAGS_logbufsecs = i % 2;
    }
    stop = true;
    thread.join();
    google::FlushLogFiles(google::INFO);
    int next = 0;
    for (const std::string &line : check::lines(check::read(dir / "linked.INFO")))
        if (line.find("] change ") != std::string::npos && line.substr(line.find("] ") + 2) == "change " + std::to_string(next))
            ++next;
    EXPECT_TEXT(std::to_string(next), std::to_string(logged));
}

}  // namespace

int main(int argc, char **argv) {
    if (argc == 1) {
        // The environment is read before main: once more, with one.
        setenv("GLOG_v", "4", 1);
        setenv("GLOG_stderrthreshold", "3", 1);
        return WEXITSTATUS(std::system((std::string(argv[0]) + " again").c_str()));
    }
    check::Dir dir;
    EXPECT(FLAGS_v == 4 && FLAGS_stderrthreshold == 3);
    FLAGS_v = 0;
    FLAGS_log_dir = dir.path();
    FLAGS_logdrive_run_dir = dir / "run";
    FLAGS_logdrive_full = "block";
    google::InitGoogleLogging(argv[0]);
    google::InitGoogleLogging("/somewhere/flags");
    vmodule();
    levels(dir);
    changes(dir);
    google::ShutdownGoogleLogging();
    return check::result();
}
