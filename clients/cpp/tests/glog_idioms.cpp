// Idioms of programs that use glog: what the compiler does with LOG(...) as a stream. The same file is compiled with the real glog
// and with the facade, and has to print the same.

// A header of the program that declares what it needs of glog by itself.
namespace google {
class LogSink;
void FlushLogFiles(int severity);
void InstallFailureSignalHandler();
}  // namespace google
struct OwnsASink {
    google::LogSink *sink;
};

#include <glog/logging.h>
#define GLOG_STL_LOGGING_FOR_UNORDERED
#pragma GCC diagnostic ignored "-Wcpp"
#define GLOG_STL_LOGGING_FOR_EXT_HASH
#include <glog/stl_logging.h>

#include <complex>
#include <cstdint>
#include <iomanip>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lib {
enum class Colour { red, green };
enum Plain { one = 1 };
enum Other { two = 2 };
struct Point {
    int x, y;
};
struct Secret {};
struct Name {
    operator const char *() const { return "name"; }
};
struct Number {
    operator int() const { return 77; }
};
struct Truth {
    explicit operator bool() const { return true; }
};
struct Derived : Point {};
struct Abstract {
    virtual ~Abstract() {}
    virtual void show(std::ostream &out) const = 0;
};
struct Concrete : Abstract {
    void show(std::ostream &out) const override { out << "concrete " << 5; }
};
struct Hex {
    int value;
};
struct Templated {};
struct Counted {
    int shown = 0;
};
template <class T> struct Boxed {
    T value;
};
struct Friend {
    friend std::ostream &operator<<(std::ostream &out, const Friend &) { return out << "friend"; }
};
struct Member {
    std::ostream &operator<<(std::ostream &out) const { return out << "member"; }
};
struct Quiet {};
inline std::ostream &operator<<(std::ostream &out, Quiet) { return out; }
struct Fails {};
inline std::ostream &operator<<(std::ostream &out, Fails) {
    out.setstate(std::ios::failbit);
    return out;
}
}  // namespace lib

// Where argument-dependent lookup does not find them.
std::ostream &operator<<(std::ostream &out, lib::Colour colour) { return out << (colour == lib::Colour::green ? "GREEN" : "RED"); }
std::ostream &operator<<(std::ostream &out, lib::Plain) { return out << "ONE"; }
std::ostream &operator<<(std::ostream &out, const lib::Point &point) { return out << '(' << point.x << ", " << point.y << ')'; }
std::ostream &operator<<(std::ostream &out, const lib::Secret *) { return out << "a secret"; }
std::ostream &operator<<(std::ostream &out, const lib::Abstract &all) {
    all.show(out);
    return out;
}
std::ostream &operator<<(std::ostream &out, lib::Counted &counted) { return out << "shown " << ++counted.shown; }
std::ostream &operator<<(std::ostream &out, const lib::Hex &hex) { return out << std::hex << hex.value; }
std::ostream &operator<<(std::ostream &out, __int128 value) { return out << "128 bits " << (long long)(value); }
template <class C, class T> std::basic_ostream<C, T> &operator<<(std::basic_ostream<C, T> &out, const lib::Templated &) {
    return out << "templated " << 1 << ' ' << 2.5;
}
template <class S, class T> S &operator<<(S &out, const lib::Boxed<T> &boxed) {
    out << "boxed ";
    out << std::hex;
    out << boxed.value;
    out << std::dec << ' ' << 16;
    return out;
}

static int at_namespace_scope = (LOG(INFO) << "at namespace scope " << 1, 1);
struct WithMember {
    int member = (LOG(INFO) << "in a member initialiser " << 2, 2);
};
static int with_default(int value = (LOG(INFO) << "in a default argument " << 3, 3)) { return value; }
static constexpr int in_constexpr(int value) { return value > 0 ? value : (LOG(INFO) << "in a constexpr function " << value, 0); }
static_assert(in_constexpr(4) == 4, "no call is made");
template <class T> static T in_template(T value) {
    VLOG(0) << "in a template " << value;
    return value;
}
static void show(std::ostream &out) { out << "by a function " << 1 << ' ' << lib::Colour::red; }
static std::ostream &passed(std::ostream &out) { return out << "passed on "; }
static const char *said() {
    LOG(INFO) << "in an operand";
    return "and outside";
}

struct Packed {
    char first;
    int second;
} __attribute__((packed));
struct Constants {
    static const int without_definition = 7;
    unsigned bits : 3;
};

#define MY_LOG(severity) COMPACT_GOOGLE_LOG_##severity.stream() << "[mine] "

int main(int, char **argv) {
    FLAGS_logtostderr = true;
    google::InitGoogleLogging(argv[0]);
    LOG(INFO) << lib::Colour::green << ' ' << lib::Colour::red;
    LOG(INFO) << lib::one << ' ' << lib::two;
    LOG(INFO) << lib::Point{1, 2} << lib::Derived();
    LOG(INFO) << static_cast<const lib::Secret *>(nullptr);
    LOG(INFO) << lib::Name() << ' ' << lib::Number();
    LOG(INFO) << bool(lib::Truth()) << lib::Friend();
    LOG(INFO) << lib::Concrete() << static_cast<const lib::Abstract &>(lib::Concrete());
    LOG(INFO) << lib::Hex{255} << ' ' << 255;
    LOG(INFO) << 255 << lib::Templated() << 255;
    LOG(INFO) << lib::Boxed<int>{255} << " after";
    LOG(INFO) << "before " << lib::Boxed<std::string>{"text"} << 1;
    LOG(INFO) << __int128(5);
    lib::Counted counted;
    LOG(INFO) << counted << counted;
    lib::Member() << (LOG(INFO) << "the other way round: ");
    LOG(INFO) << "quiet" << lib::Quiet() << 1;
    LOG(INFO) << "fails" << lib::Fails() << "and is silent";
    LOG(INFO) << lib::Point{3, 4} << " after a stream that failed";
    WithMember with_member;
    with_default();
    in_constexpr(-1);
    in_template(1.5f);
    in_template("text");
    auto &reference = LOG(INFO) << "a reference " << 1;
    static_cast<void>(reference);
    std::ostream &stream = LOG(INFO) << "a stream";
    static_cast<void>(stream);
    LOG(INFO).write("written", 7) << ' ' << 1;
    LOG(INFO).put('p') << 'q';
    LOG(INFO).precision(3);
    LOG(INFO) << 3.14159;
    LOG(INFO).setf(std::ios::hex, std::ios::basefield);
    LOG(INFO) << 255;
    LOG(INFO).flush() << "flushed";
    show(LOG(INFO));
    show(LOG(INFO) << "what is shown ");
    passed(LOG(INFO)) << 1;
    (at_namespace_scope != 0 ? LOG(INFO) : LOG(WARNING)) << "one of two";
    LOG(INFO) << said();
    LOG(INFO) << std::setw(6) << 42 << '|' << std::left << std::setw(6) << "ab" << '|' << std::setfill('*') << std::setw(4) << 'c';
    LOG(INFO) << std::boolalpha << true << std::noboolalpha << true << std::setprecision(2) << 3.14159 << std::fixed << 3.14159;
    LOG(INFO) << std::showbase << std::hex << 255 << std::uppercase << 255;
    LOG(INFO) << "line" << std::endl;
    LOG(INFO) << "two\nlines\n";
    LOG(INFO) << nullptr << ' ' << static_cast<void *>(nullptr) << ' ' << static_cast<const int *>(nullptr);
    LOG(INFO) << 'c' << static_cast<signed char>('s') << static_cast<unsigned char>('u') << uint8_t(65) << int8_t(66);
    LOG(INFO) << short(-1) << ' ' << uint16_t(2) << ' ' << -3L << ' ' << 4UL << ' ' << -5LL << ' ' << 6ULL << ' ' << size_t(7);
    LOG(INFO) << 1.0f / 3 << ' ' << 1.0 / 3 << ' ' << 1.0L / 3 << ' ' << 1e100 << ' ' << true;
    LOG(INFO) << std::string("a string") << std::string_view(" and a view") << std::string();
    LOG(INFO) << std::complex<double>(1, 2) << std::make_pair(1, "x") << std::vector<int>{1, 2, 3};
    LOG(INFO) << __gnu_cxx::hash_map<int, int>() << __gnu_cxx::hash_set<int>() << ".";
    char array[] = "an array";
    const char *pointer = array;
    volatile int changing = 8;
    LOG(INFO) << array << pointer << &array[3] << changing;
    Packed packed = {'x', 9};
    Constants constants;
    constants.bits = 5;
    LOG(INFO) << packed.second << Constants::without_definition << constants.bits;
    const auto lambda = [](std::ostream &out) -> std::ostream & { return out << "a lambda"; };
    LOG(INFO) << lambda;
    LOG(INFO) << (std::this_thread::get_id() == std::thread::id()) << std::make_shared<int>(1).use_count();
    MY_LOG(WARNING) << 1;
    LOG_IF(INFO, with_member.member == 2) << lib::Colour::green;
    for (int i = 0; i < 4; ++i) {
        LOG_EVERY_N(INFO, 2) << google::COUNTER << ' ' << lib::Colour::red << google::COUNTER;
        LOG_FIRST_N(INFO, 1) << "first " << i;
    }
    DLOG(INFO) << lib::Colour::green;
    DCHECK(true) << lib::Colour::green;
    CHECK(true) << lib::Colour::green;
    CHECK_EQ(lib::one, lib::one) << lib::Point{1, 2};
    if (counted.shown == 0) LOG(INFO) << "never";
    else LOG(INFO) << "else";
    switch (counted.shown) default: LOG(INFO) << "in a switch";
    google::FlushLogFiles(google::INFO);
    return 0;
}
