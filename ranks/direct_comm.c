// Splits, subsets and checks of replicas if this process holds one rank: the members exchange their
// arguments, and each gets the result of the matcher that sees them all.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

#define SAID_MAGIC UINT64_C(0x6c6f636b73746570)

// One member's request, as it is sent: all processes run one program, so bytes will do.
typedef struct said {
    uint64_t magic;
    int64_t kind, color, key, member_count, next_id, dtype, line;
    uint64_t count;
    char file[96];
} said;

static void say(said *out, const ls_request *request) {
    memset(out, 0, sizeof *out);
    out->magic = SAID_MAGIC;
    out->kind = (int64_t)request->call.kind;
    out->color = request->color;
    out->key = request->key;
    out->member_count = request->member_count;
    out->next_id = request->rank->run->backend->comm_next_id;
    out->dtype = (int64_t)request->call.dtype;
    out->count = request->call.count;
    out->line = request->call.line;
    if (request->call.file != NULL) {
        size_t length = strlen(request->call.file), room = sizeof out->file - 1;
        memcpy(out->file, request->call.file + (length > room ? length - room : 0),
               length > room ? room : length);
    }
}

static int gather(void *all, const void *own, size_t bytes, const ls_request *request) {
    return ls_direct__collective(
        request,
        (ls_call){.kind = LS_ALL_GATHER, .dtype = LS_U8, .count = bytes, .send = own, .recv = all});
}

// Every member's request; the others' have a rank without history, and no place for a result.
static int stand_ins(ls_meet *meet, ls_request *request, const said *all, ls_arena *arena) {
    ls_spmd *run = request->rank->run;
    const ls_comm *comm = request->call.comm;
    size_t size = (size_t)comm->size;
    ls_request *others = ls_arena_alloc(arena, size, sizeof *others);
    ls_rank *ranks = ls_arena_alloc(arena, size, sizeof *ranks);
    meet->requests = ls_arena_alloc(arena, size, sizeof *meet->requests);
    meet->calls = ls_arena_alloc(arena, size, sizeof *meet->calls);
    LS_TRY_MEMORY(others != NULL && ranks != NULL && meet->requests != NULL && meet->calls != NULL);
    for (int m = 0; m < comm->size; m++) {
        if (all[m].magic != SAID_MAGIC) {
            ls_check__note(LS_FINDING_KIND_MISMATCH, &request->call);
            return LS_FAIL_RANK(LS_ERR_MISMATCH, comm->ranks[m],
                                "%s on %s: rank %d makes another call",
                                ls_kind_name(request->call.kind), comm->name, comm->ranks[m]);
        }
        ls_rank *rank = &ranks[m];
        rank->id = comm->ranks[m];
        rank->run = run;
        others[m] = (ls_request){.call = request->call,
                                 .rank = rank,
                                 .color = (int)all[m].color,
                                 .key = (int)all[m].key,
                                 .member_count = (int)all[m].member_count};
        others[m].call.kind = (ls_kind)all[m].kind;
        others[m].call.rank = comm->ranks[m];
        others[m].call.dtype = (ls_dtype)all[m].dtype;
        others[m].call.count = (size_t)all[m].count;
        others[m].call.file = ls_arena_strdup(arena, all[m].file);
        others[m].call.line = (int)all[m].line;
        meet->requests[m] = m == request->comm->member ? request : &others[m];
        meet->calls[m] = &meet->requests[m]->call;
        // New communicators get the same number on all their members.
        if (all[m].next_id > run->backend->comm_next_id) {
            run->backend->comm_next_id = (int)all[m].next_id;
        }
    }
    return LS_OK;
}

// The lists of a subset, which may differ in length.
static int gather_lists(ls_meet *meet, ls_request *request, ls_arena *arena) {
    int size = request->call.comm->size, longest = 0;
    for (int m = 0; m < size; m++) {
        int count = meet->requests[m]->member_count;
        longest = count > longest ? count : longest;
    }
    size_t bytes = (size_t)longest * sizeof(int);
    int *own = ls_arena_alloc(arena, (size_t)longest + 1, sizeof *own);
    int *all = ls_arena_alloc(arena, (size_t)longest * (size_t)size + 1, sizeof *all);
    LS_TRY_MEMORY(own != NULL && all != NULL);
    if (request->member_count > 0) {
        memcpy(own, request->members, (size_t)request->member_count * sizeof(int));
    }
    LS_TRY(gather(all, own, bytes, request));
    for (int m = 0; m < size; m++) {
        if (meet->requests[m] != request) {
            meet->requests[m]->members = all + (size_t)m * (size_t)longest;
        }
    }
    return LS_OK;
}

static int meet_ask(ls_meet *meet, ls_request *request, ls_arena *arena) {
    said own, *all = ls_arena_alloc(arena, (size_t)request->call.comm->size, sizeof *all);
    LS_TRY_MEMORY(all != NULL);
    if (request->call.kind == LS_CHECK_REPLICAS) {
        request->key = (int)request->comm->replicas;
    }
    say(&own, request);
    LS_TRY(gather(all, &own, sizeof own, request));
    LS_TRY(stand_ins(meet, request, all, arena));
    LS_TRY(ls_meet__check_asks(meet));
    return request->call.kind == LS_COMM_SUBSET ? gather_lists(meet, request, arena) : LS_OK;
}

static int do_ask(ls_request *request, ls_arena *arena) {
    ls_spmd *run = request->rank->run;
    ls_shared_comm *shared = request->comm->shared;
    ls_meet meet = {.shared = shared};
    LS_TRY(meet_ask(&meet, request, arena));
    switch (request->call.kind) {
    case LS_COMM_SPLIT:
        return ls_comm__split(run, shared, meet.requests);
    case LS_COMM_SUBSET:
        return ls_comm__subset(run, shared, meet.requests);
    case LS_CHECK_REPLICA:
    case LS_CHECK_REPLICAS:
        return ls_direct__replica(&meet, request);
    default:
        break;
    }
    return LS_OK;
}

int ls_direct__ask(ls_request *request) {
    ls_arena *arena = NULL;
    int status = ls_arena_create(&arena);
    status = status == LS_OK ? do_ask(request, arena) : status;
    // The sentence of a failure may name places that the others reported.
    status = status == LS_OK ? LS_OK : ls_direct__fail(request, status);
    ls_arena_free(arena);
    if (status != LS_OK) {
        ls_check__forget_file();
        return status;
    }
    ls_request__done(request, LS_OK);
    return LS_OK;
}
