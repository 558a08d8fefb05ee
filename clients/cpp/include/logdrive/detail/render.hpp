// Text that is made at the call, for types that only know how to show themselves.
#ifndef LOGDRIVE_DETAIL_RENDER_HPP
#define LOGDRIVE_DETAIL_RENDER_HPP

#include <logdrive/detail/ring.hpp>
#include <iosfwd>
#include <stdio.h>
#include <stdlib.h>

namespace logdrive {
inline namespace v0 {

// Buffer of rendered text. Short texts are not allocated. At most 64 KiB are kept, which is more than any record.
class Out {
public:
    Out() noexcept {}
    // The first texts go into memory of the caller, which stays as long as this.
    Out(char *room, size_t bytes) noexcept : room_(room), data_(room), capacity_(bytes) {}
    Out(Out &&other) noexcept {
        if (other.data_ == other.room_) {
            append(other.data_, other.size_);
        } else {
            size_ = other.size_;
            data_ = other.data_;
            capacity_ = other.capacity_;
            other.data_ = other.room_ = other.near_;
            other.capacity_ = sizeof other.near_;
        }
        other.size_ = 0;
    }
    Out(const Out &) = delete;
    Out &operator=(const Out &) = delete;
    ~Out() {
        if (data_ != room_) free(data_);
    }

    const char *data() const noexcept { return data_; }
    size_t size() const noexcept { return size_; }

    void append(const char *text, size_t length) noexcept {
        if (length > detail::RECORD_BYTES_MAX - size_) length = detail::RECORD_BYTES_MAX - size_;
        if (length > capacity_ - size_ && !grow(size_ + length)) return;
        memcpy(data_ + size_, text, length);
        size_ += length;
    }
    void append(const char *text) noexcept { append(text, strlen(text)); }
    void append(char one) noexcept { append(&one, 1); }
    // Memory of a long text is given back.
    void clear() noexcept {
        if (data_ != room_) free(data_);
        data_ = room_ = near_;
        capacity_ = sizeof near_;
        size_ = 0;
    }
    // Takes away what stands behind the first `size` bytes.
    void cut(size_t size) noexcept {
        if (size < size_) size_ = size;
    }
    // Takes this character away where it is the last one.
    void trim(char one) noexcept {
        if (size_ > 0 && data_[size_ - 1] == one) --size_;
    }

    // Formats like printf.
    __attribute__((format(printf, 2, 3))) void print(const char *format, ...) noexcept {
        char text[256];
        __builtin_va_list arguments;
        __builtin_va_start(arguments, format);
        const int length = vsnprintf(text, sizeof text, format, arguments);
        __builtin_va_end(arguments);
        if (length > 0) append(text, size_t(length) < sizeof text ? size_t(length) : sizeof text - 1);
    }

private:
    bool grow(size_t wanted) noexcept {
        size_t capacity = capacity_ * 2;
        while (capacity < wanted) capacity *= 2;
        char *fresh = static_cast<char *>(malloc(capacity));
        if (fresh == nullptr) return false;
        memcpy(fresh, data_, size_);
        if (data_ != room_) free(data_);
        data_ = fresh;
        capacity_ = capacity;
        return true;
    }

    char near_[256];
    char *room_ = near_;
    char *data_ = near_;
    size_t size_ = 0;
    size_t capacity_ = sizeof near_;
};

// A stream's buffer that goes into an Out. A template, so that <ostream> is only needed where a type is streamed.
template <class Base> class OutBuffer : public Base {
public:
    explicit OutBuffer(Out &out) : out_(out) {}

protected:
    typename Base::int_type overflow(typename Base::int_type one) override {
        if (!Base::traits_type::eq_int_type(one, Base::traits_type::eof()))
            out_.append(Base::traits_type::to_char_type(one));
        return Base::traits_type::not_eof(one);
    }
    std::streamsize xsputn(const char *text, std::streamsize length) override {
        out_.append(text, static_cast<size_t>(length));
        return length;
    }

private:
    Out &out_;
};

// Rendering of a type of the program: specialise it with `static void render(logdrive::Out &, const T &)`.
template <class T> struct Render;

namespace detail LOGDRIVE_HIDDEN {

// `2026-11-21T12:34:56.123456789Z` of seconds since 1970.
inline void render_time(Out &out, long double seconds_since_1970) noexcept {
    long long seconds = static_cast<long long>(seconds_since_1970);
    if (static_cast<long double>(seconds) > seconds_since_1970) --seconds;
    long long nanoseconds = static_cast<long long>((seconds_since_1970 - static_cast<long double>(seconds)) * 1e9L + 0.5L);
    if (nanoseconds > 999999999) nanoseconds = 999999999;
    const time_t time = static_cast<time_t>(seconds);
    struct tm date;
    if (gmtime_r(&time, &date) == nullptr) return out.print("%lld s", seconds);
    out.print("%04d-%02d-%02dT%02d:%02d:%02d.%09lldZ", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday,
              date.tm_hour, date.tm_min, date.tm_sec, nanoseconds);
}

template <class T> struct Streams {
    using Stream = std::ostream;
    using Buffer = std::streambuf;
};

// Include <ostream> where you log a type that has an operator<<.
template <class T> LOGDRIVE_COLD void render_by_stream(Out &out, const T &value) {
    OutBuffer<typename Streams<T>::Buffer> buffer(out);
    typename Streams<T>::Stream stream(&buffer);
    stream << value;
}

}  // namespace detail
}  // namespace v0
}  // namespace logdrive

#endif
