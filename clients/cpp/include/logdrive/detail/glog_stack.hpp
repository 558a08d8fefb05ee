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

// Lines of a stack, in memory that is there: a signal handler may not allocate.
struct StackText {
    char *bytes;
    size_t room;
    size_t length = 0;

    StackText(char *memory, size_t size) noexcept : bytes(memory), room(size) {}
    void append(const char *text, size_t size) noexcept {
        const size_t taken = size < room - length ? size : room - length;
        memcpy(bytes + length, text, taken);
        length += taken;
    }
    void append(const char *text) noexcept { append(text, strlen(text)); }
    // `    @     0x55d0c0c8a1b2  `
    void begin(const char *front, void *address) noexcept {
        char line[96];
        const int size = snprintf(line, sizeof line, "%s@ %18p  ", front, address);
        append(line, size > 0 ? size_t(size) : 0);
    }
};

// The file of an address, and the address as the file counts it.
struct Place {
    Dl_info found;
    const char *path = nullptr;
    uintptr_t address = 0;

    explicit Place(void *within) noexcept {
        if (dladdr(within, &found) == 0) return;
        // The program itself may lie elsewhere by now.
        const bool is_program = getauxval(AT_PHDR) - reinterpret_cast<uintptr_t>(found.dli_fbase) < 4096;
        path = is_program ? "/proc/self/exe" : found.dli_fname;
        // A program at a fixed place counts from 0.
        address = reinterpret_cast<uintptr_t>(within) - (is_fixed(found.dli_fbase) ? 0 : reinterpret_cast<uintptr_t>(found.dli_fbase));
    }
};

// The address that a call returns to may be the first of the next function.
LOGDRIVE_GLOG_FN_ void *within(void *address, bool is_exact) noexcept {
    return is_exact ? address : static_cast<char *>(address) - 1;
}

// One address with a name as the compiler wrote it, without the heap.
LOGDRIVE_GLOG_FN_ void put_plain_call(StackText &out, const char *front, void *address, bool is_exact) noexcept {
    out.begin(front, address);
    const Place place(within(address, is_exact));
    if (place.path != nullptr && place.found.dli_sname != nullptr) {
        out.append(place.found.dli_sname);
    } else {
        const SymbolFile file(place.path != nullptr ? place.path : "");
        const char *const name = file.name_of(place.address);
        out.append(name != nullptr ? name : "(unknown)");
    }
    out.append("\n");
}

// The calls at one address, from the library.
struct CallsAt {
    StackText &out;
    const char *front;
    void *address;
    const char *exported;
};
LOGDRIVE_GLOG_FN_ void put_call(void *of, const char *name, size_t name_bytes, const char *file, size_t file_bytes, uint32_t line) {
    CallsAt &calls = *static_cast<CallsAt *>(of);
    const std::string known = name_bytes > 0 ? std::string(name, name_bytes) : calls.exported != nullptr ? calls.exported : "(unknown)";
    int status = 0;
    char *const readable = abi::__cxa_demangle(known.c_str(), nullptr, nullptr, &status);
    calls.out.begin(calls.front, calls.address);
    calls.out.append(status == 0 && readable != nullptr ? readable : known.c_str());
    free(readable);
    if (file_bytes > 0) {
        const std::string path(file, file_bytes);
        char number[24];
        snprintf(number, sizeof number, ":%u)", line);
        calls.out.append((" (" + path.substr(path.rfind('/') + 1) + number).c_str());
    }
    calls.out.append("\n");
}

// `    @     0x55d0c0c8a1b2  main (main.cc:12)`, and a line for each function that the compiler has put in there.
LOGDRIVE_GLOG_FN_ void put_calls(StackText &out, const char *front, void *address, bool is_exact) {
    const Place place(within(address, is_exact));
    const char *const exported = place.path != nullptr ? place.found.dli_sname : nullptr;
    CallsAt calls = {out, front, address, exported};
    if (!state().symbolize_stacktrace.value || place.path == nullptr ||
        logdrive_calls_at(place.path, place.address, &put_call, &calls) == 0)
        put_call(&calls, nullptr, 0, nullptr, 0, 0);
}

constexpr int FRAMES_MAX = 32;

// Not in a signal handler.
template <class Write> __attribute__((noinline)) void each_call(int skip, const Write &write) {
    void *frames[FRAMES_MAX];
    const int depth = backtrace(frames, FRAMES_MAX);
    for (int i = skip; i < depth; ++i) {
        char memory[2048];
        StackText out(memory, sizeof memory);
        put_calls(out, "    ", frames[i], false);
        write(out.bytes, out.length);
    }
}
__attribute__((noinline)) LOGDRIVE_GLOG_FN_ void print_stack(int skip, Writer writer) { each_call(skip + 1, writer); }

// The stack that a signal handler wants to have named, and its lines. Another thread names it, for the handler may have
// interrupted malloc() or hold any lock.
struct SignalStack {
    void *pc;
    void *frames[FRAMES_MAX];
    int depth, skip;
    bool is_done;
    char memory[3][24 * 1024];
    // Text of the PC and of the stack, and what the handler makes by itself.
    StackText of_pc{memory[0], sizeof memory[0]}, of_stack{memory[1], sizeof memory[1]}, plain{memory[2], sizeof memory[2]};
};
LOGDRIVE_GLOG_FN_ SignalStack &signal_stack() noexcept {
    static SignalStack stack;
    return stack;
}
LOGDRIVE_GLOG_FN_ void name_signal_stack() {
    SignalStack &stack = signal_stack();
    put_calls(stack.of_pc, "PC: ", stack.pc, true);
    for (int i = stack.skip; i < stack.depth; ++i) put_calls(stack.of_stack, "    ", stack.frames[i], stack.frames[i] == stack.pc);
    __atomic_store_n(&stack.is_done, true, __ATOMIC_RELEASE);
}

// As glog has it in front of a message.
LOGDRIVE_GLOG_FN_ void put_stack(::logdrive::Out &out) {
    out.append(" (stacktrace:\n");
    each_call(1, [&](const char *text, size_t length) { out.append(text, length); });
    out.append(") ");
}

struct FatalSignal {
    int number;
    const char *name;
};
inline constexpr FatalSignal FATAL_SIGNALS[] = {{SIGSEGV, "SIGSEGV"}, {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},
                                                {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"}, {SIGTERM, "SIGTERM"}};

// Timeout of a signal handler that waits for the log, in milliseconds.
constexpr int RESCUE_MS = 2000;

// Bytes that the library's thread is asked with, and that it answers with; to FLUSH it answers 0, too.
constexpr char FLUSH = 1, NAME_STACK = 2;

// Has something done by another thread: this one may hold any lock. Returns true if it was done in time.
LOGDRIVE_GLOG_FN_ bool rescue(int descriptor, char request) {
    if (descriptor < 0 || ::write(descriptor, &request, 1) != 1) return false;
    struct pollfd wait = {descriptor, POLLIN, 0};
    char answer;
    do {
        // An answer to an earlier request that took too long comes first.
        if (poll(&wait, 1, RESCUE_MS) <= 0 || read(descriptor, &answer, 1) != 1) return false;
    } while ((answer == NAME_STACK) != (request == NAME_STACK));
    return true;
}
LOGDRIVE_GLOG_FN_ void rescue_log(int descriptor) { rescue(descriptor, FLUSH); }

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
    SignalStack &stack = signal_stack();
    stack.pc = program_counter(context);
    stack.depth = backtrace(stack.frames, FRAMES_MAX);
    stack.skip = 1;
    // In a child of the program the thread is its parent's.
    const bool is_named = rescue(state().rescue, NAME_STACK) && __atomic_load_n(&stack.is_done, __ATOMIC_ACQUIRE);
    StackText &plain = stack.plain;
    if (!is_named) put_plain_call(plain, "PC: ", stack.pc, true);
    write_dump(is_named ? stack.of_pc.bytes : plain.bytes, is_named ? stack.of_pc.length : plain.length);
    print_signal(number, info);
    plain.length = 0;
    for (int i = stack.skip; !is_named && i < stack.depth; ++i) put_plain_call(plain, "    ", stack.frames[i], stack.frames[i] == stack.pc);
    write_dump(is_named ? stack.of_stack.bytes : plain.bytes, is_named ? stack.of_stack.length : plain.length);
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
    // Made now, because a handler may not wait for that.
    internal::signal_stack();
    state.rescue = logdrive_rescue_descriptor();
    internal::pin_module(reinterpret_cast<void *>(&internal::name_signal_stack));
    logdrive_rescue_work(&internal::name_signal_stack);
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
LOGDRIVE_GLOG_API_ logging_fail_func_t InstallFailureFunction(logging_fail_func_t fail) {
    const logging_fail_func_t before = internal::state().fail;
    internal::state().fail = fail;
    return before;
}

inline namespace logdrive_glog {
inline namespace glog_internal_namespace_ {
LOGDRIVE_GLOG_FN_ bool IsFailureSignalHandlerInstalled() { return internal::state().failure_handler; }
}  // namespace glog_internal_namespace_

}  // namespace logdrive_glog
}  // namespace google

#endif
