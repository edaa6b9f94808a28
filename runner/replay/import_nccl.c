// Imports NCCL's results: a list of collectives, each with its result in a file. The inputs are
// SplitMix64 numbers of a seed.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/replay/import.h"

#define WORLD_MAX    64
#define CHANNELS_MAX 64

typedef struct nccl_result {
    const char *path;
    const char *collective, *dtype_name, *reduce, *algorithm, *protocol, *version;
    ls_dtype dtype;
    ls_op op;
    int world, channels;
    bool pinned, symmetric, scatters;
    int64_t count;
    uint64_t seed;
    size_t elements;  // in the file: of one rank, or of all if each has a block
    ls_arena *arena;
    const char *name;  // of the stage
} nccl_result;

static bool recognise(const json_t *root) {
    return json_is_array(root);
}

static int malformed(const ls_import *import, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s/%s': entry %zu (%s): %s", import->dir, import->list,
                   import->index, import->name, what);
}

static const char *text_of(const json_t *entry, const char *key) {
    return json_string_value(json_object_get(entry, key));
}

// An optional integer, or null.
static bool optional(int64_t *out, const json_t *entry, const char *key, int64_t least,
                     int64_t most) {
    const json_t *value = json_object_get(entry, key);
    *out = json_integer_value(value);
    return value == NULL || json_is_null(value) ||
           (json_is_integer(value) && *out >= least && *out <= most);
}

static int read_numbers(nccl_result *r, ls_import *import, const json_t *entry) {
    const json_t *world = json_object_get(entry, "world"), *count = json_object_get(entry, "count");
    const json_t *seed = json_object_get(entry, "seed");
    int64_t channels = 0, pinned = 0;
    if (!json_is_integer(world) || !json_is_integer(count) || !json_is_integer(seed) ||
        json_integer_value(world) < 1 || json_integer_value(count) < 0) {
        return malformed(import, "world, count or seed is missing or out of range");
    }
    if (json_integer_value(world) > WORLD_MAX) {
        import->skip = "more than 64 ranks";
        return LS_OK;
    }
    if (!optional(&channels, entry, "channels", 0, CHANNELS_MAX)) {
        return malformed(import, "channels is not a number from 0 to 64");
    }
    if (!optional(&pinned, entry, "pinned_channels", 1, 1)) {
        import->skip = "channels pinned to another number than 1";
    }
    r->world = (int)json_integer_value(world);
    r->count = json_integer_value(count);
    r->seed = (uint64_t)json_integer_value(seed);
    r->channels = (int)channels;
    r->pinned = pinned == 1;
    return LS_OK;
}

static int read_names(nccl_result *r, ls_import *import, const json_t *entry) {
    r->collective = text_of(entry, "op");
    r->dtype_name = text_of(entry, "dtype");
    r->reduce = text_of(entry, "reduce");
    r->algorithm = text_of(entry, "algo");
    r->protocol = text_of(entry, "proto");
    r->version = text_of(entry, "nccl");
    if (r->collective == NULL || r->dtype_name == NULL || r->reduce == NULL ||
        r->algorithm == NULL || r->protocol == NULL || r->version == NULL) {
        return malformed(import, "op, dtype, reduce, algo, proto or nccl is missing");
    }
    r->symmetric = strcmp(r->algorithm, "symmetric") == 0;
    r->scatters = strcmp(r->collective, "reduce_scatter") == 0;
    if (!r->scatters && strcmp(r->collective, "all_reduce") != 0) {
        import->skip = "a collective without a known result layout";
    }
    if (ls_dtype_parse(&r->dtype, r->dtype_name) != LS_OK ||
        ls_op_parse(&r->op, r->reduce) != LS_OK) {
        ls_error_clear();
        import->skip = "an unknown element type or reduce operation";
    } else if (!ls_op_supports(r->op, r->dtype)) {
        import->skip = "an operation that the element type does not have";
    }
    return LS_OK;
}

// ---- Results ------------------------------------------------------------------------------------
// The file's size is checked before anything is run.
static int check_size(nccl_result *r, const ls_import *import) {
    struct stat about;
    size_t bytes = 0;
    LS_TRY(ls_size_mul(&r->elements, (size_t)r->count, r->scatters ? (size_t)r->world : 1));
    LS_TRY(ls_size_mul(&bytes, r->elements, ls_dtype_bytes(r->dtype)));
    if (stat(r->path, &about) != 0) {
        return LS_FAIL(LS_ERR_IO, "replay: cannot read '%s'", r->path);
    }
    if (!S_ISREG(about.st_mode) || about.st_size < 0 || (size_t)about.st_size != bytes) {
        return LS_FAIL(LS_ERR_FORMAT, "replay: %s holds %lld bytes, its manifest says %zu",
                       import->name, (long long)about.st_size, bytes);
    }
    return LS_OK;
}

// All ranks had the same result of an all_reduce: the file has the first one's.
static int read_result(void *arg, const ls_stage_sink *sink) {
    const nccl_result *r = arg;
    char *data = NULL;
    size_t bytes = 0, width = ls_dtype_bytes(r->dtype);
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    int status = ls_file_read(&data, &bytes, arena, r->path, r->elements * width);
    if (status == LS_OK && bytes != r->elements * width) {
        status = LS_FAIL(LS_ERR_FORMAT, "replay: '%s' changed while it was read", r->path);
    }
    int ranks = r->scatters ? r->world : 1;
    if (r->count == 0) {
        ranks = 0;
    }
    for (int rank = 0; rank < ranks && status == LS_OK; rank++) {
        const ls_stage_output output = {.stage = r->name,
                                        .field = "recv",
                                        .rank = rank,
                                        .dtype = r->dtype,
                                        .shape = LS_SHAPE(r->count),
                                        .data = data + (size_t)(rank * r->count) * width};
        status = sink->emit(sink->arg, &output);
    }
    ls_arena_free(arena);
    return status;
}

// ---- Scenario -----------------------------------------------------------------------------------
// A symmetric-memory kernel's channels are its blocks; they are always recorded.
static const char *order_of(const nccl_result *r) {
    if (r->symmetric) {
        return ls_arena_printf(r->arena, "symmetric:kernel=%s,blocks=%d", r->protocol,
                               r->channels > 0 ? r->channels : 1);
    }
    return ls_arena_printf(r->arena, "%s:proto=%s,nccl=%s%s", r->algorithm, r->protocol, r->version,
                           r->pinned ? ",channels=1" : "");
}

static int write_scenario(ls_text *out, const nccl_result *r, const ls_import *import,
                          const json_t *entry) {
    ls_text_puts(out, "lockstep: 1\nname: ");
    ls_import_quote(out, import->name);
    ls_text_printf(out,
                   "\nseed: %llu\nmesh: {shape: [%d]}\nprogram:\n  steps:\n    - %s: {count: %lld, "
                   "dtype: %s, op: %s, values: splitmix, name: ",
                   (unsigned long long)r->seed, r->world, r->collective, (long long)r->count,
                   r->dtype_name, r->reduce);
    ls_import_quote(out, r->name);
    if (r->op == LS_PREMUL_SUM) {
        if (!ls_import_factors(out, entry, r->world)) {
            return malformed(import, "premul_sum needs factors, one number per rank");
        }
    }
    ls_text_puts(out, "}\n");
    return LS_OK;
}

static int check_order(ls_import *import, const char *text) {
    ls_order *order = NULL;
    int status = text != NULL ? ls_order_parse(&order, text) : LS_ERR_MEMORY;
    ls_order_free(order);
    if (status != LS_OK && status != LS_ERR_MEMORY) {
        ls_error_clear();
        import->skip = "an algorithm, protocol or NCCL version whose order is not known";
        return LS_OK;
    }
    return status;
}

static int import(ls_import *import, const json_t *entry) {
    nccl_result r = {.arena = import->arena};
    LS_TRY(ls_import_file(&r.path, import, json_object_get(entry, "file")));
    LS_TRY(read_names(&r, import, entry));
    LS_TRY(read_numbers(&r, import, entry));
    const char *order = order_of(&r);
    LS_TRY(import->skip == NULL ? check_order(import, order) : LS_OK);
    import->group = ls_arena_printf(import->arena, "world %d  %-14s  %-4s  %-4s  %-6s", r.world,
                                    r.collective, r.dtype_name, r.algorithm, r.protocol);
    r.name = ls_arena_printf(import->arena, "%s %s of %lld %s, %s %s", r.collective, r.reduce,
                             (long long)r.count, r.dtype_name, r.algorithm, r.protocol);
    if (import->skip != NULL) {
        return LS_OK;
    }
    LS_TRY(check_size(&r, import));
    ls_text text = {0};
    int status = write_scenario(&text, &r, import, entry);
    if (status != LS_OK) {
        ls_text_free(&text);
        return status;
    }
    return ls_import_run_compared(
        import, &(ls_import_run){.scenario = &text,
                                 .gave = {.arg = &r,
                                          .read = read_result,
                                          .order = order,
                                          .channels = r.pinned || r.symmetric ? 0 : r.channels}});
}

// env is the environment of the run; the other keys have its effects.
static const char *const keys[] = {
    "file", "world", "op",       "dtype", "reduce",  "count",           "seed", "env", "nccl",
    "algo", "proto", "channels", "note",  "factors", "pinned_channels", NULL};

const ls_importer ls_importer_nccl = {.of = "NCCL's results",
                                      .list = "manifest.json",
                                      .keys = keys,
                                      .recognise = recognise,
                                      .import = import};
