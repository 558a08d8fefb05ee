// Calls of glog that a program compiles with the real library and with the facade: their logs have to be the same. Nothing
// in here knows which one it is.
#include <glog/logging.h>
#include <glog/raw_logging.h>
#include <glog/stl_logging.h>

#include <complex>
#include <iomanip>
#include <limits>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

struct Point {
    int x, y;
};
std::ostream &operator<<(std::ostream &out, const Point &point) { return out << '<' << point.x << ',' << point.y << '>'; }
struct Sticky {};
std::ostream &operator<<(std::ostream &out, const Sticky &) { return out << std::hex << std::showbase; }
enum Unscoped { FIRST, SECOND };
enum Named { NAMED = 7 };
std::ostream &operator<<(std::ostream &out, Named) { return out << "named"; }
std::string text(const char *from) { return from; }
std::ostream &dump(std::ostream &out) { return out << "dumped"; }

void values() {
    LOG(INFO) << "order " << 7 << " price " << 9.5;
    LOG(INFO) << short(-3) << ' ' << 4u << ' ' << -5l << ' ' << 6ul << ' ' << -7ll << ' ' << 8ull << ' ' << size_t(9);
    LOG(INFO) << int8_t('x') << uint8_t('y') << 'z' << ' ' << true << false;
    LOG(INFO) << std::numeric_limits<long long>::min() << ' ' << std::numeric_limits<unsigned long long>::max();
    for (const double value : {0.0, -0.0, 1.0, 0.1, 3.14159265358979, 1e-5, 1e-4, 123456.0, 1234567.0, 1e15, 1e16, 1e300,
                               -2.5e-300, 999999.5, 99999.95, 0.000123456789, 100.0, 1e5, 1e6, 1.0 / 3, 2.0 / 3})
        LOG(INFO) << value << ' ' << float(value) << ' ' << -value;
    LOG(INFO) << std::numeric_limits<double>::infinity() << ' ' << -std::numeric_limits<double>::infinity() << ' '
              << std::numeric_limits<double>::quiet_NaN() << ' ' << -std::numeric_limits<float>::quiet_NaN();
    LOG(INFO) << 1.5L << ' ' << nullptr << ' ' << static_cast<void *>(nullptr) << ' '
              << reinterpret_cast<void *>(0xbeef) << ' ' << reinterpret_cast<int *>(0xdeadbeef0);
    const std::string name = "name";
    LOG(INFO) << name << std::string_view("view") << text("temporary") << text("c_str").c_str() << std::string();
    char array[] = "array";
    const char *pointer = array;
    LOG(INFO) << array << pointer << "" << "literal\0hidden";
    LOG(INFO) << reinterpret_cast<const unsigned char *>("unsigned") << reinterpret_cast<const signed char *>("signed");
    LOG(INFO) << FIRST << SECOND << NAMED << std::complex<double>(1, 2) << L'w' << u'u';
    LOG(INFO) << "\xc3\xa9 \xff \x1b[1m tab\t back\\slash \"quoted\" {} {0}";
}

void streams() {
    LOG(WARNING) << Point{1, 2} << " and " << 3 << ' ' << 1e10 << Point{4, 5};
    LOG(WARNING) << "a" << 1 << std::hex << 255 << ' ' << std::dec << 255 << std::oct << ' ' << 8;
    LOG(WARNING) << std::setw(8) << 42 << std::setw(8) << std::left << "x" << '|' << std::setfill('*') << std::setw(4) << 1;
    LOG(WARNING) << std::setprecision(3) << 3.14159 << ' ' << std::fixed << 2.5 << ' ' << std::scientific << 12345.678;
    LOG(WARNING) << std::boolalpha << true << ' ' << std::showpos << 5 << ' ' << std::uppercase << std::hex << 0xabc;
    LOG(WARNING) << Sticky() << 255 << ' ' << 16;
    LOG(WARNING) << "ended by endl" << std::endl;
    LOG(WARNING) << "two\nlines";
    LOG(WARNING) << "a break at the end\n";
    LOG(WARNING) << "two breaks at the end\n\n";
    LOG(WARNING) << text("temporary break\n");
    dump(LOG(WARNING) << "into a function: ");
    LOG(WARNING) << std::flush << "behind flush";
    LOG(WARNING) << "";
    LOG(WARNING);
}

int nested(int value) {
    LOG(INFO) << "nested " << value << text(" in an operand");
    return value;
}
std::string thrown(bool throws) {
    if (throws) throw std::runtime_error("thrown");
    return "not thrown";
}

// Statements that are longer, deeper or shorter than most.
void odd() {
    const int i = 7;
    LOG(INFO) << i << i << i << i << i << i << i << i << i << i << i << i << i << i << i << i << i << i << i << i << i << i
              << ' ' << 1.5 << ' ' << text("many") << ' ' << std::string("values") << 2.5f << '\n';
    LOG(INFO) << nested(1) << " outside " << nested(2) << text(" temporary ") << nested(3);
    LOG(INFO) << text("a break before a stream\n") << Point{1, 2} << '\n';
    LOG(INFO) << std::string(900, 'f') << "\n" << std::string(900, 'g') << '\n' << text("") << std::string(1, '\n');
    LOG(INFO) << std::string(900, 'h') + "\n";
    LOG(INFO) << 1 << 2 << 3 << 4 << 5 << 6 << 7 << 8 << 9 << 10 << 11 << 12 << 13 << 14 << 15 << 16 << 17 << 18 << 19 << 20
              << true << -3 << 4u << 2.5 << 1.5f << 'c' << "text" << text(" text") << 18446744073709551615ull << Point{3, 4}
              << "behind";
    LOG(INFO) << std::string(3000, 'x') << 1 << std::string(5000, 'y') << 2;
    for (const bool throws : {false, true, false, true}) {
        try {
            LOG(WARNING) << "cut " << 1 << ' ' << thrown(throws) << " behind " << 2;
        } catch (const std::runtime_error &) {
            LOG(WARNING) << "caught";
        }
    }
    struct {
        unsigned bits : 3;
        volatile int changing;
    } fields = {5, 6};
    LOG(INFO) << fields.bits << ' ' << fields.changing;
    const std::vector<int> numbers = {1, 2, 3};
    LOG(INFO) << numbers << " and " << std::map<std::string, double>{{"a", 1.5}, {"b", 2}} << std::set<char>{'x', 'y'};
    LOG(INFO) << std::vector<int>(150, 4);
    CHECK_EQ(numbers, numbers);
    std::ostream &(*const into)(std::ostream &) = &dump;
    into(into(LOG(INFO) << "twice ") << ' ') << 1;
    const char *const constant = "constant pointer";
    static const char array[] = "constant array";
    LOG(INFO) << constant << ' ' << array;
    RAW_LOG(INFO, "%s", "not shown");
    RAW_CHECK(i == 7, "never");
}

void conditions() {
    for (int i = 0; i < 12; ++i) {
        LOG_IF(INFO, i % 5 == 0) << "if " << i;
        LOG_EVERY_N(INFO, 5) << "every " << i << " of " << google::COUNTER;
        LOG_IF_EVERY_N(INFO, i > 3, 3) << "if every " << i << ' ' << google::COUNTER;
        LOG_FIRST_N(INFO, 2) << "first " << i << ' ' << google::COUNTER;
        PLOG_EVERY_N(INFO, 6) << "perror " << i;
        DLOG(INFO) << "debug " << i;
        DLOG_IF(INFO, i == 2) << "debug if";
    }
    for (int i = 0; i < 3; ++i) {
        LOG_EVERY_T(INFO, 1000) << "every 1000 s " << i;
    }
    if (FIRST == 0)
        LOG(INFO) << "then";
    else
        LOG(INFO) << "else";
    errno = ENOENT;
    PLOG(ERROR) << "not there";
    errno = EACCES;
    PLOG_IF(ERROR, true) << "no access " << 5;
    LOG(ERROR) << "errno stays " << errno;
    LOG_AT_LEVEL(google::WARNING) << "at a level " << 1.5;
    SYSLOG_IF(INFO, false) << "never";
    std::string copy;
    LOG_TO_STRING(INFO, &copy) << "to a string " << 3;
    LOG(INFO) << "the string: " << copy;
    std::vector<std::string> copies;
    LOG_STRING(INFO, &copies) << "to a vector";
    LOG(INFO) << "the vector: " << copies.size() << ' ' << copies.at(0);
    google::LogMessage(__FILE__, __LINE__).stream() << "by hand";
    CHECK(FIRST == 0) << "never";
    CHECK_EQ(FIRST, 0);
    CHECK_STREQ("a", "a");
    CHECK_NEAR(1.0, 1.1, 0.2);
    LOG(INFO) << *CHECK_NOTNULL(&copy);
}

// The same statement with texts that the compiler knows in one copy of the function, or in the other, or in none.
inline void inlined(const char *text, bool condition) {
    LOG(INFO) << "inlined " << text << (condition ? " yes" : " not") << (condition ? '+' : '-') << text[0];
}

void constants(bool truth) {
    inlined("first", true);
    inlined("second", false);
    inlined(text("third").c_str(), truth);
    for (const char *name : {"a", "b"}) inlined(name, truth);
    LOG(INFO) << "braces {} {0} }{" << 1 << "{" << 2 << "}";
    LOG(INFO) << "not UTF-8: \xff " << 1 << " \xc3(" << ' ' << 2;
    LOG(INFO) << "" << "" << 1 << "";
    LOG(INFO) << "only a constant";
    LOG(INFO) << 'c';
    LOG(INFO) << "a break as a character" << '\n';
    LOG(INFO) << "a break in a text" << text(" \n");
    LOG(INFO) << "two breaks in a text" << text(" \n\n");
    LOG(INFO) << "a break and nothing" << text("\n") << "";
    LOG(INFO) << "a break and nothing\n" << text("") << std::string();
    LOG(INFO) << text("a break \n") << std::string() << text("");
    LOG(INFO) << text("ends with a zero ") << std::string(1, '\0') << std::string("\0", 1);
    LOG(INFO) << text("");
    LOG(INFO) << 1.5f << ' ' << 0.1f << ' ' << 16777216.0f << ' ' << 1e-10f;
    char changing[8] = "one";
    LOG(INFO) << changing << ' ' << strcpy(changing, "two") << ' ' << changing;
    for (int i = 0; i < 3; ++i) {
        const char own[3] = {char('x' + i), 'y', 0};
        LOG(INFO) << own << char('0' + i) << "|" << truth;
    }
    LOG(INFO) << 1 << "a" << 2 << "b" << 3 << "c" << 4 << "d" << 5 << "e" << 6 << "f" << 7 << "g" << 8 << "h" << 9 << "i" << 10
              << "j" << 11 << "k" << 12.5 << 'l' << true << "m" << text("n") << short(3) << "o\n";
    LOG(INFO) << text("long ") << std::string(700, 'z') << 1 << text(" behind ") << std::string(400, '!') << 2.5;
}

struct Owner {
    explicit Owner(std::string *given) : string(CHECK_NOTNULL(given)), owned(CHECK_NOTNULL(std::make_unique<int>(7))) {}
    std::string *string;
    std::unique_ptr<int> owned;
};

#define SOME_SEVERITY WARNING
// Names that stand behind the usual macros, which programs use by themselves.
void names() {
    COMPACT_GOOGLE_LOG_INFO.stream() << "compact " << 1;
    COMPACT_GOOGLE_LOG_WARNING.stream() << "compact " << Point{1, 2};
    GOOGLE_LOG_ERROR(5).stream() << "counted " << google::COUNTER << ' ' << google::COUNTER;
    std::string copy;
    LOG_TO_STRING_WARNING(&copy).stream() << "to a string " << 1;
    LOG(INFO) << "the string: " << copy;
    LOG_TO_STRING(INFO, nullptr) << "to no string";
    LOG_STRING(WARNING, nullptr) << "to no vector";
    errno = ENOENT;
    GOOGLE_PLOG(WARNING, 0).stream() << "perror";
    errno = EPERM;
    google::ErrnoLogMessage("made/up.cc", 12, google::GLOG_ERROR, 0, &google::LogMessage::SendToLog).stream() << "by hand";
    google::LogMessage("made/up.cc", 13, google::GLOG_WARNING, 3, &google::LogMessage::SendToLog).stream()
        << "by hand " << google::COUNTER;
    google::LogMessage("made/up.cc", google::LogMessage::kNoLogPrefix, google::GLOG_WARNING).stream() << "no prefix " << 1;
    google::LogMessage("made/up.cc", google::LogMessage::kNoLogPrefix).stream() << "no prefix either";
    for (int i = 0; i < 3; ++i) {
        LOG_EVERY_N(SOME_SEVERITY, 2) << "a severity by another name " << i;
        VLOG_IF_EVERY_N(1, i > 0, 2) << "verbose if every";
        DLOG_EVERY_N(INFO, 2) << "debug every " << i;
    }
    LOG_IF(SOME_SEVERITY, true) << "a severity by another name";
    VLOG_IF(1, true) << "verbose if";
    DVLOG(1) << "debug verbose";
    if (VLOG_IS_ON(0)) LOG(INFO) << "verbose 0 is on";
    std::string given = "given";
    const Owner owner(&given);
    LOG(INFO) << *owner.string << *owner.owned << *DCHECK_NOTNULL(&given);
    (given.empty() ? LOG(INFO) : LOG(WARNING)) << "either " << 1;
    switch (given.size()) case 5: LOG(INFO) << "in a switch";
    [[maybe_unused]] google::LogSeverity severity = google::GLOG_INFO;
    LOG(INFO) << google::GetLogSeverityName(google::GLOG_ERROR) << ' ' << google::LogSeverityNames[google::GLOG_FATAL] << ' '
              << google::NUM_SEVERITIES << ' ' << google::StrError(EACCES);
    char error[8];
    const int failed = google::posix_strerror_r(ENOENT, error, sizeof error);
    LOG(INFO) << failed << ' ' << error;
    google::base::CheckOpMessageBuilder builder("a == b");
    *builder.ForVar1() << 1;
    *builder.ForVar2() << 2;
    const std::unique_ptr<std::string> built(builder.NewString());
    LOG(INFO) << *built;
    LOG(INFO) << google::GetLoggingDirectories().empty() << google::IsGoogleLoggingInitialized() << fLI::FLAGS_v
              << fLB::FLAGS_logtostderr;
    LOG_ASSERT(failed == 0 || failed != 0) << "never";
    CHECK_BOUND(1, error) << "never";
    CHECK_INDEX(1, error);
    CHECK_STRCASEEQ("a", "A");
    CHECK_STRNE("a", "b");
    CHECK_STRCASENE("a", "b");
    CHECK_DOUBLE_EQ(1.5, 1.5);
    CHECK_GE(2, 1) << "never";
    CHECK_LT(1u, 2u);
    CHECK_ERR(0);
    PCHECK(true);
    DCHECK_GT(2, 1) << "never";
    DCHECK_STREQ("a", "a");
}

void verbose() {
    VLOG(1) << "not shown";
    FLAGS_v = 2;
    VLOG(2) << "shown " << 2;
    VLOG(3) << "not shown";
    LOG(INFO) << VLOG_IS_ON(2) << VLOG_IS_ON(3);
    LOG(INFO) << google::SetVLOGLevel("other*", 5);
    google::SiteFlag own = {nullptr, nullptr, 0, nullptr}, other = own;
    google::int32 fallback = 1;
    LOG(INFO) << google::InitVLOG3__(&other, &fallback, "made/other_file.cc", 5)
              << google::InitVLOG3__(&other, &fallback, "made/other_file.cc", 6)
              << google::InitVLOG3__(&own, &fallback, "made/up.cc", 1) << google::InitVLOG3__(&own, &fallback, "made/up.cc", 2)
              << (other.level != nullptr ? *other.level : -1);
    for (int i = 0; i < 5; ++i) {
        VLOG_EVERY_N(1, 2) << "verbose every " << google::COUNTER;
    }
}

class Sink : public google::LogSink {
public:
    void send(google::LogSeverity severity, const char *, const char *base, int line, const google::LogMessageTime &,
              const char *message, size_t length) override {
        seen += std::to_string(severity) + " " + base + ":" + std::to_string(line) + " " + std::string(message, length) + ";";
    }
    std::string seen;
};

void sinks() {
    Sink sink;
    google::AddLogSink(&sink);
    LOG(INFO) << "seen " << 1 << ' ' << 2.5 << Point{1, 2} << '\n';
    google::RemoveLogSink(&sink);
    LOG(INFO) << "not seen";
    LOG_TO_SINK(&sink, WARNING) << "both";
    LOG_TO_SINK_BUT_NOT_TO_LOGFILE(&sink, WARNING) << "sink only";
    LOG(INFO) << "seen: " << sink.seen;
    FLAGS_minloglevel = 1;
    LOG(INFO) << "below the least level";
    LOG(WARNING) << "not below";
    FLAGS_minloglevel = 0;
    LOG(INFO) << (google::LogMessage::num_messages(google::INFO) > 40) << ' '
              << google::LogMessage::num_messages(google::WARNING) << ' ' << google::LogMessage::num_messages(google::ERROR);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc > 1) FLAGS_log_dir = argv[1];
    FLAGS_stderrthreshold = google::FATAL;
    google::InitGoogleLogging("calls");
    values();
    streams();
    odd();
    conditions();
    constants(argc > 0);
    names();
    verbose();
    sinks();
    google::SetLogSymlink(google::INFO, "other_link");
    google::FlushLogFiles(google::INFO);
    if (argc > 2) LOG(FATAL) << "the end " << 1;
    google::ShutdownGoogleLogging();
    return 0;
}
