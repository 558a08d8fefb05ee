// The hot path: writes a record into the ring of its thread, by the byte layouts of spec/ring.md and spec/session.md: one clock
// read, plain stores into memory that is mapped twice in a row, and one release store that commits. Every
// other case goes through logdrive_write().
#ifndef LOGDRIVE_DETAIL_RING_HPP
#define LOGDRIVE_DETAIL_RING_HPP

#include <logdrive/logdrive.h>
#include <string.h>
#include <time.h>

#if !defined(__GNUC__)
#error "logdrive needs GCC or Clang"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || __SIZEOF_POINTER__ != 8
#error "logdrive needs a little-endian system with 64 bits"
#endif

// Each module has its own copies of these internals, so that a plug-in can be unloaded.
#define LOGDRIVE_HIDDEN __attribute__((visibility("hidden")))
#if defined(__OPTIMIZE__)
#define LOGDRIVE_ALWAYS inline __attribute__((always_inline))
#define LOGDRIVE_LAMBDA __attribute__((always_inline))
#else
// Without optimisation the same code at each call is only large.
#define LOGDRIVE_ALWAYS inline
#define LOGDRIVE_LAMBDA
#endif
#define LOGDRIVE_COLD __attribute__((cold, noinline))
// One copy for all statements; every call reads it.
#define LOGDRIVE_CALLED inline __attribute__((noinline))
#define LOGDRIVE_LIKELY(x) __builtin_expect(!!(x), 1)
#define LOGDRIVE_UNLIKELY(x) __builtin_expect(!!(x), 0)

#if defined(__SANITIZE_THREAD__)
#define LOGDRIVE_THREAD_SANITIZER_ 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LOGDRIVE_THREAD_SANITIZER_ 1
#endif
#endif
namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

// spec/session.md, file `control`.
struct Entry {
    uint32_t control;
    uint32_t id;
};
static_assert(sizeof(Entry) == 8, "the front of a control entry");

// The struct behind logdrive_place().
struct Place {
    uint8_t busy;
    uint8_t unused[7];
    uint64_t clock;
    const uint64_t *coarse;
    uint64_t position;
    uint64_t limit;
    uint64_t mask;
    uint8_t *data;
    uint8_t *header;
};
static_assert(sizeof(Place) == 64, "one cache line");
static_assert(__builtin_offsetof(Place, position) == 24, "as in logdrive.h");
static_assert(__builtin_offsetof(Place, header) == 56, "as in logdrive.h");

// spec/ring.md, header.
constexpr size_t COMMITTED = 64;
constexpr size_t RECORDS = 72;
constexpr size_t DROPPED = 128;
constexpr size_t UNREPORTED = 192;

// spec/record.md.
constexpr size_t HEADER_BYTES = 16;
// Every ring takes records of this length.
constexpr size_t RECORD_BYTES_SURE = 8192;
// No ring takes records that are longer.
constexpr size_t RECORD_BYTES_MAX = 65536;

constexpr uint32_t OFF = 0;
constexpr uint32_t ON = 1;
constexpr uint32_t UNREGISTERED = 0xffffffff;

struct PlaceSlot {
    Place *place;
};

// The calling thread's place; null before its first record. Initial-exec, because a call to find a thread-local costs
// more than the rest of a record; 8 bytes fit into what the C library reserves for libraries that are loaded later.
LOGDRIVE_ALWAYS PlaceSlot &place_slot() noexcept {
    static thread_local PlaceSlot slot __attribute__((tls_model("initial-exec"))) = {nullptr};
    return slot;
}

// A callsite that the library does not know yet.
struct NoSite {
    const Entry *entry;
};
inline constexpr Entry no_entry = {UNREGISTERED, 0};
inline constexpr NoSite no_site = {&no_entry};

// State of a statement's callsite. Constant-initialised, so that it can be used before any other static.
struct SiteWord {
    const void *site = &no_site;

    LOGDRIVE_ALWAYS const Entry *entry() const noexcept {
        // The first word of what the library keeps is the address of the entry. SYNC(control)
        const void *known = __atomic_load_n(&site, __ATOMIC_ACQUIRE);
        return __atomic_load_n(static_cast<const Entry *const *>(known), __ATOMIC_ACQUIRE);
    }
};

LOGDRIVE_ALWAYS uint64_t monotonic_ns() noexcept {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

LOGDRIVE_ALWAYS uint64_t counter_ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return monotonic_ns();
#endif
}

LOGDRIVE_COLD inline uint64_t other_ticks(const Place &place) noexcept {
    if (place.clock == 2) return __atomic_load_n(place.coarse, __ATOMIC_RELAXED);
    return monotonic_ns();
}
LOGDRIVE_ALWAYS uint64_t ticks_of(const Place &place) noexcept {
    if (LOGDRIVE_LIKELY(place.clock == 0)) return counter_ticks();
    return other_ticks(place);
}

template <class T> LOGDRIVE_ALWAYS uint8_t *store(uint8_t *at, T value) noexcept {
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

// Lengths of 8 to 32 bytes, which most strings have, take two overlapping moves instead of a call.
LOGDRIVE_ALWAYS uint8_t *copy(uint8_t *at, const void *from_, size_t length) noexcept {
    const char *from = static_cast<const char *>(from_);
    if (length >= 8 && length <= 16) {
        uint64_t head, tail;
        memcpy(&head, from, 8);
        memcpy(&tail, from + length - 8, 8);
        memcpy(at, &head, 8);
        memcpy(at + length - 8, &tail, 8);
    } else if (length > 16 && length <= 32) {
        unsigned char head[16], tail[16];
        memcpy(head, from, 16);
        memcpy(tail, from + length - 16, 16);
        memcpy(at, head, 16);
        memcpy(at + length - 16, tail, 16);
    } else if (length < 8) {
        if (length >= 4) {
            uint32_t head, tail;
            memcpy(&head, from, 4);
            memcpy(&tail, from + length - 4, 4);
            memcpy(at, &head, 4);
            memcpy(at + length - 4, &tail, 4);
        } else {
            for (size_t i = 0; i < length; ++i) at[i] = static_cast<uint8_t>(from[i]);
        }
    } else {
        memcpy(at, from, length);
    }
    return at + length;
}

// Whole words, most of the time a few of them. A call would cost the caller registers.
LOGDRIVE_ALWAYS void copy_words(uint8_t *at, const uint8_t *from, size_t bytes) noexcept {
    for (; bytes >= 32; bytes -= 32, at += 32, from += 32) {
        unsigned char first[16], second[16];
        memcpy(first, from, 16);
        memcpy(second, from + 16, 16);
        memcpy(at, first, 16);
        memcpy(at + 16, second, 16);
        // Not a call of memcpy().
        __asm__("" : "+r"(at));
    }
    if ((bytes & 16) != 0) {
        memcpy(at, from, 16);
        at += 16, from += 16;
    }
    if ((bytes & 8) != 0) memcpy(at, from, 8);
}

// The drain has read the lines ahead since they were written last: they have to come back from its core. As many as the
// record takes.
LOGDRIVE_ALWAYS void prefetch(const Place &place, uint64_t position, size_t length) noexcept {
    const uint8_t *ahead = place.data + ((position + 1024) & place.mask);
    for (size_t line = 0; line == 0 || line + 64 <= length; line += 64) {
#if defined(__x86_64__)
        __asm__ __volatile__("prefetchw %0" : : "m"(ahead[line]));
#else
        __builtin_prefetch(ahead + line, 1);
#endif
    }
}

// Outcome of the fast path.
enum class Wrote { committed, dropped, slowly };

LOGDRIVE_COLD inline Wrote drop_reentrant(const Place &place) noexcept {
    if (place.header == nullptr) return Wrote::slowly;
    uint64_t *dropped = reinterpret_cast<uint64_t *>(place.header + DROPPED) + LOGDRIVE_DROP_REENTRANT;
    uint64_t *untold = reinterpret_cast<uint64_t *>(place.header + UNREPORTED) + LOGDRIVE_DROP_REENTRANT;
    __atomic_fetch_add(dropped, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(untold, 1, __ATOMIC_RELAXED);
    return Wrote::dropped;
}

// Writes a record of so many bytes, header and padding included. `front` gets the address of the record before its header
// is written, `fill` that of the values.
template <class Front, class Fill>
LOGDRIVE_ALWAYS Wrote write_whole(uint32_t id, size_t length, const Front &front, const Fill &fill) noexcept {
#if defined(LOGDRIVE_THREAD_SANITIZER_)
    // It sees the stores of two threads that have had the same ring, and not the order of them, which the library knows.
    return (void)id, (void)length, (void)front, (void)fill, Wrote::slowly;
#else
    Place *place = place_slot().place;
    if (LOGDRIVE_UNLIKELY(place == nullptr)) return Wrote::slowly;
    if (LOGDRIVE_UNLIKELY(place->busy)) return drop_reentrant(*place);
    __atomic_store_n(&place->busy, uint8_t(1), __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const uint64_t position = place->position;
    const uint64_t limit = __atomic_load_n(&place->limit, __ATOMIC_RELAXED);
    if (LOGDRIVE_UNLIKELY(length > RECORD_BYTES_SURE || position + length > limit)) {
        __atomic_store_n(&place->busy, uint8_t(0), __ATOMIC_RELAXED);
        return Wrote::slowly;
    }
    uint8_t *const at = place->data + (position & place->mask);
    prefetch(*place, position, length);
    const uint64_t ticks = ticks_of(*place);
    front(at);
    store(at, uint64_t(length) | uint64_t(id) << 32);
    store(at + 8, ticks);
    fill(at + HEADER_BYTES);
    place->position = position + length;
    uint64_t *const committed = reinterpret_cast<uint64_t *>(place->header + COMMITTED);
    uint64_t *const records = reinterpret_cast<uint64_t *>(place->header + RECORDS);
    // SYNC(commit): the record's bytes are visible before the position that covers them.
    __atomic_store_n(committed, position + length, __ATOMIC_RELEASE);
    __atomic_store_n(records, __atomic_load_n(records, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&place->busy, uint8_t(0), __ATOMIC_RELAXED);
    return Wrote::committed;
#endif
}

// Texts longer than any record are cut later; this keeps their length in 32 bits.
LOGDRIVE_ALWAYS uint32_t blob_length(size_t length) noexcept {
    return length > RECORD_BYTES_MAX ? uint32_t(RECORD_BYTES_MAX) : uint32_t(length);
}

LOGDRIVE_ALWAYS size_t record_length(size_t bytes) noexcept { return (HEADER_BYTES + bytes + 7) & ~size_t(7); }

// Writes a record of so many bytes of values; `fill` puts them at the address it is given, exactly.
template <class Fill> LOGDRIVE_ALWAYS Wrote write_record(uint32_t id, size_t bytes, const Fill &fill) noexcept {
    const size_t length = record_length(bytes);
    return write_whole(id, length, [length](uint8_t *at) LOGDRIVE_LAMBDA { store(at + length - 8, uint64_t(0)); }, fill);
}

// The same with values that are encoded already, and have eight zeros behind them.
LOGDRIVE_ALWAYS Wrote write_padded(uint32_t id, const uint8_t *values, size_t bytes) noexcept {
    const size_t length = record_length(bytes);
    return write_whole(
        id, length, [](uint8_t *) LOGDRIVE_LAMBDA {},
        [=](uint8_t *at) LOGDRIVE_LAMBDA { copy_words(at, values, length - HEADER_BYTES); });
}

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
