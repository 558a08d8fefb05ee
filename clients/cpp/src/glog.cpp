// The library logdrive_glog: the parts of the glog facade that are not on the hot path, compiled once. Each module of a program
// that links it has its own copy, whose names no other module sees.
#ifndef LOGDRIVE_GLOG_LIBRARY
#define LOGDRIVE_GLOG_LIBRARY
#endif
#include <logdrive/detail/glog_library.hpp>
