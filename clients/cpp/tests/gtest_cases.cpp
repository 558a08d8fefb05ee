// Cases as programs write them with GoogleTest about their own logs. They pass with the real glog; the same file is compiled with
// the facade.
#include <glog/logging.h>
#include <glog/raw_logging.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

std::string directory() { return FLAGS_log_dir; }

// The whole file behind a link, as it lies there now.
std::string file(const char *severity) {
    std::ifstream in(directory() + "/cases." + severity);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}
bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }
size_t count(const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

// A flag has its value again at the end of a case.
template <class Flag, class Value> class Saved {
public:
    Saved(Flag &flag, Value value) : flag_(flag), before_(flag) { flag_ = value; }
    ~Saved() { flag_ = before_; }

private:
    Flag &flag_;
    Value before_;
};
template <class Flag, class Value> Saved<Flag, Value> saved(Flag &flag, Value value) { return Saved<Flag, Value>(flag, value); }

struct Sink : google::LogSink {
    std::vector<std::string> seen;
    Sink() { google::AddLogSink(this); }
    ~Sink() override { google::RemoveLogSink(this); }
    void send(google::LogSeverity severity, const char *, const char *base, int, const google::LogMessageTime &,
              const char *message, size_t length) override {
        seen.push_back(std::string(google::GetLogSeverityName(severity)) + " " + base + " " + std::string(message, length));
    }
};

TEST(Capture, AnErrorIsOnStandardError) {
    testing::internal::CaptureStderr();
    LOG(ERROR) << "broken " << 7;
    EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "] broken 7\n"));
}
TEST(Capture, TheLineIsWhole) {
    testing::internal::CaptureStderr();
    LOG(ERROR) << "whole";
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(std::regex_match(
        text, std::regex("E[0-9]{8} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} [ 0-9]{5,7} gtest_cases\\.cpp:[0-9]+\\] whole\n")))
        << text;
}
TEST(Capture, NoInfoIsOnStandardError) {
    testing::internal::CaptureStderr();
    LOG(INFO) << "quiet";
    LOG(WARNING) << "quiet, too";
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}
TEST(Capture, NothingFromBefore) {
    LOG(ERROR) << "before";
    testing::internal::CaptureStderr();
    LOG(ERROR) << "within";
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(has(text, "before"));
    EXPECT_TRUE(has(text, "] within\n"));
}
TEST(Capture, LogToStderr) {
    const auto flag = saved(FLAGS_logtostderr, true);
    testing::internal::CaptureStderr();
    LOG(INFO) << "info " << 1.5;
    std::cerr << "between\n";
    LOG(WARNING) << "warning";
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_LT(text.find("] info 1.5\n"), text.find("between\n"));
    EXPECT_LT(text.find("between\n"), text.find("] warning\n"));
    EXPECT_FALSE(has(file("INFO"), "info 1.5"));
}
TEST(Capture, AlsoLogToStderr) {
    const auto flag = saved(FLAGS_alsologtostderr, true);
    testing::internal::CaptureStderr();
    LOG(INFO) << "both";
    EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "] both\n"));
    google::FlushLogFiles(google::INFO);
    EXPECT_TRUE(has(file("INFO"), "] both\n"));
}
TEST(Capture, Threshold) {
    const auto flag = saved(FLAGS_stderrthreshold, int(google::WARNING));
    testing::internal::CaptureStderr();
    LOG(WARNING) << "from here";
    LOG(INFO) << "not below";
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(has(text, "] from here\n"));
    EXPECT_FALSE(has(text, "not below"));
}
TEST(Capture, StandardOutput) {
    const auto flag = saved(FLAGS_logtostdout, true);
    testing::internal::CaptureStdout();
    std::printf("first\n");
    LOG(INFO) << "second";
    std::printf("third\n");
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_TRUE(std::regex_match(text, std::regex("first\nI[^\n]*\\] second\nthird\n"))) << text;
}
TEST(Capture, NoPrefix) {
    const auto flag = saved(FLAGS_log_prefix, false);
    testing::internal::CaptureStderr();
    LOG(ERROR) << "bare\nlines";
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "bare\nlines\n");
}
TEST(Capture, OneLineOfEachThread) {
    testing::internal::CaptureStderr();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([i] { LOG(ERROR) << "thread " << i; });
    for (std::thread &thread : threads) thread.join();
    const std::string text = testing::internal::GetCapturedStderr();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(count(text, "] thread " + std::to_string(i) + "\n"), 1u);
}
TEST(Capture, ErrorWithErrno) {
    testing::internal::CaptureStderr();
    errno = ENOENT;
    PLOG(ERROR) << "open";
    EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "] open: No such file or directory [2]\n"));
}
TEST(Capture, RawLog) {
    testing::internal::CaptureStderr();
    RAW_LOG(ERROR, "raw %d", 3);
    EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "] RAW: raw 3\n"));
}

TEST(File, AWarningIsThere) {
    LOG(WARNING) << "look at once " << 1;
    EXPECT_TRUE(has(file("WARNING"), "] look at once 1\n"));
}
TEST(File, AnErrorIsThere) {
    LOG(ERROR) << "look at once " << std::hex << 255;
    EXPECT_TRUE(has(file("ERROR"), "] look at once ff\n"));
}
TEST(File, InfoIsBeforeAWarning) {
    LOG(INFO) << "in front";
    LOG(WARNING) << "behind";
    google::FlushLogFiles(google::INFO);
    const std::string text = file("INFO");
    EXPECT_LT(text.find("] in front\n"), text.find("] behind\n"));
}
TEST(File, InfoIsThereWithTheLevelOfBuffersBelow) {
    const auto flag = saved(FLAGS_logbuflevel, -1);
    LOG(INFO) << "not buffered";
    EXPECT_TRUE(has(file("INFO"), "] not buffered\n"));
}
TEST(File, AFlushBringsInfo) {
    LOG(INFO) << "flushed";
    google::FlushLogFiles(google::INFO);
    EXPECT_TRUE(has(file("INFO"), "] flushed\n"));
}
TEST(File, ABurstIsWhole) {
    for (int i = 0; i < 200000; ++i) LOG(INFO) << "burst " << i;
    google::FlushLogFiles(google::INFO);
    EXPECT_EQ(count(file("INFO"), "] burst "), 200000u);
}

TEST(Sinks, GetMessages) {
    Sink sink;
    LOG(INFO) << "to the sink";
    LOG(WARNING) << "and " << 2;
    ASSERT_EQ(sink.seen.size(), 2u);
    EXPECT_EQ(sink.seen[0], "INFO gtest_cases.cpp to the sink");
    EXPECT_EQ(sink.seen[1], "WARNING gtest_cases.cpp and 2");
}
TEST(Strings, TakeMessages) {
    std::string text;
    std::vector<std::string> all;
    LOG_TO_STRING(INFO, &text) << "string " << 1;
    LOG_STRING(INFO, &all) << "vector " << 2;
    EXPECT_EQ(text, "string 1");
    EXPECT_EQ(all, std::vector<std::string>{"vector 2"});
}
TEST(Levels, LeastSeverity) {
    const auto flag = saved(FLAGS_minloglevel, int(google::ERROR));
    Sink sink;
    LOG(WARNING) << "below";
    LOG(ERROR) << "not below";
    EXPECT_EQ(sink.seen.size(), 1u);
}
TEST(Levels, Verbose) {
    const auto flag = saved(FLAGS_v, 2);
    Sink sink;
    VLOG(2) << "on";
    VLOG(3) << "off";
    EXPECT_EQ(sink.seen.size(), 1u);
}
TEST(Counters, EveryN) {
    Sink sink;
    for (int i = 0; i < 10; ++i) {
        LOG_EVERY_N(INFO, 5) << google::COUNTER;
    }
    EXPECT_EQ(sink.seen.size(), 2u);
}

TEST(DeathTest, Fatal) { EXPECT_DEATH(LOG(FATAL) << "the end " << 1, "\\] the end 1\n"); }
void check(bool ok) { CHECK(ok) << "why"; }
void check_equal(int one, int two) { CHECK_EQ(one, two); }
TEST(DeathTest, Check) { EXPECT_DEATH(check(false), "Check failed: ok why"); }
TEST(DeathTest, CheckEq) { EXPECT_DEATH(check_equal(1, 2), "Check failed: one == two \\(1 vs\\. 2\\)"); }
void check_not_null(int *pointer) { CHECK_NOTNULL(pointer); }
TEST(DeathTest, NotNull) { EXPECT_DEATH(check_not_null(nullptr), "Must be non NULL"); }
TEST(DeathTest, ErrorThenExit) {
    const auto give_up = [] {
        LOG(ERROR) << "giving up";
        _exit(3);
    };
    EXPECT_EXIT(give_up(), testing::ExitedWithCode(3), "\\] giving up\n");
}
TEST(DeathTest, Threadsafe) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(LOG(FATAL) << "in a fresh process", "\\] in a fresh process\n");
    testing::FLAGS_gtest_death_test_style = "fast";
}
TEST(DeathTest, AFatalLineIsInTheFiles) {
    EXPECT_DEATH(LOG(FATAL) << "kept", "\\] kept\n");
}

// A child that ends without any destructors, or becomes another program.
std::string lines_of_children() {
    std::string text;
    for (const auto &entry : std::filesystem::directory_iterator(directory()))
        if (entry.is_regular_file()) {
            std::ifstream in(entry.path());
            std::stringstream all;
            all << in.rdbuf();
            text += all.str();
        }
    return text;
}
TEST(Children, AWarningBeforeExitIsInAFile) {
    google::FlushLogFiles(google::INFO);
    const pid_t child = fork();
    if (child == 0) {
        LOG(WARNING) << "last words of a child";
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_GE(count(lines_of_children(), "] last words of a child\n"), 1u);
}
TEST(Children, AWarningBeforeExecIsInAFile) {
    google::FlushLogFiles(google::INFO);
    const pid_t child = fork();
    if (child == 0) {
        LOG(WARNING) << "becomes another program";
        execl("/bin/true", "true", static_cast<char *>(nullptr));
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_GE(count(lines_of_children(), "] becomes another program\n"), 1u);
}

#if defined(LOGDRIVE_GLOG_H)
// What glog loses: lines that wait when a child ends. Here the next start writes them.
TEST(Children, InfoBeforeExitIsInAFileAfterTheNextStart) {
    google::FlushLogFiles(google::INFO);
    const pid_t child = fork();
    if (child == 0) {
        LOG(INFO) << "quiet words of a child";
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    google::ShutdownGoogleLogging();
    google::InitGoogleLogging("cases");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (count(lines_of_children(), "] quiet words of a child\n") == 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_GE(count(lines_of_children(), "] quiet words of a child\n"), 1u);
}
#endif

}  // namespace

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    // In memory: a log says so where its session is on a disk.
    char name[] = "/dev/shm/logdrive-gtest-XXXXXX";
    // The child of a death test of the style "threadsafe" has the directory of its parent.
    const char *of_parent = getenv("LOGDRIVE_CASES_DIR");
    const std::string dir = of_parent != nullptr ? of_parent : mkdtemp(name);
    setenv("LOGDRIVE_CASES_DIR", dir.c_str(), 1);
    FLAGS_log_dir = dir;
#if defined(LOGDRIVE_GLOG_H)
    std::filesystem::create_directory(dir + "/run");
    FLAGS_logdrive_run_dir = dir + "/run";
#endif
    google::InitGoogleLogging("cases");
    const int result = RUN_ALL_TESTS();
    google::ShutdownGoogleLogging();
    if (of_parent == nullptr) std::filesystem::remove_all(dir);
    return result;
}
