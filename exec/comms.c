// Communicators: who joins which, and which rank of the run a member is.
//
// A member is a process, or one device of a process that holds several. As many ranks as the one
// that started the processes says, or as the first communicator has members; a process's number is
// its rank where each holds one, else the first communicator's numbers are.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"

#define COMMS_MAX 65536u

ls_exec_comm *ls_exec__comm(ls_exec_process *process, uint32_t number) {
    if (number >= process->comm_room || process->comms[number].handle == NULL) {
        (void)LS_FAIL(LS_ERR_INVALID, "process %ld has no communicator %u", (long)process->pid,
                      number);
        return NULL;
    }
    return &process->comms[number];
}

int ls_exec__keep_comm(ls_exec_process *process, uint32_t number, ls_rank_comm *handle,
                       ls_exec_rank *rank) {
    if (number >= COMMS_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "a process with more than %u communicators", COMMS_MAX);
    }
    if (number >= process->comm_room) {
        uint32_t room = number + 16;
        ls_exec_comm *more = realloc(process->comms, room * sizeof *more);
        if (more == NULL) {
            return LS_FAIL(LS_ERR_MEMORY, "no memory");
        }
        memset(more + process->comm_room, 0, (room - process->comm_room) * sizeof *more);
        process->comms = more;
        process->comm_room = room;
    }
    process->comms[number] = (ls_exec_comm){.handle = handle, .rank = rank, .run = process->run};
    return LS_OK;
}

void ls_exec__answer_comm(ls_exec *exec, const ls_exec_process *process, uint32_t slot,
                          const ls_rank_comm *handle) {
    if (slot < LS_WIRE_SLOTS && handle != NULL) {
        int32_t *value = process->control->slots[slot].value;
        value[0] = ls_comm_rank(handle);
        value[1] = ls_comm_size(handle);
        value[2] = ls_comm_of(handle)->ranks[value[0]];
        value[3] = exec->rank_count;
    }
    ls_exec__answer(process, slot, 1, LS_OK);
}

// ---- The run ------------------------------------------------------------------------------------
int ls_exec__open_run(ls_exec *exec, int ranks) {
    ls_spmd_options options = exec->options->spmd;
    options.ranks = ranks;
    if (exec->before != NULL) {
        options.fault_count = 0;  // injected before
        options.met = NULL;       // the trace is of the first
    }
    exec->remote = (ls_remote){.arg = exec, .met = ls_exec__met};
    LS_TRY(ls_remote_open(&exec->run, &options, &exec->remote));
    exec->ranks = ls_arena_alloc(exec->arena, (size_t)ranks, sizeof *exec->ranks);
    LS_TRY(exec->ranks != NULL ? LS_OK : LS_ERR_MEMORY);
    exec->rank_count = ranks;
    exec->most_ranks = ranks > exec->most_ranks ? ranks : exec->most_ranks;
    for (int r = 0; r < ranks; r++) {
        exec->ranks[r].id = r;
        exec->ranks[r].device = -1;
        exec->ranks[r].rank = ls_remote_rank(exec->run, r);
    }
    return exec->before == NULL && exec->options->opened != NULL
               ? exec->options->opened(exec->options->opened_arg, ranks)
               : LS_OK;
}

static ls_exec_joining *member(ls_exec_joining *list, const ls_exec_joining *of, int rank) {
    for (; list != NULL; list = list->next) {
        if (list->rank == rank && memcmp(list->id, of->id, sizeof of->id) == 0) {
            return list;
        }
    }
    return NULL;
}

// Whether each member is a separate process.
static bool apart(const ls_exec *exec, const ls_exec_joining *of) {
    for (int i = 0; i < of->ranks; i++) {
        const ls_exec_joining *a = member(exec->joining, of, i);
        for (int k = 0; k < i; k++) {
            if (member(exec->joining, of, k)->process == a->process) {
                return false;
            }
        }
    }
    return true;
}

// Whether no process joins a communicator twice.
static bool apart_so_far(const ls_exec *exec) {
    for (const ls_exec_joining *a = exec->joining; a != NULL; a = a->next) {
        for (const ls_exec_joining *b = a->next; b != NULL; b = b->next) {
            if (a->process == b->process && memcmp(a->id, b->id, sizeof a->id) == 0) {
                return false;
            }
        }
    }
    return true;
}

static int open_for(ls_exec *exec, const ls_exec_joining *of, bool processes) {
    int ranks = of->ranks, told = of->process->ranks;
    if (processes && told > ranks) {
        ranks = told;
    }
    return ls_exec__open_run(exec, ranks);
}

// The rank that a member is.
static ls_exec_rank *rank_of(ls_exec *exec, const ls_exec_joining *joining, bool processes) {
    ls_exec_process *process = joining->process;
    for (int r = 0; r < exec->rank_count; r++) {
        ls_exec_rank *rank = &exec->ranks[r];
        if (rank->process == process && (processes || rank->device == joining->device)) {
            return rank;
        }
    }
    int id = processes && process->rank >= 0 ? process->rank : joining->rank;
    ls_exec_rank *rank = id < exec->rank_count ? &exec->ranks[id] : NULL;
    if (rank == NULL || rank->process != NULL) {
        (void)LS_FAIL(
            LS_ERR_UNSUPPORTED,
            "process %ld, device %d, is not one of the %d ranks of the first communicator",
            (long)process->pid, joining->device, exec->rank_count);
        return NULL;
    }
    rank->process = process;
    rank->device = joining->device;
    return rank;
}

static const char *name_of(ls_exec *exec, const ls_exec_joining *of, const int *ranks, char *out,
                           size_t bytes) {
    bool whole = of->ranks == exec->rank_count;
    char list[24];
    ls_ranks_format(list, sizeof list, ranks, of->ranks);
    if (of->name[0] != 0) {
        (void)snprintf(out, bytes, "%s", of->name);
    } else if (whole && exec->joined == 0) {
        (void)snprintf(out, bytes, "world");
    } else {
        (void)snprintf(out, bytes, "#%u of %s%s", exec->joined, whole ? "all" : "ranks ",
                       whole ? "" : list);
    }
    return out;
}

static void forget(ls_exec *exec, const ls_exec_joining *of) {
    unsigned char id[LS_WIRE_ID_BYTES];
    memcpy(id, of->id, sizeof id);
    for (ls_exec_joining **at = &exec->joining; *at != NULL;) {
        ls_exec_joining *here = *at;
        if (memcmp(here->id, id, sizeof id) == 0) {
            *at = here->next;
            free(here);
        } else {
            at = &here->next;
        }
    }
}

// All members have joined.
static int join(ls_exec *exec, const ls_exec_joining *of) {
    size_t size = (size_t)of->ranks;
    int *ranks = ls_arena_alloc(exec->arena, size, sizeof *ranks);
    int *lines = ls_arena_alloc(exec->arena, size, sizeof *lines);
    const char **files = ls_arena_alloc(exec->arena, size, sizeof *files);
    ls_rank_comm **handles = ls_arena_alloc(exec->arena, size, sizeof(ls_rank_comm *));
    LS_TRY(ranks != NULL && lines != NULL && files != NULL && handles != NULL ? LS_OK
                                                                              : LS_ERR_MEMORY);
    bool processes = apart(exec, of);
    LS_TRY(exec->run == NULL ? open_for(exec, of, processes) : LS_OK);
    for (int i = 0; i < of->ranks; i++) {
        const ls_exec_joining *at = member(exec->joining, of, i);
        const ls_exec_rank *rank = rank_of(exec, at, processes);
        LS_TRY(rank != NULL ? LS_OK : LS_ERR_UNSUPPORTED);
        ranks[i] = rank->id;
        files[i] = at->site->file;
        lines[i] = at->site->line;
    }
    char name[LS_WIRE_NAME_BYTES];
    LS_TRY(ls_remote_comm(handles, exec->run, ranks, of->ranks,
                          name_of(exec, of, ranks, name, sizeof name), files, lines));
    exec->joined += 1;
    exec->widest = of->ranks > exec->widest ? of->ranks : exec->widest;
    for (int i = 0; i < of->ranks; i++) {
        const ls_exec_joining *at = member(exec->joining, of, i);
        LS_TRY(ls_exec__keep_comm(at->process, at->comm, handles[i], &exec->ranks[ranks[i]]));
        ls_exec__answer_comm(exec, at->process, at->slot, handles[i]);
    }
    forget(exec, of);
    return LS_OK;
}

// ---- Requests -----------------------------------------------------------------------------------
static int disagree(ls_exec *exec, const ls_exec_joining *a, const ls_exec_joining *b) {
    char text[512];
    (void)snprintf(text, sizeof text,
                   "members of one communicator do not agree: rank %d of %d at %s:%d, rank %d of "
                   "%d at %s:%d\n",
                   a->rank, a->ranks, a->site->file, a->site->line, b->rank, b->ranks,
                   b->site->file, b->site->line);
    if (exec->run == NULL) {
        int most = a->ranks > b->ranks ? a->ranks : b->ranks;
        LS_TRY(ls_exec__open_run(exec, a->process->ranks > most ? a->process->ranks : most));
    }
    int who =
        b->process->rank >= 0 && b->process->rank < exec->rank_count ? b->process->rank : b->rank;
    ls_remote_finding(exec->run, LS_FINDING_GROUP_MISMATCH, &who, 1, b->site->file, b->site->line,
                      text);
    return LS_OK;
}

static int add(ls_exec *exec, const ls_exec_joining *filled) {
    if (filled->ranks < 1 || filled->ranks > LS_WIRE_RANKS_MAX || filled->rank < 0 ||
        filled->rank >= filled->ranks) {
        return LS_FAIL(LS_ERR_INVALID, "rank %d of %d cannot join a communicator", filled->rank,
                       filled->ranks);
    }
    int there = 1;
    for (const ls_exec_joining *at = exec->joining; at != NULL; at = at->next) {
        if (memcmp(at->id, filled->id, sizeof at->id) != 0) {
            continue;
        }
        if (at->ranks != filled->ranks || at->rank == filled->rank) {
            return disagree(exec, at, filled);
        }
        there += 1;
    }
    ls_exec_joining *made = malloc(sizeof *made);
    if (made == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory");
    }
    *made = *filled;
    made->next = exec->joining;
    exec->joining = made;
    return there == made->ranks ? join(exec, made) : LS_OK;
}

int ls_exec__init(ls_exec *exec, ls_exec_process *process, const ls_wire_comm_init *message) {
    bool takes_part = false;
    LS_TRY(ls_exec__admit(&takes_part, exec, process, message));
    if (!takes_part) {
        ls_exec__answer_over(process, message->slot);
        return LS_OK;
    }
    ls_exec_joining joining = {.process = process,
                               .comm = message->comm,
                               .slot = message->slot,
                               .ranks = message->ranks,
                               .rank = message->rank,
                               .device = message->device,
                               .site = ls_exec__site(process, message->site)};
    ls_exec_site *kept = ls_arena_copy(exec->arena, joining.site, sizeof *kept);
    LS_TRY(kept != NULL ? LS_OK : LS_ERR_MEMORY);
    ls_exec__note_site(process, message->site);
    joining.site = kept;  // the process's own list may move
    memcpy(joining.id, message->id, sizeof joining.id);
    memcpy(joining.name, message->name, sizeof joining.name);
    joining.name[sizeof joining.name - 1] = 0;
    return add(exec, &joining);
}

int ls_exec__subset(ls_exec *exec, ls_exec_process *process, const ls_wire_comm_subset *message) {
    if (exec->over || ls_exec__is_past(exec, process, message->parent)) {
        ls_exec__answer_over(process, message->slot);
        return LS_OK;
    }
    ls_exec_comm *parent = ls_exec__comm(process, message->parent);
    LS_TRY(parent != NULL ? LS_OK : LS_ERR_INVALID);
    int size = ls_comm_size(parent->handle), own = ls_comm_rank(parent->handle);
    const int32_t *members = (const void *)(message + 1);
    if (message->count < 1 || message->count > (uint32_t)size ||
        message->head.bytes != sizeof *message + message->count * sizeof *members) {
        return LS_FAIL(LS_ERR_INVALID, "a communicator of %u of %d members", message->count, size);
    }
    // Members with the same list of the same parent form one: the id contains both.
    ls_wire_comm_init init = {.comm = message->comm,
                              .ranks = (int32_t)message->count,
                              .rank = -1,
                              .device = parent->rank->device,
                              .slot = message->slot,
                              .site = message->site};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < message->count; i++) {
        hash = (hash ^ (uint64_t)(uint32_t)members[i]) * UINT64_C(0x100000001b3);
        init.rank = members[i] == own ? (int32_t)i : init.rank;
    }
    (void)snprintf((char *)init.id, sizeof init.id, "subset %d %u %016llx",
                   ls_comm_of(parent->handle)->id, parent->subsets++, (unsigned long long)hash);
    memcpy(init.name, message->name, sizeof init.name);
    return ls_exec__init(exec, process, &init);
}

bool ls_exec__never_joined(const ls_exec *exec) {
    const ls_exec_joining *of = exec->joining;
    int there = 0;
    for (const ls_exec_joining *at = of; at != NULL; at = at->next) {
        there += memcmp(at->id, of->id, sizeof of->id) == 0 && !at->process->gone ? 1 : 0;
    }
    // The ranks that joined live; too few of the living are left to join. Of more members than
    // processes some are threads of one.
    return of != NULL && of->ranks <= exec->options->processes && apart_so_far(exec) &&
           ls_exec__living_children(exec) < of->ranks && there > 0;
}

static int lowest_rank(const ls_exec *exec, const ls_exec_joining *of) {
    int lowest = INT_MAX;
    for (const ls_exec_joining *at = exec->joining; at != NULL; at = at->next) {
        if (memcmp(at->id, of->id, sizeof at->id) == 0 && at->process->rank < lowest) {
            lowest = at->process->rank;
        }
    }
    return lowest;
}

// Of the unreported incomplete communicators the smallest, and of equal ones that of the lowest
// rank: the order of arrival does not matter. NULL: none.
static ls_exec_joining *next_untold(ls_exec *exec) {
    ls_exec_joining *best = NULL;
    for (ls_exec_joining *at = exec->joining; at != NULL; at = at->next) {
        bool better = best == NULL || at->ranks < best->ranks ||
                      (at->ranks == best->ranks && lowest_rank(exec, at) < lowest_rank(exec, best));
        best = !at->told && better ? at : best;
    }
    for (ls_exec_joining *at = exec->joining; at != NULL && best != NULL; at = at->next) {
        at->told = at->told || memcmp(at->id, best->id, sizeof at->id) == 0;
    }
    return best;
}

// The first member that has not come.
static int tell_joining(ls_text *text, const ls_exec *exec, const ls_exec_joining *of) {
    int missing = -1;
    ls_text_printf(text, "a communicator of %d members is never complete\n", of->ranks);
    for (int i = 0; i < of->ranks; i++) {
        const ls_exec_joining *at = member(exec->joining, of, i);
        if (at != NULL) {
            ls_text_printf(text, "  its rank %d waits at %s:%d\n", i, at->site->file,
                           at->site->line);
        } else {
            ls_text_printf(text, "  its rank %d never joined\n", i);
            missing = missing < 0 ? i : missing;
        }
    }
    return missing;
}

bool ls_exec__explain_joining(ls_exec *exec) {
    const ls_exec_joining *of = next_untold(exec);
    if (of == NULL || (exec->run == NULL && ls_exec__open_run(exec, of->process->ranks > of->ranks
                                                                        ? of->process->ranks
                                                                        : of->ranks) != LS_OK)) {
        return false;
    }
    ls_text text = {0};
    int missing = tell_joining(&text, exec, of);
    for (const ls_exec_joining *at; (at = next_untold(exec)) != NULL;) {
        (void)tell_joining(&text, exec, at);
    }
    ls_remote_waiting(exec->run, &text);
    bool died = false;
    int ended = ls_exec__ended_child(exec, &text, &died);
    // Before a member of a part joins, its rank in the world is unknown.
    bool known = ended >= 0 || (of->ranks == exec->rank_count && missing >= 0);
    missing = ended >= 0 ? ended : missing;
    ls_finding_id id = ended >= 0 ? LS_FINDING_RANK_EXITED_EARLY : LS_FINDING_MISSING_RANK;
    if (died) {
        id = LS_FINDING_RANK_DIED;
    }
    ls_remote_finding(exec->run, id, &missing, known ? 1 : 0, of->site->file, of->site->line,
                      ls_text_string(&text));
    ls_text_free(&text);
    return true;
}
