// Rows that a module takes out of an earlier tensor's, as an expert takes its words.
#include <string.h>

#include "runner/diff/rows.h"

#define SOURCES_MAX 8  // earlier tensors whose rows are looked through

// The rows of a tensor that may be a source, cut into rows of the other tensor's size.
typedef struct source {
    const char **run, **ref;  // [count]
    size_t *place;            // [count] the index in the whole of a row of the run
    size_t *of_part;          // [parts]
    const int *ranks;         // [parts]
    size_t count, parts;
} source;

typedef struct listed {
    const char *const *at;  // [count] rows
    size_t count;
} listed;

// of_x[i]: the index in y of the row with the bytes of x[i]; of equal rows the first ones are taken
// in their order. *found false: a row is not there. *ascending is cleared where of_x falls.
static int match(bool *found, bool *ascending, size_t *of_x, ls_arena *arena, const listed *x,
                 const listed *y, size_t bytes) {
    ls_diff_row *a = NULL, *b = NULL;
    LS_TRY(ls_diff__sort_rows(&a, arena, x->at, x->count, bytes));
    LS_TRY(ls_diff__sort_rows(&b, arena, y->at, y->count, bytes));
    size_t at = 0;
    *found = true;
    for (size_t i = 0; *found && i < x->count; i++) {
        while (at < y->count && memcmp(b[at].at, a[i].at, bytes) < 0) {
            at++;
        }
        *found = at < y->count && memcmp(b[at].at, a[i].at, bytes) == 0;
        if (*found) {
            of_x[a[i].index] = b[at++].index;
        }
    }
    for (size_t i = 1; *found && i < x->count; i++) {
        *ascending = *ascending && of_x[i - 1] < of_x[i];
    }
    return LS_OK;
}

// *found false: its rows are no whole number of rows of `bytes`.
static int read_source(bool *found, source *out, const ls_diff_sides *sides, const ls_captured *ref,
                       const ls_captured *run, size_t bytes) {
    ls_diff_pair pair;
    ls_diff_rows rows;
    const char *why = NULL;
    *found = false;
    LS_TRY(ls_diff__pair(&pair, &why, sides, ref, run));
    if (why != NULL || ls_diff__cut_dim(&pair) != 0) {
        return LS_OK;
    }
    LS_TRY(ls_diff__rows(&rows, sides->arena, &pair, 0));
    size_t unit = rows.bytes / bytes;
    *out = (source){.of_part = rows.of_part,
                    .ranks = rows.ranks,
                    .count = rows.count * unit,
                    .parts = rows.parts};
    if (unit == 0 || rows.bytes % bytes != 0) {
        return LS_OK;
    }
    out->run = ls_arena_alloc(sides->arena, out->count, sizeof *out->run);
    out->ref = ls_arena_alloc(sides->arena, out->count, sizeof *out->ref);
    out->place = ls_arena_alloc(sides->arena, out->count, sizeof *out->place);
    LS_TRY_MEMORY(out->run != NULL && out->ref != NULL && out->place != NULL);
    for (size_t i = 0; i < out->count; i++) {
        out->run[i] = rows.at[i / unit] + i % unit * bytes;
        out->ref[i] = rows.ref[i / unit] + i % unit * bytes;
        out->place[i] = rows.place[i / unit] * unit + i % unit;
    }
    for (size_t p = 0; p < out->parts; p++) {
        out->of_part[p] *= unit;
    }
    *found = true;
    return LS_OK;
}

// to [of->count]: the reference's row of each of the ranks' rows, if all come from `from`.
static int trace_rows(bool *found, bool *ascending, size_t *to, ls_arena *arena,
                      const ls_diff_rows *of, const source *from) {
    size_t *run = ls_arena_alloc(arena, of->count, sizeof *run);
    size_t *ref = ls_arena_alloc(arena, of->count, sizeof *ref);
    size_t *row_at = ls_arena_alloc(arena, from->count, sizeof *row_at);  // index + 1; 0: none
    LS_TRY_MEMORY(run != NULL && ref != NULL && row_at != NULL);
    *ascending = true;
    const listed wanted = {of->ref, of->count}, all = {from->ref, from->count};
    LS_TRY(match(found, ascending, ref, arena, &wanted, &all, of->bytes));
    for (size_t p = 0, x = 0; *found && p < of->parts; x += of->of_part[p++]) {
        size_t q = 0, y = 0;
        while (q < from->parts && from->ranks[q] != of->ranks[p]) {
            y += from->of_part[q++];
        }
        *found = q < from->parts;
        const listed part = {of->at + x, of->of_part[p]};
        const listed own = {from->run + y, *found ? from->of_part[q] : 0};
        LS_TRY(*found ? match(found, ascending, run + x, arena, &part, &own, of->bytes) : LS_OK);
        for (size_t i = x; *found && i < x + of->of_part[p]; i++) {
            run[i] = from->place[y + run[i]];
        }
    }
    for (size_t i = 0; *found && i < of->count; i++) {
        row_at[ref[i]] = i + 1;
    }
    for (size_t i = 0; *found && i < of->count; i++) {
        *found = row_at[run[i]] > 0;
        to[i] = row_at[run[i]] - 1;
    }
    return LS_OK;
}

int ls_diff__source(bool *found, bool *ascending, size_t *to, const ls_diff_sides *sides,
                    const ls_diff_pair *pair, const ls_diff_rows *of) {
    size_t number = 0, step = ls_diff__step(&number, pair->ref_of->name), tries = 0;
    const ls_shape *shape = &pair->ref.shape;
    *found = false;
    for (const ls_captured *ref = pair->ref_of; !*found && ref-- > sides->ref->tensors;) {
        const ls_captured *run = ls_capture_find(sides->run, ref->name);
        const ls_shape *other = &ref->pieces[0].size;
        if (strncmp(ref->name, pair->ref_of->name, step) != 0 || tries == SOURCES_MAX) {
            return LS_OK;
        }
        // Other experts' rows are no whole batch.
        bool taken = run != NULL && run->deal != NULL && run->deal->taken;
        if (run == NULL || taken || !ref->optional || ref->part || run->dtype != of->dtype ||
            other->ndim == 0 || other->dim[other->ndim - 1] != shape->dim[shape->ndim - 1]) {
            continue;
        }
        source from = {0};
        LS_TRY(read_source(found, &from, sides, ref, run, of->bytes));
        if (*found) {
            LS_TRY(trace_rows(found, ascending, to, sides->arena, of, &from));
            tries++;
        }
    }
    return LS_OK;
}
