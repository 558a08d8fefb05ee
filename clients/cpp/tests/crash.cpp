// SIGKILL at a random moment, again and again: what was committed is in the log once, in order and whole, when the session
// has been recovered. `crash CYCLES [SEED]`; half of the children log through the typed calls, half through the facade.
#include "check.hpp"
#include <logdrive/glog.h>
#include <logdrive/logdrive.hpp>

#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>

namespace {

constexpr int THREADS = 3;

// Progress of a child's threads, in memory that outlives it.
struct Noted {
    volatile uint64_t next[THREADS];
};

void work(Noted *noted, int thread, bool facade) {
    for (uint64_t number = 0;; ++number) {
        const uint64_t check = (number + 1) * 0x9e3779b97f4a7c15u ^ uint64_t(thread);
        if (facade) LOG(INFO) << "t" << thread << " n" << number << " c" << check << " end";
        else LOGDRIVE_INFO("t{} n{} c{} end", thread, number, check);
        noted->next[thread] = number + 1;
    }
}

void child(const std::string &dir, Noted *noted, bool facade) {
    logdrive::Options options("cpp-crash");
    options.set("run_dir", (dir + "/run").c_str()).set("use_env", "no").set("full", "block").set("ring_bytes", "65536");
    options.file((dir + "/crash.log").c_str()).with("layout", "pattern {message}").with("rotate_bytes", "4000000");
    if (logdrive_start(options.raw()) != LOGDRIVE_OK) _exit(3);
    // The facade writes to the logger that runs already, and need not say that InitGoogleLogging was not called.
    // Lines that it would show are of no use here.
    FLAGS_logtostderr = true;
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(3);
    for (int thread = 1; thread < THREADS; ++thread) std::thread(work, noted, thread, facade).detach();
    work(noted, 0, facade);
}

void judge(const std::string &dir, const Noted *noted, const std::string &run) {
    uint64_t next[THREADS] = {};
    std::map<std::string, std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator(dir))
        if (entry.is_regular_file()) files[entry.path().filename() == "crash.log" ? "~" : entry.path().string()] = entry.path();
    for (const auto &file : files)
        for (const std::string &line : check::lines(check::read(file.second))) {
            int thread = 0;
            unsigned long long number = 0, found = 0;
            char end[8] = "";
            if (line.find("process ") == 0) continue;
            const int parts = std::sscanf(line.c_str(), "t%d n%llu c%llu %7s", &thread, &number, &found, end);
            const bool whole = parts == 4 && std::string(end) == "end" && thread >= 0 && thread < THREADS &&
                               found == ((number + 1) * 0x9e3779b97f4a7c15u ^ uint64_t(thread));
            check::that(whole, "a line is not whole", __FILE__, __LINE__, run + ": " + line);
            if (!whole) return;
            check::that(number == next[thread], "a line is missing or comes twice", __FILE__, __LINE__,
                        run + ": " + line + ", expected n" + std::to_string(next[thread]));
            next[thread] = number + 1;
        }
    for (int thread = 0; thread < THREADS; ++thread)
        check::that(next[thread] >= noted->next[thread], "a record that was committed is lost", __FILE__, __LINE__,
                    run + ": thread " + std::to_string(thread) + " has " + std::to_string(next[thread]) + " of " +
                        std::to_string(noted->next[thread]));
}

void cycle(unsigned seed, uint64_t &records) {
    std::mt19937 random(seed);
    check::Dir dir;
    void *memory = mmap(nullptr, sizeof(Noted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Noted *noted = static_cast<Noted *>(memory);
    const pid_t pid = fork();
    if (pid == 0) child(dir.path(), noted, seed % 2 == 0);
    // The child works from its first note on; how long is the chance of the cycle.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (noted->next[0] == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    const uint64_t target = noted->next[0] + random() % 5000;
    while (noted->next[0] < target && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    const std::string run = "seed " + std::to_string(seed);
    check::that(WIFSIGNALED(status), "the child was not killed", __FILE__, __LINE__, run);
    for (const auto &entry : std::filesystem::directory_iterator(dir / "run")) {
        const int code = logdrive_recover(entry.path().c_str(), nullptr, nullptr);
        check::that(code == LOGDRIVE_OK, "not recovered", __FILE__, __LINE__, run + ": " + logdrive_last_error());
    }
    judge(dir.path(), noted, run);
    for (int thread = 0; thread < THREADS; ++thread) records += noted->next[thread];
    munmap(memory, sizeof(Noted));
}

}  // namespace

int main(int argc, char **argv) {
    const int cycles = argc > 1 ? std::atoi(argv[1]) : 20;
    const unsigned first = argc > 2 ? unsigned(std::atoi(argv[2])) : 1;
    uint64_t records = 0;
    for (int i = 0; i < cycles && check::failures() == 0; ++i) cycle(first + unsigned(i), records);
    std::printf("%d cycles, %llu records noted\n", cycles, static_cast<unsigned long long>(records));
    return check::result();
}
