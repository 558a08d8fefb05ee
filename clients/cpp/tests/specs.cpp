// Formats and specs of any letters: none ends the program, each call is a record. `specs [SEED]`
#include "check.hpp"
#include <chrono>
#include <logdrive/logdrive.hpp>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace {

struct Streamed {};
std::ostream &operator<<(std::ostream &out, const Streamed &) { return out << "stream\xc3\xa9" "d"; }

constexpr int CALLS = 20000;

class Texts {
public:
    explicit Texts(unsigned seed) : random_(seed) {}
    unsigned below(unsigned end) { return unsigned(random_()) % end; }
    std::string letters(unsigned most) {
        static const std::string letters = "{}{}{}:::<>^+-#0123459.xXdobBeEfFgGaAcps?nm$ w\xc3\xa9*";
        std::string text;
        for (unsigned left = below(most); left > 0; --left) text += letters[below(unsigned(letters.size()))];
        return text;
    }
    std::string format() {
        std::string text;
        for (unsigned left = 1 + below(3); left > 0; --left)
            text += (below(3) != 0 ? "{" : "") + letters(9) + (below(3) != 0 ? "}" : "");
        return text;
    }

private:
    std::mt19937 random_;
};

void call(Texts &texts) {
    const std::vector<int> numbers{1, -22, 333};
    const std::vector<std::string> words{"a", "b\n\"", "\xff\xc3"};
    const std::map<int, std::pair<std::string, double>> map{{1, {"x", 0.5}}};
    const std::vector<std::vector<float>> nested{{1.f, 2.5f}, {}};
    const std::string format = texts.format(), spec = texts.letters(12);
    switch (texts.below(4)) {
    case 0: LOGDRIVE_INFO_RUNTIME(format, numbers, 5, 3); break;
    case 1: LOGDRIVE_INFO_RUNTIME(format, words, map, Streamed()); break;
    case 2: LOGDRIVE_INFO_RUNTIME(format, nested, std::optional<int>(7), 12, logdrive::kv("w", 8)); break;
    default: LOGDRIVE_INFO_RUNTIME(format, "text", 1.5, 'c', std::chrono::milliseconds(5), true);
    }
    logdrive::Out out;
    const logdrive::detail::Part part{spec.data(), spec.data() + spec.size()};
    const auto shown = [&](const auto &value) {
        logdrive::detail::show(out, value, part, texts.below(2) == 0);
        out.clear();
    };
    shown(numbers), shown(words), shown(map), shown(nested), shown(1.0 / (1 + texts.below(1000))), shown(-int(texts.below(99)));
    shown(Streamed()), shown(std::optional<char>('q')), shown(static_cast<const void *>(&out)), shown('x'), shown(3e38f);
}

}  // namespace

int main(int count, char **arguments) {
    const unsigned seed = count > 1 ? unsigned(std::strtoul(arguments[1], nullptr, 10)) : std::random_device()();
    std::printf("seed %u\n", seed);
    check::Dir dir;
    logdrive::Options options("cpp-specs");
    options.set("run_dir", (dir / "run").c_str()).set("use_env", "no").set("full", "block").file((dir / "specs.log").c_str());
    auto logger = logdrive::start(options);
    EXPECT_TEXT(logger.error(), "");
    Texts texts(seed);
    for (int i = 0; i < CALLS; ++i) call(texts);
    EXPECT(logdrive::flush());
    logdrive_stats_t stats;
    EXPECT(logdrive_stats(&stats) == LOGDRIVE_OK && stats.committed == CALLS);
    for (const uint64_t dropped : stats.dropped) EXPECT(dropped == 0);
    return check::result();
}
