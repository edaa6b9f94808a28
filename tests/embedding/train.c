// See train.h.
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/element.h"

void train_init(train_case *t, embedding_case *c, const ls_optimizer *optimizer) {
    *t = (train_case){.c = c, .steps = 3, .length_max = 4};
    for (int i = 0; i < CASE_TABLES_MAX; i++) {
        t->optimizers[i] = *optimizer;
    }
}

static uint64_t draw(uint64_t seed, uint64_t index, uint64_t bound) {
    return ls_random_below(bound, seed, 78, 0, index);
}

int train_random(train_case *t, embedding_case *c, uint64_t seed, int ranks) {
    static const double norms[] = {0, 1, 2, INFINITY};
    static const int64_t batches[][8] = {
        {2, 2, 2, 2, 2, 2, 2, 2}, {0, 1, 2, 3, 0, 1, 2, 3}, {4, 0, 0, 0, 1, 0, 0, 0}};
    uint64_t i = 0;
    LS_TRY(case_random(c, seed, ranks));
    train_init(t, c, &(ls_optimizer){.lr = 0});
    for (int k = 0; k < c->table_count; k++) {
        ls_table *table = &c->tables[k];
        table->max_norm = draw(seed, i++, 4) == 0 ? 1 : 0;
        table->norm_type = norms[draw(seed, i++, 4)];
        ls_optimizer *optimizer = &t->optimizers[k];
        ls_optimizer_kind kind = (ls_optimizer_kind)draw(seed, i++, LS_OPTIMIZER_KIND_COUNT);
        *optimizer =
            ls_optimizer_default(kind, (ls_optimizer_form)draw(seed, i++, LS_OPTIMIZER_FORM_COUNT));
        // The largest row may become uncertain, and then gradients that may be 0 have no bound.
        bool bounded = optimizer->kind == LS_OPTIMIZER_SGD &&
                       ls_sharding_traits_of(c->plans[k].sharding).rows == LS_OVER_ONE;
        table->pooling = table->pooling == LS_POOL_MAX && !bounded ? LS_POOL_SUM : table->pooling;
        optimizer->stochastic_rounding = draw(seed, i++, 2);
        optimizer->lr = draw(seed, i++, 2) ? 0.5 : 0.01;
        optimizer->momentum =
            optimizer->kind == LS_OPTIMIZER_SGD && optimizer->form == LS_OPTIMIZER_FUSED ? 0 : 0.75;
        optimizer->initial_accumulator = draw(seed, i++, 2) ? 0.1 : 0;
        unsigned decays = ls_optimizer_about(optimizer->kind)->decays[optimizer->form];
        optimizer->decay = (ls_weight_decay)(LS_DECAY_NONE + draw(seed, i++, 3));
        if (!(decays & (1u << optimizer->decay))) {
            optimizer->decay = LS_DECAY_NONE;
        }
        optimizer->decay = decays & (1u << LS_DECAY_NONE) ? optimizer->decay : LS_DECAY_DEFAULT;
        optimizer->weight_decay = 0.25;
    }
    t->division = draw(seed, i++, 2) ? LS_GRADIENTS_DIVIDED : LS_GRADIENTS_SUMMED;
    t->clip_norm = draw(seed, i++, 3) == 0 ? 0.5 : 0;
    t->batches = batches[draw(seed, i++, 3)];
    c->quirks = (ls_torchrec_quirks){draw(seed, i, 2), draw(seed, i + 1, 2)};
    return LS_OK;
}

// ---- Inputs and gradients of a step -------------------------------------------------------------

typedef struct step {
    ls_keyed_jagged *inputs[CASE_RANKS_MAX];
    void *gradients[CASE_RANKS_MAX][2 * CASE_TABLES_MAX];
    const void *const *by_rank[CASE_RANKS_MAX];
    ls_oracle *oracle;
} step;

static void make_gradients(const train_case *t, int number, step *out) {
    const embedding_case *c = t->c;
    for (int rank = 0; rank < c->ranks; rank++) {
        int pair = 0;
        for (int i = 0; i < c->table_count; i++) {
            const ls_table *table = &c->tables[i];
            for (int f = 0; f < table->feature_count; f++, pair++) {
                const ls_keyed_jagged *input = out->inputs[rank];
                int key = 0;
                (void)ls_keyed_jagged_find(&key, input, table->features[f]);
                ls_jagged bags = ls_keyed_jagged_feature(input, key);
                bool sequence = table->pooling == LS_POOL_NONE;
                int64_t rows = sequence ? ls_jagged_sample_ids(&bags) : bags.samples;
                ls_dtype dtype = sequence || table->dtype == LS_F64 ? table->dtype : LS_F32;
                size_t count = (size_t)(rows * table->dim), bytes = ls_dtype_bytes(dtype);
                char *values = calloc(count + 1, bytes);
                for (size_t e = 0; e < count; e++) {
                    double value = t->gradient ? t->gradient(t, number, rank, pair, e)
                                               : ls_random_normal(c->seed, 900 + (uint32_t)number,
                                                                  (uint32_t)(rank * 100 + pair), e);
                    ls_element_from_f64(values + e * bytes, dtype, value);
                }
                out->gradients[rank][pair] = values;
            }
        }
        out->by_rank[rank] = (const void *const *)out->gradients[rank];
    }
}

static int make_step(const train_case *t, int number, const ls_training *training,
                     const ls_oracle *previous, step *out) {
    embedding_case *c = t->c;
    uint64_t seed = c->seed;
    c->seed = seed + 1000 * (uint64_t)number;
    int status = t->given_inputs ? LS_OK : case_inputs(c, t->batches, t->length_max);
    c->seed = seed;
    LS_TRY(status);
    for (int rank = 0; rank < c->ranks; rank++) {
        out->inputs[rank] = c->inputs[rank];
        c->inputs[rank] = NULL;
    }
    make_gradients(t, number, out);
    const ls_oracle_options options = {.tables = c->tables,
                                       .table_count = c->table_count,
                                       .plan = &c->plan,
                                       .id_policy = c->id_policy,
                                       .quirks = c->quirks,
                                       .inputs = (const ls_keyed_jagged *const *)out->inputs,
                                       .row = case_row,
                                       .row_arg = c,
                                       .training = training,
                                       .gradients = out->by_rank,
                                       .previous = previous};
    return ls_oracle_create(&out->oracle, &options);
}

static void free_step(step *s) {
    for (int rank = 0; rank < CASE_RANKS_MAX; rank++) {
        ls_keyed_jagged_free(s->inputs[rank]);
        for (int pair = 0; pair < 2 * CASE_TABLES_MAX; pair++) {
            free(s->gradients[rank][pair]);
        }
    }
    ls_oracle_free(s->oracle);
}

// ---- Judging ------------------------------------------------------------------------------------

typedef struct judge_sink {
    const train_case *t;
    int step;
    const ls_oracle *oracle;
    train_outcome *out;
    uint64_t judged;
} judge_sink;

static void note_bound(train_outcome *out, const ls_expected *expected) {
    for (size_t i = 0; i < expected->count && expected->values; i++) {
        double relative = expected->bounds[i] / (fabs(expected->values[i]) + 1);
        out->relative_bound = relative > out->relative_bound ? relative : out->relative_bound;
    }
}

static int judge(void *arg, const ls_stage_output *output) {
    judge_sink *sink = arg;
    train_outcome *out = sink->out;
    if (sink->t->sink.emit) {
        LS_TRY(sink->t->sink.emit(sink->t->sink.arg, output));
    }
    size_t count;
    LS_TRY(ls_shape_count(&count, &output->shape));
    size_t bytes = count * ls_dtype_bytes(output->dtype);
    void *copy = malloc(bytes + 1);
    memcpy(copy, output->data, bytes);
    ls_stage_output judged = *output;
    judged.data = copy;
    if (sink->t->spoil && sink->t->spoil(sink->t, sink->step, output, copy, count)) {
        out->spoilt++;
    }
    ls_judgement judgement;
    int status = ls_oracle_judge(sink->oracle, &judged, &judgement);
    ls_expected expected;
    if (!status && strcmp(output->stage, "update") == 0 &&
        ls_oracle_expect(sink->oracle, output, &expected) == LS_OK) {
        note_bound(out, &expected);
        ls_expected_free(&expected);
    }
    free(copy);
    LS_TRY(status);
    sink->judged++;
    out->judged++;
    out->elements += judgement.elements;
    bool first = out->wrong == 0 && (judgement.wrong > 0 || out->by_design == 0);
    if (judgement.text[0] && first) {
        snprintf(out->text, sizeof(out->text), "step %d: %s", sink->step, judgement.text);
        snprintf(out->stage, sizeof(out->stage), "%s", output->stage);
    }
    out->wrong += judgement.wrong;
    out->by_design += judgement.by_design;
    if (judgement.bound_ratio > out->bound_ratio) {
        out->bound_ratio = judgement.bound_ratio;
    }
    return LS_OK;
}

// ---- Running ------------------------------------------------------------------------------------

// Assembles the shards of a table and of its states.
static void keep_table(const train_case *t, ls_embedding *module, int i, train_outcome *out) {
    const ls_table *table = &t->c->tables[i];
    const ls_plan_table *plan = &t->c->plans[i];
    for (int what = 0; what < 3; what++) {
        for (int s = 0; s < plan->shard_count; s++) {
            const ls_plan_shard *block = &plan->shards[s];
            const ls_shard *shard = ls_embedding_shard(module, i, block->rank, s);
            const char *data = shard ? shard->data : NULL;
            ls_dtype dtype = table->dtype;
            ls_shape shape = LS_SHAPE(block->rows, block->columns);
            if (what > 0) {
                data = ls_embedding_state(module, i, block->rank, s, what - 1, &shape, &dtype);
            }
            if (!data) {
                continue;
            }
            size_t bytes = ls_dtype_bytes(dtype), columns = (size_t)block->columns;
            size_t dim = shape.ndim == 1 ? 1 : (size_t)table->dim;
            columns = shape.ndim == 1 ? 1 : columns;
            size_t first = shape.ndim == 1 ? 0 : (size_t)block->column_offset;
            out->bytes[i][what] = (size_t)table->rows * dim * bytes;
            if (!out->tables[i][what]) {
                out->tables[i][what] = calloc(out->bytes[i][what] + 1, 1);
            }
            for (size_t row = 0; row < (size_t)block->rows; row++) {
                size_t at = ((size_t)block->row_offset + row) * dim + first;
                memcpy((char *)out->tables[i][what] + at * bytes, data + row * columns * bytes,
                       columns * bytes);
            }
        }
    }
}

static int run_step(const train_case *t, int number, ls_backend *backend, ls_embedding *module,
                    step *s, const ls_training *training, train_outcome *out) {
    judge_sink sink = {t, number, s->oracle, out, 0};
    const ls_stage_sink stage_sink = {.arg = &sink, .emit = judge};
    ls_embedding_pass *pass;
    const ls_keyed_jagged *inputs[CASE_RANKS_MAX];
    const void *const *gradients[CASE_RANKS_MAX];
    int held_count = ls_world_held_count(backend->world);
    for (int h = 0; h < held_count; h++) {
        inputs[h] = s->inputs[ls_world_held(backend->world)[h]];
        gradients[h] = s->by_rank[ls_world_held(backend->world)[h]];
    }
    LS_TRY(ls_embedding_forward(&pass, module, inputs, &stage_sink));
    int status = ls_embedding_backward(pass, gradients, training, &stage_sink);
    if (!status && t->meddle) {
        t->meddle(t, number, module);
    }
    if (!status) {
        status = ls_embedding_update(pass, &stage_sink);
    }
    ls_embedding_pass_free(pass);
    bool all_ranks = held_count == t->c->ranks;
    if (!status && all_ranks && sink.judged != ls_oracle_output_count(s->oracle)) {
        return LS_FAIL(LS_ERR_MISMATCH, "%llu outputs were emitted, the oracle expects %zu",
                       (unsigned long long)sink.judged, ls_oracle_output_count(s->oracle));
    }
    return status;
}

static int run_steps(const train_case *t, ls_backend *backend, train_outcome *out) {
    embedding_case *c = t->c;
    const ls_embedding_options options = {.tables = c->tables,
                                          .table_count = c->table_count,
                                          .plan = &c->plan,
                                          .id_policy = c->id_policy,
                                          .quirks = c->quirks,
                                          .fill = case_fill,
                                          .fill_arg = c,
                                          .allow_broken_plan = c->allow_broken_plan};
    const ls_training training = {
        .optimizers = t->optimizers, .division = t->division, .clip_norm = t->clip_norm};
    step steps[TRAIN_STEPS_MAX];
    memset(steps, 0, sizeof(steps));
    ls_embedding *module;
    LS_TRY(ls_embedding_create(&module, backend, &options));
    int status = LS_OK;
    for (int i = 0; i < t->steps && !status; i++) {
        status = make_step(t, i, &training, i > 0 ? steps[i - 1].oracle : NULL, &steps[i]);
        if (!status) {
            status = run_step(t, i, backend, module, &steps[i], &training, out);
        }
    }
    for (int i = 0; i < c->table_count && !status; i++) {
        if (!t->device) {  // otherwise only kernels can access it
            keep_table(t, module, i, out);
        }
    }
    for (int i = t->steps - 1; i >= 0; i--) {
        free_step(&steps[i]);
    }
    ls_embedding_free(module);
    return status;
}

int train_run_on(const train_case *t, ls_backend *backend, train_outcome *out) {
    *out = (train_outcome){0};
    case_make_plan(t->c);
    int status = run_steps(t, backend, out);
    if (status) {
        snprintf(out->text, sizeof(out->text), "%s", ls_error_last()->text);
    }
    return status;
}

int train_run(const train_case *t, train_outcome *out) {
    *out = (train_outcome){0};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    int status = ls_world_create_on(
        &world, &(ls_world_options){.mesh = LS_MESH(t->c->ranks), .seed = t->c->seed}, t->device);
    if (!status) {
        status = t->device ? ls_backend_sim_create_on(&backend, world, t->device)
                           : ls_backend_sim_create(&backend, world);
    }
    if (!status) {
        backend->observer = t->c->observer;
        backend->observer_arg = t->c->observer_arg;
        status = train_run_on(t, backend, out);
    } else {
        snprintf(out->text, sizeof(out->text), "%s", ls_error_last()->text);
    }
    ls_backend_free(backend);
    ls_world_free(world);
    return status;
}

void train_outcome_free(train_outcome *out) {
    for (int i = 0; i < CASE_TABLES_MAX; i++) {
        for (int what = 0; what < 3; what++) {
            free(out->tables[i][what]);
        }
    }
    *out = (train_outcome){0};
}

// ---- One table ----------------------------------------------------------------------------------

const ls_sharding train_types[LS_SHARDING_COUNT] = {
    LS_DATA_PARALLEL,  LS_TABLE_WISE,        LS_COLUMN_WISE, LS_ROW_WISE,
    LS_TABLE_ROW_WISE, LS_TABLE_COLUMN_WISE, LS_GRID};

bool train_table_set_up(const train_table *how, embedding_case *c, train_case *t) {
    case_init(c, how->ranks, how->per_host, 17);
    // Max has no backward with row shards: uses the sum there.
    bool whole = ls_sharding_traits_of(how->sharding).rows == LS_OVER_ONE;
    ls_pooling pooling = how->pooling == LS_POOL_MAX && !whole ? LS_POOL_SUM : how->pooling;
    int index = case_table(c, "table", how->rows, how->dim, pooling, how->weighted, "a,b");
    c->tables[index].dtype = how->dtype;
    train_init(t, c, &how->optimizer);
    t->division = LS_GRADIENTS_DIVIDED;
    return case_place(c, index, how->sharding, 2);
}

train_table train_table_small(ls_optimizer_kind kind) {
    return (train_table){.ranks = 4,
                         .per_host = 2,
                         .pooling = LS_POOL_SUM,
                         .rows = 7,
                         .dim = 5,
                         .dtype = LS_F32,
                         .optimizer = ls_optimizer_default(kind, LS_OPTIMIZER_FUSED)};
}

const char *train_table_name(const train_table *how) {
    static char text[128];
    snprintf(text, sizeof(text), "%s (form %d), %s, pooling %d%s, %s",
             ls_optimizer_about(how->optimizer.kind)->name, how->optimizer.form,
             ls_sharding_name(how->sharding), how->pooling, how->weighted ? " weighted" : "",
             ls_dtype_name(how->dtype));
    return text;
}
