// Ends of programs: LOG(FATAL), failed checks, signals. Each is a process of its own, whose log and standard error are
// looked at afterwards.
#include "check.hpp"
#include <glog/logging.h>

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>

// True while the heap is as one that a thread has locked for ever.
static volatile bool is_stuck = false;
extern "C" void *__libc_malloc(size_t bytes);
extern "C" void *malloc(size_t bytes) {
    while (is_stuck) pause();
    return __libc_malloc(bytes);
}

namespace {

[[noreturn]] void own_end() { _exit(42); }
// Its calls are a part of the caller's code.
__attribute__((always_inline)) inline void put_into_the_caller(volatile int *at) { *at = 1; }
struct Value {
    int value;
};
bool operator==(const Value &a, const Value &b) { return a.value == b.value; }
std::ostream &operator<<(std::ostream &out, const Value &value) { return out << "value " << value.value; }

__attribute__((noinline)) void die(const std::string &how) {
    LOG(INFO) << "last words " << 1;
    if (how == "fatal") LOG(FATAL) << "fatal " << 2;
    if (how == "check") CHECK(how.empty()) << "because";
    if (how == "check_eq") CHECK_EQ(Value{1}, Value{2}) << "because";
    if (how == "check_char") CHECK_EQ('a', '\x01');
    if (how == "streq") CHECK_STREQ("a", how.c_str());
    if (how == "notnull") CHECK_NOTNULL(static_cast<int *>(nullptr));
    if (how == "pcheck") {
        errno = ENOENT;
        PCHECK(how.empty()) << "open";
    }
    if (how == "level") LOG_AT_LEVEL(google::FATAL) << "at level";
    if (how == "function") {
        google::InstallFailureFunction(&own_end);
        LOG(FATAL) << "own end";
    }
    if (how == "segv") raise(SIGSEGV);
    if (how == "term") raise(SIGTERM);
    if (how == "inline") put_into_the_caller(reinterpret_cast<volatile int *>(how.size() - 5));
    if (how == "heap") {
        is_stuck = true;
        raise(SIGSEGV);
    }
    if (how == "abort") abort();
}

struct End {
    const char *how;
    // Expected standard error, and the status: a signal, or an exit code from 1000 on.
    const char *error;
    int status;
};

const End ENDS[] = {
    {"fatal", "] fatal 2\n*** Check failure stack trace: ***\n    @ ", SIGABRT},
    {"check", "] Check failed: how.empty() because\n", SIGABRT},
    {"check_eq", "] Check failed: Value{1} == Value{2} (value 1 vs. value 2) because\n", SIGABRT},
    {"check_char", "] Check failed: 'a' == '\\x01' ('a' vs. char value 1) \n", SIGABRT},
    {"streq", "] CHECK_STREQ failed: \"a\" == how.c_str() (a vs. streq)\n", SIGABRT},
    {"notnull", "] Check failed: 'static_cast<int *>(nullptr)' Must be non NULL \n", SIGABRT},
    {"pcheck", "] Check failed: how.empty() open: No such file or directory [2]\n", SIGABRT},
    {"level", "] at level\n*** Check failure stack trace: ***\n", SIGABRT},
    {"function", "] own end\n", 1042},
    {"segv", "SIGSEGV (@0x", SIGSEGV},
    {"term", "SIGTERM (@0x", SIGTERM},
    {"abort", "SIGABRT (@0x", SIGABRT},
    {"inline", "SIGSEGV (@0x1) ", SIGSEGV},
    // The names are as the compiler has them, for no other thread can make them readable.
    {"heap", "SIGSEGV (@0x", SIGSEGV},
};

int child(const std::string &how, const std::string &dir) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    FLAGS_log_dir = dir;
    FLAGS_logdrive_run_dir = dir + "/run";
    google::InitGoogleLogging("ends");
    google::InstallFailureSignalHandler();
    die(how);
    return 0;
}

void judge(const char *program, const End &end) {
    check::Dir dir;
    const std::string error = dir / "stderr";
    const pid_t pid = fork();
    if (pid == 0) {
        if (std::freopen(error.c_str(), "w", stderr) == nullptr) _exit(3);
        execl(program, program, end.how, dir.path().c_str(), static_cast<char *>(nullptr));
        _exit(4);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    const int found = WIFSIGNALED(status) ? WTERMSIG(status) : 1000 + WEXITSTATUS(status);
    check::that(found == end.status, "the end of a program", __FILE__, __LINE__,
                std::string(end.how) + ": " + std::to_string(found));
    const std::string text = check::read(error), log = check::read(dir / "ends.INFO");
    check::that(text.find(end.error) != std::string::npos, "standard error", __FILE__, __LINE__,
                std::string(end.how) + ":\n" + text + "\n  expected: " + end.error);
    if (end.how == std::string("heap")) {
        check::that(text.find("N12_GLOBAL__N_13die") != std::string::npos, "the stack has no plain names", __FILE__, __LINE__, text);
        return;
    }
    check::that(log.find("] last words 1\n") != std::string::npos, "the log is not complete", __FILE__, __LINE__,
                std::string(end.how) + ":\n" + log);
    if (end.error[0] == ']') {
        const std::string message = std::string(end.error).substr(0, std::string(end.error).find('\n') + 1);
        check::that(check::read(dir / "ends.FATAL").find(message) != std::string::npos, "the file of severity FATAL",
                    __FILE__, __LINE__, end.how);
    } else {
        check::that(text.find("main") != std::string::npos && text.find("(anonymous namespace)::die(std::") != std::string::npos, "the stack names no function", __FILE__, __LINE__,
                    std::string(end.how) + ":\n" + text);
        check::that(text.find(" (glog_fatal.cpp:", text.find("die(std::")) != std::string::npos, "the stack names no lines", __FILE__, __LINE__, text);
    }
    if (end.how == std::string("inline"))
        check::that(text.find("PC: @") < text.find("put_into_the_caller"), "a call in the caller's code has no name", __FILE__, __LINE__, text);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc == 3) return child(argv[1], argv[2]);
    for (const End &end : ENDS) judge(argv[0], end);
    return check::result();
}
