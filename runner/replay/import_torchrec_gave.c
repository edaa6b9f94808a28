// TorchRec's results of a trained collection, as the stages of the run that reproduces it.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runner/replay/import_torchrec.h"

typedef struct place {
    int step, rank;
    const ls_torchrec_table *table;
    const char *feature;
} place;

static int emit(const ls_torchrec *c, const ls_stage_sink *sink, const place *at, const char *stage,
                const char *field, ls_shape shape, const float *data) {
    char named[64];
    (void)snprintf(named, sizeof named, c->steps > 1 ? "step%d.%s" : "%.0d%s", at->step, stage);
    const ls_stage_output output = {.stage = named,
                                    .table = at->table->name,
                                    .feature = at->feature,
                                    .field = field,
                                    .rank = at->rank,
                                    .dtype = LS_F32,
                                    .shape = shape,
                                    .data = data};
    return sink->emit(sink->arg, &output);
}

// ---- Outputs ------------------------------------------------------------------------------------
static int emit_outputs(const ls_torchrec *c, const ls_stage_sink *sink, int step, int rank) {
    float *all = NULL;
    LS_TRY(ls_torchrec__keyed(&all, c, step, rank, "output"));
    for (int f = 0; f < c->feature_count; f++) {
        place at = {.step = step, .rank = rank};
        at.feature = ls_torchrec__feature(c, f, &at.table);
        int64_t dim = at.table->dim, batch = c->batch[rank], column = ls_torchrec__column(c, f);
        float *own = ls_arena_alloc(c->arena, (size_t)(batch * dim) + 1, sizeof *own);
        LS_TRY(own != NULL ? LS_OK : LS_ERR_MEMORY);
        for (int64_t k = 0; k < batch * dim; k++) {
            own[k] = all[k / dim * c->width + column + k % dim];
        }
        LS_TRY(emit(c, sink, &at, "output_dist", "values", LS_SHAPE(batch, dim), own));
    }
    return LS_OK;
}

// ---- Tables, assembled and cut as the run cuts them ------------------------------------------
// A field of a whole table: [rows, dim], or, with one number for each row, [column blocks, rows].
typedef struct whole {
    float *data;
    bool per_row;
} whole;

// The index of the column block of a TorchRec shard, from its first column.
static int block_of(const ls_torchrec_table *t, int64_t column) {
    int block = 0;
    for (int s = 1; s < t->shard_count && t->shards[s].column_offset <= column; s++) {
        block += t->shards[s].column_offset != t->shards[s - 1].column_offset;
    }
    return block;
}

// Copies between a whole and a shard's own array.
static void move(float *shard, const whole *w, const ls_torchrec_table *t, const ls_plan_shard *s,
                 bool into_whole) {
    int64_t count = s->rows * (w->per_row ? 1 : s->columns);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = w->per_row ? block_of(t, s->column_offset) * t->rows + s->row_offset + i
                                : (s->row_offset + i / s->columns) * t->dim + s->column_offset +
                                      i % s->columns;
        float *from = into_whole ? &shard[i] : &w->data[at];
        *(into_whole ? &w->data[at] : &shard[i]) = *from;
    }
}

// The name of a shard's tensor. Weights end in the place. A state with one number for each row ends
// in the row among those of all column blocks, one block after another.
static void name_shard(char out[LS_TORCHREC_NAME_BYTES], const ls_torchrec_table *t,
                       const ls_plan_shard *s, int step, const ls_optimizer_state_traits *state) {
    char end[64];
    (void)snprintf(end, sizeof end, "%" PRId64 "_%" PRId64, s->row_offset, s->column_offset);
    if (state != NULL && state->per_row) {
        (void)snprintf(end, sizeof end, "%" PRId64,
                       s->row_offset + block_of(t, s->column_offset) * t->rows);
    }
    (void)snprintf(out, LS_TORCHREC_NAME_BYTES, "step%d.rank%d.%s.%s%s%s.%s", step, s->rank,
                   state != NULL ? "state" : "shard", t->name, state != NULL ? "." : "",
                   state != NULL ? state->name : "", end);
}

// state NULL: the weights.
static int assemble(whole *out, const ls_torchrec *c, const ls_torchrec_table *t, int step,
                    const ls_optimizer_state_traits *state) {
    int64_t blocks = block_of(t, t->dim) + 1;
    *out = (whole){.per_row = state != NULL && state->per_row};
    size_t cells = 0;
    LS_TRY(ls_size_mul(&cells, (size_t)t->rows, (size_t)(out->per_row ? blocks : t->dim)));
    out->data = ls_arena_alloc(c->arena, cells, sizeof *out->data);
    LS_TRY(out->data != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int i = 0; i < t->shard_count; i++) {
        const ls_plan_shard *s = &t->shards[i];
        char name[LS_TORCHREC_NAME_BYTES];
        float *data = NULL;
        name_shard(name, t, s, step, state);
        if (t->sharding == LS_DATA_PARALLEL) {
            (void)snprintf(name, sizeof name, "step%d.replica.%s", step, t->name);
        }
        const ls_shape shape = out->per_row ? LS_SHAPE(s->rows) : LS_SHAPE(s->rows, s->columns);
        LS_TRY(ls_torchrec__tensor(&data, NULL, c, name, LS_F32, &shape));
        move(data, out, t, s, true);
    }
    return LS_OK;
}

static int emit_cut(const ls_torchrec_run *run, const ls_stage_sink *sink, int step, int table,
                    const whole *w, const char *what) {
    const ls_torchrec_table *t = &run->of->tables[table];
    const ls_plan_shard *shards = run->tables[table].shards;
    int count = run->tables[table].shard_count;
    for (int i = 0; i < count; i++) {
        const ls_plan_shard *s = &shards[i];
        const place at = {.step = step, .rank = s->rank, .table = t, .feature = t->features[0]};
        int on_rank = 0;
        for (int k = 0; k < count; k++) {
            on_rank += shards[k].rank == s->rank;
        }
        char field[64];
        (void)snprintf(field, sizeof field, on_rank > 1 ? "%s[%d]" : "%s", what, i);
        size_t cells = (size_t)(s->rows * (w->per_row ? 1 : s->columns));
        float *own = ls_arena_alloc(run->of->arena, cells + 1, sizeof *own);
        LS_TRY(own != NULL ? LS_OK : LS_ERR_MEMORY);
        move(own, w, t, s, false);
        LS_TRY(emit(run->of, sink, &at, "update", field,
                    w->per_row ? LS_SHAPE(s->rows) : LS_SHAPE(s->rows, s->columns), own));
    }
    return LS_OK;
}

static int emit_table(const ls_torchrec_run *run, const ls_stage_sink *sink, int step, int table) {
    const ls_torchrec *c = run->of;
    const ls_torchrec_table *t = &c->tables[table];
    const ls_optimizer rule = ls_optimizer_default(c->optimizer, LS_OPTIMIZER_FUSED);
    int states = t->sharding == LS_DATA_PARALLEL ? 0 : ls_optimizer_state_count(&rule);
    whole w;
    LS_TRY(assemble(&w, c, t, step, NULL));
    LS_TRY(emit_cut(run, sink, step, table, &w, "weights"));
    for (int i = 0; i < states; i++) {
        const ls_optimizer_state_traits *state = &ls_optimizer_about(c->optimizer)->states[i];
        LS_TRY(assemble(&w, c, t, step, state));
        LS_TRY(emit_cut(run, sink, step, table, &w, state->name));
    }
    return LS_OK;
}

// The averaged gradient of a data parallel table.
static int emit_gradient(const ls_torchrec_run *run, const ls_stage_sink *sink, int step, int table,
                         int rank) {
    const ls_torchrec *c = run->of;
    const ls_torchrec_table *t = &c->tables[table];
    const place at = {.step = step, .rank = rank, .table = t, .feature = t->features[0]};
    char name[LS_TORCHREC_NAME_BYTES];
    float *gradient = NULL;
    (void)snprintf(name, sizeof name, "step%d.rank%d.dense_grad.%s", step, rank, t->name);
    if (ls_torchrec__find(c, name) == NULL || run->tables[table].sharding != LS_DATA_PARALLEL) {
        return LS_OK;
    }
    const ls_shape shape = LS_SHAPE(t->rows, t->dim);
    LS_TRY(ls_torchrec__tensor(&gradient, NULL, c, name, LS_F32, &shape));
    return emit(c, sink, &at, "all_reduce", "gradients", shape, gradient);
}

int ls_torchrec__gave(void *arg, const ls_stage_sink *sink) {
    const ls_torchrec_run *run = arg;
    const ls_torchrec *c = run->of;
    for (int step = 0; step < c->steps; step++) {
        for (int rank = 0; rank < c->world; rank++) {
            LS_TRY(emit_outputs(c, sink, step, rank));
        }
        for (int t = 0; t < c->table_count; t++) {
            for (int rank = 0; rank < c->world; rank++) {
                LS_TRY(emit_gradient(run, sink, step, t, rank));
            }
            LS_TRY(emit_table(run, sink, step, t));
        }
    }
    return LS_OK;
}
