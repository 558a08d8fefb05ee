// LOGDRIVE_INFO.
#include "driver.hpp"
#include <logdrive/logdrive.hpp>

struct Subject {
    bool start(const std::string &path, const std::string &full) {
        logdrive::Options options("bench-cpp");
        options.set("use_env", "no").set("recover", "no").set("full", full.c_str()).file(path.c_str());
        const bool started = options.code() == 0 && logdrive_start(options.raw()) == 0;
        if (!started) std::fprintf(stderr, "%s\n", logdrive_last_error());
        return started;
    }
    void line(const std::string &text) { LOGDRIVE_INFO("{}", text); }
    void four(uint64_t order, double price, int quantity, const char *customer) {
        LOGDRIVE_INFO("order {} price {} quantity {} customer {}", order, price, quantity, customer);
    }
    uint64_t finish() {
        logdrive_flush();
        logdrive_stats_t stats = {};
        logdrive_stats(&stats);
        logdrive_sink_stats_t sink = {};
        logdrive_sink_stats(0, &sink);
        uint64_t dropped = sink.dropped;
        for (const uint64_t count : stats.dropped) dropped += count;
        return dropped;
    }
};

int main(int argc, char **argv) { return bench::run<Subject>(argc, argv); }
