// One step of a redistribution: the placement along one mesh dimension changes, by one collective
// between the ranks of each fiber or by a local cut.
#include <string.h>

#include "collectives/tensor.h"
#include "kernels/kernels.h"

typedef struct step {
    ls_backend *backend;
    const ls_local_tensor *in;
    ls_local_tensor *out;
    const ls_axis *axis;
    ls_arena *arena;
    ls_block *from, *to;  // [world size] every rank's block before and after
    const size_t *
        *gathered;   // [comm_count] counts of a fiber's blocks, or NULL where all are equal
    bool *counted;   // [comm_count] whether `gathered` is known
    ls_call *calls;  // [held ranks]
    char **packed;   // [held ranks] what a call receives before it is put in place, or NULL
    int call_count;
    size_t element;
    ls_dtype dtype;
} step;

int ls_tensor__single(ls_shard **out, const ls_local_tensor *tensor, int rank) {
    int count = ls_local_tensor_shard_count(tensor, rank);
    if (count != 1) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "rank %d holds %d shards of the tensor; this needs one", rank, count);
    }
    *out = ls_local_tensor_shard(tensor, rank, 0);
    return LS_OK;
}

int ls_tensor__axis(const ls_axis **out, ls_backend *backend, int axis) {
    if (backend->axes[axis] == NULL) {
        LS_TRY(ls_axis_create(&backend->axes[axis], backend, axis));
    }
    *out = backend->axes[axis];
    return LS_OK;
}

static const ls_comm *fiber_of(const step *s, int rank) {
    return s->axis->comms[s->axis->comm_of_rank[rank]];
}

static size_t block_count(const ls_block *block) {
    size_t count = 1;
    for (int d = 0; d < block->size.ndim; d++) {
        count *= (size_t)block->size.dim[d];
    }
    return count;
}

static void *need(const step *s, size_t count, size_t size) {
    return ls_arena_alloc(s->arena, count, size);
}

// Whether blocks cut along `dim` are adjacent in a dense array of `block`.
static bool in_sequence(const ls_block *block, int dim) {
    for (int d = 0; d < dim; d++) {
        if (block->size.dim[d] != 1) {
            return false;
        }
    }
    return true;
}

// Elements of every member's block in `blocks`; NULL in *out when all have the same number.
static int fiber_counts(const size_t **out, step *s, int rank, const ls_block *blocks) {
    int index = s->axis->comm_of_rank[rank];
    const ls_comm *comm = s->axis->comms[index];
    if (!s->counted[index]) {
        size_t *counts = need(s, (size_t)comm->size, sizeof *counts);
        LS_TRY_MEMORY(counts != NULL);
        bool even = true;
        for (int m = 0; m < comm->size; m++) {
            counts[m] = block_count(&blocks[comm->ranks[m]]);
            even = even && counts[m] == counts[0];
        }
        s->gathered[index] = even ? NULL : counts;
        s->counted[index] = true;
    }
    *out = s->gathered[index];
    return LS_OK;
}

static ls_call *new_call(step *s, ls_kind kind, int rank) {
    ls_call *call = &s->calls[s->call_count++];
    *call = (ls_call){
        .kind = kind, .comm = fiber_of(s, rank), .rank = rank, .dtype = s->dtype, LS_HERE};
    return call;
}

// ---- Steps that communicate ---------------------------------------------------------------------
static int start_gather(step *s, int rank, ls_shard *in, ls_shard *out, int dim) {
    ls_call *call = new_call(s, LS_ALL_GATHER, rank);
    LS_TRY(fiber_counts(&call->recv_counts, s, rank, s->from));
    call->count = in->count;
    call->send = in->data;
    call->recv = out->data;
    if (!in_sequence(&s->to[rank], dim)) {
        s->packed[s->call_count - 1] = need(s, out->count, s->element);
        call->recv = s->packed[s->call_count - 1];
    }
    return call->recv != NULL || out->count == 0 ? LS_OK : LS_ERR_MEMORY;
}

static void finish_gather(const step *s, int rank, const char *packed, ls_shard *out) {
    const ls_comm *comm = fiber_of(s, rank);
    for (int m = 0; m < comm->size; m++) {
        const ls_block *block = &s->from[comm->ranks[m]];
        ls_block_copy(out->data, &s->to[rank], packed, block, s->element);
        packed += block_count(block) * s->element;
    }
}

static int start_reduce_scatter(step *s, int rank, ls_shard *in, ls_shard *out, int dim, ls_op op) {
    ls_call *call = new_call(s, LS_REDUCE_SCATTER, rank);
    LS_TRY(fiber_counts(&call->send_counts, s, rank, s->to));
    call->op = op;
    call->count = out->count;
    call->send = in->data;
    call->recv = out->data;
    if (!in_sequence(&s->from[rank], dim) && in->count != 0) {
        char *packed = need(s, in->count, s->element);
        LS_TRY_MEMORY(packed != NULL);
        call->send = packed;
        const ls_comm *comm = fiber_of(s, rank);
        for (int m = 0; m < comm->size; m++) {
            const ls_block *block = &s->to[comm->ranks[m]];
            ls_block_copy(packed, block, in->data, &s->from[rank], s->element);
            packed += block_count(block) * s->element;
        }
    }
    return LS_OK;
}

static void start_all_reduce(step *s, int rank, ls_shard *in, ls_shard *out, ls_op op) {
    ls_call *call = new_call(s, LS_ALL_REDUCE, rank);
    call->op = op;
    call->count = in->count;
    call->send = in->data;
    call->recv = out->data;
}

// A member sends each other member its part of that member's new block.
static int start_exchange(step *s, int rank, ls_shard *in, ls_shard *out) {
    const ls_comm *comm = fiber_of(s, rank);
    size_t size = (size_t)comm->size;
    ls_call *call = new_call(s, LS_ALL_TO_ALL, rank);
    size_t *sends = need(s, size, sizeof *sends), *recvs = need(s, size, sizeof *recvs);
    char *out_packed = need(s, in->count, s->element), *in_packed = need(s, out->count, s->element);
    LS_TRY_MEMORY(sends != NULL && recvs != NULL && out_packed != NULL && in_packed != NULL);
    call->send_counts = sends;
    call->recv_counts = recvs;
    call->send = out_packed;
    call->recv = in_packed;
    s->packed[s->call_count - 1] = in_packed;
    for (size_t m = 0; m < size; m++) {
        ls_block piece;
        recvs[m] = ls_block_intersect(&piece, &s->from[comm->ranks[m]], &s->to[rank]);
        sends[m] = ls_block_intersect(&piece, &s->from[rank], &s->to[comm->ranks[m]]);
        if (sends[m] != 0) {
            ls_block_copy(out_packed, &piece, in->data, &s->from[rank], s->element);
            out_packed += sends[m] * s->element;
        }
    }
    return LS_OK;
}

static void finish_exchange(const step *s, int rank, const char *packed, ls_shard *out) {
    const ls_comm *comm = fiber_of(s, rank);
    for (int m = 0; m < comm->size; m++) {
        ls_block piece;
        size_t count = ls_block_intersect(&piece, &s->from[comm->ranks[m]], &s->to[rank]);
        if (count != 0) {
            ls_block_copy(out->data, &s->to[rank], packed, &piece, s->element);
            packed += count * s->element;
        }
    }
}

static int start_rank(step *s, int rank, const ls_placement *from, const ls_placement *to) {
    ls_shard *in = NULL, *out = NULL;
    LS_TRY(ls_tensor__single(&in, s->in, rank));
    LS_TRY(ls_tensor__single(&out, s->out, rank));
    if (from->kind == LS_PLACE_SHARD) {
        return to->kind == LS_PLACE_SHARD ? start_exchange(s, rank, in, out)
                                          : start_gather(s, rank, in, out, from->dim);
    }
    LS_ASSERT(from->kind == LS_PLACE_PARTIAL);
    if (to->kind == LS_PLACE_SHARD) {
        return start_reduce_scatter(s, rank, in, out, to->dim, from->op);
    }
    start_all_reduce(s, rank, in, out, from->op);
    return LS_OK;
}

static int find_blocks(step *s) {
    ls_world *world = s->backend->world;
    const ls_mesh *mesh = ls_world_mesh(world);
    const ls_shape *shape = ls_local_tensor_shape(s->in);
    for (int rank = 0; rank < ls_world_size(world); rank++) {
        LS_TRY(ls_placement_block(&s->from[rank], shape, mesh, ls_local_tensor_placements(s->in),
                                  rank));
        LS_TRY(ls_placement_block(&s->to[rank], shape, mesh, ls_local_tensor_placements(s->out),
                                  rank));
    }
    return LS_OK;
}

static int communicate(step *s, const ls_placement *from, const ls_placement *to) {
    ls_world *world = s->backend->world;
    size_t ranks = (size_t)ls_world_size(world), held = (size_t)ls_world_held_count(world);
    s->from = need(s, ranks, sizeof *s->from);
    s->to = need(s, ranks, sizeof *s->to);
    s->gathered = need(s, (size_t)s->axis->comm_count, sizeof *s->gathered);
    s->counted = need(s, (size_t)s->axis->comm_count, sizeof *s->counted);
    s->calls = need(s, held, sizeof *s->calls);
    s->packed = need(s, held, sizeof *s->packed);
    LS_TRY_MEMORY(s->from != NULL && s->to != NULL && s->gathered != NULL && s->counted != NULL &&
                  s->calls != NULL && s->packed != NULL);
    LS_TRY(find_blocks(s));
    for (size_t i = 0; i < held; i++) {
        LS_TRY(start_rank(s, ls_world_held(world)[i], from, to));
    }
    LS_TRY(ls_backend_run(s->backend, s->calls, s->call_count));
    for (int i = 0; i < s->call_count; i++) {
        ls_shard *out = NULL;
        int rank = s->calls[i].rank;
        LS_TRY(ls_tensor__single(&out, s->out, rank));
        if (s->packed[i] != NULL && s->calls[i].kind == LS_ALL_GATHER) {
            finish_gather(s, rank, s->packed[i], out);
        } else if (s->packed[i] != NULL) {
            finish_exchange(s, rank, s->packed[i], out);
        }
    }
    return LS_OK;
}

// ---- Local steps --------------------------------------------------------------------------------
static int cut(const ls_local_tensor *in, ls_local_tensor *out) {
    size_t element = ls_dtype_bytes(ls_local_tensor_dtype(in));
    for (int i = 0; i < ls_local_tensor_rank_count(in); i++) {
        int rank = ls_local_tensor_ranks(in)[i];
        ls_shard *from = NULL, *to = NULL;
        LS_TRY(ls_tensor__single(&from, in, rank));
        LS_TRY(ls_tensor__single(&to, out, rank));
        if (to->count != 0) {
            ls_block_copy(to->data, &to->block, from->data, &from->block, element);
        }
    }
    return LS_OK;
}

// Replicate to partial: coordinate 0 keeps its values and the others hold what changes nothing,
// just as a single element does that is distributed so.
static int make_partial(const ls_local_tensor *in, ls_local_tensor *out, int axis,
                        const ls_placement *to) {
    ls_world *world = ls_local_tensor_world(in);
    const ls_mesh *mesh = ls_world_mesh(world);
    ls_dtype dtype = ls_local_tensor_dtype(in);
    ls_placements alone = {.count = mesh->ndim};
    alone.at[axis] = *to;
    const uint64_t zero = 0;
    ls_local_tensor *neutral = NULL;
    LS_TRY(ls_local_tensor_distribute(&neutral, world, &zero, &LS_SHAPE(1), dtype, &alone));
    int status = cut(in, out);
    for (int i = 0; i < ls_local_tensor_rank_count(out) && status == LS_OK; i++) {
        int rank = ls_local_tensor_ranks(out)[i], coordinates[LS_MESH_DIMS_MAX];
        ls_mesh_coordinates(coordinates, mesh, rank);
        ls_shard *shard = ls_local_tensor_shard(out, rank, 0);
        if (coordinates[axis] != 0 && to->op != LS_AVG && shard->count != 0) {
            ls_kernel_fill(shard->data, dtype, ls_local_tensor_shard(neutral, rank, 0)->data,
                           shard->count);
        }
    }
    ls_local_tensor_free(neutral);
    return status;
}

int ls_tensor__step(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in, int axis,
                    const ls_placement *to) {
    *out = NULL;
    ls_placements placements = *ls_local_tensor_placements(in);
    ls_placement from = placements.at[axis];
    placements.at[axis] = *to;
    step s = {.backend = backend, .in = in, .dtype = ls_local_tensor_dtype(in)};
    s.element = ls_dtype_bytes(s.dtype);
    LS_TRY(ls_local_tensor_zeros(&s.out, backend->world, ls_local_tensor_shape(in), s.dtype,
                                 &placements));
    int status = LS_OK;
    if (from.kind == LS_PLACE_REPLICATE) {
        status = to->kind == LS_PLACE_PARTIAL ? make_partial(in, s.out, axis, to) : cut(in, s.out);
    } else {
        LS_ASSERT(to->kind != LS_PLACE_PARTIAL);
        status = ls_arena_create(&s.arena);
        status = status == LS_OK ? ls_tensor__axis(&s.axis, backend, axis) : status;
        status = status == LS_OK ? communicate(&s, &from, to) : status;
        ls_arena_free(s.arena);
    }
    if (status != LS_OK) {
        ls_local_tensor_free(s.out);
        return status;
    }
    *out = s.out;
    return LS_OK;
}
