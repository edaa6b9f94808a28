// Completes a matched collective: checks that the members agree, and moves their data.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/coll.h"

mpi_move_state ls_mpi__move_state;

// ---- Reports of disagreement --------------------------------------------------------------------
// keys [size]: what each member says. The minority is at fault, or those unlike the first.
static int tell(ls_spmd *run, ls_request *const *requests, int size, const long *keys,
                ls_finding_id id, const char *what) {
    int best = 0, votes = 0, same = 0, count = 0;
    for (int m = 0; m < size; m++) {
        best = votes == 0 ? m : best;
        votes += keys[m] == keys[best] ? 1 : -1;
    }
    for (int m = 0; m < size; m++) {
        same += keys[m] == keys[best] ? 1 : 0;
    }
    best = 2 * same > size ? best : 0;
    bool all = same == size;  // every member has another value
    int *wrong = ls_mpi__alloc((size_t)size * sizeof *wrong);
    const ls_request *first = NULL;
    for (int m = 0; m < size; m++) {
        if (all || keys[m] != keys[best]) {
            wrong[count++] = requests[m]->call.rank;
            first = first == NULL ? requests[m] : first;
        }
    }
    ls_text text = {0};
    ls_text_printf(&text, "%s\n", what);
    ls_findings__sides(&text, requests, size);
    ls_findings__history(&text, first->rank, 4);
    ls_findings__history(&text, requests[best]->rank, 4);
    (void)ls_findings__add(run, id, wrong, count, first->call.file, first->call.line,
                           ls_findings__string(run, &text));
    ls_text_free(&text);
    free(wrong);
    return LS_FAIL(run->checks[id] ? LS_ERR_FINDING : LS_ERR_MISMATCH, "%s", ls_finding_name(id));
}

static bool differ(const long *keys, int size) {
    for (int m = 1; m < size; m++) {
        if (keys[m] != keys[0]) {
            return true;
        }
    }
    return false;
}

static int root_member(mpi_record *const *records, int size) {
    for (int m = 0; m < size; m++) {
        const mpi_comm *comm = records[m]->comm;
        if (comm->inter ? records[m]->root == MPI_ROOT : records[m]->root == m) {
            return m;
        }
    }
    return -1;
}

static bool in_place(const mpi_side *side) {
    return side->buf == MPI_IN_PLACE;
}

// On an intercommunicator one member passes MPI_ROOT, the others of its group MPI_PROC_NULL, and
// the other group passes its rank.
static void keys_of_root(long *keys, mpi_record *const *records, int size) {
    int root = root_member(records, size);
    const mpi_comm *of = root >= 0 ? records[root]->comm : NULL;
    for (int m = 0; m < size; m++) {
        int passed = records[m]->root;
        bool beside = of != NULL && records[m]->comm->first == of->first;
        bool expected =
            of != NULL && of->inter && (m == root || passed == (beside ? MPI_PROC_NULL : of->rank));
        keys[m] = expected ? LONG_MIN : passed;  // a second MPI_ROOT is not expected
    }
}

// Either all members or none may pass MPI_IN_PLACE to MPI_Allreduce, MPI_Allgather, MPI_Alltoall.
static long key_of_place(const mpi_record *record) {
    return strncmp(record->collective->name, "MPI_All", 7) == 0 && in_place(&record->send);
}

// A member that is neither root nor sends to it passes no operation; `known` takes its place.
static long key_of_op(const mpi_record *record, long known) {
    const mpi_op *op = record->op;
    if (op == NULL || (record->comm->inter && record->root == MPI_PROC_NULL)) {
        return known;
    }
    return op->constant != NULL ? op->handle : -1;
}

static int count_of(int rank, const int *list, int count) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        found += list[i] == rank ? 1 : 0;
    }
    return found;
}

// Both ends of an edge of a graph name it. keys [size] 1: a member names another edge.
// The last of these is described in `what`.
static bool edges_differ(char what[160], long *keys, mpi_record *const *records, int size) {
    bool any = false;
    for (int m = 0; m < size; m++) {
        const mpi_topology *own = records[m]->comm->topology;
        keys[m] = 0;
        for (int i = 0; i < own->out_count + own->in_count; i++) {
            bool out = i < own->out_count;
            int peer = out ? own->out[i] : own->in[i - own->out_count];
            const mpi_topology *other = records[peer]->comm->topology;
            int here = out ? count_of(peer, own->out, own->out_count)
                           : count_of(peer, own->in, own->in_count);
            int there = out ? count_of(m, other->in, other->in_count)
                            : count_of(m, other->out, other->out_count);
            if (here != there) {
                keys[m] = 1;
                (void)snprintf(
                    what, 160,
                    "member %d names member %d as a %s %d times, but that member names it %d times",
                    m, peer, out ? "destination" : "source", here, there);
            }
        }
        any = any || keys[m] != 0;
    }
    return any;
}

static int check(ls_spmd *run, ls_request *const *requests, mpi_record *const *records, int size) {
    long *keys = ls_mpi__alloc((size_t)size * sizeof *keys);
    int status = LS_OK;
    for (int m = 0; m < size; m++) {
        int same = 0;
        while (strcmp(records[same]->function, records[m]->function) != 0) {
            same += 1;
        }
        keys[m] = same;
    }
    if (differ(keys, size)) {
        status = tell(run, requests, size, keys, LS_FINDING_KIND_MISMATCH,
                      "the members of a communicator make different collectives");
    }
    for (int m = 0; m < size && status == LS_OK; m++) {
        keys[m] = key_of_place(records[m]);
    }
    if (status == LS_OK && differ(keys, size)) {
        status = tell(run, requests, size, keys, LS_FINDING_KIND_MISMATCH,
                      "some members pass MPI_IN_PLACE, and others a send buffer");
    }
    if (status == LS_OK && records[0]->collective->rooted) {
        keys_of_root(keys, records, size);
    }
    if (status == LS_OK && differ(keys, size)) {
        status = tell(run, requests, size, keys, LS_FINDING_ROOT_MISMATCH,
                      "the members of a communicator name different roots");
    }
    char what[160];
    mpi_topology *graph = records[0]->collective->neighbors ? records[0]->comm->topology : NULL;
    if (status == LS_OK && graph != NULL && graph->kind != MPI_CART && !graph->agreed) {
        graph->agreed = !edges_differ(what, keys, records, size);
        status = graph->agreed ? LS_OK
                               : tell(run, requests, size, keys, LS_FINDING_COUNT_MISMATCH, what);
    }
    long known = 0;
    for (int m = size - 1; m >= 0; m--) {
        known = key_of_op(records[m], known);
    }
    for (int m = 0; m < size && status == LS_OK; m++) {
        keys[m] = key_of_op(records[m], known);
    }
    if (status == LS_OK && records[0]->collective->reduces && differ(keys, size)) {
        status = tell(run, requests, size, keys, LS_FINDING_OP_MISMATCH,
                      "the members of a communicator reduce by different operations");
    }
    free(keys);
    return status;
}

int ls_mpi__met(ls_spmd *run, ls_request *const *requests, int size) {
    mpi_record **records = ls_mpi__alloc((size_t)size * sizeof *records);
    for (int m = 0; m < size; m++) {
        records[m] = requests[m]->record;
    }
    int status = check(run, requests, records, size);
    const mpi_collective *kind = records[0]->collective;
    if (status == LS_OK && kind->make != NULL) {
        status = kind->make(run, requests, size);
    }
    if (status == LS_OK && kind->move != NULL) {
        long *keys = ls_mpi__alloc((size_t)size * sizeof *keys);
        ls_mpi__move_state = (mpi_move_state){.keys = keys, .size = size};
        status = kind->move(records, size);
        if (ls_mpi__move_state.what[0] != 0) {
            status =
                tell(run, requests, size, keys, ls_mpi__move_state.id, ls_mpi__move_state.what);
        }
        free(keys);
    }
    if (status == LS_OK && ls_mpi__state.window_count > 0) {
        ls_mpi__clock_met(requests, size);
    }
    free(records);
    return status;
}

// ---- Blocks -------------------------------------------------------------------------------------
typedef struct block {
    char *at;
    size_t count;
    const mpi_type *type;
} block;

const mpi_type *ls_mpi__block_type(mpi_rank *me, const mpi_side *side, int b) {
    if (side->objects != NULL) {
        return side->objects[b];
    }
    return side->types != NULL ? ls_mpi__type_of(me, side->types[b]) : side->type;
}

// Block b of a side; a side without blocks is block 0.
static block block_of(const mpi_record *record, const mpi_side *side, int b, bool blocks) {
    const mpi_type *type = ls_mpi__block_type(record->comm->owner, side, b);
    intptr_t at = (intptr_t)side->buf;
    size_t count = (size_t)(side->counts != NULL ? side->counts[b] : side->count);
    if (side->byte_displs != NULL) {
        at += side->byte_displs[b];
    } else if (side->types != NULL) {
        at += side->displs[b];
    } else if (side->displs != NULL) {
        at += (intptr_t)side->displs[b] * type->extent;
    } else if (blocks) {
        at += (intptr_t)b * (intptr_t)count * type->extent;
    }
    return (block){(char *)at, count, type};
}

// Moves a block if both sides describe it alike.
static void transfer(int from, const block *out, int to, const block *in) {
    mpi_move_state *state = &ls_mpi__move_state;
    size_t sent = out->count * out->type->size, expected = in->count * in->type->size;
    const char *a, *b;
    if (!ls_mpi__signature_fits(out->count, out->type, in->count, in->type, &a, &b)) {
        if (state->what[0] == 0) {
            state->id = LS_FINDING_DTYPE_MISMATCH;
            (void)snprintf(state->what, sizeof state->what,
                           "member %d sends %s to member %d, which receives %s", from, a, to, b);
        }
        state->keys[from == to ? from : to] = 1;
        return;
    }
    if (sent != expected) {
        if (state->what[0] == 0) {
            state->id = LS_FINDING_COUNT_MISMATCH;
            (void)snprintf(state->what, sizeof state->what,
                           "member %d sends %zu bytes to member %d, which receives %zu", from, sent,
                           to, expected);
        }
        state->keys[to] = 1;
        return;
    }
    ls_mpi__copy(in->at, in->count, in->type, out->at, out->count, out->type);
}

// The members that a member sends to and receives from: of its own group, or of the other one.
static int peers(const mpi_record *record, int *first) {
    const mpi_comm *comm = record->comm;
    *first = comm->inter ? comm->remote_first : 0;
    return comm->inter ? comm->remote_size : comm->size;
}

// ---- Data ---------------------------------------------------------------------------------------
static int move_bcast(mpi_record *const *records, int size) {
    int root = root_member(records, size), first;
    if (root < 0) {
        return LS_OK;
    }
    int count = peers(records[root], &first);
    const block out = block_of(records[root], &records[root]->send, 0, false);
    for (int m = first; m < first + count; m++) {
        if (m != root) {
            const block in = block_of(records[m], &records[m]->send, 0, false);
            transfer(root, &out, m, &in);
        }
    }
    return LS_OK;
}

// Between the members and their blocks at the root.
static int move_blocks(mpi_record *const *records, int size, bool gathers) {
    int root = root_member(records, size), first;
    if (root < 0) {
        return LS_OK;
    }
    int count = peers(records[root], &first);
    for (int m = first; m < first + count; m++) {
        const mpi_side *own = gathers ? &records[m]->send : &records[m]->recv;
        const mpi_side *all = gathers ? &records[root]->recv : &records[root]->send;
        if (in_place(own)) {
            continue;
        }
        const block one = block_of(records[m], own, 0, false);
        const block part = block_of(records[root], all, m - first, true);
        if (gathers) {
            transfer(m, &one, root, &part);
        } else {
            transfer(root, &part, m, &one);
        }
    }
    return LS_OK;
}

static int move_gather(mpi_record *const *records, int size) {
    return move_blocks(records, size, true);
}

static int move_scatter(mpi_record *const *records, int size) {
    return move_blocks(records, size, false);
}

static int move_allgather(mpi_record *const *records, int size) {
    for (int to = 0; to < size; to++) {
        int first, count = peers(records[to], &first);
        for (int from = first; from < first + count; from++) {
            bool placed = in_place(&records[from]->send);
            if (placed && from == to) {
                continue;
            }
            const block out = placed ? block_of(records[from], &records[from]->recv, from, true)
                                     : block_of(records[from], &records[from]->send, 0, false);
            const block in = block_of(records[to], &records[to]->recv, from - first, true);
            transfer(from, &out, to, &in);
        }
    }
    return LS_OK;
}

// The input of an in-place member is copied before anything is written there.
static block *keep_in_place(const mpi_record *record, int count, char **memory) {
    block *kept = ls_mpi__alloc((size_t)count * sizeof *kept);
    size_t bytes = 0;
    for (int b = 0; b < count; b++) {
        const block in = block_of(record, &record->recv, b, true);
        bytes += in.count * in.type->size;
    }
    char *at = *memory = ls_mpi__alloc(bytes);
    for (int b = 0; b < count; b++) {
        kept[b] = block_of(record, &record->recv, b, true);
        size_t n = ls_mpi__pack(at, kept[b].at, kept[b].count, kept[b].type);
        kept[b].at = at;
        at += n;
    }
    return kept;
}

static int move_alltoall(mpi_record *const *records, int size) {
    char **memory = ls_mpi__alloc((size_t)size * sizeof *memory);
    block **kept = ls_mpi__alloc((size_t)size * sizeof *kept);
    for (int m = 0; m < size; m++) {
        kept[m] = in_place(&records[m]->send) ? keep_in_place(records[m], size, &memory[m]) : NULL;
    }
    for (int to = 0; to < size; to++) {
        int first, count = peers(records[to], &first);
        for (int from = first; from < first + count; from++) {
            int back;
            (void)peers(records[from], &back);
            const block in = block_of(records[to], &records[to]->recv, from - first, true);
            if (kept[from] != NULL) {  // in place: the members are one group
                const block *out = &kept[from][to];
                if (out->count * out->type->size != in.count * in.type->size) {
                    transfer(from, out, to, &in);
                } else {
                    (void)ls_mpi__unpack(in.at, in.count, in.type, out->at,
                                         out->count * out->type->size);
                }
                continue;
            }
            const block out = block_of(records[from], &records[from]->send, to - back, true);
            transfer(from, &out, to, &in);
        }
    }
    for (int m = 0; m < size; m++) {
        free(memory[m]);
        free(kept[m]);
    }
    free(memory);
    free(kept);
    return LS_OK;
}

// ---- Neighbors ----------------------------------------------------------------------------------
// The i-th send of `from` that goes to `to`, for the i-th receive of `to` that comes from `from`.
static int matching_out(const mpi_topology *from, int to, const mpi_topology *receiver, int sender,
                        int slot) {
    int nth = 0;
    for (int i = 0; i < slot; i++) {
        nth += receiver->in[i] == sender ? 1 : 0;
    }
    // In a periodic dimension of size 1 or 2 both neighbors are the same member: data sent upward
    // arrives from below.
    int matches[64], count = 0;
    for (int i = 0; i < from->out_count && count < 64; i++) {
        if (from->out[i] == to) {
            matches[count++] = i;
        }
    }
    if (nth >= count) {
        return -1;
    }
    if (receiver->kind == MPI_CART) {
        int wanted = slot ^ 1;
        return wanted < from->out_count && from->out[wanted] == to ? wanted : matches[nth];
    }
    return matches[nth];
}

static int move_neighbors(mpi_record *const *records, int size) {
    bool blocks = records[0]->collective->out_blocks;
    for (int to = 0; to < size; to++) {
        const mpi_topology *receiver = records[to]->comm->topology;
        for (int slot = 0; slot < receiver->in_count; slot++) {
            int from = receiver->in[slot];
            if (from < 0) {
                continue;
            }
            int b = matching_out(records[from]->comm->topology, to, receiver, from, slot);
            if (b < 0) {
                continue;
            }
            const block out = block_of(records[from], &records[from]->send, blocks ? b : 0, blocks);
            const block in = block_of(records[to], &records[to]->recv, slot, true);
            transfer(from, &out, to, &in);
        }
    }
    return LS_OK;
}

#define KIND(own, mpi_name, ...) const mpi_collective own = {.name = mpi_name, __VA_ARGS__}
KIND(ls_mpi__barrier, "MPI_Barrier", .sync = MPI_SYNC_ALL);
KIND(ls_mpi__bcast, "MPI_Bcast", .rooted = true, .move = move_bcast, .sync = MPI_SYNC_FROM_ROOT);
KIND(ls_mpi__gather, "MPI_Gather", .rooted = true, .move = move_gather, .sync = MPI_SYNC_TO_ROOT,
     .two_sided = true, .in_blocks = true);
KIND(ls_mpi__gatherv, "MPI_Gatherv", .rooted = true, .move = move_gather, .sync = MPI_SYNC_TO_ROOT,
     .two_sided = true, .in_blocks = true);
KIND(ls_mpi__scatter, "MPI_Scatter", .rooted = true, .move = move_scatter,
     .sync = MPI_SYNC_FROM_ROOT, .two_sided = true, .out_blocks = true);
KIND(ls_mpi__scatterv, "MPI_Scatterv", .rooted = true, .move = move_scatter,
     .sync = MPI_SYNC_FROM_ROOT, .two_sided = true, .out_blocks = true);
#define GATHERS .move = move_allgather, .two_sided = true, .in_blocks = true
KIND(ls_mpi__allgather, "MPI_Allgather", GATHERS);
KIND(ls_mpi__allgatherv, "MPI_Allgatherv", GATHERS);
#define EXCHANGES .two_sided = true, .out_blocks = true, .in_blocks = true
KIND(ls_mpi__alltoall, "MPI_Alltoall", .move = move_alltoall, EXCHANGES);
KIND(ls_mpi__alltoallv, "MPI_Alltoallv", .move = move_alltoall, EXCHANGES);
KIND(ls_mpi__alltoallw, "MPI_Alltoallw", .move = move_alltoall, EXCHANGES);
#define NEIGHBORS .move = move_neighbors, .neighbors = true, .two_sided = true, .in_blocks = true
KIND(ls_mpi__neighbor_allgather, "MPI_Neighbor_allgather", NEIGHBORS);
KIND(ls_mpi__neighbor_allgatherv, "MPI_Neighbor_allgatherv", NEIGHBORS);
KIND(ls_mpi__neighbor_alltoall, "MPI_Neighbor_alltoall", NEIGHBORS, .out_blocks = true);
KIND(ls_mpi__neighbor_alltoallv, "MPI_Neighbor_alltoallv", NEIGHBORS, .out_blocks = true);
KIND(ls_mpi__neighbor_alltoallw, "MPI_Neighbor_alltoallw", NEIGHBORS, .out_blocks = true);
