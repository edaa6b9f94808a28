// Checks of replicas where each process holds one copy: the members gather their copies, piece by
// piece, and reach one verdict.
#include <string.h>

#include "ranks/internal.h"

#define PIECE_BYTES ((size_t)256 << 10)  // of one copy, gathered at a time

// The members' copies, a piece of `all` [size * room] at a time.
typedef struct pieces {
    const ls_request *request;  // own
    ls_call what;               // own copy, with the place to name
    char *all;
    size_t bytes;  // of a copy
    size_t start, length;
} pieces;

static int gather_piece(pieces *p) {
    p->length = p->bytes - p->start < PIECE_BYTES ? p->bytes - p->start : PIECE_BYTES;
    return ls_direct__collective(p->request,
                                 (ls_call){.kind = LS_ALL_GATHER,
                                           .dtype = LS_U8,
                                           .count = p->length,
                                           .send = (const char *)p->what.send + p->start,
                                           .recv = p->all});
}

static const char *of_member(const pieces *p, int member) {
    return p->all + (size_t)member * p->length;
}

// alike [size]: the first member with the same bits so far. Those that hold others in this piece
// part. scratch [size].
static void part(int *alike, int size, const pieces *p, int *scratch) {
    for (int m = 0; m < size; m++) {
        scratch[m] = m;
        for (int k = 0; k < m; k++) {
            if (scratch[k] == k && alike[k] == alike[m] &&
                memcmp(of_member(p, k), of_member(p, m), p->length) == 0) {
                scratch[m] = k;
                break;
            }
        }
    }
    memcpy(alike, scratch, (size_t)size * sizeof(int));
}

// The members at fault: wrong [size]; *right is one of the majority, without one the first.
static int judge(int *wrong, int *right, const int *alike, int size) {
    int most = 0, count = 0;
    *right = 0;
    for (int m = 0; m < size; m++) {
        int like = 0;
        for (int k = 0; k < size; k++) {
            like += alike[k] == alike[m] ? 1 : 0;
        }
        *right = like > most ? m : *right;
        most = like > most ? like : most;
    }
    *right = 2 * most > size ? *right : 0;
    for (int m = 0; m < size; m++) {
        if (alike[m] != alike[*right]) {
            wrong[count++] = m;
        }
    }
    return count;
}

// The whole copies of two members, to say where they differ.
static int report(pieces *p, const int *wrong, int count, int right) {
    ls_spmd *run = p->request->rank->run;
    void *a = NULL, *b = NULL;
    LS_TRY(ls_alloc(&a, p->bytes, 1));
    int status = ls_alloc(&b, p->bytes, 1);
    for (p->start = 0; p->start < p->bytes && status == LS_OK; p->start += p->length) {
        status = gather_piece(p);
        if (status == LS_OK) {
            memcpy((char *)a + p->start, of_member(p, wrong[0]), p->length);
            memcpy((char *)b + p->start, of_member(p, right), p->length);
        }
    }
    if (status == LS_OK) {
        ls_replica__report(run, &(ls_replica_difference){.shared = p->request->comm->shared,
                                                         .wrong = wrong,
                                                         .count = count,
                                                         .right = right,
                                                         .a = a,
                                                         .b = b,
                                                         .elements = p->what.count,
                                                         .dtype = p->what.dtype,
                                                         .when = "",
                                                         .file = p->what.file,
                                                         .line = p->what.line});
    }
    ls_free(b, p->bytes, 1);
    ls_free(a, p->bytes, 1);
    return status;
}

// lists [3 * size]: scratch.
static int compare_pieces(bool *differ, pieces *p, int *lists) {
    int size = p->request->call.comm->size, right = 0;
    int *alike = lists, *wrong = lists + 2 * (size_t)size;
    for (p->start = 0; p->start < p->bytes; p->start += p->length) {
        LS_TRY(gather_piece(p));
        part(alike, size, p, lists + size);
    }
    int count = judge(wrong, &right, alike, size);
    *differ = count > 0;
    return *differ ? report(p, wrong, count, right) : LS_OK;
}

// Compares `what` with the other members' copies, which have the same form.
static int compare(bool *differ, const ls_request *request, const ls_call *what) {
    size_t size = (size_t)request->call.comm->size;
    pieces p = {.request = request, .what = *what};
    *differ = false;
    LS_TRY(ls_size_mul(&p.bytes, what->count, ls_dtype_bytes(what->dtype)));
    if (p.bytes == 0 || !request->rank->run->checks[LS_FINDING_REPLICA_DIVERGED]) {
        return LS_OK;
    }
    size_t room = p.bytes < PIECE_BYTES ? p.bytes : PIECE_BYTES;
    void *memory = NULL, *lists = NULL;
    LS_TRY(ls_alloc(&memory, size, room));
    p.all = memory;
    int status = ls_alloc(&lists, 3 * size, sizeof(int));
    if (status == LS_OK) {
        status = compare_pieces(differ, &p, lists);
        ls_free(lists, 3 * size, sizeof(int));
    }
    ls_free(memory, size, room);
    return status;
}

// ---- Declared ones ------------------------------------------------------------------------------
// One declared copy, as the members exchange it.
typedef struct form {
    uint64_t there, count, dtype;
} form;

static int gather_forms(form *all, const ls_request *request, uint64_t number, ls_call *what) {
    form own = {0};
    if (ls_replica__declared(what, request->comm, number)) {
        own = (form){.there = 1, .count = what->count, .dtype = (uint64_t)what->dtype};
    }
    return ls_direct__collective(
        request,
        (ls_call){
            .kind = LS_ALL_GATHER, .dtype = LS_U8, .count = sizeof own, .send = &own, .recv = all});
}

// Compares the replica with that number where all members still hold it.
static int check_declared(const ls_meet *meet, const ls_request *request, uint64_t number,
                          form *all) {
    ls_spmd *run = request->rank->run;
    const ls_comm *comm = request->call.comm;
    ls_call what = {0};
    bool whole = true, differ = false;
    LS_TRY(gather_forms(all, request, number, &what));
    for (int m = 0; m < comm->size; m++) {
        whole = whole && all[m].there != 0;
    }
    if (!whole) {
        return LS_OK;
    }
    for (int m = 0; m < comm->size; m++) {
        meet->requests[m]->call.count = (size_t)all[m].count;
        meet->requests[m]->call.dtype = (ls_dtype)all[m].dtype;
    }
    LS_TRY(ls_replica__check_form(run, request->comm->shared, meet->requests));
    LS_TRY(compare(&differ, request, &what));
    if (differ) {
        ls_replica__forget(request->comm, what.send);  // reported once
    }
    return LS_OK;
}

int ls_direct__replica(const ls_meet *meet, const ls_request *request) {
    bool differ = false;
    if (request->call.kind == LS_CHECK_REPLICA) {
        LS_TRY(ls_replica__check_form(request->rank->run, request->comm->shared, meet->requests));
        return compare(&differ, request, &request->call);
    }
    // In `key` the members have sent the number of their declarations so far.
    int numbers = meet->requests[0]->key, size = request->call.comm->size;
    for (int m = 1; m < size; m++) {
        numbers = meet->requests[m]->key < numbers ? meet->requests[m]->key : numbers;
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(form)));
    int status = LS_OK;
    for (int number = 0; number < numbers && status == LS_OK; number++) {
        status = check_declared(meet, request, (uint64_t)number, memory);
    }
    ls_free(memory, (size_t)size, sizeof(form));
    return status;
}
