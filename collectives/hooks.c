// The functions that debuggers stop at. The empty asm keeps calls of them from being optimised
// away.
#include "collectives/hooks.h"

#define LS_HOOK __attribute__((noinline, used))

const uint32_t ls_gdb_abi = LS_HOOKS_ABI;
uint64_t ls_gdb_met;
volatile uint64_t ls_gdb_stop_at = UINT64_MAX;
__thread ls_gdb_group ls_gdb_now;
void (*ls_gdb_before_stop)(void);

LS_HOOK void ls_gdb_hook_group(const ls_backend *backend, const ls_call *calls, int count) {
    __asm__ volatile("" ::"r"(backend), "r"(calls), "r"(count) : "memory");
}

LS_HOOK void ls_gdb_hook_refused(const ls_backend *backend, const ls_call *calls, int count,
                                 const ls_check_failure *failure) {
    __asm__ volatile("" ::"r"(backend), "r"(calls), "r"(count), "r"(failure) : "memory");
}

LS_HOOK void ls_gdb_hook_met(const ls_backend *backend, const ls_call *const *calls, int size,
                             uint64_t number) {
    __asm__ volatile("" ::"r"(backend), "r"(calls), "r"(size), "r"(number) : "memory");
}

LS_HOOK void ls_gdb_hook_reached(const ls_backend *backend, const ls_call *const *calls, int size,
                                 uint64_t number) {
    __asm__ volatile("" ::"r"(backend), "r"(calls), "r"(size), "r"(number) : "memory");
}

void ls_hooks__before_stop(void) {
    if (ls_gdb_before_stop != NULL) {
        ls_gdb_before_stop();
    }
}

void ls_hooks__met(ls_backend *backend, const ls_call *const *calls, int size) {
    uint64_t number = __atomic_fetch_add(&ls_gdb_met, 1, __ATOMIC_RELAXED);
    ls_gdb_hook_met(backend, calls, size, number);
    if (number == ls_gdb_stop_at) {
        ls_gdb_hook_reached(backend, calls, size, number);
    }
    if (backend->met != NULL) {
        backend->met(backend->met_arg, calls, size);
    }
}
