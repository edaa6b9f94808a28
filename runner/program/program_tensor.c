// Operations on a program's tensors: making them, redistributing, collectives on their shards, and
// the plain operations; every step emits the shards that its result has on each rank.
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runner/scenario/inputs.h"
#include "runner/program/program.h"

static ls_program_tensor *find(const ls_program *program, const char *name) {
    for (int i = 0; i < program->tensor_count; i++) {
        if (strcmp(program->tensors[i].name, name) == 0) {
            return &program->tensors[i];
        }
    }
    return NULL;
}

static int need(ls_program_tensor **out, const ls_program *program, const char *name) {
    *out = name != NULL ? find(program, name) : NULL;
    if (*out == NULL) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "there is no tensor \"%s\" here",
                       name != NULL ? name : "");
    }
    return LS_OK;
}

// Takes the tensor over; a name's earlier tensor is freed.
static void store(ls_program *program, const char *name, ls_local_tensor *tensor,
                  const ls_known *known) {
    ls_program_tensor *entry = find(program, name);
    if (entry != NULL) {
        ls_local_tensor_free(entry->tensor);
    } else {
        entry = &program->tensors[program->tensor_count];
        program->tensor_count += 1;
    }
    *entry = (ls_program_tensor){.name = name, .tensor = tensor, .known = *known};
}

// Copies the block of `full` (dense, of `shape`) to out (dense), element by element.
static void cut(void *out, const void *full, const ls_shape *shape, const ls_block *block,
                size_t count, size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        size_t rest = i;
        size_t source = 0;
        size_t stride = 1;
        for (int d = shape->ndim; d-- > 0;) {
            size_t at = rest % (size_t)block->size.dim[d];
            rest /= (size_t)block->size.dim[d];
            source += (at + (size_t)block->offset.dim[d]) * stride;
            stride *= (size_t)shape->dim[d];
        }
        memcpy((char *)out + i * bytes, (const char *)full + source * bytes, bytes);
    }
}

static bool has_partial(const ls_local_tensor *tensor) {
    const ls_placements *placements = ls_local_tensor_placements(tensor);
    bool partial = false;
    for (int i = 0; placements != NULL && i < placements->count; i++) {
        partial = partial || placements->at[i].kind == LS_PLACE_PARTIAL;
    }
    return partial;
}

static int expect(const ls_program *program, const ls_scenario_step *step, const char *name,
                  const char *field, int rank, const ls_cells *cells, ls_dtype dtype) {
    return ls_program__emit_expected(program, step, name, field, rank, dtype, &cells->shape,
                                     cells->bits, cells->bits == NULL ? cells->exact : NULL,
                                     cells->bounds, cells->overflow);
}

// What a shard must hold.
static int expect_shard(const ls_program *program, const ls_scenario_step *step, const char *name,
                        const char *field, int rank, const ls_program_tensor *entry,
                        const ls_shard *shard) {
    const ls_known_tensor of = {entry->known, entry->tensor};
    ls_cells cells;
    bool known = false;
    if (program->execution->expected == NULL) {
        return LS_OK;
    }
    LS_TRY(ls_known__shard(&cells, &known, program->arena, &of, rank, &shard->block));
    return known ? expect(program, step, name, field, rank, &cells,
                          ls_local_tensor_dtype(entry->tensor))
                 : LS_OK;
}

// Every rank's shards as stage outputs "shard" or, where a rank has several, "shard[i]".
static int emit_shards(const ls_program *program, const ls_scenario_step *step,
                       const ls_program_tensor *entry, bool reduces) {
    const ls_local_tensor *tensor = entry->tensor;
    const int *ranks = ls_local_tensor_ranks(tensor);
    ls_dtype dtype = ls_local_tensor_dtype(tensor);
    for (int i = 0; i < ls_local_tensor_rank_count(tensor); i++) {
        int count = ls_local_tensor_shard_count(tensor, ranks[i]);
        for (int k = 0; k < count; k++) {
            char field[32] = "shard";
            if (count > 1) {
                (void)snprintf(field, sizeof field, "shard[%d]", k);
            }
            const ls_shard *shard = ls_local_tensor_shard(tensor, ranks[i], k);
            LS_TRY(ls_program__emit(program->execution->sink, step, entry->name, field, ranks[i],
                                    dtype, &shard->block.size, shard->data,
                                    reduces && ls_dtype_is_float(dtype)));
            LS_TRY(expect_shard(program, step, entry->name, field, ranks[i], entry, shard));
        }
    }
    return LS_OK;
}

// ---- Making tensors -----------------------------------------------------------------------------
static int create_from_blocks(ls_local_tensor **out, ls_program *program,
                              const ls_scenario_tensor *tensor, const void *full) {
    int count = tensor->block_count;
    int *ranks = ls_arena_alloc(program->arena, (size_t)count, sizeof *ranks);
    ls_block *blocks = ls_arena_alloc(program->arena, (size_t)count, sizeof *blocks);
    if (ranks == NULL || blocks == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        const ls_scenario_block *block = &tensor->blocks[i];
        ranks[i] = block->rank;
        blocks[i].offset.ndim = tensor->shape.ndim;
        blocks[i].size.ndim = tensor->shape.ndim;
        for (int d = 0; d < tensor->shape.ndim; d++) {
            blocks[i].offset.dim[d] = block->offset.at[d];
            blocks[i].size.dim[d] = block->size.at[d];
        }
    }
    LS_TRY(ls_local_tensor_from_blocks(out, program->world, tensor->dtype, &tensor->shape, ranks,
                                       blocks, count, true));
    for (int i = 0; i < ls_local_tensor_rank_count(*out); i++) {
        int rank = ls_local_tensor_ranks(*out)[i];
        for (int k = 0; k < ls_local_tensor_shard_count(*out, rank); k++) {
            ls_shard *shard = ls_local_tensor_shard(*out, rank, k);
            cut(shard->data, full, &tensor->shape, &shard->block, shard->count,
                ls_dtype_bytes(tensor->dtype));
        }
    }
    return LS_OK;
}

static int create_tensor(ls_program *program, const ls_scenario_tensor *tensor) {
    size_t count = 0;
    LS_TRY(ls_shape_count(&count, &tensor->shape));
    void *full = ls_arena_alloc(program->arena, count, ls_dtype_bytes(tensor->dtype));
    if (full == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls_inputs_tensor_values(full, program->scenario, tensor));
    ls_local_tensor *made = NULL;
    int status = LS_OK;
    if (!tensor->has_placements) {
        status = create_from_blocks(&made, program, tensor, full);
    } else if (tensor->source >= 0) {
        bool holds = ls_world_held_index(program->world, tensor->source) >= 0;
        status = ls_tensor_scatter(&made, program->backend, holds ? full : NULL, tensor->source,
                                   &tensor->shape, tensor->dtype, &tensor->placements);
    } else {
        status = ls_local_tensor_distribute(&made, program->world, full, &tensor->shape,
                                            tensor->dtype, &tensor->placements);
    }
    if (status != LS_OK) {
        ls_local_tensor_free(made);
        return status;
    }
    ls_known known = {0};
    if (program->execution->expected != NULL) {
        LS_TRY(ls_known__create(&known, program->arena, full, &tensor->shape, made));
    }
    store(program, tensor->name, made, &known);
    find(program, tensor->name)->blocks = tensor->has_placements ? NULL : tensor;
    // The shards that a program starts with are a stage of their own.
    const ls_scenario_step start = {.name = ls_scenario_start_stage(program->scenario)};
    return emit_shards(program, &start, find(program, tensor->name), false);
}

int ls_program__create_tensors(ls_program *program) {
    for (int i = 0; i < program->scenario->tensor_count; i++) {
        const ls_scenario_tensor *tensor = &program->scenario->tensors[i];
        if (create_tensor(program, tensor) != LS_OK) {
            return ls_error_wrap("%s: tensor %s",
                                 ls_scenario_where(program->scenario, &tensor->node), tensor->name);
        }
    }
    return LS_OK;
}

// ---- Steps --------------------------------------------------------------------------------------
// The whole of a tensor on every held rank: fulls [held ranks], each [bytes].
static int gather_whole(void *const *fulls, ls_program *program, const ls_scenario_step *step,
                        const ls_program_tensor *entry, size_t bytes) {
    if (entry->blocks != NULL) {
        return ls_program__gather_blocks(fulls, program, step, entry->blocks, entry->tensor);
    }
    LS_TRY(ls_tensor_full(fulls[0], bytes, program->backend, entry->tensor));
    for (int i = 1; i < ls_world_held_count(program->world); i++) {
        memcpy(fulls[i], fulls[0], bytes);
    }
    return LS_OK;
}

static int whole_tensor(ls_program *program, const ls_scenario_step *step,
                        const ls_program_tensor *entry) {
    const ls_shape *shape = ls_local_tensor_shape(entry->tensor);
    if (shape == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "\"%s\" has no placement, so its whole is not known",
                       entry->name);
    }
    size_t count = 0;
    size_t bytes = 0;
    ls_dtype dtype = ls_local_tensor_dtype(entry->tensor);
    LS_TRY(ls_shape_count(&count, shape));
    LS_TRY(ls_size_mul(&bytes, count, ls_dtype_bytes(dtype)));
    int held = ls_world_held_count(program->world);
    void **fulls = ls_arena_alloc(program->arena, (size_t)held, sizeof *fulls);
    for (int i = 0; fulls != NULL && i < held; i++) {
        fulls[i] = ls_arena_alloc(program->arena, bytes, 1);
        if (fulls[i] == NULL) {
            return LS_ERR_MEMORY;
        }
    }
    if (fulls == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(gather_whole(fulls, program, step, entry, bytes));
    bool reduces = has_partial(entry->tensor) && ls_dtype_is_float(dtype), known = false;
    const ls_known_tensor of = {entry->known, entry->tensor};
    ls_cells cells;
    if (program->execution->expected != NULL) {
        LS_TRY(ls_known__full(&cells, &known, program->arena, &of));
    }
    for (int i = 0; i < held; i++) {
        int rank = ls_world_held(program->world)[i];
        LS_TRY(ls_program__emit(program->execution->sink, step, entry->name, "full", rank, dtype,
                                shape, fulls[i], reduces));
        if (known) {
            LS_TRY(expect(program, step, entry->name, "full", rank, &cells, dtype));
        }
    }
    return LS_OK;
}

static int narrow(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                  const ls_local_tensor *in) {
    ls_rank_int *start = NULL;
    ls_rank_int *length = NULL;
    int status = ls_rank_int_same(&start, program->world, step->start);
    if (status == LS_OK) {
        status = ls_rank_int_same(&length, program->world, step->length);
    }
    if (status == LS_OK) {
        status = ls_local_tensor_narrow(out, in, step->dim, start, length);
    }
    ls_rank_int_free(start);
    ls_rank_int_free(length);
    return status;
}

static int cat(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step) {
    int count = step->tensors.count;
    const ls_local_tensor **tensors =
        ls_arena_alloc(program->arena, (size_t)count, sizeof *tensors);
    if (tensors == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        ls_program_tensor *entry = NULL;
        LS_TRY(need(&entry, program, step->tensors.at[i]));
        tensors[i] = entry->tensor;
    }
    return ls_local_tensor_cat(out, tensors, count, step->dim);
}

static int elementwise(ls_local_tensor **out, const ls_program *program,
                       const ls_scenario_step *step, const ls_local_tensor *in) {
    ls_program_tensor *entry = NULL;
    LS_TRY(need(&entry, program, step->other));
    const ls_local_tensor *other = entry->tensor;
    if (step->kind == LS_STEP_MATMUL) {
        return ls_local_tensor_matmul(out, in, other);
    }
    if (step->kind == LS_STEP_SUB) {
        ls_local_tensor *negative = NULL;
        LS_TRY(ls_local_tensor_clone(&negative, other));
        int status = ls_local_tensor_scale(negative, -1.0);
        if (status == LS_OK) {
            status = ls_local_tensor_elementwise(out, in, negative, LS_SUM);
        }
        ls_local_tensor_free(negative);
        return status;
    }
    return ls_local_tensor_elementwise(out, in, other,
                                       step->kind == LS_STEP_MUL ? LS_PROD : LS_SUM);
}

static int scale(ls_local_tensor **out, const ls_scenario_step *step, const ls_local_tensor *in) {
    LS_TRY(ls_local_tensor_clone(out, in));
    return ls_local_tensor_scale(*out, step->factor);
}

// Some ranks write an element: what a defect of theirs would do.
static int change(ls_local_tensor **out, const ls_program *program, const ls_scenario_step *step,
                  const ls_local_tensor *in) {
    size_t bytes = ls_dtype_bytes(ls_local_tensor_dtype(in));
    LS_TRY(ls_local_tensor_clone(out, in));
    for (int i = 0; i < step->ranks.count; i++) {
        int rank = (int)step->ranks.at[i];
        if (ls_world_held_index(program->world, rank) < 0) {
            continue;
        }
        ls_shard *shard = ls_local_tensor_shard_count(*out, rank) == 1
                              ? ls_local_tensor_shard(*out, rank, 0)
                              : NULL;
        if (shard == NULL || (size_t)step->element >= shard->count) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank, "rank %d has no element %lld of its own",
                                rank, (long long)step->element);
        }
        ls_element_from_f64((char *)shard->data + (size_t)step->element * bytes,
                            ls_local_tensor_dtype(in), step->factor);
    }
    return LS_OK;
}

static int broadcast(ls_local_tensor **out, const ls_scenario_step *step, const ls_local_tensor *in,
                     const ls_axis *axis) {
    LS_TRY(ls_local_tensor_clone(out, in));
    return ls_tensor_broadcast(*out, step->root, axis);
}

static int collective(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                      const ls_local_tensor *in) {
    ls_axis *axis = NULL;
    LS_TRY(ls_program__axis(&axis, program, step->axis >= 0 ? step->axis : 0));
    switch (step->kind) {
    case LS_STEP_ALL_REDUCE:
        return ls_tensor_all_reduce(out, in, step->op, axis);
    case LS_STEP_ALL_GATHER:
        return ls_tensor_all_gather(out, in, step->dim, axis);
    case LS_STEP_REDUCE_SCATTER:
        return ls_tensor_reduce_scatter(out, in, step->op, step->dim, axis);
    case LS_STEP_ALL_TO_ALL:
        return ls_tensor_all_to_all(out, in, step->split_dim, step->cat_dim, axis);
    case LS_STEP_BROADCAST:
        return broadcast(out, step, in, axis);
    default:
        return LS_FAIL(LS_ERR_UNSUPPORTED, "%s does not work on tensors",
                       ls_step_kind_name(step->kind));
    }
}

static int operate(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                   const ls_local_tensor *in) {
    switch (step->kind) {
    case LS_STEP_REDISTRIBUTE:
        return ls_tensor_redistribute(out, program->backend, in, &step->to);
    case LS_STEP_MATMUL:
    case LS_STEP_ADD:
    case LS_STEP_SUB:
    case LS_STEP_MUL:
        return elementwise(out, program, step, in);
    case LS_STEP_CHANGE:
        return change(out, program, step, in);
    case LS_STEP_SCALE:
        return scale(out, step, in);
    case LS_STEP_TRANSPOSE:
        return ls_local_tensor_transpose(out, in, 0, 1);
    case LS_STEP_NARROW:
        return narrow(out, program, step, in);
    case LS_STEP_SUM:
        return ls_local_tensor_reduce(out, in, step->dim, LS_SUM);
    default:
        return collective(out, program, step, in);
    }
}

// Where replicas are checked: that those of a tensor agree, before a step uses it and after one has
// made it.
static int check_replicas(const ls_program *program, const ls_scenario_step *step,
                          const char *name) {
    const ls_program_tensor *entry = name != NULL ? find(program, name) : NULL;
    if (!program->backend->check_replicas || entry == NULL) {
        return LS_OK;
    }
    if (ls_tensor_check_replicas_at(program->scenario->file, step->node.mark.line, entry->tensor) !=
        LS_OK) {
        return ls_error_wrap("tensor %s", entry->name);
    }
    return LS_OK;
}

static int check_operands(const ls_program *program, const ls_scenario_step *step) {
    LS_TRY(check_replicas(program, step, step->tensor));
    LS_TRY(check_replicas(program, step, step->other));
    for (int i = 0; i < step->tensors.count; i++) {
        LS_TRY(check_replicas(program, step, step->tensors.at[i]));
    }
    return LS_OK;
}

static bool takes_sums(const ls_scenario_step *step, const ls_local_tensor *in) {
    return step->kind == LS_STEP_ALL_REDUCE || step->kind == LS_STEP_REDUCE_SCATTER ||
           (step->kind == LS_STEP_REDISTRIBUTE && has_partial(in));
}

// What the step must have made of its operands.
static int know(ls_known *out, const ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *made) {
    *out = (ls_known){0};
    if (program->execution->expected == NULL) {
        return LS_OK;
    }
    int count = step->kind == LS_STEP_CAT ? step->tensors.count : 0;
    ls_known_tensor *in = ls_arena_alloc(program->arena, (size_t)count + 2, sizeof *in);
    if (in == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        const ls_program_tensor *entry = find(program, step->tensors.at[i]);
        in[i] = (ls_known_tensor){entry->known, entry->tensor};
    }
    const char *const names[] = {step->tensor, step->other};
    for (int i = 0; i < 2 && step->kind != LS_STEP_CAT; i++) {
        const ls_program_tensor *entry = names[i] != NULL ? find(program, names[i]) : NULL;
        if (entry != NULL) {
            in[count++] = (ls_known_tensor){entry->known, entry->tensor};
        }
    }
    return ls_known__step(out, program->arena, step, in, count, made);
}

int ls_program__tensor_step(ls_program *program, const ls_scenario_step *step) {
    ls_program_tensor *entry = NULL;
    ls_local_tensor *out = NULL;
    ls_known known;
    int status = LS_OK;
    if (step->kind != LS_STEP_BROADCAST) {  // which makes replicas the same
        LS_TRY(check_operands(program, step));
    }
    if (step->kind == LS_STEP_CAT) {
        status = cat(&out, program, step);
    } else {
        LS_TRY(need(&entry, program, step->tensor));
        if (step->kind == LS_STEP_FULL) {
            return whole_tensor(program, step, entry);
        }
        status = operate(&out, program, step, entry->tensor);
    }
    status = status == LS_OK ? know(&known, program, step, out) : status;
    if (status != LS_OK) {
        ls_local_tensor_free(out);
        return status;
    }
    const char *name = step->into != NULL ? step->into : step->tensor;
    bool reduces = entry != NULL && takes_sums(step, entry->tensor);
    store(program, name, out, &known);
    // What `change` does is seen where it is used.
    LS_TRY(step->kind != LS_STEP_CHANGE ? check_replicas(program, step, name) : LS_OK);
    return emit_shards(program, step, find(program, name), reduces);
}
