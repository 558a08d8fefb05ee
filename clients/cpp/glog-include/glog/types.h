// The glog facade of Logdrive under the name that programs include.
#include <logdrive/glog.h>
