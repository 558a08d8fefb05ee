// Formats that are known at run time: LOGDRIVE_INFO_RUNTIME(format, ...). Each format of a statement is a callsite of its own, so
// that values are typed and formatted by the drain as with other calls. A format that cannot be read is shown as it is.
#ifndef LOGDRIVE_DETAIL_RUNTIME_FORMAT_HPP
#define LOGDRIVE_DETAIL_RUNTIME_FORMAT_HPP

#include <logdrive/detail/site.hpp>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

// Formats of one statement that become callsites: their table is the program's, and formats may come from anywhere.
constexpr size_t FORMATS_MAX = 64;

// Longest format that becomes a callsite: units and indices of placeholders have room behind it.
constexpr size_t FORMAT_BYTES_MAX = MESSAGE_BYTES_MAX / 2;

inline bool is_utf8(const char *text, size_t length) noexcept {
    for (size_t at = 0; at < length;) {
        const auto byte = [&](size_t i) { return at + i < length ? static_cast<uint8_t>(text[at + i]) : uint8_t(0); };
        const uint8_t first = byte(0), second = byte(1);
        const size_t bytes = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
        for (size_t i = 1; i < bytes; ++i)
            if ((byte(i) & 0xc0) != 0x80) return false;
        // Neither longer than needed, nor a half of a pair, nor past the end of Unicode.
        if (bytes == 0 || (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
            (first == 0xf4 && second > 0x8f))
            return false;
        at += bytes;
    }
    return true;
}

// A format that has a callsite. The text stands behind it; both stay as long as the program.
struct KnownFormat {
    const KnownFormat *next;
    const logdrive_site *site;
    size_t length;
    const char *text() const noexcept { return reinterpret_cast<const char *>(this + 1); }
};

struct RuntimeSite : SiteWord {
    const KnownFormat *formats = nullptr;

    // Filters judge all formats of a statement alike: its first one tells.
    LOGDRIVE_ALWAYS bool is_off() const noexcept { return __atomic_load_n(&entry()->control, __ATOMIC_RELAXED) == OFF; }

    const logdrive_site *find(const char *text, size_t length, size_t &count) const noexcept {
        count = 0;
        for (const KnownFormat *one = __atomic_load_n(&formats, __ATOMIC_ACQUIRE); one != nullptr; one = one->next, ++count)
            if (one->length == length && memcmp(one->text(), text, length) == 0) return one->site;
        return nullptr;
    }

    // The callsite of a format; null where it cannot be read, or there are too many.
    const logdrive_site *callsite(const Statement &statement, const char *text, size_t length) noexcept {
        size_t count = 0;
        const logdrive_site *found = find(text, length, count);
        if (found != nullptr || count >= FORMATS_MAX) return found;
        if (length > FORMAT_BYTES_MAX || !is_utf8(text, length)) return nullptr;
        const Fault fault = check(text, statement.source, statement.kinds(), statement.count());
        if (fault != Fault::none && fault != Fault::unused) return nullptr;
        const SignalsHeld held;
        Description description;
        describe_with(description, statement, text);
        found = logdrive_callsite(description.data(), description.size());
        void *const memory = found == nullptr ? nullptr : malloc(sizeof(KnownFormat) + length);
        if (memory == nullptr) return found;
        memcpy(static_cast<char *>(memory) + sizeof(KnownFormat), text, length);
        KnownFormat *const fresh = static_cast<KnownFormat *>(memory);
        fresh->site = found;
        fresh->length = length;
        fresh->next = __atomic_load_n(&formats, __ATOMIC_ACQUIRE);
        // SYNC(formats): what is in the list is complete.
        while (!__atomic_compare_exchange_n(&formats, &fresh->next, fresh, true, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {}
        if (fresh->next == nullptr) __atomic_store_n(&site, static_cast<const void *>(found), __ATOMIC_RELEASE);
        return found;
    }
};

// Describes a callsite that shows a format as it is, and the values behind it.
inline void describe_unread(Description &out, const Statement &statement) noexcept {
    const Meta meta = {statement.place, "", statement.target(), "", statement.source, nullptr, nullptr,
                       statement.line, uint8_t(statement.count() + 1), statement.level};
    describe_place(out, meta);
    out.text("{}", 2, MESSAGE_BYTES_MAX);
    out.byte(STR);
    out.byte(1);
    out.half(0);
    for (size_t i = 0; i < statement.count(); ++i) describe_field(out, statement, i, false);
}

template <class... C> void write_with(const logdrive_site *site, const C &...values) noexcept {
    if (logdrive_admit(site)) write_slowly<C...>(site, (size_t(0) + ... + values.size()), values...);
}

template <class... T, size_t... I>
LOGDRIVE_COLD void write_runtime(RuntimeSite &site, const Statement &statement, std::index_sequence<I...>, const char *format,
                                 size_t length, const T &...values) noexcept {
    const int kept = errno;
    Out copied;
    copied.append(format, length < RECORD_BYTES_MAX ? length : RECORD_BYTES_MAX - 1);
    copied.append('\0');
    const char *const text = copied.data();
    const size_t bytes = copied.size() - 1;
    if (const logdrive_site *known_ = site.callsite(statement, text, bytes)) {
        LateSpec specs[sizeof...(T) + 1];
        const uint16_t widths[] = {width_of(values)..., 0};
        if constexpr ((IsLate<T>::value || ...)) read_specs(specs, statement, text, widths);
        else (void)widths;
        write_with(known_, capture_with(values, specs[I])...);
    } else {
        SiteWord unread;
        const Blob<STR> shown = {text, blob_length(bytes)};
        if (const logdrive_site *known_ = known(unread, statement, describe_unread)) write_with(known_, shown, capture(values)...);
    }
    errno = kept;
}

// A format is a text that ends with a zero, or has data() and size().
template <class... T>
void format_at_run_time(RuntimeSite &site, const Statement &statement, const char *format, const T &...values) noexcept {
    const char *const text = format == nullptr ? "(null)" : format;
    write_runtime(site, statement, std::make_index_sequence<sizeof...(T)>(), text, strlen(text), values...);
}
template <class F, class... T, class = std::enable_if_t<IsText<F>::value>>
void format_at_run_time(RuntimeSite &site, const Statement &statement, const F &format, const T &...values) noexcept {
    write_runtime(site, statement, std::make_index_sequence<sizeof...(T)>(), format.data(), format.size(), values...);
}

template <class F, class... T> Kinds<decltype(capture(std::declval<const T &>()))...> kinds_behind(const F &, const T &...);

constexpr bool are_loggable(const uint8_t *kinds, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (kinds[i] == UNLOGGABLE) return false;
    return count < 255;
}

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
