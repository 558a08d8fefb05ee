// A logger below that of sinks_net.cpp.
#define LOGDRIVE_TARGET "net::quic"
#include <logdrive/logdrive.hpp>

void log_of_quic(int value);
void log_of_quic(int value) { LOGDRIVE_WARN("lost {}", value); }
