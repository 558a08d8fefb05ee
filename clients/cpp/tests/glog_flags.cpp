// Effects of flags, environment and destinations of glog; --vmodule; threads that log while the options change.
#include "check.hpp"
#include <logdrive/detail/glog_raw.hpp>
#include <logdrive/glog.h>

#include <atomic>
#include <sys/wait.h>
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

bool is_verbose() { return VLOG_IS_ON(0) && !VLOG_IS_ON(1); }

void vmodule() {
    // A pattern behind an exact name, whose statements keep theirs.
    google::SetVLOGLevel("glog_flags", 0);
    EXPECT(is_verbose());
    EXPECT(google::SetVLOGLevel("glog_*", 5) == FLAGS_v);
    EXPECT(is_verbose() && !VLOG_IS_ON(6) && VLOG_IS_ON(5));
    // It is named by that already.
    EXPECT(google::SetVLOGLevel("glog_other", 9) == 5);
    FLAGS_vmodule = "nothing=9,glog_fl*=3";
    EXPECT(VLOG_IS_ON(3));
    EXPECT(!VLOG_IS_ON(4));
    EXPECT(google::SetVLOGLevel("glog_fl*", 1) == 3);
    EXPECT(VLOG_IS_ON(1) && !VLOG_IS_ON(2));
    FLAGS_vmodule = "glog_flag?=2,glog_flags=7";
    EXPECT(VLOG_IS_ON(2) && !VLOG_IS_ON(3));
    FLAGS_vmodule = "";
}

void counts() {
    const google::int64 before = google::LogMessage::num_messages(google::INFO);
    const google::int64 errors = google::LogMessage::num_messages(google::ERROR);
    std::vector<std::string> kept;
    LOG(INFO) << "one";
    LOG_AT_LEVEL(google::INFO) << "two";
    FLAGS_logbufsecs = 7 - FLAGS_logbufsecs % 2;
    FLAGS_max_log_size = 1700;
    LOG_STRING(INFO, &kept) << "three";
    LOG_STRING(ERROR, &kept) << "not of it";
    LOG(ERROR) << "nor this";
    EXPECT_TEXT(std::to_string(google::LogMessage::num_messages(google::INFO) - before), "3");
    EXPECT_TEXT(std::to_string(google::LogMessage::num_messages(google::ERROR) - errors), "2");
}

std::atomic<int> allocations{0};

// Raw messages and questions for a level, the first of their statements.
void raw() {
    const int before = allocations;
    RAW_LOG(INFO, "raw %d", 1);
    RAW_VLOG(0, "raw %s", "and verbose");
    RAW_VLOG(9, "off");
    EXPECT_TEXT(std::to_string(allocations - before), "0");
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

void own_prefix(std::ostream &out, const google::LogMessageInfo &info, void *data) {
    out << '[' << info.severity << ' ' << info.filename << ' ' << (info.line_number > 0) << (info.thread_id == getpid())
        << (info.time.year() > 100) << ' ' << *static_cast<std::string *>(data) << ']';
}

// A prefix of the program's own, in front of values, streams and messages; lines without any; and without the year.
void prefixes(const check::Dir &dir) {
    std::string data = "data";
    google::InitGoogleLogging("prefixed", own_prefix, &data);
    // No call has to wait for the start.
    EXPECT(logdrive_is_running() == 1);
    for (int i = 0; i < 2; ++i) LOG(INFO) << "value " << i << "\nand more";
    LOG(WARNING) << std::hex << 255;
    LOG_AT_LEVEL(google::ERROR) << "error";
    google::FlushLogFiles(google::INFO);
    const auto lines = [&] {
        std::string text;
        for (const std::string &line : check::lines(check::read(dir / "prefixed.INFO")))
            if (line.find(": ") == std::string::npos) text += line + ";";
        return text;
    };
    std::string expected = "[INFO glog_flags.cpp 111 data] value 0;and more;[INFO glog_flags.cpp 111 data] value 1;and more;"
                           "[WARNING glog_flags.cpp 111 data] ff;[ERROR glog_flags.cpp 111 data] error;";
    EXPECT_TEXT(lines(), expected);
    google::ShutdownGoogleLogging();
    FLAGS_log_prefix = false;
    google::InitGoogleLogging("prefixed");
    LOG(INFO) << "none\nat all " << 1;
    google::FlushLogFiles(google::INFO);
    EXPECT_TEXT(lines(), expected + "none;at all 1;");
    google::ShutdownGoogleLogging();
    google::InitGoogleLogging("short", nullptr);
    FLAGS_log_prefix = true;
    FLAGS_log_year_in_prefix = false;
    LOG(INFO) << "short\nlines";
    google::FlushLogFiles(google::INFO);
    const std::vector<std::string> found = check::lines(check::read(dir / "short.INFO"));
    EXPECT(found.size() > 2);
    if (found.size() > 2) {
        EXPECT_TEXT(found.back(), "lines");
        const std::string &line = found[found.size() - 2];
        EXPECT(line[0] == 'I' && line[5] == ' ' && line[8] == ':' && line.find(" glog_flags.cpp:") != std::string::npos);
    }
}

// An option that cannot be is said, and its default holds: the log is written all the same.
void check_refused(const char *program) {
    check::Dir dir;
    const std::string said = dir / "said";
    const std::string command = "GLOG_logdrive_ring_bytes=12 " + std::string(program) + " refused " + dir.path() + " 2> " + said;
    EXPECT_TEXT(std::to_string(std::system(command.c_str())), "0");
    const std::string text = check::read(said);
    EXPECT(text.find("logdrive: cannot set ring_bytes to \"12\": ") != std::string::npos);
    EXPECT(text.find("64 KiB") != std::string::npos);
    EXPECT_TEXT(own_lines(dir / "refused.INFO"), "all the same;");
}

int refused_life(const std::string &dir) {
    FLAGS_log_dir = dir;
    FLAGS_logdrive_run_dir = dir + "/run";
    google::InitGoogleLogging("refused");
    LOG(INFO) << "all the same";
    google::ShutdownGoogleLogging();
    return 0;
}

// As daemon(3) does, between InitGoogleLogging and the first statement: the parent ends without any destructors.
int daemon_life(const std::string &dir) {
    FLAGS_log_dir = dir;
    FLAGS_logdrive_run_dir = dir + "/run";
    google::InitGoogleLogging("daemon");
    const pid_t child = fork();
    if (child != 0) {
        int status = 0;
        waitpid(child, &status, 0);
        _exit(status == 0 ? 0 : 7);
    }
    LOG(INFO) << "a daemon of number " << getpid();
    exit(0);
}

// The files are the daemon's, and nothing is left of its parent.
void check_daemon(const char *program) {
    check::Dir dir;
    EXPECT_TEXT(std::to_string(std::system((std::string(program) + " daemon " + dir.path()).c_str())), "0");
    size_t found = 0;
    for (const auto &entry : std::filesystem::directory_iterator(dir.path())) {
        if (!entry.is_regular_file() || entry.is_symlink()) continue;
        const std::string name = entry.path().filename().string();
        found += check::read(entry.path()).find("] a daemon of number " + name.substr(name.rfind('.') + 1) + "\n") != std::string::npos;
    }
    EXPECT_TEXT(std::to_string(found), "1");
    EXPECT(std::filesystem::is_empty(dir / "run"));
}

}  // namespace

void *operator new(size_t bytes) {
    ++allocations;
    void *memory = malloc(bytes);
    if (memory == nullptr) abort();
    return memory;
}
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }

int main(int argc, char **argv) {
    if (argc == 1) {
        // The environment is read before main: once more, with one.
        setenv("GLOG_v", "4", 1);
        setenv("GLOG_stderrthreshold", "3", 1);
        const int failed = std::system((std::string(argv[0]) + " again").c_str());
        return WEXITSTATUS(failed != 0 ? failed : std::system((std::string(argv[0]) + " prefixes").c_str()));
    }
    if (argc == 3) return argv[1] == std::string("refused") ? refused_life(argv[2]) : daemon_life(argv[2]);
    check::Dir dir;
    if (std::string(argv[1]) == "prefixes") {
        FLAGS_log_dir = dir.path();
        FLAGS_logdrive_run_dir = dir / "run";
        prefixes(dir);
        check_daemon(argv[0]);
        check_refused(argv[0]);
        return check::result();
    }
    EXPECT(FLAGS_v == 4 && FLAGS_stderrthreshold == 3);
    FLAGS_v = 0;
    FLAGS_log_dir = dir.path();
    FLAGS_logdrive_run_dir = dir / "run";
    FLAGS_logdrive_full = "block";
    google::InitGoogleLogging(argv[0]);
    google::InitGoogleLogging("/somewhere/flags");
    raw();
    vmodule();
    levels(dir);
    changes(dir);
    counts();
    google::ShutdownGoogleLogging();
    return check::result();
}
