// The stack of the calling thread as glog prints it, and the handler for signals that end a program.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_STACK_HPP
#define LOGDRIVE_DETAIL_GLOG_STACK_HPP

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

namespace google {
inline namespace logdrive_glog {
namespace internal LOGDRIVE_HIDDEN {

LOGDRIVE_GLOG_FN_ void write_to_stderr(const char *text, size_t length) {
    while (length > 0) {
        const ssize_t written = ::write(STDERR_FILENO, text, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text += written;
        length -= size_t(written);
    }
}

// `    @     0x55d0c0c8a1b2  main`
LOGDRIVE_GLOG_FN_ void print_frame(const char *front, void *address, Writer writer) {
    Dl_info found;
    char line[1024];
    const char *name = "(unknown)";
    char *readable = nullptr;
    // The address that a call returns to may be the first of the next function.
    if (dladdr(static_cast<char *>(address) - 1, &found) != 0 && found.dli_sname != nullptr) {
        int status = 0;
        readable = abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status);
        name = status == 0 ? readable : found.dli_sname;
    }
    const int length = snprintf(line, sizeof line, "%s@ %18p  %s\n", front, address, name);
    if (length > 0) writer(line, size_t(length) < sizeof line ? size_t(length) : sizeof line - 1);
    free(readable);
}

__attribute__((noinline)) LOGDRIVE_GLOG_FN_ void print_stack(int skip, Writer writer) {
    void *frames[32];
    const int depth = backtrace(frames, 32);
    for (int i = skip; i < depth; ++i) print_frame("    ", frames[i], writer);
}

struct FatalSignal {
    int number;
    const char *name;
};
inline constexpr FatalSignal FATAL_SIGNALS[] = {{SIGSEGV, "SIGSEGV"}, {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},
                                                {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"}, {SIGTERM, "SIGTERM"}};

// Timeout of a signal handler that waits for the log, in milliseconds.
constexpr int RESCUE_MS = 2000;

// Has the log flushed by another thread: this one may hold any lock.
LOGDRIVE_GLOG_FN_ void rescue_log(int descriptor) {
    const char one = 1;
    struct pollfd wait = {descriptor, POLLIN, 0};
    if (descriptor >= 0 && ::write(descriptor, &one, 1) == 1) poll(&wait, 1, RESCUE_MS);
}

LOGDRIVE_GLOG_FN_ void write_dump(const char *text, size_t length) {
    Writer writer = state().failure_writer;
    (writer != nullptr ? writer : write_to_stderr)(text, length);
}

LOGDRIVE_GLOG_FN_ void print_signal(int number, const siginfo_t *info) {
    char line[256];
    const char *name = "signal";
    for (const FatalSignal &known : FATAL_SIGNALS)
        if (known.number == number) name = known.name;
    const int length = snprintf(line, sizeof line,
                                "*** %s (@0x%lx) received by PID %d (TID 0x%lx) from PID %d; stack trace: ***\n", name,
                                reinterpret_cast<unsigned long>(info->si_addr), int(getpid()),
                                static_cast<unsigned long>(pthread_self()), int(info->si_pid));
    write_dump(line, size_t(length));
}

LOGDRIVE_GLOG_FN_ void *program_counter(void *context) {
    const ucontext_t *found = static_cast<const ucontext_t *>(context);
#if defined(__x86_64__)
    return reinterpret_cast<void *>(found->uc_mcontext.gregs[16]);
#elif defined(__aarch64__)
    return reinterpret_cast<void *>(found->uc_mcontext.pc);
#else
    return found == nullptr ? nullptr : nullptr;
#endif
}

LOGDRIVE_GLOG_FN_ uint32_t &handling_thread() {
    static uint32_t thread = 0;
    return thread;
}

// Dumps signal and stack, has the log brought to the kernel, and lets the signal take its course.
LOGDRIVE_GLOG_FN_ void failure_handler(int number, siginfo_t *info, void *context) {
    const uint32_t self = uint32_t(syscall(SYS_gettid));
    uint32_t expected = 0;
    if (!__atomic_compare_exchange_n(&handling_thread(), &expected, self, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        // A second signal in the handler ends it; another thread waits for the first to end the process.
        while (expected != self) sleep(1);
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    char line[160];
    const long now = long(time(nullptr));
    const int length = snprintf(line, sizeof line,
                                "*** Aborted at %ld (unix time) try \"date -d @%ld\" if you are using GNU date ***\n", now, now);
    write_dump(line, size_t(length));
    print_frame("PC: ", program_counter(context), write_dump);
    print_signal(number, info);
    print_stack(2, write_dump);
    rescue_log(state().rescue);
    signal(number, SIG_DFL);
    raise(number);
}

}  // namespace internal

LOGDRIVE_GLOG_FN_ void InstallFailureSignalHandler() {
    internal::State &state = internal::state();
    internal::Lock lock(state.mutex);
    // Prepared now, because the first use allocates.
    void *frame;
    backtrace(&frame, 1);
    state.rescue = logdrive_rescue_descriptor();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    action.sa_sigaction = &internal::failure_handler;
    for (const internal::FatalSignal &signal : internal::FATAL_SIGNALS) sigaction(signal.number, &action, nullptr);
    state.failure_handler = true;
}

LOGDRIVE_GLOG_FN_ void InstallFailureWriter(void (*writer)(const char *data, size_t size)) {
    internal::state().failure_writer = writer;
}
LOGDRIVE_GLOG_FN_ void InstallFailureFunction(logging_fail_func_t fail) { internal::state().fail = fail; }

namespace glog_internal_namespace_ {
LOGDRIVE_GLOG_FN_ bool IsFailureSignalHandlerInstalled() { return internal::state().failure_handler; }
}  // namespace glog_internal_namespace_

}  // namespace logdrive_glog
}  // namespace google

#endif
