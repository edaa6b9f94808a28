// A program's tensors by name: the initial ones, and the results of its steps. Every step outputs
// the shards of its result on each rank.
#include <stdio.h>
#include <string.h>

#include "collectives/check.h"
#include "runner/scenario/inputs.h"
#include "runner/program/program.h"
#include "runner/program/redistribute.h"
#include "runner/program/program_oracle_internal.h"
#include "runner/steps/step.h"

static ls_program_tensor *find(const ls_program *program, const char *name) {
    for (int i = 0; i < program->tensor_count; i++) {
        if (strcmp(program->tensors[i].name, name) == 0) {
            return &program->tensors[i];
        }
    }
    return NULL;
}

int ls_program__tensor(ls_program_tensor **out, const ls_program *program, const char *name) {
    *out = name != NULL ? find(program, name) : NULL;
    if (*out == NULL) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "there is no tensor \"%s\" here",
                       name != NULL ? name : "");
    }
    return LS_OK;
}

// Takes ownership; frees a name's earlier tensor.
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

// The expected content of a shard.
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
    return known ? ls_program__emit_cells(program, step, name, field, rank, &cells,
                                          ls_local_tensor_dtype(entry->tensor))
                 : LS_OK;
}

// Outputs every rank's shards as "shard" or, if a rank has several, "shard[i]".
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
            LS_TRY(ls_program__emit(
                program->execution->sink,
                &(ls_stage_output){.stage = step->name,
                                   .table = entry->name,
                                   .field = field,
                                   .rank = ranks[i],
                                   .dtype = dtype,
                                   .shape = shard->block.size,
                                   .data = shard->data,
                                   .reduces = reduces && ls_dtype_is_float(dtype)}));
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
    LS_TRY_MEMORY(ranks != NULL && blocks != NULL);
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

// The index of a rank's part of partial values: its coordinates in the partial dimensions.
static int part_of(const ls_scenario_tensor *tensor, const ls_mesh *mesh, int rank) {
    int at[LS_MESH_DIMS_MAX], part = 0;
    ls_mesh_coordinates(at, mesh, rank);
    for (int d = 0; d < mesh->ndim; d++) {
        part =
            tensor->placements.at[d].kind == LS_PLACE_PARTIAL ? part * mesh->dim[d] + at[d] : part;
    }
    return part;
}

// Partial values that differ by rank. `full` is overwritten.
static int create_parts(ls_local_tensor **out, ls_known *known, ls_program *program,
                        const ls_scenario_tensor *tensor, void *full) {
    const ls_block all = {.offset.ndim = tensor->shape.ndim, .size = tensor->shape};
    LS_TRY(ls_local_tensor_zeros(out, program->world, &tensor->shape, tensor->dtype,
                                 &tensor->placements));
    for (int rank = 0; rank < ls_world_size(program->world); rank++) {
        int part = part_of(tensor, ls_world_mesh(program->world), rank);
        LS_TRY(ls_inputs_tensor_values(full, program->scenario, tensor, part));
        if (ls_world_held_index(program->world, rank) >= 0) {
            ls_shard *shard = ls_local_tensor_shard(*out, rank, 0);
            (void)ls_block_copy(shard->data, &shard->block, full, &all,
                                ls_dtype_bytes(tensor->dtype));
        }
        if (program->execution->expected != NULL) {
            LS_TRY(ls_known__create_part(known, program->arena, full, &tensor->shape, *out, rank));
        }
    }
    return LS_OK;
}

static int create_tensor(ls_program *program, const ls_scenario_tensor *tensor) {
    size_t count = 0;
    LS_TRY(ls_shape_count(&count, &tensor->shape));
    void *full = ls_arena_alloc(program->arena, count, ls_dtype_bytes(tensor->dtype));
    LS_TRY_MEMORY(full != NULL);
    LS_TRY(ls_inputs_tensor_values(full, program->scenario, tensor, 0));
    ls_local_tensor *made = NULL;
    ls_known known = {0};
    int status = LS_OK;
    if (!tensor->has_placements) {
        status = create_from_blocks(&made, program, tensor, full);
    } else if (tensor->parts != 0) {
        status = create_parts(&made, &known, program, tensor, full);
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
    if (program->execution->expected != NULL && tensor->parts == 0) {
        LS_TRY(ls_known__create(&known, program->arena, full, &tensor->shape, made));
    }
    store(program, tensor->name, made, &known);
    find(program, tensor->name)->blocks = tensor->has_placements ? NULL : tensor;
    // The initial shards of a program are a separate stage.
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
// If replicas are checked: compares those of a tensor before a step uses it and after one has
// computed it.
int ls_program__check_replicas(const ls_program *program, const ls_scenario_step *step,
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

// The operands of a step: in [count], with their expected values.
typedef struct operands {
    const ls_local_tensor **in;
    ls_known_tensor *known;
    int count;
} operands;

static int find_operands(operands *out, const ls_program *program, const ls_scenario_step *step) {
    ls_step_operand operand;
    while (ls_step_operand_of(&operand, step, out->count)) {
        out->count += 1;
    }
    out->in = ls_arena_alloc(program->arena, (size_t)out->count, sizeof *out->in);
    out->known = ls_arena_alloc(program->arena, (size_t)out->count, sizeof *out->known);
    LS_TRY_MEMORY(out->in != NULL && out->known != NULL);
    for (int i = 0; ls_step_operand_of(&operand, step, i); i++) {
        if (!step->type->makes_replicas) {
            LS_TRY(ls_program__check_replicas(program, step, operand.name));
        }
    }
    for (int i = 0; ls_step_operand_of(&operand, step, i); i++) {
        ls_program_tensor *entry = NULL;
        LS_TRY(ls_program__tensor(&entry, program, operand.name));
        out->in[i] = entry->tensor;
        out->known[i] = (ls_known_tensor){entry->known, entry->tensor};
    }
    return LS_OK;
}

// Redistributes the operands as the kind requires: brought [count], NULL for those that stay; the
// caller frees them. *sums: partial values were reduced.
static int bring_operands(ls_local_tensor **brought, bool *sums, ls_program *program,
                          const ls_scenario_step *step, operands *of) {
    const ls_step_type *type = step->type;
    const ls_local_tensor **lie = ls_arena_alloc(program->arena, (size_t)of->count, sizeof *lie);
    LS_TRY_MEMORY(lie != NULL);
    for (int i = 0; i < of->count; i++) {
        lie[i] = of->in[i];
    }
    for (int i = 0; i < of->count; i++) {
        ls_scenario_step moves = {.node = step->node};
        ls_known known = {0};
        if (!type->bring(&moves.to.placements, step, lie, of->count, i)) {
            continue;
        }
        ls_step_operand operand;
        LS_TRY(ls_program__redistribute(&brought[i], program, step,
                                        ls_step_operand_of(&operand, step, i) ? operand.name
                                                                              : step->name,
                                        of->in[i], &moves.to.placements));
        if (program->execution->expected != NULL && ls_known__is_known(&of->known[i].known)) {
            LS_TRY(ls_known__redistribute(&known, program->arena, &moves, &of->known[i], 1,
                                          brought[i]));
        }
        *sums = *sums || ls_placements_any_partial(ls_local_tensor_placements(of->in[i]));
        of->in[i] = brought[i];
        of->known[i] = (ls_known_tensor){known, brought[i]};
    }
    return LS_OK;
}

// A finding at the step, if the program asks for something impossible.
static void note_refused(const ls_program *program, const ls_scenario_step *step, int status) {
    bool refused = status == LS_ERR_MISMATCH || status == LS_ERR_INVALID ||
                   status == LS_ERR_UNSUPPORTED || status == LS_ERR_LIMIT;
    if (refused && step->type->refuses) {
        int rank = ls_error_last()->rank;
        ls_check_clear();
        ls_check__note(LS_FINDING_CALL_INVALID,
                       &(ls_call){.rank = rank >= 0 ? rank : ls_world_held(program->world)[0],
                                  .file = program->scenario->file,
                                  .line = ls_program__line(program, step)});
    }
}

// The expected value of an operand that the step changed in place; its shards are in the stage,
// too.
static int change_operand(ls_program *program, const ls_scenario_step *step, operands *of) {
    const ls_step_type *type = step->type;
    ls_step_operand operand;
    ls_program_tensor *entry = NULL;
    ls_known known = {0};
    if (!type->changes_operand(step)) {
        return LS_OK;
    }
    LS_ASSERT(of->count > 1 && ls_step_operand_of(&operand, step, 1));
    LS_TRY(ls_program__tensor(&entry, program, operand.name));
    if (program->execution->expected != NULL) {
        LS_TRY(type->changes(&known, program->arena, step, of->known));
    }
    entry->known = of->known[1].known = known;
    LS_TRY(ls_program__check_replicas(program, step, operand.name));
    return emit_shards(program, step, entry, false);
}

static int make(ls_program *program, const ls_scenario_step *step) {
    const ls_step_type *type = step->type;
    operands of = {.count = 0};
    ls_local_tensor *made = NULL, **brought = NULL;
    ls_known known = {0};
    LS_TRY(find_operands(&of, program, step));
    bool sums = type->sums != NULL && type->sums(step, of.in[0]);
    brought = ls_arena_alloc(program->arena, (size_t)of.count, sizeof(ls_local_tensor *));
    int status = brought != NULL ? LS_OK : LS_ERR_MEMORY;
    if (status == LS_OK && type->bring != NULL) {
        status = bring_operands(brought, &sums, program, step, &of);
    }
    if (status == LS_OK) {
        status = type->make(&made, program, step, of.in, of.count);
        note_refused(program, step, status);
    }
    if (status == LS_OK && type->changes_operand != NULL) {
        status = change_operand(program, step, &of);
    }
    if (status == LS_OK && program->execution->expected != NULL) {
        status = ls_known__step(&known, program->arena, step, of.known, of.count, made);
    }
    for (int i = 0; brought != NULL && i < of.count; i++) {
        ls_local_tensor_free(brought[i]);
    }
    if (status != LS_OK) {
        ls_local_tensor_free(made);
        return status;
    }
    const char *name = step->into != NULL ? step->into : step->tensor;
    store(program, name, made, &known);
    LS_TRY(type->is_defect ? LS_OK : ls_program__check_replicas(program, step, name));
    return emit_shards(program, step, find(program, name), sums);
}

int ls_program__as_excepted(ls_program *program, const ls_scenario_step *step,
                            int (*once)(ls_program *program, const ls_scenario_step *step)) {
    const ls_scenario_except *except = ls_program__except(program, step);
    ls_scenario_step own = *step;
    if (program->self != NULL) {
        ls_rank_backend_at(program->backend, program->scenario->file,
                           ls_program__line(program, step));
    }
    if (except == NULL) {
        return once(program, step);
    }
    if (ls_step_is_collective(step->kind)) {
        own.call.op = ls_node_has(&except->node, "op") ? except->op : own.call.op;
        own.call.root = ls_node_has(&except->node, "root") ? except->root : own.call.root;
    } else if (step->kind == LS_STEP_MEAN && ls_node_has(&except->node, "count")) {
        own.fold.count = except->count;
    }
    const ls_execution *execution = program->execution;
    ls_execution silent = *execution;  // the last one is judged
    silent.sink = NULL;
    int times = except->repeat ? 2 : 1, status = LS_OK;
    if (except->skip) {
        times = 0;
    }
    for (int i = 0; i < times && status == LS_OK; i++) {
        program->execution = i + 1 == times ? execution : &silent;
        status = once(program, &own);
    }
    program->execution = execution;
    return status;
}

int ls_program__tensor_step(ls_program *program, const ls_scenario_step *step) {
    return ls_program__as_excepted(program, step, make);
}
