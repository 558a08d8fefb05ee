// A plug-in that logs through the facade of its own, and is unloaded while the program goes on.
#include <glog/logging.h>

extern "C" void plugin_log(int value);
extern "C" void plugin_log(int value) {
    LOG(INFO) << "from the plug-in " << value;
    VLOG(3) << "verbose in the plug-in " << value;
}
