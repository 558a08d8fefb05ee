// glog's raw_logging.h: see logdrive/detail/glog_raw.hpp.
#include <logdrive/detail/glog_raw.hpp>
