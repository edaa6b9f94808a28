// Imports DTensor's shards: for each mesh, size and placements, every rank's part of arange(size).
// The scenario shards, scatters and redistributes the tensor, and gathers it again.
#include <stdio.h>
#include <string.h>

#include "runner/replay/import.h"

#define ELEMENTS_MAX ((int64_t)1 << 24)  // of the whole on all ranks

typedef struct dtensor_result {
    const json_t *entry;
    int64_t ranks, count;
    ls_shape shape;
} dtensor_result;

static bool recognise(const json_t *root) {
    return json_is_array(root);
}

static int malformed(const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "%s is missing or malformed", what);
}

// Sizes and their product.
static int read_sizes(ls_shape *out, int64_t *product, const json_t *array, const char *what) {
    *product = 1;
    if (!json_is_array(array) || json_array_size(array) > LS_DIMS_MAX) {
        return malformed(what);
    }
    out->ndim = (int)json_array_size(array);
    for (int d = 0; d < out->ndim; d++) {
        const json_t *item = json_array_get(array, (size_t)d);
        out->dim[d] = json_integer_value(item);
        if (!json_is_integer(item) || out->dim[d] < 0 || out->dim[d] > ELEMENTS_MAX) {
            return malformed(what);
        }
        *product =
            *product * out->dim[d] > ELEMENTS_MAX ? ELEMENTS_MAX + 1 : *product * out->dim[d];
    }
    return LS_OK;
}

// ---- Results ------------------------------------------------------------------------------------
static int emit(const ls_stage_sink *sink, const char *stage, const char *tensor, const char *field,
                int rank, const ls_shape *shape, const float *data) {
    const ls_stage_output output = {.stage = stage,
                                    .table = tensor,
                                    .field = field,
                                    .rank = rank,
                                    .dtype = LS_F32,
                                    .shape = *shape,
                                    .data = data};
    return sink->emit(sink->arg, &output);
}

// A rank's [shape, values], which every way must give.
static int read_shard(const ls_stage_sink *sink, const json_t *local, int rank) {
    const json_t *values = json_array_get(local, 1);
    ls_shape shape = {0};
    int64_t count = 0;
    void *memory = NULL;
    LS_TRY(json_array_size(local) == 2 ? LS_OK : malformed("local"));
    LS_TRY(read_sizes(&shape, &count, json_array_get(local, 0), "local"));
    if (!json_is_array(values) || json_array_size(values) != (size_t)count) {
        return malformed("local");
    }
    LS_TRY(ls_alloc(&memory, (size_t)count, sizeof(float)));
    float *data = memory;
    int status = LS_OK;
    for (int64_t i = 0; i < count && status == LS_OK; i++) {
        const json_t *value = json_array_get(values, (size_t)i);
        data[i] = (float)json_number_value(value);
        status = json_is_number(value) && (double)data[i] == json_number_value(value)
                     ? LS_OK
                     : malformed("local");
    }
    status =
        status == LS_OK ? emit(sink, "tensors", "distribute", "shard", rank, &shape, data) : status;
    status =
        status == LS_OK ? emit(sink, "tensors", "scatter", "shard", rank, &shape, data) : status;
    status = status == LS_OK
                 ? emit(sink, "redistribute", "redistribute", "shard", rank, &shape, data)
                 : status;
    ls_free(memory, (size_t)count, sizeof(float));
    return status;
}

// If torch could not gather the whole from its shards, there is no result.
static int emit_whole(const ls_stage_sink *sink, const dtensor_result *r) {
    const json_t *back = json_object_get(r->entry, "full_ok");
    const ls_shape none = {.ndim = 1};
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)r->count, sizeof(float)));
    float *data = memory;
    for (int64_t i = 0; i < r->count; i++) {
        data[i] = (float)i;
    }
    bool whole = back == NULL || json_is_true(back);
    int status = emit(sink, "full", "distribute", "full", 0, whole ? &r->shape : &none, data);
    ls_free(memory, (size_t)r->count, sizeof(float));
    return status;
}

static int read_result(void *arg, const ls_stage_sink *sink) {
    const dtensor_result *r = arg;
    const json_t *local = json_object_get(r->entry, "local");
    if (!json_is_object(local) || json_object_size(local) != (size_t)r->ranks) {
        return malformed("local");
    }
    for (int rank = 0; rank < r->ranks; rank++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", rank);
        LS_TRY(read_shard(sink, json_object_get(local, key), rank));
    }
    return emit_whole(sink, r);
}

// ---- Scenario -----------------------------------------------------------------------------------
static void write_sizes(ls_text *out, const json_t *array) {
    ls_text_puts(out, "[");
    for (size_t i = 0; i < json_array_size(array); i++) {
        ls_text_printf(out, "%s%lld", i > 0 ? ", " : "",
                       (long long)json_integer_value(json_array_get(array, i)));
    }
    ls_text_puts(out, "]");
}

static void write_tensor(ls_text *out, const char *name, const json_t *size, const char *placements,
                         const char *more) {
    ls_text_printf(out, "    - {name: %s, shape: ", name);
    write_sizes(out, size);
    ls_text_puts(out, ", placements: ");
    ls_import_quote(out, placements);
    ls_text_printf(out, "%s}\n", more);
}

static void write_scenario(ls_text *out, const ls_import *import, const json_t *entry,
                           const char *placements, const char *replicate) {
    const json_t *size = json_object_get(entry, "size");
    ls_text_puts(out, "lockstep: 1\nname: ");
    ls_import_quote(out, import->name);
    ls_text_puts(out, "\nmesh: {shape: ");
    write_sizes(out, json_object_get(entry, "mesh"));
    ls_text_puts(out, "}\nprogram:\n  tensors:\n");
    write_tensor(out, "distribute", size, placements, "");
    write_tensor(out, "scatter", size, placements, ", source: 0");
    write_tensor(out, "whole", size, replicate, "");
    ls_text_puts(out, "  steps:\n    - redistribute: {name: redistribute, tensor: whole, "
                      "into: redistribute, to: ");
    ls_import_quote(out, placements);
    ls_text_puts(out, "}\n    - full: {name: full, tensor: distribute}\n");
}

static int import(ls_import *import, const json_t *entry) {
    const json_t *placements = json_object_get(entry, "placements");
    const json_t *world = json_object_get(entry, "world");
    dtensor_result r = {.entry = entry};
    ls_shape mesh;
    ls_text text = {0}, all = {0}, one = {0};
    LS_TRY(read_sizes(&mesh, &r.ranks, json_object_get(entry, "mesh"), "mesh"));
    LS_TRY(read_sizes(&r.shape, &r.count, json_object_get(entry, "size"), "size"));
    const json_t *whole = json_object_get(entry, "full_ok");
    if (whole != NULL && !json_is_boolean(whole)) {
        return malformed("full_ok");
    }
    if (world != NULL && (!json_is_integer(world) || json_integer_value(world) != r.ranks)) {
        return malformed("world");
    }
    if (r.ranks * r.count > ELEMENTS_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "%lld ranks and %lld elements are too many",
                       (long long)r.ranks, (long long)r.count);
    }
    for (size_t i = 0; i < json_array_size(placements); i++) {
        const char *placement = json_string_value(json_array_get(placements, i));
        const char *comma = i > 0 ? ", " : "";
        ls_text_printf(&one, "%s%.100s", comma, placement != NULL ? placement : "?");
        ls_text_printf(&all, "%sR", comma);
    }
    import->name = ls_arena_printf(import->arena, "%s %s", import->name, ls_text_string(&one));
    if (import->name != NULL && !one.failed && !all.failed) {
        write_scenario(&text, import, entry, ls_text_string(&one), ls_text_string(&all));
    }
    ls_text_free(&one);
    ls_text_free(&all);
    return ls_import_run_compared(
        import, &(ls_import_run){.scenario = &text, .gave = {.arg = &r, .read = read_result}});
}

static const char *const keys[] = {"mesh", "size", "placements", "local", "world", "full_ok", NULL};

const ls_importer ls_importer_dtensor = {.of = "DTensor's shards",
                                         .list = "dtensor_?*.json",
                                         .keys = keys,
                                         .recognise = recognise,
                                         .import = import};
