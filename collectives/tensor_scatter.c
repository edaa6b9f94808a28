// Distributing a tensor from one rank that has it: along each mesh dimension in turn, those that
// have their part by now scatter it or broadcast it to the others of their fiber.
#include <string.h>

#include "collectives/tensor.h"

typedef struct part {
    void *data;  // dense; NULL where the rank has nothing yet or an empty block
    size_t count;
    bool owned;
} part;

typedef struct scattering {
    ls_backend *backend;
    const ls_mesh *mesh;
    const ls_shape *shape;
    ls_dtype dtype;
    size_t element;
    ls_placements placements;  // partial taken as replicate
    int source[LS_MESH_DIMS_MAX];
    part *parts;  // [held ranks]
} scattering;

// Every rank's block once the first `axes` mesh dimensions are done.
static int block_after(ls_block *out, const scattering *s, int axes, int rank) {
    ls_placements done = {.count = s->mesh->ndim};
    for (int d = 0; d < axes; d++) {
        done.at[d] = s->placements.at[d];
    }
    return ls_placement_block(out, s->shape, s->mesh, &done, rank);
}

// Whether a rank's fiber along `axis` has a member that holds data at this point.
static bool takes_part(const scattering *s, int axis, int rank) {
    int coordinates[LS_MESH_DIMS_MAX];
    ls_mesh_coordinates(coordinates, s->mesh, rank);
    for (int d = axis + 1; d < s->mesh->ndim; d++) {
        if (coordinates[d] != s->source[d]) {
            return false;
        }
    }
    return true;
}

// The root's buffer: its members' blocks one after another.
static int pack(const void **out, size_t **counts, const scattering *s, int axis,
                const ls_comm *comm, const part *own, ls_arena *arena) {
    ls_block whole;
    LS_TRY(block_after(&whole, s, axis, comm->ranks[s->source[axis]]));
    *counts = ls_arena_alloc(arena, (size_t)comm->size, sizeof **counts);
    char *packed = ls_arena_alloc(arena, own->count, s->element);
    LS_TRY_MEMORY(*counts != NULL && packed != NULL);
    *out = packed;
    for (int m = 0; m < comm->size; m++) {
        ls_block block;
        LS_TRY(block_after(&block, s, axis + 1, comm->ranks[m]));
        LS_TRY(ls_shape_count(&(*counts)[m], &block.size));
        if ((*counts)[m] != 0) {
            ls_block_copy(packed, &block, own->data, &whole, s->element);
            packed += (*counts)[m] * s->element;
        }
    }
    return LS_OK;
}

static int make_call(ls_call *call, part *next, const scattering *s, int axis, const ls_comm *comm,
                     int index, ls_arena *arena) {
    int rank = ls_world_held(s->backend->world)[index];
    bool cuts = s->placements.at[axis].kind == LS_PLACE_SHARD;
    ls_block block;
    LS_TRY(block_after(&block, s, axis + 1, rank));
    LS_TRY(ls_shape_count(&next->count, &block.size));
    next->owned = true;
    LS_TRY(ls_alloc(&next->data, next->count, s->element));
    *call = (ls_call){
        .kind = cuts ? LS_SCATTER : LS_BROADCAST,
        .comm = comm,
        .rank = rank,
        .dtype = s->dtype,
        .root = s->source[axis],
        .count = next->count,
        .recv = next->data,
        LS_HERE,
    };
    if (comm->ranks[s->source[axis]] != rank) {
        return LS_OK;
    }
    call->send = s->parts[index].data;
    if (cuts) {
        size_t *counts = NULL;
        LS_TRY(pack(&call->send, &counts, s, axis, comm, &s->parts[index], arena));
        call->send_counts = counts;
    }
    return LS_OK;
}

static void free_part(const scattering *s, part *p) {
    if (p->owned) {
        ls_free(p->data, p->count, s->element);
    }
    *p = (part){0};
}

static int scatter_axis(scattering *s, int axis, ls_arena *arena) {
    ls_world *world = s->backend->world;
    int held = ls_world_held_count(world), call_count = 0;
    const ls_axis *comms = NULL;
    ls_call *calls = ls_arena_alloc(arena, (size_t)held, sizeof *calls);
    part *next = ls_arena_alloc(arena, (size_t)held, sizeof *next);
    LS_TRY_MEMORY(calls != NULL && next != NULL);
    int status = ls_tensor__axis(&comms, s->backend, axis);
    for (int i = 0; i < held && status == LS_OK; i++) {
        int rank = ls_world_held(world)[i];
        if (takes_part(s, axis, rank)) {
            status = make_call(&calls[call_count++], &next[i], s, axis,
                               comms->comms[comms->comm_of_rank[rank]], i, arena);
        }
    }
    status = status == LS_OK ? ls_backend_run(s->backend, calls, call_count) : status;
    for (int i = 0; i < held; i++) {
        // A rank had its fiber's whole; it now has its own part.
        free_part(s, &s->parts[i]);
        s->parts[i] = next[i];
    }
    return status;
}

static int scatter(scattering *s, const void *full, int source_rank, ls_local_tensor **out,
                   ls_arena *arena) {
    ls_world *world = s->backend->world;
    int held = ls_world_held_count(world), source = ls_world_held_index(world, source_rank);
    s->parts = ls_arena_alloc(arena, (size_t)held, sizeof *s->parts);
    LS_TRY_MEMORY(s->parts != NULL);
    if (source >= 0) {
        LS_TRY(ls_shape_count(&s->parts[source].count, s->shape));
        memcpy(&s->parts[source].data, &full, sizeof full);  // only read
    }
    int status = LS_OK;
    for (int axis = 0; axis < s->mesh->ndim && status == LS_OK; axis++) {
        status = scatter_axis(s, axis, arena);
    }
    if (status == LS_OK) {
        status = ls_local_tensor_zeros(out, world, s->shape, s->dtype, &s->placements);
    }
    for (int i = 0; i < held; i++) {
        if (status == LS_OK && s->parts[i].count != 0) {
            ls_shard *shard = ls_local_tensor_shard(*out, ls_world_held(world)[i], 0);
            LS_ASSERT(shard->count == s->parts[i].count);
            memcpy(shard->data, s->parts[i].data, shard->count * s->element);
        }
        free_part(s, &s->parts[i]);
    }
    return status;
}

int ls_tensor_scatter(ls_local_tensor **out, ls_backend *backend, const void *full, int source_rank,
                      const ls_shape *shape, ls_dtype dtype, const ls_placements *placements) {
    LS_ASSERT(out != NULL && backend != NULL && shape != NULL && placements != NULL);
    *out = NULL;
    scattering s = {.backend = backend, .shape = shape, .dtype = dtype, .placements = *placements};
    s.mesh = ls_world_mesh(backend->world);
    s.element = ls_dtype_bytes(dtype);
    size_t count = 0;
    ls_block block;
    LS_TRY(ls_shape_count(&count, shape));
    LS_TRY(ls_placement_block(&block, shape, s.mesh, placements, 0));
    if (source_rank < 0 || source_rank >= ls_world_size(backend->world)) {
        return LS_FAIL(LS_ERR_INVALID, "scatter: source rank %d is not in [0, %d)", source_rank,
                       ls_world_size(backend->world));
    }
    if (full == NULL && count != 0 && ls_world_held_index(backend->world, source_rank) >= 0) {
        return LS_FAIL_RANK(LS_ERR_INVALID, source_rank, "scatter: rank %d has no tensor to give",
                            source_rank);
    }
    ls_mesh_coordinates(s.source, s.mesh, source_rank);
    bool partial = false;
    for (int d = 0; d < s.mesh->ndim; d++) {
        if (placements->at[d].kind == LS_PLACE_PARTIAL) {
            s.placements.at[d] = LS_REPLICATE;
            partial = true;
        }
    }
    ls_arena *arena = NULL;
    ls_local_tensor *made = NULL;
    LS_TRY(ls_arena_create(&arena));
    int status = scatter(&s, full, source_rank, &made, arena);
    ls_arena_free(arena);
    if (status == LS_OK && partial) {
        status = ls_tensor_redistribute(out, backend, made, placements);
        ls_local_tensor_free(made);
        return status;
    }
    *out = made;
    return status;
}
