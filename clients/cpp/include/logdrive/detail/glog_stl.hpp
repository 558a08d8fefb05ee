// Containers of the standard library in streams, as glog's stl_logging.h shows them: up to 100 elements, with blanks between.
#ifndef LOGDRIVE_DETAIL_GLOG_STL_HPP
#define LOGDRIVE_DETAIL_GLOG_STL_HPP

#if defined(GLOG_STL_LOGGING_FOR_EXT_HASH)
#include <ext/hash_map>
#include <ext/hash_set>
#endif
#if defined(GLOG_STL_LOGGING_FOR_EXT_SLIST)
#include <ext/slist>
#endif
#include <deque>
#include <list>
#include <map>
#include <ostream>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

template <class First, class Second>
inline std::ostream &operator<<(std::ostream &out, const std::pair<First, Second> &pair);

namespace google {
inline namespace logdrive_glog {
template <class Iterator> inline void PrintSequence(std::ostream &out, Iterator begin, Iterator end);
}  // namespace logdrive_glog
}  // namespace google

#define LOGDRIVE_GLOG_SHOW_(container)                                                          \
    template <class... T> inline std::ostream &operator<<(std::ostream &out, const std::container<T...> &all) { \
        ::google::logdrive_glog::PrintSequence(out, all.begin(), all.end());                    \
        return out;                                                                             \
    }
LOGDRIVE_GLOG_SHOW_(vector)
LOGDRIVE_GLOG_SHOW_(deque)
LOGDRIVE_GLOG_SHOW_(list)
LOGDRIVE_GLOG_SHOW_(set)
LOGDRIVE_GLOG_SHOW_(multiset)
LOGDRIVE_GLOG_SHOW_(map)
LOGDRIVE_GLOG_SHOW_(multimap)
LOGDRIVE_GLOG_SHOW_(unordered_set)
LOGDRIVE_GLOG_SHOW_(unordered_multiset)
LOGDRIVE_GLOG_SHOW_(unordered_map)
LOGDRIVE_GLOG_SHOW_(unordered_multimap)
#undef LOGDRIVE_GLOG_SHOW_

// As with glog, where a program asks for it.
#if defined(GLOG_STL_LOGGING_FOR_EXT_HASH) || defined(GLOG_STL_LOGGING_FOR_EXT_SLIST)
#define LOGDRIVE_GLOG_SHOW_(container)                                                                                \
    template <class... T> inline std::ostream &operator<<(std::ostream &out, const __gnu_cxx::container<T...> &all) { \
        ::google::logdrive_glog::PrintSequence(out, all.begin(), all.end());                                          \
        return out;                                                                                                   \
    }
#if defined(GLOG_STL_LOGGING_FOR_EXT_HASH)
LOGDRIVE_GLOG_SHOW_(hash_set)
LOGDRIVE_GLOG_SHOW_(hash_multiset)
LOGDRIVE_GLOG_SHOW_(hash_map)
LOGDRIVE_GLOG_SHOW_(hash_multimap)
#endif
#if defined(GLOG_STL_LOGGING_FOR_EXT_SLIST)
LOGDRIVE_GLOG_SHOW_(slist)
#endif
#undef LOGDRIVE_GLOG_SHOW_
#endif

template <class First, class Second>
inline std::ostream &operator<<(std::ostream &out, const std::pair<First, Second> &pair) {
    return out << '(' << pair.first << ", " << pair.second << ')';
}

namespace google {
inline namespace logdrive_glog {
template <class Iterator> inline void PrintSequence(std::ostream &out, Iterator begin, Iterator end) {
    for (int i = 0; begin != end && i < 100; ++i, ++begin) {
        if (i > 0) out << ' ';
        out << *begin;
    }
    if (begin != end) out << " ...";
}
}  // namespace logdrive_glog
}  // namespace google

// CHECK_EQ of two containers finds the operators here only.
namespace std {
using ::operator<<;
}

#endif
