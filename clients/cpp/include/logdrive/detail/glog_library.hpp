// All that the library logdrive_glog has compiled for the programs that link it, and that others compile by themselves.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_LIBRARY_HPP
#define LOGDRIVE_DETAIL_GLOG_LIBRARY_HPP

#include <logdrive/detail/glog_cleaner.hpp>
#include <logdrive/detail/glog_files.hpp>
#include <logdrive/detail/glog_finish.hpp>
#include <logdrive/detail/glog_loggers.hpp>
#include <logdrive/detail/glog_send.hpp>
#include <logdrive/detail/glog_setup.hpp>
#include <logdrive/detail/glog_stack.hpp>
#include <logdrive/detail/glog_start.hpp>

#endif
