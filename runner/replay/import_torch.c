// Imports torch's results of embedding and embedding_bag: the same weights and ids through sharded
// modules, with every sharding type on several worlds. import_torch_train.c has training,
// import_torch_quantised.c quantised rows.
#include <string.h>

#include "planner/plan.h"
#include "runner/replay/import_torch.h"

typedef ls_torch_lookup lookup;

static bool recognise(const json_t *root) {
    return json_object_get(root, "torch") != NULL && json_is_array(json_object_get(root, "cases"));
}

static const char *why_skipped(const char *kind, const lookup *l) {
    if (strcmp(kind, "optimizer") == 0) {
        return NULL;
    }
    if (!l->bag && strcmp(kind, "embedding") != 0) {
        return "a kind of result that lockstep does not know";
    }
    if (l->renormalised && !(l->max_norm > 0 && l->norm_type > 0)) {
        return "a max_norm or norm_type that is not above 0";
    }
    const char *mode = ls_torch__mode(l);
    bool known = strcmp(mode, "sum") == 0 || strcmp(mode, "mean") == 0 || strcmp(mode, "max") == 0;
    return l->bag && !known ? "a mode that lockstep does not know" : NULL;
}

static const ls_import_key lookup_keys[] = {
    {"padding_idx", LS_IMPORT_INTEGER | LS_IMPORT_NULL},
    {"max_norm", LS_IMPORT_NUMBER | LS_IMPORT_NULL},
    {"norm_type", LS_IMPORT_NUMBER},
    {"sparse", LS_IMPORT_BOOLEAN},
    {"scale_grad_by_freq", LS_IMPORT_BOOLEAN},
    {"mode", LS_IMPORT_TEXT},
    {"include_last_offset", LS_IMPORT_BOOLEAN},
    {NULL, 0},
};

static void read_norm(lookup *l) {
    const json_t *max_norm = json_object_get(l->args, "max_norm");
    const json_t *norm_type = json_object_get(l->args, "norm_type");
    l->renormalised = max_norm != NULL && !json_is_null(max_norm);
    l->max_norm = json_number_value(max_norm);
    l->norm_type = norm_type != NULL ? json_number_value(norm_type) : 2;
}

static int find(const ls_safetensor **out, const lookup *l, const char *name, ls_dtype dtype) {
    return ls_torch__find(out, l->file, name, dtype);
}

// Bags of an embedding_bag call: offsets with or without the last one; the lengths must agree.
static int read_bags(lookup *l, ls_arena *arena) {
    bool include_last = json_is_true(json_object_get(l->args, "include_last_offset"));
    const ls_safetensor *offsets = NULL, *lengths = ls_safetensors_find(l->file, "lengths");
    int64_t *at = NULL, *told = NULL, ids = (int64_t)l->ids->count;
    LS_TRY(find(&offsets, l, "offsets", LS_I64));
    if (offsets->ndim != 1 || l->ids->ndim != 1) {
        return LS_FAIL(LS_ERR_FORMAT, "ids or offsets are not of one dimension");
    }
    LS_TRY(ls_torch__read(&at, arena, l->file, offsets));
    l->batch = (int64_t)offsets->count - (include_last ? 1 : 0);
    if (l->batch < 0 || (include_last && at[l->batch] != ids)) {
        return LS_FAIL(LS_ERR_FORMAT, "the last offset is not the number of ids");
    }
    if (lengths != NULL) {
        LS_TRY(ls_torch__find_shaped(&lengths, l->file, "lengths", LS_I64, &LS_SHAPE(l->batch)));
        LS_TRY(ls_torch__read(&told, arena, l->file, lengths));
    }
    bool same = true;
    l->lengths = ls_arena_alloc(arena, (size_t)l->batch, sizeof *l->lengths);
    LS_TRY(l->lengths != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int64_t b = 0; b < l->batch; b++) {
        int64_t end = b + 1 < (int64_t)offsets->count ? at[b + 1] : ids;
        if (at[b] < 0 || end < at[b] || end > ids || (b == 0 && at[b] != 0)) {
            return LS_FAIL(LS_ERR_FORMAT, "bag %lld runs from %lld to %lld of %lld ids",
                           (long long)b, (long long)at[b], (long long)end, (long long)ids);
        }
        l->lengths[b] = end - at[b];
        same = same && (told == NULL || told[b] == l->lengths[b]);
    }
    return same ? LS_OK : LS_FAIL(LS_ERR_FORMAT, "lengths and offsets describe different bags");
}

// Samples of an embedding call: the first dimension of ids. Without ids there is nothing to look
// up, whatever number of samples the shape gives.
static int make_samples(lookup *l, ls_arena *arena) {
    int64_t ids = (int64_t)l->ids->count;
    l->batch = 0;
    if (ids != 0) {
        l->batch = l->ids->ndim > 0 ? l->ids->dim[0] : 1;
    }
    l->lengths = ls_arena_alloc(arena, (size_t)l->batch, sizeof *l->lengths);
    LS_TRY(l->lengths != NULL ? LS_OK : LS_ERR_MEMORY);
    for (int64_t b = 0; b < l->batch; b++) {
        l->lengths[b] = ids / l->batch;
    }
    return LS_OK;
}

// The value of each id: the bag's weight, or without bags the output's row.
static int check_shapes(const lookup *l) {
    const ls_safetensor *tensor = NULL;
    ls_shape ids = ls_torch__shape(l->ids), weight = ls_torch__shape(l->weight), output = ids;
    if (l->bag) {
        output = LS_SHAPE(l->batch, weight.dim[1]);
    } else if (ids.ndim < LS_DIMS_MAX) {
        output.dim[output.ndim++] = weight.dim[1];
    }
    const struct {
        const char *name;
        const ls_shape *shape;
    } all[] = {{"output", &output},          {"grad_output", &output},
               {"weight_after", &weight},    {"grad_weight", &weight},
               {"per_sample_weights", &ids}, {"grad_per_sample_weights", &ids}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (ls_safetensors_find(l->file, all[i].name) != NULL) {
            LS_TRY(ls_torch__find_shaped(&tensor, l->file, all[i].name, LS_F32, all[i].shape));
        }
    }
    return LS_OK;
}

static int read_lookup(lookup *l, ls_arena *arena) {
    LS_TRY(find(&l->weight, l, "weight", LS_F32));
    LS_TRY(find(&l->output, l, "output", LS_F32));
    LS_TRY(find(&l->ids, l, "ids", LS_I64));
    if (l->weight->ndim != 2) {
        return LS_FAIL(LS_ERR_FORMAT, "tensor weight is not a matrix");
    }
    LS_TRY(l->bag ? read_bags(l, arena) : make_samples(l, arena));
    LS_TRY(check_shapes(l));
    LS_TRY(ls_torch__read(&l->id_values, arena, l->file, l->ids));
    return ls_torch__read(&l->values, arena, l->file, l->output);
}

// ---- Results ------------------------------------------------------------------------------------
// Each rank has a chunk of the samples.
static int read_output(void *arg, const ls_stage_sink *sink) {
    const lookup *l = arg;
    int64_t sample = 0, row = 0, dim = l->weight->dim[1];
    for (int rank = 0; rank < l->ranks; rank++) {
        int64_t offset = 0, batch = 0, rows = 0;
        ls_chunk(&offset, &batch, l->batch, l->ranks, rank);
        for (int64_t b = sample; b < sample + batch; b++) {
            rows += l->bag ? 1 : l->lengths[b];
        }
        // torch multiplies a bag's sum by the rounded 1/n.
        const ls_stage_output output = {.stage = "output_dist",
                                        .table = "weight",
                                        .feature = "ids",
                                        .field = "values",
                                        .rank = rank,
                                        .dtype = LS_F32,
                                        .shape = LS_SHAPE(rows, dim),
                                        .data = l->values + row * dim,
                                        .roundings =
                                            strcmp(ls_torch__mode(l), "mean") == 0 ? 1 : 0};
        LS_TRY(sink->emit(sink->arg, &output));
        sample += batch;
        row += rows;
    }
    return LS_OK;
}

static int run_sharded(ls_import *import, lookup *l, ls_sharding sharding, int ranks) {
    ls_text text = {0};
    ls_torch__write_lookup(&text, l, sharding, ranks);
    const ls_import_run run = {.stage = ls_arena_printf(import->arena, "%s on %d rank%s",
                                                        ls_sharding_name(sharding), ranks,
                                                        ranks == 1 ? "" : "s"),
                               .scenario = &text,
                               .gave = {.arg = l, .read = read_output}};
    return ls_import_run_compared(import, &run);
}

// ---- Results that nothing replays ---------------------------------------------------------------
static int tell_rest(ls_import *import, const lookup *l) {
    // Other arguments may change the output; sparse is the form of the gradients.
    static const char *const args[] = {
        "padding_idx",        "max_norm", "norm_type",           "sparse",
        "scale_grad_by_freq", "mode",     "include_last_offset", NULL};
    static const char *const tensors[] = {
        "weight",      "output",  "ids",     "weight_after",       "grad_output",
        "grad_weight", "offsets", "lengths", "per_sample_weights", "grad_per_sample_weights"};
    const size_t alone = 6;  // the arguments of a plain embedding
    ls_import_unknown_keys(&import->unknown, l->args, args);
    for (size_t i = 0; i < ls_safetensors_count(l->file); i++) {
        const char *name = ls_safetensors_at(l->file, i)->name;
        bool read = false;
        for (size_t k = 0; k < (l->bag ? sizeof tensors / sizeof *tensors : alone); k++) {
            read = read || strcmp(tensors[k], name) == 0;
        }
        if (!read) {
            ls_text_printf(&import->unknown, "%s%.100s", import->unknown.length > 0 ? ", " : "",
                           name);
        }
    }
    bool scaled = json_is_true(json_object_get(l->args, "scale_grad_by_freq"));
    return !scaled || ls_safetensors_find(l->file, "grad_weight") == NULL
               ? LS_OK
               : ls_import_untold(import, "gradients",
                                  "grad_weight, scaled by how often ids occur");
}

static int replay(ls_import *import, lookup *l) {
    static const int worlds[] = {1, 3, 4};
    const ls_safetensor *weight = ls_safetensors_find(l->file, "weight");
    if (weight != NULL && weight->dtype != LS_F32) {
        import->skip = "weights that are not f32 are not replayed";
        return LS_OK;
    }
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    int status = read_lookup(l, arena);
    for (int w = 0; w < 3 && status == LS_OK; w++) {
        for (int s = 0; s < LS_SHARDING_COUNT && status == LS_OK; s++) {
            status = run_sharded(import, l, (ls_sharding)s, worlds[w]);
        }
    }
    status = status == LS_OK ? ls_torch__weight_after(import, l, arena) : status;
    status = status == LS_OK ? ls_torch__gradients(import, l, arena) : status;
    ls_arena_free(arena);
    return status == LS_OK ? tell_rest(import, l) : status;
}

static int import(ls_import *import, const json_t *entry) {
    const char *kind = json_string_value(json_object_get(entry, "kind")), *path = NULL;
    lookup l = {.args = json_object_get(entry, "args")};
    ls_safetensors *file = NULL;
    LS_TRY(ls_import_file(&path, import, json_object_get(entry, "file")));
    if (kind == NULL || !json_is_object(l.args)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s/%s': entry %zu lacks kind or args", import->dir,
                       import->list, import->index);
    }
    l.name = import->name;
    l.bag = strcmp(kind, "embedding_bag") == 0;
    bool rows = strcmp(kind, "quantized_rows") == 0;
    read_norm(&l);
    import->skip = rows ? NULL : why_skipped(kind, &l);
    if (!rows) {
        bool steps = strcmp(kind, "optimizer") == 0;
        LS_TRY(ls_import_skip_mistyped(import, l.args,
                                       steps ? ls_torch__optimizer_keys : lookup_keys));
    }
    if (import->skip != NULL) {
        return LS_OK;
    }
    LS_TRY(ls_safetensors_open(&file, path));
    l.file = file;
    int status;
    if (rows) {
        status = ls_torch__quantised(import, file, l.args);
    } else {
        status = strcmp(kind, "optimizer") == 0 ? ls_torch__optimizer(import, file, l.args)
                                                : replay(import, &l);
    }
    ls_safetensors_free(file);
    return status == LS_OK ? LS_OK : ls_error_wrap("'%s'", path);
}

static const char *const list_keys[] = {"torch", "seed", "cases", NULL};
static const char *const keys[] = {"file", "kind", "args", "torch_op", NULL};

const ls_importer ls_importer_torch = {.of = "torch's results",
                                       .list = "manifest.json",
                                       .results = "cases",
                                       .list_keys = list_keys,
                                       .keys = keys,
                                       .recognise = recognise,
                                       .import = import};
