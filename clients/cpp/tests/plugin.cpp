// A plug-in with callsites of its own, which is unloaded while the program goes on.
#include <logdrive/logdrive.hpp>

extern "C" void plugin_log(int value);
extern "C" void plugin_log(int value) { LOGDRIVE_INFO("from the plug-in {}", value, logdrive::kv("where", "plugin")); }
