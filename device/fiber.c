// Stacks of threads, and switches between them: a kernel has thousands, each with a stack from a
// pool and without a guard. A switch saves the registers that the ABI requires, without a system
// call.
#define _GNU_SOURCE  // MAP_NORESERVE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "device/internal.h"

#define STACK_BYTES ((size_t)64 << 10)
#define HOST_BYTES  ((size_t)1 << 20)
#define RED_BYTES   ((size_t)4 << 10)  // a stack that reaches this far down is full
#define SLAB        256                // stacks that are mapped at once

static struct {
    char **all;  // free ones
    size_t count, room;
    char **slabs;
} pools[2];
static void *scheduler_stack;
static struct {
    void (*call)(void *arg);
    void *arg;
} asked;  // by the thread that runs, of the scheduler's stack

void ls_device__switch(void **from, void *to);
#if defined(__x86_64__)
__asm__(".text\n.globl ls_device__switch\n.hidden ls_device__switch\n"
        ".type ls_device__switch,@function\n"
        "ls_device__switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#define SAVED_WORDS 6
#elif defined(__aarch64__)
__asm__(".text\n.globl ls_device__switch\n.hidden ls_device__switch\n"
        ".type ls_device__switch,%function\n"
        "ls_device__switch:\n"
        "sub sp,sp,#160\n"
        "stp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\n"
        "stp x25,x26,[sp,#48]\nstp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
        "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\n"
        "stp d14,d15,[sp,#144]\n"
        "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\n"
        "ldp x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\n"
        "ldp d14,d15,[sp,#144]\n"
        "add sp,sp,#160\nret\n");
#endif

static void push_stack(int pool, char *stack) {
    if (pools[pool].count == pools[pool].room) {
        pools[pool].room = pools[pool].room * 2 + SLAB;
        pools[pool].all = realloc(pools[pool].all, pools[pool].room * sizeof(char *));
        LS_ASSERT(pools[pool].all != NULL);
    }
    pools[pool].all[pools[pool].count++] = stack;
}

static bool map_slab(int pool, size_t bytes, size_t count) {
    char *low = mmap(NULL, bytes * count, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (low == MAP_FAILED) {
        return false;
    }
    (void)madvise(low, bytes * count, MADV_NOHUGEPAGE);
    for (size_t i = count; i-- > 0;) {
        push_stack(pool, low + i * bytes);
    }
    return true;
}

static void begin(void) {
    device_thread *self = ls_device__state.running;
    self->main(self);
    ls_device__suspend();
    LS_ASSERT(!"nobody comes back to a thread that has ended");
    abort();
}

bool ls_device__stack_take(device_thread *thread, bool host) {
    int pool = host ? 1 : 0;
    size_t bytes = host ? HOST_BYTES : STACK_BYTES;
    if (pools[pool].count == 0 && !map_slab(pool, bytes, host ? 1 : SLAB)) {
        return false;
    }
    thread->stack = pools[pool].all[--pools[pool].count];
    thread->stack_bytes = bytes;
    uintptr_t *top = (uintptr_t *)(void *)(thread->stack + bytes);
#if defined(__x86_64__)
    top -= 2;  // begin() finds the stack as a call would leave it
    *top = (uintptr_t)&begin;
    thread->stack_pointer = top - SAVED_WORDS;
    for (int i = 1; i <= SAVED_WORDS; i++) {
        top[-i] = 0;
    }
#elif defined(__aarch64__)
    top -= 20;
    for (int i = 0; i < 20; i++) {
        top[i] = 0;
    }
    top[11] = (uintptr_t)&begin;
    thread->stack_pointer = top;
#endif
    return true;
}

void ls_device__stack_give(device_thread *thread) {
    if (thread->stack != NULL) {
        push_stack(thread->stack_bytes == HOST_BYTES ? 1 : 0, thread->stack);
        thread->stack = NULL;
    }
}

void ls_device__resume(device_thread *thread) {
    ls_device__state.running = thread;
    ls_cuda_self = &thread->seen;
    ls_device__switch(&scheduler_stack, thread->stack_pointer);
    while (asked.call != NULL) {
        asked.call(asked.arg);
        asked.call = NULL;
        ls_device__switch(&scheduler_stack, thread->stack_pointer);
    }
}

void ls_device__with_stack(void (*call)(void *arg), void *arg) {
    device_thread *self = ls_device__state.running;
    if (self == NULL || asked.call != NULL) {
        call(arg);
        return;
    }
    asked.call = call;
    asked.arg = arg;
    ls_device__switch(&self->stack_pointer, scheduler_stack);
}

void ls_device__suspend(void) {
    device_thread *self = ls_device__state.running;
    char here = 0;
    if ((size_t)((uintptr_t)&here - (uintptr_t)self->stack) < RED_BYTES) {
        ls_device__state.overflowed = true;
    }
    ls_device__switch(&self->stack_pointer, scheduler_stack);
}
