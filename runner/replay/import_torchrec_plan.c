// The sharding of a repeated collection: TorchRec's own, or another one that must give the same
// result.
#include "runner/replay/import_torchrec.h"

static bool by_rows(ls_sharding sharding) {
    ls_sharding_traits of = ls_sharding_traits_of(sharding);
    return of.rows != LS_OVER_ONE && !of.columns;
}

static bool is_mean(const ls_torchrec_table *t) {
    return t->pooling[0] == 'm';
}

// A row-wise mean divides the other tables again, by a factor that depends on their sharding.
static bool has_mean_by_rows(const ls_torchrec *c) {
    bool has = false;
    for (int t = 0; t < c->table_count; t++) {
        has = has || (is_mean(&c->tables[t]) && by_rows(c->tables[t].sharding));
    }
    return has;
}

static bool keeps_state_by_row(const ls_torchrec *c) {
    const ls_optimizer_traits *about = ls_optimizer_about(c->optimizer);
    bool keeps = false;
    for (int i = 0; i < about->state_count; i++) {
        keeps = keeps || about->states[i].per_row;
    }
    return keeps;
}

// Whether sharding a table by `to` is mathematically equal to TorchRec's.
static bool may_become(const ls_torchrec *c, const ls_torchrec_table *t, ls_sharding to) {
    bool rows_change = by_rows(t->sharding) != by_rows(to);
    bool several_columns = t->shards[t->shard_count - 1].column_offset > 0;
    bool updated = t->sharding != LS_DATA_PARALLEL;
    if (to == t->sharding || (is_mean(t) && (by_rows(t->sharding) || by_rows(to))) ||
        (rows_change && has_mean_by_rows(c))) {
        return false;
    }
    return !updated || !keeps_state_by_row(c) || (!several_columns && to != LS_COLUMN_WISE);
}

static bool choose(ls_sharding *out, const ls_torchrec *c, const ls_torchrec_table *t, int way) {
    static const ls_sharding others[] = {LS_ROW_WISE, LS_COLUMN_WISE, LS_TABLE_WISE,
                                         LS_DATA_PARALLEL};
    ls_sharding may[4];
    int count = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (may_become(c, t, others[i])) {
            may[count++] = others[i];
        }
    }
    *out = way > 0 && count > 0 ? may[(way - 1) % (LS_TORCHREC_WAYS - 2) % count] : t->sharding;
    return way > 0 && count > 0;
}

static void cut(ls_plan_shard *shards, int *count, const ls_torchrec_table *t, ls_sharding to,
                int world, int first, int64_t *scratch) {
    int blocks = t->dim < world ? (int)t->dim : world;
    int64_t *offsets = scratch, *sizes = scratch + world;
    *count = to == LS_COLUMN_WISE ? blocks : world;
    if (to == LS_TABLE_WISE) {
        *count = 1;
    }
    ls_plan_split_rows(offsets, sizes, t->rows, world);
    for (int i = 0; i < *count; i++) {
        shards[i] = (ls_plan_shard){.rank = i, .rows = t->rows, .columns = t->dim};
        if (to == LS_TABLE_WISE) {
            shards[i].rank = first % world;
        } else if (to == LS_ROW_WISE) {
            shards[i].row_offset = offsets[i];
            shards[i].rows = sizes[i];
        } else if (to == LS_COLUMN_WISE) {
            shards[i].rank = world - 1 - i;
            shards[i].column_offset = t->dim * i / blocks;
            shards[i].columns = t->dim * (i + 1) / blocks - shards[i].column_offset;
        }
    }
}

int ls_torchrec__plan(ls_torchrec_run *out, bool *made, const ls_torchrec *c, int way) {
    bool more_ranks = way + 1 == LS_TORCHREC_WAYS;
    size_t world = (size_t)c->world + (more_ranks ? 1 : 0);
    int64_t *scratch = ls_arena_alloc(c->arena, 2 * world, sizeof *scratch);
    *out = (ls_torchrec_run){.of = c, .world = (int)world, .no_division = more_ranks};
    out->tables = ls_arena_alloc(c->arena, (size_t)c->table_count, sizeof *out->tables);
    LS_TRY(out->tables != NULL && scratch != NULL ? LS_OK : LS_ERR_MEMORY);
    *made = way == 0;
    for (int t = 0; t < c->table_count; t++) {
        const ls_torchrec_table *from = &c->tables[t];
        ls_sharding to;
        bool other = choose(&to, c, from, way);
        bool copies = to == LS_DATA_PARALLEL;  // on the additional rank, too
        out->tables[t].sharding = to;
        out->tables[t].shards = from->shards;
        out->tables[t].shard_count = from->shard_count;
        if (other || (copies && more_ranks)) {
            ls_plan_shard *shards = ls_arena_alloc(c->arena, world, sizeof *shards);
            LS_TRY(shards != NULL ? LS_OK : LS_ERR_MEMORY);
            cut(shards, &out->tables[t].shard_count, from, to, (int)world, t + way, scratch);
            out->tables[t].shards = shards;
        }
        *made = *made || other;
    }
    // A value that TorchRec divided by its number of ranks is divided here before it is used; that
    // must be exact.
    *made = *made && (!more_ranks || (c->world & (c->world - 1)) == 0);
    return LS_OK;
}
