// Replaying torch's embedding and embedding_bag: the same weights and ids through a sharded module,
// under every sharding type and on several worlds, against torch's output and the oracle.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/safetensors.h"
#include "kernels/kernels.h"
#include "orders/bound.h"
#include "embedding/embedding.h"
#include "runner/replay/replay_torch_internal.h"

#define WORLD_MAX 4

// What one file says.
typedef struct torch_call {
    ls_table table;
    int64_t ids, batch, output_rows;
    float *weight;     // [rows, dim]
    float *output;     // [output_rows, dim]
    int64_t *values;   // [ids]
    int64_t *lengths;  // [batch]
    float *per_id;     // [ids] or NULL
    size_t weight_count, output_count;
} torch_call;

// ---- Reading ------------------------------------------------------------------------------------

const char *ls_torch__embedding_unsupported(bool bag, const json_t *args) {
    if (!json_is_null(json_object_get(args, "max_norm")) && json_object_get(args, "max_norm")) {
        return "max_norm renormalises the weights in place, which is not replayed";
    }
    if (bag) {
        const char *mode = json_string_value(json_object_get(args, "mode"));
        bool known = mode && (strcmp(mode, "sum") == 0 || strcmp(mode, "mean") == 0 ||
                              strcmp(mode, "max") == 0);
        return known ? NULL : "a mode that lockstep does not know";
    }
    return NULL;
}

static void call_free(torch_call *call) {
    ls_free(NULL, call->weight, call->weight_count, sizeof(float));
    ls_free(NULL, call->output, call->output_count, sizeof(float));
    ls_free(NULL, call->values, (size_t)call->ids, sizeof(int64_t));
    ls_free(NULL, call->lengths, (size_t)call->batch, sizeof(int64_t));
    ls_free(NULL, call->per_id, (size_t)call->ids, sizeof(float));
}

// The lengths of the bags, where the file tells them too.
static int check_lengths(const torch_call *call, const ls_safetensors *file) {
    int64_t *lengths;
    size_t count;
    LS_TRY(ls_torch__tensor((void **)&lengths, &count, file, "lengths", LS_I64, true));
    bool same = lengths == NULL || count == (size_t)call->batch;
    for (size_t b = 0; same && lengths != NULL && b < count; b++) {
        same = lengths[b] == call->lengths[b];
    }
    ls_free(NULL, lengths, count, sizeof(*lengths));
    return same ? LS_OK : LS_FAIL(LS_ERR_FORMAT, "lengths and offsets do not tell the same bags");
}

// Bags of an embedding_bag call: offsets with or without the last.
static int read_bags(torch_call *call, const ls_safetensors *file, const json_t *args) {
    bool include_last = json_is_true(json_object_get(args, "include_last_offset"));
    int64_t *offsets;
    size_t count;
    LS_TRY(ls_torch__tensor((void **)&offsets, &count, file, "offsets", LS_I64, false));
    int64_t bags = (int64_t)count - (include_last ? 1 : 0);
    int status = bags < 0 ? LS_FAIL(LS_ERR_FORMAT, "offsets are empty") : LS_OK;
    if (!status) {
        status = ls_alloc((void **)&call->lengths, NULL, (size_t)bags, sizeof(int64_t));
        call->batch = call->lengths ? bags : 0;
    }
    for (int64_t b = 0; b < call->batch && !status; b++) {
        int64_t end = b + 1 < (int64_t)count ? offsets[b + 1] : call->ids;
        if (offsets[b] < 0 || end < offsets[b] || end > call->ids || (b == 0 && offsets[b] != 0)) {
            status =
                LS_FAIL(LS_ERR_FORMAT, "bag %lld runs from %lld to %lld of %lld ids", (long long)b,
                        (long long)offsets[b], (long long)end, (long long)call->ids);
        } else {
            call->lengths[b] = end - offsets[b];
        }
    }
    if (!status && include_last && offsets[bags] != call->ids) {
        status = LS_FAIL(LS_ERR_FORMAT, "the last offset is %lld, and there are %lld ids",
                         (long long)offsets[bags], (long long)call->ids);
    }
    ls_free(NULL, offsets, count, sizeof(*offsets));
    return status == LS_OK ? check_lengths(call, file) : status;
}

// Samples of an embedding call: the first dimension of ids.
static int make_samples(torch_call *call, const ls_safetensor *ids) {
    // Without ids there is nothing to look up, however many samples the shape speaks of.
    int64_t batch = call->ids == 0 ? 0 : ids->ndim > 0 ? ids->dim[0] : 1;
    LS_TRY(ls_alloc((void **)&call->lengths, NULL, (size_t)batch, sizeof(int64_t)));
    call->batch = batch;
    for (int64_t b = 0; b < batch; b++) {
        call->lengths[b] = call->ids / batch;
    }
    return LS_OK;
}

static int describe_table(torch_call *call, const ls_safetensor *weight, bool bag,
                          const json_t *args) {
    static const char *const features[] = {"ids"};
    const char *mode = json_string_value(json_object_get(args, "mode"));
    if (weight->ndim != 2 || weight->dim[0] < 1 || weight->dim[1] < 1) {
        return LS_FAIL(LS_ERR_FORMAT, "tensor weight is not a matrix");
    }
    call->table = (ls_table){.name = "weight",
                             .rows = weight->dim[0],
                             .dim = weight->dim[1],
                             .dtype = LS_F32,
                             .pooling = !bag                        ? LS_POOL_NONE
                                        : strcmp(mode, "sum") == 0  ? LS_POOL_SUM
                                        : strcmp(mode, "mean") == 0 ? LS_POOL_MEAN
                                                                    : LS_POOL_MAX,
                             .features = features,
                             .feature_count = 1,
                             .weighted = call->per_id != NULL};
    const json_t *padding = json_object_get(args, "padding_idx");
    if (json_is_integer(padding)) {
        int64_t id = json_integer_value(padding);
        call->table.has_padding_id = true;
        call->table.padding_id = id < 0 ? id + call->table.rows : id;
    }
    return LS_OK;
}

static int call_read(torch_call *call, const ls_safetensors *file, bool bag, const json_t *args) {
    size_t ids, weights;
    LS_TRY(ls_torch__tensor((void **)&call->weight, &call->weight_count, file, "weight", LS_F32,
                            false));
    LS_TRY(ls_torch__tensor((void **)&call->output, &call->output_count, file, "output", LS_F32,
                            false));
    LS_TRY(ls_torch__tensor((void **)&call->values, &ids, file, "ids", LS_I64, false));
    call->ids = (int64_t)ids;
    if (bag) {
        LS_TRY(ls_torch__tensor((void **)&call->per_id, &weights, file, "per_sample_weights",
                                LS_F32, true));
        if (call->per_id && weights != ids) {
            ls_free(NULL, call->per_id, weights, sizeof(float));
            call->per_id = NULL;
            return LS_FAIL(LS_ERR_FORMAT, "%zu per_sample_weights for %zu ids", weights, ids);
        }
    }
    LS_TRY(describe_table(call, ls_safetensors_find(file, "weight"), bag, args));
    LS_TRY(bag ? read_bags(call, file, args)
               : make_samples(call, ls_safetensors_find(file, "ids")));
    call->output_rows = bag ? call->batch : call->ids;
    size_t expected;
    LS_TRY(ls_size_mul(&expected, (size_t)call->output_rows, (size_t)call->table.dim));
    if (expected != call->output_count) {
        return LS_FAIL(LS_ERR_FORMAT, "output has %zu elements, expected %zu", call->output_count,
                       expected);
    }
    return LS_OK;
}

// ---- Plans --------------------------------------------------------------------------------------

typedef struct torch_plan {
    ls_plan plan;
    ls_plan_table table;
    ls_plan_shard shards[WORLD_MAX * WORLD_MAX];
} torch_plan;

static void add_rows(ls_plan_table *table, int first, int count, int64_t column, int64_t columns) {
    int64_t offsets[WORLD_MAX], sizes[WORLD_MAX];
    ls_plan_split_rows(offsets, sizes, table->rows, count);
    for (int i = 0; i < count; i++) {
        table->shards[table->shard_count++] =
            (ls_plan_shard){first + i, offsets[i], column, sizes[i], columns};
    }
}

static void make_plan(torch_plan *out, const torch_call *call, ls_sharding sharding, int ranks) {
    int per_host = ranks == 4 ? 2 : ranks, hosts = ranks / per_host;
    ls_plan_table *table = &out->table;
    *table = (ls_plan_table){.name = "weight",
                             .sharding = sharding,
                             .rows = call->table.rows,
                             .columns = call->table.dim,
                             .shards = out->shards};
    out->plan =
        (ls_plan){.ranks = ranks, .ranks_per_host = per_host, .tables = table, .table_count = 1};
    int64_t dim = table->columns;
    int wanted = sharding == LS_GRID                ? hosts
                 : sharding == LS_TABLE_COLUMN_WISE ? per_host
                 : sharding == LS_COLUMN_WISE       ? ranks
                                                    : 1;
    int blocks = dim < wanted ? (int)dim : wanted;
    for (int b = 0; b < blocks; b++) {
        int64_t first = dim * b / blocks, columns = dim * (b + 1) / blocks - first;
        if (sharding == LS_ROW_WISE) {
            add_rows(table, 0, ranks, first, columns);
        } else if (sharding == LS_TABLE_ROW_WISE) {
            add_rows(table, (hosts - 1) * per_host, per_host, first, columns);
        } else if (sharding == LS_GRID) {
            add_rows(table, (hosts - 1 - b) * per_host, per_host, first, columns);
        } else if (sharding == LS_DATA_PARALLEL) {
            for (int rank = 0; rank < ranks; rank++) {
                table->shards[table->shard_count++] = (ls_plan_shard){rank, 0, 0, table->rows, dim};
            }
        } else {
            table->shards[table->shard_count++] =
                (ls_plan_shard){ranks - 1 - b, 0, first, table->rows, columns};
        }
    }
}

// ---- Running ------------------------------------------------------------------------------------

static int fill(void *arg, int table, int rank, int64_t row, int64_t rows, int64_t column,
                int64_t columns, void *out) {
    const torch_call *call = arg;
    (void)table;
    (void)rank;
    ls_kernel_copy_2d(
        out, (size_t)columns * sizeof(float), call->weight + row * call->table.dim + column,
        (size_t)call->table.dim * sizeof(float), (size_t)columns * sizeof(float), (size_t)rows);
    return LS_OK;
}

static int oracle_row(void *arg, int table, int64_t row, double *out) {
    const torch_call *call = arg;
    (void)table;
    for (int64_t c = 0; c < call->table.dim; c++) {
        out[c] = (double)call->weight[row * call->table.dim + c];
    }
    return LS_OK;
}

// One sharding type on one world.
typedef struct torch_run {
    const torch_call *call;
    const torch_plan *plan;
    ls_keyed_jagged *inputs[WORLD_MAX];
    int64_t first_row[WORLD_MAX];  // of torch's output that rank r has
    ls_oracle *oracle;
    ls_stage_result *stage;
    ls_arena *arena;
} torch_run;

// Each rank takes a chunk of the samples.
static int share_out(torch_run *run) {
    static const char *const keys[] = {"ids"};
    const torch_call *call = run->call;
    int64_t sample = 0, id = 0, row = 0;
    for (int rank = 0; rank < run->plan->plan.ranks; rank++) {
        int64_t offset, batch, ids = 0;
        ls_chunk(&offset, &batch, call->batch, run->plan->plan.ranks, rank);
        for (int64_t b = sample; b < sample + batch; b++) {
            ids += call->lengths[b];
        }
        run->first_row[rank] = row;
        LS_TRY(ls_keyed_jagged_create(&run->inputs[rank], NULL, rank, keys, 1, batch,
                                      call->lengths + sample, call->values + id, ids,
                                      call->per_id ? call->per_id + id : NULL));
        sample += batch;
        id += ids;
        row += call->table.pooling == LS_POOL_NONE ? ids : batch;
    }
    return LS_OK;
}

static uint64_t ulps_between(float a, float b) {
    int32_t x, y;
    if (isnan(a) || isnan(b)) {
        return isnan(a) && isnan(b) ? 0 : UINT64_MAX;
    }
    memcpy(&x, &a, sizeof(x));
    memcpy(&y, &b, sizeof(y));
    int64_t u = x < 0 ? (int64_t)INT32_MIN - x : x, v = y < 0 ? (int64_t)INT32_MIN - y : y;
    return (uint64_t)(u > v ? u - v : v - u);
}

static void note(torch_run *run, ls_class class_, const char *text) {
    if (class_ > run->stage->class_) {
        run->stage->class_ = class_;
        run->stage->divergence = class_ == LS_CLASS_WRONG ? text : run->stage->divergence;
    }
}

// torch's value and ours, each against the exact one.
static void compare_value(torch_run *run, const ls_stage_output *output,
                          const ls_expected *expected, size_t i) {
    const torch_call *call = run->call;
    size_t at = (size_t)(run->first_row[output->rank] * call->table.dim) + i;
    float ours = ((const float *)output->data)[i], torch = call->output[at];
    uint64_t ulps = ulps_between(ours, torch);
    if (ulps == 0) {
        return;
    }
    run->stage->differing++;
    run->stage->max_ulps = ulps > run->stage->max_ulps ? ulps : run->stage->max_ulps;
    double exact = expected->values[i], bound = expected->bounds[i];
    if (call->table.pooling == LS_POOL_MEAN) {
        // torch multiplies by 1/n, which is rounded before it is used.
        bound += ls_bound_step(LS_F32, fabs(exact) + bound);
    }
    double off = fmax(fabs((double)torch - exact), fabs((double)ours - exact));
    double ratio = off <= bound && bound > 0 ? off / bound : INFINITY;
    run->stage->bound_ratio = ratio > run->stage->bound_ratio ? ratio : run->stage->bound_ratio;
    if (ratio <= 1) {
        note(run, LS_CLASS_WITHIN_BOUND, NULL);
        return;
    }
    ls_provenance from;
    if (ls_oracle_provenance(run->oracle, output, i, &from)) {
        ls_error_clear();
        from = (ls_provenance){.sample = -1, .id = -1, .owner_rank = LS_RANK_NONE};
    }
    note(run, LS_CLASS_WRONG,
         ls_arena_printf(run->arena,
                         "stage output_dist, table weight, feature ids, rank %d, sample %lld, "
                         "column %lld, id %lld, owner rank %d: torch %.9g, lockstep %.9g (%llu "
                         "ulps), exact %.17g, allowed difference %.3g",
                         output->rank, (long long)from.sample, (long long)from.column,
                         (long long)from.id, from.owner_rank, (double)torch, (double)ours,
                         (unsigned long long)ulps, exact, bound));
}

static int compare_output(void *arg, const ls_stage_output *output) {
    torch_run *run = arg;
    ls_judgement judgement;
    LS_TRY(ls_oracle_judge(run->oracle, output, &judgement));
    if (judgement.wrong > 0) {
        note(run, LS_CLASS_WRONG, ls_arena_strdup(run->arena, judgement.text));
        return LS_OK;
    }
    if (strcmp(output->stage, "output_dist") != 0) {
        return LS_OK;
    }
    ls_expected expected;
    LS_TRY(ls_oracle_expect(run->oracle, output, &expected));
    ls_stage_result_compared(run->stage, expected.count);
    for (size_t i = 0; i < expected.count; i++) {
        compare_value(run, output, &expected, i);
    }
    ls_expected_free(&expected);
    return LS_OK;
}

static int run_module(torch_run *run, ls_backend *backend) {
    ls_stage_sink sink = {run, compare_output};
    ls_oracle_options oracle = {.tables = &run->call->table,
                                .table_count = 1,
                                .plan = &run->plan->plan,
                                .inputs = (const ls_keyed_jagged *const *)run->inputs,
                                .row = oracle_row,
                                .row_arg = (void *)run->call};
    ls_embedding_options options = {.tables = &run->call->table,
                                    .table_count = 1,
                                    .plan = &run->plan->plan,
                                    .fill = fill,
                                    .fill_arg = (void *)run->call};
    LS_TRY(ls_oracle_create(&run->oracle, &oracle));
    ls_embedding *module;
    LS_TRY(ls_embedding_create(&module, backend, &options));
    ls_embedding_pass *pass;
    int status =
        ls_embedding_forward(&pass, module, (const ls_keyed_jagged *const *)run->inputs, &sink);
    ls_embedding_pass_free(pass);
    ls_embedding_free(module);
    if (!status && run->stage->elements != run->call->output_count &&
        run->stage->class_ != LS_CLASS_WRONG) {
        return LS_FAIL(LS_ERR_MISMATCH, "%llu elements were compared, the output has %zu",
                       (unsigned long long)run->stage->elements, run->call->output_count);
    }
    return status;
}

static int run_sharded(ls_results *results, ls_stage_result *stage, const torch_call *call,
                       ls_sharding sharding, int ranks) {
    torch_plan plan = {0};
    make_plan(&plan, call, sharding, ranks);
    torch_run run = {.call = call, .plan = &plan, .stage = stage, .arena = results->arena};
    stage->judge = LS_JUDGE_REAL;
    stage->name = ls_arena_printf(results->arena, "%s on %d rank%s", ls_sharding_name(sharding),
                                  ranks, ranks == 1 ? "" : "s");
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    int status = stage->name ? LS_OK : LS_ERR_MEMORY;
    if (!status) {
        status = ls_world_create(&world, &(ls_world_options){.mesh = LS_MESH(ranks)});
    }
    if (!status) {
        status = ls_backend_sim_create(&backend, world);
    }
    if (!status) {
        status = share_out(&run);
    }
    if (!status) {
        status = run_module(&run, backend);
    }
    for (int rank = 0; rank < ranks; rank++) {
        ls_keyed_jagged_free(run.inputs[rank]);
    }
    ls_oracle_free(run.oracle);
    ls_backend_free(backend);
    ls_world_free(world);
    return status ? ls_error_wrap("%s on %d ranks", ls_sharding_name(sharding), ranks) : LS_OK;
}

int ls_torch__embedding(ls_results *results, ls_case_result *result, ls_torch_rest *rest,
                        const char *path, bool bag, const json_t *args) {
    static const int worlds[] = {1, 3, 4};
    torch_call call = {0};
    ls_safetensors *file = NULL;
    int status = ls_safetensors_open(&file, path);
    const ls_safetensor *weight = file ? ls_safetensors_find(file, "weight") : NULL;
    if (weight && weight->dtype != LS_F32) {
        result->skipped = true;
        result->skip_reason = "weights that are not f32 are not replayed";
        ls_safetensors_free(file);
        return LS_OK;
    }
    if (!status) {
        status = call_read(&call, file, bag, args);
    }
    if (!status) {
        ls_torch__rest(rest, file, bag, args);
        status = ls_torch__stages(results, result, 3 * LS_SHARDING_COUNT + 1);
    }
    for (int w = 0; w < 3 && !status; w++) {
        for (int s = 0; s < LS_SHARDING_COUNT && !status; s++) {
            ls_stage_result *stage = &result->stages[result->stage_count];
            status = run_sharded(results, stage, &call, (ls_sharding)s, worlds[w]);
            if (!status) {
                result->stage_count++;
                result->pass = result->pass && stage->class_ != LS_CLASS_WRONG;
            }
        }
    }
    if (!status) {
        const ls_torch_weights before = {call.weight, call.weight_count, (size_t)call.table.dim};
        status = ls_torch__weights_after(results, result, &before, file);
    }
    call_free(&call);
    ls_safetensors_free(file);
    return status;
}
