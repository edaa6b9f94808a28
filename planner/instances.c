// Made-up models to measure and test planners on.
#include "planner/planner.h"

#include <math.h>

#define POOLING_MEAN 13.6  // ids per bag, dlrm_datasets 2022
#define REUSE        12.7  // uses of a touched row there
#define ROWS_MEDIAN  1e6   //
#define ROWS_SIGMA   1.75  // of the logarithm: the middle 95 % span three decades
#define POOL_SIGMA   1.0   //
#define ROWS_MAX     2e8

static double clamp(double value, double least, double most) {
    if (value < least) {
        return least;
    }
    return value > most ? most : value;
}

static ls_planner_profile *make_profile(ls_arena *arena) {
    ls_planner_profile *profile = ls_arena_alloc(arena, 1, sizeof(*profile));
    if (profile) {
        for (int i = 0; i < LS_PLANNER_PROFILE_BINS; i++) {
            profile->ids[i] = 1.0 / LS_PLANNER_PROFILE_BINS;
        }
        profile->distinct = 1.0 / REUSE;
    }
    return profile;
}

int ls_planner_instance(ls_planner_table **tables, ls_arena *arena, ls_instance_kind kind,
                        int count, uint64_t seed) {
    LS_ASSERT(tables && arena);
    LS_ASSERT(count >= 1 && count <= LS_PLANNER_TABLES_MAX);
    static const int64_t widths[] = {32, 64, 64, 128, 128, 128, 256, 512};
    uint32_t stream = ls_random_stream("planner/instance");
    ls_planner_table *out = ls_arena_alloc(arena, (size_t)count, sizeof(*out));
    ls_planner_feature *features = ls_arena_alloc(arena, (size_t)count, sizeof(*features));
    ls_planner_profile *profile = make_profile(arena);
    LS_TRY_MEMORY(out != NULL && features != NULL && profile != NULL);
    for (int i = 0; i < count; i++) {
        uint64_t at = (uint64_t)i * 8;
        double rows;
        double pooling;
        if (kind == LS_INSTANCE_PRODUCTION) {
            rows = ROWS_MEDIAN * exp(ROWS_SIGMA * ls_random_normal(seed, stream, 0, at));
            // The mean of a log-normal is exp(mu + sigma^2 / 2).
            pooling = POOLING_MEAN * exp(POOL_SIGMA * ls_random_normal(seed, stream, 0, at + 1) -
                                         0.5 * POOL_SIGMA * POOL_SIGMA);
        } else {
            rows = 1e4 + 1e7 * ls_random_uniform(seed, stream, 0, at);
            pooling = 1.0 + 49.0 * ls_random_uniform(seed, stream, 0, at + 1);
        }
        features[i] = (ls_planner_feature){
            .pooling = clamp(pooling, 0.1, 500.0), .poolings = 1.0, .batch = 512.0};
        out[i] = (ls_planner_table){
            .name = ls_arena_printf(arena, "table_%d", i),
            .rows = (int64_t)clamp(rows, 10.0, ROWS_MAX),
            .columns = widths[ls_random_below(8, seed, stream, 0, at + 2)],
            .element_bytes = 4,
            .optimizer = "rowwise_adagrad",
            .features = &features[i],
            .feature_count = 1,
            .profile = kind == LS_INSTANCE_PRODUCTION ? profile : NULL,
        };
        LS_TRY_MEMORY(out[i].name != NULL);
    }
    *tables = out;
    return LS_OK;
}
