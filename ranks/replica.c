// Replicas: memory in which all members of a communicator must hold the same bits. They are
// compared where the program asks for it and, once declared, by themselves: after every collective
// that touches them, when they are freed, and at the end of the run.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

typedef struct copy {
    const char *data;
    size_t count;
    ls_dtype dtype;
    const char *file;
    int line;
    bool declared;
    bool freed;  // the memory is kept until all copies are
    const char *freed_file;
    int freed_line;
} copy;

struct ls_replica_set {
    ls_shared_comm *shared;
    copy *copies;     // [size of the communicator]
    uint64_t number;  // among those of its communicator
    int declared;     // of the copies
    bool over;        // has been reported, or cannot be compared any more: to be freed
    ls_replica_set *next;
};

// Where replicas were seen to differ.
typedef struct seen {
    const char *when;  // "after all_reduce sum of ... on world", "when they are freed"
    const char *file;  // of the first copy at fault
    int line;
} seen;

static size_t bytes_of(const copy *c) {
    return c->count * ls_dtype_bytes(c->dtype);  // checked when it was declared
}

// ---- Comparing ----------------------------------------------------------------------------------
static bool same_bits(const copy *a, const copy *b) {
    return bytes_of(a) == 0 || memcmp(a->data, b->data, bytes_of(a)) == 0;
}

static bool same_form(const copy *a, const copy *b) {
    return a->count == b->count && a->dtype == b->dtype;
}

// The members that are unlike most: wrong [size]; *right is one of the others. Without a majority
// the first member is right.
static int unlike(int *wrong, int *right, const copy *copies, int size,
                  bool (*same)(const copy *a, const copy *b)) {
    int votes = 0, count = 0;
    for (int m = 0; m < size; m++) {
        *right = votes == 0 ? m : *right;
        votes += same(&copies[m], &copies[*right]) ? 1 : -1;
    }
    for (int attempt = 0; attempt < 2; attempt++) {
        count = 0;
        for (int m = 0; m < size; m++) {
            if (!same(&copies[m], &copies[*right])) {
                wrong[count++] = m;
            }
        }
        if (2 * count < size || *right == 0) {
            break;
        }
        *right = 0;
    }
    return count;
}

static void report(ls_spmd *run, const ls_shared_comm *shared, const copy *copies, const int *wrong,
                   int count, int right, const seen *at) {
    const copy *a = &copies[wrong[0]];
    ls_replica__report(run, &(ls_replica_difference){.shared = shared,
                                                     .wrong = wrong,
                                                     .count = count,
                                                     .right = right,
                                                     .a = a->data,
                                                     .b = copies[right].data,
                                                     .elements = a->count,
                                                     .dtype = a->dtype,
                                                     .when = at->when,
                                                     .file = at->file,
                                                     .line = at->line,
                                                     .declared = a->declared ? a->file : NULL,
                                                     .declared_line = a->line});
}

// Compares copies [size of the communicator]; a member at fault has its site in sites [size] (NULL:
// at->file and line). Returns whether they are the same.
static bool compare_here(ls_spmd *run, const ls_shared_comm *shared, const copy *copies, seen at,
                         ls_request *const *sites) {
    int size = shared->comm->size, right = 0;
    bool same = true;
    for (int m = 1; m < size && same; m++) {
        same = same_bits(&copies[m], &copies[0]);
    }
    void *memory = NULL;
    if (same || ls_alloc(&memory, NULL, (size_t)size, sizeof(int)) != LS_OK) {
        return true;
    }
    int count = unlike(memory, &right, copies, size, same_bits);
    int first = ((int *)memory)[0];
    if (sites != NULL && sites[first] != NULL) {
        at.file = sites[first]->call.file;
        at.line = sites[first]->call.line;
    } else if (at.file == NULL) {
        const copy *c = &copies[first];
        at.file = c->freed ? c->freed_file : c->file;
        at.line = c->freed ? c->freed_line : c->line;
    }
    report(run, shared, copies, memory, count, right, &at);
    ls_free(NULL, memory, (size_t)size, sizeof(int));
    return false;
}

// The same where some copies may be in a device's memory. One that cannot be read is left out.
static bool compare(ls_spmd *run, const ls_shared_comm *shared, const copy *copies, seen at,
                    ls_request *const *sites) {
    if (run->backend->ops->is_device == NULL) {
        return compare_here(run, shared, copies, at, sites);
    }
    size_t size = (size_t)shared->comm->size;
    void *memory = NULL, *here = NULL;
    bool same = true, readable = true;
    if (ls_alloc(&memory, NULL, size, sizeof(ls_view)) != LS_OK) {
        return true;
    }
    ls_view *views = memory;
    if (ls_alloc(&here, NULL, size, sizeof(copy)) == LS_OK) {
        copy *read = here;
        for (size_t m = 0; m < size; m++) {
            read[m] = copies[m];
            views[m] = ls_memory__view(run, copies[m].data, bytes_of(&copies[m]));
            read[m].data = views[m].data;
            readable = readable && (views[m].data != NULL || bytes_of(&copies[m]) == 0);
        }
        same = !readable || compare_here(run, shared, read, at, sites);
        for (size_t m = 0; m < size; m++) {
            ls_memory__unview(&views[m]);
        }
        ls_free(NULL, here, size, sizeof(copy));
    }
    ls_free(NULL, memory, size, sizeof(ls_view));
    return same;
}

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
    LS_TRY(ls_alloc(&memory, NULL, (size_t)size, sizeof(copy)));
    int status = ls_alloc(&wrong, NULL, (size_t)size, sizeof(int));
    copies = memory;
    for (int m = 0; m < size && status == LS_OK; m++) {
        const ls_call *call = &requests[m]->call;
        copies[m] = (copy){.data = call->send, .count = call->count, .dtype = call->dtype};
    }
    if (status == LS_OK) {
        int count = unlike(wrong, &right, copies, size, same_form);
        status = count > 0 ? fail_form(run, shared, requests, wrong, count, right) : LS_OK;
    }
    ls_free(NULL, wrong, (size_t)size, sizeof(int));
    ls_free(NULL, memory, (size_t)size, sizeof(copy));
    return status;
}

static int check_one(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    int size = shared->comm->size;
    void *memory = NULL;
    LS_TRY(ls_replica__check_form(run, shared, requests));
    if (!run->checks[LS_FINDING_REPLICA_DIVERGED]) {
        return LS_OK;
    }
    LS_TRY(ls_alloc(&memory, NULL, (size_t)size, sizeof(copy)));
    copy *copies = memory;
    for (int m = 0; m < size; m++) {
        const ls_call *call = &requests[m]->call;
        copies[m] = (copy){.data = call->send, .count = call->count, .dtype = call->dtype};
    }
    (void)compare(run, shared, copies, (seen){.when = ""}, requests);
    ls_free(NULL, memory, (size_t)size, sizeof(copy));
    return LS_OK;
}

// ---- Declared ones ------------------------------------------------------------------------------
static int make_set(ls_replica_set **out, ls_spmd *run, ls_shared_comm *shared) {
    void *memory = NULL;
    size_t size = (size_t)shared->comm->size;
    LS_TRY(ls_alloc(&memory, NULL, 1, sizeof(ls_replica_set)));
    ls_replica_set *set = memory;
    int status = ls_alloc(&memory, NULL, size, sizeof(copy));
    if (status != LS_OK) {
        ls_free(NULL, set, 1, sizeof *set);
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
        ls_free(NULL, set->copies, (size_t)set->shared->comm->size, sizeof(copy));
        ls_free(NULL, set, 1, sizeof *set);
    }
}

void ls_replica__close(ls_spmd *run) {
    sweep(run, true);
}

// All members have declared their copy: it must be the same thing.
static void check_form(ls_spmd *run, ls_replica_set *set) {
    int size = set->shared->comm->size, right = 0;
    void *memory = NULL;
    if (ls_alloc(&memory, NULL, (size_t)size, sizeof(int)) != LS_OK) {
        return;
    }
    int *wrong = memory, count = unlike(wrong, &right, set->copies, size, same_form);
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
    ls_free(NULL, memory, (size_t)size, sizeof(int));
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
    set->declared += 1;
    if (set->declared == set->shared->comm->size) {
        check_form(run, set);
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
static bool whole(const ls_replica_set *set) {
    bool found = !set->over && set->declared == set->shared->comm->size;
    for (int m = 0; found && m < set->shared->comm->size; m++) {
        found = !set->copies[m].freed;
    }
    return found;
}

static bool uses(const ls_request *request, const copy *c) {
    return ls_memory__meets(c->data, bytes_of(c), request->call.send, request->send_bytes) ||
           ls_memory__meets(c->data, bytes_of(c), request->call.recv, request->recv_bytes);
}

// A rank may go on after an asynchronous call, and calls in flight may write what is compared.
static bool busy(const ls_request *now, const copy *c) {
    for (const ls_request *at = now->rank->open; at != NULL; at = at->next) {
        if (at != now && at->state != LS_REQUEST_DONE && uses(at, c)) {
            return true;
        }
    }
    return now->asynchronous;
}

// Whether `meet`, in which all members of the set's communicator wait, is a time to compare it.
static bool is_due(const ls_spmd *run, const ls_replica_set *set, const ls_meet *meet) {
    const ls_comm *comm = set->shared->comm;
    bool touched = run->replicas_always;
    for (int m = 0; m < comm->size; m++) {
        int member =
            meet->shared == set->shared ? m : ls_comm_member(meet->shared->comm, comm->ranks[m]);
        if (member < 0 || busy(meet->requests[member], &set->copies[m])) {
            return false;
        }
        touched = touched || uses(meet->requests[member], &set->copies[m]);
    }
    return touched;
}

void ls_replica__met(ls_spmd *run, const ls_meet *meet) {
    if (run->replicas == NULL || !run->checks[LS_FINDING_REPLICA_DIVERGED]) {
        return;
    }
    char what[256], when[300];
    ls_findings__describe(what, sizeof what, &meet->requests[0]->call);
    (void)snprintf(when, sizeof when, "after %s", what);
    for (ls_replica_set *set = run->replicas; set != NULL; set = set->next) {
        if (!whole(set) || !is_due(run, set, meet)) {
            continue;
        }
        bool own = set->shared == meet->shared;
        const seen at = {.when = when,
                         .file = own ? NULL : meet->requests[0]->call.file,
                         .line = meet->requests[0]->call.line};
        set->over = !compare(run, set->shared, set->copies, at, own ? meet->requests : NULL);
    }
    sweep(run, false);
}

static int check_declared(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    for (ls_replica_set *set = run->replicas; set != NULL; set = set->next) {
        if (set->shared == shared && whole(set) && run->checks[LS_FINDING_REPLICA_DIVERGED]) {
            set->over = !compare(run, shared, set->copies, (seen){.when = ""}, requests);
        }
    }
    sweep(run, false);
    return LS_OK;
}

int ls_replica__check(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    return requests[0]->call.kind == LS_CHECK_REPLICAS ? check_declared(run, shared, requests)
                                                       : check_one(run, shared, requests);
}

// ---- The last time ------------------------------------------------------------------------------
static void last_look(ls_spmd *run, const ls_replica_set *set, const char *when) {
    if (run->status == LS_OK && run->checks[LS_FINDING_REPLICA_DIVERGED]) {
        (void)compare(run, set->shared, set->copies, (seen){.when = when}, NULL);
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

void ls_replica__freed(ls_rank *rank, const ls_allocation *allocation) {
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

bool ls_replica__holds(const ls_rank *rank, const char *start, size_t bytes) {
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

void ls_replica__end(ls_spmd *run) {
    for (ls_replica_set *set = run->replicas; set != NULL; set = set->next) {
        bool there = !set->over && set->declared == set->shared->comm->size;
        for (int m = 0; there && m < set->shared->comm->size; m++) {
            ls_rank *rank = &run->ranks[set->shared->comm->ranks[m]];
            const copy *c = &set->copies[m];
            there = rank->exit_status == 0 && rank->state != LS_RANK_DIED;
            const ls_allocation *allocation = ls_memory__find(rank, c->data);
            there = there &&
                    (bytes_of(c) == 0 ||
                     (allocation != NULL &&
                      (size_t)(c->data - allocation->start) + bytes_of(c) <= allocation->bytes));
        }
        if (there) {
            last_look(run, set, "at the end");
        }
    }
}
