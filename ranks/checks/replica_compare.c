// Compares the copies of a replica in any memory.
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "ranks/checks/replica.h"

typedef ls_replica_copy copy;

size_t ls_replica__bytes(const copy *c) {
    return c->count * ls_dtype_bytes(c->dtype);  // checked when it was declared
}

// ---- Comparing ----------------------------------------------------------------------------------
static bool same_bits(const copy *a, const copy *b) {
    return ls_replica__bytes(a) == 0 || ls_poison__same(a->data, b->data, ls_replica__bytes(a));
}

bool ls_replica__same_form(const copy *a, const copy *b) {
    return a->count == b->count && a->dtype == b->dtype;
}

// The members that are unlike most: wrong [size]; *right is one of the others. Without a majority
// the first member is right.
int ls_replica__unlike(int *wrong, int *right, const copy *copies, int size,
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
                   int count, int right, const ls_replica_seen *at) {
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
static bool compare_here(ls_spmd *run, const ls_shared_comm *shared, const copy *copies,
                         ls_replica_seen at, ls_request *const *sites) {
    int size = shared->comm->size, right = 0;
    bool same = true;
    for (int m = 1; m < size && same; m++) {
        same = same_bits(&copies[m], &copies[0]);
    }
    void *memory = NULL;
    if (same || ls_alloc(&memory, (size_t)size, sizeof(int)) != LS_OK) {
        return true;
    }
    int count = ls_replica__unlike(memory, &right, copies, size, same_bits);
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
    ls_free(memory, (size_t)size, sizeof(int));
    return false;
}

// The same if some copies are in a device's memory. A copy that cannot be read is left out. Nothing
// is read while the check is off: a run without data has none.
bool ls_replica__compare(ls_spmd *run, const ls_shared_comm *shared, const copy *copies,
                         ls_replica_seen at, ls_request *const *sites) {
    if (!run->checks[LS_FINDING_REPLICA_DIVERGED]) {
        return true;
    }
    if (run->backend->ops->is_device == NULL) {
        return compare_here(run, shared, copies, at, sites);
    }
    size_t size = (size_t)shared->comm->size;
    void *memory = NULL, *here = NULL;
    bool same = true, readable = true;
    if (ls_alloc(&memory, size, sizeof(ls_view)) != LS_OK) {
        return true;
    }
    ls_view *views = memory;
    if (ls_alloc(&here, size, sizeof(copy)) == LS_OK) {
        copy *read = here;
        for (size_t m = 0; m < size; m++) {
            read[m] = copies[m];
            views[m] = ls_memory__view(run, copies[m].data, ls_replica__bytes(&copies[m]));
            read[m].data = views[m].data;
            readable = readable && (views[m].data != NULL || ls_replica__bytes(&copies[m]) == 0);
        }
        same = !readable || compare_here(run, shared, read, at, sites);
        for (size_t m = 0; m < size; m++) {
            ls_memory__unview(&views[m]);
        }
        ls_free(here, size, sizeof(copy));
    }
    ls_free(memory, size, sizeof(ls_view));
    return same;
}

bool ls_replica__whole(const ls_replica_set *set) {
    bool found = !set->over && set->declared == set->shared->comm->size;
    for (int m = 0; found && m < set->shared->comm->size; m++) {
        found = !set->copies[m].freed;
    }
    return found;
}

bool ls_replica__touches(const ls_request *request, const copy *c) {
    return ls_memory__meets(c->data, ls_replica__bytes(c), request->call.send,
                            request->send_bytes) ||
           ls_memory__meets(c->data, ls_replica__bytes(c), request->call.recv, request->recv_bytes);
}

// A rank may continue after an asynchronous call, and calls in flight may write the compared
// memory.
bool ls_replica__in_use(const ls_request *now, const copy *c) {
    for (const ls_request *at = now->rank->open; at != NULL; at = at->next) {
        if (at != now && (at->state != LS_REQUEST_DONE || at->shadow != NULL) &&
            ls_replica__touches(at, c)) {
            return true;
        }
    }
    return false;
}

void ls_replica__differ(ls_spmd *run, ls_replica_set *set, const ls_replica_mark *mark,
                        const ls_request *request) {
    int size = set->shared->comm->size, right = 0, votes = 0, count = 0;
    void *memory = NULL;
    if (ls_alloc(&memory, (size_t)size, sizeof(int)) != LS_OK) {
        return;
    }
    int *wrong = memory;
    for (int m = 0; m < size; m++) {
        right = votes == 0 ? m : right;
        votes += mark->hashes[m] == mark->hashes[right] ? 1 : -1;
    }
    for (int attempt = 0; attempt < 2; attempt++, right = 0) {
        count = 0;
        for (int m = 0; m < size; m++) {
            if (mark->hashes[m] != mark->hashes[right]) {
                wrong[count++] = m;
            }
        }
        if (2 * count < size || right == 0) {
            break;
        }
    }
    char what[256], when[300];
    ls_call_describe(what, sizeof what, &request->call);
    (void)snprintf(when, sizeof when, "after %s", what);
    const copy *a = &set->copies[wrong[0]], *b = &set->copies[right];
    // Ranks continue meanwhile: values are shown only if they are unchanged since the comparison.
    bool there = ls_hash(LS_HASH_START, a->data, ls_replica__bytes(a)) == mark->hashes[wrong[0]] &&
                 ls_hash(LS_HASH_START, b->data, ls_replica__bytes(b)) == mark->hashes[right];
    copy none = *a;
    none.count = there ? a->count : 0;
    none.file = a->file;
    copy *shown = &none;
    ls_replica__report(run, &(ls_replica_difference){.shared = set->shared,
                                                     .wrong = wrong,
                                                     .count = count,
                                                     .right = right,
                                                     .a = shown->data,
                                                     .b = b->data,
                                                     .elements = shown->count,
                                                     .dtype = a->dtype,
                                                     .when = when,
                                                     .file = request->call.file,
                                                     .line = request->call.line,
                                                     .declared = a->file,
                                                     .declared_line = a->line});
    ls_free(memory, (size_t)size, sizeof(int));
    set->over = true;
}
