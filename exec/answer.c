// Answers to a process, and the places of its calls.
#define _GNU_SOURCE  // futex, pidfd, struct ucred

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exec/hosts.h"

// ---- Answers ------------------------------------------------------------------------------------
void ls_exec__answer(const ls_exec_process *process, uint32_t slot, uint32_t done, int status) {
    if (process->control == NULL || slot >= LS_WIRE_SLOTS) {
        return;
    }
    ls_wire_slot *at = &process->control->slots[slot];
    at->status = status;
    __atomic_store_n(&at->done, done, __ATOMIC_RELEASE);
    if (process->host != NULL) {
        ls_exec__host_answer(process, slot);
        return;
    }
    (void)syscall(SYS_futex, &at->done, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void ls_exec__tell(ls_exec_process *process, uint32_t failed, const char *why) {
    ls_wire_control *control = process->control;
    if (control == NULL || (control->failed != 0 && failed != 0)) {
        return;
    }
    (void)snprintf(control->why, sizeof control->why, "%s", why);
    __atomic_store_n(&control->failed, failed, __ATOMIC_RELEASE);
    if (process->host != NULL) {
        ls_exec__host_state(process, failed, why);
        return;
    }
    for (uint32_t i = 0; i < LS_WIRE_SLOTS && failed != 0; i++) {
        if (__atomic_load_n(&control->slots[i].done, __ATOMIC_ACQUIRE) == 0) {
            ls_exec__answer(process, i, 2, LS_ERR_FINDING);
        }
    }
}

void ls_exec__tell_all(const ls_exec *exec, uint32_t failed, const char *why) {
    for (ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
        ls_exec__tell(at, failed, why);
    }
}

void ls_exec__lose(ls_exec *exec, const char *why) {
    if (exec->lost || exec->over) {
        return;
    }
    exec->lost = true;
    (void)snprintf(exec->loss, sizeof exec->loss, "%s", why);
    char line[sizeof exec->loss + 64];
    (void)snprintf(line, sizeof line, "%s; the job continues and is not checked any more", why);
    ls_exec__warn(line);
    ls_exec__tell_all(exec, 2, "this process is not observed any more");
    ls_exec__hosts_drop(exec);  // other agents see the end of their connections, and do the same
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
