// LOG(INFO) << a << b: each value is captured typed, as it comes, in a chain of small objects; the last of them writes the
// record. What only a stream can show (types with an operator<<, manipulators) makes the rest of the statement a stream,
// whose text is the record's last value.
#ifndef LOGDRIVE_DETAIL_GLOG_STREAM_HPP
#define LOGDRIVE_DETAIL_GLOG_STREAM_HPP

#include <logdrive/detail/glog_message.hpp>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

namespace ld = ::logdrive::detail;

// A statement of the program. Its second callsite is for calls that end as a stream.
struct StreamSite {
    const char *file;
    int line;
    int severity;
    ld::Site plain;
    ld::Site streamed;
};

// The values as a stream shows them: each knows its kind, what the template says of it, and its text.
template <uint8_t KIND, class N> struct Integer : ld::Number<KIND, N> {
    static constexpr bool is_general = false;
    void show(std::ostream &out) const { out << +this->value; }
};
template <uint8_t KIND, class N> struct Real : ld::Number<KIND, N> {
    static constexpr bool is_general = true;
    void show(std::ostream &out) const { out << this->value; }
};
struct Text : ld::Blob<ld::STR> {
    static constexpr bool is_general = false;
    void show(std::ostream &out) const { out.write(static_cast<const char *>(data), std::streamsize(length)); }
};
// A character is a byte of text, whatever it is part of.
struct Char {
    static constexpr uint8_t kind = ld::STR;
    static constexpr const char *unit = ld::NO_UNIT;
    static constexpr bool is_general = false;
    char value;
    LOGDRIVE_ALWAYS size_t size() const noexcept { return 5; }
    LOGDRIVE_ALWAYS uint8_t *put(uint8_t *at) const noexcept {
        at = ld::store(at, uint32_t(1));
        *at = uint8_t(value);
        return at + 1;
    }
    void show(std::ostream &out) const { out.put(value); }
};
// An address, in the way of streams.
struct Address {
    static constexpr uint8_t kind = ld::STR;
    static constexpr const char *unit = ld::NO_UNIT;
    static constexpr bool is_general = false;
    char text[20];
    uint32_t length;
    explicit Address(const void *address) {
        length = uint32_t(address == nullptr ? snprintf(text, sizeof text, "0") : snprintf(text, sizeof text, "%p", address));
    }
    size_t size() const noexcept { return 4 + size_t(length); }
    uint8_t *put(uint8_t *at) const noexcept { return ld::copy(ld::store(at, length), text, length); }
    void show(std::ostream &out) const { out.write(text, std::streamsize(length)); }
};

template <class T> struct IsString : std::false_type {};
template <class A> struct IsString<std::basic_string<char, std::char_traits<char>, A>> : std::true_type {};
template <> struct IsString<std::basic_string_view<char>> : std::true_type {};

template <class T>
struct IsOneChar : std::integral_constant<bool, std::is_same<T, char>::value || std::is_same<T, signed char>::value ||
                                                    std::is_same<T, unsigned char>::value> {};
template <class T>
struct IsCharPointer
    : std::integral_constant<bool, std::is_pointer<std::decay_t<T>>::value &&
                                       IsOneChar<ld::Plain<std::remove_pointer_t<std::decay_t<T>>>>::value> {};
template <class T>
struct IsDataPointer
    : std::integral_constant<bool, std::is_pointer<std::decay_t<T>>::value && !IsCharPointer<T>::value &&
                                       !std::is_function<std::remove_pointer_t<std::decay_t<T>>>::value &&
                                       !std::is_volatile<std::remove_pointer_t<std::decay_t<T>>>::value> {};

// Whether a value is captured; all others make a stream.
template <class T>
struct IsTyped : std::integral_constant<bool, (std::is_integral<T>::value && !std::is_same<T, wchar_t>::value &&
                                               !std::is_same<T, char16_t>::value && !std::is_same<T, char32_t>::value) ||
                                                  std::is_same<T, float>::value || std::is_same<T, double>::value ||
                                                  IsString<T>::value || IsCharPointer<T>::value ||
                                                  IsDataPointer<T>::value> {};

template <class T> LOGDRIVE_ALWAYS auto capture_streamed(const T &value) {
    if constexpr (std::is_same<T, bool>::value) {
        return Integer<ld::U8, uint8_t>{{uint8_t(value)}};
    } else if constexpr (IsOneChar<T>::value) {
        return Char{char(value)};
    } else if constexpr (std::is_integral<T>::value) {
        return Integer<ld::integer_kind<T>(), T>{{value}};
    } else if constexpr (std::is_same<T, float>::value) {
        return Real<ld::F32, float>{{value}};
    } else if constexpr (std::is_same<T, double>::value) {
        return Real<ld::F64, double>{{value}};
    } else if constexpr (IsString<T>::value) {
        return Text{ld::text(value.data(), value.size())};
    } else if constexpr (IsCharPointer<T>::value) {
        const auto *pointer = value;
        return Text{ld::text(reinterpret_cast<const char *>(pointer))};
    } else {
        return Address(value);
    }
}

// The values so far. Copies are of pointers and numbers, which the compiler sees through.
struct Nothing {
    template <class F, class... L> LOGDRIVE_ALWAYS void call(const F &work, const L &...later) const { work(later...); }
    template <class F> LOGDRIVE_ALWAYS void call_trimmed(const F &work) const { work(); }
};
template <class C> LOGDRIVE_ALWAYS C trimmed(const C &value) noexcept { return value; }
// A line break at the end is not the message's.
LOGDRIVE_ALWAYS Text trimmed(const Text &text) noexcept {
    const char *data = static_cast<const char *>(text.data);
    const bool has_break = text.length > 0 && data[text.length - 1] == '\n';
    return Text{{text.data, text.length - uint32_t(has_break)}};
}
template <class Before, class C> struct Chain {
    Before before;
    C last;
    template <class F, class... L> LOGDRIVE_ALWAYS void call(const F &work, const L &...later) const {
        before.call(work, last, later...);
    }
    template <class F> LOGDRIVE_ALWAYS void call_trimmed(const F &work) const { before.call(work, trimmed(last)); }
};

// `{}{:g}{}` for the kinds of a statement.
template <bool... GENERAL> struct Template {
    static constexpr size_t count = sizeof...(GENERAL);
    char text[4 * sizeof...(GENERAL) + 1] = {};
    constexpr Template() {
        const bool general[] = {GENERAL..., false};
        size_t at = 0;
        for (size_t i = 0; i < count; ++i) {
            text[at++] = '{';
            if (general[i]) {
                text[at++] = ':';
                text[at++] = 'g';
            }
            text[at++] = '}';
        }
    }
};
template <class... C> struct Statement {
    static constexpr Template<C::is_general...> format = {};
    using Kinds = ld::Kinds<C...>;
    static ld::Meta meta(const StreamSite &site) noexcept {
        return {site.file, "", "", format.text, nullptr, Kinds::kinds, Kinds::units, uint32_t(site.line),
                uint8_t(sizeof...(C)), RECORD_LEVELS[site.severity]};
    }
};

// The ticket of a statement's callsite, where it is not simply on.
template <class... C> LOGDRIVE_COLD ld::Ticket ticket_slowly(StreamSite &site, ld::Site &callsite) noexcept {
    state().logged[site.severity] = true;
    return callsite.ticket_slowly(Statement<C...>::meta(site));
}

// What every call does besides writing, where that is asked for: minloglevel, sinks, the start.
LOGDRIVE_COLD inline bool think(const StreamSite &site, const std::string *text) {
    State &shared = state();
    if (site.severity < shared.minloglevel.value) return false;
    start_if_needed(shared);
    if (text != nullptr) send_to_sinks(site.file, site.line, site.severity, LogMessageTime(), text->data(), text->size());
    return true;
}

LOGDRIVE_ALWAYS bool thinks() noexcept {
    const State *state = __atomic_load_n(&known_state, __ATOMIC_ACQUIRE);
    return state == nullptr || __atomic_load_n(&state->thinks, __ATOMIC_RELAXED) != 0;
}

template <class... C> LOGDRIVE_COLD bool think_with(const StreamSite &site, C... values) {
    const int kept = errno;
    struct Keep {
        int value;
        ~Keep() { errno = value; }
    } keep{kept};
    if (state().sinks.empty()) return think(site, nullptr);
    std::ostringstream out;
    (values.show(out), ...);
    std::string text = out.str();
    if (!text.empty() && text.back() == '\n') text.pop_back();
    return think(site, &text);
}

template <class... C> LOGDRIVE_ALWAYS void write_statement(StreamSite &site, ld::Site &callsite, const C &...values) {
    if (LOGDRIVE_UNLIKELY(thinks()))
        if (!think_with<C...>(site, values...)) return;
    const ld::Entry *entry = callsite.entry();
    const uint32_t control = __atomic_load_n(&entry->control, __ATOMIC_RELAXED);
    ld::Ticket ticket;
    if (LOGDRIVE_LIKELY(control == ld::ON)) ticket = __atomic_load_n(&entry->id, __ATOMIC_RELAXED);
    else if (control == ld::OFF) return;
    else ticket = ticket_slowly<C...>(site, callsite);
    if (ticket != 0) ld::write_values(callsite, ticket, values...);
}

template <class Values> LOGDRIVE_COLD void log_streamed(StreamSite &site, const Values &values, const char *text,
                                                        size_t length) {
    if (length > 0 && text[length - 1] == '\n') --length;
    const Text last{{text, ld::blob_length(length)}};
    values.call([&](const auto &...all) { write_statement(site, site.streamed, all..., last); });
}

// What LOG(...) is: a temporary that gets the values.
template <class Values> class Stream {
public:
    LOGDRIVE_ALWAYS Stream(StreamSite *site, const Values &values, int64 counter) noexcept
        : site_(site), values_(values), counter_(counter) {}
    LOGDRIVE_ALWAYS ~Stream() {
        if (site_ != nullptr) finish();
    }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;

    template <class T, class = std::enable_if_t<IsTyped<T>::value>> LOGDRIVE_ALWAYS auto operator<<(const T &value) && {
        using C = decltype(capture_streamed(value));
        StreamSite *site = site_;
        site_ = nullptr;
        return Stream<Chain<Values, C>>(site, Chain<Values, C>{values_, capture_streamed(value)}, counter_);
    }
    LOGDRIVE_ALWAYS auto operator<<(PRIVATE_Counter) && { return static_cast<Stream &&>(*this) << counter_; }
    std::ostream &operator<<(std::ostream &(*manipulator)(std::ostream &)) { return stream() << manipulator; }
    std::ostream &operator<<(std::ios_base &(*manipulator)(std::ios_base &)) { return stream() << manipulator; }
    std::ostream &operator<<(std::ios &(*manipulator)(std::ios &)) { return stream() << manipulator; }

    // Anything else: from here on the statement is a stream.
    operator std::ostream &() { return stream(); }
    template <class T, class = std::enable_if_t<!IsTyped<T>::value && ld::IsStreamed<T>::value>, class = void>
    LOGDRIVE_ALWAYS std::ostream &operator<<(const T &value) && {
        return stream() << value;
    }
    // Of an lvalue, such as a reference that was bound to LOG(...): all is a stream.
    template <class T> std::ostream &operator<<(const T &value) & { return stream() << value; }

    LOGDRIVE_COLD std::ostream &stream() {
        if (streamed_ == nullptr) streamed_ = new LogMessage::LogStream(counter_);
        return *streamed_;
    }

private:
    LOGDRIVE_ALWAYS void finish() {
        if (LOGDRIVE_UNLIKELY(streamed_ != nullptr)) {
            finish_streamed(site_, values_, streamed_);
        } else {
            StreamSite &site = *site_;
            values_.call_trimmed([&site](const auto &...values) LOGDRIVE_LAMBDA {
                write_statement(site, site.plain, values...);
            });
        }
    }
    LOGDRIVE_COLD static void finish_streamed(StreamSite *site, Values values, LogMessage::LogStream *streamed) {
        const int kept = errno;
        log_streamed(*site, values, streamed->str(), streamed->pcount());
        delete streamed;
        errno = kept;
    }

    StreamSite *site_;
    Values values_;
    int64 counter_;
    LogMessage::LogStream *streamed_ = nullptr;
};

LOGDRIVE_ALWAYS Stream<Nothing> begin(StreamSite *site, int64 counter = 0) noexcept {
    return Stream<Nothing>(site, Nothing{}, counter);
}

}  // namespace internal
}  // namespace logdrive_glog
}  // namespace google

#endif
