// The math of large calls of remote ranks in several threads: elements in ranges, each of which is
// a separate call. Only in rank order, where a range's bits are those of the whole call's. Observed
// NaN are merged in the order of the ranges, so that nothing depends on threads.
#include <stdio.h>
#include <unistd.h>

#include "ranks/internal.h"

#define PART_BYTES  ((size_t)512 << 10)  // at least, of each member
#define THREADS_MAX 16

typedef struct part {
    pthread_t thread;
    bool started;
    ls_call *calls;      // [size]
    const ls_call **at;  // [size]
    int size;
    ls_value_watch watch;
    bool watches;
    int status;
    char why[LS_ERROR_TEXT_MAX];
} part;

static void *run_part(void *arg) {
    part *p = arg;
    if (p->watches) {
        ls_values__begin(&p->watch);
    }
    p->status = ls_collective_of(p->calls[0].kind)->math(p->at, p->size, NULL);
    if (p->status != LS_OK) {
        (void)snprintf(p->why, sizeof p->why, "%s", ls_error_last()->text);
    }
    ls_call_fold__watch(NULL, NULL);
    return NULL;
}

static int parts_of(const ls_spmd *run, const ls_call *call) {
    if (ls_collective_has_counts(ls_collective_of(call->kind)) || run->backend->order != NULL ||
        run->backend->device != NULL) {
        return 1;
    }
    size_t parts = call->count * ls_dtype_bytes(call->dtype) / PART_BYTES;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = cores > 1 ? (size_t)cores : 1;
    most = most > THREADS_MAX ? THREADS_MAX : most;
    size_t least = parts > 0 ? parts : 1;
    if (parts > most) {
        least = most;
    }
    return (int)(least);
}

// Elements [first, first + count) of calls [size].
static int make_part(part *out, const ls_call *const *calls, int size, size_t first, size_t count) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(ls_call)));
    out->calls = memory;
    out->size = size;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(ls_call *)));
    out->at = memory;
    size_t offset = first * ls_dtype_bytes(calls[0]->dtype);
    for (int m = 0; m < size; m++) {
        ls_call *call = &out->calls[m];
        *call = *calls[m];
        call->count = count;
        call->send = call->send != NULL ? (const char *)call->send + offset : NULL;
        call->recv = call->recv != NULL ? (char *)call->recv + offset : NULL;
        out->at[m] = call;
    }
    return LS_OK;
}

static void free_part(part *p) {
    ls_free(p->calls, (size_t)p->size, sizeof(ls_call));
    ls_free((void *)p->at, (size_t)p->size, sizeof(ls_call *));
}

// Parts without a thread run here.
static int run_parts(part *parts, int count, ls_value_watch *watch) {
    int status = LS_OK;
    for (int i = 0; i < count; i++) {
        parts[i].watches = watch != NULL && ls_values__fork(&parts[i].watch, watch);
        parts[i].started =
            i > 0 && pthread_create(&parts[i].thread, NULL, run_part, &parts[i]) == 0;
    }
    for (int i = 0; i < count; i++) {
        if (parts[i].started) {
            (void)pthread_join(parts[i].thread, NULL);
        } else {
            (void)run_part(&parts[i]);
        }
        if (parts[i].watches) {
            ls_values__join(watch, &parts[i].watch);
        }
        if (parts[i].status != LS_OK && status == LS_OK) {
            status = LS_FAIL(parts[i].status, "%s", parts[i].why);
        }
    }
    if (watch != NULL) {
        ls_values__begin(watch);
    }
    return status;
}

int ls_remote__math(ls_spmd *run, const ls_call *const *calls, int size) {
    int count = parts_of(run, calls[0]), status = LS_OK, made = 0;
    if (count < 2) {
        return ls_collective_of(calls[0]->kind)->math(calls, size, run->backend->order);
    }
    part parts[THREADS_MAX] = {{.started = false}};
    size_t each = (calls[0]->count / (size_t)count + 63) / 64 * 64;
    for (size_t first = 0; first < calls[0]->count && status == LS_OK; first += each) {
        size_t left = calls[0]->count - first;
        status = make_part(&parts[made++], calls, size, first, left < each ? left : each);
    }
    status = status == LS_OK ? run_parts(parts, made, ls_call_fold__watching()) : status;
    for (int i = 0; i < made; i++) {
        free_part(&parts[i]);
    }
    return status;
}
