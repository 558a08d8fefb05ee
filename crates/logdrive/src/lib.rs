//! A log call that costs a clock read and survives SIGKILL.
