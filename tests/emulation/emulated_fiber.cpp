// Switching stacks. ucontext would do, but it asks the kernel to change the signal mask each time.
#include "emulated_internal.h"

#if defined(__x86_64__)

// what the ABI wants kept: rbx, rbp, r12-r15; the stack pointer goes to *from, comes from *to
asm(".text\n"
    ".type es_emulated_switch_stacks, @function\n"
    "es_emulated_switch_stacks:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq (%rsi), %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size es_emulated_switch_stacks, . - es_emulated_switch_stacks\n");
extern "C" void es_emulated_switch_stacks(void **from, void **to);

void es_emulated_fiber_make(EsFiber *fiber, char *low, char *high, void (*start)()) {
    (void)low;
    void **top = (void **)((uintptr_t)high & ~(uintptr_t)15);
    // as after a call: the address that `start` would return to lies 8 bytes off alignment
    *--top = NULL;
    *--top = (void *)start;
    for (int i = 0; i < 6; i++) {
        *--top = NULL;
    }
    fiber->stack_pointer = top;
}

void es_emulated_fiber_switch(EsFiber *from, EsFiber *to) {
    es_emulated_switch_stacks(&from->stack_pointer, &to->stack_pointer);
}

#else

#include <ucontext.h>

// the context lies at the low end of the fiber's own stack, or on that of whoever switches
void es_emulated_fiber_make(EsFiber *fiber, char *low, char *high, void (*start)()) {
    ucontext_t *context = (ucontext_t *)low;
    getcontext(context);
    context->uc_stack.ss_sp = low + sizeof *context;
    context->uc_stack.ss_size = (size_t)(high - low) - sizeof *context;
    context->uc_link = NULL;
    makecontext(context, start, 0);
    fiber->stack_pointer = context;
}

void es_emulated_fiber_switch(EsFiber *from, EsFiber *to) {
    ucontext_t here;
    from->stack_pointer = &here;
    swapcontext(&here, (ucontext_t *)to->stack_pointer);
}

#endif
