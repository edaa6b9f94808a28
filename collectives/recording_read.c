// Reading recordings. Files may be hostile: sizes are checked before anything is allocated, names
// are made here and never taken from a file, and links are not followed.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/safetensors.h"
#include "collectives/recording_format.h"

typedef struct rank_calls {
    ls_recorded_call *calls;
    int count;
} rank_calls;

struct ls_recording {
    ls_arena *arena;
    const char *dir;
    ls_recording_info info;
    rank_calls *ranks;  // [info.ranks]
};

// ---- Files --------------------------------------------------------------------------------------
// No link is followed: a recording's files are its own.
static int read_file(char **out, size_t *bytes, ls_arena *arena, const char *path) {
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is a link", path);
    }
    return ls_file_read(out, bytes, arena, path, LS_RECORDING_JSON_BYTES_MAX);
}

static int read_json(json_t **out, const char *path) {
    *out = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena, NULL));
    char *text = NULL;
    size_t bytes = 0;
    int status = read_file(&text, &bytes, arena, path);
    if (status == LS_OK) {
        json_error_t error;
        *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
        if (*out == NULL) {
            status = LS_FAIL(LS_ERR_FORMAT, "'%s':%d:%d: not JSON: %s", path, error.line,
                             error.column, error.text);
        }
    }
    ls_arena_free(arena);
    return status;
}

// ---- Calls --------------------------------------------------------------------------------------
static int fail_call(const char *path, int index, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s': call %d: %s", path, index, what);
}

static int copy_string(const char **out, ls_arena *arena, const json_t *value) {
    *out = NULL;
    if (json_is_string(value)) {
        *out = ls_arena_strdup(arena, json_string_value(value));
        return *out != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    return LS_OK;
}

static int parse_counts(const size_t **out, ls_arena *arena, const json_t *list, int size,
                        const char *path, int index) {
    *out = NULL;
    if (list == NULL) {
        return LS_OK;
    }
    if (!json_is_array(list) || json_array_size(list) != (size_t)size) {
        return fail_call(path, index, "its counts are not one per member");
    }
    size_t *counts = ls_arena_alloc(arena, (size_t)size, sizeof *counts);
    if (counts == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < (size_t)size; i++) {
        const json_t *count = json_array_get(list, i);
        if (!json_is_integer(count) || json_integer_value(count) < 0) {
            return fail_call(path, index, "a count is not a whole number >= 0");
        }
        counts[i] = (size_t)json_integer_value(count);
    }
    *out = counts;
    return LS_OK;
}

static bool take_integer(int64_t *out, const json_t *object, const char *key, int64_t low,
                         int64_t high) {
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= low && *out <= high;
}

// dtype, count, op, root and premul, as far as the kind has them.
static int parse_arguments(ls_call *call, int comm_size, const json_t *entry, const char *path,
                           int index) {
    const ls_collective *collective = ls_collective_of(call->kind);
    int64_t number = 0;
    if (call->kind == LS_BARRIER) {
        return LS_OK;
    }
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (dtype == NULL || ls_dtype_parse(&call->dtype, dtype) != LS_OK) {
        return fail_call(path, index, "its dtype is missing or unknown");
    }
    if (!take_integer(&number, entry, "count", 0, INT64_MAX)) {
        return fail_call(path, index, "its count is not a whole number >= 0");
    }
    call->count = (size_t)number;
    const char *op = json_string_value(json_object_get(entry, "op"));
    if (collective->reduces && (op == NULL || ls_op_parse(&call->op, op) != LS_OK)) {
        return fail_call(path, index, "its op is missing or unknown");
    }
    if (collective->has_root) {
        if (!take_integer(&number, entry, "root", 0, comm_size - 1)) {
            return fail_call(path, index, "its root is not a member");
        }
        call->root = (int)number;
    }
    const json_t *premul = json_object_get(entry, "premul");
    call->premul = json_is_string(premul) ? strtod(json_string_value(premul), NULL)
                                          : json_number_value(premul);
    return LS_OK;
}

static int parse_call(ls_recorded_call *out, ls_arena *arena, const json_t *entry, int rank,
                      const char *path, int index) {
    *out = (ls_recorded_call){.call = {.rank = rank}};
    int64_t number = 0;
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    if (kind == NULL || ls_kind_parse(&out->call.kind, kind) != LS_OK) {
        return fail_call(path, index, "its kind is missing or unknown");
    }
    LS_TRY(copy_string(&out->comm, arena, json_object_get(entry, "comm")));
    if (out->comm == NULL || !take_integer(&number, entry, "comm_size", 1, LS_RANKS_MAX)) {
        return fail_call(path, index, "its communicator is missing or impossible");
    }
    out->comm_size = (int)number;
    out->comm_id = take_integer(&number, entry, "comm_id", 0, INT32_MAX) ? (int)number : -1;
    out->member = take_integer(&number, entry, "member", 0, out->comm_size - 1) ? (int)number : -1;
    if (!take_integer(&number, entry, "seq", 0, INT64_MAX)) {
        return fail_call(path, index, "its seq is not a whole number >= 0");
    }
    out->call.seq = (uint64_t)number;
    LS_TRY(parse_arguments(&out->call, out->comm_size, entry, path, index));
    LS_TRY(parse_counts(&out->call.send_counts, arena, json_object_get(entry, "send_counts"),
                        out->comm_size, path, index));
    LS_TRY(parse_counts(&out->call.recv_counts, arena, json_object_get(entry, "recv_counts"),
                        out->comm_size, path, index));
    LS_TRY(copy_string(&out->call.file, arena, json_object_get(entry, "file")));
    out->call.line = take_integer(&number, entry, "line", 0, INT32_MAX) ? (int)number : 0;
    LS_TRY(copy_string(&out->algorithm, arena, json_object_get(entry, "algorithm")));
    LS_TRY(copy_string(&out->protocol, arena, json_object_get(entry, "protocol")));
    LS_TRY(copy_string(&out->order, arena, json_object_get(entry, "order")));
    out->channels = take_integer(&number, entry, "channels", 0, INT32_MAX) ? (int)number : 0;
    return LS_OK;
}

static int read_calls(ls_recording *recording, int rank) {
    char path[LS_RECORDING_PATH_MAX];
    LS_TRY(ls_recording__path(path, recording->dir, rank, ".calls.json"));
    json_t *list = NULL;
    LS_TRY(read_json(&list, path));
    size_t count = json_array_size(list);
    rank_calls *out = &recording->ranks[rank];
    int status = LS_OK;
    if (!json_is_array(list) || count > INT32_MAX) {
        status = LS_FAIL(LS_ERR_FORMAT, "'%s' is not a list of calls", path);
    } else {
        out->calls = ls_arena_alloc(recording->arena, count, sizeof *out->calls);
        status = out->calls != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        status = parse_call(&out->calls[i], recording->arena, json_array_get(list, i), rank, path,
                            (int)i);
        out->count = (int)i + 1;
    }
    json_decref(list);
    return status;
}

// ---- Manifest -----------------------------------------------------------------------------------
static int parse_seed(uint64_t *out, const json_t *seed) {
    if (json_is_integer(seed) && json_integer_value(seed) >= 0) {
        *out = (uint64_t)json_integer_value(seed);
        return LS_OK;
    }
    const char *text = json_string_value(seed);
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return LS_ERR_FORMAT;
    }
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? LS_OK : LS_ERR_FORMAT;
}

static int parse_manifest(ls_recording *recording, const json_t *root, const char *path) {
    int64_t number = 0;
    ls_recording_info *info = &recording->info;
    if (!take_integer(&number, root, "lockstep_recording", 0, INT64_MAX)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is not the manifest of a recording", path);
    }
    if (number != LS_RECORDING_FORMAT) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "'%s': format %" PRId64 " is not supported, only %d",
                       path, number, LS_RECORDING_FORMAT);
    }
    if (!take_integer(&number, root, "ranks", 1, LS_RANKS_MAX)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': ranks is not a number from 1 to %d", path,
                       LS_RANKS_MAX);
    }
    info->ranks = (int)number;
    if (parse_seed(&info->seed, json_object_get(root, "seed")) != LS_OK) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': seed is not a whole number >= 0", path);
    }
    LS_TRY(copy_string(&info->name, recording->arena, json_object_get(root, "name")));
    LS_TRY(copy_string(&info->backend, recording->arena, json_object_get(root, "backend")));
    LS_TRY(copy_string(&info->versions, recording->arena, json_object_get(root, "versions")));
    if (info->name == NULL || info->backend == NULL) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': name or backend is missing", path);
    }
    if (json_is_string(json_object_get(root, "scenario"))) {
        char file[LS_RECORDING_PATH_MAX], *text = NULL;
        size_t bytes = 0;
        LS_TRY(ls_recording__path(file, recording->dir, -1, "scenario.yaml"));
        LS_TRY(read_file(&text, &bytes, recording->arena, file));
        if (memchr(text, '\0', bytes) != NULL) {
            return LS_FAIL(LS_ERR_FORMAT, "'%s' has a zero byte", file);
        }
        info->scenario = text;
    }
    return LS_OK;
}

static int open_all(ls_recording *recording) {
    char path[LS_RECORDING_PATH_MAX];
    LS_TRY(ls_recording__path(path, recording->dir, -1, "manifest.json"));
    json_t *root = NULL;
    LS_TRY(read_json(&root, path));
    int status = parse_manifest(recording, root, path);
    json_decref(root);
    LS_TRY(status);
    size_t ranks = (size_t)recording->info.ranks;
    recording->ranks = ls_arena_alloc(recording->arena, ranks, sizeof *recording->ranks);
    if (recording->ranks == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int rank = 0; rank < recording->info.ranks; rank++) {
        LS_TRY(read_calls(recording, rank));
    }
    return LS_OK;
}

int ls_recording_open(ls_recording **out, const char *dir) {
    LS_ASSERT(out != NULL && dir != NULL);
    *out = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena, NULL));
    ls_recording *recording = ls_arena_alloc(arena, 1, sizeof *recording);
    int status = LS_ERR_MEMORY;
    if (recording != NULL) {
        recording->arena = arena;
        recording->dir = ls_arena_strdup(arena, dir);
        status = recording->dir != NULL ? open_all(recording) : LS_ERR_MEMORY;
    }
    if (status != LS_OK) {
        ls_arena_free(arena);
        return ls_error_wrap("recording");
    }
    *out = recording;
    return LS_OK;
}

void ls_recording_free(ls_recording *recording) {
    if (recording != NULL) {
        ls_arena_free(recording->arena);
    }
}

const ls_recording_info *ls_recording_about(const ls_recording *recording) {
    return &recording->info;
}

int ls_recording_call_count(const ls_recording *recording, int rank) {
    LS_ASSERT(rank >= 0 && rank < recording->info.ranks);
    return recording->ranks[rank].count;
}

const ls_recorded_call *ls_recording_call(const ls_recording *recording, int rank, int index) {
    LS_ASSERT(index >= 0 && index < ls_recording_call_count(recording, rank));
    return &recording->ranks[rank].calls[index];
}

// ---- Stage outputs ------------------------------------------------------------------------------
// Cuts "stage/table/feature/field" in place.
static bool cut_key(ls_stage_output *output, char *key) {
    const char *parts[4] = {key, NULL, NULL, NULL};
    int count = 1;
    for (char *at = key; *at != '\0'; at++) {
        if (*at == '/') {
            if (count == 4) {
                return false;
            }
            *at = '\0';
            parts[count++] = at + 1;
        }
    }
    for (int i = 0; i < count; i++) {
        parts[i] = strcmp(parts[i], "-") == 0 ? NULL : parts[i];
    }
    output->stage = parts[0];
    output->table = parts[1];
    output->feature = parts[2];
    output->field = parts[3];
    return count == 4;
}

// The names of a list with one per line, sorted.
typedef struct name_set {
    char **names;
    size_t count;
} name_set;

static int compare_names(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static int make_set(name_set *out, ls_arena *arena, const char *lines) {
    *out = (name_set){0};
    char *text = ls_arena_strdup(arena, lines != NULL ? lines : "");
    size_t room = 0;
    for (const char *at = text; at != NULL && *at != '\0'; at++) {
        room += *at == '\n' ? 1 : 0;
    }
    out->names = ls_arena_alloc(arena, room + 1, sizeof *out->names);
    if (text == NULL || out->names == NULL) {
        return LS_ERR_MEMORY;
    }
    for (char *at = text; *at != '\0';) {
        out->names[out->count++] = at;
        char *end = strchr(at, '\n');
        if (end == NULL) {
            break;
        }
        *end = '\0';
        at = end + 1;
    }
    qsort(out->names, out->count, sizeof *out->names, compare_names);
    return LS_OK;
}

static bool in_set(const name_set *set, const char *name) {
    return bsearch(&name, set->names, set->count, sizeof *set->names, compare_names) != NULL;
}

static int give_tensor(const ls_safetensors *file, const ls_safetensor *tensor,
                       const name_set *reduces, int rank, const char *path,
                       const ls_stage_sink *sink) {
    char key[LS_STAGE_KEY_MAX];
    size_t length = strlen(tensor->name);
    ls_stage_output output = {.rank = rank, .shape = {.ndim = tensor->ndim}};
    if (length >= sizeof key) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': a stage output's name is too long", path);
    }
    memcpy(key, tensor->name, length + 1);
    if (!cut_key(&output, key)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': \"%.100s\" is not stage/table/feature/field", path,
                       tensor->name);
    }
    memcpy(output.shape.dim, tensor->dim, sizeof output.shape.dim);
    output.reduces = in_set(reduces, tensor->name);
    void *data = NULL;
    LS_TRY(ls_alloc(&data, NULL, tensor->bytes, 1));
    int status = ls_safetensors_read(data, tensor->bytes, file, tensor);
    if (status == LS_OK) {
        output.dtype = (ls_dtype)tensor->dtype;
        output.data = data;
        status = sink->emit(sink->arg, &output);
    }
    ls_free(NULL, data, tensor->bytes, 1);
    return status;
}

static int read_rank(const ls_recording *recording, int rank, const ls_stage_sink *sink) {
    char path[LS_RECORDING_PATH_MAX];
    struct stat info;
    LS_TRY(ls_recording__path(path, recording->dir, rank, ".safetensors"));
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is not a regular file", path);
    }
    ls_safetensors *file = NULL;
    ls_arena *arena = NULL;
    name_set reduces;
    LS_TRY(ls_safetensors_open(&file, path));
    int status = ls_arena_create(&arena, NULL);
    if (status == LS_OK) {
        status = make_set(&reduces, arena, ls_safetensors_metadata(file, LS_RECORDING_REDUCES));
    }
    for (size_t i = 0; i < ls_safetensors_count(file) && status == LS_OK; i++) {
        status = give_tensor(file, ls_safetensors_at(file, i), &reduces, rank, path, sink);
    }
    ls_arena_free(arena);
    ls_safetensors_free(file);
    return status;
}

int ls_recording_read(const ls_recording *recording, const ls_stage_sink *sink) {
    for (int rank = 0; rank < recording->info.ranks; rank++) {
        LS_TRY(read_rank(recording, rank, sink));
    }
    return LS_OK;
}
