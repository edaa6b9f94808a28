// Reading what `lockstep exec --record DIR` kept with --payload or --hash: each collective of a job
// with what its members sent and received, whoever moved it.
//
// A collective that only moves data moves the hashes of its blocks alike, so hashes are a call's
// data like any other; those of an all_reduce must agree, as if its first member had sent its own
// to all. What another sum should be is not seen from hashes.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "formats/safetensors.h"
#include "runner/replay/import.h"

#define MEMBERS_MAX 1024

typedef struct exec_result {
    const char *path;
    const char *name;  // of the stage
    ls_kind kind;
    ls_dtype dtype;
    ls_op op;
    int64_t count, root;
    int members;
    bool hashed;
    const char *tensor;  // with what is sent
} exec_result;

static bool recognise(const json_t *root) {
    const char *made_by = json_string_value(json_object_get(root, "made_by"));
    return made_by != NULL && strcmp(made_by, "lockstep exec") == 0 &&
           json_is_array(json_object_get(root, "calls"));
}

static int malformed(const ls_import *import, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s/%s': entry %zu: %s", import->dir, import->list,
                   import->index, what);
}

static const char *text_of(const json_t *entry, const char *key) {
    const char *text = json_string_value(json_object_get(entry, key));
    return text != NULL ? text : "";
}

static int read_entry(exec_result *r, const ls_import *import, const json_t *entry) {
    const json_t *count = json_object_get(entry, "count"), *root = json_object_get(entry, "root");
    const json_t *ranks = json_object_get(entry, "ranks");
    const char *op = text_of(entry, "op");
    if (ls_kind_parse(&r->kind, text_of(entry, "call")) != LS_OK ||
        ls_dtype_parse(&r->dtype, text_of(entry, "dtype")) != LS_OK ||
        (op[0] != 0 && ls_op_parse(&r->op, op) != LS_OK)) {
        return malformed(import, "its call, dtype or op is none");
    }
    r->hashed = json_is_true(json_object_get(entry, "hashed"));
    r->tensor = "send";
    r->members = (int)json_array_size(ranks);
    r->count = json_integer_value(count);
    r->root = json_integer_value(root);
    if (!json_is_integer(count) || !json_is_integer(root) || r->count < 0 || r->members < 1 ||
        r->members > MEMBERS_MAX || r->root < 0 || r->root >= r->members) {
        return malformed(import, "its count, root or ranks are missing or out of range");
    }
    return LS_OK;
}

// What each member received.
static int read_result(void *arg, const ls_stage_sink *sink) {
    const exec_result *r = arg;
    ls_safetensors *file = NULL;
    LS_TRY(ls_safetensors_open(&file, r->path));
    ls_arena *arena = NULL;
    int status = ls_arena_create(&arena);
    for (int m = 0; m < r->members && status == LS_OK; m++) {
        char key[32];
        (void)snprintf(key, sizeof key, "recv/%d", m);
        const ls_safetensor *tensor = ls_safetensors_find(file, key);
        if (tensor == NULL) {
            continue;  // it receives nothing
        }
        void *data = ls_arena_alloc(arena, tensor->bytes + 1, 1);
        status = data == NULL ? LS_ERR_MEMORY : LS_OK;
        if (status == LS_OK && tensor->dtype != (int)r->dtype) {
            status = LS_FAIL(LS_ERR_FORMAT, "'%s': %s has another type", r->path, key);
        }
        if (status == LS_OK) {
            status = ls_safetensors_read(data, tensor->bytes, file, tensor);
        }
        const ls_stage_output output = {.stage = r->name,
                                        .field = "recv",
                                        .rank = m,
                                        .dtype = r->dtype,
                                        .shape = LS_SHAPE((int64_t)tensor->count),
                                        .data = data};
        status = status == LS_OK ? sink->emit(sink->arg, &output) : status;
    }
    ls_arena_free(arena);
    ls_safetensors_free(file);
    return status;
}

static int write_factors(ls_text *out, const exec_result *r, const ls_import *import,
                         const json_t *factors) {
    bool all = json_array_size(factors) == (size_t)r->members;
    ls_text_puts(out, ", factors: [");
    for (size_t k = 0; k < json_array_size(factors); k++) {
        const json_t *factor = json_array_get(factors, k);
        all = all && json_is_number(factor);
        ls_text_printf(out, "%s%.17g", k > 0 ? ", " : "", json_number_value(factor));
    }
    ls_text_puts(out, "]");
    return all ? LS_OK : malformed(import, "premul_sum needs factors, one number per member");
}

static int write_scenario(ls_text *out, const exec_result *r, const ls_import *import,
                          const json_t *entry) {
    const ls_collective *collective = ls_collective_of(r->kind);
    ls_text_puts(out, "lockstep: 1\nname: ");
    ls_import_quote(out, import->name);
    ls_text_printf(out,
                   "\nmesh: {shape: [%d]}\nprogram:\n  steps:\n    - %s: {count: %lld, dtype: %s, ",
                   r->members, ls_kind_name(r->kind), (long long)r->count, ls_dtype_name(r->dtype));
    if (collective->reduces) {
        ls_text_printf(out, "op: %s, ", ls_op_name(r->op));
    }
    if (collective->root_word != NULL) {
        ls_text_printf(out, "root: %lld, ", (long long)r->root);
    }
    ls_text_puts(out, "values: {file: ");
    ls_import_quote(out, import->file);
    ls_text_printf(out, ", tensor: %s}, name: ", r->tensor);
    ls_import_quote(out, r->name);
    if (collective->reduces && r->op == LS_PREMUL_SUM) {
        LS_TRY(write_factors(out, r, import, json_object_get(entry, "factors")));
    }
    ls_text_puts(out, "}\n");
    return LS_OK;
}

// The call that moves the hashes of this one.
static void move_hashes(exec_result *r) {
    if (r->kind == LS_ALL_REDUCE) {
        r->kind = LS_BROADCAST;
        r->root = 0;
        r->tensor = "agreed";
    }
    r->dtype = LS_U64;
    r->count = 1;
}

// The place without its folders: names of stages have no slashes.
static const char *place_of(const json_t *entry) {
    const char *where = text_of(entry, "where"), *slash = strrchr(where, '/');
    return slash != NULL ? slash + 1 : where;
}

static int import(ls_import *import, const json_t *entry) {
    exec_result r = {.op = LS_SUM};
    if (json_object_get(entry, "file") == NULL) {
        import->name = ls_arena_printf(import->arena, "call %zu", import->index);
        import->skip = "what it sent and received was not kept (exec --payload keeps it)";
        return import->name != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    LS_TRY(ls_import_file(&r.path, import, json_object_get(entry, "file")));
    LS_TRY(read_entry(&r, import, entry));
    const char *op = ls_collective_of(r.kind)->reduces ? ls_op_name(r.op) : "";
    import->group = ls_arena_printf(import->arena, "%d ranks  %-14s  %-10s  %-6s", r.members,
                                    ls_kind_name(r.kind), op, ls_dtype_name(r.dtype));
    r.name = ls_arena_printf(import->arena, "%s %s%sof %lld %s at %.200s", ls_kind_name(r.kind), op,
                             op[0] != 0 ? " " : "", (long long)r.count, ls_dtype_name(r.dtype),
                             place_of(entry));
    bool sums = ls_collective_of(r.kind)->reduces;
    if (r.name != NULL && r.hashed && sums && r.kind != LS_ALL_REDUCE) {
        import->name = r.name;
        import->skip = "hashes do not tell what a sum should be (exec --payload does)";
        return LS_OK;
    }
    if (r.hashed) {
        move_hashes(&r);
    }
    ls_text text = {0};
    int status = r.name != NULL && import->group != NULL ? LS_OK : LS_ERR_MEMORY;
    status = status == LS_OK ? write_scenario(&text, &r, import, entry) : status;
    if (status != LS_OK) {
        ls_text_free(&text);
        return status;
    }
    return ls_import_run_compared(
        import, &(ls_import_run){.scenario = &text, .gave = {.arg = &r, .read = read_result}});
}

static const char *const list_keys[] = {"made_by", "format", "backend", "calls", NULL};
static const char *const keys[] = {"file",  "hashed",  "call",    "dtype", "count",
                                   "op",    "root",    "factors", "ranks", "communicator",
                                   "where", "purpose", NULL};

const ls_importer ls_importer_exec = {.of = "a job's collectives",
                                      .list = "exec.json",
                                      .results = "calls",
                                      .list_keys = list_keys,
                                      .keys = keys,
                                      .recognise = recognise,
                                      .import = import};
