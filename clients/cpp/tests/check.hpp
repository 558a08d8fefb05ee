// The little that the tests need: checks that say what was found, a directory of their own, and files as text.
#ifndef LOGDRIVE_TESTS_CHECK_HPP
#define LOGDRIVE_TESTS_CHECK_HPP

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace check {

inline int &failures() {
    static int count = 0;
    return count;
}

inline void that(bool ok, const char *what, const char *file, int line, const std::string &found = "") {
    if (ok) return;
    ++failures();
    std::fprintf(stderr, "%s:%d: %s%s%s\n", file, line, what, found.empty() ? "" : "\n  found: ", found.c_str());
}

#define EXPECT(condition) check::that(bool(condition), #condition, __FILE__, __LINE__)
#define EXPECT_TEXT(found, expected)                                                                            \
    do {                                                                                                        \
        const std::string found_ = (found), expected_ = (expected);                                             \
        check::that(found_ == expected_, #found, __FILE__, __LINE__, found_ + "\n  expected: " + expected_);    \
    } while (false)

// A directory that is removed at the end.
class Dir {
public:
    Dir() {
        // In memory: a log says so where its session is on a disk.
        char name[] = "/dev/shm/logdrive-test-XXXXXX";
        if (mkdtemp(name) == nullptr) std::abort();
        path_ = name;
    }
    explicit Dir(const char *path) : path_(path), kept_(true) {}
    ~Dir() {
        std::error_code ignored;
        if (!kept_) std::filesystem::remove_all(path_, ignored);
    }
    std::string operator/(const char *name) const { return path_ + "/" + name; }
    const std::string &path() const { return path_; }

private:
    std::string path_;
    bool kept_ = false;
};

inline std::string read(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

inline std::vector<std::string> lines(const std::string &text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

inline int result() {
    if (failures() != 0) std::fprintf(stderr, "%d checks failed\n", failures());
    return failures() == 0 ? 0 : 1;
}

}  // namespace check

#endif
