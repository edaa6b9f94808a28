// Ranks that wait for others outside of what is called here: in torch.distributed's store (where
// new_group and init_process_group meet), or in another of its backends. When nothing moves while
// somebody waits, processes are asked where they are; one that says twice that it is at the same
// place inside of torch.distributed waits there. On a busy machine a process may stand at one line
// for seconds and wait for nobody, or for one that has not got a processor. So nothing is said
// unless all threads of all processes have slept at several looks in turn.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/hosts.h"
#include "process/processes.h"

#define QUIET_SECONDS 1.0  // before the first request, and between requests
#define TIMES         2
#define LOOK_SECONDS  0.05  // between two examinations of all threads
#define LOOKS         10

bool ls_exec__takes_part(const ls_exec_process *process) {
    return process->comm_room > 0 || (process->own && process->control != NULL);
}

const ls_exec_process *ls_exec__own_process(const ls_exec *exec, int rank) {
    const ls_exec_process *found = NULL;
    for (const ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
        bool own = at->pid == exec->children[rank].pid || at->rank == rank;
        found = own && (found == NULL || found->gone) ? at : found;
    }
    return found;
}

bool ls_exec__has_joined(const ls_exec *exec, int rank) {
    const ls_exec_process *process = ls_exec__own_process(exec, rank);
    bool joins = process != NULL && process->comm_room > 0;
    for (const ls_exec_joining *at = exec->joining; at != NULL && process != NULL; at = at->next) {
        joins = joins || at->process == process;
    }
    return joins;
}

bool ls_exec__ended_early(const ls_exec *exec, int rank) {
    return exec->children[rank].watch < 0 && !ls_exec__has_joined(exec, rank);
}

bool ls_exec__any_ended(const ls_exec *exec) {
    bool any = false;
    for (int r = 0; r < exec->options->processes && r < exec->child_count; r++) {
        any = any || exec->children[r].watch < 0;
    }
    return any;
}

int ls_exec__place(ls_exec *exec, ls_exec_process *process, const ls_wire_place *message) {
    char file[sizeof message->file];
    memcpy(file, message->file, sizeof file);
    file[sizeof file - 1] = 0;
    bool same = process->raised != NULL ||  // it keeps the place of its exception
                (process->place_file != NULL && process->place_line == message->line &&
                 strcmp(process->place_file, file) == 0);
    if (!same) {
        process->place_file = ls_arena_strdup(exec->arena, file);
        process->place_line = message->line;
    }
    process->places = same ? process->places + 1 : 1;
    if (message->waits == LS_WIRE_WAITS_NOT || message->waits == LS_WIRE_WAITS_STORE) {
        process->places = 0;
    }
    if (message->raised[0] != 0) {
        char raised[sizeof message->raised];
        memcpy(raised, message->raised, sizeof raised);
        raised[sizeof raised - 1] = 0;
        process->raised = ls_arena_strdup(exec->arena, raised);
    }
    process->place_waits = message->waits;
    return process->place_file != NULL ? LS_OK : LS_ERR_MEMORY;
}

static ls_exec_process *process_of(const ls_exec *exec, int rank) {
    ls_exec_process *at = exec->processes;
    while (at != NULL && (at->gone || at->rank != rank)) {
        at = at->next;
    }
    return rank < exec->rank_count && exec->ranks[rank].process != NULL ? exec->ranks[rank].process
                                                                        : at;
}

static bool waits_elsewhere(const ls_exec_process *process) {
    return process != NULL && !process->gone && process->places >= TIMES &&
           process->place_waits == LS_WIRE_WAITS_RANKS;
}

static void ask(ls_exec *exec, double now) {
    const char byte = LS_WIRE_ASK;
    exec->asked = now;
    for (const ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
        // The first byte that a process reads is the answer to its greeting.
        if (!at->gone && at->host != NULL && at->control != NULL) {
            ls_exec__host_ask(at);
        } else if (!at->gone && at->socket >= 0 && at->control != NULL) {
            (void)send(at->socket, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    }
}

// Counts the looks in turn that have seen no thread with work.
static void look(ls_exec *exec, double now) {
    if (now - exec->looked < LOOK_SECONDS) {
        return;
    }
    if (!ls_exec__hosts_looked(exec)) {
        return;
    }
    bool works = ls_exec__hosts_have_work(exec);
    for (const ls_exec_process *at = exec->processes; at != NULL && !works; at = at->next) {
        works = !at->gone && at->host == NULL && ls_process_has_work(at->pid);
    }
    for (int i = 0; i < exec->child_count && !works; i++) {
        works = exec->children[i].watch >= 0 && ls_process_has_work(exec->children[i].pid);
    }
    ls_exec__hosts_look(exec);
    exec->looked = now;
    exec->restful_looks = works ? 0 : exec->restful_looks + 1;
}

bool ls_exec__all_rest(const ls_exec *exec) {
    return exec->restful_looks >= LOOKS;
}

// The communicator for which the process waits to be made; NULL: none.
static const ls_exec_joining *joins(const ls_exec *exec, const ls_exec_process *process) {
    for (const ls_exec_joining *at = exec->joining; at != NULL; at = at->next) {
        const ls_exec_caller *first = process->callers;
        if (at->process == process && first != NULL && first->waits &&
            first->wait.slot == at->slot) {
            return at;
        }
    }
    return NULL;
}

bool ls_exec__waits_outside(const ls_exec *exec, const ls_exec_process *process) {
    return waits_elsewhere(process) || (!process->gone && joins(exec, process) != NULL);
}

const char *ls_exec__outside_place(const ls_exec *exec, const ls_exec_process *process, int *line) {
    const ls_exec_joining *at = joins(exec, process);
    *line = at != NULL ? at->site->line : process->place_line;
    return at != NULL ? at->site->file : process->place_file;
}

// Whether the process could still make a call, as far as is known.
static bool runs(const ls_exec *exec, const ls_exec_process *process) {
    bool bound = false;
    if (ls_exec__waits_outside(exec, process)) {
        return false;
    }
    for (int r = 0; r < exec->rank_count; r++) {
        if (exec->ranks[r].process == process) {
            bound = true;
            if (ls_remote_runs(exec->ranks[r].rank)) {
                return true;
            }
        }
    }
    return !bound;
}

// Communicators are incomplete, and no process is left that could join.
static bool judge_joining(ls_exec *exec) {
    int living = 0, expected = ls_exec__living_children(exec);
    for (const ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
        if (at->gone || !ls_exec__takes_part(at)) {
            continue;
        }
        if (runs(exec, at)) {
            return false;
        }
        living += 1;
        expected = exec->options->processes == 0 ? at->ranks : expected;
    }
    for (const ls_exec_joining *at = exec->joining; at != NULL; at = at->next) {
        if (at->ranks > living) {
            return false;  // a process holds several members, and other threads may come
        }
    }
    return living > 0 && living >= expected && ls_exec__explain_joining(exec);
}

static bool judge_calls(ls_exec *exec) {
    bool any = false;
    for (int r = 0; r < exec->rank_count; r++) {
        const ls_exec_rank *rank = &exec->ranks[r];
        const ls_exec_process *process = process_of(exec, r);
        if (ls_remote_runs(rank->rank)) {
            if (!waits_elsewhere(process) && (process == NULL || joins(exec, process) == NULL)) {
                return false;
            }
            any = true;
        }
    }
    for (int r = 0; r < exec->rank_count && any; r++) {
        if (ls_remote_runs(exec->ranks[r].rank)) {
            int line = 0;
            const char *file = ls_exec__outside_place(exec, process_of(exec, r), &line);
            ls_remote_elsewhere(exec->ranks[r].rank, file, line);
        }
    }
    return any && ls_remote_explain(exec->run);
}

void ls_exec__place_running(const ls_exec *exec) {
    for (int r = 0; r < exec->rank_count && ls_remote_waited_for(exec->run); r++) {
        const ls_exec_process *process = process_of(exec, r);
        if (ls_remote_runs(exec->ranks[r].rank) && process != NULL && process->place_file != NULL) {
            ls_remote_elsewhere(exec->ranks[r].rank, process->place_file, process->place_line);
        }
    }
}

bool ls_exec__judge_elsewhere(ls_exec *exec, double quiet) {
    bool open = exec->run != NULL && ls_remote_status(exec->run, NULL) == LS_OK;
    bool waits = exec->joining != NULL || ls_exec__any_ended(exec) ||
                 (open && (ls_remote_waited_for(exec->run) || ls_remote_undecided(exec->run)));
    if (exec->over || !waits || quiet < QUIET_SECONDS) {
        for (ls_exec_process *at = exec->processes; at != NULL; at = at->next) {
            at->places = 0;
            at->place_file = at->raised != NULL ? at->place_file : NULL;
        }
        exec->restful_looks = 0;
        ls_exec__hosts_forget_looks(exec);
        return false;
    }
    double now = ls_time_now();
    // Processes that answer do not sleep: none is asked during the examinations.
    if (now - exec->asked >= QUIET_SECONDS &&
        (exec->restful_looks == 0 || ls_exec__all_rest(exec))) {
        ask(exec, now);
        exec->restful_looks = 0;
    }
    look(exec, now);
    return ls_exec__all_rest(exec) &&
           ((exec->joining != NULL && judge_joining(exec)) || (open && judge_calls(exec)));
}

// ---- Threads ------------------------------------------------------------------------------------
bool ls_exec__has_ended(const ls_exec_process *process, int caller) {
    char path[64];
    const ls_exec_caller *of = &process->callers[caller];
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%lu", (long)process->pid,
                   (unsigned long)of->thread);
    return of->ended || (process->host == NULL && access(path, F_OK) != 0);
}

ls_exec_caller *ls_exec__caller(ls_exec_process *process, uint32_t thread) {
    for (int i = 0; i < process->caller_count; i++) {
        if (process->callers[i].thread == thread) {
            process->callers[i].ended = false;
            return &process->callers[i];
        }
    }
    for (int i = 1; i < process->caller_count; i++) {
        if (ls_exec__has_ended(process, i)) {
            process->callers[i] = (ls_exec_caller){.thread = thread};
            return &process->callers[i];
        }
    }
    int first = process->caller_count == 0 && thread != (uint32_t)process->pid ? 1 : 0;
    int count = process->caller_count + first + 1;
    ls_exec_caller *more = realloc(process->callers, (size_t)count * sizeof *more);
    if (more == NULL) {
        (void)LS_FAIL(LS_ERR_MEMORY, "no memory for a thread");
        return NULL;
    }
    more[0] =
        process->caller_count == 0 ? (ls_exec_caller){.thread = (uint32_t)process->pid} : more[0];
    more[count - 1] = (ls_exec_caller){.thread = thread};
    process->callers = more;
    process->caller_count = count;
    return &more[count - 1];
}

bool ls_exec__waits(const ls_exec_process *process) {
    for (int i = 0; i < process->caller_count; i++) {
        if (process->callers[i].waits) {
            return true;
        }
    }
    return false;
}

// Whether no thread of the process can make a call, as far as is known. The first thread may wait
// for another one that waits.
static bool all_wait(const ls_exec_process *process) {
    bool joins = process->places >= TIMES && process->place_waits == LS_WIRE_WAITS_A_THREAD;
    for (int i = 0; i < process->caller_count; i++) {
        const ls_exec_caller *caller = &process->callers[i];
        if (!caller->waits && !(i == 0 && joins) && !ls_exec__has_ended(process, i)) {
            return false;
        }
    }
    return ls_exec__waits(process);
}

// ---- Waiting ranks ------------------------------------------------------------------------------
static bool waits_for(const ls_wire_wait *wait, const ls_exec_op *op) {
    if (wait->slot != LS_WIRE_NONE) {
        return op->slot == wait->slot;
    }
    return wait->all != 0 || (op->stream != NULL && op->stream->stream == wait->stream);
}

#define AWAITED_MAX 256

// The calls of the rank that the thread waits for, behind the `count` in `requests`: all of them.
static int awaited_by(ls_request **requests, int count, const ls_wire_wait *wait,
                      const ls_exec_rank *rank) {
    bool queued = false;
    for (const ls_exec_op *op = rank->first; op != NULL; op = op->next) {
        queued = queued || waits_for(wait, op);
    }
    // One that is not posted waits for those before it.
    for (const ls_exec_op *op = rank->open; op != NULL && count < AWAITED_MAX; op = op->next) {
        if (op->request != NULL && ls_remote_posted(op->request) &&
            (queued || waits_for(wait, op))) {
            requests[count++] = op->request;
        }
    }
    return count;
}

void ls_exec__wait(ls_exec *exec, ls_exec_process *process) {
    const bool waits = all_wait(process);
    for (int r = 0; r < exec->rank_count; r++) {
        ls_exec_rank *rank = &exec->ranks[r];
        ls_request *requests[AWAITED_MAX];
        int count = 0;
        if (rank->process != process || rank->ended) {
            continue;
        }
        for (int i = 0; i < process->caller_count && waits; i++) {
            const ls_exec_caller *caller = &process->callers[i];
            if (caller->waits && (caller->wait.device < 0 || caller->wait.device == rank->device)) {
                count = awaited_by(requests, count, &caller->wait, rank);
            }
        }
        ls_remote_wait(rank->rank, requests, count);
    }
}

void ls_exec__resume(ls_exec *exec, const ls_exec_process *process) {
    for (int r = 0; r < exec->rank_count; r++) {
        if (exec->ranks[r].process == process && !exec->ranks[r].ended) {
            ls_remote_resume(exec->ranks[r].rank);
        }
    }
}
