// glog's stl_logging.h: see logdrive/detail/glog_stl.hpp.
#include <logdrive/detail/glog_stl.hpp>
