// A ring in plain memory, with the slow path of spec/ring.md for the policy `drop`: what stands around the headers' own
// code when the shared vectors judge it.
#ifndef LOGDRIVE_TESTS_RING_MODEL_HPP
#define LOGDRIVE_TESTS_RING_MODEL_HPP

#include "check.hpp"
#include "wire.hpp"
#include <logdrive/logdrive.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <vector>

namespace model {

namespace ld = logdrive::detail;

struct Reason {
    const char *name, *text;
};
constexpr Reason REASONS[LOGDRIVE_DROP_COUNT] = {
    {"full", "ring full"},
    {"too_large", "record too large"},
    {"reentrant", "log call interrupted by a signal handler that logs"},
    {"no_ring", "no ring for the thread"},
    {"closed", "logging not running"},
    {"backend", "logged by the backend itself"},
    {"no_callsite", "callsite table full"},
    {"other", "other"},
};

struct Gap {
    std::string reason;
    uint64_t count, offset, length;
};

class LOGDRIVE_HIDDEN Ring {
public:
    Ring(uint64_t capacity_, uint64_t start) : capacity(capacity_), consumed(start), data_(2 * capacity_), header_(512) {
        memcpy(header_.data(), "LDRING\1\0", 8);
        header_[2] = capacity;
        header_[ld::COMMITTED / 8] = start;
        attach();
    }
    ~Ring() { ld::place_slot().place = nullptr; }
    Ring(const Ring &) = delete;

    void attach() {
        place_ = ld::Place{};
        place_.position = place_.limit = committed();
        place_.mask = capacity - 1;
        place_.data = data_.data();
        place_.header = reinterpret_cast<uint8_t *>(header_.data());
        ld::place_slot().place = &place_;
    }
    uint64_t word(size_t offset) const { return header_[offset / 8]; }
    uint64_t committed() const { return word(ld::COMMITTED); }
    std::string head() const { return std::string(reinterpret_cast<const char *>(header_.data()), 4096); }

    // A call, by way of the headers' code wherever the record fits below the limit.
    bool push(uint64_t length, bool urgent) {
        for (;;) {
            if (write(1, length)) return true;
            switch (admit(length, urgent)) {
            case Admission::dropped: return false;
            case Admission::gap: tell_gaps(); break;
            case Admission::granted: return write_admitted(1, length);
            }
        }
    }

    const uint64_t capacity;
    uint64_t consumed;
    std::vector<Gap> gaps;

private:
    enum class Admission { granted, gap, dropped };

    bool write(uint32_t id, uint64_t length) {
        return ld::write_record(id, length - ld::HEADER_BYTES, [](uint8_t *) {}) == ld::Wrote::committed;
    }
    // Above the limit: it was admitted by itself. Records that not every ring takes go the library's way.
    bool write_admitted(uint32_t id, uint64_t length) {
        const uint64_t limit = place_.limit;
        place_.limit = place_.position + length;
        bool committed = write(id, length);
        if (!committed) {
            place_.position += length;
            header_[ld::COMMITTED / 8] = place_.position;
            header_[ld::RECORDS / 8] += 1;
            committed = true;
        }
        place_.limit = limit;
        return committed;
    }
    uint64_t free_bytes() const {
        const uint64_t used = place_.position - consumed;
        return used > capacity ? 0 : capacity - used;
    }
    Admission drop(int reason) {
        header_[ld::DROPPED / 8 + size_t(reason)] += 1;
        header_[ld::UNREPORTED / 8 + size_t(reason)] += 1;
        place_.limit = 0;
        return Admission::dropped;
    }
    Admission admit(uint64_t length, bool urgent) {
        if (length > std::min<uint64_t>(65536, capacity / 8)) return drop(LOGDRIVE_DROP_TOO_LARGE);
        if (free_bytes() < length + (urgent ? 0 : capacity / 8)) return drop(LOGDRIVE_DROP_FULL);
        const uint64_t room = free_bytes() > capacity / 8 ? free_bytes() - capacity / 8 : 0;
        place_.limit = place_.position + std::min(room, capacity / 2);
        for (size_t reason = 0; reason < LOGDRIVE_DROP_COUNT; ++reason)
            if (word(ld::UNREPORTED + 8 * reason) != 0) return Admission::gap;
        return Admission::granted;
    }
    void tell_gaps() {
        uint64_t counts[LOGDRIVE_DROP_COUNT];
        for (size_t reason = 0; reason < LOGDRIVE_DROP_COUNT; ++reason) {
            counts[reason] = word(ld::UNREPORTED + 8 * reason);
            header_[ld::UNREPORTED / 8 + reason] = 0;
        }
        for (size_t reason = 0; reason < LOGDRIVE_DROP_COUNT; ++reason) {
            if (counts[reason] == 0) continue;
            const uint64_t length = (16 + 8 + 4 + strlen(REASONS[reason].text) + 7) / 8 * 8, at = committed(), records = word(ld::RECORDS);
            const bool admitted = free_bytes() >= length;
            if (admitted && (write(0, length) || write_admitted(0, length))) {
                header_[ld::RECORDS / 8] = records;
                gaps.push_back({REASONS[reason].text, counts[reason], at % capacity, length});
            } else {
                if (!admitted) {
                    header_[ld::DROPPED / 8 + LOGDRIVE_DROP_FULL] += 1;
                    header_[ld::UNREPORTED / 8 + LOGDRIVE_DROP_FULL] += 1;
                    place_.limit = 0;
                }
                header_[ld::UNREPORTED / 8 + reason] += counts[reason];
            }
        }
    }

    std::vector<uint8_t> data_;
    std::vector<uint64_t> header_;
    ld::Place place_;
};

// The checks of a ring's file.
inline void check_header(uint64_t file_bytes, const std::string &head) {
    const uint64_t capacity = file_bytes < 4096 ? 0 : file_bytes - 4096;
    if (capacity < 65536 || capacity > (1u << 30) || (capacity & (capacity - 1)) != 0) throw wire::Error{"file size"};
    if (head.compare(0, 8, std::string("LDRING\1\0", 8)) != 0) throw wire::Error{"magic"};
    uint64_t found;
    memcpy(&found, &head[16], 8);
    if (found != capacity) throw wire::Error{"capacity"};
}

struct Patch {
    uint64_t offset;
    std::string bytes;
};

// Leaves a session with a line behind in a process that dies, damages its header, and has the library recover it: the line
// reaches the log, or the session is refused and stays.
inline bool damaged_session_keeps_its_line(size_t patches, const std::function<Patch(size_t)> &patch) {
    check::Dir dir;
    const pid_t pid = fork();
    if (pid == 0) {
        logdrive::Options options("cpp-damaged");
        options.set("run_dir", (dir / "run").c_str()).set("use_env", "no").file((dir / "x.log").c_str());
        options.set("flush_every", "1h");
        if (logdrive_start(options.raw()) != LOGDRIVE_OK) _exit(1);
        LOGDRIVE_INFO("a line to keep");
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) return false;
    for (const auto &session : std::filesystem::directory_iterator(dir / "run")) {
        std::fstream file(session.path() / "session", std::ios::in | std::ios::out | std::ios::binary);
        for (size_t i = 0; i < patches; ++i) {
            file.seekp(std::streamoff(patch(i).offset));
            file.write(patch(i).bytes.data(), std::streamsize(patch(i).bytes.size()));
        }
        file.close();
        const std::filesystem::path path = session.path();
        const int recovered = logdrive_recover(path.c_str(), nullptr, nullptr);
        if (recovered == LOGDRIVE_ERROR_RECOVER) return std::filesystem::exists(path);
        const std::string log = check::read(dir / "x.log");
        return recovered == LOGDRIVE_OK && log.find("a line to keep") != std::string::npos &&
               log.find("a line to keep") == log.rfind("a line to keep");
    }
    return false;
}

}  // namespace model

#endif
