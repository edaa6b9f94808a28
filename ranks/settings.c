// See settings.h. Every message names the wrong word.
#include "ranks/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *const ls_spmd__schedules[] = {"round-robin", "random", "delay", "parallel", NULL};

static int parse_int(int64_t *out, const char *text, size_t length, const char *what) {
    char word[32], *end = NULL;
    if (length == 0 || length >= sizeof word) {
        return LS_FAIL(LS_ERR_INVALID, "%s needs a number, not '%.*s'", what,
                       (int)(length < 40 ? length : 40), text);
    }
    memcpy(word, text, length);
    word[length] = 0;
    errno = 0;
    *out = strtoll(word, &end, 0);
    return *end == 0 && errno == 0
               ? LS_OK
               : LS_FAIL(LS_ERR_INVALID, "%s needs a number, not '%s'", what, word);
}

int ls_spmd__parse_mesh(ls_mesh *out, int *ranks, const char *text) {
    *out = (ls_mesh){0};
    const char *at = text;
    while (*at != 0) {
        size_t length = strcspn(at, "x,"), name = strcspn(at, "=,x");
        int64_t size = 0;
        // A name may hold an x, as in axis=2.
        if (strcspn(at, "=") < strcspn(at, ",")) {
            name = strcspn(at, "=");
            length = strcspn(at, ",");
        } else {
            name = 0;
        }
        size_t skip = name > 0 ? name + 1 : 0;
        if (out->ndim == LS_MESH_DIMS_MAX || name >= LS_MESH_NAME_MAX) {
            return LS_FAIL(LS_ERR_INVALID,
                           "a mesh must have at most %d dimensions, with short names",
                           LS_MESH_DIMS_MAX);
        }
        LS_TRY(parse_int(&size, at + skip, length - skip, "a dimension of a mesh"));
        if (size < 1 || size > LS_RANKS_MAX) {
            return LS_FAIL(LS_ERR_INVALID, "a dimension of a mesh must be from 1 to %d",
                           LS_RANKS_MAX);
        }
        memcpy(out->name[out->ndim], at, name);
        out->dim[out->ndim++] = (int)size;
        at += length;
        at += *at != 0 ? 1 : 0;
    }
    if (out->ndim == 0) {
        return LS_FAIL(LS_ERR_INVALID, "'%.64s' is not a mesh such as 2x4 or host=2,gpu=4", text);
    }
    return ls_mesh_size(ranks, out);
}

static int fault_type(ls_fault_type *out, const char *word, size_t length) {
    static const char *const names[] = {
#define NAME(id, text) text,
        LS_FAULT_MAP(NAME)
#undef NAME
    };
    char name[32];
    (void)snprintf(name, sizeof name, "%.*s", (int)(length < 31 ? length : 31), word);
    for (int i = 0; i < LS_FAULT_TYPE_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (ls_fault_type)i;
            return LS_OK;
        }
    }
    const char *near = ls_nearest(name, names, LS_FAULT_TYPE_COUNT);
    return LS_FAIL(LS_ERR_INVALID, "there is no fault '%s'%s%s%s", name,
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

int ls_spmd__parse_faults(ls_fault *out, int *count, const char *text) {
    *count = 0;
    for (const char *at = text; *at != 0;) {
        size_t length = strcspn(at, ","), type = strcspn(at, "@,");
        size_t rank = type < length ? strcspn(at, ":,") : length;
        if (rank >= length || *count == LS_SPMD_FAULTS_MAX) {
            return LS_FAIL(
                LS_ERR_INVALID,
                "'%.64s' is not a list of at most %d faults such as TYPE@RANK:CALL[:AMOUNT]", text,
                LS_SPMD_FAULTS_MAX);
        }
        ls_fault *fault = &out[(*count)++];
        int64_t number = 0, call = 0;
        size_t after = rank + 1 + strcspn(at + rank + 1, ":,");
        *fault = (ls_fault){.amount = 0};
        LS_TRY(fault_type(&fault->type, at, type));
        LS_TRY(parse_int(&number, at + type + 1, rank - type - 1, "a fault's rank"));
        LS_TRY(parse_int(&call, at + rank + 1, after - rank - 1, "a fault's call"));
        bool counts = fault->type == LS_FAULT_WRONG_COUNT || fault->type == LS_FAULT_WRONG_SPLIT ||
                      fault->type == LS_FAULT_ALLOCATION;
        fault->amount = counts ? 1 : 0;
        if (after < length) {
            LS_TRY(
                parse_int(&fault->amount, at + after + 1, length - after - 1, "a fault's amount"));
        }
        if (number < 0 || number >= LS_RANKS_MAX || call < 0) {
            return LS_FAIL(LS_ERR_INVALID, "a fault's rank and call must be at least 0");
        }
        fault->rank = (int)number;
        fault->call = (uint64_t)call;
        at += length;
        at += *at != 0 ? 1 : 0;
    }
    return LS_OK;
}

// ---- The environment ----------------------------------------------------------------------------
static int number(int64_t *out, bool *set, const char *name, int64_t min, int64_t max) {
    const char *text = getenv(name);
    *set = text != NULL;
    if (text == NULL) {
        return LS_OK;
    }
    LS_TRY(parse_int(out, text, strlen(text), name));
    return *out >= min && *out <= max
               ? LS_OK
               : LS_FAIL(LS_ERR_INVALID, "%s must be from %lld to %lld, not %s", name,
                         (long long)min, (long long)max, text);
}

static int schedule(ls_spmd_options *options) {
    const char *text = getenv("LOCKSTEP_SCHEDULE");
    for (int i = 0; text != NULL && ls_spmd__schedules[i] != NULL; i++) {
        if (strcmp(ls_spmd__schedules[i], text) == 0) {
            options->schedule = (ls_schedule_kind)i;
            return LS_OK;
        }
    }
    return text == NULL ? LS_OK
                        : LS_FAIL(LS_ERR_INVALID,
                                  "LOCKSTEP_SCHEDULE must be round-robin, random, delay or "
                                  "parallel, not '%.64s'",
                                  text);
}

int ls_spmd__environment(ls_spmd_options *options, ls_fault *faults, int *tries) {
    int64_t value = 0;
    bool set = false;
    *tries = 0;
    LS_TRY(number(&value, &set, "LOCKSTEP_SEED", 0, INT64_MAX));
    options->seed = set ? (uint64_t)value : options->seed;
    LS_TRY(schedule(options));
    LS_TRY(number(&value, &set, "LOCKSTEP_DELAYED_RANK", 0, options->ranks - 1));
    options->delayed_rank = set ? (int)value : options->delayed_rank;
    LS_TRY(number(&value, &set, "LOCKSTEP_EXPLORE", 1, INT_MAX));
    *tries = set ? (int)value : 0;
    LS_TRY(number(&value, &set, "LOCKSTEP_LOOKAHEAD", 0, 4096));
    options->lookahead = set ? (int)value : options->lookahead;
    LS_TRY(number(&value, &set, "LOCKSTEP_HISTORY", 1, 4096));
    options->history = set ? (int)value : options->history;
    LS_TRY(number(&value, &set, "LOCKSTEP_STACK", 16, 1 << 20));
    options->stack_bytes = set ? (size_t)value << 10 : options->stack_bytes;
    LS_TRY(number(&value, &set, "LOCKSTEP_DEADLINE", 0, INT_MAX));
    if (set) {
        options->deadline_seconds = value > 0 ? (double)value : -1;
    }
    const char *checks = getenv("LOCKSTEP_CHECKS"), *list = getenv("LOCKSTEP_FAULTS");
    options->checks = checks != NULL ? checks : options->checks;
    if (list != NULL) {
        LS_TRY(ls_spmd__parse_faults(faults, &options->fault_count, list));
        options->faults = faults;
    }
    return LS_OK;
}
