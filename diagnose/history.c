// Reading a history.
#include "diagnose/history.h"

#include <string.h>

#include "base/hash.h"
#include "formats/json_read.h"
#include "local_tensor/local_tensor.h"

#define BYTES_MAX  ((size_t)2 << 30)
#define RANKS_MAX  65536
#define GROUPS_MAX 100000

typedef struct reading {
    ls_history *history;
    const char *path;
} reading;

static int bad(const reading *at, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s': %s", at->path, what);
}

static void *room(const reading *at, size_t count, size_t size) {
    return ls_arena_alloc(at->history->arena, count + 1, size);
}

static const char *text_of(const reading *at, const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? ls_arena_strdup(at->history->arena, text) : NULL;
}

// The name as a number; 0: there is none.
static uint64_t name_of(const json_t *object, const char *key) {
    const char *name = json_string_value(json_object_get(object, key));
    return name != NULL && name[0] != 0 ? ls_hash(0, name, strlen(name)) | 1 : 0;
}

// ---- Groups -------------------------------------------------------------------------------------
static int read_group(reading *at, ls_history_group *group, const json_t *object) {
    const json_t *ranks = json_object_get(object, "ranks");
    const size_t size = json_array_size(ranks);
    const json_int_t first = json_integer_value(json_object_get(object, "first"));
    const json_int_t agreed = json_integer_value(json_object_get(object, "agreed"));
    if (size == 0 || size > RANKS_MAX || first < 0 || agreed < 0) {
        return bad(at, "a group has no ranks, or a first call below 0");
    }
    group->name = text_of(at, object, "name");
    group->ranks = room(at, size, sizeof *group->ranks);
    group->first = (uint64_t)first;
    group->agreed = (uint64_t)agreed;
    group->size = (int)size;
    if (group->name == NULL || group->ranks == NULL) {
        return group->ranks == NULL ? LS_ERR_MEMORY : bad(at, "a group has no name");
    }
    for (size_t i = 0; i < size; i++) {
        const json_int_t rank = json_integer_value(json_array_get(ranks, i));
        if (rank < 0 || rank >= RANKS_MAX) {
            return bad(at, "a group has a rank out of range");
        }
        group->ranks[i] = (int)rank;
        at->history->rank_count =
            rank >= at->history->rank_count ? (int)rank + 1 : at->history->rank_count;
    }
    return LS_OK;
}

// ---- Calls --------------------------------------------------------------------------------------
// Types that lockstep has no name for are moved as bytes.
static ls_dtype dtype_of(const char *name) {
    for (int dtype = 0; name != NULL && dtype < LS_DTYPE_COUNT; dtype++) {
        if (ls_dtype_valid(dtype) && strcmp(ls_dtype_name_torch((ls_dtype)dtype), name) == 0) {
            return (ls_dtype)dtype;
        }
    }
    return LS_U8;
}

static int read_counts(const reading *at, const size_t **out, const json_t *object, const char *key,
                       const ls_history_group *group) {
    const json_t *list = json_object_get(object, key);
    if (!json_is_array(list)) {
        return LS_OK;
    }
    size_t *counts = room(at, (size_t)group->size, sizeof *counts);
    if (counts == NULL || json_array_size(list) != (size_t)group->size) {
        return counts == NULL ? LS_ERR_MEMORY
                              : bad(at, "a call has more or fewer counts than members");
    }
    for (int m = 0; m < group->size; m++) {
        const json_int_t count = json_integer_value(json_array_get(list, (size_t)m));
        counts[m] = count > 0 ? (size_t)count : 0;
    }
    *out = counts;
    return LS_OK;
}

static int read_call(const reading *at, ls_history_call *call, const json_t *object, int rank) {
    const json_int_t group = json_integer_value(json_object_get(object, "group"));
    const ls_history_group *of =
        group >= 0 && group < at->history->group_count ? &at->history->groups[group] : NULL;
    if (of == NULL || ls_ranks_find(of->ranks, of->size, rank) < 0) {
        return bad(at, "a call on a group that its rank is not in");
    }
    const char *kind = json_string_value(json_object_get(object, "kind"));
    const char *op = json_string_value(json_object_get(object, "op"));
    const char *state = json_string_value(json_object_get(object, "state"));
    const json_int_t count = json_integer_value(json_object_get(object, "count"));
    const json_int_t root = json_integer_value(json_object_get(object, "root"));
    const json_int_t line = json_integer_value(json_object_get(object, "line"));
    *call = (ls_history_call){.group = (int)group};
    if (kind == NULL || ls_kind_parse(&call->call.kind, kind) != LS_OK) {
        return bad(at, "a call of an unknown kind");
    }
    if (op != NULL && ls_op_parse(&call->call.op, op) != LS_OK) {
        return bad(at, "a call with an unknown operation");
    }
    if (root < 0 || root >= of->size || count < 0 || count > (json_int_t)1 << 40) {
        return bad(at, "a call with a root or a count out of range");
    }
    call->call.dtype = dtype_of(json_string_value(json_object_get(object, "dtype")));
    call->call.count = (size_t)count;
    call->call.root = (int)root;
    call->call.file = text_of(at, object, "file");
    call->call.file = call->call.file != NULL && call->call.file[0] != 0 ? call->call.file : "?";
    call->call.line = line > 0 && line < 1 << 30 ? (int)line : 0;
    call->completed = state != NULL && strcmp(state, "completed") == 0;
    call->started = call->completed || (state != NULL && strcmp(state, "started") == 0);
    call->thread = name_of(object, "thread");
    call->queue = name_of(object, "queue");
    call->batch = (uint64_t)json_integer_value(json_object_get(object, "batch"));
    LS_TRY(read_counts(at, &call->call.send_counts, object, "send_counts", of));
    return read_counts(at, &call->call.recv_counts, object, "recv_counts", of);
}

static int read_rank(const reading *at, const json_t *object) {
    const json_t *calls = json_object_get(object, "calls");
    const json_int_t number = json_integer_value(json_object_get(object, "rank"));
    if (number < 0 || number >= at->history->rank_count) {
        return json_array_size(calls) == 0 ? LS_OK
                                           : bad(at, "a rank that is in no group makes calls");
    }
    ls_history_rank *rank = &at->history->ranks[number];
    rank->known = true;
    rank->ended = text_of(at, object, "ended");
    rank->calls = room(at, json_array_size(calls), sizeof *rank->calls);
    LS_TRY_MEMORY(rank->calls != NULL);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        LS_TRY(
            read_call(at, &rank->calls[rank->call_count++], json_array_get(calls, i), (int)number));
    }
    return LS_OK;
}

static int read_all(reading *at, const json_t *root) {
    ls_history *history = at->history;
    const json_t *groups = json_object_get(root, "groups"), *ranks = json_object_get(root, "ranks"),
                 *notes = json_object_get(root, "notes");
    if (!json_is_array(groups) || !json_is_array(ranks) || json_array_size(groups) > GROUPS_MAX) {
        return bad(at, "it has no groups and ranks");
    }
    history->groups = room(at, json_array_size(groups), sizeof *history->groups);
    history->notes = room(at, json_array_size(notes), sizeof *history->notes);
    LS_TRY_MEMORY(history->groups != NULL && history->notes != NULL);
    for (size_t i = 0; i < json_array_size(groups); i++) {
        LS_TRY(read_group(at, &history->groups[history->group_count++], json_array_get(groups, i)));
    }
    history->ranks = room(at, (size_t)history->rank_count, sizeof *history->ranks);
    LS_TRY_MEMORY(history->ranks != NULL);
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        LS_TRY(read_rank(at, json_array_get(ranks, i)));
    }
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *note = json_string_value(json_array_get(notes, i));
        history->notes[history->note_count++] =
            ls_arena_strdup(history->arena, note != NULL ? note : "");
    }
    return ls_arena_failed(history->arena) ? LS_ERR_MEMORY : LS_OK;
}

int ls_history_read(ls_history **out, const char *path) {
    ls_arena *arena = NULL;
    json_t *root = NULL;
    *out = NULL;
    LS_TRY(ls_json_read(&root, path, BYTES_MAX));
    int status = ls_arena_create(&arena);
    ls_history *history = status == LS_OK ? ls_arena_alloc(arena, 1, sizeof *history) : NULL;
    if (history == NULL) {
        ls_arena_free(arena);
        json_decref(root);
        return LS_ERR_MEMORY;
    }
    *history = (ls_history){.arena = arena};
    reading at = {.history = history, .path = path};
    status = read_all(&at, root);
    json_decref(root);
    if (status == LS_OK) {
        *out = history;
    } else {
        ls_history_free(history);
    }
    return status;
}

void ls_history_free(ls_history *history) {
    if (history != NULL) {
        ls_arena_free(history->arena);
    }
}

bool ls_history_returned(const char *ended) {
    return ended != NULL && strncmp(ended, "returned ", strlen("returned ")) == 0;
}
