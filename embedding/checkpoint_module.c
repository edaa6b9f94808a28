// Saving and loading a module: its held shards, between the device and a checkpoint.
#include <inttypes.h>
#include <string.h>

#include "embedding/checkpoint_internal.h"
#include "embedding/internal.h"

static const ls_optimizer *optimizer_of(const ls_embedding *module, int table) {
    return module->trains ? &module->tables[table].optimizer : NULL;
}

// Quantised rows are not the numbers that a checkpoint has.
static int check_rows(const ls_embedding *module) {
    for (int t = 0; t < module->table_count; t++) {
        const ls_table *table = module->tables[t].config;
        if (table->row_format != NULL) {
            return LS_FAIL(LS_ERR_UNSUPPORTED, "table %s: quantised rows cannot be checkpointed",
                           table->name);
        }
    }
    return LS_OK;
}

// The memory of an array of a held shard, on the device.
static void *memory_of(ls_embedding *module, int table, int shard, int array) {
    embedding_table *entry = &module->tables[table];
    LS_ASSERT(entry->held[shard]);
    return array == 0 ? entry->shards[shard].data : entry->states[shard][array - 1];
}

static int array_bytes(size_t *out, const ls_checkpoint_array *about, const ls_plan_shard *shard) {
    ls_shape shape = ls_checkpoint__shape(about, shard);
    LS_TRY(ls_shape_count(out, &shape));
    return ls_size_mul(out, *out, ls_dtype_bytes(about->dtype));
}

// Whether all processes came so far without an error: one all_reduce, so that none waits for
// another's part of what will not be.
static int agree(ls_embedding *module, int status, const char *what) {
    int held = ls_world_held_count(module->world);
    int64_t(*flags)[2];
    embedding_side *sides;
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    flags = ls_arena_alloc(arena, (size_t)held, sizeof *flags);
    sides = ls_arena_alloc(arena, (size_t)held, sizeof *sides);
    if (!flags || !sides) {
        ls_arena_free(arena);
        return ls_error_last()->code;
    }
    for (int h = 0; h < held; h++) {
        flags[h][0] = status ? 1 : 0;
        sides[h] = (embedding_side){.rank = ls_world_held(module->world)[h],
                                    .send = &flags[h][0],
                                    .recv = &flags[h][1],
                                    .count = 1};
    }
    embedding_exchange exchange = {
        .kind = LS_ALL_REDUCE, .comm = module->comm, .dtype = LS_I64, .op = LS_MAX, .what = what};
    ls_error own = *ls_error_last();
    int told = ls_embedding__exchange(module->backend, &exchange, sides, held);
    if (status) {  // this process's own error is more specific
        status = ls_error__set(own.file, own.line, own.code, own.rank, "%s", own.text);
    } else if (!told && flags[0][1] != 0) {
        told = LS_FAIL(LS_ERR_INVALID, "%s: another process failed", what);
    }
    ls_arena_free(arena);
    return status ? status : told;
}

// ---- Saving -------------------------------------------------------------------------------------

typedef struct saving {
    ls_embedding *module;
    const ls_checkpoint_table *tables;
} saving;

static int read_held(void *arg, int table, int shard, int array, void *out) {
    saving *from = arg;
    ls_device *device = from->module->device;
    size_t bytes;
    LS_TRY(array_bytes(&bytes, &from->tables[table].arrays[array],
                       &from->module->tables[table].plan->shards[shard]));
    return device->ops->copy_out(device, out, memory_of(from->module, table, shard, array), bytes);
}

static int write_held(ls_embedding *module, const char *dir, const checkpoint_source *source) {
    for (int h = 0; h < ls_world_held_count(module->world); h++) {
        LS_TRY(ls_checkpoint__write_rank(dir, source, ls_world_held(module->world)[h]));
    }
    return LS_OK;
}

static int save_in(ls_embedding *module, const char *dir, ls_arena *arena) {
    size_t count = (size_t)module->table_count;
    ls_plan plan = {.ranks = module->size,
                    .ranks_per_host = module->ranks_per_host,
                    .table_count = module->table_count};
    ls_checkpoint_table *tables = ls_arena_alloc(arena, count, sizeof *tables);
    plan.tables = ls_arena_alloc(arena, count, sizeof *plan.tables);
    if (!tables || !plan.tables) {
        return ls_error_last()->code;
    }
    for (int t = 0; t < module->table_count; t++) {
        plan.tables[t] = *module->tables[t].plan;
        ls_checkpoint_describe(&tables[t], module->tables[t].config, optimizer_of(module, t));
    }
    LS_TRY(ls_plan_check(&plan));
    saving from = {module, tables};
    const checkpoint_source source = {&plan, tables, module->step, read_held, &from};
    bool first = ls_world_held(module->world)[0] == 0;
    const char *what = "saving a checkpoint";
    LS_TRY(agree(module, first ? ls_checkpoint__begin(dir) : LS_OK, what));
    int status = agree(module, write_held(module, dir, &source), what);
    if (!status && first) {
        status = ls_checkpoint__publish(dir, &source);
    }
    if (status && first) {
        ls_error own = *ls_error_last();
        ls_checkpoint__give_up(dir);
        status = ls_error__set(own.file, own.line, own.code, own.rank, "%s", own.text);
    }
    return agree(module, status, what);
}

int ls_embedding_save(ls_embedding *module, const char *dir) {
    LS_ASSERT(module && dir);
    LS_TRY(check_rows(module));
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    int status = save_in(module, dir, arena);
    ls_arena_free(arena);
    return status;
}

// ---- Loading ------------------------------------------------------------------------------------

static int load_array(ls_embedding *module, int table, int shard, int array,
                      const ls_checkpoint_array *about, ls_checkpoint *checkpoint, int from_table,
                      int from_array) {
    ls_device *device = module->device;
    const ls_plan_shard *block = &module->tables[table].plan->shards[shard];
    void *data;
    size_t bytes;
    LS_TRY(array_bytes(&bytes, about, block));
    if (bytes == 0) {
        return LS_OK;
    }
    LS_TRY(ls_alloc(&data, bytes, 1));
    int status = ls_checkpoint_read(checkpoint, from_table, from_array, block, data);
    if (!status) {
        status = device->ops->copy_in(device, memory_of(module, table, shard, array), data, bytes);
    }
    ls_free(data, bytes, 1);
    return status;
}

static int load_table(ls_embedding *module, int table, ls_checkpoint *checkpoint) {
    const embedding_table *entry = &module->tables[table];
    const ls_optimizer *optimizer = optimizer_of(module, table);
    ls_checkpoint_table wanted;
    ls_checkpoint_place from;
    ls_checkpoint_describe(&wanted, entry->config, optimizer);
    LS_TRY(ls_checkpoint_find(&from, checkpoint, entry->config, optimizer));
    for (int a = 0; a < wanted.array_count; a++) {
        for (int s = 0; s < entry->plan->shard_count; s++) {
            if (entry->held[s]) {
                LS_TRY(load_array(module, table, s, a, &wanted.arrays[a], checkpoint, from.table,
                                  from.arrays[a]));
            }
        }
    }
    return LS_OK;
}

int ls_embedding_load(ls_embedding *module, const char *dir) {
    LS_ASSERT(module && dir);
    LS_TRY(check_rows(module));
    ls_checkpoint *checkpoint;
    int status = ls_checkpoint_open(&checkpoint, dir);
    if (status != LS_OK) {
        return status;
    }
    for (int t = 0; t < module->table_count && status == LS_OK; t++) {
        status = load_table(module, t, checkpoint);
    }
    if (status == LS_OK && module->trains) {
        module->step = ls_checkpoint_step(checkpoint);
    }
    ls_checkpoint_free(checkpoint);
    return status == LS_OK ? LS_OK : ls_error_wrap("loading a checkpoint");
}
