// The second unit of two_units.cpp.
#include <logdrive/glog.h>
#include <logdrive/logdrive.hpp>

inline int shared(int value) {
    LOGDRIVE_INFO("shared {}", value);
    LOG(INFO) << "shared " << value;
    return value;
}
int other_unit(int value);
int other_unit(int value) { return shared(value); }
