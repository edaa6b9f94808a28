// Call records of a recording: read from JSON, whose every member is checked, and compared. The
// calls of a simulation are compared through the same records: the writer's text, read back.
#include "collectives/recording_calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "orders/order.h"

// ---- Reading ------------------------------------------------------------------------------------
static int fail_call(const char *path, int index, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s': call %d: %s", path, index, what);
}

int ls_recording__string(const char **out, ls_arena *arena, const json_t *value) {
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
    LS_TRY_MEMORY(counts != NULL);
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

bool ls_recording__integer(int64_t *out, const json_t *object, const char *key, int64_t low,
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
    if (!ls_collective_has_data(collective)) {
        return LS_OK;
    }
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (dtype == NULL || ls_dtype_parse(&call->dtype, dtype) != LS_OK) {
        return fail_call(path, index, "its dtype is missing or unknown");
    }
    if (!ls_recording__integer(&number, entry, "count", 0, INT64_MAX)) {
        return fail_call(path, index, "its count is not a whole number >= 0");
    }
    call->count = (size_t)number;
    const char *op = json_string_value(json_object_get(entry, "op"));
    if (collective->reduces && (op == NULL || ls_op_parse(&call->op, op) != LS_OK)) {
        return fail_call(path, index, "its op is missing or unknown");
    }
    if (collective->root_word != NULL) {
        if (!ls_recording__integer(&number, entry, "root", 0, comm_size - 1)) {
            return fail_call(path, index, "its root is not a member");
        }
        call->root = (int)number;
    }
    const json_t *premul = json_object_get(entry, "premul");
    const char *text = json_string_value(premul);  // numbers that JSON lacks: "NaN", "Infinity"
    char *end = NULL;
    call->premul = text != NULL ? strtod(text, &end) : json_number_value(premul);
    if (premul != NULL && !json_is_number(premul) && (end == NULL || end == text || *end != 0)) {
        return fail_call(path, index, "its premul is not a number");
    }
    return LS_OK;
}

// A member that may be missing, and is then `missing`.
static int optional(int *out, const json_t *entry, const char *key, int most, int missing,
                    const char *path, int index) {
    int64_t number = missing;
    if (json_object_get(entry, key) != NULL &&
        !ls_recording__integer(&number, entry, key, 0, most)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': call %d: its %s is not a whole number from 0 to %d",
                       path, index, key, most);
    }
    *out = (int)number;
    return LS_OK;
}

// An order is simulated by, so it must be one, and be all in its text: a recording names no file.
static int parse_order(const char **out, ls_arena *arena, const json_t *entry, const char *path,
                       int index) {
    LS_TRY(ls_recording__string(out, arena, json_object_get(entry, "order")));
    if (*out == NULL) {
        return LS_OK;
    }
    if (ls_order_file(*out) != NULL) {
        return fail_call(path, index, "its order names a file, which a recording must not");
    }
    ls_order *order = NULL;
    int status = ls_order_parse(&order, *out);
    ls_order_free(order);
    if (status != LS_OK && status != LS_ERR_MEMORY) {
        ls_error last = *ls_error_last();
        return LS_FAIL(LS_ERR_FORMAT, "'%s': call %d: %s", path, index, last.text);
    }
    return status;
}

static int parse_call(ls_recorded_call *out, ls_arena *arena, const json_t *entry, int rank,
                      const char *path, int index) {
    *out = (ls_recorded_call){.call = {.rank = rank}};
    int64_t number = 0;
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    if (kind == NULL || ls_kind_parse(&out->call.kind, kind) != LS_OK) {
        return fail_call(path, index, "its kind is missing or unknown");
    }
    LS_TRY(ls_recording__string(&out->comm, arena, json_object_get(entry, "comm")));
    if (out->comm == NULL || !ls_recording__integer(&number, entry, "comm_size", 1, LS_RANKS_MAX)) {
        return fail_call(path, index, "its communicator is missing or invalid");
    }
    out->comm_size = (int)number;
    LS_TRY(optional(&out->comm_id, entry, "comm_id", INT32_MAX, -1, path, index));
    LS_TRY(optional(&out->member, entry, "member", out->comm_size - 1, -1, path, index));
    if (!ls_recording__integer(&number, entry, "seq", 0, INT64_MAX)) {
        return fail_call(path, index, "its seq is not a whole number >= 0");
    }
    out->call.seq = (uint64_t)number;
    LS_TRY(parse_arguments(&out->call, out->comm_size, entry, path, index));
    LS_TRY(parse_counts(&out->call.send_counts, arena, json_object_get(entry, "send_counts"),
                        out->comm_size, path, index));
    LS_TRY(parse_counts(&out->call.recv_counts, arena, json_object_get(entry, "recv_counts"),
                        out->comm_size, path, index));
    LS_TRY(ls_recording__string(&out->call.file, arena, json_object_get(entry, "file")));
    LS_TRY(optional(&out->call.line, entry, "line", INT32_MAX, 0, path, index));
    LS_TRY(ls_recording__string(&out->algorithm, arena, json_object_get(entry, "algorithm")));
    LS_TRY(ls_recording__string(&out->protocol, arena, json_object_get(entry, "protocol")));
    LS_TRY(parse_order(&out->order, arena, entry, path, index));
    return optional(&out->channels, entry, "channels", INT32_MAX, 0, path, index);
}

int ls_recording__calls_parse(ls_recording *recording, int rank, const json_t *list,
                              const char *path) {
    size_t count = json_array_size(list);
    ls_recorded_calls *out = &recording->ranks[rank];
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
    return status;
}

// ---- Comparing ----------------------------------------------------------------------------------
static bool same_counts(const size_t *a, const size_t *b, int size) {
    return a == b || (a != NULL && b != NULL && memcmp(a, b, (size_t)size * sizeof *a) == 0);
}

// Whether two records are of the same call. Ignores its place and the backend's algorithm;
// positions that an older recording lacks count as equal.
static bool same_call(const ls_recorded_call *a, const ls_recorded_call *b) {
    bool same_comm = a->comm_size == b->comm_size && strcmp(a->comm, b->comm) == 0 &&
                     (a->comm_id < 0 || b->comm_id < 0 || a->comm_id == b->comm_id) &&
                     (a->member < 0 || b->member < 0 || a->member == b->member);
    const ls_call *x = &a->call, *y = &b->call;
    return same_comm && x->kind == y->kind && x->seq == y->seq && x->dtype == y->dtype &&
           x->op == y->op && memcmp(&x->premul, &y->premul, sizeof x->premul) == 0 &&
           x->count == y->count && x->root == y->root &&
           same_counts(x->send_counts, y->send_counts, a->comm_size) &&
           same_counts(x->recv_counts, y->recv_counts, a->comm_size);
}

static void describe_counts(ls_text *out, const char *name, const size_t *counts, int size) {
    for (int i = 0; counts != NULL && i < size; i++) {
        ls_text_printf(out, "%s%zu%s", i == 0 ? name : ", ", counts[i], i == size - 1 ? "]" : "");
    }
}

static void describe(ls_text *out, const ls_recorded_call *recorded) {
    const ls_call *call = &recorded->call;
    const ls_collective *collective = ls_collective_of(call->kind);
    ls_text_puts(out, ls_kind_name(call->kind));
    if (collective->reduces) {
        ls_text_printf(out, " %s", ls_op_name(call->op));
    }
    if (collective->reduces && call->op == LS_PREMUL_SUM) {
        ls_text_printf(out, " by %.17g", call->premul);
    }
    if (ls_collective_has_data(collective)) {
        ls_text_printf(out, " of %zu %s", call->count, ls_dtype_name(call->dtype));
    }
    if (collective->root_word != NULL) {
        ls_text_printf(out, ", root %d", call->root);
    }
    describe_counts(out, ", sends [", call->send_counts, recorded->comm_size);
    describe_counts(out, ", receives [", call->recv_counts, recorded->comm_size);
    ls_text_printf(out, ", as member %d of %d of %s, its call %" PRIu64 " there", recorded->member,
                   recorded->comm_size, recorded->comm, call->seq);
}

static void explain(ls_text *out, int rank, int index, const ls_recorded_call *ours,
                    const ls_recorded_call *theirs) {
    ls_text_printf(out, "rank %d, call %d\n  simulated: ", rank, index);
    if (ours != NULL) {
        describe(out, ours);
    }
    ls_text_puts(out, ours != NULL ? "\n  recorded: " : "no such call\n  recorded: ");
    if (theirs != NULL) {
        describe(out, theirs);
    } else {
        ls_text_puts(out, "no such call");
    }
}

void ls_recording_compare_calls(ls_call_difference *out, ls_text *text,
                                const ls_recording *simulated, const ls_recording *recorded) {
    LS_ASSERT(simulated->info.ranks == recorded->info.ranks);
    *out = (ls_call_difference){0};
    for (int rank = 0; rank < simulated->info.ranks; rank++) {
        const ls_recorded_calls *ours = &simulated->ranks[rank];
        const ls_recorded_calls *theirs = &recorded->ranks[rank];
        for (int i = 0; i < ours->count || i < theirs->count; i++) {
            const ls_recorded_call *a = i < ours->count ? &ours->calls[i] : NULL;
            const ls_recorded_call *b = i < theirs->count ? &theirs->calls[i] : NULL;
            out->calls += 1;
            if (a != NULL && b != NULL && same_call(a, b)) {
                continue;
            }
            if (out->differing == 0) {
                explain(text, rank, i, a, b);
            }
            out->differing += 1;
        }
    }
}
