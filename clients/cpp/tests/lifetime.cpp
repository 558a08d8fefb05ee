// Logging at the edges of a program's life: before main, in destructors of statics and of thread-locals, in the child of a
// fork, and from more threads than there are rings of ended ones.
#include "check.hpp"
#include <logdrive/logdrive.hpp>

#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

struct Early {
    Early() { LOGDRIVE_INFO("before main"); }
    ~Early() { LOGDRIVE_INFO("static destructor"); }
};
Early early;

struct PerThread {
    ~PerThread() { LOGDRIVE_INFO("thread-local destructor"); }
    int used = 0;
};
thread_local PerThread per_thread;

size_t count(const std::string &text, const std::string &what) {
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
    return count;
}

// In a process of its own: starts a logger and leaves its end to the end of the program.
int life(const std::string &path) {
    logdrive::Options options("cpp-life");
    options.set("run_dir", (path + "/run").c_str()).set("use_env", "no").file((path + "/life.log").c_str());
    options.with("layout", "pattern {message}");
    if (logdrive_start(options.raw()) != LOGDRIVE_OK) return 3;
    ++per_thread.used;
    LOGDRIVE_INFO("in main");
    for (int i = 0; i < 3; ++i) {
        std::thread([] {
            // The thread-local is made before the thread's first record, and so is destroyed behind its ring's owner.
            ++per_thread.used;
            LOGDRIVE_INFO("in a thread");
        }).join();
        std::thread([] {
            LOGDRIVE_INFO("in a thread");
            ++per_thread.used;
        }).join();
    }
    const pid_t child = fork();
    if (child == 0) {
        LOGDRIVE_INFO("in the child");
        exit(logdrive_flush() == LOGDRIVE_OK ? 0 : 4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 5;
    LOGDRIVE_INFO("behind the fork");
    return 0;
}

// In a process of its own: logs, and ends in one of the ordinary ways without stopping its logger.
int end(const std::string &path, const std::string &way) {
    logdrive::Options options("cpp-end");
    options.set("run_dir", (path + "/run").c_str()).set("use_env", "no").set("flush_every", "1h");
    options.file((path + "/" + way + ".log").c_str()).with("layout", "pattern {message}");
    if (logdrive_start(options.raw()) != LOGDRIVE_OK) return 9;
    for (int i = 0; i < 50; ++i) LOGDRIVE_INFO("line {}", i);
    if (way == "exit") std::exit(3);
    if (way == "quick_exit") std::quick_exit(4);
    if (way == "term") raise(SIGTERM);
    // The signal ends the process from another thread.
    while (way == "term") pause();
    return 5;
}

void ends(const char *program) {
    check::Dir dir;
    const struct {
        const char *way;
        int status;
    } ways[] = {{"exit", 3 << 8}, {"quick_exit", 4 << 8}, {"return", 5 << 8}, {"term", SIGTERM}};
    for (const auto &expected : ways) {
        const pid_t child = fork();
        if (child == 0) {
            execl(program, program, "end", dir.path().c_str(), expected.way, static_cast<char *>(nullptr));
            _exit(127);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TEXT(std::string(expected.way) + std::to_string(status), expected.way + std::to_string(expected.status));
        const std::string log = check::read(dir.path() + "/" + expected.way + ".log");
        EXPECT(count(log, "line ") == 50);
        EXPECT(count(log, "ended by signal 15") == size_t(expected.status == SIGTERM));
    }
    EXPECT(std::filesystem::is_empty(dir / "run"));
}

}  // namespace

int main(int argc, char **argv) {
    if (argc == 3 && std::string(argv[1]) == "life") return life(argv[2]);
    if (argc == 4 && std::string(argv[1]) == "end") return end(argv[2], argv[3]);
    ends(argv[0]);
    check::Dir dir;
    const int status = std::system((std::string(argv[0]) + " life " + dir.path()).c_str());
    EXPECT(status == 0);
    const std::string parent = check::read(dir / "life.log");
    std::string child;
    for (const auto &entry : std::filesystem::directory_iterator(dir.path()))
        if (entry.path().extension() == ".log" && entry.path().filename() != "life.log") child += check::read(entry.path());
    EXPECT(count(parent, "in main\n") == 1);
    EXPECT(count(parent, "in a thread\n") == 6);
    EXPECT(count(parent, "behind the fork\n") == 1);
    EXPECT_TEXT(std::to_string(count(parent, "thread-local destructor\n")), "7");
    EXPECT(count(parent, "static destructor\n") == 1);
    // The child has the parent's statics and the main thread's locals.
    EXPECT(count(child, "in the child\n") == 1);
    EXPECT(count(child, "static destructor\n") == 1);
    EXPECT(count(parent, "in the child") == 0);
    EXPECT(std::filesystem::is_empty(dir / "run"));
    return check::result();
}
