// The oracle of programs: the expected result of each step. program_cells.c has the arithmetic;
// this file selects the arrays: those of one rank, the whole ones, or those of the ranks of a
// fiber.
#include "runner/program/program_oracle_internal.h"

#include "runner/steps/step.h"

static ls_program_oracle begin(ls_arena *arena, const ls_scenario_step *step,
                               const ls_local_tensor *tensor) {
    ls_world *world = ls_local_tensor_world(tensor);
    return (ls_program_oracle){.arena = arena,
                               .step = step,
                               .mesh = ls_world_mesh(world),
                               .dtype = ls_local_tensor_dtype(tensor),
                               .ranks = ls_world_size(world)};
}

// ---- Shards -------------------------------------------------------------------------------------
// The array of `rank`: its own, or its block of the whole.
static int shard_of(ls_cells *out, const ls_program_oracle *o, const ls_known_tensor *of,
                    int rank) {
    if (of->known.ranks != NULL) {
        *out = of->known.ranks[rank];
        return LS_OK;
    }
    const ls_shard *shard = ls_local_tensor_shard(of->tensor, rank, 0);
    if (shard == NULL) {
        return ls_error_last()->code;
    }
    return ls_cells__cut(out, o->arena, of->known.whole, &shard->block, o->dtype);
}

int ls_known__shard(ls_cells *out, bool *known, ls_arena *arena, const ls_known_tensor *of,
                    int rank, const ls_block *block) {
    *known = ls_known__is_known(&of->known);
    if (!*known || of->known.ranks != NULL) {
        *out = *known ? of->known.ranks[rank] : (ls_cells){0};
        return LS_OK;
    }
    return ls_cells__cut(out, arena, of->known.whole, block, ls_local_tensor_dtype(of->tensor));
}

int ls_known__create(ls_known *out, ls_arena *arena, const void *full, const ls_shape *shape,
                     const ls_local_tensor *tensor) {
    const ls_program_oracle o = begin(arena, NULL, tensor);
    *out = (ls_known){.whole = ls_arena_alloc(arena, 1, sizeof(ls_cells))};
    LS_TRY_MEMORY(out->whole != NULL);
    LS_TRY(ls_cells__of(out->whole, arena, full, shape, o.dtype));
    const ls_placements *placements = ls_local_tensor_placements(tensor);
    if (!ls_placements_any_partial(placements)) {
        return LS_OK;
    }
    const ls_known_tensor self = {*out, tensor};
    if (ls_known__any_split(placements)) {
        *out = (ls_known){0};
        return LS_OK;
    }
    ls_cells *ranks = ls_known__new_ranks(&o);
    LS_TRY_MEMORY(ranks != NULL);
    for (int r = 0; r < o.ranks; r++) {
        LS_TRY(shard_of(&ranks[r], &o, &self, r));
        LS_TRY(ls_known__make_partial(&ranks[r], &o, placements, r));
    }
    out->ranks = ranks;
    return LS_OK;
}

int ls_known__create_part(ls_known *out, ls_arena *arena, const void *full, const ls_shape *shape,
                          const ls_local_tensor *tensor, int rank) {
    const ls_program_oracle o = begin(arena, NULL, tensor);
    ls_cells whole;
    ls_block block;
    out->ranks = out->ranks != NULL ? out->ranks : ls_known__new_ranks(&o);
    LS_TRY_MEMORY(out->ranks != NULL);
    LS_TRY(ls_placement_block(&block, shape, o.mesh, ls_local_tensor_placements(tensor), rank));
    LS_TRY(ls_cells__of(&whole, arena, full, shape, o.dtype));
    return ls_cells__cut(&out->ranks[rank], arena, &whole, &block, o.dtype);
}

int ls_known__full(ls_cells *out, bool *known, ls_arena *arena, const ls_known_tensor *of) {
    const ls_program_oracle o = begin(arena, NULL, of->tensor);
    bool partial = ls_placements_any_partial(ls_local_tensor_placements(of->tensor));
    *known = partial ? of->known.ranks != NULL : of->known.whole != NULL;
    if (*known && !partial) {
        *out = *of->known.whole;
    }
    return *known && partial ? ls_known__resolve_whole(out, &o, of) : LS_OK;
}

// ---- Collectives on shards ----------------------------------------------------------------------
// A result that the members of a fiber share: the reduction, the concatenation, the root's array;
// none if each computes its own.
static int shared_by(ls_cells *shared, const ls_program_oracle *o, const ls_cells *shards,
                     const int *fiber, int size) {
    const ls_collective *collective = ls_collective_of(ls_step_call_kind(o->step->kind));
    const ls_step_call *call = &o->step->call;
    if (collective->reduces) {
        return ls_cells__reduce(shared, o->arena, shards, fiber, size, o->dtype, call->op);
    }
    if (collective->root_word != NULL) {
        *shared = shards[fiber[call->root]];
        return LS_OK;
    }
    return collective->replicates
               ? ls_cells__join(shared, o->arena, shards, fiber, size, call->dim, o->dtype)
               : LS_OK;
}

static int own_of(ls_cells *out, const ls_program_oracle *o, const ls_cells *shared,
                  const ls_cells *shards, const int *fiber, int size, int member) {
    const ls_collective *collective = ls_collective_of(ls_step_call_kind(o->step->kind));
    const ls_step_call *call = &o->step->call;
    if (collective->replicates) {
        *out = *shared;
        return LS_OK;
    }
    if (collective->reduces) {
        return ls_cells__chunk(out, o->arena, shared, call->dim, size, member, o->dtype);
    }
    ls_cells *parts = ls_arena_alloc(o->arena, (size_t)o->ranks, sizeof *parts);
    LS_TRY_MEMORY(parts != NULL);
    for (int m = 0; m < size; m++) {
        LS_TRY(ls_cells__chunk(&parts[fiber[m]], o->arena, &shards[fiber[m]], call->split_dim, size,
                               member, o->dtype));
    }
    return ls_cells__join(out, o->arena, parts, fiber, size, call->cat_dim, o->dtype);
}

static int call_fibers(ls_known *out, const ls_program_oracle *o, const ls_known_tensor *in) {
    int axis = o->step->call.axis >= 0 ? o->step->call.axis : 0, size = o->mesh->dim[axis];
    ls_cells *shards = ls_known__new_ranks(o);
    out->ranks = ls_known__new_ranks(o);
    int *fiber = ls_arena_alloc(o->arena, (size_t)size, sizeof *fiber);
    LS_TRY_MEMORY(shards != NULL && out->ranks != NULL && fiber != NULL);
    for (int rank = 0; rank < o->ranks; rank++) {
        LS_TRY(shard_of(&shards[rank], o, in, rank));
    }
    for (int rank = 0; rank < o->ranks; rank++) {
        int at[LS_MESH_DIMS_MAX];
        ls_cells shared = {0};
        ls_mesh_coordinates(at, o->mesh, rank);
        if (at[axis] != 0) {
            continue;
        }
        ls_mesh_fiber(fiber, o->mesh, axis, rank);
        LS_TRY(shared_by(&shared, o, shards, fiber, size));
        for (int m = 0; m < size; m++) {
            LS_TRY(own_of(&out->ranks[fiber[m]], o, &shared, shards, fiber, size, m));
        }
    }
    return LS_OK;
}

// ---- Operations on shards -----------------------------------------------------------------------
// A result with placements: derives the whole from the shards. summed: their sum; NULL: not
// requested.
static int whole_of_shards(ls_known *out, const ls_program_oracle *o, const ls_local_tensor *made,
                           const ls_cells *summed) {
    const ls_placements *placements = ls_local_tensor_placements(made);
    const ls_shape *shape = ls_local_tensor_shape(made);
    if (placements == NULL || out->whole != NULL || ls_placements_any_partial(placements)) {
        return LS_OK;
    }
    out->whole = ls_arena_alloc(o->arena, 1, sizeof *out->whole);
    LS_TRY(out->whole != NULL ? ls_cells__new(out->whole, o->arena, shape, o->dtype)
                              : LS_ERR_MEMORY);
    for (int rank = 0; rank < o->ranks; rank++) {
        ls_block block;
        LS_TRY(ls_placement_block(&block, shape, o->mesh, placements, rank));
        if (!ls_shape_equal(&block.size, &out->ranks[rank].shape)) {
            out->whole = NULL;
            return LS_OK;
        }
        ls_cells__paste(out->whole, &out->ranks[rank], &block, o->dtype);
    }
    if (summed != NULL) {
        ls_cells__take_exact(out->whole, summed);
        out->ranks = NULL;
    }
    return LS_OK;
}

int ls_known__of_shards(ls_known *out, ls_arena *arena, const ls_local_tensor *made) {
    const ls_program_oracle o = begin(arena, NULL, made);
    const ls_placements *placements = ls_local_tensor_placements(made);
    bool split = placements != NULL && ls_known__any_split(placements);
    return split ? LS_OK : whole_of_shards(out, &o, made, NULL);
}

static ls_block whole_block(const ls_shape *shape) {
    return (ls_block){.offset = {.ndim = shape->ndim}, .size = *shape};
}

// An operand of an elementwise step, broadcast to the result's block `want`.
static int meet(ls_cells *out, const ls_program_oracle *o, const ls_known_tensor *in, int rank,
                const ls_block *want, bool placed) {
    ls_cells cells;
    if (placed && in->known.whole != NULL && (rank < 0 || in->known.ranks == NULL)) {
        ls_block all = whole_block(&in->known.whole->shape);
        return ls_cells__meet(out, o->arena, in->known.whole, &all, &all.size, want, o->dtype);
    }
    LS_TRY(shard_of(&cells, o, in, rank));
    const ls_shard *shard = ls_local_tensor_shard(in->tensor, rank, 0);
    ls_block own = placed ? shard->block : whole_block(&cells.shape);
    ls_block part = placed ? *want : whole_block(&want->size);
    return ls_cells__meet(out, o->arena, &cells, &own,
                          placed ? ls_local_tensor_shape(in->tensor) : &own.size, &part, o->dtype);
}

// Computes rank by rank, and on the whole tensors if all of them are known and the result has
// placements.
int ls_known__operate(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                      const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    const ls_program_oracle begun = begin(arena, step, made), *o = &begun;
    const ls_step_type *type = o->step->type;
    const ls_placements *placements = ls_local_tensor_placements(made);
    ls_cells *operands = ls_arena_alloc(o->arena, (size_t)count, sizeof *operands);
    bool whole = placements != NULL || type->moves_nothing;
    for (int i = 0; i < count; i++) {
        whole = whole && in[i].known.whole != NULL;
    }
    LS_TRY_MEMORY(operands != NULL);
    if (whole) {
        out->whole = ls_arena_alloc(o->arena, 1, sizeof *out->whole);
        for (int i = 0; out->whole != NULL && i < count; i++) {
            operands[i] = *in[i].known.whole;
            if (type->elementwise) {
                ls_block all = whole_block(ls_local_tensor_shape(made));
                LS_TRY(meet(&operands[i], o, &in[i], -1, &all, true));
            }
        }
        LS_TRY(out->whole != NULL
                   ? type->cells(out->whole, o->arena, o->step, operands, count, o->dtype)
                   : LS_ERR_MEMORY);
    }
    if (whole && !ls_placements_any_partial(placements)) {
        return LS_OK;
    }
    if (placements != NULL && ls_known__any_split(placements)) {
        *out = (ls_known){0};
        return LS_OK;
    }
    out->ranks = ls_known__new_ranks(o);
    for (int rank = 0; out->ranks != NULL && rank < o->ranks; rank++) {
        bool holds = ls_local_tensor_shard_count(made, rank) > 0;
        for (int i = 0; holds && i < count; i++) {
            const ls_block *want = &ls_local_tensor_shard(made, rank, 0)->block;
            LS_TRY(type->elementwise ? meet(&operands[i], o, &in[i], rank, want, placements != NULL)
                                     : shard_of(&operands[i], o, &in[i], rank));
        }
        LS_TRY(holds ? type->cells(&out->ranks[rank], o->arena, o->step, operands, count, o->dtype)
                     : LS_OK);
    }
    return out->ranks != NULL ? whole_of_shards(out, o, made, NULL) : LS_ERR_MEMORY;
}

// ---- Results of kinds of steps ------------------------------------------------------------------
int ls_known__redistribute(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                           const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    const ls_program_oracle o = begin(arena, step, made);
    return ls_known__place(out, &o, in);
}

int ls_known__collective(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                         const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    const ls_program_oracle o = begin(arena, step, made);
    const ls_collective *collective = ls_collective_of(ls_step_call_kind(step->kind));
    const ls_placements *placements = ls_local_tensor_placements(made);
    ls_cells *summed = collective->reduces && collective->replicates ? in->known.whole : NULL;
    LS_TRY(call_fibers(out, &o, in));
    if (placements != NULL && ls_placements_any_partial(placements)) {
        out->whole = summed;  // along another dimension it is still partial
    }
    return whole_of_shards(out, &o, made, summed);
}

int ls_known__step(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                   const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    *out = (ls_known){0};
    for (int i = 0; i < count; i++) {
        if (!ls_known__is_known(&in[i].known)) {
            return LS_OK;
        }
    }
    return step->type->know(out, arena, step, in, count, made);
}
