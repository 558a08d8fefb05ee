// spdlog, as its authors advise; with -DLOGDRIVE_BENCH_ASYNC through its queue.
#include "driver.hpp"
#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

struct Subject {
    std::shared_ptr<spdlog::logger> logger;
    bool start(const std::string &path, const std::string &full) {
        (void)full;
#ifdef LOGDRIVE_BENCH_ASYNC
        spdlog::init_thread_pool(8192, 1);
        logger = full == "drop" ? spdlog::basic_logger_mt<spdlog::async_factory_nonblock>("bench", path)
                                : spdlog::basic_logger_mt<spdlog::async_factory>("bench", path);
#else
        logger = spdlog::basic_logger_mt("bench", path);
#endif
        return true;
    }
    void line(const std::string &text) { SPDLOG_LOGGER_INFO(logger, "{}", text); }
    void four(uint64_t order, double price, int quantity, const char *customer) {
        SPDLOG_LOGGER_INFO(logger, "order {} price {} quantity {} customer {}", order, price, quantity, customer);
    }
    uint64_t finish() {
        uint64_t dropped = 0;
#ifdef LOGDRIVE_BENCH_ASYNC
        dropped = spdlog::thread_pool()->overrun_counter();
#endif
        logger->flush();
        logger.reset();
        spdlog::shutdown();
        return dropped;
    }
};

int main(int argc, char **argv) { return bench::run<Subject>(argc, argv); }
