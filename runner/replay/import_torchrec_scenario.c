// The scenario of a trained collection.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runner/replay/import_torchrec.h"

// ---- Tables -------------------------------------------------------------------------------------
// The run's blocks. Without a plan for a table, TorchRec's own sharding applies.
static int write_sharding(ls_text *out, const ls_torchrec_run *run, int index) {
    const ls_plan_shard *shards = run->tables[index].shards;
    int count = run->tables[index].shard_count;
    ls_sharding sharding = run->tables[index].sharding;
    bool rows = sharding == LS_ROW_WISE;
    bool columns = sharding == LS_COLUMN_WISE || sharding == LS_TABLE_COLUMN_WISE;
    ls_text_printf(out, "{type: %s", ls_sharding_name(sharding));
    if (rows) {
        int64_t *of_rank = ls_arena_alloc(run->of->arena, (size_t)run->world, sizeof *of_rank);
        LS_TRY(of_rank != NULL ? LS_OK : LS_ERR_MEMORY);
        for (int s = 0; s < count; s++) {
            of_rank[shards[s].rank] += shards[s].rows;
        }
        for (int r = 0; r < run->world; r++) {
            ls_text_printf(out, "%s%" PRId64, r > 0 ? ", " : ", sizes: [", of_rank[r]);
        }
        ls_text_puts(out, "]");
    }
    for (int s = 0; s < count && columns; s++) {
        ls_text_printf(out, "%s%" PRId64 "%s", s > 0 ? ", " : ", sizes: [", shards[s].columns,
                       s + 1 == count ? "]" : "");
    }
    if (sharding == LS_GRID) {
        ls_text_printf(out, ", columns: %" PRId64, shards[0].columns);
    }
    if (sharding == LS_TABLE_ROW_WISE) {
        ls_text_puts(out, ", host: 0");
    }
    for (int s = 0; s < count && (columns || sharding == LS_GRID || sharding == LS_TABLE_WISE);
         s++) {
        ls_text_printf(out, "%s%d%s", s > 0 ? ", " : ", ranks: [", shards[s].rank,
                       s + 1 == count ? "]" : "");
    }
    ls_text_puts(out, "}");
    return LS_OK;
}

// TorchRec leaves the update of data parallel tables to a dense optimizer, so their weights stay.
static int write_table(ls_text *out, const ls_torchrec_run *run, int index) {
    const ls_torchrec_table *t = &run->of->tables[index];
    char name[LS_TORCHREC_NAME_BYTES];
    ls_text_puts(out, "  - name: ");
    ls_import_quote(out, t->name);
    ls_text_printf(out, "\n    rows: %" PRId64 "\n    dim: %" PRId64 "\n    pooling: %s\n", t->rows,
                   t->dim, t->pooling);
    if (strcmp(t->pooling, "mean") == 0) {
        ls_text_puts(out, "    mean_divisor: torchrec\n");
    }
    ls_text_puts(out, "    features: [");
    for (int f = 0; f < t->feature_count; f++) {
        ls_text_puts(out, f > 0 ? ", " : "");
        ls_import_quote(out, t->features[f]);
    }
    ls_text_puts(out, "]\n    weights: {file: ");
    ls_import_quote(out, run->of->name);
    ls_text_puts(out, ", tensor: ");
    (void)snprintf(name, sizeof name, "weight.%s", t->name);
    (void)ls_torchrec__find(run->of, name);
    ls_import_quote(out, name);
    ls_text_puts(out, "}\n    sharding: ");
    LS_TRY(write_sharding(out, run, index));
    ls_text_puts(out,
                 t->sharding == LS_DATA_PARALLEL ? "\n    optimizer: {type: sgd, lr: 0}\n" : "\n");
    return LS_OK;
}

// ---- Batches ------------------------------------------------------------------------------------
// A rank's inputs in a step: all features' lengths, ids and weights.
typedef struct batches {
    int64_t *lengths, *values;
    float *weights;
    int64_t value_count;
} batches;

static int read_batches(batches *out, const ls_torchrec *c, int step, int rank) {
    char name[LS_TORCHREC_NAME_BYTES];
    int64_t bags = c->feature_count * c->batch[rank], left = 0;
    *out = (batches){0};
    ls_torchrec__name(name, step, rank, "lengths");
    LS_TRY(ls_torchrec__tensor(&out->lengths, NULL, c, name, LS_I64, &LS_SHAPE(bags)));
    ls_torchrec__name(name, step, rank, "values");
    LS_TRY(ls_torchrec__tensor(&out->values, &out->value_count, c, name, LS_I64, &LS_SHAPE(-1)));
    left = out->value_count;
    for (int64_t b = 0; b < bags && left >= 0; b++) {
        left = out->lengths[b] >= 0 && out->lengths[b] <= left ? left - out->lengths[b] : -1;
    }
    if (left != 0) {
        return LS_FAIL(LS_ERR_FORMAT, "the lengths of step %d, rank %d do not add up to its values",
                       step, rank);
    }
    ls_torchrec__name(name, step, rank, "weights");
    return c->weighted ? ls_torchrec__tensor(&out->weights, NULL, c, name, LS_F32,
                                             &LS_SHAPE(out->value_count))
                       : LS_OK;
}

typedef enum list_kind { LENGTHS, IDS, WEIGHTS } list_kind;

// One list of a feature. of NULL: a rank without samples.
static void write_list(ls_text *out, const batches *of, int64_t batch, int feature,
                       list_kind kind) {
    int64_t first = 0, count = 0;
    for (int64_t b = 0; of != NULL && b < (feature + 1) * batch; b++) {
        first += b < feature * batch ? of->lengths[b] : 0;
        count += b < feature * batch ? 0 : of->lengths[b];
    }
    count = kind == LENGTHS && of != NULL ? batch : count;
    ls_text_puts(out, "[");
    for (int64_t i = 0; i < count; i++) {
        ls_text_puts(out, i > 0 ? ", " : "");
        if (kind == WEIGHTS) {
            ls_text_printf(out, "%.9g", (double)of->weights[first + i]);
        } else {
            ls_text_printf(out, "%" PRId64,
                           kind == LENGTHS ? of->lengths[feature * batch + i]
                                           : of->values[first + i]);
        }
    }
    ls_text_puts(out, "]");
}

static int write_inputs(ls_text *out, const ls_torchrec_run *run) {
    static const char *const keys[] = {"lengths", "ids", "weights"};
    const ls_torchrec *c = run->of;
    size_t count = (size_t)c->steps * (size_t)c->world;
    batches *all = ls_arena_alloc(c->arena, count, sizeof *all);
    LS_TRY(all != NULL ? LS_OK : LS_ERR_MEMORY);
    for (size_t i = 0; i < count; i++) {
        LS_TRY(read_batches(&all[i], c, (int)i / c->world, (int)i % c->world));
    }
    ls_text_puts(out, "inputs:\n  batch: [");
    for (int r = 0; r < run->world; r++) {
        ls_text_printf(out, "%s%" PRId64, r > 0 ? ", " : "", r < c->world ? c->batch[r] : 0);
    }
    ls_text_printf(out, "]\n  weighted: %s\n  features:\n", c->weighted ? "true" : "false");
    for (int f = 0; f < c->feature_count; f++) {
        const ls_torchrec_table *of = NULL;
        ls_text_puts(out, "    ");
        ls_import_quote(out, ls_torchrec__feature(c, f, &of));
        ls_text_puts(out, ":\n");
        for (int k = 0; k < (c->weighted ? 3 : 2); k++) {
            ls_text_printf(out, "      %s: {values: [", keys[k]);
            for (int i = 0; i < c->steps * run->world; i++) {
                int step = i / run->world, rank = i % run->world;
                bool had = rank < c->world;
                ls_text_puts(out, i > 0 ? ", " : "");
                write_list(out, had ? &all[step * c->world + rank] : NULL, had ? c->batch[rank] : 0,
                           f, (list_kind)k);
            }
            ls_text_puts(out, "]}\n");
        }
    }
    return LS_OK;
}

// The gradients of every step, rank and feature, one after another.
static int write_gradients(ls_text *out, const ls_torchrec_run *run) {
    const ls_torchrec *c = run->of;
    double factor = run->no_division ? 1.0 / c->world : 1;
    const char *comma = "";
    ls_text_puts(out, "  gradients: {values: [");
    for (int i = 0; i < c->steps * c->world; i++) {
        int step = i / c->world, rank = i % c->world;
        float *all = NULL;
        LS_TRY(ls_torchrec__keyed(&all, c, step, rank, "grad_output"));
        for (int f = 0; f < c->feature_count; f++) {
            const ls_torchrec_table *of = NULL;
            (void)ls_torchrec__feature(c, f, &of);
            const float *first = all + ls_torchrec__column(c, f);
            for (int64_t k = 0; k < c->batch[rank] * of->dim; k++) {
                double value = (double)first[k / of->dim * c->width + k % of->dim];
                ls_text_printf(out, "%s%.9g", comma, value * factor);
                comma = ", ";
            }
        }
    }
    ls_text_puts(out, "]}\n");
    return LS_OK;
}

int ls_torchrec__scenario(ls_text *out, const ls_torchrec_run *run) {
    const ls_torchrec *c = run->of;
    ls_text_puts(out, "lockstep: 1\nname: ");
    ls_import_quote(out, c->name);
    ls_text_printf(out, "\nmesh: {shape: [%d]}\ntables:\n", run->world);
    for (int t = 0; t < c->table_count; t++) {
        LS_TRY(write_table(out, run, t));
    }
    // A defect of TorchRec 1.6; no effect without a row-wise mean.
    ls_text_puts(out, "torchrec_quirks: {row_wise_mean_divides_others: true}\n");
    LS_TRY(write_inputs(out, run));
    ls_text_printf(out, "steps: [forward, backward, update]\noptimizer: {type: %s, lr: %.17g",
                   ls_optimizer_about(c->optimizer)->name, c->lr);
    if (ls_optimizer_reads(c->optimizer, "eps")) {  // FBGEMM gets one value for all
        ls_text_printf(out, ", eps: %.17g", c->eps);
    }
    ls_text_printf(out, "}\ntrain:\n  steps: %d\n  gradient_division: %s\n", c->steps,
                   run->no_division ? "none" : "world_size");
    return write_gradients(out, run);
}
