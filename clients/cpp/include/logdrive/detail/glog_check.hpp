// Implementation of CHECK_EQ and the like: the values of a failed check, as text.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_CHECK_HPP
#define LOGDRIVE_DETAIL_GLOG_CHECK_HPP

#include <logdrive/detail/glog_message.hpp>
#include <strings.h>
#include <utility>

namespace google {
inline namespace logdrive_glog {

template <class T> inline const T &GetReferenceableValue(const T &t) { return t; }
inline char GetReferenceableValue(char t) { return t; }
inline unsigned char GetReferenceableValue(unsigned char t) { return t; }
inline signed char GetReferenceableValue(signed char t) { return t; }
inline short GetReferenceableValue(short t) { return t; }
inline unsigned short GetReferenceableValue(unsigned short t) { return t; }
inline int GetReferenceableValue(int t) { return t; }
inline unsigned int GetReferenceableValue(unsigned int t) { return t; }
inline long GetReferenceableValue(long t) { return t; }
inline unsigned long GetReferenceableValue(unsigned long t) { return t; }
inline long long GetReferenceableValue(long long t) { return t; }
inline unsigned long long GetReferenceableValue(unsigned long long t) { return t; }

// Makes operators of the global namespace visible below, such as those of stl_logging.h.
struct DummyClassToDefineOperator {};

}  // namespace logdrive_glog
}  // namespace google

inline std::ostream &operator<<(std::ostream &out, const google::logdrive_glog::DummyClassToDefineOperator &) { return out; }

namespace google {
inline namespace logdrive_glog {

template <typename T> inline void MakeCheckOpValueString(std::ostream *os, const T &v) { (*os) << v; }

namespace internal LOGDRIVE_HIDDEN {
template <class T> inline void put_character(std::ostream *os, const T &v, const char *what) {
    if (v >= 32 && v <= 126) (*os) << "'" << v << "'";
    else (*os) << what << " value " << static_cast<short>(v);
}
}  // namespace internal

template <> inline void MakeCheckOpValueString(std::ostream *os, const char &v) { internal::put_character(os, v, "char"); }
template <> inline void MakeCheckOpValueString(std::ostream *os, const signed char &v) {
    internal::put_character(os, v, "signed char");
}
template <> inline void MakeCheckOpValueString(std::ostream *os, const unsigned char &v) {
    if (v >= 32 && v <= 126) (*os) << "'" << v << "'";
    else (*os) << "unsigned char value " << static_cast<unsigned short>(v);
}
template <> inline void MakeCheckOpValueString(std::ostream *os, const std::nullptr_t &) { (*os) << "nullptr"; }

template <typename T1, typename T2>
__attribute__((noinline, cold)) std::string *MakeCheckOpString(const T1 &v1, const T2 &v2, const char *exprtext) {
    std::ostringstream out;
    out << exprtext << " (";
    MakeCheckOpValueString(&out, v1);
    out << " vs. ";
    MakeCheckOpValueString(&out, v2);
    out << ")";
    return new std::string(out.str());
}

#define LOGDRIVE_DEFINE_CHECK_OP_(name, op)                                                       \
    template <typename T1, typename T2>                                                           \
    inline std::string *name##Impl(const T1 &v1, const T2 &v2, const char *exprtext) {            \
        return __builtin_expect(!!(v1 op v2), 1) ? nullptr : MakeCheckOpString(v1, v2, exprtext); \
    }                                                                                             \
    inline std::string *name##Impl(int v1, int v2, const char *exprtext) {                        \
        return name##Impl<int, int>(v1, v2, exprtext);                                            \
    }
LOGDRIVE_DEFINE_CHECK_OP_(Check_EQ, ==)
LOGDRIVE_DEFINE_CHECK_OP_(Check_NE, !=)
LOGDRIVE_DEFINE_CHECK_OP_(Check_LE, <=)
LOGDRIVE_DEFINE_CHECK_OP_(Check_LT, <)
LOGDRIVE_DEFINE_CHECK_OP_(Check_GE, >=)
LOGDRIVE_DEFINE_CHECK_OP_(Check_GT, >)
#undef LOGDRIVE_DEFINE_CHECK_OP_

#define LOGDRIVE_DEFINE_CHECK_STR_(name, func, expected)                                                           \
    inline std::string *Check##func##expected##Impl(const char *s1, const char *s2, const char *names) {       \
        const bool equal = s1 == s2 || (s1 != nullptr && s2 != nullptr && !func(s1, s2));                      \
        if (equal == expected) return nullptr;                                                                 \
        return new std::string(std::string(#name " failed: ") + names + " (" + (s1 == nullptr ? "" : s1) +      \
                               " vs. " + (s2 == nullptr ? "" : s2) + ")");                                     \
    }
LOGDRIVE_DEFINE_CHECK_STR_(CHECK_STREQ, strcmp, true)
LOGDRIVE_DEFINE_CHECK_STR_(CHECK_STRNE, strcmp, false)
LOGDRIVE_DEFINE_CHECK_STR_(CHECK_STRCASEEQ, strcasecmp, true)
LOGDRIVE_DEFINE_CHECK_STR_(CHECK_STRCASENE, strcasecmp, false)
#undef LOGDRIVE_DEFINE_CHECK_STR_

template <typename T> T CheckNotNull(const char *file, int line, const char *names, T &&t) {
    if (t == nullptr) LogMessageFatal(file, line, CheckOpString(new std::string(names)));
    return std::forward<T>(t);
}

}  // namespace logdrive_glog
}  // namespace google

#endif
