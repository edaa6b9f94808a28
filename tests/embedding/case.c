// See case.h.
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/element.h"

static double random_weight(const embedding_case *c, int table, int64_t row, int64_t column) {
    uint64_t index = (uint64_t)row * (uint64_t)c->tables[table].dim + (uint64_t)column;
    return ls_random_normal(c->seed, 100 + (uint32_t)table, 0, index);
}

void case_init(embedding_case *c, int ranks, int ranks_per_host, uint64_t seed) {
    *c = (embedding_case){
        .ranks = ranks, .ranks_per_host = ranks_per_host, .seed = seed, .weight = random_weight};
}

void case_free(embedding_case *c) {
    for (int t = 0; t < c->table_count; t++) {
        free(c->plans[t].shards);
        for (int f = 0; f < c->tables[t].feature_count; f++) {
            free((void *)c->tables[t].features[f]);
        }
        free((void *)c->tables[t].features);
    }
    for (int r = 0; r < c->ranks; r++) {
        ls_keyed_jagged_free(c->inputs[r]);
    }
    *c = (embedding_case){0};
}

int case_table(embedding_case *c, const char *name, int64_t rows, int64_t dim, ls_pooling pooling,
               bool weighted, const char *features) {
    int t = c->table_count++;
    const char **names = calloc(2, sizeof(*names));
    const char *comma = strchr(features, ',');
    names[0] = comma ? strndup(features, (size_t)(comma - features)) : strdup(features);
    names[1] = comma ? strdup(comma + 1) : NULL;
    c->tables[t] = (ls_table){.name = name,
                              .rows = rows,
                              .dim = dim,
                              .dtype = LS_F32,
                              .pooling = pooling,
                              .features = names,
                              .feature_count = comma ? 2 : 1,
                              .weighted = weighted};
    c->plans[t] = (ls_plan_table){.name = name, .rows = rows, .columns = dim};
    return t;
}

// ---- Plans --------------------------------------------------------------------------------------

static void add_shard(ls_plan_table *plan, int rank, int64_t row, int64_t rows, int64_t column,
                      int64_t columns) {
    plan->shards = realloc(plan->shards, (size_t)(plan->shard_count + 1) * sizeof(*plan->shards));
    plan->shards[plan->shard_count++] = (ls_plan_shard){rank, row, column, rows, columns};
}

// One column block, split by rows over ranks [first, first + count).
static void add_rows(ls_plan_table *plan, int first, int count, int64_t column, int64_t columns) {
    int64_t offsets[CASE_RANKS_MAX], sizes[CASE_RANKS_MAX];
    ls_plan_split_rows(offsets, sizes, plan->rows, count);
    for (int i = 0; i < count; i++) {
        add_shard(plan, first + i, offsets[i], sizes[i], column, columns);
    }
}

void case_place_rows(embedding_case *c, int t, const int64_t *sizes, int count) {
    ls_plan_table *plan = &c->plans[t];
    plan->sharding = LS_ROW_WISE;
    plan->shard_count = 0;
    int64_t row = 0;
    for (int i = 0; i < count; i++) {
        add_shard(plan, i, row, sizes[i], 0, plan->columns);
        row += sizes[i];
    }
}

int case_place(embedding_case *c, int t, ls_sharding sharding, int cuts) {
    ls_plan_table *plan = &c->plans[t];
    int per_host = c->ranks_per_host, hosts = c->ranks / per_host, host = t % hosts;
    int64_t dim = plan->columns;
    int blocks = (int)(dim < (cuts ? cuts : 2) ? dim : (cuts ? cuts : 2));
    bool uses_hosts =
        sharding == LS_TABLE_ROW_WISE || sharding == LS_TABLE_COLUMN_WISE || sharding == LS_GRID;
    if (uses_hosts && per_host == 1 && hosts > 1 && sharding != LS_GRID) {
        return 0;
    }
    plan->sharding = sharding;
    plan->shard_count = 0;
    for (int b = 0; b < blocks; b++) {
        // Uneven column blocks on purpose: the last one takes the rest.
        int64_t width = dim / blocks, column = b * width;
        width = b == blocks - 1 ? dim - column : width;
        switch (sharding) {
        case LS_COLUMN_WISE:
            add_shard(plan, (t + 2 * b) % c->ranks, 0, plan->rows, column, width);
            break;
        case LS_TABLE_COLUMN_WISE:
            add_shard(plan, host * per_host + b % per_host, 0, plan->rows, column, width);
            break;
        case LS_GRID:
            add_rows(plan, (host + b) % hosts * per_host, per_host, column, width);
            break;
        default:
            break;
        }
    }
    if (sharding == LS_TABLE_WISE) {
        add_shard(plan, t % c->ranks, 0, plan->rows, 0, dim);
    } else if (sharding == LS_ROW_WISE) {
        add_rows(plan, 0, c->ranks, 0, dim);
    } else if (sharding == LS_TABLE_ROW_WISE) {
        add_rows(plan, host * per_host, per_host, 0, dim);
    } else if (sharding == LS_DATA_PARALLEL) {
        for (int r = 0; r < c->ranks; r++) {
            add_shard(plan, r, 0, plan->rows, 0, dim);
        }
    }
    return 1;
}

// ---- Inputs -------------------------------------------------------------------------------------

int case_inputs(embedding_case *c, const int64_t *batches, int length_max) {
    static const char *const keys[] = {"a", "b", "c"};
    enum { KEYS = 3 };
    // Ids are below the size of the smallest table that the feature feeds.
    int64_t rows[KEYS] = {1000, 1000, 1000};
    for (int t = 0; t < c->table_count; t++) {
        for (int f = 0; f < c->tables[t].feature_count; f++) {
            int64_t *limit = &rows[c->tables[t].features[f][0] - 'a'];
            *limit = c->tables[t].rows < *limit ? c->tables[t].rows : *limit;
        }
    }
    for (int r = 0; r < c->ranks; r++) {
        int64_t batch = batches ? batches[r] : 3;
        size_t samples = (size_t)batch * KEYS, bags = 0;
        int64_t strides[KEYS], starts[KEYS + 1] = {0};
        for (int k = 0; k < KEYS; k++) {
            strides[k] = batch;
            if (c->variable && batch > 0) {
                strides[k] = 1 + (int64_t)ls_random_below((uint64_t)batch, c->seed, 4, (uint32_t)r,
                                                          (uint64_t)k);
            }
            bags += (size_t)strides[k];
            starts[k + 1] = (int64_t)bags;
        }
        size_t most = bags * (size_t)length_max;
        int64_t *inverse = calloc(samples + 1, sizeof(*inverse));
        for (size_t i = 0; i < samples; i++) {
            inverse[i] = (int64_t)ls_random_below((uint64_t)strides[i / (size_t)batch], c->seed, 5,
                                                  (uint32_t)r, i);
        }
        int64_t *lengths = calloc(bags + 1, sizeof(*lengths));
        int64_t *ids = calloc(most + 1, sizeof(*ids));
        float *weights = calloc(most + 1, sizeof(*weights));
        int64_t count = 0;
        for (size_t bag = 0, key = 0; bag < bags; bag++) {
            while ((int64_t)bag >= starts[key + 1]) {
                key++;
            }
            lengths[bag] =
                (int64_t)ls_random_below((uint64_t)length_max + 1, c->seed, 1, (uint32_t)r, bag);
            for (int64_t i = 0; i < lengths[bag]; i++, count++) {
                uint64_t bound = (uint64_t)rows[key];
                ids[count] =
                    (int64_t)ls_random_below(bound, c->seed, 2, (uint32_t)r, (uint64_t)count);
                weights[count] = (float)ls_random_normal(c->seed, 3, (uint32_t)r, (uint64_t)count);
            }
        }
        ls_keyed_jagged_free(c->inputs[r]);
        int status = c->variable ? ls_keyed_jagged_create_variable(&c->inputs[r], r, keys, KEYS,
                                                                   strides, batch, inverse, lengths,
                                                                   ids, count, weights)
                                 : ls_keyed_jagged_create(&c->inputs[r], r, keys, KEYS, batch,
                                                          lengths, ids, count, weights);
        free(inverse);
        free(lengths);
        free(ids);
        free(weights);
        LS_TRY(status);
    }
    return LS_OK;
}

// ---- Random cases -------------------------------------------------------------------------------

#define RANDOM_TABLES_MAX 5

static uint64_t draw(uint64_t seed, uint64_t index, uint64_t bound) {
    return ls_random_below(bound, seed, 77, 0, index);
}

int case_random(embedding_case *c, uint64_t seed, int ranks) {
    static const char *const names[RANDOM_TABLES_MAX] = {"t0", "t1", "t2", "t3", "t4"};
    static const char *const features[] = {"a", "b", "c", "a,b", "c,a"};
    static const int hosts[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 3}, {4, 2}, {5, 5}, {6, 3}, {8, 4}};
    static const ls_dtype dtypes[] = {LS_F32, LS_F32, LS_F16, LS_BF16, LS_F64};
    uint64_t i = 0;
    const int *world = hosts[draw(seed, i++, sizeof(hosts) / sizeof(hosts[0]))];
    int per_host = ranks == 4 ? 2 : ranks;
    case_init(c, ranks ? ranks : world[0], ranks ? per_host : world[1], seed);
    int tables = 1 + (int)draw(seed, i++, RANDOM_TABLES_MAX);
    for (int t = 0; t < tables; t++) {
        ls_pooling pooling = (ls_pooling)draw(seed, i++, 4);
        bool weighted = (pooling == LS_POOL_SUM || pooling == LS_POOL_MEAN) && draw(seed, i++, 2);
        int64_t rows = 1 + (int64_t)draw(seed, i++, 20), dim = 1 + (int64_t)draw(seed, i++, 9);
        case_table(c, names[t], rows, dim, pooling, weighted, features[draw(seed, i++, 5)]);
        c->tables[t].dtype = dtypes[draw(seed, i++, 5)];
        c->tables[t].has_padding_id = draw(seed, i++, 3) == 0;
        c->tables[t].padding_id = (int64_t)draw(seed, i++, (uint64_t)rows);
        if (!case_place(c, t, (ls_sharding)draw(seed, i++, LS_SHARDING_COUNT), 3)) {
            case_place(c, t, LS_ROW_WISE, 0);
        }
    }
    int64_t batches[CASE_RANKS_MAX];
    for (int r = 0; r < c->ranks; r++) {
        batches[r] = (int64_t)draw(seed, i++, 5);
    }
    c->variable = draw(seed, i++, 3) == 0;
    return case_inputs(c, batches, 4);
}

// ---- Running ------------------------------------------------------------------------------------

int case_fill(void *arg, int table, int rank, int64_t row, int64_t rows, int64_t column,
              int64_t columns, void *out) {
    const embedding_case *c = arg;
    (void)rank;
    ls_dtype dtype = c->tables[table].dtype;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < columns; k++) {
            ls_element_from_f64((char *)out + (size_t)(r * columns + k) * ls_dtype_bytes(dtype),
                                dtype, c->weight(c, table, row + r, column + k));
        }
    }
    return LS_OK;
}

int case_row(void *arg, int table, int64_t row, int64_t column, int64_t columns, double *out) {
    const embedding_case *c = arg;
    for (int64_t k = 0; k < columns; k++) {
        uint64_t bits = 0;
        ls_element_from_f64(&bits, c->tables[table].dtype, c->weight(c, table, row, column + k));
        out[k] = ls_element_to_f64(&bits, c->tables[table].dtype);
    }
    return LS_OK;
}

typedef struct judge_sink {
    const embedding_case *c;
    const ls_oracle *oracle;
    case_outcome *out;
} judge_sink;

static int keep_output(judge_sink *sink, const ls_stage_output *output) {
    for (int t = 0; t < sink->c->table_count; t++) {
        const ls_table *table = &sink->c->tables[t];
        for (int f = 0; f < table->feature_count; f++) {
            if (strcmp(table->name, output->table) == 0 &&
                strcmp(table->features[f], output->feature) == 0) {
                size_t count = 0;
                (void)ls_shape_count(&count, &output->shape);
                size_t bytes = count * ls_dtype_bytes(output->dtype);
                void *copy = malloc(bytes + 1);
                if (copy == NULL) {
                    return LS_FAIL(LS_ERR_MEMORY, "the outputs are not kept");
                }
                memcpy(copy, output->data, bytes);
                free(sink->out->outputs[output->rank][t][f]);
                sink->out->outputs[output->rank][t][f] = copy;
                sink->out->output_bytes[output->rank][t][f] = bytes;
            }
        }
    }
    return LS_OK;
}

static int judge(void *arg, const ls_stage_output *output) {
    judge_sink *sink = arg;
    if (sink->c->sink.emit) {
        LS_TRY(sink->c->sink.emit(sink->c->sink.arg, output));
    }
    ls_judgement judgement = {.elements = 0};
    if (sink->oracle) {
        LS_TRY(ls_oracle_judge(sink->oracle, output, &judgement));
    }
    sink->out->judged++;
    sink->out->elements += judgement.elements;
    bool first = sink->out->wrong == 0 && (judgement.wrong > 0 || sink->out->by_design == 0);
    if (judgement.text[0] && first) {
        snprintf(sink->out->text, sizeof(sink->out->text), "%s", judgement.text);
        snprintf(sink->out->stage, sizeof(sink->out->stage), "%s", output->stage);
    }
    sink->out->wrong += judgement.wrong;
    sink->out->by_design += judgement.by_design;
    if (judgement.bound_ratio > sink->out->bound_ratio) {
        sink->out->bound_ratio = judgement.bound_ratio;
    }
    if (strcmp(output->stage, "output_dist") == 0) {
        return keep_output(sink, output);
    }
    return LS_OK;
}

static void *room(void *arg, size_t bytes) {
    const ls_stage_sink *sink = &((const judge_sink *)arg)->c->sink;
    return sink->room ? sink->room(sink->arg, bytes) : NULL;
}

static int run_module(embedding_case *c, ls_backend *backend, const ls_oracle *oracle,
                      case_outcome *out) {
    ls_embedding_options options = {.tables = c->tables,
                                    .table_count = c->table_count,
                                    .plan = &c->plan,
                                    .id_policy = c->id_policy,
                                    .quirks = c->quirks,
                                    .fill = case_fill,
                                    .fill_arg = c,
                                    .allow_broken_plan = c->allow_broken_plan};
    ls_embedding *module;
    LS_TRY(ls_embedding_create(&module, backend, &options));
    judge_sink sink = {c, oracle, out};
    ls_stage_sink stage_sink = {&sink, judge, room};
    const ls_keyed_jagged *inputs[CASE_RANKS_MAX];
    for (int h = 0; h < ls_world_held_count(backend->world); h++) {
        inputs[h] = c->inputs[ls_world_held(backend->world)[h]];
    }
    ls_embedding_pass *pass;
    int status = ls_embedding_forward(&pass, module, inputs, &stage_sink);
    if (ls_embedding_bad_id(module)) {
        out->has_bad_id = true;
        out->bad_id = *ls_embedding_bad_id(module);
    }
    ls_embedding_pass_free(pass);
    ls_embedding_free(module);
    bool all_ranks = ls_world_held_count(backend->world) == c->ranks;
    if (!status && oracle && all_ranks && out->judged != ls_oracle_output_count(oracle)) {
        return LS_FAIL(LS_ERR_MISMATCH, "%llu outputs were emitted, the oracle expects %zu",
                       (unsigned long long)out->judged, ls_oracle_output_count(oracle));
    }
    return status;
}

void case_make_plan(embedding_case *c) {
    c->plan = (ls_plan){.ranks = c->ranks,
                        .ranks_per_host = c->ranks_per_host,
                        .tables = c->plans,
                        .table_count = c->table_count};
}

static int make_oracle(embedding_case *c, ls_oracle **out) {
    ls_oracle_options options = {.tables = c->tables,
                                 .table_count = c->table_count,
                                 .plan = &c->plan,
                                 .id_policy = c->id_policy,
                                 .quirks = c->quirks,
                                 .inputs = (const ls_keyed_jagged *const *)c->inputs,
                                 .row = case_row,
                                 .row_arg = c};
    return ls_oracle_create(out, &options);
}

int case_run_on(embedding_case *c, ls_backend *backend, case_outcome *out) {
    *out = (case_outcome){0};
    case_make_plan(c);
    // If the oracle cannot be created (an id out of range), the module runs without it.
    ls_oracle *oracle = NULL;
    int oracle_status = make_oracle(c, &oracle);
    out->status = run_module(c, backend, oracle, out);
    if (!out->status && oracle_status) {
        out->status = oracle_status == LS_ERR_MEMORY
                          ? oracle_status
                          : LS_FAIL(LS_ERR_MISMATCH, "the oracle refuses what the module accepts");
    }
    if (out->status) {
        snprintf(out->text, sizeof(out->text), "%s", ls_error_last()->text);
    }
    ls_oracle_free(oracle);
    return out->status;
}

int case_run(embedding_case *c, case_outcome *out) {
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    *out = (case_outcome){0};
    out->status = ls_world_create_on(
        &world, &(ls_world_options){.mesh = LS_MESH(c->ranks), .seed = c->seed}, c->device);
    if (!out->status) {
        out->status = c->device ? ls_backend_sim_create_on(&backend, world, c->device)
                                : ls_backend_sim_create(&backend, world);
    }
    if (!out->status) {
        backend->observer = c->observer;
        backend->observer_arg = c->observer_arg;
        (void)case_run_on(c, backend, out);
    } else {
        snprintf(out->text, sizeof(out->text), "%s", ls_error_last()->text);
    }
    int status = out->status;
    ls_backend_free(backend);
    ls_world_free(world);
    return status;
}

void case_outcome_free(case_outcome *out) {
    for (int r = 0; r < CASE_RANKS_MAX; r++) {
        for (int t = 0; t < CASE_TABLES_MAX; t++) {
            free(out->outputs[r][t][0]);
            free(out->outputs[r][t][1]);
        }
    }
    *out = (case_outcome){0};
}

const char *case_difference(const embedding_case *c, const case_outcome *a, const case_outcome *b) {
    static _Thread_local char text[128];
    for (int r = 0; r < c->ranks; r++) {
        for (int t = 0; t < c->table_count; t++) {
            for (int f = 0; f < c->tables[t].feature_count; f++) {
                size_t bytes = a->output_bytes[r][t][f];
                if (bytes != b->output_bytes[r][t][f] ||
                    memcmp(a->outputs[r][t][f], b->outputs[r][t][f], bytes) != 0) {
                    snprintf(text, sizeof(text), "rank %d, table %s, feature %d", r,
                             c->tables[t].name, f);
                    return text;
                }
            }
        }
    }
    return "";
}
