// The stack of the calling thread as glog prints it, and the handler for signals that end a program.
#include <logdrive/glog.h>
#ifndef LOGDRIVE_DETAIL_GLOG_STACK_HPP
#define LOGDRIVE_DETAIL_GLOG_STACK_HPP

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

// A name that its module does not export: from the table of symbols in the module's file, without memory of the heap and
// without locks, for signal handlers. Empty where the file has been stripped.
class SymbolFile {
public:
    explicit SymbolFile(const char *path) noexcept {
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        struct stat found;
        if (file < 0) return;
        if (fstat(file, &found) == 0 && size_t(found.st_size) > sizeof(ElfW(Ehdr))) {
            void *const all = mmap(nullptr, size_t(found.st_size), PROT_READ, MAP_PRIVATE, file, 0);
            if (all != MAP_FAILED) bytes_ = static_cast<const char *>(all), size_ = size_t(found.st_size);
        }
        close(file);
    }
    ~SymbolFile() {
        if (bytes_ != nullptr) munmap(const_cast<char *>(bytes_), size_);
    }
    SymbolFile(const SymbolFile &) = delete;
    SymbolFile &operator=(const SymbolFile &) = delete;

    // The function that has this address, counted from the start of the module.
    const char *name_of(uintptr_t address) const noexcept {
        const ElfW(Ehdr) *const head = part<ElfW(Ehdr)>(0, 1);
        if (head == nullptr || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return nullptr;
        const ElfW(Shdr) *const sections = part<ElfW(Shdr)>(head->e_shoff, head->e_shnum);
        for (size_t i = 0; sections != nullptr && i < head->e_shnum; ++i)
            if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < head->e_shnum)
                return name_in(sections[i], sections[sections[i].sh_link], address);
        return nullptr;
    }

private:
    // So many items from here, if they lie in the file.
    template <class T> const T *part(size_t at, size_t count) const noexcept {
        const bool lies = bytes_ != nullptr && at <= size_ && at % alignof(T) == 0 && count <= (size_ - at) / sizeof(T);
        return lies ? reinterpret_cast<const T *>(bytes_ + at) : nullptr;
    }
    const char *name_in(const ElfW(Shdr) &symbols, const ElfW(Shdr) &texts, uintptr_t address) const noexcept {
        const size_t count = symbols.sh_size / sizeof(ElfW(Sym));
        const ElfW(Sym) *const all = part<ElfW(Sym)>(symbols.sh_offset, count);
        const char *const names = part<char>(texts.sh_offset, texts.sh_size);
        if (all == nullptr || names == nullptr || texts.sh_size == 0 || names[texts.sh_size - 1] != 0) return nullptr;
        for (size_t i = 0; i < count; ++i)
            if ((all[i].st_info & 0xf) == STT_FUNC && address - all[i].st_value < all[i].st_size && all[i].st_name < texts.sh_size)
                return names + all[i].st_name;
        return nullptr;
    }

    const char *bytes_ = nullptr;
    size_t size_ = 0;
};

LOGDRIVE_GLOG_FN_ bool is_fixed(const void *module) noexcept {
    return static_cast<const ElfW(Ehdr) *>(module)->e_type == ET_EXEC;
}

// Puts a readable name.
LOGDRIVE_GLOG_FN_ size_t put_readable(char *to, size_t room, const char *name) noexcept {
    int status = 0;
    char *const readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    const char *const shown = status == 0 && readable != nullptr ? readable : name;
    const size_t length = strlen(shown) < room ? strlen(shown) : room;
    memcpy(to, shown, length);
    free(readable);
    return length;
}

// `    @     0x55d0c0c8a1b2  main`
LOGDRIVE_GLOG_FN_ void print_frame(const char *front, void *address, Writer writer) {
    Dl_info found;
    char line[1024];
    const int length = snprintf(line, sizeof line, "%s@ %18p  ", front, address);
    size_t used = length > 0 ? size_t(length) : 0;
    // The address that a call returns to may be the first of the next function.
    char *const within = static_cast<char *>(address) - 1;
    const bool is_found = state().symbolize_stacktrace.value && dladdr(within, &found) != 0;
    if (is_found && found.dli_sname != nullptr) {
        used += put_readable(line + used, sizeof line - 1 - used, found.dli_sname);
    } else if (is_found) {
        // The program itself may lie elsewhere by now.
        const bool is_program = getauxval(AT_PHDR) - reinterpret_cast<uintptr_t>(found.dli_fbase) < 4096;
        const SymbolFile file(is_program ? "/proc/self/exe" : found.dli_fname);
        // A program at a fixed place counts from 0.
        const uintptr_t base = is_fixed(found.dli_fbase) ? 0 : reinterpret_cast<uintptr_t>(found.dli_fbase);
        const char *const name = file.name_of(reinterpret_cast<uintptr_t>(within) - base);
        used += put_readable(line + used, sizeof line - 1 - used, name != nullptr ? name : "(unknown)");
    } else {
        used += put_readable(line + used, sizeof line - 1 - used, "(unknown)");
    }
    line[used++] = '\n';
    writer(line, used);
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

}  // namespace logdrive_glog

LOGDRIVE_GLOG_API_ void InstallFailureSignalHandler() {
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

LOGDRIVE_GLOG_API_ void InstallFailureWriter(void (*writer)(const char *data, size_t size)) {
    internal::state().failure_writer = writer;
}
LOGDRIVE_GLOG_API_ void InstallFailureFunction(logging_fail_func_t fail) { internal::state().fail = fail; }

inline namespace logdrive_glog {
namespace glog_internal_namespace_ {
LOGDRIVE_GLOG_FN_ bool IsFailureSignalHandlerInstalled() { return internal::state().failure_handler; }
}  // namespace glog_internal_namespace_

}  // namespace logdrive_glog
}  // namespace google

#endif
