// LOG(INFO): with glog's own library, or with -DLOGDRIVE_BENCH_FACADE and the facade's directory in front. With
// -DLOGDRIVE_BENCH_VLOG the call is a VLOG that is off, with -DLOGDRIVE_BENCH_TWO it has two values.
#include "driver.hpp"
#include <glog/logging.h>

struct Subject {
    bool start(const std::string &path, const std::string &full) {
        (void)full;
#ifdef LOGDRIVE_BENCH_FACADE
        FLAGS_logdrive_full = full;
#endif
        FLAGS_timestamp_in_logfile_name = false;
        FLAGS_max_log_size = 4000;
        FLAGS_stderrthreshold = google::FATAL;
        google::SetLogDestination(google::INFO, path.c_str());
        for (const int severity : {google::WARNING, google::ERROR, google::FATAL}) google::SetLogDestination(severity, "");
        for (const int severity : {google::INFO, google::WARNING, google::ERROR, google::FATAL})
            google::SetLogSymlink(severity, "");
        google::InitGoogleLogging("bench");
        return true;
    }
    void line(const std::string &text) { LOG(INFO) << text; }
    // A statement stands in the loop itself: what is only computed for one that is off is not computed.
    __attribute__((always_inline)) void four(uint64_t order, double price, int quantity, const char *customer) {
#ifdef LOGDRIVE_BENCH_VLOG
        VLOG(1) << "order " << order << " price " << price << " quantity " << quantity << " customer " << customer;
#elif defined(LOGDRIVE_BENCH_TWO)
        (void)quantity, (void)customer;
        LOG(INFO) << "order " << order << " price " << price;
#else
        LOG(INFO) << "order " << order << " price " << price << " quantity " << quantity << " customer " << customer;
#endif
    }
    uint64_t finish() {
        google::FlushLogFiles(google::INFO);
        uint64_t dropped = 0;
#ifdef LOGDRIVE_BENCH_FACADE
        logdrive_stats_t stats = {};
        logdrive_stats(&stats);
        logdrive_sink_stats_t sink = {};
        logdrive_sink_stats(0, &sink);
        dropped = sink.dropped;
        for (const uint64_t count : stats.dropped) dropped += count;
#endif
        return dropped;
    }
};

int main(int argc, char **argv) { return bench::run<Subject>(argc, argv); }
