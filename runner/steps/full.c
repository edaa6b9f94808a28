// full: gathers a tensor to the whole on every rank. Blocks without placements are broadcast by
// their owners and copied to their places. Recordings of real GPUs contain this for such tensors,
// since redistributing them is one all_to_all.
#include <string.h>

#include "runner/steps/fields.h"

static const ls_schema_field fields[] = {LS_STEP_NAME_FIELD, LS_STEP_EXCEPT_FIELD,
                                         LS_STEP_TENSOR_FIELD(LS_FIELD_REQUIRED)};

static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)step, (void)last, (void)first;
    made->copies = scenario->ranks;
}

// The index of block `index` among the blocks of its own rank.
static int index_on_rank(const ls_scenario_tensor *tensor, int index) {
    int earlier = 0;
    for (int i = 0; i < index; i++) {
        earlier += tensor->blocks[i].rank == tensor->blocks[index].rank;
    }
    return earlier;
}

static void block_of(ls_block *out, const ls_scenario_tensor *tensor, int index) {
    *out = (ls_block){0};
    out->offset.ndim = tensor->shape.ndim;
    out->size.ndim = tensor->shape.ndim;
    for (int d = 0; d < tensor->shape.ndim; d++) {
        out->offset.dim[d] = tensor->blocks[index].offset.at[d];
        out->size.dim[d] = tensor->blocks[index].size.at[d];
    }
}

// Broadcasts `count` elements of the owner's shard to `copies`, one buffer per held rank.
static int broadcast(ls_program *program, const ls_scenario_step *step, int owner, void *shard,
                     void *const *copies, size_t count, ls_dtype dtype) {
    int held = ls_world_held_count(program->world);
    ls_call *calls = ls_arena_alloc(program->arena, (size_t)held, sizeof *calls);
    LS_TRY_MEMORY(calls != NULL);
    for (int i = 0; i < held; i++) {
        int rank = ls_world_held(program->world)[i];
        calls[i] = (ls_call){
            .kind = LS_BROADCAST,
            .comm = program->all,
            .rank = rank,
            .dtype = dtype,
            .root = owner,
            .count = count,
            .send = rank == owner ? shard : NULL,
            .recv = copies[i],
            .file = program->scenario->file,
            .line = step->node.mark.line,
        };
    }
    return ls_backend_run(program->backend, calls, held);
}

static int gather_blocks(void *const *fulls, ls_program *program, const ls_scenario_step *step,
                         const ls_scenario_tensor *tensor, const ls_local_tensor *in) {
    int held = ls_world_held_count(program->world);
    size_t element = ls_dtype_bytes(tensor->dtype);
    ls_block whole = {.size = tensor->shape};
    whole.offset.ndim = tensor->shape.ndim;
    void **copies = ls_arena_alloc(program->arena, (size_t)held, sizeof *copies);
    LS_TRY_MEMORY(copies != NULL);
    for (int b = 0; b < tensor->block_count; b++) {
        ls_block block;
        size_t count = 0;
        int owner = tensor->blocks[b].rank;
        block_of(&block, tensor, b);
        LS_TRY(ls_shape_count(&count, &block.size));
        if (count == 0) {
            continue;
        }
        for (int i = 0; i < held; i++) {
            copies[i] = ls_arena_alloc(program->arena, count, element);
            LS_TRY_MEMORY(copies[i] != NULL);
        }
        bool holds = ls_world_held_index(program->world, owner) >= 0;
        void *shard =
            holds ? ls_local_tensor_shard(in, owner, index_on_rank(tensor, b))->data : NULL;
        LS_TRY(broadcast(program, step, owner, shard, copies, count, tensor->dtype));
        for (int i = 0; i < held; i++) {
            (void)ls_block_copy(fulls[i], &whole, copies[i], &block, element);
        }
    }
    return LS_OK;
}

// The whole of a tensor on every held rank: fulls [held ranks], each [bytes].
static int gather_whole(void *const *fulls, ls_program *program, const ls_scenario_step *step,
                        const ls_program_tensor *entry, size_t bytes) {
    if (entry->blocks != NULL) {
        return gather_blocks(fulls, program, step, entry->blocks, entry->tensor);
    }
    LS_TRY(ls_tensor_full(fulls[0], bytes, program->backend, entry->tensor));
    for (int i = 1; i < ls_world_held_count(program->world); i++) {
        memcpy(fulls[i], fulls[0], bytes);
    }
    return LS_OK;
}

static int emit_whole(ls_program *program, const ls_scenario_step *step,
                      const ls_program_tensor *entry) {
    const ls_shape *shape = ls_local_tensor_shape(entry->tensor);
    if (shape == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "\"%s\" has no placement, so it has no full tensor",
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
        LS_TRY_MEMORY(fulls[i] != NULL);
    }
    LS_TRY_MEMORY(fulls != NULL);
    LS_TRY(gather_whole(fulls, program, step, entry, bytes));
    bool reduces = ls_placements_any_partial(ls_local_tensor_placements(entry->tensor)) &&
                   ls_dtype_is_float(dtype),
         known = false;
    const ls_known_tensor of = {entry->known, entry->tensor};
    ls_cells cells;
    if (program->execution->expected != NULL) {
        LS_TRY(ls_known__full(&cells, &known, program->arena, &of));
    }
    for (int i = 0; i < held; i++) {
        int rank = ls_world_held(program->world)[i];
        LS_TRY(ls_program__emit(program->execution->sink, &(ls_stage_output){.stage = step->name,
                                                                             .table = entry->name,
                                                                             .field = "full",
                                                                             .rank = rank,
                                                                             .dtype = dtype,
                                                                             .shape = *shape,
                                                                             .data = fulls[i],
                                                                             .reduces = reduces}));
        if (known) {
            LS_TRY(ls_program__emit_cells(program, step, entry->name, "full", rank, &cells, dtype));
        }
    }
    return LS_OK;
}

static int once(ls_program *program, const ls_scenario_step *step) {
    ls_program_tensor *entry = NULL;
    LS_TRY(ls_program__check_replicas(program, step, step->tensor));
    LS_TRY(ls_program__tensor(&entry, program, step->tensor));
    return emit_whole(program, step, entry);
}

static int run(ls_program *program, const ls_scenario_step *step) {
    return ls_program__as_excepted(program, step, once);
}

const ls_step_type ls_step__full = {
    LS_STEP_RECORD("full", fields,
                   "Gathers a tensor to the whole on every rank: a result to compare."),
    .form = LS_STEP_OF_TENSORS,
    .size = size,
    .run = run,
};
