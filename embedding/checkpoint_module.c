// Saving and loading a module: its held shards, between the device and a checkpoint.
#include <inttypes.h>
#include <string.h>

#include "embedding/checkpoint_internal.h"
#include "embedding/internal.h"

static void describe(ls_checkpoint_table *out, const ls_embedding *module, int table) {
    const embedding_table *entry = &module->tables[table];
    *out = (ls_checkpoint_table){.array_count = 1};
    out->arrays[0] = (ls_checkpoint_array){"weights", entry->config->dtype, false};
    if (module->trains) {
        const ls_optimizer_traits *about = ls_optimizer_about(entry->optimizer.kind);
        int states = ls_optimizer_state_count(&entry->optimizer);
        for (int s = 0; s < states; s++) {
            out->arrays[out->array_count++] =
                (ls_checkpoint_array){about->states[s].name, ls_embedding__gradient_dtype(entry),
                                      about->states[s].per_row};
        }
    }
}

// Quantised rows are not the numbers that a checkpoint has.
static int check_rows(const ls_embedding *module) {
    for (int t = 0; t < module->table_count; t++) {
        const ls_table *table = module->tables[t].config;
        if (table->row_format != NULL) {
            return LS_FAIL(LS_ERR_UNSUPPORTED, "table %s: quantised rows go to no checkpoint",
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
    if (status) {  // this process's own sentence says more
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
        describe(&tables[t], module, t);
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

static int find_table(int *out, const ls_embedding *module, int table, const ls_plan *plan) {
    const ls_table *config = module->tables[table].config;
    for (int t = 0; t < plan->table_count; t++) {
        if (strcmp(plan->tables[t].name, config->name) != 0) {
            continue;
        }
        if (plan->tables[t].rows != config->rows || plan->tables[t].columns != config->dim) {
            return LS_FAIL(LS_ERR_INVALID,
                           "table %s is %" PRId64 " x %" PRId64 ", in the checkpoint %" PRId64
                           " x %" PRId64,
                           config->name, config->rows, config->dim, plan->tables[t].rows,
                           plan->tables[t].columns);
        }
        *out = t;
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_INVALID, "the checkpoint has no table %s", config->name);
}

static int find_array(int *out, const ls_checkpoint_array *wanted, const ls_checkpoint_table *have,
                      const char *table) {
    for (int a = 0; a < have->array_count; a++) {
        if (strcmp(have->arrays[a].name, wanted->name) != 0) {
            continue;
        }
        if (have->arrays[a].dtype != wanted->dtype || have->arrays[a].per_row != wanted->per_row) {
            return LS_FAIL(LS_ERR_INVALID, "table %s: %s is %s%s, in the checkpoint %s%s", table,
                           wanted->name, ls_dtype_name(wanted->dtype),
                           wanted->per_row ? " per row" : "", ls_dtype_name(have->arrays[a].dtype),
                           have->arrays[a].per_row ? " per row" : "");
        }
        *out = a;
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_INVALID,
                   "table %s: the checkpoint has no %s; it was trained by another optimizer, or "
                   "not at all",
                   table, wanted->name);
}

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
    ls_checkpoint_table wanted;
    int from_table = 0, from_array = 0;
    describe(&wanted, module, table);
    LS_TRY(find_table(&from_table, module, table, ls_checkpoint_plan(checkpoint)));
    for (int a = 0; a < wanted.array_count; a++) {
        LS_TRY(find_array(&from_array, &wanted.arrays[a],
                          &ls_checkpoint_tables(checkpoint)[from_table], entry->config->name));
        for (int s = 0; s < entry->plan->shard_count; s++) {
            if (entry->held[s]) {
                LS_TRY(load_array(module, table, s, a, &wanted.arrays[a], checkpoint, from_table,
                                  from_array));
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
