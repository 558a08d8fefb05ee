// What the tests of glog 0.6 and 0.7 know of the machine, for those that run with the facade: Linux, without gflags.
#ifndef LOGDRIVE_GLOG_OWN_CONFIG_H
#define LOGDRIVE_GLOG_OWN_CONFIG_H

#define GOOGLE_NAMESPACE google
#define _START_GOOGLE_NAMESPACE_ namespace google {
#define _END_GOOGLE_NAMESPACE_ }
#define GLOG_CONSTEXPR constexpr
#define HAVE_CXX11_CHRONO
#define HAVE_GLOB_H
#define HAVE_PTHREAD
#define HAVE_RWLOCK
#define HAVE_STACKTRACE
#define HAVE_SYMBOLIZE
#define HAVE_SYS_WAIT_H
#define HAVE_UNISTD_H
#define HAVE_USING_OPERATOR
#define HAVE___ATTRIBUTE__
// Not HAVE_FCNTL, for which a forked child has to lose its lines where the names of files have no time: with the facade it has a
// file of its own (MIGRATION.md, fork).

#endif
