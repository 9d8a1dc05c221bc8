// Declarations shared by the parts of the emulation.
#ifndef ES_EMULATION_EMULATED_INTERNAL_H
#define ES_EMULATION_EMULATED_INTERNAL_H

#include "cuda_runtime.h"

#define ES_EMULATED_SHARED_LIMIT  ((size_t)48 << 10)  // without cudaFuncSetAttribute
#define ES_EMULATED_SHARED_OPTIN  ((size_t)227 << 10) // with it, as on sm_90
#define ES_EMULATED_THREADS_LIMIT 1024

// --- errors ---

// Every call returns through this: it keeps the error for cudaGetLastError, and gives the one that
// killed the device instead if there is one.
cudaError_t es_emulated_result(cudaError_t error);

// A kernel failed: from now on every call fails. The first text stays.
void es_emulated_kill(const std::string &text);

// --- queues ---

typedef std::function<cudaError_t()> EsWork;

// Run it now, or record it where the stream is being captured.
cudaError_t es_emulated_queue(cudaStream_t stream, EsWork work);
// A call that must not be made while this thread captures: it ends the capture's validity.
bool es_emulated_breaks_capture();

// --- kernels ---

cudaError_t es_emulated_run_grid(const EsLaunchShape &shape, const std::function<void()> &run);
size_t es_emulated_shared_limit(const void *kernel);

// --- names and shared variables of this program, from its own symbol table ---

std::string es_emulated_name(const void *kernel); // without parameters; an address if not known
void es_emulated_poison_shared();                 // fill all __shared__ variables with 0xFF

// --- fibers ---

// Saved context of a fiber that does not run.
struct EsFiber {
    void *stack_pointer;
};

// Make a fiber that calls start() on the stack [low, high) once it is switched to; start never
// returns.
void es_emulated_fiber_make(EsFiber *fiber, char *low, char *high, void (*start)());
void es_emulated_fiber_switch(EsFiber *from, EsFiber *to);

#endif
