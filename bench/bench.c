// The table of suites, and their measuring functions.
#define _GNU_SOURCE
#include "bench/bench.h"

#include <stdio.h>
#include <time.h>

static const struct {
    const char *name;
    int (*run)(ls_bench *bench);
} suites[] = {
    {"collectives", ls_bench_suite_collectives},
    {"lookup", ls_bench_suite_lookup},
    {"orders", ls_bench_suite_orders},
    {"planner", ls_bench_suite_planner},
    {"ranks", ls_bench_suite_ranks},
    {"scenarios", ls_bench_suite_scenarios},
    {"sharded", ls_bench_suite_sharded},
    {"training", ls_bench_suite_training},
};
#define SUITE_COUNT ((int)(sizeof suites / sizeof suites[0]))

int ls_bench_run(ls_bench *bench) {
    LS_ASSERT(bench != NULL);
    LS_ASSERT(bench->repetitions >= 1);
    if (bench->suite != NULL) {
        LS_TRY(bench->suite(bench));
    }
    for (int i = 0; i < SUITE_COUNT && bench->suite == NULL; i++) {
        LS_TRY(suites[i].run(bench));
    }
    if (bench->row_count == 0) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "no benchmark is named '%s'", bench->only);
    }
    return LS_OK;
}

bool ls_bench_row_holds(const ls_bench_row *row) {
    return (row->ratio_limit == 0 || row->ratio <= row->ratio_limit) &&
           (row->time_ms_limit == 0 || row->time_ms <= row->time_ms_limit) &&
           (row->memory_ratio_limit == 0 || row->memory_ratio <= row->memory_ratio_limit) &&
           (row->memory_bytes_limit == 0 || row->memory_bytes <= row->memory_bytes_limit);
}

// ---- memory ------------------------------------------------------------------------------------
