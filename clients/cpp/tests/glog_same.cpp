// Runs the same calls with the real glog and with the facade, and compares what they leave: names of files and links, each
// line of each file to the byte, times and thread numbers aside, and how they end. `glog_same REAL FACADE`
#include "check.hpp"

#include <map>
#include <regex>
#include <sys/wait.h>

namespace {

// Files by their name, without what differs from run to run; links by what they name.
std::map<std::string, std::string> files(const std::string &dir) {
    std::map<std::string, std::string> found;
    const std::regex varying("\\.[0-9]{8}-[0-9]{6}\\.[0-9]+$");
    for (const auto &entry : std::filesystem::directory_iterator(dir)) {
        if (entry.path().filename() == "run") continue;
        const std::string name = std::regex_replace(entry.path().filename().string(), varying, ".TIME.PID");
        if (entry.is_symlink())
            found[name] = "link to " + std::regex_replace(std::filesystem::read_symlink(entry.path()).string(), varying, ".TIME.PID");
        else
            found[name] = check::read(entry.path());
    }
    return found;
}

// `I20261121 12:34:56.123456   417 file.cc:42] ` without time and thread; the file's head without its time.
std::string plain(const std::string &line) {
    static const std::regex prefix("^([IWEF])[0-9]{8} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} [ 0-9]{4}[0-9]+ ");
    static const std::regex head("^(Log file created at: )[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$");
    return std::regex_replace(std::regex_replace(line, prefix, "$1 TIME THREAD "), head, "$1TIME");
}

std::map<std::string, std::string> run(const char *program, const std::string &dir, const char *end, bool dies) {
    std::filesystem::create_directory(dir);
    const std::string run_dir = dir + "/run";
    setenv("GLOG_logdrive_run_dir", run_dir.c_str(), 1);
    const std::string command = std::string(program) + " " + dir + " " + end + " 2> " + dir + ".stderr";
    const int status = std::system(command.c_str());
    // The shell says of a signal that it is 128 and more.
    check::that(dies ? WEXITSTATUS(status) == 128 + 6 : status == 0, "the end of a program", __FILE__, __LINE__,
                command + ": " + std::to_string(status) + "\n" + check::read(dir + ".stderr"));
    return files(dir);
}

void compare(const char *real, const char *facade, const std::string &dir, const char *end, bool dies) {
    const auto expected = run(real, dir + "/real", end, dies);
    const auto found = run(facade, dir + "/facade", end, dies);
    EXPECT(expected.size() >= 6);
    for (const auto &file : expected) {
        const auto ours = found.find(file.first);
        check::that(ours != found.end(), "a file of glog's is missing", __FILE__, __LINE__, file.first);
        if (ours == found.end()) continue;
        const std::vector<std::string> theirs = check::lines(file.second), own = check::lines(ours->second);
        for (size_t i = 0; i < theirs.size() || i < own.size(); ++i) {
            const std::string left = i < own.size() ? plain(own[i]) : "(no line)";
            const std::string right = i < theirs.size() ? plain(theirs[i]) : "(no line)";
            check::that(left == right, "a line differs", __FILE__, __LINE__,
                        file.first + " line " + std::to_string(i + 1) + "\n  facade: " + left + "\n  glog:   " + right);
            if (left != right && check::failures() > 30) return;
        }
    }
    for (const auto &file : found)
        check::that(expected.count(file.first) != 0, "a file that glog does not make", __FILE__, __LINE__, file.first);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    check::Dir dir;
    std::filesystem::create_directory(dir / "plain");
    compare(argv[1], argv[2], dir / "plain", "", false);
    std::filesystem::create_directory(dir / "fatal");
    compare(argv[1], argv[2], dir / "fatal", "fatal", true);
    const std::string error = check::read(dir / "fatal/facade.stderr");
    EXPECT(error.find("the end 1\n*** Check failure stack trace: ***\n    @ ") != std::string::npos);
    return check::result();
}
