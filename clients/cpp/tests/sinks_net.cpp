// Another logger of the program of sinks.cpp.
#define LOGDRIVE_TARGET "net"
#include <logdrive/logdrive.hpp>

void log_of_net(int value);
void log_of_net(int value) { LOGDRIVE_INFO("sent {}", value); }
