// The functions that debuggers stop at. The empty asm keeps calls of them from being optimised
// away.
#include "collectives/hooks.h"

#include <pthread.h>

#define LS_HOOK __attribute__((noinline, used))

const uint32_t ls_gdb_abi = LS_HOOKS_ABI;
uint64_t ls_gdb_met;
volatile uint64_t ls_gdb_stop_at = UINT64_MAX;
__thread ls_gdb_group ls_gdb_now;
void (*ls_gdb_before_stop)(void);
volatile ls_gdb_wish ls_gdb_stop_for = {
    .kind = -1, .rank = -1, .comm_number = -1, .seq = UINT64_MAX};
volatile ls_gdb_wish ls_gdb_catches[LS_GDB_CATCHES];
volatile int ls_gdb_catching;
ls_comm *ls_gdb_comms;
static pthread_mutex_t comms_mutex = PTHREAD_MUTEX_INITIALIZER;

void ls_hooks__comm_open(ls_comm *comm) {
    static int number;
    (void)pthread_mutex_lock(&comms_mutex);
    comm->number = number++;
    comm->older = ls_gdb_comms;
    if (comm->older != NULL) {
        comm->older->newer = comm;
    }
    ls_gdb_comms = comm;
    (void)pthread_mutex_unlock(&comms_mutex);
}

void ls_hooks__comm_close(ls_comm *comm) {
    (void)pthread_mutex_lock(&comms_mutex);
    if (comm->older != NULL) {
        comm->older->newer = comm->newer;
    }
    if (comm->newer != NULL) {
        comm->newer->older = comm->older;
    } else {
        ls_gdb_comms = comm->older;
    }
    (void)pthread_mutex_unlock(&comms_mutex);
}

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

LS_HOOK void ls_gdb_hook_group_caught(const ls_backend *backend, const ls_call *calls, int count,
                                      uint32_t caught) {
    __asm__ volatile("" ::"r"(backend), "r"(calls), "r"(count), "r"(caught) : "memory");
}

LS_HOOK void ls_gdb_hook_loaded(void) {
    __asm__ volatile("" ::: "memory");
}

__attribute__((constructor)) static void loaded(void) {
    ls_gdb_hook_loaded();
}

void ls_hooks__before_stop(void) {
    if (ls_gdb_before_stop != NULL) {
        ls_gdb_before_stop();
    }
}

// Compares with a name that a debugger may have written.
static bool same_name(const volatile char *wanted, const char *name, size_t room) {
    for (size_t i = 0; i < room; i++) {
        if (wanted[i] != name[i]) {
            return false;
        }
        if (name[i] == 0) {
            break;
        }
    }
    return true;
}

static bool fits(const volatile ls_gdb_wish *wish, const ls_call *call) {
    const ls_comm *comm = call->comm;
    return (wish->kind < 0 || (int)call->kind == wish->kind) &&
           (wish->rank < 0 || call->rank == wish->rank) &&
           (wish->comm_number < 0 || comm->number == wish->comm_number) &&
           (wish->seq == UINT64_MAX || call->seq >= wish->seq) &&
           (wish->comm[0] == 0 || same_name(wish->comm, comm->name, sizeof comm->name));
}

// Whether a call of the set fits the debugger's wish.
static bool is_wanted(const ls_call *const *calls, int size) {
    for (int i = 0; i < size; i++) {
        if (fits(&ls_gdb_stop_for, calls[i])) {
            return true;
        }
    }
    return false;
}

uint32_t ls_hooks__caught(const ls_call *calls, int count) {
    uint32_t caught = 0;
    for (int c = 0; c < LS_GDB_CATCHES && ls_gdb_catching; c++) {
        for (int i = 0; i < count && ls_gdb_catches[c].on; i++) {
            caught |= fits(&ls_gdb_catches[c], &calls[i]) ? UINT32_C(1) << c : 0;
        }
    }
    return caught;
}

void ls_hooks__group(const ls_backend *backend, const ls_call *calls, int count) {
    ls_gdb_hook_group(backend, calls, count);
    uint32_t caught = ls_gdb_catching ? ls_hooks__caught(calls, count) : 0;
    if (caught != 0) {
        ls_gdb_hook_group_caught(backend, calls, count, caught);
    }
}

void ls_hooks__matched(const ls_backend *backend, const ls_call *const *calls, int size) {
    uint64_t number = __atomic_fetch_add(&ls_gdb_met, 1, __ATOMIC_RELAXED);
    ls_gdb_hook_met(backend, calls, size, number);
    if (number == ls_gdb_stop_at || (ls_gdb_stop_for.on && is_wanted(calls, size))) {
        ls_gdb_hook_reached(backend, calls, size, number);
    }
}

void ls_hooks__met(ls_backend *backend, const ls_call *const *calls, int size) {
    ls_hooks__matched(backend, calls, size);
    if (backend->met != NULL) {
        backend->met(backend->met_arg, calls, size);
    }
}
