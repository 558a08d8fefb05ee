// Flags of glog's tests as plain variables that the environment sets.
#ifndef LOGDRIVE_GLOG_OWN_FLAGS_H
#define LOGDRIVE_GLOG_OWN_FLAGS_H
#include <glog/logging.h>
#include <cstdlib>
#include <string>
#define DEFINE_bool(name, value, meaning) static bool FLAGS_##name = value
#define DEFINE_int32(name, value, meaning) static google::int32 FLAGS_##name = value
#define DEFINE_string(name, value, meaning) static std::string FLAGS_##name = value
#define GLOG_DEFINE_bool(name, value, meaning) DEFINE_bool(name, getenv("GLOG_" #name) != nullptr || value, meaning)
#endif
