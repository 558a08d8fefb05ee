/* The C ABI of Logdrive: start, stop, flush, recover, statistics and options of the logger of a process.
 *
 * Functions that return an int give LOGDRIVE_OK or a negative LOGDRIVE_ERROR_*; logdrive_last_error() then returns what
 * is wrong and what to do. Texts are UTF-8 that ends with a zero. All functions may be called from any thread, none
 * of them from a signal handler unless it says so.
 *
 *     logdrive_options *options = logdrive_options_new("shop");
 *     logdrive_options_add_sink(options, "file:logs/shop.log");
 *     logdrive_options_set_sink(options, "layout", "json");
 *     if (logdrive_start(options) != LOGDRIVE_OK)
 *         fprintf(stderr, "%s\n", logdrive_last_error());
 *     logdrive_options_free(options);
 */
#ifndef LOGDRIVE_H
#define LOGDRIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOGDRIVE_OK 0
/* An argument is missing, is not UTF-8, or has a value that cannot be. */
#define LOGDRIVE_ERROR_ARGUMENT (-1)
/* A logger runs already. */
#define LOGDRIVE_ERROR_RUNNING (-2)
/* No logger runs. */
#define LOGDRIVE_ERROR_NOT_RUNNING (-3)
/* The logger could not be started. */
#define LOGDRIVE_ERROR_START (-4)
/* Some of the log was not written in time; it stays in the session, for `logdrive recover`. */
#define LOGDRIVE_ERROR_INCOMPLETE (-5)
/* A session could not be recovered. */
#define LOGDRIVE_ERROR_RECOVER (-6)
/* The library itself failed. */
#define LOGDRIVE_ERROR_INTERNAL (-7)

/* The options of a logger. */
typedef struct logdrive_options logdrive_options;

/* A callsite that the library keeps. Its first word is the address of its control entry (spec/session.md). */
typedef struct logdrive_site logdrive_site;

/* Reasons of a drop: indices into `dropped`. */
enum {
    LOGDRIVE_DROP_FULL = 0,
    LOGDRIVE_DROP_TOO_LARGE = 1,
    LOGDRIVE_DROP_REENTRANT = 2,
    LOGDRIVE_DROP_NO_RING = 3,
    LOGDRIVE_DROP_CLOSED = 4,
    LOGDRIVE_DROP_BACKEND = 5,
    LOGDRIVE_DROP_NO_CALLSITE = 6,
    LOGDRIVE_DROP_OTHER = 7,
    LOGDRIVE_DROP_COUNT = 8
};

/* The numbers of the running logger since its start: calls = committed + dropped + disabled + sampled_out. */
typedef struct logdrive_stats_t {
    uint64_t committed;                    /* records in rings, so that they survive a SIGKILL */
    uint64_t dropped[LOGDRIVE_DROP_COUNT]; /* calls that left no record, by reason */
    uint64_t disabled;                     /* calls that their level switched off; with count_disabled */
    uint64_t sampled_out;                  /* calls that sampling left out */
    uint64_t cut;                          /* records whose values were shortened to fit */
    uint64_t in_rings;                     /* records that are not drained yet */
    uint64_t malformed;                    /* records that could not be read */
    uint32_t rings;                        /* rings that exist, in use or ready */
    uint32_t rings_attached;               /* rings that a thread has now */
    uint32_t callsites;                    /* statements that have registered */
    uint32_t sinks;                        /* for logdrive_sink_stats: indices below this */
} logdrive_stats_t;

/* The numbers of one sink: records committed = written_records + dropped + pending. */
typedef struct logdrive_sink_stats_t {
    uint64_t written_records; /* handed to the kernel */
    uint64_t written_bytes;   /* handed to the kernel */
    uint64_t dropped;         /* records that the sink left out, whatever the reason */
    uint64_t pending;         /* records on their way */
    uint64_t errors;          /* writes that failed */
    uint64_t last_error;      /* the errno of the last one; 0 when the newest write went well */
} logdrive_sink_stats_t;

/* The version, as text. */
const char *logdrive_version(void);

/* Error message of this thread's last failed call; valid until its next failed call. Never null. */
const char *logdrive_last_error(void);

/* Options for an application of this name: without a sink, it logs to NAME.log in the working directory. */
logdrive_options *logdrive_options_new(const char *app);
void logdrive_options_free(logdrive_options *options);

/* Sets an option of the logger: filter ("info,net::quic=trace"; the environment variable LOGDRIVE goes before it), full
 * (drop, wait, block), clock (tsc, coarse), ring_bytes, run_dir, agent, flush_every, flush_level, overflow (drop, hold),
 * note_signals, keep_bytes (a flight recorder of this size: records that no sink takes are kept in memory, until logdrive_dump()
 * or a trigger has them written), keep_trigger (a level, or off; error), keep_trigger_at ("net.cpp:42" or a target, one more each time),
 * keep_before ("30s"; all), keep_pause (10 s), keep_on_crash (yes), count_disabled, shutdown_timeout, recover, held_sessions, held_bytes, use_env, terminal, run_as
 * ("65534:65534", the user and group that the program becomes after a start as root). Sizes are "64 MiB" or bytes, times "200ms" or "7d", flags yes or no. */
int logdrive_options_set(logdrive_options *options, const char *key, const char *value);

/* Adds a sink: "file:PATH", "stdout", "stderr" or "discard"; at most 16. */
int logdrive_options_add_sink(logdrive_options *options, const char *sink);

/* Takes one or more whole lines, each with a line feed at its end; there is no zero behind them. Returns 0 when it has taken
 * them; what it refuses is counted as dropped. */
typedef int (*logdrive_write_lines)(void *context, const char *lines, size_t bytes);

/* Adds a function of the program as a sink. One thread of the library calls it, never two calls at a time, until the logger
 * has ended; function and context stay valid until then. While it runs, other sinks go on and lines for it wait in buffers of 8
 * MiB; then `overflow` decides. No exception may leave it. Its own log calls are dropped and counted; logdrive_flush, _sync,
 * _dump, _start, _restart and _stop fail in it. Records that a killed program left are not given to it: add a file for these.
 * Where an agent has the session it is not called. The child of a fork that logs has a logger of its own with the same sinks,
 * which calls it in the child. */
int logdrive_options_add_callback(logdrive_options *options, logdrive_write_lines write, void *context);

/* Sets an option of the sink that was added last. Names and values are those of [[sink]] in logdrive.toml(5), such as
 * layout ("text", "json", "logfmt", "glog", "pattern ..."; with "local" for local time; "segments" for compressed blocks in a
 * file, which `logdrive cat` shows), min_level, flush_every ("200ms"), sync (never, level, or a time), rotate_bytes ("64 MiB"), keep_files and keep_age ("14d"); besides, layout may be
 * "glog-raw", and open_late is for files. `only` and `except` name a target of callsites whose records the sink takes or leaves
 * out, with all targets below it (net and net::quic); each call adds one. An error lists all names. */
int logdrive_options_set_sink(logdrive_options *options, const char *key, const char *value);

/* Starts the logger of this process. The caller keeps the options. May block for some milliseconds. */
int logdrive_start(const logdrive_options *options);

/* Ends the logger, if one runs, and starts another one; log calls in between wait. */
int logdrive_restart(const logdrive_options *options);

/* Drains everything that was committed and ends the logger. An exit of the program does so by itself, and so do SIGTERM,
 * SIGINT and SIGHUP where they have their default action, within shutdown_timeout (2 s). */
int logdrive_stop(void);

/* 1 while a logger runs that was started here, else 0. */
int logdrive_is_running(void);

/* Waits until the kernel has all records committed before. Gives up after five seconds without progress
 * (LOGDRIVE_ERROR_INCOMPLETE). */
int logdrive_flush(void);

/* Writes the records of the flight recorder to the log, with everything that was committed before, and forgets them.
 * logdrive_dump_last writes only those that are not older than so many milliseconds, and forgets the others. Both wait and fail
 * as logdrive_flush does; without a flight recorder they are logdrive_flush. */
int logdrive_dump(void);
int logdrive_dump_last(uint64_t milliseconds);

/* Does what logdrive_flush does, then waits until all files are on disk (fsync), with those that were rotated since, and
 * their names. LOGDRIVE_ERROR_INCOMPLETE also where something since the last answer may not be on disk; the log says what. */
int logdrive_sync(void);

/* Reopens all log files, after another program moved them away. */
void logdrive_reopen(void);

/* Replaces the filter of the running logger, for all callsites at once. */
int logdrive_set_filter(const char *filter);

/* Recovers the session of a dead process into its own files, or into the file `into` if not null. `records`, if not
 * null, receives the number of recovered records. */
int logdrive_recover(const char *session, const char *into, uint64_t *records);

/* Fills `out`; takes no lock that a log call needs. LOGDRIVE_ERROR_NOT_RUNNING when there is no logger. */
int logdrive_stats(logdrive_stats_t *out);
int logdrive_sink_stats(uint32_t index, logdrive_sink_stats_t *out);

/* Copies the directory of the running session, as far as it fits; returns its length, 0 when there is none. */
size_t logdrive_session_path(char *out, size_t bytes);

/* Interface for a front end that writes records itself, by spec/ring.md and spec/record.md.
 *
 * A callsite is described by the bytes of spec/record.md, which are copied; null when there is no room for it. */
const logdrive_site *logdrive_callsite(const uint8_t *description, size_t bytes);

/* Returns 1 if a call goes on whose control word is neither 0 nor 1, else 0; registers the callsite on its first call. */
int logdrive_admit(const logdrive_site *site);

/* Writes a record with these encoded values, on the slow path. Returns 1 when it is committed; otherwise the drop is
 * counted. */
int logdrive_write(const logdrive_site *site, const uint8_t *values, size_t bytes);

/* State of the calling thread, valid until the thread ends:
 *   0  u8  busy     8  u64 clock    16  u64 *coarse   24  u64 position
 *  32  u64 limit   40  u64 mask     48  u8 *data      56  ring header */
void *logdrive_place(void);

/* Memory that all modules of the process share by this name: zeros at first, aligned to 8, never freed. Null when it is
 * above 1 MiB, or had another size before. */
void *logdrive_shared(const char *name, size_t bytes);

/* A descriptor for signal handlers: write one byte to it, and the log is flushed; then one byte can be read. -1 when
 * there is none. Call it before the signal comes. */
int logdrive_rescue_descriptor(void);

/* Another thing that this thread does: for a byte 2 it calls `work`, and a byte 2 comes back. It is called by one thread at a time. */
typedef void (*logdrive_rescue_work_fn)(void);
void logdrive_rescue_work(logdrive_rescue_work_fn work);

/* Calls at an address of a program or library, counted as its file counts it: from the debug information of the file, else from
 * its table of symbols. `take` is called for each, the innermost first; what the compiler has put into others comes as a call of its
 * own. Texts are empty, and the line is 0, where they are not known; names are as the compiler wrote them. Returns how many there
 * are. Reads the file and allocates: not for signal handlers. */
typedef void (*logdrive_take_call)(void *context, const char *name, size_t name_bytes, const char *file, size_t file_bytes,
                                   uint32_t line);
int logdrive_calls_at(const char *module, uint64_t address, logdrive_take_call take, void *context);

/* Holds signals of the calling thread up, but for faults, while it takes locks or allocates: so no handler that logs finds
 * them taken by its own thread. May be nested; each call needs one of logdrive_release_signals() in the same thread, with
 * what it returned. */
uint64_t logdrive_hold_signals(void);
void logdrive_release_signals(uint64_t held);

#ifdef __cplusplus
}
#endif

#endif
