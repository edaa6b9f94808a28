// The functions that debuggers stop at. The empty asm keeps calls of them from being optimised
// away.
#include "ranks/hooks.h"

#define LS_HOOK __attribute__((noinline, used))

const uint32_t ls_gdb_hook_abi = LS_RANKS_ABI;
ls_spmd *ls_gdb_runs;
static pthread_mutex_t runs_mutex = PTHREAD_MUTEX_INITIALIZER;

void ls_hooks__run_open(ls_spmd *run) {
    (void)pthread_mutex_lock(&runs_mutex);
    run->next_run = ls_gdb_runs;
    ls_gdb_runs = run;
    (void)pthread_mutex_unlock(&runs_mutex);
}

void ls_hooks__run_close(ls_spmd *run) {
    (void)pthread_mutex_lock(&runs_mutex);
    ls_spmd **at = &ls_gdb_runs;
    while (*at != NULL && *at != run) {
        at = &(*at)->next_run;
    }
    if (*at != NULL) {
        *at = run->next_run;
    }
    (void)pthread_mutex_unlock(&runs_mutex);
}

LS_HOOK void ls_gdb_hook_run(const ls_spmd *run, int ended) {
    __asm__ volatile("" ::"r"(run), "r"(ended) : "memory");
}

LS_HOOK void ls_gdb_hook_enter(const ls_spmd *run, const ls_rank *rank, const ls_request *request) {
    __asm__ volatile("" ::"r"(run), "r"(rank), "r"(request) : "memory");
}

LS_HOOK void ls_gdb_hook_caught(const ls_spmd *run, const ls_rank *rank, const ls_request *request,
                                uint32_t caught) {
    __asm__ volatile("" ::"r"(run), "r"(rank), "r"(request), "r"(caught) : "memory");
}

void ls_hooks__enter(const ls_spmd *run, const ls_rank *rank, const ls_request *request) {
    ls_gdb_hook_enter(run, rank, request);
    uint32_t caught = ls_gdb_catching && !ls_kind_is_ask(request->call.kind)
                          ? ls_hooks__caught(&request->call, 1)
                          : 0;
    if (caught != 0) {
        ls_gdb_hook_caught(run, rank, request, caught);
    }
}

LS_HOOK void ls_gdb_hook_complete(const ls_spmd *run, const ls_rank *rank,
                                  const ls_request *request) {
    __asm__ volatile("" ::"r"(run), "r"(rank), "r"(request) : "memory");
}

LS_HOOK void ls_gdb_hook_finding(const ls_spmd *run, const ls_finding *finding) {
    __asm__ volatile("" ::"r"(run), "r"(finding) : "memory");
}

LS_HOOK void ls_gdb_hook_mismatch(const ls_spmd *run, const ls_finding *finding) {
    __asm__ volatile("" ::"r"(run), "r"(finding) : "memory");
}

LS_HOOK void ls_gdb_hook_deadlock(const ls_spmd *run, const char *text) {
    __asm__ volatile("" ::"r"(run), "r"(text) : "memory");
}

LS_HOOK void ls_gdb_hook_parked(const ls_spmd *run, const ls_rank *rank) {
    __asm__ volatile("" ::"r"(run), "r"(rank) : "memory");
}

LS_HOOK void ls_gdb_hook_switch(const ls_spmd *run, const ls_rank *from, const ls_rank *to) {
    __asm__ volatile("" ::"r"(run), "r"(from), "r"(to) : "memory");
}
