// The functions that debuggers stop at. The empty asm keeps calls of them from being optimised away.
#include "ranks/hooks.h"

#define LS_HOOK __attribute__((noinline, used))

const uint32_t ls_gdb_hook_abi = LS_RANKS_ABI;

LS_HOOK void ls_gdb_hook_run(const ls_run *run, int ended) {
    __asm__ volatile("" ::"r"(run), "r"(ended) : "memory");
}

LS_HOOK void ls_gdb_hook_enter(const ls_run *run, const ls_rank *rank, const ls_request *request) {
    __asm__ volatile("" ::"r"(run), "r"(rank), "r"(request) : "memory");
}

LS_HOOK void ls_gdb_hook_complete(const ls_run *run, const ls_rank *rank,
                                  const ls_request *request) {
    __asm__ volatile("" ::"r"(run), "r"(rank), "r"(request) : "memory");
}

LS_HOOK void ls_gdb_hook_collective(const ls_run *run, const ls_comm *comm,
                                    const ls_call *const *calls, int size) {
    __asm__ volatile("" ::"r"(run), "r"(comm), "r"(calls), "r"(size) : "memory");
}

LS_HOOK void ls_gdb_hook_finding(const ls_run *run, const ls_finding *finding) {
    __asm__ volatile("" ::"r"(run), "r"(finding) : "memory");
}

LS_HOOK void ls_gdb_hook_deadlock(const ls_run *run, const char *text) {
    __asm__ volatile("" ::"r"(run), "r"(text) : "memory");
}

LS_HOOK void ls_gdb_hook_switch(const ls_run *run, const ls_rank *from, const ls_rank *to) {
    __asm__ volatile("" ::"r"(run), "r"(from), "r"(to) : "memory");
}
