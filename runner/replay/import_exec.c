// Imports recordings of `lockstep exec --record DIR` with --payload or --hash: each collective with
// the sent and received data of its members, and the collective that moves it.
//
// A collective that only moves data moves the hashes of its blocks alike, so hashes are data like
// any other. For an all_reduce the results' hashes must agree, as if its first member had broadcast
// its own. Hashes cannot show the correct result of a sum.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "formats/safetensors.h"
#include "runner/replay/import.h"

#define MEMBERS_MAX 1024
#define RANKS_MAX   (1 << 20)

typedef struct exec_result {
    const char *path;
    const char *name;  // of the stage
    ls_kind kind;
    ls_dtype dtype;
    ls_op op;
    int64_t count, root;
    int members;
    bool hashed;
    const char *tensor;  // with the sent data
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

// The same of the call's file.
static int unlike(const ls_import *import, const char *tensor, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s/%s': entry %zu, %s: tensor %.100s %s", import->dir,
                   import->list, import->index, import->file, tensor, what);
}

static const char *text_of(const json_t *entry, const char *key) {
    const char *text = json_string_value(json_object_get(entry, key));
    return text != NULL ? text : "";
}

// Its members: ranks of the world, each once.
static int read_ranks(const ls_import *import, const json_t *entry) {
    const json_t *ranks = json_object_get(entry, "ranks"), *world = json_object_get(entry, "world");
    json_int_t limit = world != NULL ? json_integer_value(world) : RANKS_MAX;
    if (world != NULL && (!json_is_integer(world) || limit < 1)) {
        return malformed(import, "its world is not a number of ranks");
    }
    for (size_t m = 0; m < json_array_size(ranks); m++) {
        const json_t *rank = json_array_get(ranks, m);
        json_int_t value = json_integer_value(rank);
        if (!json_is_integer(rank) || value < 0 || value >= limit) {
            return malformed(import, "its ranks are not all in the world");
        }
        for (size_t k = 0; k < m; k++) {
            if (json_integer_value(json_array_get(ranks, k)) == value) {
                return malformed(import, "its ranks are not distinct");
            }
        }
    }
    return LS_OK;
}

static int read_entry(exec_result *r, const ls_import *import, const json_t *entry) {
    const json_t *count = json_object_get(entry, "count"), *root = json_object_get(entry, "root");
    const json_t *ranks = json_object_get(entry, "ranks");
    const json_t *hashed = json_object_get(entry, "hashed");
    const char *op = text_of(entry, "op");
    if (ls_kind_parse(&r->kind, text_of(entry, "call")) != LS_OK ||
        ls_dtype_parse(&r->dtype, text_of(entry, "dtype")) != LS_OK ||
        (op[0] != 0 && ls_op_parse(&r->op, op) != LS_OK)) {
        return malformed(import, "its call, dtype or op is unknown");
    }
    const ls_collective *collective = ls_collective_of(r->kind);
    if (ls_kind_is_message(r->kind) || !ls_collective_has_data(collective)) {
        return malformed(import, "its call is not a collective with data");
    }
    if (collective->reduces && op[0] == 0) {
        return malformed(import, "it reduces, but has no op");
    }
    if (hashed != NULL && !json_is_boolean(hashed)) {
        return malformed(import, "hashed is neither true nor false");
    }
    r->hashed = json_is_true(hashed);
    r->tensor = "send";
    r->members = (int)json_array_size(ranks);
    r->count = json_integer_value(count);
    r->root = json_integer_value(root);
    if (!json_is_integer(count) || !json_is_integer(root) || r->count < 0 || r->members < 1 ||
        r->members > MEMBERS_MAX || r->root < 0 || r->root >= r->members) {
        return malformed(import, "its count, root or ranks are missing or out of range");
    }
    return read_ranks(import, entry);
}

// ---- Its file -----------------------------------------------------------------------------------
// Elements of a member's side, or their hashes: one for each block, or one for the whole side of a
// sum.
static int due_to(size_t *out, const exec_result *r, const ls_side *side, int member) {
    bool blocks =
        side->form == LS_SIDE_BLOCKS && !(r->hashed && ls_collective_of(r->kind)->reduces);
    bool none = side->form == LS_SIDE_NONE || (side->root_only && member != r->root);
    size_t blocks_of = blocks ? (size_t)r->members : 1;
    if (none) {
        blocks_of = 0;
    }
    return ls_size_mul(out, r->hashed ? 1 : (size_t)r->count, blocks_of);
}

// A tensor must have the size of the kind's side; an empty shape has none.
static int check_tensor(const exec_result *r, const ls_import *import, const ls_safetensors *file,
                        const char *name, const ls_shape *shape) {
    const ls_safetensor *tensor = ls_safetensors_find(file, name);
    bool any = shape->dim[shape->ndim - 1] > 0;
    if (tensor == NULL) {
        return any ? unlike(import, name, "is missing") : LS_OK;
    }
    if (!any) {
        return unlike(import, name, "is present, but the call gives that member no elements");
    }
    if (tensor->dtype != (int)(r->hashed ? LS_U64 : r->dtype)) {
        return unlike(import, name, "has another type than the call");
    }
    bool same = tensor->ndim == shape->ndim;
    for (int d = 0; same && d < shape->ndim; d++) {
        same = tensor->dim[d] == shape->dim[d];
    }
    if (!same) {
        char due[LS_SHAPE_TEXT_MAX], what[LS_SHAPE_TEXT_MAX + 32];
        ls_shape_format(due, sizeof due, shape);
        (void)snprintf(what, sizeof what, "is not of shape %s", due);
        return unlike(import, name, what);
    }
    return LS_OK;
}

static bool is_known(const exec_result *r, const char *name) {
    bool known = strcmp(name, "send") == 0 || (r->hashed && strcmp(name, "agreed") == 0);
    for (int m = 0; m < r->members && !known; m++) {
        char own[32];
        (void)snprintf(own, sizeof own, "recv/%d", m);
        known = strcmp(name, own) == 0;
    }
    return known;
}

// The sent data of all members, and the expected data of each; nothing else.
static int check_tensors(const exec_result *r, const ls_import *import,
                         const ls_safetensors *file) {
    const ls_collective *collective = ls_collective_of(r->kind);
    size_t each = 0, due = 0, known = 0;
    for (int m = 0; m < r->members; m++) {
        LS_TRY(due_to(&due, r, &collective->send, m));
        each = due > each ? due : each;
    }
    LS_TRY(check_tensor(r, import, file, "send", &LS_SHAPE(r->members, (int64_t)each)));
    known += each > 0 ? 1 : 0;
    if (r->hashed) {
        LS_TRY(check_tensor(r, import, file, "agreed", &LS_SHAPE(r->members, 1)));
        known++;
    }
    for (int m = 0; m < r->members; m++) {
        char name[32];
        (void)snprintf(name, sizeof name, "recv/%d", m);
        LS_TRY(due_to(&due, r, &collective->recv, m));
        LS_TRY(check_tensor(r, import, file, name, &LS_SHAPE((int64_t)due)));
        known += due > 0 ? 1 : 0;
    }
    for (size_t i = 0; known < ls_safetensors_count(file); i++) {
        const char *name = ls_safetensors_at(file, i)->name;
        if (!is_known(r, name)) {
            return unlike(import, name, "does not belong to this call");
        }
    }
    return LS_OK;
}

static int check_file(const exec_result *r, const ls_import *import) {
    ls_safetensors *file = NULL;
    LS_TRY(ls_safetensors_open(&file, r->path));
    int status = check_tensors(r, import, file);
    ls_safetensors_free(file);
    return status;
}

// The data that each member received.
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
            continue;  // it receives nothing: see check_file
        }
        void *data = ls_arena_alloc(arena, tensor->bytes + 1, 1);
        status = data == NULL ? LS_ERR_MEMORY : LS_OK;
        if (status == LS_OK && tensor->dtype != (int)r->dtype) {
            status = LS_FAIL(LS_ERR_FORMAT, "'%s' changed while it was read", r->path);
        }
        status = status == LS_OK ? ls_safetensors_read(data, tensor->bytes, file, tensor) : status;
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
        if (!ls_import_factors(out, entry, r->members)) {
            return malformed(import, "premul_sum needs factors, one number per member");
        }
    }
    ls_text_puts(out, "}\n");
    return LS_OK;
}

// The collective that moves the hashes of this one.
static void move_hashes(exec_result *r) {
    if (r->kind == LS_ALL_REDUCE) {
        r->kind = LS_BROADCAST;
        r->root = 0;
        r->tensor = "agreed";
    }
    r->dtype = LS_U64;
    r->count = 1;
}

// The place without folders: stage names have no slashes.
static const char *place_of(const json_t *entry) {
    const char *where = text_of(entry, "where"), *slash = strrchr(where, '/');
    return slash != NULL ? slash + 1 : where;
}

static const char *why_no_file(const json_t *entry) {
    ls_kind kind = LS_BARRIER;
    bool known = ls_kind_parse(&kind, text_of(entry, "call")) == LS_OK;
    if (known && ls_kind_is_message(kind)) {
        return "a message is not replayed";
    }
    if (known && !ls_collective_has_data(ls_collective_of(kind))) {
        return "it moves no data";
    }
    return json_object_get(entry, "members") != NULL
               ? "it has no elements, or counts for each rank, which are not replayed"
               : "its data was not recorded (exec --payload records it)";
}

static int import(ls_import *import, const json_t *entry) {
    exec_result r = {.op = LS_SUM};
    if (json_object_get(entry, "file") == NULL) {
        import->name = ls_arena_printf(import->arena, "call %zu", import->index);
        import->skip = why_no_file(entry);
        return import->name != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    LS_TRY(ls_import_file(&r.path, import, json_object_get(entry, "file")));
    LS_TRY(read_entry(&r, import, entry));
    LS_TRY(check_file(&r, import));
    const char *op = ls_collective_of(r.kind)->reduces ? ls_op_name(r.op) : "";
    import->group = ls_arena_printf(import->arena, "%d ranks  %-14s  %-10s  %-6s", r.members,
                                    ls_kind_name(r.kind), op, ls_dtype_name(r.dtype));
    r.name = ls_arena_printf(import->arena, "%s %s%sof %lld %s at %.200s", ls_kind_name(r.kind), op,
                             op[0] != 0 ? " " : "", (long long)r.count, ls_dtype_name(r.dtype),
                             place_of(entry));
    bool sums = ls_collective_of(r.kind)->reduces;
    if (r.name != NULL && r.hashed && sums && r.kind != LS_ALL_REDUCE) {
        import->name = r.name;
        import->skip = "hashes cannot verify a sum (exec --payload can)";
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
static const char *const keys[] = {"file",  "hashed",  "call",    "dtype",   "count",
                                   "op",    "root",    "factors", "ranks",   "communicator",
                                   "where", "purpose", "world",   "members", NULL};

const ls_importer ls_importer_exec = {.of = "a job's collectives",
                                      .list = "exec.json",
                                      .results = "calls",
                                      .list_keys = list_keys,
                                      .keys = keys,
                                      .recognise = recognise,
                                      .import = import};
