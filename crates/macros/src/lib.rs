//! The procedural macros behind Logdrive's logging macros.
