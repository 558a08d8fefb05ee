// Formatters of the program: fmt::formatter where the file has included fmt, std::formatter where it has included <format>.
// No guard around all of it: a later include of logdrive.hpp finds what was included since.
#if defined(FMT_VERSION) && !defined(LOGDRIVE_DETAIL_BY_FMT)
#define LOGDRIVE_DETAIL_BY_FMT
#include <logdrive/detail/traits.hpp>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

// Appends to an Out.
template <class O> struct OutIterator {
    using iterator_category = std::output_iterator_tag;
    using value_type = void;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = void;
    O *out;
    OutIterator &operator=(char one) noexcept {
        out->append(one);
        return *this;
    }
    OutIterator &operator*() noexcept { return *this; }
    OutIterator &operator++() noexcept { return *this; }
    OutIterator operator++(int) noexcept { return *this; }
};

// Containers and tuples are shown by this library, in the same way, unless the program has a formatter for one.
template <class T>
struct ByFmt<T, Void<std::enable_if_t<(std::is_class<T>::value || std::is_union<T>::value || std::is_enum<T>::value) &&
                                      std::is_default_constructible<fmt::formatter<T, char>>::value>>>
#if defined(FMT_RANGES_H_)
    : std::integral_constant<bool, !IsMap<T>::value && !IsTuple<T>::value && !IsOptional<T>::value && !fmt::is_range<T, char>::value> {
#else
    : std::true_type {
#endif
    static void format(Out &out, const T &value, const char *spec, size_t bytes) {
        char text[80] = "{:";
        memcpy(text + 2, spec == nullptr ? "" : spec, bytes < 70 ? bytes : 70);
        const size_t end = 2 + (bytes < 70 ? bytes : 70);
        text[end] = '}';
        fmt::vformat_to(OutIterator<Out>{&out}, fmt::string_view(text, end + 1), fmt::make_format_args(value));
    }
};

}  // namespace detail
}  // namespace v0
}  // namespace logdrive
#endif

// libc++ 16 has it behind -fexperimental-library, without the macro of the standard.
#if ((defined(__cpp_lib_format) && (defined(_GLIBCXX_FORMAT) || defined(_LIBCPP_FORMAT))) || \
     (defined(_LIBCPP_FORMAT) && _LIBCPP_VERSION >= 16000 && !defined(_LIBCPP_HAS_NO_INCOMPLETE_FORMAT))) && \
    !defined(LOGDRIVE_DETAIL_BY_STD)
#define LOGDRIVE_DETAIL_BY_STD
#include <logdrive/detail/traits.hpp>

namespace logdrive {
inline namespace v0 {
namespace detail LOGDRIVE_HIDDEN {

template <class T>
struct ByStd<T, Void<std::enable_if_t<(std::is_class<T>::value || std::is_union<T>::value || std::is_enum<T>::value) &&
                                      std::is_default_constructible<std::formatter<T, char>>::value>>>
    : std::integral_constant<bool, !IsRange<T>::value && !IsTuple<T>::value && !IsOptional<T>::value && !IsDuration<T>::value && !IsTimePoint<T>::value> {
    static void format(Out &out, const T &value, const char *spec, size_t bytes) {
        std::string text = "{:";
        text.append(spec == nullptr ? "" : spec, bytes).append("}");
        const std::string made = std::vformat(text, std::make_format_args(value));
        out.append(made.data(), made.size());
    }
};

}  // namespace detail
}  // namespace v0
}  // namespace logdrive
#endif
