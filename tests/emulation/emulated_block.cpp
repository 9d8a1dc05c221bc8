// Running a grid: block after block, the threads of a block as fibers of the calling thread. The
// blocks of a cooperative launch take turns instead: one runs until its threads have ended or wait
// for memory that another block writes (es_exchange_pause).
//
// A fiber runs until it reaches a barrier, a warp collective that waits for other lanes, or its
// end. Warps take turns: the lanes of one run until none can go on, then the next warp's do.
// Threads that have not stopped anywhere share one stack.
//
// ES_CUDA_ORDER=reverse runs blocks, warps and lanes last first. Code that is free of races gives
// the same bits in both orders.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulated_internal.h"

#define STACK_BYTES    ((size_t)128 << 10)
#define GUARD_BYTES    ((size_t)4096)
#define CANARY_BYTES   256
#define GUARDED_STACKS 4096

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace {

// Turns of all blocks of a cooperative launch in which no thread did anything but look again.
#define FRUITLESS_TURNS 1000

enum ThreadStatus { NEW, READY, IN_WARP, IN_BLOCK, POLLING, ENDED };
enum BlockStatus { BLOCK_ENDED, BLOCK_POLLING, BLOCK_FAILED };

struct Thread {
    ThreadStatus status;
    uint3 index;
    EsFiber fiber;
    char *stack; // NULL while none is needed
    const EsCollective *collective;
    unsigned mask;
    void *operands;
};

struct Block {
    const std::function<void()> *run;
    uint3 index;
    unsigned n_threads;
    Thread threads[ES_EMULATED_THREADS_LIMIT];
    Thread *current;
    EsFiber scheduler;
    uint64_t n_moves; // turns of threads that ended elsewhere than in es_exchange_pause
    std::vector<unsigned char> dynamic_shared; // a canary before and after
    unsigned char *dynamic_base;
    const void *kernel;
    const char *failure; // what a collective's operands were refused for
    const char *failed_in;
};

// the one that runs; those of a cooperative launch, or one; stacks that are not in use
thread_local Block *block = NULL;
thread_local std::vector<Block *> blocks;
thread_local std::vector<char *> free_stacks;
thread_local size_t n_stacks = 0;

bool runs_in_reverse() {
    const char *order = getenv("ES_CUDA_ORDER");
    return order != NULL && strcmp(order, "reverse") == 0;
}

// --- stacks ---

// A stack of its own mapping has a page before it that cannot be touched; a process may have some
// 65,000 mappings, so that further stacks share one.
char *take_stack() {
    if (free_stacks.empty()) {
        size_t n = n_stacks < GUARDED_STACKS ? 1 : 64;
        char *memory = (char *)mmap(NULL, GUARD_BYTES + n * STACK_BYTES, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) {
            abort();
        }
        for (size_t i = 0; i < n; i++) {
            free_stacks.push_back(memory + GUARD_BYTES + i * STACK_BYTES);
        }
        n_stacks += n;
    }
    char *stack = free_stacks.back();
    free_stacks.pop_back();
    return stack;
}

void run_thread() {
    (*block->run)();
    block->current->status = ENDED;
    es_emulated_fiber_switch(&block->current->fiber, &block->scheduler);
}

void resume(Thread *thread) {
    if (thread->status == NEW) {
        thread->stack = take_stack();
        // tops at different offsets of a page: at equal ones all stacks would share cache sets
        size_t shift = (size_t)(thread - block->threads) % 64 * 64;
        es_emulated_fiber_make(&thread->fiber, thread->stack, thread->stack + STACK_BYTES - shift,
                               run_thread);
    }
    thread->status = READY;
    block->current = thread;
    threadIdx = thread->index;
    es_emulated_fiber_switch(&block->scheduler, &thread->fiber);
    block->n_moves += thread->status != POLLING;
    if (thread->status == ENDED) {
        free_stacks.push_back(thread->stack);
        thread->stack = NULL;
    }
}

// --- failures ---

void append(std::string *text, const char *format, unsigned a, unsigned b, const char *what) {
    char piece[160];
    snprintf(piece, sizeof piece, format, a, b, what);
    *text += piece;
}

const char *doing(const Thread &thread) {
    return thread.status == ENDED     ? "ended"
           : thread.status == NEW     ? "not started"
           : thread.status == READY   ? "going on"
           : thread.status == POLLING ? "waiting for another block"
                                      : thread.collective->name;
}

// Describes where threads wait: runs of equal ones, the first few of them.
std::string describe_threads() {
    std::string text;
    unsigned n_runs = 0;
    for (unsigned first = 0, end = 0; first < block->n_threads && n_runs < 8; first = end) {
        const char *what = doing(block->threads[first]);
        for (end = first; end < block->n_threads && doing(block->threads[end]) == what;) {
            end++;
        }
        append(&text, first == 0 ? "threads %u-%u: %s" : ", %u-%u: %s", first, end - 1, what);
        n_runs++;
    }
    return text;
}

void fail(const char *what) {
    char where[80];
    snprintf(where, sizeof where, " in block (%u, %u, %u): ", blockIdx.x, blockIdx.y, blockIdx.z);
    es_emulated_kill(es_emulated_name(block->kernel) + where + what + "; " + describe_threads());
}

// Says where a kernel was when it touched memory that is not its own; the default action follows.
void on_bad_access(int number) {
    if (block != NULL && block->current != NULL) {
        char text[256];
        int n = snprintf(text, sizeof text,
                         "emulated CUDA: bad access in %.120s, block (%u, %u, %u), thread (%u, %u, "
                         "%u)\n",
                         es_emulated_name(block->kernel).c_str(), blockIdx.x, blockIdx.y,
                         blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
        if (write(STDERR_FILENO, text, (size_t)n) < 0) {
            _exit(1);
        }
    }
    signal(number, SIG_DFL);
    raise(number);
}

// On a stack of its own: a fiber's may be what overflowed.
void watch_bad_accesses() {
    stack_t stack = {};
    stack.ss_size = 64 << 10;
    stack.ss_sp = malloc(stack.ss_size);
    struct sigaction action = {}, before = {};
    action.sa_handler = on_bad_access;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    if (stack.ss_sp != NULL && sigaltstack(&stack, NULL) == 0 &&
        sigaction(SIGSEGV, NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
    }
}

// --- scheduling ---

bool is_complete(const Thread *warp, unsigned n_lanes, const Thread &last) {
    for (unsigned lane = 0; lane < 32; lane++) {
        if (((last.mask >> lane) & 1) &&
            (lane >= n_lanes || warp[lane].status != IN_WARP ||
             warp[lane].collective != last.collective || warp[lane].mask != last.mask)) {
            return false;
        }
    }
    return true;
}

// Let the lanes of a warp run until none can go on; false when some wait for ever.
bool run_warp(unsigned first, bool reverse) {
    Thread *warp = &block->threads[first];
    unsigned n_lanes = block->n_threads - first < 32 ? block->n_threads - first : 32;
    for (bool any = true; any;) {
        any = false;
        for (unsigned i = 0; i < n_lanes; i++) {
            Thread *thread = &warp[reverse ? n_lanes - 1 - i : i];
            if (thread->status == NEW || thread->status == READY) {
                resume(thread);
                any = true;
                if (block->failure != NULL) {
                    fail((std::string(block->failed_in) + ": " + block->failure).c_str());
                    return false;
                }
            }
        }
    }
    bool is_polling = false;
    for (unsigned lane = 0; lane < n_lanes; lane++) {
        is_polling = is_polling || warp[lane].status == POLLING;
    }
    for (unsigned lane = 0; lane < n_lanes && !is_polling; lane++) {
        if (warp[lane].status == IN_WARP) {
            fail("a warp collective waits for lanes that do not come");
            return false;
        }
    }
    return true;
}

// All threads have stopped: open the barrier, or say who is missing.
bool open_barrier() {
    void *operands[ES_EMULATED_THREADS_LIMIT];
    const EsCollective *collective = block->threads[0].collective;
    for (unsigned i = 0; i < block->n_threads; i++) {
        Thread *thread = &block->threads[i];
        if (thread->status != IN_BLOCK || thread->collective != collective) {
            fail("a barrier is not reached by all threads");
            return false;
        }
        operands[i] = thread->operands;
    }
    for (unsigned i = 0; i < block->n_threads; i++) {
        block->threads[i].status = READY;
    }
    collective->combine(operands, block->n_threads);
    return true;
}

unsigned count(ThreadStatus status) {
    unsigned n = 0;
    for (unsigned i = 0; i < block->n_threads; i++) {
        n += block->threads[i].status == status;
    }
    return n;
}

BlockStatus run_block(bool reverse) {
    unsigned n_warps = (block->n_threads + 31) / 32;
    for (unsigned i = 0; i < block->n_threads; i++) {
        if (block->threads[i].status == POLLING) {
            block->threads[i].status = READY;
        }
    }
    for (;;) {
        for (unsigned i = 0; i < n_warps; i++) {
            if (!run_warp((reverse ? n_warps - 1 - i : i) * 32, reverse)) {
                return BLOCK_FAILED;
            }
        }
        if (count(ENDED) == block->n_threads) {
            return BLOCK_ENDED;
        }
        if (count(POLLING) > 0) {
            return BLOCK_POLLING;
        }
        if (!open_barrier()) {
            return BLOCK_FAILED;
        }
    }
}

// --- blocks ---

void start_block(const EsLaunchShape &shape, uint64_t number) {
    block->index.x = (unsigned)(number % shape.grid.x);
    block->index.y = (unsigned)(number / shape.grid.x % shape.grid.y);
    block->index.z = (unsigned)(number / shape.grid.x / shape.grid.y);
    blockIdx = block->index;
    block->n_moves = 0;
    for (unsigned i = 0; i < block->n_threads; i++) {
        block->threads[i].status = NEW;
        block->threads[i].collective = NULL;
    }
    es_emulated_poison_shared();
    memset(block->dynamic_shared.data(), 0xFF, block->dynamic_shared.size());
}

// The bytes around dynamic shared memory still are what start_block wrote.
bool is_dynamic_shared_whole(size_t shared_bytes) {
    for (unsigned i = 1; i <= CANARY_BYTES / 2; i++) {
        if (block->dynamic_base[-(int)i] != 0xFF ||
            block->dynamic_base[shared_bytes + i - 1] != 0xFF) {
            return false;
        }
    }
    return true;
}

void give_stacks_back() {
    for (unsigned i = 0; i < block->n_threads; i++) {
        if (block->threads[i].status != ENDED && block->threads[i].stack != NULL) {
            free_stacks.push_back(block->threads[i].stack);
        }
        block->threads[i].stack = NULL;
    }
}

// Block `number` of the list becomes the one that runs, ready for a block of this launch.
void prepare(const EsLaunchShape &shape, const std::function<void()> &run, size_t number) {
    if (blocks.empty()) {
        watch_bad_accesses();
    }
    while (blocks.size() <= number) {
        blocks.push_back(new Block());
    }
    block = blocks[number];
    block->run = &run;
    block->kernel = shape.kernel;
    block->failure = NULL;
    block->n_threads = shape.block.x * shape.block.y * shape.block.z;
    for (unsigned i = 0; i < block->n_threads; i++) {
        block->threads[i].index = {i % shape.block.x, i / shape.block.x % shape.block.y,
                                   i / shape.block.x / shape.block.y};
    }
    blockDim = shape.block;
    gridDim = shape.grid;
    block->dynamic_shared.resize(shape.shared_bytes + 2 * CANARY_BYTES);
    // aligned to 16 and to no more, which is all that kernels may count on
    uintptr_t base = (uintptr_t)block->dynamic_shared.data() + CANARY_BYTES / 2 + 31;
    block->dynamic_base = (unsigned char *)((base & ~(uintptr_t)31) + 16);
}

BlockStatus run_turn(const EsLaunchShape &shape, bool reverse) {
    BlockStatus status = run_block(reverse);
    if (status == BLOCK_ENDED && !is_dynamic_shared_whole(shape.shared_bytes)) {
        fail("dynamic shared memory was written to out of bounds");
        status = BLOCK_FAILED;
    }
    return status;
}

bool run_in_order(const EsLaunchShape &shape, const std::function<void()> &run, bool reverse,
                  uint64_t n_blocks) {
    prepare(shape, run, 0);
    for (uint64_t i = 0; i < n_blocks; i++) {
        start_block(shape, reverse ? n_blocks - 1 - i : i);
        BlockStatus status = run_turn(shape, reverse);
        if (status == BLOCK_POLLING) {
            fail("a block waits for another in a launch that is not cooperative");
        }
        if (status != BLOCK_ENDED) {
            give_stacks_back();
            return false;
        }
    }
    return true;
}

// __shared__ variables exist once: a cooperative kernel has dynamic shared memory alone.
bool run_in_turns(const EsLaunchShape &shape, const std::function<void()> &run, bool reverse,
                  uint64_t n_blocks) {
    std::vector<Block *> waiting;
    for (uint64_t i = 0; i < n_blocks; i++) {
        prepare(shape, run, i);
        start_block(shape, reverse ? n_blocks - 1 - i : i);
        waiting.push_back(block);
    }
    bool is_good = true;
    for (int n_fruitless = 0; is_good && !waiting.empty(); n_fruitless++) {
        std::vector<Block *> still;
        for (size_t i = 0; i < waiting.size() && is_good; i++) {
            block = waiting[i];
            blockIdx = block->index;
            uint64_t n_before = block->n_moves;
            BlockStatus status = run_turn(shape, reverse);
            is_good = status != BLOCK_FAILED;
            n_fruitless = block->n_moves != n_before ? 0 : n_fruitless;
            if (status == BLOCK_POLLING) {
                still.push_back(block);
            }
        }
        if (is_good && n_fruitless == FRUITLESS_TURNS) {
            fail("blocks wait for each other for ever");
            is_good = false;
        }
        waiting.swap(still);
    }
    for (uint64_t i = 0; i < n_blocks; i++) {
        block = blocks[i];
        give_stacks_back();
    }
    return is_good;
}

} // namespace

cudaError_t es_emulated_run_grid(const EsLaunchShape &shape, const std::function<void()> &run) {
    bool reverse = runs_in_reverse();
    uint64_t n_blocks = (uint64_t)shape.grid.x * shape.grid.y * shape.grid.z;
    bool is_good = shape.is_cooperative ? run_in_turns(shape, run, reverse, n_blocks)
                                        : run_in_order(shape, run, reverse, n_blocks);
    block->current = NULL;
    return is_good ? cudaSuccess : cudaErrorLaunchFailure;
}

void es_emulated_pause() {
    block->current->status = POLLING;
    es_emulated_fiber_switch(&block->current->fiber, &block->scheduler);
}

void es_emulated_warp(const EsCollective *collective, unsigned mask, void *operands) {
    Thread *mine = block->current;
    unsigned first = (unsigned)(mine - block->threads) / 32 * 32;
    Thread *warp = &block->threads[first];
    mine->status = IN_WARP;
    mine->collective = collective;
    mine->mask = mask;
    mine->operands = operands;
    if (!((mask >> (mine - warp)) & 1)) {
        block->failure = "a lane calls with a mask that it is not in";
        block->failed_in = collective->name;
    } else if (is_complete(warp, block->n_threads - first, *mine)) {
        void *all[32] = {};
        for (unsigned lane = 0; lane < 32; lane++) {
            if ((mask >> lane) & 1) {
                all[lane] = warp[lane].operands;
                warp[lane].status = READY;
            }
        }
        block->failure = collective->combine(all, 32);
        block->failed_in = collective->name;
        if (block->failure == NULL) {
            return;
        }
    }
    es_emulated_fiber_switch(&mine->fiber, &block->scheduler);
}

void es_emulated_block(const EsCollective *collective, void *operands) {
    Thread *mine = block->current;
    mine->status = IN_BLOCK;
    mine->collective = collective;
    mine->operands = operands;
    es_emulated_fiber_switch(&mine->fiber, &block->scheduler);
}

unsigned char *es_emulated_dynamic_shared() { return block->dynamic_base; }
