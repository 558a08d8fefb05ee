// Loggers at the places of files, prefixes, the cleaner, and destinations that are turned off: what glog's own tests ask of them.
#include "check.hpp"
#include <logdrive/detail/glog_raw.hpp>
#include <logdrive/glog.h>

#include <cstring>
#include <fcntl.h>
#include <iomanip>
#include <sys/stat.h>
#include <sys/wait.h>

namespace {

int allocations = 0;

std::vector<std::string> files(const check::Dir &dir, const std::string &with) {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator(dir.path())) {
        const std::string name = entry.path().filename().string();
        if (entry.is_regular_file() && !entry.is_symlink() && name.find(with) != std::string::npos) found.push_back(entry.path());
    }
    return found;
}

// What is written to a descriptor meanwhile.
template <class Work> std::string written(int descriptor, const std::string &path, const Work &work) {
    std::fflush(nullptr);
    const int kept = dup(descriptor), file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(file, descriptor);
    work();
    std::fflush(nullptr);
    dup2(kept, descriptor);
    close(kept);
    close(file);
    return check::read(path);
}

struct Kept : google::base::Logger {
    std::string text;
    int flushes = 0;
    bool *ended;
    explicit Kept(bool *at_end) : ended(at_end) {}
    ~Kept() override { *ended = true; }
    using google::base::Logger::Write;
    void Write(bool, time_t, const char *message, size_t length) override { text.append(message, length); }
    void Flush() override { ++flushes; }
    google::uint32 LogSize() override { return google::uint32(text.size()); }
};

// Passes on what it gets, with a mark; it overrides the other function.
struct Marked : google::base::Logger {
    google::base::Logger *behind;
    explicit Marked(google::base::Logger *logger) : behind(logger) {}
    using google::base::Logger::Write;
    void Write(bool flush, const std::chrono::system_clock::time_point &time, const char *message, size_t length) override {
        const std::string marked = "marked " + std::string(message, length);
        behind->Write(flush, time, marked.data(), marked.size());
    }
    void Flush() override { behind->Flush(); }
    google::uint32 LogSize() override { return behind->LogSize(); }
};

void loggers(const check::Dir &dir) {
    google::SetLogDestination(google::INFO, (dir / "of-loggers.").c_str());
    google::SetLogDestination(google::ERROR, "");
    google::SetLogDestination(google::WARNING, (dir / "of-warnings.").c_str());
    LOG(INFO) << "before";
    google::FlushLogFiles(google::INFO);
    google::base::Logger *const file = google::base::GetLogger(google::INFO);
    bool ended = false;
    Kept *const kept = new Kept(&ended);
    google::base::SetLogger(google::INFO, kept);
    const google::int64 before = google::LogMessage::num_messages(google::INFO);
    LOG(INFO) << "kept " << 1;
    LOG(WARNING) << "both";
    google::FlushLogFiles(google::INFO);
    EXPECT_TEXT(std::to_string(google::LogMessage::num_messages(google::INFO) - before), "1");
    const std::vector<std::string> lines = check::lines(kept->text);
    EXPECT(lines.size() == 2 && lines[0][0] == 'I' && lines[0].find("glog_loggers.cpp:") != std::string::npos);
    EXPECT(kept->text.find("] kept 1\n") != std::string::npos && kept->text.find("] both\n") != std::string::npos);
    EXPECT(kept->flushes == 1 && google::base::GetLogger(google::INFO) == kept);
    // One that writes into the file, beside one of its own.
    Marked *const marked = new Marked(file);
    google::base::SetLogger(google::INFO, marked);
    delete kept;
    LOG(INFO) << "passed";
    LOG(WARNING) << "both again";
    google::FlushLogFiles(google::INFO);
    EXPECT(file->LogSize() > 0);
    std::string text;
    for (const std::string &path : files(dir, "of-loggers.")) text += check::read(path);
    EXPECT(text.find("] before\n") != std::string::npos && text.find("kept 1") == std::string::npos);
    EXPECT(text.find("\nmarked I") != std::string::npos && text.find("] passed\n") != std::string::npos);
    EXPECT(text.find("\nmarked W") != std::string::npos);
    const std::vector<std::string> of_warnings = files(dir, "of-warnings.");
    text = of_warnings.size() == 1 ? check::read(of_warnings[0]) : "";
    EXPECT(text.find("] both\n") != std::string::npos && text.find("] both again\n") != std::string::npos);
    EXPECT(text.find("passed") == std::string::npos && text.find("marked") == std::string::npos);
    ended = false;
    google::base::SetLogger(google::WARNING, new Kept(&ended));
    google::ShutdownGoogleLogging();
    EXPECT(ended);
}

void raw(const check::Dir &dir) {
    VLOG(1) << "known";
    const std::string long_text(50000, 'a');
    const std::string text = written(STDERR_FILENO, dir / "raw", [&] {
        const int before = allocations;
        FLAGS_v = 2;
        FLAGS_minloglevel = 0;
        RAW_LOG(ERROR, "short %d", 1);
        RAW_LOG(ERROR, "long %s", long_text.c_str());
        FLAGS_v = 0;
        EXPECT_TEXT(std::to_string(allocations - before), "0");
    });
    EXPECT(text.find("RAW: short 1\n") != std::string::npos);
    EXPECT(text.find("RAW: RAW_LOG ERROR: The Message was too long!\n") != std::string::npos && text.size() < 1000);
}

struct Sink : google::LogSink {
    void send(google::LogSeverity, const char *, const char *, int, const google::LogMessageTime &, const char *, size_t) override {
        fputs("sink\n", stderr);
    }
};

void sinks_come_behind_standard_error(const check::Dir &dir) {
    Sink sink;
    google::AddLogSink(&sink);
    for (const bool is_message : {false, true}) {
        const std::string text = written(STDERR_FILENO, dir / "sink", [&] {
            if (is_message) LOG_AT_LEVEL(google::ERROR) << "line";
            else LOG(ERROR) << "line";
        });
        EXPECT(text.find("] line\nsink\n") != std::string::npos);
    }
    google::RemoveLogSink(&sink);
}

void off_and_on_again(const check::Dir &dir) {
    const std::string out = written(STDOUT_FILENO, dir / "out", [&] {
        const std::string text = written(STDERR_FILENO, dir / "err", [] {
            google::LogToStderr();
            LOG(INFO) << "to standard error only";
            google::FlushLogFiles(google::INFO);
        });
        EXPECT(text.find("] to standard error only\n") != std::string::npos);
        google::SetLogDestination(google::INFO, (dir / "again.").c_str());
        google::SetLogFilenameExtension(".ending");
        google::SetStderrLogging(google::FATAL);
        FLAGS_log_file_header = false;
        LOG(INFO) << "to the file again";
        google::FlushLogFiles(google::INFO);
    });
    EXPECT_TEXT(out, "");
    const std::vector<std::string> found = files(dir, "again.");
    EXPECT(found.size() == 1 && found[0].size() > 7 && found[0].substr(found[0].size() - 7) == ".ending");
    EXPECT(found.size() == 1 && check::read(found[0]).find("] to the file again\n") != std::string::npos);
    EXPECT(found.size() == 1 && check::read(found[0])[0] == 'I');
}

// Each does something behind its call, so that it is on the stack meanwhile.
int calls = 0;
__attribute__((noinline)) void traced() { LOG(ERROR) << "with a stack"; ++calls; }
const int TRACED_LINE = __LINE__ - 1;
__attribute__((noinline)) void traced_message() { LOG_AT_LEVEL(google::ERROR) << "a message with one"; ++calls; }

void stacks(const check::Dir &dir) {
    const auto write = [&](int line) {
        FLAGS_log_backtrace_at = "glog_loggers.cpp:" + std::to_string(line);
        return written(STDERR_FILENO, dir / "stack", [] { traced(), traced_message(); });
    };
    for (const int after : {0, 2}) {
        const std::string text = write(TRACED_LINE + after);
        const size_t begin = text.find("]  (stacktrace:\n    @ "), end = text.find(after == 0 ? ") with a stack\n" : ") a message with one\n");
        EXPECT(begin != std::string::npos && end != std::string::npos && begin < end);
        EXPECT(text.substr(begin, end - begin).find("traced") != std::string::npos);
        EXPECT(text.find(" (stacktrace:", begin + 20) == std::string::npos);
    }
    EXPECT(write(1).find("stacktrace") == std::string::npos);
    FLAGS_log_backtrace_at = "";
}

void cleaner(const check::Dir &dir) {
    const auto make = [&](const char *name, int days) {
        std::ofstream(dir / name) << "old";
        struct timespec times[2] = {{time(nullptr) - days * 86400, 0}, {time(nullptr) - days * 86400, 0}};
        EXPECT(utimensat(AT_FDCWD, (dir / name).c_str(), times, 0) == 0);
    };
    make("clean.20240101-101010.17.log", 4);
    make("clean.20240101-101010.18.log", 2);
    make("clean.20240101-101010.17.txt", 4);
    make("clean.20240101-1010.17.log", 4);
    make("clean.notes.log", 4);
    make("other.20240101-101010.17.log", 4);
    google::SetLogDestination(google::INFO, (dir / "clean.").c_str());
    google::SetLogFilenameExtension(".log");
    LOG(INFO) << "new";
    google::FlushLogFiles(google::INFO);
    google::EnableLogCleaner(3);
    google::DisableLogCleaner();
    const auto is_there = [&](const char *name) { return access((dir / name).c_str(), F_OK) == 0; };
    EXPECT(!is_there("clean.20240101-101010.17.log") && is_there("clean.20240101-101010.18.log"));
    EXPECT(is_there("clean.20240101-101010.17.txt") && is_there("clean.20240101-1010.17.log"));
    EXPECT(is_there("clean.notes.log") && is_there("other.20240101-101010.17.log"));
    EXPECT(files(dir, "clean.").size() == 5);
}

void of_info(std::ostream &out, const google::LogMessageInfo &info, void *) { out << std::setw(4) << info.line_number % 10; }
void of_message(std::ostream &out, const google::LogMessage &message, void *data) {
    out << static_cast<const char *>(data) << message.severity() << ' ' << message.basename() << ' ' << (message.thread_id() == getpid())
        << ' ' << (message.line() > 0) << ' ' << (message.time().timestamp() > 0) << ' ' << (std::strlen(message.fullname()) > 0);
}

void prefixes(const check::Dir &dir) {
    const auto line = [&] { return written(STDERR_FILENO, dir / "prefix", [] { LOG(ERROR) << "line"; }); };
    const std::string by_info = line();
    EXPECT(by_info.size() == 10 && by_info.substr(0, 3) == "000" && by_info.substr(4) == " line\n");
    static char mark[] = "!";
    google::InstallPrefixFormatter(&of_message, mark);
    EXPECT_TEXT(line(), "!2 glog_loggers.cpp 1 1 1 1 line\n");
}

}  // namespace

// Not inline, where the compiler would take them for a pair that does not match.
__attribute__((noinline)) void *operator new(size_t bytes) {
    ++allocations;
    void *memory = malloc(bytes);
    if (memory == nullptr) abort();
    return memory;
}
__attribute__((noinline)) void operator delete(void *memory) noexcept { free(memory); }
__attribute__((noinline)) void operator delete(void *memory, size_t) noexcept { free(memory); }

int main(int argc, char **argv) {
    if (argc == 1) {
        const int failed = std::system((std::string(argv[0]) + " files").c_str());
        return WEXITSTATUS(failed != 0 ? failed : std::system((std::string(argv[0]) + " prefixes").c_str()));
    }
    check::Dir dir;
    FLAGS_log_dir = dir.path();
    FLAGS_logdrive_run_dir = dir / "run";
    if (std::string(argv[1]) == "prefixes") {
        google::InitGoogleLogging(argv[0], &of_info);
        prefixes(dir);
        return check::result();
    }
    google::InitGoogleLogging(argv[0]);
    raw(dir);
    sinks_come_behind_standard_error(dir);
    stacks(dir);
    cleaner(dir);
    off_and_on_again(dir);
    loggers(dir);
    return check::result();
}
