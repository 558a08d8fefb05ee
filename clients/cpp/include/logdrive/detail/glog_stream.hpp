// LOG(INFO) << a << b: each value is kept as it is, typed, in a slot of the statement; the statement's end writes the
// record. What only a stream can show (types with an operator<<, manipulators) makes the rest of the statement a stream,
// whose text is the record's last value. A value costs the compiler some stores, and nothing here is a template of a
// statement's types: what is done with the values is compiled once for all statements.
#ifndef LOGDRIVE_DETAIL_GLOG_STREAM_HPP
#define LOGDRIVE_DETAIL_GLOG_STREAM_HPP

#include <logdrive/detail/glog_message.hpp>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

namespace ld = ::logdrive::detail;

// No statement has so many values.
constexpr uint8_t UNKNOWN_COUNT = 255;
// Values behind that many are rendered into one text.
constexpr unsigned VALUES_MAX = 24;
// Copies of texts that take no memory of their own.
constexpr size_t NEAR_BYTES = 384;

// A callsite, and with how many values it was registered: a statement that an exception cuts short has fewer.
struct CountedSite {
    ld::Site site;
    uint8_t count = UNKNOWN_COUNT;

    LOGDRIVE_ALWAYS bool has(uint8_t values) const noexcept { return __atomic_load_n(&count, __ATOMIC_RELAXED) == values; }
};

// A statement of the program. Its second callsite is for calls that end as a stream.
struct StreamSite {
    const char *file;
    int line;
    int severity;
    CountedSite plain;
    CountedSite streamed;
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

// What a call has captured.
class Captured {
public:
    Captured(const Captured &) = delete;
    Captured &operator=(const Captured &) = delete;

    template <unsigned INDEX, uint8_t KIND, class N> LOGDRIVE_ALWAYS void number(N value) noexcept {
        static_assert(INDEX < VALUES_MAX, "the values behind are a stream");
        kinds_[INDEX] = KIND;
        count_ = INDEX + 1;
        memcpy(&slots_[INDEX].word, &value, sizeof value);
        bytes_ += sizeof value;
    }
    // Text that outlives the statement.
    template <unsigned INDEX> LOGDRIVE_ALWAYS void literal(const char *text, uint32_t length) noexcept {
        static_assert(INDEX < VALUES_MAX, "the values behind are a stream");
        kinds_[INDEX] = ld::STR;
        count_ = INDEX + 1;
        slots_[INDEX] = {reinterpret_cast<uint64_t>(text), length};
        bytes_ += 4 + length;
    }
    // Text that may be gone at the end of the statement.
    LOGDRIVE_CALLED void text(unsigned index, const char *text, size_t length_) noexcept {
        const uint32_t length = ld::blob_length(length_);
        char *const copied = room(length);
        if (LOGDRIVE_UNLIKELY(copied == nullptr)) return literal_at(index, "", 0);
        ld::copy(reinterpret_cast<uint8_t *>(copied), text, length);
        literal_at(index, copied, length);
    }
    LOGDRIVE_CALLED void text(unsigned index, const char *text) noexcept {
        if (text == nullptr) return literal_at(index, "(null)", 6);
        this->text(index, text, strlen(text));
    }
    // A character is a byte of text, whatever it is part of.
    LOGDRIVE_CALLED void character(unsigned index, char value) noexcept { text(index, &value, 1); }
    // An address, in the way of streams.
    LOGDRIVE_COLD void address(unsigned index, const void *address) noexcept {
        char text[20];
        const int length = snprintf(text, sizeof text, address == nullptr ? "0" : "%p", address);
        this->text(index, text, size_t(length));
    }
    template <unsigned INDEX> LOGDRIVE_ALWAYS void counter() noexcept { number<INDEX, ld::I64>(counter_); }

    LOGDRIVE_COLD std::ostream &stream() {
        if (streamed_ == nullptr) streamed_ = new LogMessage::LogStream(counter_);
        return *streamed_;
    }

protected:
    LOGDRIVE_ALWAYS Captured(StreamSite *site, int64 counter) noexcept : site_(site), counter_(counter) {}
    ~Captured() = default;

    LOGDRIVE_CALLED void finish() {
        CountedSite &site = site_->plain;
        trim();
        // SYNC(control): the count is set before the callsite is known.
        const ld::Entry *entry = site.site.entry();
        const uint32_t control = __atomic_load_n(&entry->control, __ATOMIC_RELAXED);
        const bool is_usual = streamed_ == nullptr && !thinks() && site.has(count_) && control == ld::ON;
        if (LOGDRIVE_UNLIKELY(!is_usual)) return finish_slowly();
        const ld::Wrote wrote =
            ld::write_record(entry->id, bytes_, [this](uint8_t *at) LOGDRIVE_LAMBDA { this->encode(at); });
        if (LOGDRIVE_UNLIKELY(wrote == ld::Wrote::slowly || blocks_ != nullptr)) end_slowly(site, wrote);
    }

private:
    struct Slot {
        // A number, or the address of a text.
        uint64_t word;
        uint64_t length;
    };
    // A text that is longer than there is room for, behind this.
    struct Block {
        Block *next;
    };

    LOGDRIVE_ALWAYS void literal_at(unsigned index, const char *text, uint32_t length) noexcept {
        kinds_[index] = ld::STR;
        count_ = uint8_t(index + 1);
        slots_[index] = {reinterpret_cast<uint64_t>(text), length};
        bytes_ += 4 + length;
    }

    LOGDRIVE_ALWAYS char *room(size_t bytes) noexcept {
        if (LOGDRIVE_UNLIKELY(bytes > NEAR_BYTES - near_used_)) return far_room(bytes);
        char *const at = near_ + near_used_;
        near_used_ += uint32_t(bytes);
        return at;
    }
    LOGDRIVE_COLD char *far_room(size_t bytes) noexcept {
        Block *block = static_cast<Block *>(malloc(sizeof(Block) + bytes));
        if (block == nullptr) return nullptr;
        block->next = blocks_;
        blocks_ = block;
        return reinterpret_cast<char *>(block + 1);
    }
    void free_blocks() noexcept {
        while (Block *block = blocks_) {
            blocks_ = block->next;
            free(block);
        }
    }

    static bool is_short(uint8_t kind) noexcept { return kind == ld::I32 || kind == ld::U32 || kind == ld::F32; }

    // The values as spec/record.md has them.
    LOGDRIVE_ALWAYS void encode(uint8_t *at) const noexcept {
        for (unsigned i = 0; i < count_; ++i) {
            const Slot &slot = slots_[i];
            if (kinds_[i] == ld::STR)
                at = ld::copy(ld::store(at, uint32_t(slot.length)), reinterpret_cast<const void *>(slot.word), slot.length);
            else if (is_short(kinds_[i])) at = ld::store(at, uint32_t(slot.word));
            else at = ld::store(at, slot.word);
        }
    }

    // A line break at the end is not the message's.
    LOGDRIVE_ALWAYS void trim() noexcept {
        if (count_ == 0 || kinds_[count_ - 1] != ld::STR || streamed_ != nullptr) return;
        Slot &last = slots_[count_ - 1];
        if (last.length == 0 || reinterpret_cast<const char *>(last.word)[last.length - 1] != '\n') return;
        --last.length;
        --bytes_;
    }

    static bool thinks() noexcept {
        const State *state = __atomic_load_n(&known_state, __ATOMIC_ACQUIRE);
        return state == nullptr || __atomic_load_n(&state->thinks, __ATOMIC_RELAXED) != 0;
    }

    LOGDRIVE_COLD void write_slowly(const void *site) noexcept {
        uint8_t *const values = static_cast<uint8_t *>(malloc(bytes_ + 1));
        if (values == nullptr) return;
        *values = 0;
        encode(values);
        ld::write_encoded(site, values, bytes_);
        free(values);
    }
    LOGDRIVE_COLD void end_slowly(CountedSite &site, ld::Wrote wrote) noexcept {
        const int kept = errno;
        if (wrote == ld::Wrote::slowly) write_slowly(__atomic_load_n(&site.site.site, __ATOMIC_ACQUIRE));
        free_blocks();
        errno = kept;
    }

    // The first call, and all that is not as usual: the level is off or sampled, a sink listens, a stream, a statement that
    // an exception has cut short.
    LOGDRIVE_COLD void finish_slowly() {
        const int kept = errno;
        State &shared = state();
        CountedSite &site = streamed_ != nullptr ? site_->streamed : site_->plain;
        LogMessage::LogStream *const streamed = streamed_;
        if (streamed != nullptr) {
            // One value more than there are slots for others.
            literal_at(count_, streamed->str(), ld::blob_length(streamed->pcount()));
            streamed_ = nullptr;
            trim();
        }
        if (!thinks() || think(shared)) {
            shared.note_logged(site_->severity);
            const logdrive_site *known = registered(site);
            if (!site.has(count_)) write_rendered();
            else if (known != nullptr && logdrive_admit(known)) write_slowly(known);
        }
        free_blocks();
        delete streamed;
        errno = kept;
    }

    // Whether the call goes on: minloglevel, the start, sinks.
    bool think(State &shared) {
        if (site_->severity < shared.least_severity()) return false;
        start_if_needed(shared);
        if (!shared.has_sinks()) return true;
        ::logdrive::Out text;
        show(text);
        shared.sender(site_->file, site_->line, site_->severity, text.data(), text.size());
        return true;
    }

    void write_rendered() noexcept {
        ::logdrive::Out text;
        show(text);
        write_message(site_->file, site_->line, site_->severity, text.data(), text.size());
    }

    // The callsite with these values' kinds. Floating-point numbers are shown as streams do: `{}{:g}{}`.
    const logdrive_site *registered(CountedSite &site) noexcept {
        uint8_t unknown = UNKNOWN_COUNT;
        __atomic_compare_exchange_n(&site.count, &unknown, count_, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
        if (!site.has(count_)) return nullptr;
        char format[4 * VALUES_MAX + 8];
        const char *units[VALUES_MAX + 2];
        char *at = format;
        for (unsigned i = 0; i < count_; ++i) {
            at = stpcpy(at, kinds_[i] == ld::F32 || kinds_[i] == ld::F64 ? "{:g}" : "{}");
            units[i] = ld::NO_UNIT;
        }
        *at = 0;
        return site.site.known({site_->file, "", "", format, nullptr, kinds_, units, uint32_t(site_->line), count_,
                                RECORD_LEVELS[site_->severity]},
                               ld::describe_shown);
    }

    // The message as a stream would have it.
    void show(::logdrive::Out &out) const noexcept {
        for (unsigned i = 0; i < count_; ++i) {
            const Slot &slot = slots_[i];
            float single;
            double real;
            memcpy(&single, &slot.word, sizeof single);
            memcpy(&real, &slot.word, sizeof real);
            switch (kinds_[i]) {
            case ld::I32: out.print("%d", int32_t(slot.word)); break;
            case ld::U32: out.print("%u", uint32_t(slot.word)); break;
            case ld::I64: out.print("%lld", static_cast<long long>(slot.word)); break;
            case ld::U64: out.print("%llu", static_cast<unsigned long long>(slot.word)); break;
            case ld::F32: out.print("%g", double(single)); break;
            case ld::F64: out.print("%g", real); break;
            default: out.append(reinterpret_cast<const char *>(slot.word), slot.length);
            }
        }
    }

    StreamSite *site_;
    int64 counter_;
    LogMessage::LogStream *streamed_ = nullptr;
    Block *blocks_ = nullptr;
    size_t bytes_ = 0;
    uint32_t near_used_ = 0;
    uint8_t count_ = 0;
    uint8_t kinds_[VALUES_MAX + 3];
    Slot slots_[VALUES_MAX + 1];
    char near_[NEAR_BYTES];
};

// How many values there are so far: what the next << goes to.
template <unsigned COUNT> class Next {
public:
    LOGDRIVE_ALWAYS explicit Next(Captured &captured) noexcept : captured_(&captured) {}

    template <class T> LOGDRIVE_ALWAYS decltype(auto) operator<<(const T &value) && {
        if constexpr (COUNT >= VALUES_MAX) return captured_->stream() << value;
        else if constexpr (std::is_same<T, bool>::value) return number<ld::U32>(uint32_t(value));
        else if constexpr (IsOneChar<T>::value) {
            captured_->character(COUNT, char(value));
            return next();
        } else if constexpr (IsCharPointer<T>::value) {
            // Arrays that may change, and pointers that may: a literal comes to the operator below.
            const auto *pointer = value;
            captured_->text(COUNT, reinterpret_cast<const char *>(pointer));
            return next();
        } else if constexpr (std::is_same<T, short>::value || std::is_same<T, int>::value)
            return number<ld::I32>(int32_t(value));
        else if constexpr (std::is_same<T, unsigned short>::value || std::is_same<T, unsigned>::value)
            return number<ld::U32>(uint32_t(value));
        else if constexpr (std::is_same<T, long>::value || std::is_same<T, long long>::value)
            return number<ld::I64>(int64_t(value));
        else if constexpr (std::is_same<T, unsigned long>::value || std::is_same<T, unsigned long long>::value)
            return number<ld::U64>(uint64_t(value));
        else if constexpr (std::is_same<T, float>::value) return number<ld::F32>(value);
        else if constexpr (std::is_same<T, double>::value) return number<ld::F64>(value);
        else if constexpr (std::is_same<T, PRIVATE_Counter>::value) {
            captured_->template counter<COUNT>();
            return next();
        } else if constexpr (IsString<T>::value) {
            captured_->text(COUNT, value.data(), value.size());
            return next();
        } else if constexpr (IsDataPointer<T>::value) {
            captured_->address(COUNT, value);
            return next();
        } else return captured_->stream() << value;
    }
    LOGDRIVE_ALWAYS decltype(auto) operator<<(const char *text) && {
        if constexpr (COUNT >= VALUES_MAX) {
            return captured_->stream() << text;
        } else {
            // What the compiler knows the length of is a literal, or as constant as one.
            if (__builtin_constant_p(__builtin_strlen(text)))
                captured_->template literal<COUNT>(text, uint32_t(__builtin_strlen(text)));
            else captured_->text(COUNT, text);
            return next();
        }
    }
    std::ostream &operator<<(std::ostream &(*manipulator)(std::ostream &)) { return captured_->stream() << manipulator; }
    std::ostream &operator<<(std::ios_base &(*manipulator)(std::ios_base &)) { return captured_->stream() << manipulator; }
    std::ostream &operator<<(std::ios &(*manipulator)(std::ios &)) { return captured_->stream() << manipulator; }
    // Of an lvalue, such as a reference that was bound to LOG(...): all is a stream.
    template <class T> std::ostream &operator<<(const T &value) & { return captured_->stream() << value; }
    operator std::ostream &() { return captured_->stream(); }

private:
    template <uint8_t KIND, class N> LOGDRIVE_ALWAYS Next<COUNT + 1> number(N value) noexcept {
        captured_->template number<COUNT, KIND>(value);
        return next();
    }
    LOGDRIVE_ALWAYS Next<COUNT + 1> next() noexcept { return Next<COUNT + 1>(*captured_); }

    Captured *captured_;
};

// What LOG(...) is: a temporary that lives until the end of its statement.
class Stream : public Captured, public Next<0> {
public:
    LOGDRIVE_ALWAYS Stream(StreamSite *site, int64 counter) noexcept
        : Captured(site, counter), Next<0>(static_cast<Captured &>(*this)) {}
    LOGDRIVE_ALWAYS ~Stream() { finish(); }
};

LOGDRIVE_ALWAYS Stream begin(StreamSite *site, int64 counter = 0) noexcept { return Stream(site, counter); }

}  // namespace internal
}  // namespace logdrive_glog
}  // namespace google

#endif
