// Imports training of torch: the weights after a lookup, gradients, and optimizer steps.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/optimizer.h"
#include "runner/replay/import_torch.h"

// A tensor of the weights' shape; *out NULL: there is none.
static int read_like_weight(float **out, const ls_torch_lookup *l, const char *name,
                            ls_arena *arena) {
    const ls_safetensor *tensor = NULL;
    *out = NULL;
    if (ls_safetensors_find(l->file, name) == NULL) {
        return LS_OK;
    }
    const ls_shape shape = ls_torch__shape(l->weight);
    LS_TRY(ls_torch__find_shaped(&tensor, l->file, name, LS_F32, &shape));
    return ls_torch__read(out, arena, l->file, tensor);
}

// ---- Weights after a lookup ---------------------------------------------------------------------
// The rows that were looked up and all others: two tables with the same weights, each with a lookup
// of only those rows.
typedef struct rows_after {
    const ls_torch_lookup *lookup;
    ls_arena *arena;
    const float *weight;  // [rows, dim] after the lookup
    int64_t *rows[2];     // ascending
    int64_t count[2];
} rows_after;

static const char *const after_names[2] = {"looked_up", "others"};

// torch computes a row's norm in f32 in some order: its powers, sums and root are rounded where
// ours are not. The root divides the sum's error by p.
static int norm_roundings(const ls_torch_lookup *l) {
    double sums = ((double)l->weight->dim[1] + 1) / l->norm_type;
    return l->renormalised ? (int)fmin(ceil(sums) + 2, 1e6) : 0;
}

static int read_after(void *arg, const ls_stage_sink *sink) {
    const rows_after *after = arg;
    int64_t dim = after->lookup->weight->dim[1];
    for (int k = 0; k < 2; k++) {
        if (after->count[k] == 0) {
            continue;
        }
        float *rows = ls_arena_alloc(after->arena, (size_t)(after->count[k] * dim), sizeof *rows);
        LS_TRY(rows != NULL ? LS_OK : LS_ERR_MEMORY);
        for (int64_t i = 0; i < after->count[k] * dim; i++) {
            rows[i] = after->weight[after->rows[k][i / dim] * dim + i % dim];
        }
        const ls_stage_output output = {.stage = "output_dist",
                                        .table = after_names[k],
                                        .feature = after_names[k],
                                        .field = "values",
                                        .dtype = LS_F32,
                                        .shape = LS_SHAPE(after->count[k], dim),
                                        .data = rows,
                                        .roundings = k == 0 ? norm_roundings(after->lookup) : 0};
        LS_TRY(sink->emit(sink->arg, &output));
    }
    return LS_OK;
}

static int split_rows(rows_after *after) {
    const ls_torch_lookup *l = after->lookup;
    int64_t rows = l->weight->dim[0];
    bool *touched = ls_arena_alloc(after->arena, (size_t)rows + 1, sizeof *touched);
    LS_TRY(touched != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int k = 0; k < 2; k++) {
        after->rows[k] = ls_arena_alloc(after->arena, (size_t)rows + 1, sizeof *after->rows[k]);
        LS_TRY(after->rows[k] != NULL ? LS_OK : LS_ERR_MEMORY);
    }
    for (size_t i = 0; i < l->ids->count; i++) {
        if (l->id_values[i] >= 0 && l->id_values[i] < rows) {
            touched[l->id_values[i]] = true;
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        int k = touched[row] ? 0 : 1;
        after->rows[k][after->count[k]++] = row;
    }
    return LS_OK;
}

int ls_torch__weight_after(ls_import *import, ls_torch_lookup *l, ls_arena *arena) {
    rows_after after = {.lookup = l, .arena = arena};
    float *weight = NULL;
    LS_TRY(read_like_weight(&weight, l, "weight_after", arena));
    if (weight == NULL) {
        return LS_OK;
    }
    after.weight = weight;
    LS_TRY(split_rows(&after));
    ls_text text = {0};
    ls_text_puts(&text, "lockstep: 1\nname: ");
    ls_import_quote(&text, l->name);
    ls_text_puts(&text, "\nmesh: {shape: [1]}\ntables:\n");
    for (int k = 0; k < 2; k++) {
        ls_text_printf(&text, "  - {name: %s, rows: %" PRId64 ", dim: %" PRId64 ", pooling: none",
                       after_names[k], l->weight->dim[0], l->weight->dim[1]);
        if (k == 0 && l->renormalised) {
            ls_text_printf(&text, ", max_norm: %.17g, norm_type: %.17g", l->max_norm, l->norm_type);
        }
        ls_text_puts(&text, ", weights: ");
        ls_torch__write_file(&text, l->name, "weight");
        ls_text_puts(&text, ", sharding: {type: data_parallel}}\n");
    }
    ls_text_puts(&text, "inputs:\n  batch: 1\n  features:\n");
    for (int k = 0; k < 2; k++) {
        ls_text_printf(&text, "    %s: {lengths: {constant: %" PRId64 "}, ids: {values: [",
                       after_names[k], after.count[k]);
        for (int64_t i = 0; i < after.count[k]; i++) {
            ls_text_printf(&text, "%s%" PRId64, i > 0 ? ", " : "", after.rows[k][i]);
        }
        ls_text_puts(&text, "]}}\n");
    }
    return ls_import_run_compared(import,
                                  &(ls_import_run){.stage = "weight_after",
                                                   .scenario = &text,
                                                   .gave = {.arg = &after, .read = read_after}});
}

// ---- Gradients ----------------------------------------------------------------------------------
typedef struct gradients_given {
    const ls_torch_lookup *lookup;
    float *weight;  // [rows, dim] or NULL
    float *per_id;  // [ids] or NULL
} gradients_given;

static int read_gradients(void *arg, const ls_stage_sink *sink) {
    const gradients_given *given = arg;
    const ls_torch_lookup *l = given->lookup;
    ls_stage_output output = {.table = "weight", .feature = "ids", .dtype = LS_F32};
    if (given->weight != NULL) {
        output.stage = "all_reduce";
        output.field = "gradients";
        output.shape = LS_SHAPE(l->weight->dim[0], l->weight->dim[1]);
        output.data = given->weight;
        // For a mean torch multiplies each gradient by the rounded 1/n. The sum's last rounding is
        // of the sum, not of its terms, and leaves room for one more rounding of each term but one.
        output.roundings = strcmp(ls_torch__mode(l), "mean") == 0 ? 1 : 0;
        LS_TRY(sink->emit(sink->arg, &output));
    }
    if (given->per_id != NULL) {
        output.stage = "input_dist_backward";
        output.field = "weights";
        output.shape = LS_SHAPE((int64_t)l->ids->count);
        output.data = given->per_id;
        output.roundings = 0;
        LS_TRY(sink->emit(sink->arg, &output));
    }
    return LS_OK;
}

int ls_torch__gradients(ls_import *import, ls_torch_lookup *l, ls_arena *arena) {
    gradients_given given = {.lookup = l};
    const ls_safetensor *output = NULL, *per_id = NULL;
    if (!json_is_true(json_object_get(l->args, "scale_grad_by_freq"))) {
        LS_TRY(read_like_weight(&given.weight, l, "grad_weight", arena));
    }
    if (l->bag && ls_safetensors_find(l->file, "grad_per_sample_weights") != NULL) {
        LS_TRY(ls_torch__find(&per_id, l->file, "grad_per_sample_weights", LS_F32));
        if (per_id->count != l->ids->count ||
            ls_safetensors_find(l->file, "per_sample_weights") == NULL) {
            return LS_FAIL(LS_ERR_FORMAT, "%zu gradients of the weights of %zu ids", per_id->count,
                           l->ids->count);
        }
        LS_TRY(ls_torch__read(&given.per_id, arena, l->file, per_id));
    }
    if (given.weight == NULL && given.per_id == NULL) {
        return LS_OK;
    }
    LS_TRY(ls_torch__find(&output, l->file, "grad_output", LS_F32));
    ls_text text = {0};
    ls_torch__write_lookup(&text, l, LS_DATA_PARALLEL, 1);
    ls_text_puts(&text, "steps: [forward, backward]\ntrain: {gradients: ");
    ls_torch__write_file(&text, l->name, "grad_output");
    ls_text_puts(&text, "}\n");
    return ls_import_run_compared(
        import, &(ls_import_run){.stage = "gradients",
                                 .scenario = &text,
                                 .gave = {.arg = &given, .read = read_gradients}});
}

// ---- Optimizers ---------------------------------------------------------------------------------
enum { STEPS_MAX = 1000 };

typedef struct trained {
    const ls_safetensors *file;
    ls_arena *arena;
    ls_shape shape;  // of the weights
    int64_t rows, dim;
    int steps;
} trained;

// The tensor of a step: grad_k or weight_k.
static int read_step(float **out, const trained *t, const char *what, int step) {
    char name[32];
    const ls_safetensor *tensor = NULL;
    (void)snprintf(name, sizeof name, "%s_%d", what, step);
    LS_TRY(ls_torch__find_shaped(&tensor, t->file, name, LS_F32, &t->shape));
    return ls_torch__read(out, t->arena, t->file, tensor);
}

static int read_steps(void *arg, const ls_stage_sink *sink) {
    const trained *t = arg;
    for (int step = 0; step < t->steps; step++) {
        char stage[32];
        float *weight = NULL;
        LS_TRY(read_step(&weight, t, "weight", step));
        (void)snprintf(stage, sizeof stage, t->steps > 1 ? "step%d.update" : "%.0dupdate", step);
        const ls_stage_output output = {.stage = stage,
                                        .table = "weight",
                                        .feature = "ids",
                                        .field = "weights",
                                        .dtype = LS_F32,
                                        .shape = LS_SHAPE(t->rows, t->dim),
                                        .data = weight};
        LS_TRY(sink->emit(sink->arg, &output));
    }
    return LS_OK;
}

// torch.optim's defaults, which are those of the dense form except for these.
static int write_optimizer(ls_text *out, const json_t *args) {
    static const char *const keys[][2] = {{"lr", "lr"},
                                          {"eps", "eps"},
                                          {"momentum", "momentum"},
                                          {"weight_decay", "weight_decay"},
                                          {"initial_accumulator_value", "initial_accumulator"}};
    const char *name = json_string_value(json_object_get(args, "name"));
    const json_t *betas = json_object_get(args, "betas");
    ls_optimizer_kind kind = LS_OPTIMIZER_SGD;
    if (name == NULL || ls_optimizer_parse(&kind, name) != LS_OK ||
        !ls_optimizer_about(kind)->dense_differs) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "torch.optim has no %.60s that lockstep knows",
                       name != NULL ? name : "optimizer without a name");
    }
    ls_text_printf(out, "optimizer: {type: %s, form: dense", name);
    if (json_object_get(args, "lr") == NULL) {
        bool moments = kind == LS_OPTIMIZER_ADAM || kind == LS_OPTIMIZER_ADAMW;
        const char *lr = kind == LS_OPTIMIZER_SGD ? "0.001" : "0.01";
        if (moments) {
            lr = "0.001";
        }
        ls_text_printf(out, ", lr: %s", lr);
    }
    if (kind == LS_OPTIMIZER_ADAMW && json_object_get(args, "weight_decay") == NULL) {
        ls_text_puts(out, ", weight_decay: 0.01");
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(args, keys[i][0]);
        if (json_is_number(value) && ls_optimizer_reads(kind, keys[i][1])) {
            ls_text_printf(out, ", %s: %.17g", keys[i][1], json_number_value(value));
        }
    }
    for (size_t i = 0; i < json_array_size(betas) && i < 2; i++) {
        ls_text_printf(out, ", beta%zu: %.17g", i + 1, json_number_value(json_array_get(betas, i)));
    }
    ls_text_puts(out, "}\n");
    return LS_OK;
}

// Every row is looked up once, so the gradients of the outputs are those of the weights.
static int write_steps(ls_text *out, const ls_import *import, const trained *t,
                       const json_t *args) {
    ls_text_puts(out, "lockstep: 1\nname: ");
    ls_import_quote(out, import->name);
    ls_text_printf(out,
                   "\nmesh: {shape: [1]}\ntables:\n  - {name: weight, rows: %" PRId64
                   ", dim: %" PRId64 ", pooling: none, features: ids, weights: ",
                   t->rows, t->dim);
    ls_torch__write_file(out, import->name, "weight");
    ls_text_printf(out,
                   ", sharding: {type: data_parallel}}\ninputs:\n  batch: %" PRId64
                   "\n  features: {ids: {lengths: {constant: 1}, ids: {values: [",
                   t->rows);
    for (int64_t row = 0; row < t->rows; row++) {
        ls_text_printf(out, "%s%" PRId64, row > 0 ? ", " : "", row);
    }
    ls_text_puts(out, "]}}}\nsteps: [forward, backward, update]\n");
    LS_TRY(write_optimizer(out, args));
    ls_text_printf(out, "train:\n  steps: %d\n  gradients: {values: [", t->steps);
    for (int step = 0; step < t->steps; step++) {
        float *gradient = NULL;
        LS_TRY(read_step(&gradient, t, "grad", step));
        for (int64_t i = 0; i < t->rows * t->dim; i++) {
            ls_text_printf(out, "%s%.9g", step + i > 0 ? ", " : "", (double)gradient[i]);
        }
    }
    ls_text_puts(out, "]}\n");
    return LS_OK;
}

static int replay_steps(ls_import *import, trained *t, const json_t *args) {
    const ls_safetensor *weight = NULL;
    char name[32];
    LS_TRY(ls_torch__find(&weight, t->file, "weight", LS_F32));
    t->shape = ls_torch__shape(weight);
    t->rows = weight->ndim > 0 ? weight->dim[0] : 0;
    t->dim = t->rows > 0 ? (int64_t)weight->count / t->rows : 0;
    do {
        (void)snprintf(name, sizeof name, "weight_%d", t->steps);
    } while (ls_safetensors_find(t->file, name) != NULL && ++t->steps < STEPS_MAX);
    if (t->dim == 0 || t->steps == 0) {
        return LS_FAIL(LS_ERR_FORMAT, "the file holds %s",
                       t->steps == 0 ? "no step" : "no weights");
    }
    ls_text text = {0};
    int status = write_steps(&text, import, t, args);
    if (status != LS_OK) {
        ls_text_free(&text);
        return status;
    }
    return ls_import_run_compared(
        import, &(ls_import_run){.scenario = &text, .gave = {.arg = t, .read = read_steps}});
}

const ls_import_key ls_torch__optimizer_keys[] = {
    {"lr", LS_IMPORT_NUMBER},
    {"eps", LS_IMPORT_NUMBER},
    {"momentum", LS_IMPORT_NUMBER},
    {"weight_decay", LS_IMPORT_NUMBER},
    {"initial_accumulator_value", LS_IMPORT_NUMBER},
    {"betas", LS_IMPORT_TWO_NUMBERS},
    {NULL, 0},
};

static void tell_rest(ls_import *import, const trained *t, const json_t *args) {
    static const char *const known[] = {
        "name",  "lr", "eps", "momentum", "weight_decay", "initial_accumulator_value",
        "betas", NULL};
    ls_import_unknown_keys(&import->unknown, args, known);
    for (size_t i = 0; i < ls_safetensors_count(t->file); i++) {
        const char *name = ls_safetensors_at(t->file, i)->name;
        bool read = strcmp(name, "weight") == 0;
        for (int step = 0; step < t->steps && !read; step++) {
            char weight[32], gradient[32];
            (void)snprintf(weight, sizeof weight, "weight_%d", step);
            (void)snprintf(gradient, sizeof gradient, "grad_%d", step);
            read = strcmp(name, weight) == 0 || strcmp(name, gradient) == 0;
        }
        if (!read) {
            ls_text_printf(&import->unknown, "%s%.100s", import->unknown.length > 0 ? ", " : "",
                           name);
        }
    }
}

int ls_torch__optimizer(ls_import *import, const ls_safetensors *file, const json_t *args) {
    trained t = {.file = file};
    LS_TRY(ls_arena_create(&t.arena));
    int status = replay_steps(import, &t, args);
    if (status == LS_OK) {
        tell_rest(import, &t, args);
    }
    ls_arena_free(t.arena);
    return status;
}
