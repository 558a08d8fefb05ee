// Callsites of a library that is unloaded: what they logged is written behind its end, and nothing points into it.
#include "check.hpp"
#include <logdrive/logdrive.hpp>

#include <dlfcn.h>

namespace {

void log_once(const char *path, int value) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    EXPECT(library != nullptr);
    if (library == nullptr) return;
    reinterpret_cast<void (*)(int)>(dlsym(library, "plugin_log"))(value);
    dlclose(library);
    // It is really gone: otherwise this test would show nothing.
    EXPECT(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == nullptr);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    check::Dir dir;
    for (int round = 0; round < 3; ++round) {
        logdrive::Options options("cpp-plugins");
        options.set("run_dir", (dir / "run").c_str()).set("use_env", "no");
        auto logger = logdrive::start(options.file((dir / "p.log").c_str()).with("layout", "pattern {message}{fields}"));
        EXPECT(bool(logger));
        for (int i = 0; i < 50; ++i) log_once(argv[1], round * 50 + i);
        logdrive_stats_t stats;
        EXPECT(logdrive_stats(&stats) == LOGDRIVE_OK);
        // The gap callsite and one for the plug-in, however often it was loaded.
        EXPECT(stats.callsites == 2);
    }
    const std::vector<std::string> lines = check::lines(check::read(dir / "p.log"));
    EXPECT(lines.size() == 150);
    for (size_t i = 0; i < lines.size(); ++i)
        EXPECT_TEXT(lines[i], "from the plug-in " + std::to_string(i) + " where=plugin");
    return check::result();
}
