// A library for LD_PRELOAD that makes the n-th allocation of a whole program fail, also those that
// other libraries make: jansson, SQLite, libmicrohttpd, stdio, qsort. For tests alone
// (allocation_sweep.c); the program never contains it.
//
//     ES_TEST_ALLOCATION_FAIL=7     the seventh fails
//     ES_TEST_ALLOCATION_FAIL=7+    it and all that follow fail
//     ES_TEST_ALLOCATION_COUNT=FILE their number is written there when the program exits
//     ES_TEST_ALLOCATION_TRACE=1    the stack of the first one that fails is printed on stderr
//
// Counting begins with main: the loader's own allocations are not the program's. A crash prints
// its stack on stderr, innermost frame first, below a line "allocation_fault: signal N".
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// glibc's own, under names that nothing interposes
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

typedef int Main(int argc, char **argv, char **environment);
typedef int StartMain(Main *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end);

static atomic_int is_counting;
static atomic_long n_allocations;
static long first_failing; // 0: none fails
static int is_lasting;
static int prints_stack;
static Main *program_main;

static void print_line(const char *what, int number) {
    char line[80];
    int length = snprintf(line, sizeof line, "allocation_fault: %s %d\n", what, number);
    (void)!write(STDERR_FILENO, line, (size_t)length);
}

static void print_stack(void) {
    void *frames[48];
    backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
}

static int fails(void) {
    if (!atomic_load_explicit(&is_counting, memory_order_relaxed)) {
        return 0;
    }
    long n = atomic_fetch_add(&n_allocations, 1) + 1;
    if (first_failing == 0 || n < first_failing || (n > first_failing && !is_lasting)) {
        return 0;
    }
    if (prints_stack && n == first_failing) {
        print_line("no memory for allocation", (int)n);
        print_stack();
    }
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }

void *calloc(size_t n, size_t bytes) { return fails() ? NULL : __libc_calloc(n, bytes); }

void *realloc(void *memory, size_t bytes) { return fails() ? NULL : __libc_realloc(memory, bytes); }

void *memalign(size_t alignment, size_t bytes) {
    return fails() ? NULL : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    void *block = memalign(alignment, bytes);
    if (block == NULL) {
        return ENOMEM;
    }
    *memory = block;
    return 0;
}

static void report_crash(int number) {
    signal(number, SIG_DFL);
    print_line("signal", number);
    print_stack();
    raise(number);
}

static void write_count(void) {
    const char *path = getenv("ES_TEST_ALLOCATION_COUNT");
    int file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (file >= 0) {
        char text[32];
        int length = snprintf(text, sizeof text, "%ld\n", atomic_load(&n_allocations));
        (void)!write(file, text, (size_t)length);
        close(file);
    }
}

static int counted_main(int argc, char **argv, char **environment) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    const char *fault = getenv("ES_TEST_ALLOCATION_FAIL");
    if (fault != NULL) {
        char *end = NULL;
        first_failing = strtol(fault, &end, 10);
        is_lasting = *end == '+';
    }
    prints_stack = getenv("ES_TEST_ALLOCATION_TRACE") != NULL;
    // the first call loads the unwinder, which needs memory
    void *frame;
    (void)backtrace(&frame, 1);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        signal(crashes[i], report_crash);
    }
    // what exit handlers allocate is not counted: the program has ended
    atexit(write_count);
    atomic_store(&is_counting, 1);
    return program_main(argc, argv, environment);
}

int __libc_start_main(Main *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end) {
    StartMain *next;
    // a function's address comes as an object's
    *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
    program_main = main;
    return next(counted_main, argc, argv, init, fini, loader_fini, stack_end);
}
