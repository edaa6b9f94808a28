// Answers to a process, and the places of its calls.
#define _GNU_SOURCE  // futex, pidfd, struct ucred

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exec/internal.h"

// ---- Answers ------------------------------------------------------------------------------------
void ls_exec__answer(const ls_exec_process *process, uint32_t slot, uint32_t done, int status) {
    if (process->control == NULL || slot >= LS_WIRE_SLOTS) {
        return;
    }
    ls_wire_slot *at = &process->control->slots[slot];
    at->status = status;
    __atomic_store_n(&at->done, done, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &at->done, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void ls_exec__answer_over(const ls_exec_process *process, uint32_t slot) {
    ls_exec__answer(process, slot, 2, LS_ERR_FINDING);
}

void ls_exec__note_site(ls_exec_process *process, uint32_t number) {
    process->recent[process->recent_count++ % LS_EXEC_RECENT] = number;
}

const ls_exec_site *ls_exec__site(const ls_exec_process *process, uint32_t number) {
    static const ls_exec_site unknown = {.file = "?", .line = 0, .stack = NULL};
    return number < process->site_count ? &process->sites[number] : &unknown;
}
