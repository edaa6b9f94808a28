// The whole of a tensor that lies in blocks which no placement describes: every block is broadcast
// by the rank that holds it and put in its place.
#include <string.h>

#include "runner/program/program.h"

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
    if (calls == NULL) {
        return LS_ERR_MEMORY;
    }
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

int ls_program__gather_blocks(void *const *fulls, ls_program *program, const ls_scenario_step *step,
                              const ls_scenario_tensor *tensor, const ls_local_tensor *in) {
    int held = ls_world_held_count(program->world);
    size_t element = ls_dtype_bytes(tensor->dtype);
    ls_block whole = {.size = tensor->shape};
    whole.offset.ndim = tensor->shape.ndim;
    void **copies = ls_arena_alloc(program->arena, (size_t)held, sizeof *copies);
    if (copies == NULL) {
        return LS_ERR_MEMORY;
    }
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
            if (copies[i] == NULL) {
                return LS_ERR_MEMORY;
            }
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
