// The facade at the edges of a program's life: before main and before InitGoogleLogging, in destructors of statics and of
// thread-locals, in the child of a fork, in a signal handler, and in a plug-in that shares flags and files and is unloaded.
// `glog_lifetime PLUGIN`
#include "check.hpp"
#include <glog/logging.h>

#include <csignal>
#include <dlfcn.h>
#include <sys/wait.h>
#include <thread>

namespace {

struct Early {
    Early() { LOG(INFO) << "before main " << 1; }
    ~Early() { LOG(INFO) << "static destructor " << 2; }
};
Early early;

struct PerThread {
    ~PerThread() { LOG(INFO) << "thread-local destructor " << used; }
    int used = 0;
};
thread_local PerThread per_thread;

void handler(int number) { LOG(INFO) << "signal " << number; }

size_t count(const std::string &text, const std::string &what) {
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
    return count;
}

bool use_plugin(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    if (library == nullptr) return false;
    for (int i = 0; i < 3; ++i) reinterpret_cast<void (*)(int)>(dlsym(library, "plugin_log"))(i);
    dlclose(library);
    // It only logs, so it is really gone.
    return dlopen(path, RTLD_NOW | RTLD_NOLOAD) == nullptr;
}

// In a process of its own, whose end is that of the program.
int life(const char *plugin, const std::string &dir) {
    FLAGS_log_dir = dir;
    FLAGS_logdrive_run_dir = dir + "/run";
    LOG(WARNING) << "before the start " << 1;
    google::InitGoogleLogging("life");
    ++per_thread.used;
    LOG(INFO) << "in main";
    std::thread([] {
        ++per_thread.used;
        LOG(INFO) << "in a thread";
    }).join();
    FLAGS_v = 3;
    if (!use_plugin(plugin)) return 6;
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    // A file is opened when its first lines are written: from here on it is this process's.
    google::FlushLogFiles(google::INFO);
    const pid_t child = fork();
    if (child == 0) {
        LOG(INFO) << "in the child";
        google::FlushLogFiles(google::INFO);
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 5;
    LOG(INFO) << "behind the fork";
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc == 3) return life(argv[1], argv[2]);
    if (argc != 2) return 2;
    check::Dir dir;
    const std::string command = std::string(argv[0]) + " " + argv[1] + " " + dir.path() + " 2> " + (dir / "stderr");
    EXPECT_TEXT(std::to_string(std::system(command.c_str())), "0");
    const std::string error = check::read(dir / "stderr");
    // The link names the newest file, which is the child's.
    std::string parent, child;
    for (const auto &entry : std::filesystem::directory_iterator(dir.path())) {
        const std::string text = entry.is_regular_file() && !entry.is_symlink() ? check::read(entry.path()) : "";
        if (count(text, "] in main\n") != 0) parent += text;
        else child += text;
    }
    EXPECT(count(error, "WARNING: Logging before InitGoogleLogging() is written to STDERR\n") == 1);
    EXPECT(count(error, "] before main 1\n") == 1);
    EXPECT(count(error, "] before the start 1\n") == 1);
    EXPECT(count(parent, "] in main\n") == 1);
    EXPECT(count(parent, "] in a thread\n") == 1);
    EXPECT(count(parent, "] from the plug-in 2\n") == 1);
    EXPECT(count(parent, "] verbose in the plug-in ") == 3);
    EXPECT(count(parent, "] signal " + std::to_string(SIGUSR1) + "\n") == 1);
    EXPECT(count(parent, "] behind the fork\n") == 1);
    EXPECT_TEXT(std::to_string(count(parent, "] thread-local destructor 1\n")), "2");
    EXPECT_TEXT(std::to_string(count(parent, "] static destructor 2\n")), "1");
    EXPECT(count(child, "] in the child\n") == 1);
    EXPECT(count(child, "] static destructor 2\n") >= 1);
    EXPECT(count(parent, "] in the child\n") == 0);
    EXPECT(std::filesystem::is_empty(dir / "run"));
    return check::result();
}
