// Random scenarios with embedding tables: every sharding type, pooling, kind of input, row format
// and optimizer.
#include <stdio.h>
#include <string.h>

#include "fuzz/draw.h"

#define TABLES_MAX  3
#define ROWS_REUSED 500  // so many that `reuse` finds all that it wants

typedef struct tables_maker {
    ls_fuzz_draw *draw;
    json_t *scenario;
    ls_fuzz_mesh mesh;
    int hosts, per_host;
    int64_t batch[LS_FUZZ_RANKS_MAX];
    const char *policy;  // ids_out_of_range; NULL: an error
    bool weighted;       // ids have weights
    bool quantised;      // tables are for inference
    bool trained;
    bool by_name;  // the oracle may differ by a meaning that is chosen by name
} tables_maker;

// ---- Sharding -----------------------------------------------------------------------------------
// Column blocks of a table, each on one of the ranks from `first` on.
static void cut_columns(tables_maker *maker, json_t *keys, int64_t dim, int first, int ranks) {
    ls_fuzz_draw *draw = maker->draw;
    int64_t blocks;
    if (ls_fuzz_chance(draw, 50)) {
        int64_t width = ls_fuzz_range(draw, 1, dim);
        blocks = (dim + width - 1) / width;
        ls_fuzz_set_int(draw, keys, "columns", width);
    } else {
        int64_t sizes[4];
        blocks = ls_fuzz_range(draw, 1, dim < 4 ? dim : 4);
        ls_fuzz_parts(draw, sizes, (int)blocks, dim - blocks);
        for (int i = 0; i < blocks; i++) {
            sizes[i] += 1;
        }
        ls_fuzz_set_ints(draw, keys, "sizes", sizes, (int)blocks);
    }
    json_t *of = ls_fuzz_array(draw, keys, "ranks");
    for (int64_t i = 0; i < blocks; i++) {
        ls_fuzz_push_int(draw, of, first + ls_fuzz_below(draw, ranks));
    }
}

static void cut_rows(tables_maker *maker, json_t *keys, int64_t rows) {
    int64_t members[LS_FUZZ_RANKS_MAX], sizes[LS_FUZZ_RANKS_MAX];
    int count = 0;
    for (int rank = 0; rank < maker->mesh.ranks; rank++) {
        bool last = rank + 1 == maker->mesh.ranks && count == 0;
        if (last || ls_fuzz_chance(maker->draw, 60)) {
            members[count++] = rank;
        }
    }
    ls_fuzz_parts(maker->draw, sizes, count, rows);
    ls_fuzz_set_ints(maker->draw, keys, "sizes", sizes, count);
    ls_fuzz_set_ints(maker->draw, keys, "ranks", members, count);
}

// Constraints of the planner, chosen so that something is left for it to choose.
static void bind_planner(tables_maker *maker, json_t *keys, int number, int64_t dim) {
    static const char *const types[] = {"table_wise", "column_wise", "row_wise", "data_parallel"};
    static const char *const kernels[] = {"fused", "fused_uvm", "fused_uvm_caching"};
    ls_fuzz_draw *draw = maker->draw;
    int64_t first = ls_fuzz_below(draw, 3), last = ls_fuzz_range(draw, first, 3);
    const char *bound = LS_FUZZ_WORD(draw, "types", "only_ranks", "not_ranks", "together", "apart");
    if (strcmp(bound, "types") == 0) {
        json_t *of = ls_fuzz_array(draw, keys, "type");
        for (int64_t i = first; i <= last; i++) {
            ls_fuzz_push_text(draw, of, types[i]);
        }
    } else if (strcmp(bound, "only_ranks") == 0 ||
               (strcmp(bound, "not_ranks") == 0 && maker->mesh.ranks > 1)) {
        ls_fuzz_push_int(draw, ls_fuzz_array(draw, keys, bound),
                         ls_fuzz_below(draw, maker->mesh.ranks));
    } else if (strcmp(bound, "together") == 0 || number >= maker->mesh.ranks) {
        ls_fuzz_set_text(draw, keys, "together", "a");
    } else {
        ls_fuzz_set_text(draw, keys, "apart", "b");
        ls_fuzz_set_text(draw, keys, "type", "table_wise");
    }
    if (first == 1 && ls_fuzz_chance(draw, 50)) {
        ls_fuzz_set_int(draw, keys, "columns_min", ls_fuzz_range(draw, 1, dim));
    }
    if (ls_fuzz_chance(draw, 30)) {
        json_t *of = ls_fuzz_array(draw, keys, "kernel");
        for (int64_t i = ls_fuzz_below(draw, 3); i < 3; i++) {
            ls_fuzz_push_text(draw, of, kernels[i]);
        }
    }
}

static void make_sharding(tables_maker *maker, json_t *table, int number, int64_t rows,
                          int64_t dim) {
    ls_fuzz_draw *draw = maker->draw;
    const char *type = LS_FUZZ_WORD(draw, "data_parallel", "table_wise", "column_wise", "row_wise",
                                    "table_row_wise", "table_column_wise", "grid", "");
    if (type[0] == 0 && ls_fuzz_chance(draw, 50)) {
        return;  // the planner's
    }
    json_t *keys = ls_fuzz_object(draw, table, "sharding");
    if (type[0] == 0) {
        bind_planner(maker, keys, number, dim);
        return;
    }
    ls_fuzz_set_text(draw, keys, "type", type);
    if (strcmp(type, "table_wise") == 0 && ls_fuzz_chance(draw, 80)) {
        ls_fuzz_set_int(draw, keys, "ranks", ls_fuzz_below(draw, maker->mesh.ranks));
    } else if (strcmp(type, "column_wise") == 0 && ls_fuzz_chance(draw, 80)) {
        cut_columns(maker, keys, dim, 0, maker->mesh.ranks);
    } else if (strcmp(type, "row_wise") == 0 && ls_fuzz_chance(draw, 60)) {
        cut_rows(maker, keys, rows);
    } else if (strcmp(type, "table_row_wise") == 0) {
        ls_fuzz_set_int(draw, keys, "host", ls_fuzz_below(draw, maker->hosts));
    } else if (strcmp(type, "table_column_wise") == 0) {
        int host = (int)ls_fuzz_below(draw, maker->hosts);
        cut_columns(maker, keys, dim, host * maker->per_host, maker->per_host);
    } else if (strcmp(type, "grid") == 0) {
        ls_fuzz_set_int(draw, keys, "columns", ls_fuzz_range(draw, 1, dim));
    }
}

// ---- Inputs -------------------------------------------------------------------------------------
// A list for each rank, of that rank's own length.
static json_t *rank_lists(tables_maker *maker, json_t *object, const char *key, int64_t most,
                          const int64_t *counts) {
    json_t *lists = ls_fuzz_array(maker->draw, object, key);
    for (int rank = 0; rank < maker->mesh.ranks; rank++) {
        json_t *list = ls_fuzz_push_array(maker->draw, lists);
        for (int64_t i = 0; i < counts[rank]; i++) {
            ls_fuzz_push_int(maker->draw, list, ls_fuzz_range(maker->draw, 0, most));
        }
    }
    return lists;
}

// Bags of the feature's own, and, sometimes, which of them each sample takes.
static void make_bags(tables_maker *maker, json_t *keys, int64_t *bags) {
    ls_fuzz_draw *draw = maker->draw;
    int64_t samples = 0;
    bool same = true;
    for (int rank = 0; rank < maker->mesh.ranks; rank++) {
        bool none = maker->batch[rank] == 0 && ls_fuzz_chance(draw, 50);
        bags[rank] = none ? 0 : ls_fuzz_range(draw, 1, 4);
        samples += maker->batch[rank];
        same = same && bags[rank] == bags[0];
    }
    if (same && ls_fuzz_chance(draw, 50)) {
        ls_fuzz_set_int(draw, keys, "stride_per_rank", bags[0]);
    } else {
        ls_fuzz_set_ints(draw, keys, "stride_per_rank", bags, maker->mesh.ranks);
    }
    if (samples == 0 || ls_fuzz_chance(draw, 50)) {
        return;
    }
    if (ls_fuzz_chance(draw, 20)) {
        ls_fuzz_set_text(draw, keys, "inverse_indices", "uniform");
        return;
    }
    json_t *lists = ls_fuzz_array(draw, ls_fuzz_object(draw, keys, "inverse_indices"), "values");
    for (int rank = 0; rank < maker->mesh.ranks; rank++) {
        json_t *list = ls_fuzz_push_array(draw, lists);
        for (int64_t i = 0; i < maker->batch[rank]; i++) {
            ls_fuzz_push_int(draw, list, ls_fuzz_below(draw, bags[rank]));
        }
    }
}

// counts [ranks]: how many ids each rank has; NULL: that is drawn.
static void make_ids(tables_maker *maker, json_t *keys, int64_t rows, const int64_t *counts) {
    ls_fuzz_draw *draw = maker->draw;
    int64_t uniform[2] = {0, rows - 1};
    const char *kind =
        LS_FUZZ_WORD(draw, "uniform", "zipf", "constant", "", rows >= ROWS_REUSED ? "reuse" : "",
                     counts != NULL ? "values" : "");
    if (maker->policy != NULL && ls_fuzz_chance(draw, 70)) {
        uniform[0] = strcmp(maker->policy, "clamp") == 0 ? -3 : 0;
        uniform[1] = 2 * rows + 2;
        kind = "uniform";
    }
    if (strcmp(kind, "reuse") == 0) {
        ls_fuzz_set_text(draw, keys, "ids", "reuse");
    } else if (kind[0] != 0) {
        json_t *ids = ls_fuzz_object(draw, keys, "ids");
        if (strcmp(kind, "uniform") == 0) {
            ls_fuzz_set_ints(draw, ids, kind, uniform, 2);
        } else if (strcmp(kind, "zipf") == 0) {
            ls_fuzz_set_real(draw, ids, kind, LS_FUZZ_REAL(draw, 0.5, 1.05, 2));
        } else if (strcmp(kind, "values") == 0) {
            (void)rank_lists(maker, ids, kind, rows - 1, counts);
        } else {
            ls_fuzz_set_int(draw, ids, kind, ls_fuzz_below(draw, rows));
        }
    }
}

static void make_feature(tables_maker *maker, json_t *keys, int64_t rows, bool variable) {
    ls_fuzz_draw *draw = maker->draw;
    int64_t bags[LS_FUZZ_RANKS_MAX], ids[LS_FUZZ_RANKS_MAX], sum = 0, each = 1;
    memcpy(bags, maker->batch, sizeof bags);
    if (variable && ls_fuzz_chance(draw, 70)) {
        make_bags(maker, keys, bags);
    }
    for (int rank = 0; rank < maker->mesh.ranks; rank++) {
        sum += bags[rank];
    }
    const char *kind = LS_FUZZ_WORD(draw, "uniform", "constant", "few", "values", "");
    json_t *lengths = kind[0] != 0 ? ls_fuzz_object(draw, keys, "lengths") : NULL;
    if (strcmp(kind, "uniform") == 0 || strcmp(kind, "few") == 0) {
        int64_t range[2] = {0, kind[0] == 'f' ? 1 : ls_fuzz_range(draw, 1, 9)};
        ls_fuzz_set_ints(draw, lengths, "uniform", range, 2);
    } else if (kind[0] != 0 && (kind[0] == 'c' || sum == 0 || sum >= 60)) {
        each = ls_fuzz_range(draw, 0, 3);
        ls_fuzz_set_int(draw, lengths, "constant", each);
    } else if (kind[0] != 0) {
        (void)rank_lists(maker, lengths, "values", 4, bags);
    }
    bool constant = kind[0] == 0 || json_object_get(lengths, "constant") != NULL;
    for (int rank = 0; rank < maker->mesh.ranks; rank++) {
        ids[rank] = bags[rank] * each;
    }
    make_ids(maker, keys, rows, constant && sum * each < 60 ? ids : NULL);
    if (maker->weighted && ls_fuzz_chance(draw, 80)) {
        if (maker->quantised) {  // parts in f16 that may overflow are held to the exact result
            ls_fuzz_set_text(draw, keys, "weights",
                             LS_FUZZ_WORD(draw, "exact", "normal", "uniform"));
        } else {
            ls_fuzz_values(draw, keys, "weights", "f32", 0, true);
        }
    }
}

// ---- Tables -------------------------------------------------------------------------------------
// Rows in few bits, and outputs that each shard rounds.
static void quantise(ls_fuzz_draw *draw, json_t *table) {
    json_t *keys = ls_fuzz_object(draw, table, "quantise");
    const char *to = LS_FUZZ_WORD(draw, "int8", "int4", "int2", "f16", "bf16", "f8e4m3", "f8e5m2");
    ls_fuzz_set_text(draw, keys, "to", to);
    if (strcmp(to, "int8") == 0 && ls_fuzz_chance(draw, 40)) {
        ls_fuzz_set_text(draw, keys, "scale", "f32");
    }
    if (strncmp(to, "int", 3) == 0 && ls_fuzz_chance(draw, 30)) {
        ls_fuzz_set_true(draw, keys, "scale_bias_last");
    }
    if (ls_fuzz_chance(draw, 30)) {
        ls_fuzz_set_int(draw, keys, "row_alignment", LS_FUZZ_NUMBER(draw, 1, 2, 64));
    }
    if (ls_fuzz_chance(draw, 30)) {
        ls_fuzz_set_text(draw, keys, "order", "shard_then_quantise");
    }
    if (ls_fuzz_chance(draw, 40)) {
        ls_fuzz_set_text(draw, table, "output_dtype",
                         LS_FUZZ_WORD(draw, "f16", "f32", "bf16", "f64"));
    }
    if (ls_fuzz_chance(draw, 30)) {
        ls_fuzz_set_text(draw, table, "dtype", LS_FUZZ_WORD(draw, "f16", "f32", "bf16"));
    }
}

static void make_meaning(tables_maker *maker, json_t *table, const char *pooling, int64_t rows) {
    ls_fuzz_draw *draw = maker->draw;
    bool eight = false;
    if (maker->quantised) {
        quantise(draw, table);
    } else {
        eight = !maker->trained && ls_fuzz_chance(draw, 20);
        ls_fuzz_set_text(draw, table, "dtype",
                         eight ? LS_FUZZ_WORD(draw, "f8e4m3", "f8e5m2") : ls_fuzz_float(draw));
    }
    if (!maker->quantised && !eight && ls_fuzz_chance(draw, 20)) {
        ls_fuzz_set_real(draw, table, "max_norm", LS_FUZZ_REAL(draw, 0.5, 2));
        if (ls_fuzz_chance(draw, 40)) {
            ls_fuzz_set_real(draw, table, "norm_type", LS_FUZZ_REAL(draw, 1, 0.5, 3));
        }
    }
    if ((strcmp(pooling, "mean") == 0 || strcmp(pooling, "sum") == 0) && ls_fuzz_chance(draw, 15)) {
        ls_fuzz_set(draw, table, "weighted", json_boolean(!maker->weighted));
    }
    if (strcmp(pooling, "mean") == 0 && ls_fuzz_chance(draw, 50)) {
        const char *divisor = LS_FUZZ_WORD(draw, "weights", "ids", "torchrec");
        ls_fuzz_set_text(draw, table, "mean_divisor", divisor);
        maker->by_name = maker->by_name || strcmp(divisor, "torchrec") == 0;
    }
    if (ls_fuzz_chance(draw, 30)) {
        ls_fuzz_set_int(draw, table, "padding_id", ls_fuzz_below(draw, rows));
    }
    if (ls_fuzz_chance(draw, 70)) {
        ls_fuzz_values(draw, table, "weights", "f32", 0, true);
    }
}

static void make_table(tables_maker *maker, json_t *tables, json_t *features, int number,
                       bool variable) {
    ls_fuzz_draw *draw = maker->draw;
    json_t *table = ls_fuzz_push_object(draw, tables);
    char name[16];
    (void)snprintf(name, sizeof name, "t%d", number);
    int64_t rows = LS_FUZZ_NUMBER(draw, 1, 2, 7, 7, 20, 20, 40, 40, ROWS_REUSED),
            dim = LS_FUZZ_NUMBER(draw, 1, 3, 4, 8);
    const char *pooling = LS_FUZZ_WORD(draw, "sum", "mean", "max", "none");
    ls_fuzz_set_text(draw, table, "name", name);
    ls_fuzz_set_int(draw, table, "rows", rows);
    ls_fuzz_set_int(draw, table, "dim", dim);
    ls_fuzz_set_text(draw, table, "pooling", pooling);
    make_meaning(maker, table, pooling, rows);
    json_t *fed_by = ls_fuzz_array(draw, table, "features");
    int64_t own = ls_fuzz_range(draw, 1, 2);
    for (int64_t k = 0; k < own; k++) {
        (void)snprintf(name, sizeof name, "f%d_%d", number, (int)k);
        ls_fuzz_push_text(draw, fed_by, name);
        make_feature(maker, ls_fuzz_object(draw, features, name), rows, variable);
    }
    if (number > 0 && ls_fuzz_chance(draw, 15)) {
        ls_fuzz_push_text(draw, fed_by, "f0_0");  // one feature of two tables
        json_t *shared = json_object_get(features, "f0_0");
        (void)json_object_del(shared, "ids");  // drawn over the smallest
    }
    make_sharding(maker, table, number, rows, dim);
}

static void make_batch(tables_maker *maker, json_t *inputs) {
    ls_fuzz_draw *draw = maker->draw;
    bool uneven = ls_fuzz_chance(draw, 60);
    int64_t same = ls_fuzz_range(draw, 1, 6);
    for (int rank = 0; rank < maker->mesh.ranks; rank++) {
        maker->batch[rank] = uneven ? LS_FUZZ_NUMBER(draw, 0, 1, 2, 5) : same;
    }
    if (uneven) {
        ls_fuzz_set_ints(draw, inputs, "batch", maker->batch, maker->mesh.ranks);
    } else {
        ls_fuzz_set_int(draw, inputs, "batch", same);
    }
}

// Whether a table may be pooled by mean under grid: where not one type is given, a planner chooses.
static bool has_grid_mean(const json_t *tables) {
    bool has = false;
    for (size_t t = 0; t < json_array_size(tables); t++) {
        const json_t *table = json_array_get(tables, t);
        const char *pooling = json_string_value(json_object_get(table, "pooling"));
        const json_t *type = json_object_get(json_object_get(table, "sharding"), "type");
        const char *name =
            json_string_value(json_array_size(type) == 1 ? json_array_get(type, 0) : type);
        has = has || (pooling != NULL && strcmp(pooling, "mean") == 0 &&
                      (name == NULL || strcmp(name, "grid") == 0));
    }
    return has;
}

void ls_fuzz_make_tables(ls_fuzz_draw *draw, json_t *scenario) {
    tables_maker maker = {.draw = draw, .scenario = scenario};
    ls_fuzz_mesh_make(&maker.mesh, draw, scenario, 2);
    maker.hosts = maker.mesh.axes == 2 ? (int)maker.mesh.shape[0] : 1;
    maker.per_host = maker.mesh.ranks / maker.hosts;
    if (maker.mesh.axes == 2) {
        json_t *names = ls_fuzz_array(draw, json_object_get(scenario, "mesh"), "names");
        ls_fuzz_push_text(draw, names, "host");
        ls_fuzz_push_text(draw, names, "gpu");
    }
    json_t *tables = ls_fuzz_array(draw, scenario, "tables");
    json_t *inputs = ls_fuzz_object(draw, scenario, "inputs");
    make_batch(&maker, inputs);
    const char *policy = LS_FUZZ_WORD(draw, "", "", "clamp", "wrap");
    maker.policy = policy[0] != 0 ? policy : NULL;
    maker.weighted = ls_fuzz_chance(draw, 40);
    maker.quantised = ls_fuzz_chance(draw, 15);
    maker.trained = !maker.quantised && ls_fuzz_chance(draw, 50);
    bool variable = ls_fuzz_chance(draw, 25);
    json_t *features = ls_fuzz_object(draw, inputs, "features");
    int64_t count = ls_fuzz_range(draw, 1, TABLES_MAX);
    for (int number = 0; number < count; number++) {
        make_table(&maker, tables, features, number, variable);
    }
    if (maker.weighted) {
        ls_fuzz_set_true(draw, inputs, "weighted");
    }
    if (maker.policy != NULL) {
        ls_fuzz_set_text(draw, inputs, "ids_out_of_range", maker.policy);
    }
    if (ls_fuzz_chance(draw, 20)) {
        json_t *quirks = ls_fuzz_object(draw, scenario, "torchrec_quirks");
        const char *word =
            LS_FUZZ_WORD(draw, "grid_mean_not_divided", "row_wise_mean_divides_others");
        bool grid = word[0] == 'g' && has_grid_mean(tables);
        ls_fuzz_set_true(draw, quirks, grid ? word : "row_wise_mean_divides_others");
        maker.by_name = true;
    }
    if (maker.trained) {
        ls_fuzz_make_training(draw, scenario, tables);
    } else if (!maker.by_name && !maker.quantised && ls_fuzz_chance(draw, 50)) {
        json_t *checks = ls_fuzz_object(draw, scenario, "checks");
        ls_fuzz_set_text(draw, checks, "oracle", "within_bound");
    }
}
