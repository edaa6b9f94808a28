// Replicas: memory in which all members of a communicator must hold the same bits. They are
// compared where the program asks for it and, once declared, by themselves: after every collective
// that touches them, when they are freed, and at the end of the run.
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "ranks/checks/replica.h"

typedef ls_replica_copy copy;

// ---- One check, where the program asks for it ---------------------------------------------------
static int fail_form(ls_spmd *run, const ls_shared_comm *shared, ls_request *const *requests,
                     const int *wrong, int count, int right) {
    bool dtype = requests[wrong[0]]->call.dtype != requests[right]->call.dtype;
    ls_finding_id id = dtype ? LS_FINDING_DTYPE_MISMATCH : LS_FINDING_COUNT_MISMATCH;
    const ls_call *a = &requests[wrong[0]]->call, *b = &requests[right]->call;
    ls_check__note(id, a);
    for (int i = 1; i < count; i++) {
        ls_check__note_rank(&requests[wrong[i]]->call);
    }
    (void)LS_FAIL_RANK(LS_ERR_MISMATCH, a->rank,
                       "check_replica on %s: rank %d holds %zu %s, rank %d holds %zu %s",
                       shared->comm->name, a->rank, a->count, ls_dtype_name(a->dtype), b->rank,
                       b->count, ls_dtype_name(b->dtype));
    int status = ls_findings__add_check(run, requests, shared->comm->size);
    ls_spmd__fail(run, status, ls_finding_name(id));
    return run->status;
}

int ls_replica__check_form(ls_spmd *run, const ls_shared_comm *shared,
                           ls_request *const *requests) {
    int size = shared->comm->size, right = 0;
    copy *copies = NULL;
    void *memory = NULL, *wrong = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(copy)));
    int status = ls_alloc(&wrong, (size_t)size, sizeof(int));
    copies = memory;
    for (int m = 0; m < size && status == LS_OK; m++) {
        const ls_call *call = &requests[m]->call;
        copies[m] = (copy){.data = call->send, .count = call->count, .dtype = call->dtype};
    }
    if (status == LS_OK) {
        int count = ls_replica__unlike(wrong, &right, copies, size, ls_replica__same_form);
        status = count > 0 ? fail_form(run, shared, requests, wrong, count, right) : LS_OK;
    }
    ls_free(wrong, (size_t)size, sizeof(int));
    ls_free(memory, (size_t)size, sizeof(copy));
    return status;
}

static int check_one(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    int size = shared->comm->size;
    void *memory = NULL;
    LS_TRY(ls_replica__check_form(run, shared, requests));
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(copy)));
    copy *copies = memory;
    for (int m = 0; m < size; m++) {
        const ls_call *call = &requests[m]->call;
        copies[m] = (copy){.data = call->send, .count = call->count, .dtype = call->dtype};
    }
    (void)ls_replica__compare(run, shared, copies, (ls_replica_seen){.when = ""}, requests);
    ls_free(memory, (size_t)size, sizeof(copy));
    return LS_OK;
}

// ---- Declared ones ------------------------------------------------------------------------------
static int make_set(ls_replica_set **out, ls_spmd *run, ls_shared_comm *shared) {
    void *memory = NULL;
    size_t size = (size_t)shared->comm->size;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_replica_set)));
    ls_replica_set *set = memory;
    int status = ls_alloc(&memory, size, sizeof(copy));
    if (status != LS_OK) {
        ls_free(set, 1, sizeof *set);
        return status;
    }
    *set = (ls_replica_set){.shared = shared, .copies = memory, .number = shared->replicas++};
    ls_replica_set **at = &run->replicas;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = set;
    *out = set;
    return LS_OK;
}

static void drop_first(copy *c) {
    ls_free(c->first, ls_replica__bytes(c), 1);
    c->first = NULL;
}

// Frees the sets that are over, or all.
static void sweep(ls_spmd *run, bool all) {
    ls_replica_set **at = &run->replicas;
    while (*at != NULL) {
        ls_replica_set *set = *at;
        if (!set->over && !all) {
            at = &set->next;
            continue;
        }
        *at = set->next;
        ls_replica_marks__close(set);
        for (int m = 0; m < set->shared->comm->size; m++) {
            drop_first(&set->copies[m]);
        }
        ls_free(set->copies, (size_t)set->shared->comm->size, sizeof(copy));
        ls_free(set, 1, sizeof *set);
    }
}

static void closed(ls_spmd *run) {
    sweep(run, true);
}

// All members have declared their copy: it must be the same thing.
static void check_form(ls_spmd *run, ls_replica_set *set) {
    int size = set->shared->comm->size, right = 0;
    void *memory = NULL;
    if (ls_alloc(&memory, (size_t)size, sizeof(int)) != LS_OK) {
        return;
    }
    int *wrong = memory,
        count = ls_replica__unlike(wrong, &right, set->copies, size, ls_replica__same_form);
    if (count > 0) {
        const copy *a = &set->copies[wrong[0]], *b = &set->copies[right];
        const int *ranks = set->shared->comm->ranks;
        int first = ranks[wrong[0]];
        ls_text text = {0};
        ls_text_printf(&text,
                       "replicas on %s: rank %d declares %zu %s at %s:%d, rank %d %zu %s at "
                       "%s:%d\n",
                       set->shared->comm->name, first, a->count, ls_dtype_name(a->dtype), a->file,
                       a->line, ranks[right], b->count, ls_dtype_name(b->dtype), b->file, b->line);
        for (int i = 0; i < count; i++) {
            wrong[i] = ranks[wrong[i]];
        }
        bool dtype = a->dtype != b->dtype;
        (void)ls_findings__add(run, dtype ? LS_FINDING_DTYPE_MISMATCH : LS_FINDING_COUNT_MISMATCH,
                               wrong, count, a->file, a->line, ls_findings__string(run, &text));
        ls_text_free(&text);
        set->over = true;
    }
    ls_free(memory, (size_t)size, sizeof(int));
}

// The contents of a member's copy at its declaration, unless calls in flight or no call fill it.
static void keep_first(copy *c, const ls_rank *rank, const ls_spmd *run) {
    size_t bytes = ls_replica__bytes(c);
    bool readable = !run->direct && !run->borrowed && bytes > 0;
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        readable = readable && !ls_replica__touches(at, c);
    }
    void *memory = NULL;
    if (!readable || !run->checks[LS_FINDING_REPLICA_DIVERGED] ||
        ls_poison__any(run, c->data, bytes) || ls_alloc(&memory, bytes, 1) != LS_OK) {
        return;
    }
    c->first = memcpy(memory, c->data, bytes);
}

// All have declared it: it must hold the same everywhere.
static void compare_first(ls_spmd *run, ls_replica_set *set) {
    int size = set->shared->comm->size;
    void *memory = NULL;
    bool known = true;
    for (int m = 0; m < size; m++) {
        known = known && set->copies[m].first != NULL;
    }
    if (known && !set->over && ls_alloc(&memory, (size_t)size, sizeof(copy)) == LS_OK) {
        copy *then = memory;
        for (int m = 0; m < size; m++) {
            then[m] = set->copies[m];
            then[m].data = then[m].first;
        }
        set->over = !ls_replica__compare(run, set->shared, then,
                                         (ls_replica_seen){.when = "as they are declared"}, NULL);
        ls_free(memory, (size_t)size, sizeof(copy));
    }
    for (int m = 0; m < size; m++) {
        drop_first(&set->copies[m]);
    }
}

int ls_replica__declare(ls_rank_comm *comm, const ls_call *what) {
    ls_spmd *run = comm->rank->run;
    uint64_t number = comm->replicas++;
    ls_replica_set *set = run->replicas;
    while (set != NULL && (set->shared != comm->shared || set->number != number)) {
        set = set->next;
    }
    if (set == NULL && number < comm->shared->replicas) {
        return LS_OK;  // another member has forgotten it already
    }
    if (set == NULL) {
        LS_TRY(make_set(&set, run, comm->shared));
    }
    set->copies[comm->member] = (copy){.data = what->send,
                                       .count = what->count,
                                       .dtype = what->dtype,
                                       .file = what->file,
                                       .line = what->line,
                                       .declared = true};
    keep_first(&set->copies[comm->member], comm->rank, run);
    set->declared += 1;
    if (set->declared == set->shared->comm->size) {
        check_form(run, set);
        compare_first(run, set);
        sweep(run, false);
    }
    return LS_OK;
}

void ls_replica__forget(ls_rank_comm *comm, const void *data) {
    for (ls_replica_set *set = comm->rank->run->replicas; set != NULL; set = set->next) {
        const copy *own = &set->copies[comm->member];
        if (set->shared == comm->shared && own->declared && !own->freed && own->data == data) {
            set->over = true;
            sweep(comm->rank->run, false);
            return;
        }
    }
}

// Whether the set can be compared: all copies are declared and none is freed.
// Whether `move`, in which all members of the set's communicator wait, is a time to compare it.
static bool is_due(const ls_spmd *run, const ls_replica_set *set, const ls_move *move) {
    const ls_comm *comm = set->shared->comm;
    bool touched = run->replicas_always;
    for (int m = 0; m < comm->size; m++) {
        int member =
            move->shared == set->shared ? m : ls_comm_member(move->shared->comm, comm->ranks[m]);
        if (member < 0 || move->requests[member]->asynchronous ||
            ls_replica__in_use(move->requests[member], &set->copies[m])) {
            return false;
        }
        touched = touched || ls_replica__touches(move->requests[member], &set->copies[m]);
    }
    return touched;
}

// Part of the members have made a call that gives them all the same: what they hold must be.
static void compare_part(ls_spmd *run, ls_replica_set *set, const ls_move *move,
                         ls_replica_seen at) {
    const ls_comm *of = move->shared->comm;
    void *memory = NULL;
    if (ls_kind_is_ask(move->requests[0]->call.kind) ||
        !ls_collective_of(move->requests[0]->call.kind)->replicates ||
        ls_alloc(&memory, (size_t)of->size, sizeof(copy)) != LS_OK) {
        return;
    }
    copy *copies = memory;
    bool due = true;
    for (int i = 0; i < of->size && due; i++) {
        int m = ls_comm_member(set->shared->comm, of->ranks[i]);
        const ls_request *request = move->requests[i];
        due = m >= 0 && !request->asynchronous && ls_replica__touches(request, &set->copies[m]) &&
              !ls_replica__in_use(request, &set->copies[m]);
        copies[i] = due ? set->copies[m] : copies[i];
    }
    if (due) {
        set->over = !ls_replica__compare(run, move->shared, copies, at, move->requests);
    }
    ls_free(memory, (size_t)of->size, sizeof(copy));
}

static void moved(ls_spmd *run, ls_move *move) {
    if (run->replicas == NULL || move->device != NULL ||
        !run->checks[LS_FINDING_REPLICA_DIVERGED] ||
        ls_kind_is_message(move->requests[0]->call.kind)) {
        return;
    }
    char what[256], when[300];
    ls_call_describe(what, sizeof what, &move->requests[0]->call);
    (void)snprintf(when, sizeof when, "after %s", what);
    for (ls_replica_set *set = run->replicas; set != NULL; set = set->next) {
        if (!ls_replica__whole(set)) {
            continue;
        }
        if (move->shared->comm->size < set->shared->comm->size) {
            compare_part(run, set, move, (ls_replica_seen){.when = when});
            continue;
        }
        if (!is_due(run, set, move)) {
            continue;
        }
        bool own = set->shared == move->shared;
        const ls_replica_seen at = {.when = when,
                                    .file = own ? NULL : move->requests[0]->call.file,
                                    .line = move->requests[0]->call.line};
        set->over =
            !ls_replica__compare(run, set->shared, set->copies, at, own ? move->requests : NULL);
    }
    sweep(run, false);
}

static int check_declared(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    for (ls_replica_set *set = run->replicas; set != NULL; set = set->next) {
        if (set->shared == shared && ls_replica__whole(set)) {
            set->over = !ls_replica__compare(run, shared, set->copies,
                                             (ls_replica_seen){.when = ""}, requests);
        }
    }
    sweep(run, false);
    return LS_OK;
}

static int asked(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    return requests[0]->call.kind == LS_CHECK_REPLICAS ? check_declared(run, shared, requests)
                                                       : check_one(run, shared, requests);
}

// ---- The last time ------------------------------------------------------------------------------
static bool idle(const ls_spmd *run, const ls_replica_set *set) {
    for (int m = 0; m < set->shared->comm->size; m++) {
        const ls_rank *rank = &run->ranks[set->shared->comm->ranks[m]];
        for (const ls_request *at = rank->open; at != NULL; at = at->next) {
            if (ls_replica__touches(at, &set->copies[m])) {
                return false;
            }
        }
    }
    return true;
}

static void last_look(ls_spmd *run, const ls_replica_set *set, const char *when) {
    char text[400];
    const ls_replica_since *since = &set->since;
    ls_replica_seen at = {.when = when};
    if (since->known) {
        (void)snprintf(text, sizeof text, "%s, since %s at %s:%d", when, since->what, since->file,
                       since->line);
        at = (ls_replica_seen){.when = text, .file = since->file, .line = since->line};
    }
    if (run->status == LS_OK && idle(run, set)) {
        (void)ls_replica__compare(run, set->shared, set->copies, at, NULL);
    }
}

// The copy of `rank` in that memory; NULL: none.
static copy *copy_in(const ls_replica_set *set, const ls_rank *rank, const char *start,
                     size_t bytes) {
    int member = ls_comm_member(set->shared->comm, rank->id);
    copy *own = member >= 0 ? &set->copies[member] : NULL;
    return own != NULL && own->declared && ls_memory__meets(start, bytes, own->data, 1) ? own
                                                                                        : NULL;
}

static void freed(ls_rank *rank, const ls_allocation *allocation) {
    ls_spmd *run = rank->run;
    for (ls_replica_set *set = run->replicas; set != NULL; set = set->next) {
        copy *own = copy_in(set, rank, allocation->start, allocation->bytes);
        if (own == NULL) {
            continue;
        }
        own->freed = true;
        own->freed_file = allocation->freed_file;
        own->freed_line = allocation->freed_line;
        bool all = set->declared == set->shared->comm->size;
        for (int m = 0; all && m < set->shared->comm->size; m++) {
            all = set->copies[m].freed;
        }
        if (all) {
            last_look(run, set, "when they are freed");
            set->over = true;
        }
    }
    sweep(run, false);
}

static bool holds(const ls_rank *rank, const char *start, size_t bytes) {
    const ls_replica_set *set = rank->run->replicas;
    while (set != NULL && copy_in(set, rank, start, bytes) == NULL) {
        set = set->next;
    }
    return set != NULL;
}

// ---- Where each process holds one copy ----------------------------------------------------------
bool ls_replica__declared(ls_call *out, const ls_rank_comm *comm, uint64_t number) {
    for (const ls_replica_set *set = comm->rank->run->replicas; set != NULL; set = set->next) {
        const copy *own = &set->copies[comm->member];
        if (set->shared == comm->shared && set->number == number && own->declared && !own->freed) {
            *out = (ls_call){.send = own->data,
                             .count = own->count,
                             .dtype = own->dtype,
                             .file = own->file,
                             .line = own->line};
            return true;
        }
    }
    return false;
}

static int ended(ls_spmd *run) {
    if (run->direct) {
        return LS_OK;  // this process holds one copy
    }
    for (ls_replica_set *set = run->replicas; set != NULL; set = set->next) {
        bool there = !set->over && set->declared == set->shared->comm->size;
        for (int m = 0; there && m < set->shared->comm->size; m++) {
            ls_rank *rank = &run->ranks[set->shared->comm->ranks[m]];
            const copy *c = &set->copies[m];
            there = rank->exit_status == 0 && rank->state != LS_RANK_DIED;
            const ls_allocation *allocation = ls_memory__find(rank, c->data);
            there = there && (ls_replica__bytes(c) == 0 ||
                              (allocation != NULL &&
                               (size_t)(c->data - allocation->start) + ls_replica__bytes(c) <=
                                   allocation->bytes));
        }
        if (there) {
            last_look(run, set, "at the end");
        }
    }
    return LS_OK;
}

const ls_rank_check ls_rank_check__replica = {.moved = moved,
                                              .completed = ls_replica_marks__complete,
                                              .asked = asked,
                                              .freed = freed,
                                              .holds = holds,
                                              .ended = ended,
                                              .closed = closed};
