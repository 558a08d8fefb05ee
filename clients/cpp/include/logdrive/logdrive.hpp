// Logdrive for C++17: log calls that cost about a clock read and survive SIGKILL.
//
//     #include <logdrive/logdrive.hpp>
//
//     int main() {
//         auto logger = logdrive::start(logdrive::Options("shop").file("logs/shop.log"));
//         LOGDRIVE_INFO("order {} at {:.2f}", id, price);
//         LOGDRIVE_WARN("stock is low", logdrive::kv("item", name), logdrive::kv("left", left));
//     }
//
// A call writes typed values into a ring of its thread in shared memory. Threads of the library format them and write the
// log. The format is checked by the compiler; its grammar is that of fmt and std::format, with {:{}} and {:.{}f}.
//
// Types that can be logged: integers, floating point, bool, char, pointers, enums, std::string, std::string_view, const char *,
// logdrive::bytes(data, size) and containers of bytes, std::chrono durations and times; these are copied. A specialisation of
// logdrive::Render, fmt::formatter or std::formatter (include fmt or <format> before this header, or this one again), an
// operator<< (include <ostream>), containers, maps, views, std::optional, pairs and tuples of all these are made texts at the
// call, as std::format of C++23 shows them. That allocates nothing for texts of containers up to 2,000 bytes, of other types
// up to 256 bytes. The first 1,000 elements and some 59,000 bytes are shown, then how many more there are. An exception of the
// program's code becomes the text <exception>.
//
// LOGDRIVE_TRACE, _DEBUG, _INFO, _WARN, _ERROR, _FATAL, each also with _IF(condition, ...), _EVERY_N(n, ...),
// _EVERY_MS(milliseconds, ...), _ONCE(...), _TO("target", ...) for a target that is not that of the file, and
// _RUNTIME(format, ...) for a format that is a text of the program: the first 64 of a statement are callsites of their own. One
// beyond those, or one that cannot be read, is shown as it is with the values behind it. _FATAL brings the log to the kernel; it
// does not end the program.
// Arguments are evaluated only when the callsite is on. Calls below LOGDRIVE_MIN_LEVEL (0 trace ... 5 fatal, default 0)
// leave neither code nor strings.
#ifndef LOGDRIVE_HPP
#define LOGDRIVE_HPP

#include <logdrive/detail/options.hpp>
#include <logdrive/detail/runtime_format.hpp>

namespace logdrive {
inline namespace v0 {

namespace detail LOGDRIVE_HIDDEN {

// The kinds of the arguments behind the format.
template <class... T> Kinds<decltype(capture(std::declval<const T &>()))...> kinds(const char *, const T &...);

template <class... T> int ignore(const T &...);

// Counts the calls of one statement.
struct Counter {
    uint64_t count = 0;
    LOGDRIVE_ALWAYS bool every(uint64_t n) noexcept {
        return __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % (n == 0 ? 1 : n) == 0;
    }
    LOGDRIVE_ALWAYS bool once() noexcept {
        return __atomic_load_n(&count, __ATOMIC_RELAXED) == 0 && __atomic_exchange_n(&count, 1, __ATOMIC_RELAXED) == 0;
    }
    LOGDRIVE_ALWAYS bool every_ms(uint64_t ms) noexcept {
        const uint64_t now = monotonic_ns() + 1;
        uint64_t next = __atomic_load_n(&count, __ATOMIC_RELAXED);
        return now >= next && __atomic_compare_exchange_n(&count, &next, now + ms * 1000000u, false, __ATOMIC_RELAXED,
                                                          __ATOMIC_RELAXED);
    }
};

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

// Calls below this level are left out of the program: 0 trace, 1 debug, 2 info, 3 warn, 4 error, 5 fatal.
#ifndef LOGDRIVE_MIN_LEVEL
#define LOGDRIVE_MIN_LEVEL 0
#endif

// Target of the callsites of this file, which filters match: define it before the include, such as "net::quic".
#ifndef LOGDRIVE_TARGET
#define LOGDRIVE_TARGET ""
#endif

#define LOGDRIVE_FIRST_(first, ...) first
#define LOGDRIVE_FAULT_(fault, text) \
    static_assert(logdrive_fault_ != ::logdrive::detail::Fault::fault, "logdrive: " text)

#define LOGDRIVE_UNLOGGABLE_                                                                                           \
    "a value has a type that cannot be logged: give it an operator<<, specialise logdrive::Render, or include the "    \
    "formatter of fmt or std before logdrive.hpp"

// At this level, for this target.
#define LOGDRIVE_CALL_(level_, target_, condition, ...)                                                                \
    do {                                                                                                               \
        using LogdriveKinds_ = decltype(::logdrive::detail::kinds(__VA_ARGS__));                                       \
        static constexpr ::logdrive::detail::Fault logdrive_fault_ =                                                   \
            ::logdrive::detail::check(LOGDRIVE_FIRST_(__VA_ARGS__, 0), #__VA_ARGS__, LogdriveKinds_::shape + 1,        \
                                      LogdriveKinds_::count);                                                          \
        LOGDRIVE_FAULT_(brace, "a placeholder cannot be read: see spec/record.md; {{ and }} are braces");              \
        LOGDRIVE_FAULT_(few, "the format has more placeholders than arguments");                                       \
        LOGDRIVE_FAULT_(unused, "the format does not show an argument: add {}, or give it as kv(\"name\", value)");    \
        LOGDRIVE_FAULT_(type, "the type in a placeholder does not fit its argument");                                  \
        LOGDRIVE_FAULT_(name, "a placeholder names no kv(\"name\", ...) among the arguments");                         \
        LOGDRIVE_FAULT_(order, "arguments without a name come before kv(...)");                                        \
        LOGDRIVE_FAULT_(many, "at most 255 values fit into a record");                                                 \
        LOGDRIVE_FAULT_(unloggable, LOGDRIVE_UNLOGGABLE_);                                                             \
        static constexpr auto logdrive_statement_ = ::logdrive::detail::describe_call(                                 \
            __FILE__ "\0" target_, LOGDRIVE_FIRST_(__VA_ARGS__, 0), #__VA_ARGS__, __LINE__, level_,                    \
            LogdriveKinds_::shape);                                                                                    \
        static ::logdrive::detail::Site logdrive_site_;                                                                \
        if (condition)                                                                                                 \
            if (const ::logdrive::detail::Ticket logdrive_ticket_ = logdrive_site_.ticket(logdrive_statement_.statement)) \
                ::logdrive::detail::write(logdrive_site_, logdrive_ticket_, logdrive_statement_.statement,             \
                                          __VA_ARGS__);                                                                \
    } while (false)

#define LOGDRIVE_RUNTIME_(level_, ...)                                                                                 \
    do {                                                                                                               \
        using LogdriveKinds_ = decltype(::logdrive::detail::kinds_behind(__VA_ARGS__));                                \
        static_assert(::logdrive::detail::are_loggable(LogdriveKinds_::shape + 1, LogdriveKinds_::count),              \
                      "logdrive: " LOGDRIVE_UNLOGGABLE_);                                                              \
        static constexpr auto logdrive_statement_ = ::logdrive::detail::describe_call(                                 \
            __FILE__ "\0" LOGDRIVE_TARGET, "", #__VA_ARGS__, __LINE__, level_, LogdriveKinds_::shape);                 \
        static ::logdrive::detail::RuntimeSite logdrive_site_;                                                         \
        if (!logdrive_site_.is_off())                                                                                  \
            ::logdrive::detail::format_at_run_time(logdrive_site_, logdrive_statement_.statement, __VA_ARGS__);        \
    } while (false)

#define LOGDRIVE_COUNTED_(level_, passes, ...)                   \
    do {                                                         \
        static ::logdrive::detail::Counter logdrive_counter_;    \
        LOGDRIVE_CALL_(level_, LOGDRIVE_TARGET, logdrive_counter_.passes, __VA_ARGS__); \
    } while (false)

#define LOGDRIVE_NOTHING_(...) static_cast<void>(sizeof(::logdrive::detail::ignore(__VA_ARGS__)))

#if LOGDRIVE_MIN_LEVEL <= 0
#define LOGDRIVE_0_(condition, ...) LOGDRIVE_CALL_(0, LOGDRIVE_TARGET, condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_0_(passes, ...) LOGDRIVE_COUNTED_(0, passes, __VA_ARGS__)
#define LOGDRIVE_TRACE_RUNTIME(...) LOGDRIVE_RUNTIME_(0, __VA_ARGS__)
#define LOGDRIVE_TRACE_TO(target, ...) LOGDRIVE_CALL_(0, target, true, __VA_ARGS__)
#else
#define LOGDRIVE_TRACE_RUNTIME(...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_TRACE_TO(target, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_0_(condition, ...) LOGDRIVE_NOTHING_(condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_0_(passes, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#endif
#if LOGDRIVE_MIN_LEVEL <= 1
#define LOGDRIVE_1_(condition, ...) LOGDRIVE_CALL_(1, LOGDRIVE_TARGET, condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_1_(passes, ...) LOGDRIVE_COUNTED_(1, passes, __VA_ARGS__)
#define LOGDRIVE_DEBUG_RUNTIME(...) LOGDRIVE_RUNTIME_(1, __VA_ARGS__)
#define LOGDRIVE_DEBUG_TO(target, ...) LOGDRIVE_CALL_(1, target, true, __VA_ARGS__)
#else
#define LOGDRIVE_DEBUG_RUNTIME(...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_DEBUG_TO(target, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_1_(condition, ...) LOGDRIVE_NOTHING_(condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_1_(passes, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#endif
#if LOGDRIVE_MIN_LEVEL <= 2
#define LOGDRIVE_2_(condition, ...) LOGDRIVE_CALL_(2, LOGDRIVE_TARGET, condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_2_(passes, ...) LOGDRIVE_COUNTED_(2, passes, __VA_ARGS__)
#define LOGDRIVE_INFO_RUNTIME(...) LOGDRIVE_RUNTIME_(2, __VA_ARGS__)
#define LOGDRIVE_INFO_TO(target, ...) LOGDRIVE_CALL_(2, target, true, __VA_ARGS__)
#else
#define LOGDRIVE_INFO_RUNTIME(...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_INFO_TO(target, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_2_(condition, ...) LOGDRIVE_NOTHING_(condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_2_(passes, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#endif
#if LOGDRIVE_MIN_LEVEL <= 3
#define LOGDRIVE_3_(condition, ...) LOGDRIVE_CALL_(3, LOGDRIVE_TARGET, condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_3_(passes, ...) LOGDRIVE_COUNTED_(3, passes, __VA_ARGS__)
#define LOGDRIVE_WARN_RUNTIME(...) LOGDRIVE_RUNTIME_(3, __VA_ARGS__)
#define LOGDRIVE_WARN_TO(target, ...) LOGDRIVE_CALL_(3, target, true, __VA_ARGS__)
#else
#define LOGDRIVE_WARN_RUNTIME(...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_WARN_TO(target, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_3_(condition, ...) LOGDRIVE_NOTHING_(condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_3_(passes, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#endif
#if LOGDRIVE_MIN_LEVEL <= 4
#define LOGDRIVE_4_(condition, ...) LOGDRIVE_CALL_(4, LOGDRIVE_TARGET, condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_4_(passes, ...) LOGDRIVE_COUNTED_(4, passes, __VA_ARGS__)
#define LOGDRIVE_ERROR_RUNTIME(...) LOGDRIVE_RUNTIME_(4, __VA_ARGS__)
#define LOGDRIVE_ERROR_TO(target, ...) LOGDRIVE_CALL_(4, target, true, __VA_ARGS__)
#else
#define LOGDRIVE_ERROR_RUNTIME(...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_ERROR_TO(target, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#define LOGDRIVE_4_(condition, ...) LOGDRIVE_NOTHING_(condition, __VA_ARGS__)
#define LOGDRIVE_COUNTED_4_(passes, ...) LOGDRIVE_NOTHING_(__VA_ARGS__)
#endif
#define LOGDRIVE_5_(condition, ...)                   \
    do {                                              \
        if (condition) {                              \
            LOGDRIVE_CALL_(5, LOGDRIVE_TARGET, true, __VA_ARGS__); \
            logdrive_flush();                         \
        }                                             \
    } while (false)
#define LOGDRIVE_COUNTED_5_(passes, ...)                         \
    do {                                                         \
        static ::logdrive::detail::Counter logdrive_counter5_;   \
        LOGDRIVE_5_(logdrive_counter5_.passes, __VA_ARGS__);     \
    } while (false)

#define LOGDRIVE_FATAL_TO(target, ...)                        \
    do {                                                      \
        LOGDRIVE_CALL_(5, target, true, __VA_ARGS__);      \
        logdrive_flush();                                     \
    } while (false)
#define LOGDRIVE_FATAL_RUNTIME(...)                     \
    do {                                                \
        LOGDRIVE_RUNTIME_(5, __VA_ARGS__);              \
        logdrive_flush();                               \
    } while (false)

#define LOGDRIVE_TRACE(...) LOGDRIVE_0_(true, __VA_ARGS__)
#define LOGDRIVE_TRACE_IF(condition, ...) LOGDRIVE_0_(condition, __VA_ARGS__)
#define LOGDRIVE_TRACE_ONCE(...) LOGDRIVE_COUNTED_0_(once(), __VA_ARGS__)
#define LOGDRIVE_TRACE_EVERY_N(n, ...) LOGDRIVE_COUNTED_0_(every(n), __VA_ARGS__)
#define LOGDRIVE_TRACE_EVERY_MS(ms, ...) LOGDRIVE_COUNTED_0_(every_ms(ms), __VA_ARGS__)
#define LOGDRIVE_DEBUG(...) LOGDRIVE_1_(true, __VA_ARGS__)
#define LOGDRIVE_DEBUG_IF(condition, ...) LOGDRIVE_1_(condition, __VA_ARGS__)
#define LOGDRIVE_DEBUG_ONCE(...) LOGDRIVE_COUNTED_1_(once(), __VA_ARGS__)
#define LOGDRIVE_DEBUG_EVERY_N(n, ...) LOGDRIVE_COUNTED_1_(every(n), __VA_ARGS__)
#define LOGDRIVE_DEBUG_EVERY_MS(ms, ...) LOGDRIVE_COUNTED_1_(every_ms(ms), __VA_ARGS__)
#define LOGDRIVE_INFO(...) LOGDRIVE_2_(true, __VA_ARGS__)
#define LOGDRIVE_INFO_IF(condition, ...) LOGDRIVE_2_(condition, __VA_ARGS__)
#define LOGDRIVE_INFO_ONCE(...) LOGDRIVE_COUNTED_2_(once(), __VA_ARGS__)
#define LOGDRIVE_INFO_EVERY_N(n, ...) LOGDRIVE_COUNTED_2_(every(n), __VA_ARGS__)
#define LOGDRIVE_INFO_EVERY_MS(ms, ...) LOGDRIVE_COUNTED_2_(every_ms(ms), __VA_ARGS__)
#define LOGDRIVE_WARN(...) LOGDRIVE_3_(true, __VA_ARGS__)
#define LOGDRIVE_WARN_IF(condition, ...) LOGDRIVE_3_(condition, __VA_ARGS__)
#define LOGDRIVE_WARN_ONCE(...) LOGDRIVE_COUNTED_3_(once(), __VA_ARGS__)
#define LOGDRIVE_WARN_EVERY_N(n, ...) LOGDRIVE_COUNTED_3_(every(n), __VA_ARGS__)
#define LOGDRIVE_WARN_EVERY_MS(ms, ...) LOGDRIVE_COUNTED_3_(every_ms(ms), __VA_ARGS__)
#define LOGDRIVE_ERROR(...) LOGDRIVE_4_(true, __VA_ARGS__)
#define LOGDRIVE_ERROR_IF(condition, ...) LOGDRIVE_4_(condition, __VA_ARGS__)
#define LOGDRIVE_ERROR_ONCE(...) LOGDRIVE_COUNTED_4_(once(), __VA_ARGS__)
#define LOGDRIVE_ERROR_EVERY_N(n, ...) LOGDRIVE_COUNTED_4_(every(n), __VA_ARGS__)
#define LOGDRIVE_ERROR_EVERY_MS(ms, ...) LOGDRIVE_COUNTED_4_(every_ms(ms), __VA_ARGS__)
#define LOGDRIVE_FATAL(...) LOGDRIVE_5_(true, __VA_ARGS__)
#define LOGDRIVE_FATAL_IF(condition, ...) LOGDRIVE_5_(condition, __VA_ARGS__)
#define LOGDRIVE_FATAL_ONCE(...) LOGDRIVE_COUNTED_5_(once(), __VA_ARGS__)
#define LOGDRIVE_FATAL_EVERY_N(n, ...) LOGDRIVE_COUNTED_5_(every(n), __VA_ARGS__)
#define LOGDRIVE_FATAL_EVERY_MS(ms, ...) LOGDRIVE_COUNTED_5_(every_ms(ms), __VA_ARGS__)

#endif

// Behind the guard: finds what the file has included since.
#include <logdrive/detail/formatters.hpp>
