// How ids fall on the rows of a table, from the ids themselves.
#include "planner/planner.h"

// A set of rows: open addressing, at most half full.
typedef struct row_set {
    int64_t *slots;  // [size] a row + 1; 0: empty
    size_t size;     // a power of two
} row_set;

// Whether the row was not in the set yet.
static bool add_row(row_set *set, int64_t row) {
    uint64_t hash = (uint64_t)row * UINT64_C(0x9E3779B97F4A7C15);
    size_t at = (size_t)(hash >> 32) & (set->size - 1);
    while (set->slots[at] != 0 && set->slots[at] != row + 1) {
        at = (at + 1) & (set->size - 1);
    }
    bool fresh = set->slots[at] == 0;
    set->slots[at] = row + 1;
    return fresh;
}

int ls_planner_profile_make(ls_planner_profile *out, const int64_t *ids, size_t count,
                            int64_t rows) {
    LS_ASSERT(out && (ids || count == 0));
    LS_ASSERT(rows >= 1);
    *out = (ls_planner_profile){.distinct = 1.0};
    row_set seen = {.size = 2};
    while (seen.size / 2 < count) {
        seen.size *= 2;
    }
    LS_TRY(ls_alloc((void **)&seen.slots, seen.size, sizeof(*seen.slots)));
    size_t kept = 0, distinct = 0;
    double bins[LS_PLANNER_PROFILE_BINS] = {0};
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= rows) {
            continue;
        }
        kept++;
        distinct += add_row(&seen, ids[i]);
        int bin = (int)((double)ids[i] / (double)rows * LS_PLANNER_PROFILE_BINS);
        bins[bin < LS_PLANNER_PROFILE_BINS ? bin : LS_PLANNER_PROFILE_BINS - 1] += 1.0;
    }
    for (int i = 0; i < LS_PLANNER_PROFILE_BINS; i++) {
        out->ids[i] = kept ? bins[i] / (double)kept : 1.0 / LS_PLANNER_PROFILE_BINS;
    }
    out->distinct = kept ? (double)distinct / (double)kept : 1.0;
    ls_free(seen.slots, seen.size, sizeof(*seen.slots));
    return LS_OK;
}
