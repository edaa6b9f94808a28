// How ids fall on the rows of a table, from the ids themselves.
#include <stdlib.h>

#include "planner/planner.h"

static int compare_ids(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int ls_planner_profile_make(ls_planner_profile *out, const int64_t *ids, size_t count,
                            int64_t rows) {
    LS_ASSERT(out && (ids || count == 0));
    LS_ASSERT(rows >= 1);
    *out = (ls_planner_profile){.distinct = 1.0};
    int64_t *sorted;
    LS_TRY(ls_alloc((void **)&sorted, NULL, count, sizeof(*sorted)));
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= 0 && ids[i] < rows) {
            sorted[kept++] = ids[i];
        }
    }
    qsort(sorted, kept, sizeof(*sorted), compare_ids);
    size_t distinct = 0;
    double bins[LS_PLANNER_PROFILE_BINS] = {0};
    for (size_t i = 0; i < kept; i++) {
        distinct += i == 0 || sorted[i] != sorted[i - 1];
        int bin = (int)((double)sorted[i] / (double)rows * LS_PLANNER_PROFILE_BINS);
        bins[bin < LS_PLANNER_PROFILE_BINS ? bin : LS_PLANNER_PROFILE_BINS - 1] += 1.0;
    }
    for (int i = 0; i < LS_PLANNER_PROFILE_BINS; i++) {
        out->ids[i] = kept ? bins[i] / (double)kept : 1.0 / LS_PLANNER_PROFILE_BINS;
    }
    out->distinct = kept ? (double)distinct / (double)kept : 1.0;
    ls_free(NULL, sorted, count, sizeof(*sorted));
    return LS_OK;
}
