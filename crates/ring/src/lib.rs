//! Shared memory of Logdrive: regions, the ring of one thread, the session of one process.
