// Collectives on local tensors: each acts on the single shard of every held rank, along a mesh
// axis.
#include <stdio.h>
#include <string.h>

#include "collectives/tensor.h"

// A rank's message about its shard's shape: dimensions, sizes, and a check of these.
#define SHAPE_WORDS (2 + LS_DIMS_MAX)

typedef struct operation {
    const ls_local_tensor *in;
    ls_local_tensor *out;
    const ls_axis *axis;
    ls_backend *backend;
    ls_world *world;
    ls_arena *arena;
    ls_dtype dtype;
    size_t element;
    int held;
    ls_shard **shards;  // [held]
    ls_call *calls;     // [held]
    ls_shape *shapes;   // [world size] every rank's shard, once exchanged
} operation;

static void *need(const operation *o, size_t count, size_t size) {
    return ls_arena_alloc(o->arena, count, size);
}

static const ls_comm *comm_of(const operation *o, int rank) {
    return o->axis->comms[o->axis->comm_of_rank[rank]];
}

static int begin(operation *o, const ls_local_tensor *in, const ls_axis *axis) {
    *o = (operation){.in = in, .axis = axis, .world = ls_local_tensor_world(in)};
    o->backend = axis->comms[0]->backend;
    if (o->backend->world != o->world) {
        return LS_FAIL(LS_ERR_INVALID, "the tensor and the axis belong to different worlds");
    }
    o->dtype = ls_local_tensor_dtype(in);
    o->element = ls_dtype_bytes(o->dtype);
    o->held = ls_world_held_count(o->world);
    LS_TRY(ls_arena_create(&o->arena));
    o->shards = need(o, (size_t)o->held, sizeof(ls_shard *));
    o->calls = need(o, (size_t)o->held, sizeof *o->calls);
    o->shapes = need(o, (size_t)ls_world_size(o->world), sizeof *o->shapes);
    LS_TRY_MEMORY(o->shards != NULL && o->calls != NULL && o->shapes != NULL);
    for (int i = 0; i < o->held; i++) {
        int rank = ls_world_held(o->world)[i];
        LS_TRY(ls_tensor__single(&o->shards[i], in, rank));
        o->shapes[rank] = o->shards[i]->block.size;
        o->calls[i] = (ls_call){.comm = comm_of(o, rank), .rank = rank, .dtype = o->dtype, LS_HERE};
    }
    return LS_OK;
}

static int end(operation *o, int status, ls_local_tensor **out) {
    ls_arena_free(o->arena);
    if (status != LS_OK) {
        ls_local_tensor_free(o->out);
        return status;
    }
    *out = o->out;
    return LS_OK;
}

static int run(operation *o) {
    return ls_backend_run(o->backend, o->calls, o->held);
}

// A new tensor with these shapes [held].
static int make_out(operation *o, const ls_shape *shapes) {
    return ls_local_tensor_from_shards(&o->out, o->world, o->dtype, NULL, o->held, shapes, NULL);
}

static ls_shard *out_shard(const operation *o, int index) {
    return ls_local_tensor_shard(o->out, ls_world_held(o->world)[index], 0);
}

// ---- Shapes of the other ranks ------------------------------------------------------------------
// Differs from the old text if any word does.
static int64_t check_of(const int64_t *words) {
    uint64_t sum = 0;
    for (int i = 0; i < SHAPE_WORDS - 1; i++) {
        sum += (uint64_t)words[i];
    }
    return (int64_t)~sum;
}

static void write_shape(int64_t *words, const ls_shape *shape) {
    words[0] = shape->ndim;
    memcpy(words + 1, shape->dim, sizeof shape->dim);
    words[SHAPE_WORDS - 1] = check_of(words);
}

// Received data comes from elsewhere: nothing is done with it that is not a shape.
static int read_shape(ls_shape *out, const int64_t *words, const ls_call *call, int from) {
    size_t count;
    bool fits =
        words[SHAPE_WORDS - 1] == check_of(words) && words[0] >= 0 && words[0] <= LS_DIMS_MAX;
    *out = (ls_shape){.ndim = fits ? (int)words[0] : 0};
    memcpy(out->dim, words + 1, sizeof out->dim);
    if (!fits || ls_shape_count(&count, out) != LS_OK) {
        return LS_FAIL_RANK(LS_ERR_MISMATCH, call->rank,
                            "on %s rank %d sends rank %d an invalid shard shape", call->comm->name,
                            from, call->rank);
    }
    return LS_OK;
}

static int receive_shapes(operation *o) {
    ls_call *calls = need(o, (size_t)o->held, sizeof *calls);
    LS_TRY_MEMORY(calls != NULL);
    for (int i = 0; i < o->held; i++) {
        const ls_comm *comm = o->calls[i].comm;
        int64_t *own = need(o, SHAPE_WORDS, sizeof *own);
        int64_t *all = need(o, (size_t)comm->size * SHAPE_WORDS, sizeof *all);
        LS_TRY_MEMORY(own != NULL && all != NULL);
        write_shape(own, &o->shards[i]->block.size);
        calls[i] = (ls_call){.kind = LS_ALL_GATHER,
                             .comm = comm,
                             .rank = o->calls[i].rank,
                             .dtype = LS_I64,
                             .count = SHAPE_WORDS,
                             .send = own,
                             .recv = all,
                             .purpose = "shapes",
                             LS_HERE};
    }
    LS_TRY(ls_backend_run(o->backend, calls, o->held));
    for (int i = 0; i < o->held; i++) {
        const int64_t *all = calls[i].recv;
        for (int m = 0; m < calls[i].comm->size; m++) {
            int from = calls[i].comm->ranks[m];
            if (from != calls[i].rank) {
                LS_TRY(
                    read_shape(&o->shapes[from], all + (size_t)m * SHAPE_WORDS, &calls[i], from));
            }
        }
    }
    return LS_OK;
}

// Makes the shapes of all ranks of the held ranks' fibers known, and checks that in each they
// differ in dimension `free_dim` at most (-1: in none).
static int learn_shapes(operation *o, int free_dim) {
    LS_TRY(receive_shapes(o));  // held or not: every backend makes the same calls
    for (int c = 0; c < o->axis->comm_count; c++) {
        const ls_comm *comm = o->axis->comms[c];
        for (int m = 1; m < comm->size; m++) {
            const ls_shape *first = &o->shapes[comm->ranks[0]], *other = &o->shapes[comm->ranks[m]];
            bool same = first->ndim == other->ndim;
            for (int d = 0; d < first->ndim && same; d++) {
                same = d == free_dim || first->dim[d] == other->dim[d];
            }
            if (!same) {
                char first_text[128], other_text[128];
                ls_shape_format(first_text, sizeof first_text, first);
                ls_shape_format(other_text, sizeof other_text, other);
                return LS_FAIL_RANK(LS_ERR_MISMATCH, comm->ranks[m],
                                    "on %s rank %d's shard is %s and rank %d's is %s", comm->name,
                                    comm->ranks[0], first_text, comm->ranks[m], other_text);
            }
        }
    }
    return LS_OK;
}

static int check_dim(const operation *o, int *dim, const char *what) {
    int ndim = o->shards[0]->block.size.ndim;
    if (*dim < -ndim || *dim >= ndim) {
        return LS_FAIL(LS_ERR_INVALID, "%s: dimension %d of a shard with %d dimensions", what, *dim,
                       ndim);
    }
    *dim += *dim < 0 ? ndim : 0;
    return LS_OK;
}

static size_t count_of(const ls_shape *shape) {
    size_t count = 1;
    for (int d = 0; d < shape->ndim; d++) {
        count *= (size_t)shape->dim[d];
    }
    return count;
}

// Part [start, start + length) of a shape along a dimension, as a block.
static ls_block slice(const ls_shape *shape, int dim, int64_t start, int64_t length) {
    ls_block block = {.offset = {.ndim = shape->ndim}, .size = *shape};
    block.offset.dim[dim] = start;
    block.size.dim[dim] = length;
    return block;
}

static ls_block whole(const ls_shape *shape) {
    return (ls_block){.offset = {.ndim = shape->ndim}, .size = *shape};
}

// ---- Operations ---------------------------------------------------------------------------------
static int all_reduce(operation *o, ls_op op) {
    ls_shape *shapes = need(o, (size_t)o->held, sizeof *shapes);
    LS_TRY_MEMORY(shapes != NULL);
    for (int i = 0; i < o->held; i++) {
        shapes[i] = o->shards[i]->block.size;
    }
    LS_TRY(make_out(o, shapes));
    for (int i = 0; i < o->held; i++) {
        ls_call *call = &o->calls[i];
        call->kind = LS_ALL_REDUCE;
        call->op = op;
        call->count = o->shards[i]->count;
        call->send = o->shards[i]->data;
        call->recv = out_shard(o, i)->data;
    }
    LS_TRY(run(o));
    const ls_placements *placements = ls_local_tensor_placements(o->in);
    if (placements == NULL || placements->at[o->axis->axis].kind != LS_PLACE_PARTIAL ||
        placements->at[o->axis->axis].op != op) {
        return LS_OK;
    }
    ls_placements reduced = *placements;
    reduced.at[o->axis->axis] = LS_REPLICATE;
    return ls_local_tensor_place(o->out, ls_local_tensor_shape(o->in), &reduced);
}

int ls_tensor_all_reduce(ls_local_tensor **out, const ls_local_tensor *in, ls_op op,
                         const ls_axis *axis) {
    LS_ASSERT(out != NULL && in != NULL && axis != NULL);
    *out = NULL;
    operation o;
    int status = begin(&o, in, axis);
    status = status == LS_OK ? all_reduce(&o, op) : status;
    return end(&o, status, out);
}

// Copies what each held rank received, packed [held], member by member along `dim`, into its shard
// of shapes [held]; split_dim: along which the members have cut it, -1: not at all.
static void place_received(const operation *o, const ls_shape *shapes, char **packed, int dim,
                           int split_dim) {
    for (int i = 0; i < o->held; i++) {
        const ls_call *call = &o->calls[i];
        ls_block to = whole(&shapes[i]);
        int64_t start = 0;
        for (int m = 0; m < call->comm->size; m++) {
            int64_t length = o->shapes[call->comm->ranks[m]].dim[dim];
            if (dim == split_dim) {
                int64_t unused = 0;
                ls_chunk(&unused, &length, length, call->comm->size,
                         ls_comm_member(call->comm, call->rank));
            }
            ls_block piece = slice(&shapes[i], dim, start, length);
            if (call->recv_counts[m] != 0) {
                ls_block_copy(out_shard(o, i)->data, &to, packed[i], &piece, o->element);
                packed[i] += call->recv_counts[m] * o->element;
            }
            start += length;
        }
    }
}

static int all_gather(operation *o, int dim) {
    LS_TRY(check_dim(o, &dim, "all_gather"));
    LS_TRY(learn_shapes(o, dim));
    ls_shape *shapes = need(o, (size_t)o->held, sizeof *shapes);
    char **packed = need(o, (size_t)o->held, sizeof *packed);
    LS_TRY_MEMORY(shapes != NULL && packed != NULL);
    for (int i = 0; i < o->held; i++) {
        ls_call *call = &o->calls[i];
        size_t *counts = need(o, (size_t)call->comm->size, sizeof *counts);
        LS_TRY_MEMORY(counts != NULL);
        shapes[i] = o->shards[i]->block.size;
        shapes[i].dim[dim] = 0;
        for (int m = 0; m < call->comm->size; m++) {
            const ls_shape *shape = &o->shapes[call->comm->ranks[m]];
            counts[m] = count_of(shape);
            shapes[i].dim[dim] += shape->dim[dim];
        }
        packed[i] = need(o, count_of(&shapes[i]), o->element);
        LS_TRY_MEMORY(packed[i] != NULL);
        call->kind = LS_ALL_GATHER;
        call->count = o->shards[i]->count;
        call->recv_counts = counts;
        call->send = o->shards[i]->data;
        call->recv = packed[i];
    }
    LS_TRY(make_out(o, shapes));
    LS_TRY(run(o));
    place_received(o, shapes, packed, dim, -1);
    return LS_OK;
}

int ls_tensor_all_gather(ls_local_tensor **out, const ls_local_tensor *in, int dim,
                         const ls_axis *axis) {
    LS_ASSERT(out != NULL && in != NULL && axis != NULL);
    *out = NULL;
    operation o;
    int status = begin(&o, in, axis);
    status = status == LS_OK ? all_gather(&o, dim) : status;
    return end(&o, status, out);
}

// One dense buffer of a shard's chunks along `dim`, and their counts.
static int pack_chunks(const void **out, size_t **counts, const operation *o, int index, int dim) {
    const ls_shard *shard = o->shards[index];
    const ls_shape *shape = &shard->block.size;
    int parts = o->calls[index].comm->size;
    char *packed = need(o, shard->count, o->element);
    *counts = need(o, (size_t)parts, sizeof **counts);
    LS_TRY_MEMORY(packed != NULL && *counts != NULL);
    *out = packed;
    ls_block from = whole(shape);
    for (int m = 0; m < parts; m++) {
        int64_t start = 0, length = 0;
        ls_chunk(&start, &length, shape->dim[dim], parts, m);
        ls_block piece = slice(shape, dim, start, length);
        (*counts)[m] = count_of(&piece.size);
        if ((*counts)[m] != 0) {
            ls_block_copy(packed, &piece, shard->data, &from, o->element);
            packed += (*counts)[m] * o->element;
        }
    }
    return LS_OK;
}

static int reduce_scatter(operation *o, ls_op op, int dim) {
    LS_TRY(check_dim(o, &dim, "reduce_scatter"));
    LS_TRY(learn_shapes(o, -1));
    ls_shape *shapes = need(o, (size_t)o->held, sizeof *shapes);
    LS_TRY_MEMORY(shapes != NULL);
    for (int i = 0; i < o->held; i++) {
        ls_call *call = &o->calls[i];
        size_t *counts = NULL;
        int64_t start = 0;
        int member = ls_comm_member(call->comm, call->rank);
        LS_TRY(pack_chunks(&call->send, &counts, o, i, dim));
        shapes[i] = o->shards[i]->block.size;
        ls_chunk(&start, &shapes[i].dim[dim], shapes[i].dim[dim], call->comm->size, member);
        call->kind = LS_REDUCE_SCATTER;
        call->op = op;
        call->count = counts[member];
        call->send_counts = counts;
    }
    LS_TRY(make_out(o, shapes));
    for (int i = 0; i < o->held; i++) {
        o->calls[i].recv = out_shard(o, i)->data;
    }
    return run(o);
}

int ls_tensor_reduce_scatter(ls_local_tensor **out, const ls_local_tensor *in, ls_op op, int dim,
                             const ls_axis *axis) {
    LS_ASSERT(out != NULL && in != NULL && axis != NULL);
    *out = NULL;
    operation o;
    int status = begin(&o, in, axis);
    status = status == LS_OK ? reduce_scatter(&o, op, dim) : status;
    return end(&o, status, out);
}

static int all_to_all(operation *o, int split_dim, int cat_dim) {
    LS_TRY(check_dim(o, &split_dim, "all_to_all"));
    LS_TRY(check_dim(o, &cat_dim, "all_to_all"));
    LS_TRY(learn_shapes(o, cat_dim));
    ls_shape *shapes = need(o, (size_t)o->held, sizeof *shapes);
    char **packed = need(o, (size_t)o->held, sizeof *packed);
    LS_TRY_MEMORY(shapes != NULL && packed != NULL);
    for (int i = 0; i < o->held; i++) {
        ls_call *call = &o->calls[i];
        size_t *sends = NULL, *recvs = need(o, (size_t)call->comm->size, sizeof *recvs);
        LS_TRY(pack_chunks(&call->send, &sends, o, i, split_dim));
        int member = ls_comm_member(call->comm, call->rank);
        int64_t start = 0, cat = 0;
        LS_TRY_MEMORY(recvs != NULL);
        for (int m = 0; m < call->comm->size; m++) {
            ls_shape piece = o->shapes[call->comm->ranks[m]];
            ls_chunk(&start, &piece.dim[split_dim], piece.dim[split_dim], call->comm->size, member);
            recvs[m] = count_of(&piece);
            cat += piece.dim[cat_dim];
            shapes[i] = piece;
        }
        shapes[i].dim[cat_dim] = cat;
        packed[i] = need(o, count_of(&shapes[i]), o->element);
        LS_TRY_MEMORY(packed[i] != NULL);
        call->kind = LS_ALL_TO_ALL;
        call->send_counts = sends;
        call->recv_counts = recvs;
        call->recv = packed[i];
    }
    LS_TRY(make_out(o, shapes));
    LS_TRY(run(o));
    place_received(o, shapes, packed, cat_dim, split_dim);
    return LS_OK;
}

int ls_tensor_all_to_all(ls_local_tensor **out, const ls_local_tensor *in, int split_dim,
                         int cat_dim, const ls_axis *axis) {
    LS_ASSERT(out != NULL && in != NULL && axis != NULL);
    *out = NULL;
    operation o;
    int status = begin(&o, in, axis);
    status = status == LS_OK ? all_to_all(&o, split_dim, cat_dim) : status;
    return end(&o, status, out);
}

int ls_tensor_broadcast(ls_local_tensor *tensor, int root, const ls_axis *axis) {
    LS_ASSERT(tensor != NULL && axis != NULL);
    operation o;
    ls_local_tensor *none = NULL;
    int status = begin(&o, tensor, axis);
    for (int i = 0; i < o.held && status == LS_OK; i++) {
        ls_call *call = &o.calls[i];
        call->kind = LS_BROADCAST;
        call->root = root;
        call->count = o.shards[i]->count;
        call->recv = o.shards[i]->data;
        call->send = ls_comm_member(call->comm, call->rank) == root ? o.shards[i]->data : NULL;
    }
    status = status == LS_OK ? run(&o) : status;
    return end(&o, status, &none);
}
